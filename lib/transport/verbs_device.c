/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_device.c - see verbs_device.h.  librdmacm opens each device once per
 * process, so its context identifies the device.
 */

#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <rdma/rdma_cma.h>

#include "base/cleanup.h"
#include "transport/verbs_device.h"
#include "transport/verbs_err.h"

#define SIW_VENDOR_ID 0x626d74 /* see the kernel's siw.h */
#define RXE_VENDOR_ID 0xffffff /* see the kernel's rxe_param.h */

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fp_verbs_device *devices; /* protected by devices_lock */

int
fp_verbs_device_any (const char **why)
{
  struct ibv_device **list;
  int n = 0;

  list = ibv_get_device_list (&n);
  if (list != NULL)
    ibv_free_device_list (list);
  if (list != NULL && n > 0)
    return 0;
  *why = "there is no RDMA device: plug in a card and load its driver, or "
         "make a software one ('modprobe rdma_rxe' and 'rdma link add rxe0 "
         "type rxe netdev IFACE')";
  return -ENODEV;
}

static uint8_t
cap_rd_atomic (int max)
{
  if (max < 1)
    return 1;
  return max < FP_VERBS_MAX_RD_ATOMIC ? (uint8_t) max : FP_VERBS_MAX_RD_ATOMIC;
}

int
fp_verbs_device_get (struct fp_verbs_device **out, struct ibv_context *context)
{
  FP_CLEANUP (fp_free) struct fp_verbs_device *d = NULL;
  struct fp_verbs_device *known;
  struct ibv_device_attr attr;
  int err;

  FP_LOCK_SCOPE (&devices_lock);
  for (known = devices; known != NULL; known = known->next)
    if (known->context == context) {
      known->refs++;
      *out = known;
      return 0;
    }

  err = fp_verbs_ret (ibv_query_device (context, &attr));
  if (err != 0)
    return err;
  d = calloc (1, sizeof *d);
  if (d == NULL)
    return -ENOMEM;
  d->context = context;
  d->held = rdma_get_devices (NULL); /* NULL if out of memory */
  d->iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
  d->ignores_iova = d->iwarp && attr.vendor_id == SIW_VENDOR_ID;
  d->software =
      attr.vendor_id == SIW_VENDOR_ID || attr.vendor_id == RXE_VENDOR_ID;
  d->max_initiator_depth = cap_rd_atomic (attr.max_qp_init_rd_atom);
  d->max_responder_resources = cap_rd_atomic (attr.max_qp_rd_atom);
  d->max_cqe = attr.max_cqe > 0 ? (unsigned) attr.max_cqe : 1;
  d->max_qp_wr = attr.max_qp_wr > 0 ? (unsigned) attr.max_qp_wr : 1;
  d->refs = 1;
  d->next = devices;
  devices = d;
  *out = FP_STEAL (d);
  return 0;
}

void
fp_verbs_device_put (struct fp_verbs_device *d)
{
  struct fp_verbs_device **at;

  if (d == NULL)
    return;
  FP_LOCK_SCOPE (&devices_lock);
  if (--d->refs > 0)
    return;
  for (at = &devices; *at != d; at = &(*at)->next)
    ;
  *at = d->next;
  if (d->pd != NULL)
    (void) fp_verbs_ret (ibv_dealloc_pd (d->pd));
  if (d->held != NULL)
    rdma_free_devices (d->held);
  free (d);
}

void
fp_verbs_device_putp (struct fp_verbs_device **dp)
{
  fp_verbs_device_put (*dp);
}

int
fp_verbs_device_pd (struct fp_verbs_device *d, struct ibv_pd **out)
{
  FP_LOCK_SCOPE (&devices_lock);
  if (d->pd == NULL) {
    d->pd = ibv_alloc_pd (d->context);
    if (d->pd == NULL)
      return fp_verbs_null ();
  }
  *out = d->pd;
  return 0;
}

int
fp_verbs_local_access (const struct fp_verbs_device *d)
{
  return IBV_ACCESS_LOCAL_WRITE | (d->iwarp ? IBV_ACCESS_REMOTE_WRITE : 0);
}
