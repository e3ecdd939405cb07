/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_client.h - the transport "rdma"; see transport.h for its calls. */

#ifndef FP_VERBS_CLIENT_H
#define FP_VERBS_CLIENT_H

#include "transport/transport.h"

extern const struct fp_transport_ops fp_transport_rdma;

#endif /* FP_VERBS_CLIENT_H */
