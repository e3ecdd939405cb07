/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_err.h - convert errors of libibverbs and librdmacm to 0 or -errno.
 * They report errors in five ways, and each call goes through the function
 * that fits.
 *
 *   returns an errno value         ibv_post_send, ibv_modify_qp,
 *                                  ibv_req_notify_cq, ibv_query_*,
 *                                  ibv_dereg_mr, ibv_dealloc_pd,
 *                                  ibv_destroy_*         fp_verbs_ret
 *   returns NULL and sets errno    ibv_alloc_pd, ibv_reg_mr, ibv_create_*,
 *                                  rdma_create_event_channel
 *                                                        fp_verbs_null
 *   returns -1 and sets errno      rdma_*, ibv_get_cq_event
 *                                                        fp_rdma_ret
 *   the status of a completion                           fp_wc_errno
 *   negative without errno         ibv_poll_cq           (no function)
 */

#ifndef FP_VERBS_ERR_H
#define FP_VERBS_ERR_H

#include <errno.h>

#include <infiniband/verbs.h>

static inline int
fp_verbs_ret (int r)
{
  return r == 0 ? 0 : r > 0 ? -r : errno > 0 ? -errno : -EIO;
}

/* Convert the result of ibv_dereg_mr or ibv_destroy_qp.  Return 0 also if the
 * device's driver was unbound.  The kernel then destroys all objects on the
 * device and answers every call with EIO (disassociate_ucontext,
 * drivers/infiniband/core).  If the device still answers otherwise, it may
 * access the memory.
 */
static inline int
fp_verbs_destroy_ret (struct ibv_context *device, int r)
{
  struct ibv_device_attr attr;
  int err = fp_verbs_ret (r);

  return err == -EIO && fp_verbs_ret (ibv_query_device (device, &attr)) == -EIO
             ? 0
             : err;
}

/* Return -errno after a NULL result; -EIO if the driver set no errno. */
static inline int
fp_verbs_null (void)
{
  return errno > 0 ? -errno : -EIO;
}

static inline int
fp_rdma_ret (int r)
{
  return r == 0 ? 0 : errno > 0 ? -errno : -EIO;
}

static inline int
fp_wc_errno (enum ibv_wc_status status)
{
  switch (status) {
  case IBV_WC_SUCCESS:
    return 0;
  case IBV_WC_REM_ACCESS_ERR: /* bad key, or outside its bounds */
  case IBV_WC_REM_ABORT_ERR:
    return -EACCES;
  case IBV_WC_RETRY_EXC_ERR: /* no acknowledgement */
  case IBV_WC_RNR_RETRY_EXC_ERR:
  case IBV_WC_RESP_TIMEOUT_ERR:
    return -ETIMEDOUT;
  case IBV_WC_WR_FLUSH_ERR: /* another op is the cause */
    return -ECONNRESET;
  case IBV_WC_LOC_LEN_ERR:
  case IBV_WC_LOC_PROT_ERR:
  case IBV_WC_LOC_ACCESS_ERR:
    return -EFAULT;
  case IBV_WC_REM_INV_REQ_ERR:
    return -EINVAL;
  default:
    return -EIO;
  }
}

#endif /* FP_VERBS_ERR_H */
