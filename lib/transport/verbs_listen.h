/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_listen.h - internals shared by the files of the passive side; their
 * contract is verbs_server.h.
 */

#ifndef FP_VERBS_LISTEN_H
#define FP_VERBS_LISTEN_H

#include <stdbool.h>

#include "transport/verbs_cm.h"
#include "transport/verbs_device.h"
#include "transport/verbs_server.h"

/* Limits for half-open peers: accepted, but their client has not shown that it
 * got the reply.  Requests beyond the number are rejected, and a peer is
 * dropped after the time.
 */
#define FP_VERBS_MAX_HALF_OPEN 64
#define FP_VERBS_HALF_OPEN_MS 5000

/* Most queue pairs of one session: one per lane, and as many again that a
 * client has lost and replaces.
 */
#define FP_VERBS_MAX_PEERS 256

struct fp_verbs_domain {
  struct fp_verbs_device *device;
  struct ibv_pd *pd;
  struct ibv_cq *cq; /* stays empty; a queue pair needs one */
  unsigned nr_peers;
};

struct fp_verbs_peer {
  struct fp_verbs_listener *listener;
  struct fp_verbs_domain *domain;
  struct rdma_cm_id *id;
  void *cookie;
  bool half_open; /* accepted, not established */
  uint64_t half_open_by_ns;
  bool gone;                        /* the handler was told */
  struct fp_verbs_peer *next, **at; /* the listener's half-open list */
};

/* verbs_domain.c */
int fp_verbs_domain_new (struct fp_verbs_domain **out,
                         struct ibv_context *context);

/* verbs_peer.c: make a queue pair for id with the depths requested in e, and
 * accept.  On an error id is unchanged and must be rejected.
 */
int fp_verbs_peer_accept (struct fp_verbs_peer **out,
                          struct fp_verbs_domain *domain,
                          struct rdma_cm_id *id, const struct fp_cm_event *e);

/* verbs_listen.c: remove p from the half-open list, if it is there. */
void fp_verbs_listener_forget (struct fp_verbs_peer *p);

#endif /* FP_VERBS_LISTEN_H */
