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
 * after it.  If it forks earlier, the child looks it up anew.  Addresses that
 * are numbers need none.
 *
 * What a name was found to be is kept, for who must not look it up: a client
 * that swaps to a server has no memory for that when it has to connect again.
 * It is kept, too, when nobody was there: a server that starts again may be at
 * the same address, while nobody can say what that is.
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

/* What is known and not in doubt; else what it is found to be; else, what it
 * was: a look-up that fails has half of the time, and is not tried again for
 * half a minute.
 */
int fp_addr_find (const struct fp_addr *addr, struct fp_sockaddrs *out,
                  uint64_t deadline_ns, const char **why);

/* What it was when it was last looked up, however long ago; of a number
 * always. The first FP_KNOWN_ADDRS of them, of FP_KNOWN_NAMES names.  False:
 * not known, or it is in doubt.  Waits for nobody and allocates nothing.
 */
#define FP_KNOWN_ADDRS 4
#define FP_KNOWN_NAMES 64
bool fp_addr_known (const struct fp_addr *addr, struct fp_sockaddrs *out);

/* Nobody was there, or somebody else: it is to be looked up again, unless that
 * was tried within the last half minute.  True: it may lead elsewhere, for
 * what is known of it was said earlier than that.
 */
bool fp_addr_doubt (const struct fp_addr *addr);

/* Whatever is known of this host, with any port: whoever asks next looks it
 * up, and does not fall back to what it was.
 */
void fp_addr_forget (const struct fp_addr *addr);

#endif /* FP_RESOLVE_H */
