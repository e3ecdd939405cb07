/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl.h - control messages: a handler for each type, and one table.
 *
 * A handler reads its request, fills in the body of its reply and returns 0.
 * On failure it returns a negative errno value, with the reason in call->why.
 * It never sends.
 *
 * CTL_WAIT means not yet.  The handler must have changed nothing that trying
 * again would spoil.  It is called again after sessions_poke, the last time
 * with session->patience == PATIENCE_OVER.
 *
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_CTL_H
#define MEMSERVER_CTL_H

#include <stdint.h>

#include "memserver/session/conn.h"
#include "proto/messages.h"

struct record;
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

typedef int ctl_handler (struct call *call);

/* ctl_session.c */
ctl_handler ctl_hello, ctl_open, ctl_ping, ctl_bye, ctl_token, ctl_data_hello;
/* ctl_slabs.c */
ctl_handler ctl_list, ctl_grant, ctl_label, ctl_release, ctl_zero;
/* ctl_stat.c */
ctl_handler ctl_stat;
/* ctl_volumes.c */
ctl_handler ctl_lookup, ctl_members, ctl_map, ctl_map_read, ctl_map_write,
    ctl_delete, ctl_volumes;

/* Set call->why and return err. */
int ctl_fail (struct call *call, int err, const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 3, 4)));

/* Refuse because another client has the volume.  Return -EBUSY, and name that
 * client.
 */
int ctl_refuse_busy (struct call *call, const struct record *rec);

#endif /* MEMSERVER_CTL_H */
