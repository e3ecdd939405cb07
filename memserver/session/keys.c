/* SPDX-License-Identifier: BSD-3-Clause */
/* keys.c - what opens a slab to a session, by transport. */

#include <config.h>

#include <errno.h>
#include <stddef.h>

#include "memserver/session/keys.h"
#include "memserver/session/rdma.h"
#include "memserver/session/session.h"
#include "memserver/store/record.h"

int
keys_ready (const struct session *s)
{
  return s->record->transport == FP_TRANSPORT_RDMA && !s->domain ? -EINVAL : 0;
}

int
keys_open (struct session *s, struct slab *slab)
{
  int r = 0;

  if (slab->keyed)
    return 0;
  switch (s->record->transport) {
  case FP_TRANSPORT_RDMA:
    r = rdma_register (s, slab);
    break;
  case FP_TRANSPORT_SHM:
    slab->exposed = true;
    slab->mapper = s->client;
    slab->shared = slab->shared || (s->read_only && s->sessions->access);
    /* Save the mapper before it has the memory: the next server needs it. */
    if (slab->label.extent != FP_EXTENT_NONE)
      record_keep_slab (s->record, slab);
    slab->raddr = 0;
    slab->rkey = 0;
    break;
  default:
    r = slab_key_open (slab, s->id);
    break;
  }
  slab->keyed = r == 0;
  if (r == 0 && !s->read_only) /* a reader changes nothing */
    record_used (s->record);
  return r;
}

int
keys_close (struct slab *slab)
{
  int r = 0;

  if (slab->region)
    r = rdma_unregister (slab);
  slab_key_close (slab);
  slab->keyed = false;
  return r;
}
