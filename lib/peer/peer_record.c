/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_record.c - what a link does for the recorder: tell its server what is
 * to be recorded, and make pieces READY that are.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "meta/meta_log_int.h"
#include "peer/peer_int.h"

enum stage { IDLE, POSTED, RUNNING, ANSWERED };

struct link_record {
  /* Under the link's lock. */
  enum stage stage;
  bool left; /* nobody waits for it */
  int result;

  /* The link's own while it is RUNNING, else of who posts. */
  enum record_op op;
  struct fp_map_change change;
  struct fp_members members;

  /* The link's own. */
  struct fp_map_words words;
  struct fp_lookup_reply said;
};

int
link_record_new (struct fp_link *l)
{
  if (!fp_volume_is_recorded (&l->v->p))
    return 0;
  l->record = calloc (1, sizeof *l->record);
  return l->record == NULL ? -ENOMEM : 0;
}

void
link_record_free (struct fp_link *l)
{
  free (l->record);
}

void
link_record_renew (struct fp_link *l)
{
  if (l->record == NULL)
    return;
  l->record->stage = IDLE;
  memset (&l->record->said, 0, sizeof l->record->said);
}

/* ---- the recorder's side ---- */

bool
fp_link_record (struct fp_link *l, enum record_op op, const void *what)
{
  struct link_record *r = l->record;

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
  link_wake (l);
  return true;
}

bool
fp_link_record_result (struct fp_link *l, int *result)
{
  struct link_record *r = l->record;

  FP_LOCK_SCOPE (&l->lock);
  if (r->stage != ANSWERED)
    return false;
  *result = r->result;
  r->stage = IDLE;
  return true;
}

void
fp_link_record_leave (struct fp_link *l)
{
  struct link_record *r = l->record;

  FP_LOCK_SCOPE (&l->lock);
  if (r->stage == RUNNING)
    r->left = true;
  else
    r->stage = IDLE;
}

const struct fp_lookup_reply *
fp_link_said (const struct fp_link *l)
{
  return &l->record->said;
}

/* Make piece p, which was left with the link, READY; or OFFLINE if the session
 * is not up.  Forget it if its memory is no more.
 */
static void
settle (struct fp_link *l, struct fp_piece *p, bool up)
{
  if (!up || !atomic_load (&p->held))
    fp_copy_forget (&p->copy);
  if (!atomic_load (&p->held))
    link_forget (l, p, FP_PIECE_BUSY);
  else if (!fp_piece_move (p, FP_PIECE_BUSY,
                           up ? FP_PIECE_READY : FP_PIECE_OFFLINE))
    abort (); /* it was left with us */
}

void
fp_link_settle (struct fp_link *l, uint64_t i)
{
  struct fp_piece *p = l->v->pieces->p;

  {
    FP_LOCK_SCOPE (&l->lock);
    /* Here and now, as its thread may be waiting for an answer.  While it is
     * UP, what a piece has is of this session; and when it is not any more the
     * link will look for what is READY.
     */
    if (l->state == FP_SERVER_UP && atomic_load (&p[i].held)) {
      if (!fp_piece_move (&p[i], FP_PIECE_BUSY, FP_PIECE_READY))
        abort (); /* it was left with us */
      return;
    }
    /* Likewise, as its thread may connect for long. */
    if (link_can_fail_now (l, &p[i])) {
      settle (l, &p[i], false);
      return;
    }
    p[i].next_wanted = l->settle_head;
    l->settle_head = (uint32_t) i;
  }
  link_wake (l);
}

/* ---- the link's thread ---- */

/* The bits of this word that the map has. */
static uint64_t
valid_bits (const struct fp_volume *v, uint64_t word)
{
  uint64_t left = fp_recorder_bits (v) - word * 64;

  return left >= 64 ? UINT64_MAX : (UINT64_C (1) << left) - 1;
}

static int
read_map (struct fp_link *l, struct fp_map_words *w)
{
  struct fp_recorder *r = l->v->recorder;
  int e = 0;

  for (uint64_t at = 0; e == 0 && at < r->words; at += FP_MAP_WORDS) {
    struct fp_map_read q = {
      .start = at * 64,
      .count = (uint32_t) FP_MIN (r->words - at, (uint64_t) FP_MAP_WORDS),
    };

    e = fp_ctl_map_read (l->s.ctl, &q, w, link_soon (l));
    if (e == 0 && (w->start != q.start || w->count != q.count))
      e = -EPROTO;
    /* All the others would refuse what is beyond the end. */
    for (uint32_t i = 0; e == 0 && i < q.count; i++)
      if ((w->words[i] & ~valid_bits (l->v, at + i)) != 0)
        e = -EPROTO;
    for (uint32_t i = 0; e == 0 && i < q.count; i++)
      atomic_fetch_or (&r->map[at + i], w->words[i]);
  }
  return e;
}

static int
write_map (struct fp_link *l, struct fp_map_words *w)
{
  struct fp_recorder *r = l->v->recorder;
  int e = 0;

  for (uint64_t at = 0; e == 0 && at < r->words; at += FP_MAP_WORDS) {
    w->start = at * 64;
    w->count = (uint32_t) FP_MIN (r->words - at, (uint64_t) FP_MAP_WORDS);
    for (uint32_t i = 0; i < w->count; i++)
      w->words[i] = atomic_load (&r->map[at + i]);
    e = fp_ctl_map_write (l->s.ctl, w, link_soon (l));
  }
  return e;
}

static int
do_record (struct fp_link *l)
{
  struct link_record *r = l->record;
  int e;

  switch (r->op) {
  case RECORD_OP_MAP:
    return fp_ctl_map (l->s.ctl, &r->change, link_soon (l));
  case RECORD_OP_MAP_READ:
    return read_map (l, &r->words);
  case RECORD_OP_MAP_WRITE:
    e = link_label_doubts (l, true);
    if (e == 0 && atomic_load (&l->sweep))
      e = fp_recorder_may_release (l->v) ? link_sweep (l)
                                         : link_open_strays (l);
    return e < 0 ? e : write_map (l, &r->words);
  case RECORD_OP_MEMBERS:
    return fp_ctl_members (l->s.ctl, &r->members, link_soon (l));
  case RECORD_OP_SWEEP:
    return link_sweep (l);
  case RECORD_OP_DOUBTS:
    return link_label_doubts (l, false);
  }
  return -EINVAL;
}

static bool
begin (struct fp_link *l)
{
  FP_LOCK_SCOPE (&l->lock);
  if (l->record->stage != POSTED)
    return false;
  l->record->stage = RUNNING;
  return true;
}

static void
end (struct fp_link *l, int result)
{
  struct link_record *r = l->record;

  {
    FP_LOCK_SCOPE (&l->lock);
    r->result = result;
    r->stage = r->left ? IDLE : ANSWERED;
  }
  fp_recorder_wake (l->v);
}

int
link_do_records (struct fp_link *l)
{
  uint64_t asked = fp_boot_ns ();
  int e;

  if (l->record == NULL || !begin (l))
    return 0;
  e = do_record (l);
  if (link_session_broken (e)) {
    link_set_why (l, fp_ctl_why (l->s.ctl));
    end (l, -ENOTCONN);
    return e;
  }
  link_renewed (l, asked);
  end (l, e);
  return 0;
}

void
link_fail_records (struct fp_link *l)
{
  if (l->record != NULL && begin (l))
    end (l, -ENOTCONN);
}

static uint32_t
next_settled (struct fp_link *l)
{
  uint32_t i;

  FP_LOCK_SCOPE (&l->lock);
  i = l->settle_head;
  if (i != FP_NO_PIECE)
    l->settle_head = l->v->pieces->p[i].next_wanted;
  return i;
}

void
link_settle (struct fp_link *l, bool up)
{
  bool any = false;
  uint32_t i;

  while ((i = next_settled (l)) != FP_NO_PIECE) {
    any = true;
    settle (l, &l->v->pieces->p[i], up);
  }
  if (any)
    fp_volume_wake_lanes (l->v);
}

int
link_lookup_again (struct fp_link *l, uint64_t deadline_ns)
{
  struct fp_lookup q = { .volume = l->v->p.uuid };

  return fp_ctl_lookup (l->s.ctl, &q, &l->record->said, deadline_ns);
}

int
link_lookup (struct fp_link *l, uint64_t deadline_ns)
{
  if (l->record == NULL || (l->learned && !l->v->p.read_only))
    return 0;
  return link_lookup_again (l, deadline_ns);
}
