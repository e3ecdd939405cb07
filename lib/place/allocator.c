/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/sync.h"
#include "extent/copies.h"
#include "extent/stripe.h"
#include "peer/peer.h"
#include "place/allocator.h"
#include "place/placement.h"

/* A donor may take this part of `timeout` to give an extent its memory, while
 * there is another donor to ask, or another copy.  So a write, which has all
 * of `timeout`, can hear from two donors.
 */
#define PATIENCE_PART 4
#define PATIENCE_MIN_MS 20u

#define WINDOW 256 /* extents in one round of reserve=full */

/* ---- the donor of an extent ---- */

static void
wanted_push (struct fp_allocator *a, uint32_t i)
{
  struct fp_extent *p = a->extents->p;

  p[i].next_wanted = FP_NO_EXTENT;
  if (a->wanted_head == FP_NO_EXTENT)
    a->wanted_head = i;
  else
    p[a->wanted_tail].next_wanted = i;
  a->wanted_tail = i;
  fp_notifier_raise (&a->work);
}

void
fp_allocator_want (struct fp_allocator *a, uint64_t i)
{
  struct fp_extent *p = &a->extents->p[i];

  if (fp_extent_state (p) != FP_EXTENT_EMPTY)
    return; /* requested already */
  FP_LOCK_SCOPE (&a->extents->lock);
  if (!fp_extent_move (a->extents, p, FP_EXTENT_EMPTY, FP_EXTENT_BUSY))
    return; /* requested meanwhile */
  atomic_store (&p->err, 0);
  atomic_store (&p->refused, false);
  p->fresh = fp_copies_in_sync (a->extents, fp_extent_of (a->extents, i)) == 0;
  p->tried = 0;
  p->full = 0;
  atomic_store (&p->asked, 0);
  atomic_fetch_add (&a->extents->placing, 1);
  wanted_push (a, (uint32_t) i);
}

void
fp_allocator_return (struct fp_allocator *a, uint64_t i, unsigned server,
                     int err)
{
  struct fp_extent *p = &a->extents->p[i];

  p->tried |= UINT64_C (1) << server;
  if (err == -ENOSPC || err == -ENOMEM)
    p->full |= UINT64_C (1) << server;
  FP_LOCK_SCOPE (&a->extents->lock);
  wanted_push (a, (uint32_t) i);
}

/* Set room[i] to the room that donor i has; 0: do not ask it.  Leave out the
 * donors that were tried for this extent.  Look at the mute ones, or else at
 * the others.  trusted: leave out distrusted ones.
 */
static void
look_for_room (struct fp_allocator *a, uint64_t tried, bool mute, bool trusted,
               uint64_t room[FP_MAX_SERVERS])
{
  bool scarce, any_spare = false, spare[FP_MAX_SERVERS] = { false };

  /* peers->nr may be higher at the next look. */
  memset (room, 0, FP_MAX_SERVERS * sizeof *room);
  for (unsigned i = 0; i < a->peers->nr; i++) {
    struct fp_peer_room l;

    room[i] = 0;
    spare[i] = false;
    if (fp_peers_gets_none (a->peers, i) ||
        !fp_peer_room (a->peers->at[i], &l) || l.mute != mute ||
        (trusted && l.distrusted) || (tried & UINT64_C (1) << i) != 0)
      continue;
    FP_LOCK_SCOPE (&a->extents->lock);
    l.free += a->peers->claims[i];
    spare[i] = a->peers->claims[i] > l.extents;
    any_spare |= spare[i];
    /* The number may be old: still ask this donor, but last. */
    room[i] = l.free > l.extents ? l.free - l.extents : 1;
  }
  {
    FP_LOCK_SCOPE (&a->extents->lock);
    scarce =
        fp_extents_used (a->extents) + a->peers->nr_claims > a->extents->all;
  }
  /* While there are spare grants, do not ask for more than the volume can
   * use.  With several copies ask all the same: the spares may be where
   * another copy is.
   */
  scarce &= a->extents->copies == 1;
  for (unsigned i = 0; scarce && any_spare && i < a->peers->nr; i++)
    if (!spare[i])
      room[i] = 0;
}

uint64_t
fp_allocator_others (const struct fp_allocator *a, uint64_t k)
{
  struct fp_extents *t = a->extents;
  uint64_t i = fp_extent_of (t, k), set = 0, moving = atomic_load (&t->moving);

  for (unsigned c = 0; c < t->copies; c++) {
    uint64_t other = fp_copies_entry (t, i, c);
    int s = other == k ? -1 : fp_extent_server (&t->p[other]);

    if (s >= 0)
      set |= UINT64_C (1) << s;
    if (other != k && other == moving &&
        fp_extent_state (&t->target) != FP_EXTENT_EMPTY)
      set |= UINT64_C (1) << atomic_load (&t->target.server);
  }
  return set;
}

/* Return true if entry k need not wait for a silent donor: its extent is new,
 * and another copy of it is READY.
 */
static bool
can_do_without (struct fp_allocator *a, uint64_t k)
{
  struct fp_extents *t = a->extents;
  uint64_t i = fp_extent_of (t, k);

  /* The start with reserve=full waits for all copies. */
  if (!t->p[k].fresh ||
      (a->p->reserve_full && !atomic_load (&a->peers->started)))
    return false;
  for (unsigned c = 0; c < t->copies; c++) {
    uint64_t other = fp_copies_entry (t, i, c);

    if (other != k && fp_extent_state (&t->p[other]) == FP_EXTENT_READY)
      return true;
  }
  return false;
}

/* Exclude the donors that have another copy of the extent.  If any are left
 * then, exclude those in the same failure domain, too.
 */
static void
keep_apart (struct fp_allocator *a, uint64_t k, uint64_t *room)
{
  uint64_t others = fp_allocator_others (a, k), near = 0, rest = 0;

  for (unsigned s = 0; s < a->peers->nr; s++) {
    if (!(others >> s & 1))
      continue;
    room[s] = 0;
    for (unsigned n = 0; n < a->peers->nr; n++)
      if (a->p->domains[s][0] != '\0' &&
          strcmp (a->p->domains[n], a->p->domains[s]) == 0)
        near |= UINT64_C (1) << n;
  }
  for (unsigned n = 0; n < a->peers->nr; n++)
    rest |= room[n] != 0 && !(near >> n & 1);
  for (unsigned n = 0; rest != 0 && n < a->peers->nr; n++)
    if (near >> n & 1)
      room[n] = 0;
}

int
fp_allocator_choose (struct fp_allocator *a, uint64_t k, uint64_t *room)
{
  unsigned has[FP_MAX_SERVERS] = { 0 };
  uint64_t first, random = 0, i = fp_extent_of (a->extents, k);
  uint32_t width;

  if (fp_random (&random, sizeof random) < 0)
    random = 0; /* then take the first two */
  first = fp_stripe_group (a->extents, i, &width);
  for (uint64_t n = first; n < first + width; n++) {
    int s = n == i ? -1 : fp_extent_server (&a->extents->p[k - i + n]);

    if (s >= 0)
      has[s]++;
  }
  if (a->extents->copies > 1)
    keep_apart (a, k, room);
  fp_placement_spread (room, has, a->peers->nr);
  return fp_placement_choose (room, a->peers->nr, random);
}

bool
fp_allocator_has_room (struct fp_allocator *a, uint64_t k)
{
  uint64_t room[FP_MAX_SERVERS];

  look_for_room (a, 0, false, true, room);
  return fp_allocator_choose (a, k, room) >= 0;
}

/* Return true if a donor could not be asked, and may be again soon. */
static bool
may_have_room (struct fp_allocator *a, uint64_t full)
{
  for (unsigned i = 0; i < a->peers->nr; i++)
    if (!(full >> i & 1) && !fp_peers_must_be_empty (a->peers, i) &&
        fp_peer_away_ms (a->peers->at[i]) < fp_volume_await_ms (a->p))
      return true;
  return false;
}

static int
choose (struct fp_allocator *a, uint64_t i)
{
  uint64_t room[FP_MAX_SERVERS], tried = a->extents->p[i].tried;
  /* A copy that is filled from others can wait for a trusted donor. */
  bool trusted = !a->extents->p[i].fresh;
  int s;

  look_for_room (a, tried, false, trusted, room);
  s = fp_allocator_choose (a, i, room);
  if (s >= 0 || can_do_without (a, i))
    return s;
  look_for_room (a, tried, true, trusted, room);
  return fp_allocator_choose (a, i, room);
}

static void
place (struct fp_allocator *a, uint64_t i)
{
  struct fp_extent *p = &a->extents->p[i];
  bool apart = false;
  int server = -1;

  /* Another copy may begin to move there meanwhile.  A move looks at `asked`
   * under the lock before it counts (fp_peer_take).
   */
  while (!apart) {
    server = choose (a, i);
    FP_LOCK_SCOPE (&a->extents->lock);
    apart = server < 0 || !(fp_allocator_others (a, i) >> server & 1);
    if (apart)
      atomic_store (&p->asked, (uint32_t) (server + 1));
  }
  if (server >= 0) {
    fp_peer_place (a->peers->at[server], i);
    return;
  }
  /* A donor that is away may come back with room: without a reason the write
   * asks again until its deadline.  Otherwise ENOSPC is final for the write.
   */
  atomic_store (&p->err, p->full && !may_have_room (a, p->full) ? -ENOSPC : 0);
  atomic_store (&p->refused, true);
  /* The move wakes the lanes.  A request asks again only after a pause
   * (lane_may_ask), or it and this thread would take turns without end.
   */
  if (!fp_extent_move (a->extents, p, FP_EXTENT_BUSY, FP_EXTENT_EMPTY))
    abort (); /* the allocator owns it */
  if (atomic_fetch_sub (&a->extents->placing, 1) == 1)
    fp_notifier_raise (&a->extents->changes); /* await_placed */
}

static uint64_t
patience_ns (const struct fp_allocator *a)
{
  return FP_MAX (a->p->timeout_ms / PATIENCE_PART, PATIENCE_MIN_MS) *
         FP_NS_PER_MS;
}

/* Sets of donors that may get extents from a silent one. */
struct others {
  struct fp_allocator *a;
  uint64_t answering; /* all that answer */
  uint64_t trusted;   /* those that may get copies to be filled from others */
  bool late;          /* the silent donor has had all of `timeout` */
};

/* Return true if entry k, which a silent donor has kept for too long, can be
 * left with another one, or can be done without.  This must agree with
 * choose: an entry that goes back to the same donor would be withdrawn again
 * at once.
 */
static bool
may_withdraw (uint64_t k, const void *arg)
{
  const struct others *o = arg;
  struct fp_allocator *a = o->a;
  const struct fp_extent *p = &a->extents->p[k];
  uint64_t set = p->fresh ? o->answering : o->trusted;

  return (set & ~p->tried & ~fp_allocator_others (a, k)) != 0 ||
         (o->late && can_do_without (a, k));
}

/* Withdraw the entries that silent donors have kept for too long, and queue
 * them again.
 */
static void
look_after (struct fp_allocator *a)
{
  struct others others = { .a = a };
  uint64_t silent = 0, late = 0;

  if (atomic_load (&a->extents->placing) == 0)
    return;
  for (unsigned i = 0; i < a->peers->nr; i++) {
    struct fp_peer_room room;
    bool up = fp_peer_room (a->peers->at[i], &room);

    if (room.waits_ns > a->p->timeout_ms * FP_NS_PER_MS)
      late |= UINT64_C (1) << i;
    if (room.waits_ns > patience_ns (a))
      silent |= UINT64_C (1) << i;
    else if (up && !room.mute && !fp_peers_gets_none (a->peers, i)) {
      others.answering |= UINT64_C (1) << i;
      if (!room.distrusted)
        others.trusted |= UINT64_C (1) << i;
    }
  }
  for (unsigned i = 0; silent != 0 && i < a->peers->nr; i++) {
    uint32_t head;

    if (!(silent & UINT64_C (1) << i))
      continue;
    others.late = late >> i & 1;
    head = fp_peer_withdraw (a->peers->at[i], may_withdraw, &others);
    FP_LOCK_SCOPE (&a->extents->lock);
    while (head != FP_NO_EXTENT) {
      uint32_t next = a->extents->p[head].next_wanted;

      wanted_push (a, head);
      head = next;
    }
  }
}

/* ---- the thread ---- */

static bool
next_wanted (struct fp_allocator *a, uint64_t *i)
{
  FP_LOCK_SCOPE (&a->extents->lock);
  if (a->wanted_head == FP_NO_EXTENT)
    return false;
  *i = a->wanted_head;
  a->wanted_head = a->extents->p[*i].next_wanted;
  return true;
}

static bool
is_stopping (struct fp_allocator *a)
{
  FP_LOCK_SCOPE (&a->extents->lock);
  return a->stopping;
}

static void
allocator_main (void *arg)
{
  struct fp_allocator *a = arg;

  for (;;) {
    uint32_t seen = fp_notifier_count (&a->work);
    unsigned ms = a->look (a->arg);
    uint64_t i;

    if (is_stopping (a))
      return;
    while (next_wanted (a, &i))
      place (a, i);
    look_after (a);
    /* While extents wait for memory, check often whether a donor is silent. */
    if (atomic_load (&a->extents->placing) > 0)
      ms = FP_MIN (ms, (unsigned) (patience_ns (a) / FP_NS_PER_MS / 4));
    (void) fp_notifier_await (&a->work, seen, fp_deadline_in_ms (ms));
  }
}

void
fp_allocator_init (struct fp_allocator *a, struct fp_peers *peers,
                   unsigned (*look) (void *arg), void *arg)
{
  *a = (struct fp_allocator) {
    .peers = peers,
    .p = peers->p,
    .extents = peers->extents,
    .look = look,
    .arg = arg,
    .wanted_head = FP_NO_EXTENT,
  };
  fp_notifier_init (&a->work);
}

void
fp_allocator_destroy (struct fp_allocator *a)
{
  fp_notifier_destroy (&a->work);
}

void
fp_allocator_wake (struct fp_allocator *a)
{
  fp_notifier_raise (&a->work);
}

int
fp_allocator_start (struct fp_allocator *a)
{
  int r = fp_thread_create (&a->thread, "fp-allocator", allocator_main, a);

  a->runs = r == 0;
  return r;
}

void
fp_allocator_stop (struct fp_allocator *a)
{
  {
    FP_LOCK_SCOPE (&a->extents->lock);
    a->stopping = true;
  }
  fp_notifier_raise (&a->work);
  if (a->runs && fp_thread_join (&a->thread) < 0)
    abort (); /* joined twice: a bug */
  a->runs = false;
}

/* Wait until every extent that was wanted has memory or was refused.  Each
 * peer gives its answer, or gives its donor up, by a deadline.
 */
static void
await_placed (struct fp_allocator *a)
{
  struct fp_notifier *changes = &a->extents->changes;

  for (;;) {
    uint32_t seen = fp_notifier_count (changes);

    if (atomic_load (&a->extents->placing) == 0)
      return;
    (void) fp_notifier_await (changes, seen, FP_NEVER);
  }
}

/* Return the -errno for which entry i got no memory, and describe it in error.
 */
static int
not_reserved (const struct fp_allocator *a, uint64_t i, struct fp_error *error)
{
  int r = atomic_load (&a->extents->p[i].err);

  r = r == 0 ? -ENOTCONN : r;
  return fp_fail (error, r,
                  "reserve=full: %llu of %llu extents got memory: %s",
                  (unsigned long long) atomic_load (&a->extents->allocated),
                  (unsigned long long) a->extents->all,
                  r == -ENOSPC ? "the servers are full" : strerror (-r));
}

static bool
has_any_copy (const struct fp_extents *t, uint64_t i)
{
  for (unsigned c = 0; c < t->copies; c++)
    if (fp_extent_state (&t->p[fp_copies_entry (t, i, c)]) != FP_EXTENT_EMPTY)
      return true;
  return false;
}

int
fp_allocator_reserve_all (struct fp_allocator *a, struct fp_error *error)
{
  struct fp_extents *t = a->extents;

  for (uint64_t first = 0; first < t->all; first += WINDOW) {
    uint64_t end = FP_MIN (first + WINDOW, t->all);

    for (uint64_t i = first; i < end; i++)
      fp_allocator_want (a, i);
    await_placed (a);
    for (uint64_t i = first; i < end && !a->p->resume; i++)
      if (fp_extent_state (&t->p[i]) == FP_EXTENT_EMPTY)
        return not_reserved (a, i, error);
  }
  /* A client that resumes the volume goes on with the copies it can have now.
   */
  for (uint64_t i = 0; i < t->nr; i++)
    if (!has_any_copy (t, i))
      return not_reserved (a, i, error);
  return 0;
}
