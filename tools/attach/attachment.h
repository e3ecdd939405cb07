/* SPDX-License-Identifier: BSD-3-Clause */
/* attachment.h - one attached device, from the choice of its name to its end:
 * the steps that the supervisor takes, and the one that undoes them.
 *
 *   claim -> serve -> connect -> save
 *
 * attachment_undo undoes the steps that were done, in reverse. It needs only
 * the state file, so that detach can clean up after a supervisor that was
 * killed.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  one.
 */

#ifndef FARPAGE_ATTACHMENT_H
#define FARPAGE_ATTACHMENT_H

#include <stdbool.h>

#include "base/error.h"
#include "tools/attach/front.h"
#include "tools/attach/nbd_genl.h"
#include "tools/attach/nbd_handshake.h"
#include "tools/attach/silence.h"
#include "tools/attach/ublk_control.h"
#include "tools/common/deadline.h"
#include "tools/common/state.h"

struct attachment {
  /* The caller of claim sets index, uuid, args, timeouts; index -1: any free
   * device.
   */
  struct state st;
  int lock; /* -1: not claimed */
  const struct front *front;
  struct front_proc process;
  char name[24]; /* the device's, for the log, once claimed */

  /* front_nbd.c */
  struct nbd_genl *genl;
  struct nbd_link shape; /* size and flags; fd is not used */
  char socket[STATE_PATH_MAX];

  /* front_ublk.c */
  struct ublk_control ublk;
  struct ublk_device ublk_device;
  struct silence silence;

  /* Gets the process's output while the user waits; NULL: only the log does.
   */
  void (*aloud) (const char *line);
};

#define ATTACHMENT_INIT                                                       \
  {                                                                           \
    .lock = -1, .process = FRONT_PROC_INIT, .name = "attach", .ublk = {       \
      .fd = -1                                                                \
    }                                                                         \
  }

/* Claim a device that is not in use. No other farpage process can then. */
int attachment_claim (struct attachment *a, struct fp_error *error);

/* Start the process, and wait until it serves. resume: a previous one died and
 * left its memory lent. It stays lent on failure, too.
 */
int attachment_serve (struct attachment *a, bool resume,
                      const struct deadline *d, struct fp_error *error);

/* Give st.connections connections to the kernel, for the first time. Then set
 * the queue's settings, and test that a read is answered.
 */
int attachment_connect (struct attachment *a, const struct deadline *d,
                        struct fp_error *error);

/* Make n connections in place of those that died. */
int attachment_reconnect (struct attachment *a, unsigned n,
                          const struct deadline *d, struct fp_error *error);

int attachment_save (struct attachment *a, struct fp_error *error);

/* Flush, disconnect, stop nbdkit, remove the state. With check: -EBUSY and no
 * change if the device is in use. If a step fails, the rest is done all the
 * same.
 */
int attachment_undo (struct attachment *a, bool check, struct fp_error *error);

#endif /* FARPAGE_ATTACHMENT_H */
