/* SPDX-License-Identifier: BSD-3-Clause */
/* servers.h - add servers to a volume that is in use, and remove them.
 *
 * A server that joins gets a place among the peers (peers.h).  The place is
 * closed at first: no extent goes there, and its lease does not count when
 * never-written data is read as zeros.  It is opened once the next client to
 * attach the volume will learn of the server.  For a volume with a name, the
 * list of members tells it.  For one without, the other servers know the new
 * number of servers (servers_count.c), and keep_servers has stored the
 * addresses.
 *
 * The place of a server that leaves is closed first.  If the client dies in
 * the middle, the volume has a server that holds nothing, or is without it.
 *
 * fp_peer.lock and fp_peers.lock are taken under count_lock.
 *
 * Errors:   0 or -errno; volume.h has them.
 * Threads:  one at a time may call add, remove and list; any may call counted.
 *           The threads of peers and metadata log carry the changes out.
 * Memory:   add, remove and keep_servers allocate.
 */

#ifndef FP_SERVERS_H
#define FP_SERVERS_H

#include <pthread.h>

#include "base/error.h"
#include "peer/peers.h"

struct fp_meta_log;
struct fp_migrate;

/* The caller sets meta_log and migrate. */
struct fp_servers {
  struct fp_peers *peers;
  struct fp_volume_params *p;
  struct fp_extents *extents;
  struct fp_lease *lease;
  struct fp_meta_log *meta_log; /* NULL = not recorded */
  struct fp_migrate *migrate;
  pthread_mutex_t count_lock; /* held to count the servers */
};

void fp_servers_init (struct fp_servers *set, struct fp_peers *peers);
void fp_servers_destroy (struct fp_servers *set);

/* As fp_volume_servers, fp_volume_add_server and fp_volume_remove_server. */
void fp_servers_list (struct fp_servers *set, struct fp_server_names *out);
int fp_servers_add (struct fp_servers *set, const struct fp_server_name *name,
                    struct fp_error *error);
int fp_servers_remove (struct fp_servers *set, unsigned i,
                       struct fp_error *error);

/* End the peers of these servers, which left at the start, and free their
 * places.
 */
void fp_servers_let_leave (struct fp_servers *set, uint64_t servers);

/* ---- servers_count.c ---- */

/* Tell the servers of a volume that is not recorded that there are nr servers.
 * Wait until all that are up know that, at least one.  all: every server has
 * to be up.  -ENOTCONN: not by a deadline of its own; they are told as soon as
 * possible.
 */
int fp_servers_recount (struct fp_servers *set, unsigned nr, bool all,
                        struct fp_error *error);
/* Open place i, which is JOINING or LEAVING, as soon as the servers know the
 * number.
 */
void fp_servers_open_counted (struct fp_servers *set, unsigned i);
/* Open the places that wait for the number.  Call after a server was told. */
void fp_servers_counted (struct fp_servers *set);

#endif /* FP_SERVERS_H */
