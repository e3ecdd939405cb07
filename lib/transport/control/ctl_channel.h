/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl_channel.h - the client's end of a control connection: send one request,
 * receive its reply, by a deadline.
 *
 * Units:    deadlines are points of fp_now_ns ().
 * Errors:   0 or a negative errno value.  After an error fp_ctl_why () returns
 *           a sentence for people, to be printed after "ADDRESS: ".
 *             -ETIMEDOUT      no complete reply by the deadline.
 *             -EPROTO         the server does not speak this protocol.
 *             -EPROTONOSUPPORT  the server speaks another version.
 *             -ECONNRESET     the server hung up.
 *             -EMSGSIZE       the request does not fit; nothing was sent.
 *             others          status of the reply (fp_status_to_errno).
 *           After -EMSGSIZE or the status of a reply, the channel is usable.
 *           After any other error it is broken: call fp_ctl_free.
 * Threads:  a channel belongs to one thread at a time.
 * Memory:   only open allocates; with TLS, each call does (tls.h).
 */

#ifndef FP_CTL_CHANNEL_H
#define FP_CTL_CHANNEL_H

#include <stdint.h>

#include "base/addr.h"
#include "proto/messages.h"

struct fp_ctl;
struct fp_tls_session;

/* Connect to addr, with TLS if fp_tls_set_client chose it, and send no
 * message.  After a failure *out is set too, so that fp_ctl_why can give the
 * reason: free it as usual.  After -ENOMEM *out is NULL, which fp_ctl_why and
 * fp_ctl_free accept.
 */
int fp_ctl_open (struct fp_ctl **out, const struct fp_addr *addr,
                 uint64_t deadline_ns);
void fp_ctl_free (struct fp_ctl *c);
void fp_ctl_freep (struct fp_ctl **cp);
/* Make the running call and all later ones fail soon, as if the server had
 * hung up.  Any thread may call this until fp_ctl_free begins.
 */
void fp_ctl_hang_up (struct fp_ctl *c);

/* Return the socket, for poll(2).  If it becomes readable while no call is
 * running, the server hung up or sent an unrequested message.
 */
int fp_ctl_fd (const struct fp_ctl *c);
bool fp_ctl_is_unix (const struct fp_ctl *c);
/* Return how the connection is protected.  "tls": by TLS.  "local": the data
 * does not leave this machine.  "insecure": anyone on the network path can
 * read and change it.
 */
const char *fp_ctl_secured (const struct fp_ctl *c);
const char *fp_ctl_why (const struct fp_ctl *c);

int fp_ctl_hello (struct fp_ctl *c, const struct fp_hello *q,
                  struct fp_hello_reply *p, uint64_t deadline_ns);
int fp_ctl_volume_open (struct fp_ctl *c, const struct fp_open *q,
                        struct fp_open_reply *p, uint64_t deadline_ns);
/* Fill in p, and in fds[i] the descriptor for grants[i], or -1.  The caller
 * closes the descriptors.  If the volume was opened for shm, each grant that
 * is not lost has one; else none has.
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
/* q is NULL for a server without FP_FEATURE_DRAIN. */
int fp_ctl_ping (struct fp_ctl *c, const struct fp_ping *q,
                 struct fp_ping_reply *p, uint64_t deadline_ns);
int fp_ctl_bye (struct fp_ctl *c, const struct fp_bye *q,
                uint64_t deadline_ns);
int fp_ctl_stat (struct fp_ctl *c, struct fp_stat_reply *p,
                 uint64_t deadline_ns);
/* Only for a server with FP_FEATURE_DRAIN. */
int fp_ctl_drain (struct fp_ctl *c, const struct fp_drain_req *q,
                  struct fp_drain_reply *p, uint64_t deadline_ns);

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

/* Fetch this client's key.  The process has the TLS identity of a join token.
 */
int fp_ctl_join (struct fp_ctl *c, struct fp_join_reply *p,
                 uint64_t deadline_ns);

/* Get a one-time token for the lane's next data connection. */
int fp_ctl_token (struct fp_ctl *c, const struct fp_token_req *q,
                  struct fp_token *p, uint64_t deadline_ns);
/* Turn this connection into a data connection of the tcp transport.  After
 * that, take the socket and its TLS session (NULL: none) away and free the
 * channel.
 */
int fp_ctl_data_hello (struct fp_ctl *c, const struct fp_data_hello *q,
                       uint64_t deadline_ns);
int fp_ctl_steal_fd (struct fp_ctl *c);
struct fp_tls_session *fp_ctl_steal_tls (struct fp_ctl *c);

#endif /* FP_CTL_CHANNEL_H */
