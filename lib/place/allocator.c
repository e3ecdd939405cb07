/* SPDX-License-Identifier: BSD-3-Clause */
/* The allocator: one thread of a volume that decides which server gives an
 * extent its memory.  It waits for none of them: it leaves the extent with
 * that server's peer, and the extent comes READY, or back.  If the server is
 * silent the allocator withdraws the extent and leaves it with another one;
 * should the first have labelled a slab with it after all, the generation
 * tells which counts (peer_learn.h).  If no other server can be asked for a
 * copy of a new extent that has another copy, the extent begins without it.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/sync.h"
#include "engine/mirror.h"
#include "extent/stripe.h"
#include "peer/peer.h"
#include "place/placement.h"
#include "volume/volume_int.h"

/* A server may take this part of `timeout` to give an extent its memory, as
 * long as there is another one to ask, or another copy; so that a write, which
 * has all of it, can hear from two.
 */
#define PATIENCE_PART 4
#define PATIENCE_MIN_MS 20u

#define WINDOW 256 /* extents at a time when all are reserved */

/* ---- grants ahead ---- */

/* What has memory, or will have. */
static uint64_t
used (struct fp_volume *v)
{
  return atomic_load (&v->allocated) + atomic_load (&v->lost) +
         atomic_load (&v->placing);
}

bool
fp_allocator_claim (struct fp_volume *v, unsigned server, unsigned has)
{
  unsigned most = v->nr_peers == 1 ? FP_PEER_SPARES : 1;

  if (v->p.read_only || fp_volume_is_drained (v, server))
    return false;
  FP_LOCK_SCOPE (&v->lock);
  if (has >= most || v->nr_claims >= FP_MAX_SPARES ||
      used (v) + v->nr_claims >= v->extents->all)
    return false;
  v->claims[server]++;
  v->nr_claims++;
  return true;
}

void
fp_allocator_unclaim (struct fp_volume *v, unsigned server)
{
  FP_LOCK_SCOPE (&v->lock);
  v->claims[server]--;
  v->nr_claims--;
}

/* ---- who gives an extent its memory ---- */

static void
wanted_push (struct fp_volume *v, uint32_t i)
{
  struct fp_extent *p = v->extents->p;

  p[i].next_wanted = FP_NO_EXTENT;
  if (v->wanted_head == FP_NO_EXTENT)
    v->wanted_head = i;
  else
    p[v->wanted_tail].next_wanted = i;
  v->wanted_tail = i;
  pthread_cond_broadcast (&v->cond);
}

void
fp_allocator_want (struct fp_volume *v, uint64_t i)
{
  struct fp_extent *p = &v->extents->p[i];

  if (fp_extent_state (p) != FP_EXTENT_EMPTY)
    return; /* somebody asked already */
  FP_LOCK_SCOPE (&v->lock);
  if (!fp_extent_move (p, FP_EXTENT_EMPTY, FP_EXTENT_BUSY))
    return; /* likewise */
  atomic_store (&p->err, 0);
  atomic_store (&p->refused, false);
  p->fresh = fp_mirror_in_sync (v->extents, fp_extent_of (v->extents, i)) == 0;
  p->tried = 0;
  p->full = 0;
  atomic_store (&p->asked, 0);
  atomic_fetch_add (&v->placing, 1);
  wanted_push (v, (uint32_t) i);
}

void
fp_allocator_return (struct fp_volume *v, uint64_t i, unsigned server, int err)
{
  struct fp_extent *p = &v->extents->p[i];

  p->tried |= UINT64_C (1) << server;
  if (err == -ENOSPC || err == -ENOMEM)
    p->full |= UINT64_C (1) << server;
  FP_LOCK_SCOPE (&v->lock);
  wanted_push (v, (uint32_t) i);
}

/* How much room each server has that was not asked for this extent; 0: do not
 * ask.  Of those that are mute, or of the others; trusted: of no other.
 */
static void
look_for_room (struct fp_volume *v, uint64_t tried, bool mute, bool trusted,
               uint64_t room[FP_MAX_SERVERS])
{
  bool scarce, any_spare = false, spare[FP_MAX_SERVERS] = { false };

  /* There may be one more at the next look. */
  memset (room, 0, FP_MAX_SERVERS * sizeof *room);
  for (unsigned i = 0; i < v->nr_peers; i++) {
    struct fp_peer_room l;

    room[i] = 0;
    spare[i] = false;
    if (fp_volume_is_drained (v, i) || !fp_peer_room (v->peers[i], &l) ||
        l.mute != mute || (trusted && l.distrusted) ||
        (tried & UINT64_C (1) << i) != 0)
      continue;
    FP_LOCK_SCOPE (&v->lock);
    l.free += v->claims[i];
    spare[i] = v->claims[i] > l.extents;
    any_spare |= spare[i];
    /* Its last word may be old: it is asked, but it is the last. */
    room[i] = l.free > l.extents ? l.free - l.extents : 1;
  }
  {
    FP_LOCK_SCOPE (&v->lock);
    scarce = used (v) + v->nr_claims > v->extents->all;
  }
  /* Do not ask for more than the volume can use, while there are grants; but
   * those may be where another copy of the extent is.
   */
  scarce &= v->extents->copies == 1;
  for (unsigned i = 0; scarce && any_spare && i < v->nr_peers; i++)
    if (!spare[i])
      room[i] = 0;
}

/* Where an extent is, or will be; or -1. */
static int
server_of (struct fp_extent *p)
{
  enum fp_extent_state s = fp_extent_state (p);

  if (s == FP_EXTENT_EMPTY || s == FP_EXTENT_LOST)
    return -1;
  if (s == FP_EXTENT_BUSY && !atomic_load (&p->held))
    return (int) atomic_load (&p->asked) - 1;
  return (int) atomic_load (&p->server);
}

/* Return the set of servers where the other copies of entry k's extent are, or
 * will be.
 */
static uint64_t
servers_of_others (struct fp_volume *v, uint64_t k)
{
  struct fp_extents *t = v->extents;
  uint64_t i = fp_extent_of (t, k), set = 0;

  for (unsigned c = 0; c < t->copies; c++) {
    uint64_t other = fp_mirror_entry (t, i, c);
    int s = other == k ? -1 : server_of (&t->p[other]);

    if (s >= 0)
      set |= UINT64_C (1) << s;
  }
  return set;
}

/* Return true if entry k need not wait for a silent server: its extent is new,
 * and another copy of it is READY.
 */
static bool
can_do_without (struct fp_volume *v, uint64_t k)
{
  struct fp_extents *t = v->extents;
  uint64_t i = fp_extent_of (t, k);

  /* The start with reserve=full waits for all copies. */
  if (!t->p[k].fresh || (v->p.reserve_full && !atomic_load (&v->started)))
    return false;
  for (unsigned c = 0; c < t->copies; c++) {
    uint64_t other = fp_mirror_entry (t, i, c);

    if (other != k && fp_extent_state (&t->p[other]) == FP_EXTENT_READY)
      return true;
  }
  return false;
}

/* Not where another copy of the extent is; nor, if that leaves any, in the
 * same failure domain.
 */
static void
keep_apart (struct fp_volume *v, uint64_t k, uint64_t *room)
{
  struct fp_extents *t = v->extents;
  uint64_t near = 0, rest = 0;

  for (unsigned c = 0; c < t->copies; c++) {
    uint64_t other = fp_mirror_entry (t, fp_extent_of (t, k), c);
    int s = other == k ? -1 : server_of (&t->p[other]);

    if (s < 0)
      continue;
    room[s] = 0;
    for (unsigned n = 0; n < v->nr_peers; n++)
      if (v->p.domains[s][0] != '\0' &&
          strcmp (v->p.domains[n], v->p.domains[s]) == 0)
        near |= UINT64_C (1) << n;
  }
  for (unsigned n = 0; n < v->nr_peers; n++)
    rest |= room[n] != 0 && !(near >> n & 1);
  for (unsigned n = 0; rest != 0 && n < v->nr_peers; n++)
    if (near >> n & 1)
      room[n] = 0;
}

int
fp_allocator_choose (struct fp_volume *v, uint64_t k, uint64_t *room)
{
  unsigned has[FP_MAX_SERVERS] = { 0 };
  uint64_t first, random = 0, i = fp_extent_of (v->extents, k);
  uint32_t width;

  if (fp_random (&random, sizeof random) < 0)
    random = 0; /* then the first two */
  first = fp_stripe_group (v->extents, i, &width);
  for (uint64_t n = first; n < first + width; n++) {
    int s = n == i ? -1 : server_of (&v->extents->p[k - i + n]);

    if (s >= 0)
      has[s]++;
  }
  if (v->extents->copies > 1)
    keep_apart (v, k, room);
  fp_place_apart (room, has, v->nr_peers);
  return fp_place (room, v->nr_peers, random);
}

bool
fp_allocator_has_room (struct fp_volume *v, uint64_t k)
{
  uint64_t room[FP_MAX_SERVERS];

  look_for_room (v, 0, false, true, room);
  return fp_allocator_choose (v, k, room) >= 0;
}

/* Is there a server that could not be asked, and may be again soon? */
static bool
may_have_room (struct fp_volume *v, uint64_t full)
{
  for (unsigned i = 0; i < v->nr_peers; i++)
    if (!(full >> i & 1) && !fp_volume_is_emptied (v, i) &&
        fp_peer_away_ms (v->peers[i]) < fp_volume_await_ms (v))
      return true;
  return false;
}

static int
choose (struct fp_volume *v, uint64_t i)
{
  uint64_t room[FP_MAX_SERVERS], tried = v->extents->p[i].tried;
  /* For a copy of what others have that can be waited for. */
  bool trusted = !v->extents->p[i].fresh;
  int s;

  look_for_room (v, tried, false, trusted, room);
  s = fp_allocator_choose (v, i, room);
  if (s >= 0 || can_do_without (v, i))
    return s;
  look_for_room (v, tried, true, trusted, room);
  return fp_allocator_choose (v, i, room);
}

static void
place (struct fp_volume *v, uint64_t i)
{
  struct fp_extent *p = &v->extents->p[i];
  int server = choose (v, i);

  atomic_store (&p->asked, (uint32_t) (server + 1));
  if (server >= 0) {
    fp_peer_place (v->peers[server], i);
    return;
  }
  /* A server that is away may come back, and have room: without a reason the
   * write asks again until its deadline.  Else full is final for who asked.
   */
  atomic_store (&p->err, p->full && !may_have_room (v, p->full) ? -ENOSPC : 0);
  atomic_store (&p->refused, true);
  if (!fp_extent_move (p, FP_EXTENT_BUSY, FP_EXTENT_EMPTY))
    abort (); /* it is ours */
  atomic_fetch_sub (&v->placing, 1);
  /* A lane that cannot go on asks again.  If it were woken for that, it and
   * this thread would take turns without a pause; it looks again by itself.
   */
  if (fp_mirror_is_decided (v, fp_extent_of (v->extents, i)))
    fp_volume_wake_lanes (v);
}

static uint64_t
patience_ns (const struct fp_volume *v)
{
  return FP_MAX (v->p.timeout_ms / PATIENCE_PART, PATIENCE_MIN_MS) *
         FP_NS_PER_MS;
}

/* Servers that may take what a silent one has kept: sets. */
struct others {
  uint64_t answering; /* all of them */
  uint64_t trusted;   /* those that may have copies of what others have */
  bool late;          /* the silent one has had all of `timeout` */
};

/* Return true if entry k, which a silent server has kept for too long, can be
 * left with another one, or can be done without.  This must agree with choose:
 * an entry that goes back to the same server would be withdrawn again at once.
 */
static bool
may_withdraw (struct fp_volume *v, uint64_t k, const void *arg)
{
  const struct others *o = arg;
  const struct fp_extent *p = &v->extents->p[k];
  uint64_t set = p->fresh ? o->answering : o->trusted;

  return (set & ~p->tried & ~servers_of_others (v, k)) != 0 ||
         (o->late && can_do_without (v, k));
}

/* What a silent server has kept for too long goes to others. */
static void
look_after (struct fp_volume *v)
{
  struct others others = { 0 };
  uint64_t silent = 0, late = 0;

  if (atomic_load (&v->placing) == 0)
    return;
  for (unsigned i = 0; i < v->nr_peers; i++) {
    struct fp_peer_room room;
    bool up = fp_peer_room (v->peers[i], &room);

    if (room.waits_ns > v->p.timeout_ms * FP_NS_PER_MS)
      late |= UINT64_C (1) << i;
    if (room.waits_ns > patience_ns (v))
      silent |= UINT64_C (1) << i;
    else if (up && !room.mute && !fp_volume_is_drained (v, i)) {
      others.answering |= UINT64_C (1) << i;
      if (!room.distrusted)
        others.trusted |= UINT64_C (1) << i;
    }
  }
  for (unsigned i = 0; silent != 0 && i < v->nr_peers; i++) {
    uint32_t head;

    if (!(silent & UINT64_C (1) << i))
      continue;
    others.late = late >> i & 1;
    head = fp_peer_withdraw (v->peers[i], may_withdraw, &others);
    FP_LOCK_SCOPE (&v->lock);
    while (head != FP_NO_EXTENT) {
      uint32_t next = v->extents->p[head].next_wanted;

      wanted_push (v, head);
      head = next;
    }
  }
}

/* ---- the thread ---- */

static bool
next_wanted (struct fp_volume *v, uint64_t *i, unsigned ms)
{
  struct timespec until;

  if (atomic_load (&v->placing) > 0)
    ms = FP_MIN (ms, (unsigned) (patience_ns (v) / FP_NS_PER_MS / 4));
  fp_timespec_after (&until, ms);
  FP_LOCK_SCOPE (&v->lock);
  if (v->wanted_head == FP_NO_EXTENT && !v->stopping &&
      !atomic_load (&v->mirror_due))
    /* A timeout is as good as a wake-up: the caller looks again. */
    (void) pthread_cond_timedwait (&v->cond, &v->lock, &until);
  if (v->wanted_head == FP_NO_EXTENT)
    return false;
  *i = v->wanted_head;
  v->wanted_head = v->extents->p[*i].next_wanted;
  return true;
}

static bool
is_stopping (struct fp_volume *v)
{
  FP_LOCK_SCOPE (&v->lock);
  return v->stopping;
}

static void
allocator_main (void *arg)
{
  struct fp_volume *v = arg;

  while (!is_stopping (v)) {
    uint64_t i;

    if (next_wanted (v, &i, FP_MIN (fp_mirror_look (v), 1000u)))
      place (v, i);
    look_after (v);
  }
}

int
fp_allocator_start (struct fp_volume *v)
{
  int r = fp_thread_create (&v->allocator, "fp-manager", allocator_main, v);

  v->allocator_runs = r == 0;
  return r;
}

void
fp_allocator_stop (struct fp_volume *v)
{
  {
    FP_LOCK_SCOPE (&v->lock);
    v->stopping = true;
    pthread_cond_broadcast (&v->cond);
  }
  if (v->allocator_runs && fp_thread_join (&v->allocator) < 0)
    abort (); /* joined twice: a bug */
  v->allocator_runs = false;
}

/* Until every extent that was wanted has memory or was refused: each peer
 * gives its answer, or its server up, by a deadline.
 */
static void
await_placed (struct fp_volume *v)
{
  struct timespec until;

  while (atomic_load (&v->placing) > 0) {
    fp_timespec_after (&until, 1);
    FP_LOCK_SCOPE (&v->lock);
    (void) pthread_cond_timedwait (&v->cond, &v->lock, &until);
  }
}

/* Entry i got none. */
static int
not_reserved (const struct fp_volume *v, uint64_t i, char why[FP_WHY_MAX])
{
  int r = atomic_load (&v->extents->p[i].err);

  r = r == 0 ? -ENOTCONN : r;
  snprintf (why, FP_WHY_MAX,
            "reserve=full: %llu of %llu pieces got memory: %s",
            (unsigned long long) atomic_load (&v->allocated),
            (unsigned long long) v->extents->all,
            r == -ENOSPC ? "the servers are full" : strerror (-r));
  return r;
}

static bool
has_any_copy (const struct fp_extents *t, uint64_t i)
{
  for (unsigned c = 0; c < t->copies; c++)
    if (fp_extent_state (&t->p[fp_mirror_entry (t, i, c)]) != FP_EXTENT_EMPTY)
      return true;
  return false;
}

int
fp_allocator_reserve_all (struct fp_volume *v, char why[FP_WHY_MAX])
{
  struct fp_extents *t = v->extents;

  for (uint64_t first = 0; first < t->all; first += WINDOW) {
    uint64_t end = FP_MIN (first + WINDOW, t->all);

    for (uint64_t i = first; i < end; i++)
      fp_allocator_want (v, i);
    await_placed (v);
    for (uint64_t i = first; i < end && !v->p.resume; i++)
      if (fp_extent_state (&t->p[i]) == FP_EXTENT_EMPTY)
        return not_reserved (v, i, why);
  }
  /* Who takes it up goes on with the copies that there can be now. */
  for (uint64_t i = 0; i < t->nr; i++)
    if (!has_any_copy (t, i))
      return not_reserved (v, i, why);
  return 0;
}
