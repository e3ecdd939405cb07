/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/link.h"
#include "volume/sync.h"
#include "volume/volume_int.h"

/* Up to this much is zeroed by writing zeros; more is left to the server's
 * memset, which costs one message.
 */
#define ZERO_BY_WRITE (256 * 1024)

static const unsigned char zeros[64 * 1024];

void
fp_volume_params_init (struct fp_volume_params *p)
{
  *p = (struct fp_volume_params) {
    .copies = 1,
    .transports = FP_TRANSPORT_WIRE_MASK,
    .timeout_ms = 2000,
    .poll_us = 100,
    .lanes = 1,
    .slots = 16,
    .slot_size = 128 * 1024,
  };
}

/* ---- start and stop ---- */

static void
volume_free (struct fp_volume *v)
{
  if (v == NULL)
    return;
  for (unsigned i = 0; v->links != NULL && i < v->nr_links; i++)
    fp_link_free (v->links[i]);
  for (unsigned i = 0; v->lanes != NULL && i < v->nr_lanes; i++)
    fp_lane_free (v->lanes[i]);
  fp_pieces_free (v->pieces);
  pthread_cond_destroy (&v->cond);
  pthread_mutex_destroy (&v->lock);
  free (v->links);
  free (v->lanes);
  free (v);
}

static void
volume_freep (struct fp_volume **vp)
{
  volume_free (*vp);
}

static int
make (struct fp_volume **out, const struct fp_volume_params *p)
{
  FP_CLEANUP (volume_freep) struct fp_volume *v = NULL;
  int r;

  if (p->nr_servers == 0 || p->nr_servers > FP_MAX_SERVERS || p->size == 0 ||
      p->size % 512 != 0 || p->lanes == 0 || p->lanes > FP_MAX_LANES ||
      p->slots == 0 || p->slot_size == 0 || p->slot_size % 4096 != 0 ||
      p->copies != 1)
    return -EINVAL;
  v = calloc (1, sizeof *v);
  if (v == NULL)
    return -ENOMEM;
  v->p = *p;
  v->wanted_head = FP_NO_PIECE;
  fp_mutex_init (&v->lock);
  fp_cond_init (&v->cond);
  v->nr_links = p->nr_servers;
  v->nr_lanes = p->lanes;
  v->links = calloc (v->nr_links, sizeof *v->links);
  v->lanes = calloc (v->nr_lanes, sizeof *v->lanes);
  if (v->links == NULL || v->lanes == NULL)
    return -ENOMEM;
  r = fp_pieces_new (&v->pieces, p->size, p->slab_size);
  if (r == 0 && fp_uuid_is_nil (&v->p.uuid))
    r = fp_uuid_generate (&v->p.uuid);
  for (unsigned i = 0; r == 0 && i < v->nr_links; i++)
    r = fp_link_new (&v->links[i], v, i);
  for (unsigned i = 0; r == 0 && i < v->nr_lanes; i++)
    r = fp_lane_new (&v->lanes[i], v, i);
  if (r < 0)
    return r;
  *out = FP_STEAL (v);
  return 0;
}

int
fp_volume_start (struct fp_volume **out, const struct fp_volume_params *p,
                 char why[FP_WHY_MAX])
{
  struct fp_volume *v = NULL;
  /* Each link tries again by itself until then. */
  uint64_t deadline = fp_deadline_in_ms (fp_volume_start_ms (p));
  int r;

  why[0] = '\0';
  r = make (&v, p);
  if (r < 0) {
    snprintf (why, FP_WHY_MAX, "volume: %s", strerror (-r));
    return r;
  }
  for (unsigned i = 0; r == 0 && i < v->nr_links; i++)
    r = fp_link_start (v->links[i]);
  if (r < 0)
    snprintf (why, FP_WHY_MAX, "thread: %s", strerror (-r));
  for (unsigned i = 0; r == 0 && i < v->nr_links; i++)
    r = fp_link_wait_up (v->links[i], deadline, why);
  if (r == 0) {
    r = fp_manager_start (v);
    if (r < 0)
      snprintf (why, FP_WHY_MAX, "thread: %s", strerror (-r));
  }
  if (r == 0 && p->reserve_full)
    r = fp_manager_reserve_all (v, why);
  if (r < 0) {
    /* A volume that never was is discarded; one that was taken up again
     * stays what it is.
     */
    fp_volume_stop (v, !p->resume);
    return r;
  }
  *out = v;
  return 0;
}

void
fp_volume_stop (struct fp_volume *v, bool discard)
{
  if (v == NULL)
    return;
  fp_manager_stop (v);
  for (unsigned i = 0; i < v->nr_links; i++)
    fp_link_stop (v->links[i], discard);
  for (unsigned i = 0; i < v->nr_links; i++)
    fp_link_join (v->links[i]);
  volume_free (v);
}

uint64_t
fp_volume_size (const struct fp_volume *v)
{
  return v->p.size;
}

const struct fp_uuid *
fp_volume_uuid (const struct fp_volume *v)
{
  return &v->p.uuid;
}

struct fp_lane *
fp_volume_lane_get (struct fp_volume *v)
{
  struct fp_lane *best = v->lanes[0];

  FP_LOCK_SCOPE (&v->lock);
  for (unsigned i = 1; i < v->nr_lanes; i++) {
    if (fp_lane_users (v->lanes[i]) < fp_lane_users (best))
      best = v->lanes[i];
  }
  fp_lane_use (best, 1);
  return best;
}

void
fp_volume_lane_put (struct fp_lane *lane)
{
  fp_lane_use (lane, -1);
}

void
fp_volume_wake_lanes (struct fp_volume *v)
{
  for (unsigned i = 0; i < v->nr_lanes; i++)
    fp_lane_wake (v->lanes[i]);
}

void
fp_volume_drain_piece (struct fp_volume *v, struct fp_piece *p)
{
  while (!fp_piece_drained (v->pieces, p, 1)) {
    for (unsigned i = 0; i < v->nr_lanes; i++)
      fp_lane_help (v->lanes[i]);
  }
}

/* ---- zeros ---- */

static int
write_zeros (struct fp_lane *lane, uint64_t length, uint64_t offset)
{
  while (length > 0) {
    uint32_t n = (uint32_t) FP_MIN (length, (uint64_t) sizeof zeros);
    int r = fp_lane_write (lane, zeros, n, offset);

    if (r < 0)
      return r;
    length -= n;
    offset += n;
  }
  return 0;
}

/* Wait for a piece that somebody else has shut, or whose server is away.
 * Returns its state when it is none of these any more; -EIO at the deadline.
 */
static int
settled_state (struct fp_volume *v, struct fp_piece *p, uint64_t deadline)
{
  for (;;) {
    enum fp_piece_state s = fp_piece_state (p);
    struct timespec until;

    if (s != FP_PIECE_BUSY && s != FP_PIECE_OFFLINE)
      return (int) s;
    if (fp_deadline_passed (deadline))
      return -EIO;
    /* There is no event for every such change: look every millisecond. */
    fp_timespec_after (&until, 1);
    FP_LOCK_SCOPE (&v->lock);
    (void) pthread_cond_timedwait (&v->cond, &v->lock, &until);
  }
}

static int
zero_in_piece (struct fp_volume *v, struct fp_lane *lane, uint64_t i,
               uint64_t in, uint64_t length, bool trim)
{
  struct fp_pieces *t = v->pieces;
  struct fp_piece *p = &t->p[i];
  uint64_t deadline = fp_deadline_in_ms (2 * v->p.timeout_ms);
  uint64_t end = FP_MIN (t->piece_size, t->size - (i << t->shift));
  bool whole = in == 0 && length == end;

  for (;;) {
    struct fp_link *link;
    uint64_t run;
    int s = settled_state (v, p, deadline), r;

    if (s < 0)
      return s;
    if (s == FP_PIECE_EMPTY)
      return 0;
    if (s == FP_PIECE_LOST)
      return -EIO;
    if (!(whole && trim)) {
      if (!fp_piece_run (t, i, in, length, &run) && run == length)
        return 0;
      if (length <= ZERO_BY_WRITE)
        return write_zeros (lane, length, (i << t->shift) + in);
    }
    if (!fp_piece_move (p, FP_PIECE_READY, FP_PIECE_BUSY))
      continue; /* somebody was quicker */
    fp_volume_drain_piece (v, p);
    link = v->links[atomic_load (&p->server)];
    if (whole && trim && !v->p.reserve_full)
      r = fp_link_release (link, p);
    else
      r = fp_link_zero (link, p, in, length);
    fp_volume_wake_lanes (v);
    if (r != -ENOTCONN)
      return r < 0 ? -EIO : 0;
    if (fp_deadline_passed (deadline))
      return -EIO;
  }
}

int
fp_lane_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
              bool trim)
{
  struct fp_volume *v = fp_lane_volume (lane);
  struct fp_pieces *t = v->pieces;

  if (offset > t->size || length > t->size - offset)
    return -EINVAL;
  atomic_fetch_add (trim ? &v->trims : &v->zeros, 1);
  while (length > 0) {
    uint64_t in = offset & (t->piece_size - 1);
    uint64_t n = FP_MIN (length, t->piece_size - in);
    int r = zero_in_piece (v, lane, offset >> t->shift, in, n, trim);

    if (r < 0)
      return r;
    length -= n;
    offset += n;
  }
  return 0;
}

/* ---- flush ---- */

/* An acknowledged WRITE is placed before a later READ of the same queue pair
 * is answered, and nothing orders it against another queue pair (InfiniBand
 * Architecture Specification, 9.5, transaction ordering).  So each queue pair
 * that wrote makes one small READ.
 */
static bool
is_on (struct fp_piece *p, unsigned server)
{
  return fp_piece_state (p) == FP_PIECE_READY &&
         atomic_load (&p->server) == server;
}

/* Somewhere to read on that server: near *offset if that piece still is
 * there, else anywhere.
 */
static bool
place_to_read (struct fp_volume *v, unsigned server, uint64_t *offset)
{
  struct fp_pieces *t = v->pieces;

  if (is_on (&t->p[*offset >> t->shift], server))
    return true;
  for (uint64_t i = 0; i < t->nr; i++) {
    if (is_on (&t->p[i], server)) {
      *offset = i << t->shift;
      return true;
    }
  }
  return false; /* then nothing that was written is left there */
}

int
fp_lane_flush (struct fp_lane *lane)
{
  struct fp_volume *v = fp_lane_volume (lane);
  int result = 0;

  atomic_fetch_add (&v->flushes, 1);
  for (unsigned i = 0; i < v->nr_lanes; i++) {
    for (unsigned s = 0; s < v->nr_links; s++) {
      unsigned char byte;
      uint64_t offset, mark;
      int r;

      mark = fp_lane_unflushed (v->lanes[i], s, &offset);
      if (mark == 0 || !place_to_read (v, s, &offset))
        continue;
      r = fp_lane_sync_read (v->lanes[i], &byte, 1, offset);
      if (r < 0)
        result = r;
      else
        fp_lane_flushed (v->lanes[i], s, mark);
    }
  }
  return result;
}

/* ---- extents, status ---- */

void
fp_volume_extent (struct fp_volume *v, uint64_t offset, bool *hole,
                  uint64_t *length)
{
  struct fp_pieces *t = v->pieces;
  bool first = true;

  *length = 0;
  *hole = false;
  while (offset + *length < t->size) {
    uint64_t at = offset + *length, i = at >> t->shift;
    uint64_t in = at & (t->piece_size - 1);
    uint64_t run = FP_MIN (t->piece_size - in, t->size - at);
    bool h;

    switch (fp_piece_state (&t->p[i])) {
    case FP_PIECE_EMPTY:
      h = true;
      break;
    case FP_PIECE_READY:
    case FP_PIECE_BUSY:
    case FP_PIECE_OFFLINE:
      h = !fp_piece_run (t, i, in, run, &run);
      break;
    case FP_PIECE_LOST:
    default:
      h = false;
      break;
    }
    if (!first && h != *hole)
      break;
    first = false;
    *hole = h;
    *length += run;
  }
}

void
fp_volume_status (struct fp_volume *v, struct fp_volume_status *s)
{
  struct fp_hist *hist = calloc (2, sizeof *hist);
  struct fp_lane_stats st = { .reads = 0 };

  memset (s, 0, sizeof *s);
  s->uuid = v->p.uuid;
  memcpy (s->name, v->p.name, sizeof s->name);
  s->size = v->p.size;
  s->slab_size = v->p.slab_size;
  s->copies = v->p.copies;
  s->lanes = v->nr_lanes;
  s->nr_servers = v->nr_links;
  s->pieces = v->pieces->nr;
  s->pieces_allocated = atomic_load (&v->allocated);
  s->pieces_lost = atomic_load (&v->lost);
  s->zeros = atomic_load (&v->zeros);
  s->trims = atomic_load (&v->trims);
  s->flushes = atomic_load (&v->flushes);
  if (hist == NULL)
    return; /* counters without latencies are better than none */
  for (unsigned i = 0; i < v->nr_lanes; i++)
    fp_lane_stats (v->lanes[i], &st, &hist[0], &hist[1]);
  s->reads = st.reads;
  s->writes = st.writes;
  s->errors = st.errors;
  s->bytes_read = st.bytes_read;
  s->bytes_written = st.bytes_written;
  s->inflight = st.inflight;
  s->poll_hits = st.poll_hits;
  s->sleeps = st.sleeps;
  fp_hist_summary (&hist[0], &s->read_ns);
  fp_hist_summary (&hist[1], &s->write_ns);
  free (hist);
}

void
fp_volume_server_status (struct fp_volume *v, unsigned i,
                         struct fp_server_status *s)
{
  assert (i < v->nr_links);
  fp_link_status (v->links[i], s);
}
