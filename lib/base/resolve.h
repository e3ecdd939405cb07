/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve.h - the socket addresses of a host name, by a deadline.
 *
 * getaddrinfo(3) has no deadline: with a name server that is silent it takes
 * half a minute or more.  getaddrinfo_a(3) cannot cancel what it has begun,
 * and does not say when what was given up may be freed.  So a thread of its
 * own looks a name up, and who wants it waits for as long as it will; the last
 * of them to leave frees what they share.  For one address one look-up is
 * under way at a time, and who asks for it meanwhile waits for the same:
 * however often it is tried again there is one thread for each name.
 *
 * What was done in time leaves no thread behind, so that a process may fork
 * after it.  Addresses that are numbers need none.
 *
 * What a name was found to be is kept, for who must not look it up: a client
 * that swaps to a server has no memory for that when it has to connect again.
 *
 * Errors:   those of fp_addr_resolve; -ETIMEDOUT: no answer by the deadline;
 *           -ENOMEM, or what pthread_create says.
 * Threads:  any.
 */

#ifndef FP_RESOLVE_H
#define FP_RESOLVE_H

#include "base/addr.h"

int fp_addr_resolve_by (const struct fp_addr *addr, struct fp_sockaddrs *out,
                        uint64_t deadline_ns, const char **why);

/* What it was when it was last looked up, however long ago; of a number
 * always. The first FP_KNOWN_ADDRS of them, of FP_KNOWN_NAMES names.  False:
 * not known, or it is in doubt.  Waits for nobody and allocates nothing.
 */
#define FP_KNOWN_ADDRS 4
#define FP_KNOWN_NAMES 64
bool fp_addr_known (const struct fp_addr *addr, struct fp_sockaddrs *out);

/* Nobody was there, or somebody else: it is to be looked up again, unless that
 * was done within the last half minute.  True: it is not known any more.
 */
bool fp_addr_doubt (const struct fp_addr *addr);

#endif /* FP_RESOLVE_H */
