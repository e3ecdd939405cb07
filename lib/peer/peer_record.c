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
peer_record_new (struct fp_peer *peer)
{
  if (!fp_volume_is_recorded (peer->peers->p))
    return 0;
  peer->record = calloc (1, sizeof *peer->record);
  return peer->record == NULL ? -ENOMEM : 0;
}

void
peer_record_free (struct fp_peer *peer)
{
  free (peer->record);
}

void
peer_record_renew (struct fp_peer *peer)
{
  if (peer->record == NULL)
    return;
  peer->record->stage = IDLE;
  memset (&peer->record->said, 0, sizeof peer->record->said);
}

/* ---- the metadata log's side ---- */

bool
fp_peer_record (struct fp_peer *peer, enum fp_record_op op, const void *what)
{
  struct peer_record *r = peer->record;

  {
    FP_LOCK_SCOPE (&peer->lock);
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
  peer_wake (peer);
  return true;
}

bool
fp_peer_record_result (struct fp_peer *peer, int *result)
{
  struct peer_record *r = peer->record;

  FP_LOCK_SCOPE (&peer->lock);
  if (r->stage != ANSWERED)
    return false;
  *result = r->result;
  r->stage = IDLE;
  return true;
}

void
fp_peer_record_leave (struct fp_peer *peer)
{
  struct peer_record *r = peer->record;

  FP_LOCK_SCOPE (&peer->lock);
  if (r->stage == RUNNING)
    r->left = true;
  else
    r->stage = IDLE;
}

const struct fp_lookup_reply *
fp_peer_said (const struct fp_peer *peer)
{
  return &peer->record->said;
}

/* Make extent p, which was left with the peer, READY; or OFFLINE if the
 * session is not up.  If its memory is gone, forget it.
 */
static void
settle (struct fp_peer *peer, struct fp_extent *p, bool up)
{
  if (!up || !atomic_load (&p->held))
    fp_copy_forget (&p->copy);
  if (!atomic_load (&p->held))
    peer_forget (peer, p, FP_EXTENT_BUSY);
  else if (!fp_extent_move (peer->peers->extents, p, FP_EXTENT_BUSY,
                            up ? FP_EXTENT_READY : FP_EXTENT_OFFLINE))
    abort (); /* p was left with us */
}

void
fp_peer_settle (struct fp_peer *peer, uint64_t i)
{
  struct fp_extent *p = peer->peers->extents->p;

  {
    FP_LOCK_SCOPE (&peer->lock);
    /* Do it at once, as the peer's thread may be waiting for an answer.
     * While the peer is UP, the extent's import is of this session.  A peer
     * that goes down looks for READY extents after that.
     */
    if (peer->state == FP_SERVER_UP && atomic_load (&p[i].held)) {
      if (!fp_extent_move (peer->peers->extents, &p[i], FP_EXTENT_BUSY,
                           FP_EXTENT_READY))
        abort (); /* p was left with us */
      return;
    }
    /* Do this at once, too, as the thread may be connecting for long. */
    if (peer_can_fail_now (peer, &p[i])) {
      settle (peer, &p[i], false);
      return;
    }
    p[i].next_wanted = peer->settle_head;
    peer->settle_head = (uint32_t) i;
  }
  peer_wake (peer);
}

/* ---- the peer's thread ---- */

/* Return the number of words of the map that the server has. */
static uint64_t
words_there (const struct fp_peer *peer)
{
  const struct fp_recorded *d = peer->peers->recorded;

  return peer->s.hello.features & FP_FEATURE_LOST ? d->words
                                                  : d->words_of_copies;
}

static int
read_map (struct fp_peer *peer, struct fp_map_words *w)
{
  struct fp_recorded *d = peer->peers->recorded;
  uint64_t words = words_there (peer);
  int e = 0;

  for (uint64_t at = 0; e == 0 && at < words; at += FP_MAP_WORDS) {
    struct fp_map_read q = {
      .start = at * 64,
      .count = (uint32_t) FP_MIN (words - at, (uint64_t) FP_MAP_WORDS),
    };

    e = fp_ctl_map_read (peer->s.ctl, &q, w, peer_soon (peer));
    if (e == 0 && (w->start != q.start || w->count != q.count))
      e = -EPROTO;
    /* All other donors would refuse a bit beyond the end. */
    for (uint32_t i = 0; e == 0 && i < q.count; i++)
      if ((w->words[i] & ~fp_map_valid (d->extents, d->copies, at + i)) != 0)
        e = -EPROTO;
    for (uint32_t i = 0; e == 0 && i < q.count; i++)
      atomic_fetch_or (&d->map[at + i], w->words[i]);
  }
  return e;
}

static int
write_map (struct fp_peer *peer, struct fp_map_words *w)
{
  struct fp_recorded *d = peer->peers->recorded;
  uint64_t words = words_there (peer);
  int e = 0;

  for (uint64_t at = 0; e == 0 && at < words; at += FP_MAP_WORDS) {
    w->start = at * 64;
    w->count = (uint32_t) FP_MIN (words - at, (uint64_t) FP_MAP_WORDS);
    for (uint32_t i = 0; i < w->count; i++)
      w->words[i] = atomic_load (&d->map[at + i]);
    e = fp_ctl_map_write (peer->s.ctl, w, peer_soon (peer));
  }
  return e;
}

static int
do_record (struct fp_peer *peer)
{
  struct peer_record *r = peer->record;
  int e;

  switch (r->op) {
  case RECORD_OP_MAP:
    return fp_ctl_map (peer->s.ctl, &r->change, peer_soon (peer));
  case RECORD_OP_MAP_READ:
    return read_map (peer, &r->words);
  case RECORD_OP_MAP_WRITE:
    e = peer_label_doubts (peer, true);
    if (e == 0 && atomic_load (&peer->sweep))
      e = fp_recorded_may_release (peer->peers->recorded)
              ? peer_sweep (peer)
              : peer_open_strays (peer);
    return e < 0 ? e : write_map (peer, &r->words);
  case RECORD_OP_MEMBERS:
    return fp_ctl_members (peer->s.ctl, &r->members, peer_soon (peer));
  case RECORD_OP_SWEEP:
    return peer_sweep (peer);
  case RECORD_OP_DOUBTS:
    return peer_label_doubts (peer, false);
  }
  return -EINVAL;
}

static bool
begin (struct fp_peer *peer)
{
  FP_LOCK_SCOPE (&peer->lock);
  if (peer->record->stage != POSTED)
    return false;
  peer->record->stage = RUNNING;
  return true;
}

static void
end (struct fp_peer *peer, int result)
{
  struct peer_record *r = peer->record;

  {
    FP_LOCK_SCOPE (&peer->lock);
    r->result = result;
    r->stage = r->left ? IDLE : ANSWERED;
  }
  peer->peers->ops->answered (peer->peers->v);
}

int
peer_do_records (struct fp_peer *peer)
{
  uint64_t asked = fp_boot_ns ();
  int e;

  if (peer->record == NULL || !begin (peer))
    return 0;
  e = do_record (peer);
  if (peer_session_broken (e)) {
    peer_set_why (peer, fp_ctl_why (peer->s.ctl));
    end (peer, -ENOTCONN);
    return e;
  }
  peer_renewed (peer, asked);
  end (peer, e);
  return 0;
}

void
peer_fail_records (struct fp_peer *peer)
{
  if (peer->record != NULL && begin (peer))
    end (peer, -ENOTCONN);
}

static uint32_t
next_settled (struct fp_peer *peer)
{
  uint32_t i;

  FP_LOCK_SCOPE (&peer->lock);
  i = peer->settle_head;
  if (i != FP_NO_EXTENT)
    peer->settle_head = peer->peers->extents->p[i].next_wanted;
  return i;
}

void
peer_settle (struct fp_peer *peer, bool up)
{
  bool any = false;
  uint32_t i;

  while ((i = next_settled (peer)) != FP_NO_EXTENT) {
    any = true;
    settle (peer, &peer->peers->extents->p[i], up);
  }
  if (any)
    fp_notifier_raise (&peer->peers->extents->changes);
}

int
peer_lookup_again (struct fp_peer *peer, uint64_t deadline_ns)
{
  struct fp_lookup q = { .volume = peer->peers->p->uuid };

  return fp_ctl_lookup (peer->s.ctl, &q, &peer->record->said, deadline_ns);
}

int
peer_lookup (struct fp_peer *peer, uint64_t deadline_ns)
{
  if (peer->record == NULL ||
      (peer->stage == STAGE_LISTED && !peer->peers->p->read_only))
    return 0;
  return peer_lookup_again (peer, deadline_ns);
}
