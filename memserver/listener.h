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
#include "base/error.h"

struct listener;
struct options;
struct server;

/* Listen on all addresses that addr stands for, and with RDMA on the same ones
 * if there is a device.  Add to the server's listeners.  Replace a Unix socket
 * that no program listens on any more.
 */
int listener_open (struct server *srv, const struct fp_addr *addr,
                   struct fp_error *error);

/* Check the options before anything is started.  -EACCES: the server may not
 * listen on one of the addresses (options_may_listen).  A name that cannot be
 * looked up is left to listener_open.
 */
int listener_check (const struct options *o, struct fp_error *error);

/* Return true if other machines can reach an address of the server without
 * TLS.
 */
bool listener_is_insecure (const struct server *srv);

/* Free the listener, and remove the file of a Unix socket. */
void listener_free (struct listener *l);

/* Return the address, with the port that it got. */
const struct fp_addr *listener_addr (const struct listener *l);

#endif /* MEMSERVER_LISTENER_H */
