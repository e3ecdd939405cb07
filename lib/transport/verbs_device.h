/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_device.h - what a device can do, queried once, and the protection
 * domain that the lanes of this process share on the device.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  any.
 * Memory:   get allocates on first use of a device; the last put frees.
 */

#ifndef FP_VERBS_DEVICE_H
#define FP_VERBS_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* READs in flight on one queue pair, requested from either end.  Real cards
 * allow 16, soft-RoCE 128.  The device queues those beyond.
 */
#define FP_VERBS_MAX_RD_ATOMIC 16

struct fp_verbs_device {
  struct ibv_context *context; /* librdmacm's: one per device */
  struct ibv_pd *pd;           /* for the active side; NULL until requested */
  bool iwarp;
  /* soft-iWARP takes an iova at registration and then ignores it: peers
   * must use the virtual address (siw_reg_user_mr, Linux 6.1).
   */
  bool ignores_iova;
  bool software;                   /* host CPUs do the work: rxe, siw */
  uint8_t max_initiator_depth;     /* as requester; capped as above */
  uint8_t max_responder_resources; /* as responder; capped, too */
  unsigned max_cqe;
  unsigned max_qp_wr;

  /* List that keeps context open.  If a device was removed and librdmacm finds
   * another in its place, librdmacm closes the old context unless this list
   * still refers to it.
   */
  struct ibv_context **held;
  unsigned refs;
  struct fp_verbs_device *next;
};

/* Return 0 if there is a device; else -ENODEV, and advice in *why. */
int fp_verbs_device_any (const char **why);

/* Get a reference to the device of context, the verbs member of an rdma_cm id
 * whose address is resolved.
 */
int fp_verbs_device_get (struct fp_verbs_device **out,
                         struct ibv_context *context);
void fp_verbs_device_put (struct fp_verbs_device *d);
void fp_verbs_device_putp (struct fp_verbs_device **dp);

/* Get the shared protection domain, which lives as long as the device. */
int fp_verbs_device_pd (struct fp_verbs_device *d, struct ibv_pd **out);

/* Return the access flags for memory that a WRITE sends from or a READ fills.
 * The reply to an iWARP READ arrives as a tagged write, so the memory must be
 * open to the peer (RFC 5040, 5.4; librpma's usage2access).
 */
int fp_verbs_local_access (const struct fp_verbs_device *d);

#endif /* FP_VERBS_DEVICE_H */
