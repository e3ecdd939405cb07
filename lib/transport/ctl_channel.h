/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl_channel.h - the client's end of a control connection: send one
 * request, receive its reply, by a deadline.
 *
 * Units:    deadlines are points of fp_now_ns ().
 * Errors:   0 or a negative errno value; fp_ctl_why () has a sentence for
 *           people after an error: what the peer said, or what it did.
 *           It is meant to follow "ADDRESS: ".
 *             -ETIMEDOUT      no whole answer by the deadline
 *             -EPROTO         the peer does not speak this protocol
 *             -EPROTONOSUPPORT  another version of it
 *             -ECONNRESET     it hung up
 *             others          status of the reply (fp_status_to_errno)
 *           After any error that is not a reply's status the channel is
 *           broken: the only thing left to do is fp_ctl_free.
 * Threads:  a channel belongs to one thread at a time.
 * Memory:   only open allocates.
 */

#ifndef FP_CTL_CHANNEL_H
#define FP_CTL_CHANNEL_H

#include <stdint.h>

#include "base/addr.h"
#include "proto/messages.h"

struct fp_ctl;
struct fp_tls_session;

/* Connect the socket, with TLS where fp_tls_set_client said so; says nothing
 * yet.  *out is set on failure too, so
 * that fp_ctl_why can say why; it is to be freed then like any other.  (It is
 * NULL after -ENOMEM, which fp_ctl_why and fp_ctl_free take.)  Looking up a
 * host name may take longer than the deadline: that wait is the resolver's.
 */
int fp_ctl_open (struct fp_ctl **out, const struct fp_addr *addr,
                 uint64_t deadline_ns);
void fp_ctl_free (struct fp_ctl *c);
void fp_ctl_freep (struct fp_ctl **cp);
/* From any thread, before it is freed: the call that is running fails soon, as
 * if the server had hung up, and so does every other.
 */
void fp_ctl_hang_up (struct fp_ctl *c);

/* The socket, for poll(2): readable while no call is running means that
 * the server hung up (or sent what nobody asked for).
 */
int fp_ctl_fd (const struct fp_ctl *c);
bool fp_ctl_is_unix (const struct fp_ctl *c);
/* "tls"; "local": it does not leave this machine; or "insecure": who is on the
 * way can read and change it.
 */
const char *fp_ctl_secured (const struct fp_ctl *c);
const char *fp_ctl_why (const struct fp_ctl *c);

int fp_ctl_hello (struct fp_ctl *c, const struct fp_hello *q,
                  struct fp_hello_reply *p, uint64_t deadline_ns);
int fp_ctl_volume_open (struct fp_ctl *c, const struct fp_open *q,
                        struct fp_open_reply *p, uint64_t deadline_ns);
/* fds[i] belongs to grants[i], or is -1; the caller closes them.  They come
 * if the volume was opened for shm, one for each grant, and only then.
 */
int fp_ctl_list (struct fp_ctl *c, const struct fp_list *q,
                 struct fp_grants *p, int fds[FP_MAX_GRANTS],
                 uint64_t deadline_ns);
int fp_ctl_grant (struct fp_ctl *c, const struct fp_grant_req *q,
                  struct fp_grants *p, int fds[FP_MAX_GRANTS],
                  uint64_t deadline_ns);
int fp_ctl_label (struct fp_ctl *c, const struct fp_labels *q,
                  uint64_t deadline_ns);
int fp_ctl_release (struct fp_ctl *c, const struct fp_release *q,
                    uint64_t deadline_ns);
int fp_ctl_zero (struct fp_ctl *c, const struct fp_zero *q,
                 uint64_t deadline_ns);
int fp_ctl_ping (struct fp_ctl *c, struct fp_ping_reply *p,
                 uint64_t deadline_ns);
int fp_ctl_bye (struct fp_ctl *c, const struct fp_bye *q,
                uint64_t deadline_ns);
int fp_ctl_stat (struct fp_ctl *c, struct fp_stat_reply *p,
                 uint64_t deadline_ns);

int fp_ctl_lookup (struct fp_ctl *c, const struct fp_lookup *q,
                   struct fp_lookup_reply *p, uint64_t deadline_ns);
int fp_ctl_members (struct fp_ctl *c, const struct fp_members *q,
                    uint64_t deadline_ns);
int fp_ctl_map (struct fp_ctl *c, const struct fp_map_change *q,
                uint64_t deadline_ns);
int fp_ctl_map_read (struct fp_ctl *c, const struct fp_map_read *q,
                     struct fp_map_words *p, uint64_t deadline_ns);
int fp_ctl_map_write (struct fp_ctl *c, const struct fp_map_words *q,
                      uint64_t deadline_ns);
int fp_ctl_delete (struct fp_ctl *c, const struct fp_delete *q,
                   uint64_t deadline_ns);
int fp_ctl_volumes (struct fp_ctl *c, const struct fp_volumes_req *q,
                    struct fp_volumes *p, uint64_t deadline_ns);

/* What the next data connection of a lane has to show; it does so once. */
int fp_ctl_token (struct fp_ctl *c, const struct fp_token_req *q,
                  struct fp_token *p, uint64_t deadline_ns);
/* Turn this connection into a data connection of the tcp transport: after
 * it, take the socket away, with the TLS on it (NULL: there is none), and free
 * the channel.
 */
int fp_ctl_data_hello (struct fp_ctl *c, const struct fp_data_hello *q,
                       uint64_t deadline_ns);
int fp_ctl_steal_fd (struct fp_ctl *c);
struct fp_tls_session *fp_ctl_steal_tls (struct fp_ctl *c);

#endif /* FP_CTL_CHANNEL_H */
