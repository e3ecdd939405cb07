/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_domain.c - a session's protection domain, and the slabs registered in
 * it.  See verbs_server.h.
 */

#include <config.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/random.h"
#include "transport/verbs_err.h"
#include "transport/verbs_listen.h"

#define IOVA_BITS 47 /* address bits that every device has */
#define HUGE_PAGE (UINT64_C (2) << 20)

struct fp_verbs_region {
  struct ibv_mr *mr;
  uint64_t iova;
};

static void
domain_freep (struct fp_verbs_domain **dp)
{
  fp_verbs_domain_free (*dp);
}

int
fp_verbs_domain_new (struct fp_verbs_domain **out, struct ibv_context *context)
{
  FP_CLEANUP (domain_freep) struct fp_verbs_domain *d = NULL;
  int err;

  d = calloc (1, sizeof *d);
  if (d == NULL)
    return -ENOMEM;
  err = fp_verbs_device_get (&d->device, context);
  if (err != 0)
    return err;
  d->pd = ibv_alloc_pd (context);
  if (d->pd == NULL)
    return fp_verbs_null ();
  d->cq = ibv_create_cq (context, 1, NULL, NULL, 0);
  if (d->cq == NULL)
    return fp_verbs_null ();
  *out = FP_STEAL (d);
  return 0;
}

void
fp_verbs_domain_free (struct fp_verbs_domain *d)
{
  if (d == NULL)
    return;
  /* These fail only if the caller left a peer or a region behind. */
  if (d->cq != NULL)
    (void) fp_verbs_ret (ibv_destroy_cq (d->cq));
  if (d->pd != NULL)
    (void) fp_verbs_ret (ibv_dealloc_pd (d->pd));
  fp_verbs_device_put (d->device);
  free (d);
}

/* Choose a random remote address for length bytes at addr.  The device
 * requires it to equal addr modulo the page size.  If addr is a multiple of a
 * huge page, the result is too.  The device can then map whole huge pages, and
 * the result reveals nothing about addr.
 */
static int
random_iova (uint64_t *out, uintptr_t addr, size_t length)
{
  const uint64_t page = (uint64_t) sysconf (_SC_PAGESIZE);
  const uint64_t align = addr % HUGE_PAGE == 0 ? HUGE_PAGE : page;
  const uint64_t space = UINT64_C (1) << IOVA_BITS;
  uint64_t r;
  int err;

  if (length > space / 2)
    return -EINVAL;
  err = fp_random (&r, sizeof r);
  if (err != 0)
    return err;
  *out = fp_round_down (r % (space - length - align), align) + addr % page;
  return 0;
}

int
fp_verbs_region_new (struct fp_verbs_region **out, struct fp_verbs_domain *d,
                     void *addr, size_t length, bool writable)
{
  FP_CLEANUP (fp_free) struct fp_verbs_region *r = NULL;
  int access = IBV_ACCESS_REMOTE_READ;
  int err;

  if (length == 0)
    return -EINVAL;
  if (writable) /* remote write requires local write (ibv_reg_mr(3)) */
    access |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  r = calloc (1, sizeof *r);
  if (r == NULL)
    return -ENOMEM;
  r->iova = (uintptr_t) addr;
  err = d->device->ignores_iova
            ? 0
            : random_iova (&r->iova, (uintptr_t) addr, length);
  if (err != 0)
    return err;
  r->mr = ibv_reg_mr_iova (d->pd, addr, length, r->iova, access);
  if (r->mr == NULL)
    return fp_verbs_null ();
  *out = FP_STEAL (r);
  return 0;
}

int
fp_verbs_region_free (struct fp_verbs_region *r)
{
  int err;

  if (r == NULL)
    return 0;
  err = fp_verbs_destroy_ret (r->mr->context, ibv_dereg_mr (r->mr));
  if (err == 0)
    free (r);
  return err;
}

uint64_t
fp_verbs_region_raddr (const struct fp_verbs_region *r)
{
  return r->iova;
}

uint64_t
fp_verbs_region_rkey (const struct fp_verbs_region *r)
{
  return r->mr->rkey;
}
