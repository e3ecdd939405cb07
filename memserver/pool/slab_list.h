/* SPDX-License-Identifier: BSD-3-Clause */
/* slab_list.h - a queue of slabs, linked by slab.next: first in, first out. */

#ifndef MEMSERVER_SLAB_LIST_H
#define MEMSERVER_SLAB_LIST_H

#include <stddef.h>

#include "memserver/pool/slab.h"

struct list {
  struct slab *first;
  struct slab **last;
};

static inline void
list_init (struct list *l)
{
  l->first = NULL;
  l->last = &l->first;
}

static inline void
list_append (struct list *l, struct slab *s)
{
  s->next = NULL;
  *l->last = s;
  l->last = &s->next;
}

static inline void
list_remove_first (struct list *l)
{
  l->first = l->first->next;
  if (!l->first)
    l->last = &l->first;
}

#endif /* MEMSERVER_SLAB_LIST_H */
