/* SPDX-License-Identifier: BSD-3-Clause */
/* The manager: one thread of a volume that gives pieces their memory.  It
 * keeps a few grants ahead, so that a first write seldom waits for one.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/random.h"
#include "volume/link.h"
#include "volume/placement.h"
#include "volume/sync.h"
#include "volume/volume_int.h"

#define SPARES 2 /* grants kept ahead, of FP_MAX_SPARES */
#define BATCH 16 /* pieces at a time when all are reserved */

/* Ask for count slabs where there is room.  Returns how many came, from
 * *link; -ENOSPC: nowhere any; -ENOTCONN: nobody to ask now.
 */
static int
grant (struct fp_volume *v, struct fp_copy *copies, unsigned count,
       struct fp_link **link, uint64_t *session)
{
  uint64_t room[FP_MAX_SERVERS], ignored;
  bool full = false;

  for (unsigned i = 0; i < v->nr_links; i++) {
    if (!fp_link_usable (v->links[i], &room[i], &ignored))
      room[i] = 0;
    else if (room[i] == 0)
      /* Its last word may be old: ask, but only where nobody has room. */
      room[i] = 1;
  }
  for (;;) {
    uint64_t random = 0;
    int i, r;

    if (fp_random (&random, sizeof random) < 0)
      random = 0; /* then the first two */
    i = fp_place (room, v->nr_links, random);
    if (i < 0)
      return full ? -ENOSPC : -ENOTCONN;
    *link = v->links[i];
    r = fp_link_grant (*link, copies, count, session);
    if (r > 0)
      return r;
    full |= r == -ENOSPC || r == -ENOMEM || r == -ESHUTDOWN;
    room[i] = 0;
  }
}

static void
wanted_push (struct fp_volume *v, uint32_t i)
{
  struct fp_piece *p = v->pieces->p;

  p[i].next_wanted = FP_NO_PIECE;
  if (v->wanted_head == FP_NO_PIECE)
    v->wanted_head = i;
  else
    p[v->wanted_tail].next_wanted = i;
  v->wanted_tail = i;
}

void
fp_manager_want (struct fp_volume *v, uint64_t i)
{
  struct fp_piece *p = &v->pieces->p[i];

  if (!fp_piece_move (p, FP_PIECE_EMPTY, FP_PIECE_BUSY))
    return; /* somebody asked already */
  atomic_store (&p->err, 0);
  FP_LOCK_SCOPE (&v->lock);
  wanted_push (v, (uint32_t) i);
  pthread_cond_signal (&v->cond);
}

/* A grant whose session still lasts. */
static bool
take_spare (struct fp_volume *v, struct fp_spare *out)
{
  while (v->nr_spares > 0) {
    uint64_t ignored, session;

    *out = v->spares[--v->nr_spares];
    if (fp_link_usable (out->link, &ignored, &session) &&
        session == out->session)
      return true;
    fp_copy_forget (&out->copy);
  }
  return false;
}

static int
give_memory (struct fp_volume *v, uint64_t i)
{
  for (;;) {
    struct fp_spare s;
    int r;

    if (!take_spare (v, &s)) {
      r = grant (v, &s.copy, 1, &s.link, &s.session);
      if (r < 0)
        return r;
    }
    r = fp_link_label (s.link, &s.copy, &i, 1, s.session);
    if (r == 0)
      return 0;
    /* That server is away now, and its grant with it: the next one. */
    fp_copy_forget (&s.copy);
    if (r != -ESTALE && r != -ENOTCONN)
      return r;
  }
}

static void
refill (struct fp_volume *v)
{
  uint64_t used = atomic_load (&v->allocated) + atomic_load (&v->lost);

  while (v->nr_spares < SPARES && used + v->nr_spares < v->pieces->nr) {
    struct fp_spare *s = &v->spares[v->nr_spares];

    if (grant (v, &s->copy, 1, &s->link, &s->session) < 0)
      return; /* a write will ask again, and hear why */
    v->nr_spares++;
  }
}

static bool
next_wanted (struct fp_volume *v, uint64_t *i)
{
  struct timespec until;

  fp_timespec_after (&until, 1000);
  FP_LOCK_SCOPE (&v->lock);
  if (v->wanted_head == FP_NO_PIECE && !v->stopping)
    /* A timeout is as good as a wake-up: the caller looks again. */
    (void) pthread_cond_timedwait (&v->cond, &v->lock, &until);
  if (v->wanted_head == FP_NO_PIECE)
    return false;
  *i = v->wanted_head;
  v->wanted_head = v->pieces->p[*i].next_wanted;
  return true;
}

static bool
is_stopping (struct fp_volume *v)
{
  FP_LOCK_SCOPE (&v->lock);
  return v->stopping;
}

static void
manager_main (void *arg)
{
  struct fp_volume *v = arg;

  while (!is_stopping (v)) {
    uint64_t i;

    if (next_wanted (v, &i)) {
      struct fp_piece *p = &v->pieces->p[i];
      int r = give_memory (v, i);

      if (r < 0) {
        /* Full is final for who asked.  A server that is away may come
         * back: without a reason the write asks again until its deadline.
         */
        atomic_store (&p->err, r == -ENOTCONN ? 0 : r);
        if (!fp_piece_move (p, FP_PIECE_BUSY, FP_PIECE_EMPTY))
          abort (); /* it is ours */
        if (r == -ENOTCONN)
          continue;
      }
      fp_volume_wake_lanes (v);
    }
    if (!is_stopping (v))
      refill (v);
  }
}

int
fp_manager_start (struct fp_volume *v)
{
  int r = fp_thread_create (&v->manager, "fp-manager", manager_main, v);

  v->manager_runs = r == 0;
  return r;
}

void
fp_manager_stop (struct fp_volume *v)
{
  {
    FP_LOCK_SCOPE (&v->lock);
    v->stopping = true;
    pthread_cond_signal (&v->cond);
  }
  if (v->manager_runs && fp_thread_join (&v->manager) < 0)
    abort (); /* joined twice: a bug */
  v->manager_runs = false;
  while (v->nr_spares > 0) {
    struct fp_spare *s = &v->spares[--v->nr_spares];

    fp_copy_forget (&s->copy);
  }
}

int
fp_manager_reserve_all (struct fp_volume *v, char why[FP_WHY_MAX])
{
  struct fp_pieces *t = v->pieces;
  uint64_t i = 0;

  while (i < t->nr) {
    struct fp_copy copies[BATCH];
    uint64_t pieces[BATCH], session;
    struct fp_link *link;
    unsigned n = 0;
    int r;

    while (i < t->nr && n < BATCH) {
      if (fp_piece_move (&t->p[i], FP_PIECE_EMPTY, FP_PIECE_BUSY))
        pieces[n++] = i;
      i++;
    }
    for (unsigned done = 0; done < n;) {
      r = grant (v, copies, n - done, &link, &session);
      if (r > 0) {
        unsigned got = (unsigned) r;

        r = fp_link_label (link, copies, pieces + done, got, session);
        if (r == 0) {
          done += got;
          continue;
        }
        for (unsigned k = 0; k < got; k++)
          fp_copy_forget (&copies[k]);
      }
      for (unsigned k = done; k < n; k++)
        (void) fp_piece_move (&t->p[pieces[k]], FP_PIECE_BUSY,
                              FP_PIECE_EMPTY); /* ours: it is BUSY */
      snprintf (why, FP_WHY_MAX,
                "reserve=full: %llu of %llu pieces got memory: %s",
                (unsigned long long) atomic_load (&v->allocated),
                (unsigned long long) t->nr,
                r == -ENOSPC ? "the servers are full" : strerror (-r));
      return r;
    }
  }
  return 0;
}
