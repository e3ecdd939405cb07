/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_listen.h - what the files of the passive side know of each other;
 * their contract is verbs_server.h.
 */

#ifndef FP_VERBS_LISTEN_H
#define FP_VERBS_LISTEN_H

#include <stdbool.h>

#include "transport/verbs_cm.h"
#include "transport/verbs_device.h"
#include "transport/verbs_server.h"

/* Requests that were answered, and whose client has not shown that it got
 * the answer: more are rejected, and each has so long.
 */
#define FP_VERBS_MAX_HALF_OPEN 64
#define FP_VERBS_HALF_OPEN_MS 5000

/* Queue pairs of one session: one for each lane, and as many again that a
 * client lost and replaces.
 */
#define FP_VERBS_MAX_PEERS 256

struct fp_verbs_domain {
  struct fp_verbs_device *device;
  struct ibv_pd *pd;
  struct ibv_cq *cq; /* nothing ever arrives here; a queue pair needs one */
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
  struct fp_verbs_peer *next, **at; /* list of the listener */
};

/* verbs_domain.c */
int fp_verbs_domain_new (struct fp_verbs_domain **out,
                         struct ibv_context *context);

/* verbs_peer.c: make a queue pair for id, which asks as e says, and accept.
 * On an error id is as before, and must be rejected.
 */
int fp_verbs_peer_accept (struct fp_verbs_peer **out,
                          struct fp_verbs_domain *domain,
                          struct rdma_cm_id *id, const struct fp_cm_event *e);

/* verbs_listen.c: the peer is no longer half open, or is being freed. */
void fp_verbs_listener_forget (struct fp_verbs_peer *p);

#endif /* FP_VERBS_LISTEN_H */
