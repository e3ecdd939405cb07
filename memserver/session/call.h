/* SPDX-License-Identifier: BSD-3-Clause */
/* call.h - a control message that is being answered.
 *
 * A handler reads its request, fills in the body of its reply and returns 0.
 * On failure it returns a negative errno value, with the reason in call->why.
 * It never sends.
 *
 * A handler returns CTL_WAIT if it cannot answer yet.  It must then have
 * changed nothing that a second call would spoil.  It is called again after
 * each sessions_poke, and a last time after WAIT_MS, with session->patience ==
 * PATIENCE_OVER.
 *
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_CALL_H
#define MEMSERVER_CALL_H

#include "memserver/session/conn.h"
#include "proto/messages.h"

struct session;

#define CTL_WAIT 1

struct call {
  struct session *session;
  const struct fp_header *header;
  struct fp_reader in;
  struct fp_writer out;
  int fds[FP_MAX_GRANTS]; /* to send with the reply, not to close */
  unsigned nr_fds;
  enum conn_after after;
  char why[FP_REASON_MAX + 1];
};

/* Set call->why to the formatted text, and return err. */
int ctl_fail (struct call *call, int err, const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 3, 4)));

#endif /* MEMSERVER_CALL_H */
