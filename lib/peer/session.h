/* SPDX-License-Identifier: BSD-3-Clause */
/* session.h - open a control connection and agree on its terms: what the
 * probe before the start and the peer after it have in common.
 *
 * Errors:   0, or -errno and a sentence in error that names the donor.
 * Threads:  one session, one thread.
 */

#ifndef FP_SESSION_H
#define FP_SESSION_H

#include "base/error.h"
#include "transport/control/ctl_channel.h"
#include "transport/transport.h"
#include "extent/volume_params.h"

struct fp_session {
  struct fp_ctl *ctl;
  struct fp_hello_reply hello;
  unsigned transports; /* set: supported by both ends, allowed by the user */
};

/* Least timeout for OPEN.  A server may keep it waiting for 5 s. */
#define FP_OPEN_MS 6000u

/* Connect, send HELLO, and check version, slab size and transports.  client
 * is the UUID of an earlier session whose mappings are all gone; NULL draws a
 * new UUID.
 */
int fp_session_open (struct fp_session *s, const struct fp_volume_params *p,
                     const struct fp_addr *addr, const struct fp_uuid *client,
                     uint64_t deadline_ns, struct fp_error *error);
void fp_session_close (struct fp_session *s);

/* Return the best transport of the set, which is not empty. */
const struct fp_transport_ops *fp_session_best (unsigned transports);

/* Return in *out the address for data connections of this transport. */
int fp_session_data_addr (const struct fp_session *s,
                          const struct fp_transport_ops *ops,
                          const struct fp_addr *control, struct fp_addr *out);

/* Fill in *cp with all that conn_open needs for one attempt, but for the
 * depth.  Ask the donor for a token, where connections of the transport must
 * show one.  *data must live as long as *cp.  Does not allocate.  If there is
 * no token, *said becomes the reason, valid until the next request; otherwise
 * it is left alone.
 */
int fp_session_conn_params (const struct fp_session *s,
                            const struct fp_volume_params *p,
                            const struct fp_transport_ops *ops,
                            const struct fp_addr *data, uint32_t lane,
                            struct fp_conn_params *cp, const char **said,
                            uint64_t deadline_ns);

/* Return the text for an error of conn_open; *said, if set, is better. */
const char *fp_session_conn_error (int err);

#endif /* FP_SESSION_H */
