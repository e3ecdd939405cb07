/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve.h - the socket addresses of a host name, by a deadline.
 *
 * getaddrinfo(3) has no deadline: if a name server is silent, it takes half a
 * minute or more.  getaddrinfo_a(3) cannot cancel a look-up that has begun,
 * and does not say when its memory may be freed.  So each look-up has a thread
 * of its own, and a caller waits only as long as it wants.  The last of them
 * to leave frees what they share.  At most one look-up per address is under
 * way, and later callers wait for the same one.  So however often a name is
 * tried, it has one thread.
 *
 * A look-up that ends in time leaves no thread behind, so the process may fork
 * afterwards.  If it forks earlier, the child starts the look-up again.
 * Addresses that are numbers need no look-up.
 *
 * The result is kept for callers that must not look a name up.  A client that
 * swaps to a server has no memory for a look-up when it must connect again.
 * The result is kept even if the server does not answer.  The server may
 * restart at the same address while no name server answers.
 *
 * Errors:   those of fp_addr_resolve and pthread_create(3), -ENOMEM, and
 *           -ETIMEDOUT if there is no answer by the deadline.
 * Threads:  any.
 */

#ifndef FP_RESOLVE_H
#define FP_RESOLVE_H

#include "base/addr.h"

int fp_addr_resolve_by (const struct fp_addr *addr, struct fp_sockaddrs *out,
                        uint64_t deadline_ns, const char **why);

/* Return the addresses that are known and not in doubt, else those of a new
 * look-up, else the last known ones.  If there are known ones, the look-up
 * gets half of the time.  After it fails, it is not tried again for half a
 * minute.
 */
int fp_addr_find (const struct fp_addr *addr, struct fp_sockaddrs *out,
                  uint64_t deadline_ns, const char **why);

/* Return in *out the addresses of the last look-up, however old.  A number is
 * always known.  The first FP_KNOWN_ADDRS addresses of FP_KNOWN_NAMES names
 * are kept.  Return false if addr is not known or is in doubt.  This neither
 * waits nor allocates.
 */
#define FP_KNOWN_ADDRS 4
#define FP_KNOWN_NAMES 64
bool fp_addr_known (const struct fp_addr *addr, struct fp_sockaddrs *out);

/* Put addr in doubt, because no server or another server was there.  Then it
 * is looked up again, unless that was tried within the last half minute.
 * Return true if the known addresses are older than that, so that addr may now
 * lead elsewhere.
 */
bool fp_addr_doubt (const struct fp_addr *addr);

/* Forget the addresses of this host, with any port.  The next caller looks it
 * up, and cannot fall back to old ones.
 */
void fp_addr_forget (const struct fp_addr *addr);

#endif /* FP_RESOLVE_H */
