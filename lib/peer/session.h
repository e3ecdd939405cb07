/* SPDX-License-Identifier: BSD-3-Clause */
/* session.h - open a control connection and agree: what the probe before
 * the start and the peer after it have in common.
 *
 * Errors:   0 or -errno, with a sentence in why that names the server.
 * Threads:  one session, one thread.
 */

#ifndef FP_SESSION_H
#define FP_SESSION_H

#include "transport/ctl_channel.h"
#include "transport/transport.h"
#include "volume/volume.h"

struct fp_session {
  struct fp_ctl *ctl;
  struct fp_hello_reply hello;
  unsigned transports; /* what both ends can and the user allows */
};

/* Connect, HELLO, check version, slab size and transports.  client: the name
 * of an earlier session, of which nothing is mapped any more; NULL: there is
 * none.
 */
int fp_session_open (struct fp_session *s, const struct fp_volume_params *p,
                     const struct fp_addr *addr, const struct fp_uuid *client,
                     uint64_t deadline_ns, char why[FP_WHY_MAX]);
void fp_session_close (struct fp_session *s);

/* The best transport of the set, which is not empty. */
const struct fp_transport_ops *fp_session_best (unsigned transports);

/* Where this transport's data connections go. */
int fp_session_data_addr (const struct fp_session *s,
                          const struct fp_transport_ops *ops,
                          const struct fp_addr *control, struct fp_addr *out);

/* What conn_open needs for one attempt, but for the depth.  Asks the server
 * for a token, where the transport's connections have to show one; *data is to
 * stay as long as *cp does.  Does not allocate.  *said: if there is none, why,
 * as long as nothing else is asked; else it is left alone.
 */
int fp_session_conn_params (const struct fp_session *s,
                            const struct fp_volume_params *p,
                            const struct fp_transport_ops *ops,
                            const struct fp_addr *data, uint32_t lane,
                            struct fp_conn_params *cp, const char **said,
                            uint64_t deadline_ns);

/* Why conn_open failed, unless somebody has said it. */
const char *fp_session_conn_error (int err);

#endif /* FP_SESSION_H */
