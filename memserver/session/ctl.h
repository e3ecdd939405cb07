/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl.h - control messages: a handler for each type, and one table.  See
 * call.h for what a handler gets and returns.
 *
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_CTL_H
#define MEMSERVER_CTL_H

#include "memserver/session/call.h"

struct record;
struct sessions;

typedef int ctl_handler (struct call *call);

/* Call the handler of the message that s has received.  Answer it, or let it
 * wait.
 */
void ctl_dispatch (struct session *s);

/* ctl_session.c */
ctl_handler ctl_hello, ctl_open, ctl_ping, ctl_bye, ctl_token, ctl_join,
    ctl_data_hello;
/* ctl_slabs.c */
ctl_handler ctl_list, ctl_grant, ctl_label, ctl_release, ctl_zero;
/* ctl_stat.c */
ctl_handler ctl_stat;
/* drain.c */
ctl_handler ctl_drain;
/* ctl_volumes.c */
ctl_handler ctl_lookup, ctl_members, ctl_map, ctl_map_read, ctl_map_write,
    ctl_delete, ctl_volumes;

/* Refuse because another client has the volume.  Return -EBUSY, and name that
 * client.
 */
int ctl_refuse_busy (struct call *call, const struct record *rec);

#endif /* MEMSERVER_CTL_H */
