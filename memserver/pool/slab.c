/* SPDX-License-Identifier: BSD-3-Clause */
/* slab.c - the key of a slab, and its holds. */

#include <config.h>

#include <stddef.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/random.h"
#include "memserver/pool/slab.h"

int
slab_key_open (struct slab *s, uint64_t session)
{
  uint64_t key;
  int r = fp_random (&key, sizeof key);

  if (r < 0)
    return r;
  key = (key & ~(uint64_t) (SLAB_MAX - 1)) | s->index;

  FP_LOCK_SCOPE (&s->lock);
  s->session = session;
  s->key = key;
  s->rkey = key;
  s->raddr = 0;
  return 0;
}

void
slab_key_close (struct slab *s)
{
  FP_LOCK_SCOPE (&s->lock);

  s->session = 0;
}

bool
slab_is_held (struct slab *s)
{
  FP_LOCK_SCOPE (&s->lock);

  return s->holds > 0;
}

void *
slab_hold (struct slab *s, uint64_t session, uint64_t key, uint64_t raddr,
           uint32_t length)
{
  FP_LOCK_SCOPE (&s->lock);

  if (s->session == 0 || s->session != session || s->key != key)
    return NULL;
  if (!fp_range_ok (raddr, length, s->backing.size))
    return NULL;
  s->holds++;
  return s->backing.addr + raddr;
}

bool
slab_unhold (struct slab *s)
{
  FP_LOCK_SCOPE (&s->lock);

  s->holds--;
  return s->holds == 0 && s->session == 0;
}
