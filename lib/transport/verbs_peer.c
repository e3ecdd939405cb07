/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_peer.c - a queue pair on the passive side, from the acceptance of its
 * request until its session ends it.  No work is ever posted to it.  The
 * device alone answers READ and WRITE, within the keys of its protection
 * domain.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "transport/verbs_connect.h"
#include "transport/verbs_err.h"
#include "transport/verbs_listen.h"

int
fp_verbs_peer_accept (struct fp_verbs_peer **out,
                      struct fp_verbs_domain *domain, struct rdma_cm_id *id,
                      const struct fp_cm_event *e)
{
  FP_CLEANUP (fp_free) struct fp_verbs_peer *p = NULL;
  struct ibv_qp_init_attr attr = {
    .qp_type = IBV_QPT_RC,
    .send_cq = domain->cq,
    .recv_cq = domain->cq,
    .cap = { .max_send_wr = 1,
             .max_recv_wr = 1,
             .max_send_sge = 1,
             .max_recv_sge = 1 },
  };
  struct rdma_conn_param param = {
    /* READs that the client may have in flight: the smaller of its request and
     * the device's limit.
     */
    .responder_resources = FP_MIN (e->responder_resources,
                                   domain->device->max_responder_resources),
    .initiator_depth =
        FP_MIN (e->initiator_depth, domain->device->max_initiator_depth),
    .rnr_retry_count = FP_VERBS_RETRIES,
  };
  int err;

  if (domain->nr_peers >= FP_VERBS_MAX_PEERS)
    return -EBUSY;
  p = calloc (1, sizeof *p);
  if (p == NULL)
    return -ENOMEM;
  err = fp_rdma_ret (rdma_create_qp (id, domain->pd, &attr));
  if (err != 0)
    return err;
  err = fp_rdma_ret (rdma_accept (id, &param));
  if (err != 0) {
    rdma_destroy_qp (id);
    return err;
  }
  domain->nr_peers++;
  p->domain = domain;
  p->id = id;
  id->context = p;
  *out = FP_STEAL (p);
  return 0;
}

void
fp_verbs_peer_free (struct fp_verbs_peer *p)
{
  if (p == NULL)
    return;
  fp_verbs_listener_forget (p);
  /* Tell the client, if it is still there. */
  (void) fp_rdma_ret (rdma_disconnect (p->id));
  rdma_destroy_qp (p->id);
  rdma_destroy_id (p->id);
  p->domain->nr_peers--;
  free (p);
}
