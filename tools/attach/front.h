/* SPDX-License-Identifier: BSD-3-Clause */
/* front.h - the two ways to make a block device of a volume: the kernel's NBD
 * client with nbdkit (front_nbd.c), and ublk with farpage-ublk (front_ublk.c).
 *
 *   attach    claim, set_params, is_ready, connect
 *   restart   take_over, set_params, is_ready, reconnect
 *   detach    answers, disconnect, forget, close
 *
 * To detach a device whose supervisor is dead, open comes first.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  one.
 */

#ifndef FARPAGE_FRONT_H
#define FARPAGE_FRONT_H

#include <stdbool.h>

#include "base/error.h"
#include "tools/attach/front_proc.h"
#include "tools/common/deadline.h"

struct attachment;

struct front {
  const char *program; /* the name of the process, for messages */
  /* Kernel module, and the option that modprobe(8) passes to it, or NULL. */
  const char *module, *module_option;
  /* The kernel keeps requests without a process for ever, not for the dead
   * timeout.
   */
  bool waits_for_ever;
  /* After disconnect the device stays until its last user has closed it. */
  bool lingers;

  /* Open the interface of the kernel. */
  int (*open) (struct attachment *a, struct fp_error *error);
  /* Reserve a device that no other process uses: set a->st.index and a->lock,
   * and make the state directory.
   */
  int (*claim) (struct attachment *a, struct fp_error *error);
  /* A process died: have the kernel keep requests for the next one.  NULL: it
   * does that by itself.
   */
  int (*take_over) (struct attachment *a, const struct deadline *d,
                    struct fp_error *error);
  /* Complete what the process is started with. */
  void (*set_params) (struct attachment *a, struct front_proc_params *p);
  /* Look whether the process serves.  0: yes, and size is set.  -EAGAIN: not
   * yet.
   */
  int (*is_ready) (struct attachment *a, const struct deadline *d,
                   struct fp_error *error);
  /* Make the disk, for the first process. */
  int (*connect) (struct attachment *a, const struct deadline *d,
                  struct fp_error *error);
  /* Give the device to the new process.  n: connections that died, all of them
   * if a process did.
   */
  int (*reconnect) (struct attachment *a, unsigned n, const struct deadline *d,
                    struct fp_error *error);
  /* Return true if the process answers, so that a flush does not wait long. */
  bool (*answers) (struct attachment *a, struct fp_error *error);
  /* Return true if requests wait, and none was answered for the timeout. NULL:
   * the kernel looks after that.
   */
  bool (*is_stuck) (struct attachment *a);
  /* Take the device away from its users. */
  int (*disconnect) (struct attachment *a, struct fp_error *error);
  /* Remove the kernel's device, after the process has ended.  NULL: it stays,
   * without a size.
   */
  int (*forget) (struct attachment *a, struct fp_error *error);
  void (*close) (struct attachment *a);

  /* A descriptor that is readable after events, or -1.  take_events forgets
   * those so far, and returns how many connections died.
   */
  int (*event_fd) (const struct attachment *a);
  unsigned (*take_events) (struct attachment *a);
};

extern const struct front front_nbd, front_ublk;

/* Return the front end of a device. */
const struct front *front_of (int index);

#endif /* FARPAGE_FRONT_H */
