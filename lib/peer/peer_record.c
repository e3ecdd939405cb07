/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_record.c - what a peer does for the metadata log: tell its donor the
 * changes to record, and make recorded extents READY.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "peer/peer_int.h"
#include "peer/peer_record.h"

enum stage { IDLE, POSTED, RUNNING, ANSWERED };

struct peer_record {
  /* Under the peer's lock. */
  enum stage stage;
  bool left; /* the metadata log has stopped waiting */
  int result;

  /* Owned by the peer's thread while RUNNING, else by the metadata log. */
  enum fp_record_op op;
  struct fp_map_change change;
  struct fp_members members;

  /* Owned by the peer's thread. */
  struct fp_map_words words;
  struct fp_lookup_reply said;
};

int
peer_record_new (struct fp_peer *l)
{
  if (!fp_volume_is_recorded (l->peers->p))
    return 0;
  l->record = calloc (1, sizeof *l->record);
  return l->record == NULL ? -ENOMEM : 0;
}

void
peer_record_free (struct fp_peer *l)
{
  free (l->record);
}

void
peer_record_renew (struct fp_peer *l)
{
  if (l->record == NULL)
    return;
  l->record->stage = IDLE;
  memset (&l->record->said, 0, sizeof l->record->said);
}

/* ---- the metadata log's side ---- */

bool
fp_peer_record (struct fp_peer *l, enum fp_record_op op, const void *what)
{
  struct peer_record *r = l->record;

  {
    FP_LOCK_SCOPE (&l->lock);
    if (r->stage == POSTED || r->stage == RUNNING)
      return false;
    r->stage = POSTED;
    r->left = false;
    r->op = op;
    if (op == RECORD_OP_MAP)
      r->change = *(const struct fp_map_change *) what;
    else if (op == RECORD_OP_MEMBERS)
      r->members = *(const struct fp_members *) what;
  }
  peer_wake (l);
  return true;
}

bool
fp_peer_record_result (struct fp_peer *l, int *result)
{
  struct peer_record *r = l->record;

  FP_LOCK_SCOPE (&l->lock);
  if (r->stage != ANSWERED)
    return false;
  *result = r->result;
  r->stage = IDLE;
  return true;
}

void
fp_peer_record_leave (struct fp_peer *l)
{
  struct peer_record *r = l->record;

  FP_LOCK_SCOPE (&l->lock);
  if (r->stage == RUNNING)
    r->left = true;
  else
    r->stage = IDLE;
}

const struct fp_lookup_reply *
fp_peer_said (const struct fp_peer *l)
{
  return &l->record->said;
}

/* Make extent p, which was left with the peer, READY; or OFFLINE if the
 * session is not up.  If its memory is gone, forget it.
 */
static void
settle (struct fp_peer *l, struct fp_extent *p, bool up)
{
  if (!up || !atomic_load (&p->held))
    fp_copy_forget (&p->copy);
  if (!atomic_load (&p->held))
    peer_forget (l, p, FP_EXTENT_BUSY);
  else if (!fp_extent_move (l->peers->extents, p, FP_EXTENT_BUSY,
                            up ? FP_EXTENT_READY : FP_EXTENT_OFFLINE))
    abort (); /* p was left with us */
}

void
fp_peer_settle (struct fp_peer *l, uint64_t i)
{
  struct fp_extent *p = l->peers->extents->p;

  {
    FP_LOCK_SCOPE (&l->lock);
    /* Do it at once, as the peer's thread may be waiting for an answer.
     * While the peer is UP, the extent's import is of this session.  A peer
     * that goes down looks for READY extents after that.
     */
    if (l->state == FP_SERVER_UP && atomic_load (&p[i].held)) {
      if (!fp_extent_move (l->peers->extents, &p[i], FP_EXTENT_BUSY,
                           FP_EXTENT_READY))
        abort (); /* p was left with us */
      return;
    }
    /* Do this at once, too, as the thread may be connecting for long. */
    if (peer_can_fail_now (l, &p[i])) {
      settle (l, &p[i], false);
      return;
    }
    p[i].next_wanted = l->settle_head;
    l->settle_head = (uint32_t) i;
  }
  peer_wake (l);
}

/* ---- the peer's thread ---- */

/* Return a mask of the bits of this word that the map has. */
static uint64_t
valid_bits (const struct fp_recorded *d, uint64_t word)
{
  uint64_t left = d->bits - word * 64;

  return left >= 64 ? UINT64_MAX : (UINT64_C (1) << left) - 1;
}

static int
read_map (struct fp_peer *l, struct fp_map_words *w)
{
  struct fp_recorded *d = l->peers->recorded;
  int e = 0;

  for (uint64_t at = 0; e == 0 && at < d->words; at += FP_MAP_WORDS) {
    struct fp_map_read q = {
      .start = at * 64,
      .count = (uint32_t) FP_MIN (d->words - at, (uint64_t) FP_MAP_WORDS),
    };

    e = fp_ctl_map_read (l->s.ctl, &q, w, peer_soon (l));
    if (e == 0 && (w->start != q.start || w->count != q.count))
      e = -EPROTO;
    /* All other donors would refuse a bit beyond the end. */
    for (uint32_t i = 0; e == 0 && i < q.count; i++)
      if ((w->words[i] & ~valid_bits (d, at + i)) != 0)
        e = -EPROTO;
    for (uint32_t i = 0; e == 0 && i < q.count; i++)
      atomic_fetch_or (&d->map[at + i], w->words[i]);
  }
  return e;
}

static int
write_map (struct fp_peer *l, struct fp_map_words *w)
{
  struct fp_recorded *d = l->peers->recorded;
  int e = 0;

  for (uint64_t at = 0; e == 0 && at < d->words; at += FP_MAP_WORDS) {
    w->start = at * 64;
    w->count = (uint32_t) FP_MIN (d->words - at, (uint64_t) FP_MAP_WORDS);
    for (uint32_t i = 0; i < w->count; i++)
      w->words[i] = atomic_load (&d->map[at + i]);
    e = fp_ctl_map_write (l->s.ctl, w, peer_soon (l));
  }
  return e;
}

static int
do_record (struct fp_peer *l)
{
  struct peer_record *r = l->record;
  int e;

  switch (r->op) {
  case RECORD_OP_MAP:
    return fp_ctl_map (l->s.ctl, &r->change, peer_soon (l));
  case RECORD_OP_MAP_READ:
    return read_map (l, &r->words);
  case RECORD_OP_MAP_WRITE:
    e = peer_label_doubts (l, true);
    if (e == 0 && atomic_load (&l->sweep))
      e = fp_recorded_may_release (l->peers->recorded) ? peer_sweep (l)
                                                       : peer_open_strays (l);
    return e < 0 ? e : write_map (l, &r->words);
  case RECORD_OP_MEMBERS:
    return fp_ctl_members (l->s.ctl, &r->members, peer_soon (l));
  case RECORD_OP_SWEEP:
    return peer_sweep (l);
  case RECORD_OP_DOUBTS:
    return peer_label_doubts (l, false);
  }
  return -EINVAL;
}

static bool
begin (struct fp_peer *l)
{
  FP_LOCK_SCOPE (&l->lock);
  if (l->record->stage != POSTED)
    return false;
  l->record->stage = RUNNING;
  return true;
}

static void
end (struct fp_peer *l, int result)
{
  struct peer_record *r = l->record;

  {
    FP_LOCK_SCOPE (&l->lock);
    r->result = result;
    r->stage = r->left ? IDLE : ANSWERED;
  }
  l->peers->ops->answered (l->peers->v);
}

int
peer_do_records (struct fp_peer *l)
{
  uint64_t asked = fp_boot_ns ();
  int e;

  if (l->record == NULL || !begin (l))
    return 0;
  e = do_record (l);
  if (peer_session_broken (e)) {
    peer_set_why (l, fp_ctl_why (l->s.ctl));
    end (l, -ENOTCONN);
    return e;
  }
  peer_renewed (l, asked);
  end (l, e);
  return 0;
}

void
peer_fail_records (struct fp_peer *l)
{
  if (l->record != NULL && begin (l))
    end (l, -ENOTCONN);
}

static uint32_t
next_settled (struct fp_peer *l)
{
  uint32_t i;

  FP_LOCK_SCOPE (&l->lock);
  i = l->settle_head;
  if (i != FP_NO_EXTENT)
    l->settle_head = l->peers->extents->p[i].next_wanted;
  return i;
}

void
peer_settle (struct fp_peer *l, bool up)
{
  bool any = false;
  uint32_t i;

  while ((i = next_settled (l)) != FP_NO_EXTENT) {
    any = true;
    settle (l, &l->peers->extents->p[i], up);
  }
  if (any)
    fp_notifier_raise (&l->peers->extents->changes);
}

int
peer_lookup_again (struct fp_peer *l, uint64_t deadline_ns)
{
  struct fp_lookup q = { .volume = l->peers->p->uuid };

  return fp_ctl_lookup (l->s.ctl, &q, &l->record->said, deadline_ns);
}

int
peer_lookup (struct fp_peer *l, uint64_t deadline_ns)
{
  if (l->record == NULL ||
      (l->stage == STAGE_LISTED && !l->peers->p->read_only))
    return 0;
  return peer_lookup_again (l, deadline_ns);
}
