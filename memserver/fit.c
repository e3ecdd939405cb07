/* SPDX-License-Identifier: BSD-3-Clause */
/* fit.c - refuse a size that does not fit into this host's memory. */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/size.h"
#include "memserver/options.h"
#include "memserver/pool/host.h"
#include "memserver/pool/store.h"

#define MIB (UINT64_C (1) << 20)

int
options_fit (struct options *o, struct fp_error *error)
{
  char size[FP_SIZE_STR_MAX], reserve[FP_SIZE_STR_MAX], left[FP_SIZE_STR_MAX],
      fits[FP_SIZE_STR_MAX];
  struct host_memory memory;
  const bool files = o->backing[0] && !store_will_seal (o->backing);
  uint64_t huge = 0, room;
  int r = host_memory (&memory, o->numa);

  if (r == -ENODEV)
    return fp_fail (error, r, "numa: there is no node %d", o->numa);
  if (r < 0)
    return fp_fail (error, r, "memory: cannot read how much this host has: %s",
                    strerror (-r));
  if (!o->reserve_given) {
    o->reserve = memory.total / 16;
    if (o->reserve > (UINT64_C (4) << 30))
      o->reserve = UINT64_C (4) << 30;
  }

  /* Huge pages are set aside already.  (persist_open counts them.) */
  if (files && store_page_at (o->backing) > STORE_SMALL_PAGE)
    return 0;
  if (!files &&
      (o->hugepages == HUGEPAGES_AUTO || o->hugepages == HUGEPAGES_2M))
    huge += host_huge_free (2 * MIB);
  if (!files && o->slab >= 1024 * MIB &&
      (o->hugepages == HUGEPAGES_AUTO || o->hugepages == HUGEPAGES_1G))
    huge += host_huge_free (1024 * MIB);
  if (huge >= o->size || o->hugepages == HUGEPAGES_2M ||
      o->hugepages == HUGEPAGES_1G)
    return 0;

  room = memory.available > o->reserve ? memory.available - o->reserve : 0;
  /* Slabs that this server had before are set aside, too. */
  if (o->backing[0])
    huge += store_holds (o->backing, "slab-");
  room = (room + huge) / o->slab * o->slab;
  if (o->size <= room)
    return 0;
  fp_format_size (o->size, size);
  fp_format_size (o->reserve, reserve);
  fp_format_size (memory.available, left);
  fp_format_size (room, fits);
  return fp_fail (error, -ENOSPC,
                  "size: %s does not fit: %s %s available and %s %s reserved "
                  "for it (reserve); size %s would fit",
                  size, o->numa < 0 ? "this host has" : "this node has", left,
                  reserve, o->reserve_given ? "are" : "are by default", fits);
}
