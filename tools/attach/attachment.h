/* SPDX-License-Identifier: BSD-3-Clause */
/* attachment.h - one attached device, from the choice of /dev/nbdX to its
 * end: the steps that the supervisor takes, and the one that undoes them.
 *
 *   claim -> serve -> connect -> save
 *
 * attachment_undo takes back whatever was done, in reverse; it needs no
 * more than the state file, so that detach can clean up after a supervisor
 * that was killed.
 *
 * Errors:   0 or a negative errno value, and a sentence in w.
 * Threads:  one.
 */

#ifndef FARPAGE_ATTACHMENT_H
#define FARPAGE_ATTACHMENT_H

#include <stdbool.h>

#include "tools/attach/nbd_genl.h"
#include "tools/attach/nbd_handshake.h"
#include "tools/attach/nbdkit_proc.h"
#include "tools/common/deadline.h"
#include "tools/common/state.h"
#include "tools/common/why.h"

struct attachment {
  struct state st; /* index, uuid, args, timeouts set by the caller of claim;
                      st.index -1: any device that is free */
  int lock;        /* -1: not claimed */
  struct nbdkit_proc nbdkit;
  struct nbd_genl *genl;
  struct nbd_link shape; /* size and flags; its fd is not used */
  char socket[STATE_PATH_MAX];
  char name[16]; /* nbdX, once claimed: for the log */
  /* What nbdkit says while somebody waits for it; NULL: the log is enough. */
  void (*aloud) (const char *line);
};

/* A device that nobody uses, ours alone from now on. */
int attachment_claim (struct attachment *a, struct why *w);

/* Start nbdkit, and wait until an NBD client gets an answer. resume: its
 * predecessor died and left its memory lent. It is left so on failure, too.
 */
int attachment_serve (struct attachment *a, bool resume,
                      const struct deadline *d, struct why *w);

/* As many links as st.connections: to the kernel, for the first time. Then
 * the queue's settings, and a read that must be answered.
 */
int attachment_connect (struct attachment *a, const struct deadline *d,
                        struct why *w);

/* n new links in place of those that died. */
int attachment_reconnect (struct attachment *a, unsigned n,
                          const struct deadline *d, struct why *w);

int attachment_save (struct attachment *a, struct why *w);

/* Flush, disconnect, stop nbdkit, forget. With check: -EBUSY and no change
 * if the device is in use. Whatever fails, the rest is done.
 */
int attachment_undo (struct attachment *a, bool check, struct why *w);

#endif /* FARPAGE_ATTACHMENT_H */
