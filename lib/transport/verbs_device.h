/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_device.h - what a device can do, asked once, and the protection
 * domain that the lanes of this process share on it.
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

/* READs in flight on one queue pair, asked of either end: real cards have
 * 16, soft-RoCE 128; the device keeps what goes beyond in its queue.
 */
#define FP_VERBS_MAX_RD_ATOMIC 16

struct fp_verbs_device {
  struct ibv_context *context; /* librdmacm's: one for each device */
  struct ibv_pd *pd;           /* of the active side; NULL until asked for */
  bool iwarp;
  /* soft-iWARP takes an iova at registration and then ignores it: peers
   * must use the virtual address (siw_reg_user_mr, Linux 6.1).
   */
  bool ignores_iova;
  bool software;                   /* this host's CPUs do the work: rxe, siw */
  uint8_t max_initiator_depth;     /* as requester, capped as above */
  uint8_t max_responder_resources; /* as responder */
  unsigned max_cqe;
  unsigned max_qp_wr;

  /* Of a device that was taken away librdmacm closes the context when it finds
   * another one in its place, unless somebody has this list, which counts.
   */
  struct ibv_context **held;
  unsigned refs;
  struct fp_verbs_device *next;
};

/* 0, or -ENODEV and a sentence that says what to do. */
int fp_verbs_device_any (const char **why);

/* context is the verbs member of an rdma_cm id whose address is resolved. */
int fp_verbs_device_get (struct fp_verbs_device **out,
                         struct ibv_context *context);
void fp_verbs_device_put (struct fp_verbs_device *d);
void fp_verbs_device_putp (struct fp_verbs_device **dp);

/* The shared domain; lives as long as the device is held. */
int fp_verbs_device_pd (struct fp_verbs_device *d, struct ibv_pd **out);

/* The right that a device needs on memory that WRITE sends from and READ
 * puts data in.  An iWARP READ's answer arrives as a tagged write, so its
 * sink must be open to the peer (RFC 5040, 5.4; librpma's usage2access).
 */
int fp_verbs_local_access (const struct fp_verbs_device *d);

#endif /* FP_VERBS_DEVICE_H */
