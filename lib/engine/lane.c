/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/memlock.h"
#include "engine/dirty_log.h"
#include "engine/lane_int.h"

/* ---- creation and end ---- */

static void
wake (void *lane)
{
  fp_lane_wake (lane);
}

static void
lane_freep (struct fp_lane **lanep)
{
  fp_lane_free (*lanep);
}

/* Map the lane's memory when the first transport, or the front end, needs it.
 */
static int
lane_memory (struct fp_lane *lane)
{
  const struct fp_volume_params *p = lane->e->p;
  unsigned nr = lane->nr_frags - lane->nr_bare;
  size_t slots = (size_t) nr * p->slot_size;
  size_t buffers =
      lane->index < p->lanes ? (size_t) p->buffers * p->buffer_size : 0;
  void *m;
  int r;

  if (lane->slots != NULL)
    return 0;
  r = fp_map_filled (&m, slots + buffers);
  if (r < 0)
    return r;
  lane->slots = m;
  lane->buffers = lane->slots + slots;
  lane->memory_size = slots + buffers;
  for (unsigned i = 0; i < nr; i++)
    lane->frags[i].slot = lane->slots + (size_t) i * p->slot_size;
  return 0;
}

int
fp_lane_new (struct fp_lane **out, struct fp_engine *e, unsigned index,
             unsigned slots)
{
  FP_CLEANUP (lane_freep) struct fp_lane *lane = NULL;
  int r;

  lane = calloc (1, sizeof *lane);
  if (lane == NULL)
    return -ENOMEM;
  lane->e = e;
  lane->index = index;
  lane->nr_frags = lane->nr_slots = slots;
  /* The heal lane does not hedge, and has no buffers. */
  if (index < e->p->lanes) {
    lane->hedging = e->p->hedge && e->extents->copies > 1;
    /* A request that is cut waits for fragments of others, if it needs more.
     * A late answer to a hedged read must land in a slot, never in a buffer.
     */
    if (!lane->hedging)
      lane->nr_bare = e->p->buffers * e->extents->copies;
  }
  if (lane->hedging)
    lane->nr_frags += lane_hedge_spares (slots);
  lane->nr_frags += lane->nr_bare;
  lane->next_look_ns = FP_NEVER;
  fp_mutex_init (&lane->lock);
  fp_cond_init (&lane->cond);
  list_init (&lane->pending);
  list_init (&lane->parked);
  list_init (&lane->completed);
  r = fp_wakeup_open (&lane->wake);
  if (r == 0)
    r = fp_wakeup_open (&lane->front_wake);
  if (r < 0)
    return r;
  lane->epoll = epoll_create1 (EPOLL_CLOEXEC);
  if (lane->epoll == -1)
    return -errno;
  lane->conns = calloc (FP_MAX_SERVERS, sizeof *lane->conns);
  lane->frags = calloc (lane->nr_frags, sizeof *lane->frags);
  if (lane->conns == NULL || lane->frags == NULL)
    return -ENOMEM;
  for (unsigned i = 0; i < lane->nr_frags; i++) {
    lane->frags[i].kind = i < slots                            ? FRAG_USUAL
                          : i < lane->nr_frags - lane->nr_bare ? FRAG_SPARE
                                                               : FRAG_BARE;
    lane_frag_put (lane, &lane->frags[i]);
  }
  /* The front end wants its buffers before any server is there. */
  if (index < e->p->lanes && e->p->buffers > 0) {
    r = lane_memory (lane);
    if (r < 0)
      return r;
  }
  lane->listener = (struct fp_listener) { .wake = wake, .arg = lane };
  fp_notifier_listen (&e->extents->changes, &lane->listener);
  *out = FP_STEAL (lane);
  return 0;
}

void
fp_lane_free (struct fp_lane *lane)
{
  if (lane == NULL)
    return;
  for (unsigned i = 0; i < NR_QUEUES; i++) {
    if (lane->queues[i] != NULL)
      lane->queues[i]->ops->queue_free (lane->queues[i]);
  }
  if (lane->slots != NULL)
    munmap (lane->slots, lane->memory_size);
  if (lane->epoll > 0)
    close (lane->epoll);
  fp_wakeup_close (&lane->front_wake);
  fp_wakeup_close (&lane->wake);
  pthread_cond_destroy (&lane->cond);
  pthread_mutex_destroy (&lane->lock);
  free (lane->frags);
  free (lane->conns);
  free (lane);
}

struct fp_engine *
fp_lane_engine (const struct fp_lane *lane)
{
  return lane->e;
}

size_t
fp_lane_slot_memory (const struct fp_volume_params *p)
{
  size_t slots = p->slots + (p->hedge ? lane_hedge_spares (p->slots) : 0);

  return p->lanes *
         (slots * p->slot_size + (size_t) p->buffers * p->buffer_size);
}

/* Create the queue of this transport, if there is none.  Needs the lock. */
static int
lane_queue (struct fp_lane *lane, const struct fp_transport_ops *ops)
{
  unsigned i = (unsigned) __builtin_ctz (ops->bit);
  struct fp_queue *q = NULL;
  struct fp_queue_params qp = {
    .depth = lane->nr_frags,
    .max_conns = FP_MAX_SERVERS,
    .epoll = lane->epoll,
  };
  int r;

  if (lane->queues[i] != NULL)
    return 0;
  /* Hedged reads land in a slot, whatever the transport. */
  if (ops->registered || lane->hedging) {
    r = lane_memory (lane);
    if (r < 0)
      return r;
  }
  if (ops->registered) {
    qp.memory = lane->slots;
    qp.memory_size = lane->memory_size;
  }
  r = ops->queue_new (&q, &qp);
  if (r < 0)
    return r;
  lane->queues[i] = q;
  return 0;
}

/* Free queue q if no connection uses it.  A queue is bound to the device of
 * its first connection, so a new queue can use another device.  Return true if
 * the caller may connect again.
 */
static bool
drop_queue (struct fp_lane *lane, unsigned i, const struct fp_queue *q)
{
  LANE_LOCK_SCOPE (lane);
  lane_progress (lane);
  if (lane->queues[i] != q)
    return true; /* another peer was quicker */
  if (lane->opening[i] > 0)
    return false;
  for (unsigned s = 0; s < FP_MAX_SERVERS; s++)
    if (lane->conns[s].conn != NULL &&
        lane->conns[s].conn->queue == lane->queues[i])
      return false;
  lane->queues[i]->ops->queue_free (lane->queues[i]);
  lane->queues[i] = NULL;
  return true;
}

/* Open a connection.  On success, *q counts as opening until the caller has
 * added the connection to the lane.
 */
static int
open_conn (struct fp_lane *lane, unsigned i,
           const struct fp_transport_ops *ops, struct fp_conn_params *cp,
           uint64_t deadline_ns, struct fp_conn **conn, struct fp_queue **q)
{
  int r;

  {
    LANE_LOCK_SCOPE (lane);
    r = lane_queue (lane, ops);
    if (r < 0)
      return r;
    *q = lane->queues[i];
    lane->opening[i]++;
  }
  r = ops->conn_open (conn, *q, cp, deadline_ns);
  if (r < 0) {
    LANE_LOCK_SCOPE (lane);
    lane->opening[i]--;
  }
  return r;
}

int
fp_lane_connect (struct fp_lane *lane, unsigned s,
                 const struct fp_transport_ops *ops, struct fp_conn_params *cp,
                 uint64_t deadline_ns)
{
  unsigned i = (unsigned) __builtin_ctz (ops->bit);
  struct fp_conn *conn = NULL;
  struct fp_queue *q;
  int r;

  assert (cp->lane == lane->index);
  cp->depth = lane->nr_frags;
  r = open_conn (lane, i, ops, cp, deadline_ns, &conn, &q);
  if (r == -EXDEV && drop_queue (lane, i, q))
    r = open_conn (lane, i, ops, cp, deadline_ns, &conn, &q);
  if (r < 0)
    return r;
  {
    LANE_LOCK_SCOPE (lane);
    assert (lane->conns[s].conn == NULL);
    lane->opening[i]--;
    lane->conns[s].conn = conn;
    if (ops->direct)
      atomic_store (&lane->maps, true);
    lane->conns[s].refused_ns = 0;
    lane->conns[s].revoked = false;
    lane->conns[s].flushed = lane->conns[s].written;
    if (lane->index == lane->e->p->lanes)
      fp_dirty_log_opened (lane->e, s);
  }
  fp_notifier_raise (&lane->e->extents->changes);
  return 0;
}

/* ---- for peers and the allocator ---- */

void
fp_lane_wake (struct fp_lane *lane)
{
  /* Set the flag first.  lane_arm empties the fd, then looks at the flag.  So
   * a thread that is about to sleep sees one of the two.  If the flag was set
   * already, no thread has acted on it yet, and its setter writes to the fd.
   */
  if (!atomic_exchange (&lane->woken, true))
    fp_wakeup_write (&lane->wake);
  lane_front_wake (lane);
}

bool
fp_lane_has_queue_pair (struct fp_lane *lane, unsigned s)
{
  LANE_LOCK_SCOPE (lane);
  struct fp_conn *c = lane->conns[s].conn;

  return c != NULL && c->ops->registered;
}

bool
fp_lane_revoked (struct fp_lane *lane, unsigned s)
{
  LANE_LOCK_SCOPE (lane);
  return lane->conns[s].revoked;
}

bool
fp_lane_broken (struct fp_lane *lane, unsigned s)
{
  LANE_LOCK_SCOPE (lane);
  struct fp_conn *c = lane->conns[s].conn;

  return c == NULL || c->ops->conn_broken (c);
}

static bool
is_empty (struct fp_lane *lane, const void *conn)
{
  const struct fp_conn *c = conn;

  (void) lane;
  return c->ops->conn_inflight (c) == 0;
}

void
fp_lane_disconnect (struct fp_lane *lane, unsigned s)
{
  LANE_LOCK_SCOPE (lane);
  struct fp_conn *c = lane->conns[s].conn;

  if (c == NULL)
    return;
  c->ops->conn_break (c);
  lane_progress (lane);
  /* All completions come by themselves now (transport.h). */
  (void) lane_await (lane, &(struct lane_wait) {
                               .is_over = is_empty,
                               .arg = c,
                               .deadline_ns = FP_NEVER,
                           });
  lane->conns[s].conn = NULL;
  lane->conns[s].flushed = lane->conns[s].written;
  /* Free it under the lock: a polling thread walks over connections. */
  c->ops->conn_free (c);
}

int
fp_lane_event_fd (struct fp_lane *lane, unsigned s)
{
  LANE_LOCK_SCOPE (lane);
  struct fp_conn *c = lane->conns[s].conn;

  return c == NULL ? -1 : c->ops->conn_event_fd (c);
}

void
fp_lane_event (struct fp_lane *lane, unsigned s)
{
  LANE_LOCK_SCOPE (lane);
  struct fp_conn *c = lane->conns[s].conn;

  if (c != NULL)
    c->ops->conn_event (c);
}

uint64_t
fp_lane_unflushed (struct fp_lane *lane, unsigned s, uint64_t *at)
{
  LANE_LOCK_SCOPE (lane);
  struct lane_conn *lc = &lane->conns[s];

  *at = lc->flush_at;
  return lc->flushed == lc->written ? 0 : lc->written;
}

bool
fp_lane_flushed (struct fp_lane *lane, unsigned s, uint64_t mark)
{
  LANE_LOCK_SCOPE (lane);
  return lane->conns[s].flushed >= mark;
}

void
lane_status (struct fp_lane *lane, struct fp_volume_status *s)
{
  s->inflight += atomic_load (&lane->inflight);
  s->poll_hits += atomic_load (&lane->poll_hits);
  s->sleeps += atomic_load (&lane->sleeps);
  s->hedges.on |= lane->hedging;
  s->hedges.sent += atomic_load (&lane->hedges);
  s->hedges.won += atomic_load (&lane->hedges_won);
  s->hedges.lost += atomic_load (&lane->hedges_lost);
  s->hedges.refused += atomic_load (&lane->hedges_refused);
}

unsigned
fp_lane_users (const struct fp_lane *lane)
{
  return atomic_load (&lane->users);
}

unsigned
fp_lane_use (struct fp_lane *lane, int change)
{
  return atomic_fetch_add (&lane->users, (unsigned) change) +
         (unsigned) change;
}
