/* SPDX-License-Identifier: BSD-3-Clause */
/* listener.h - a socket that clients connect to.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_LISTENER_H
#define MEMSERVER_LISTENER_H

#include <stdbool.h>

#include "base/addr.h"

struct listener;
struct options;
struct server;

/* Listen on what addr stands for, and on the same address with RDMA if there
 * is a device; adds to the server's listeners.  A Unix socket that nobody
 * listens on any more is replaced.
 */
int listener_open (struct server *srv, const struct fp_addr *addr, char *why);

/* Before anything is started: -EACCES: one of those of the options is where
 * the server may not listen (options_may_listen).  A name that cannot be
 * looked up is for listener_open to complain about.
 */
int listener_check (const struct options *o, char *why);

/* At one of the server's addresses other machines may come in clear. */
bool listener_is_insecure (const struct server *srv);

/* A Unix socket's file is removed. */
void listener_free (struct listener *l);

/* With the port that it got. */
const struct fp_addr *listener_addr (const struct listener *l);

#endif /* MEMSERVER_LISTENER_H */
