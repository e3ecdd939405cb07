/* SPDX-License-Identifier: BSD-3-Clause */
/* test-hedge.c - hedges: reads that are sent to another copy, too.  The first
 * answer wins, the late one touches only its own memory, and the number of
 * hedges is limited.
 */

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/thread.h"
#include "engine/lane_int.h"
#include "volume-fixture.h"

#define SLAB COPIES_SLAB
#define EXTENTS COPIES_EXTENTS
#define SIZE COPIES_SIZE
#define IO COPIES_IO
#define USUAL_NS (2 * FP_NS_PER_MS)
/* Longer than any stall of this process: no read is late or slow. */
#define AGES_NS (1000 * FP_NS_PER_S)
#define MARK 0xee

static struct fp_lane *lane;
/* The extent that is read, and the servers of its copies 0 and 1. */
static uint64_t extent;
static struct fp_fake_server *first, *second;
static struct lane_conn *first_conn, *second_conn;

static unsigned
length (const struct frag *f)
{
  unsigned n = 0;

  for (; f != NULL; f = f->next)
    n++;
  return n;
}

static bool
none_is_out (void)
{
  LANE_LOCK_SCOPE (lane);
  return lane->active_head == NULL;
}

/* Wait until all fragments are free again. */
static void
all_free (void)
{
  uint64_t end = fp_deadline_in_ms (20000);

  while (!none_is_out ()) {
    assert_false (fp_deadline_passed (end));
    fp_lane_poll (lane, false);
    pause_ms (1);
  }
  LANE_LOCK_SCOPE (lane); /* peers use the lane, too */
  assert_int_equal (length (lane->free[FRAG_USUAL]), lane->nr_slots);
  assert_int_equal (length (lane->free[FRAG_SPARE]),
                    lane_hedge_spares (lane->nr_slots));
  assert_int_equal (first_conn->watched, 0);
  assert_int_equal (second_conn->watched, 0);
  assert_int_equal (first_conn->inflight, 0);
  assert_int_equal (second_conn->inflight, 0);
}

/* Pretend that ns was measured as the usual latency. */
static void
usual_ns (uint64_t ns)
{
  first_conn->samples = second_conn->samples = 1000;
  first_conn->p99_ns = second_conn->p99_ns = ns;
}

static void
usual (uint64_t ns)
{
  usual_ns (ns);
  first_conn->points = second_conn->points = 0;
  first_conn->avoided = second_conn->avoided = false;
  lane->tokens = 200;
}

static void
attach (bool hedge)
{
  struct fp_volume_params p;
  struct fp_extents *t;

  nr_named = 2;
  copies_params (&p);
  p.size = SIZE;
  p.timeout_ms = 20000;
  p.slots = 8;
  p.hedge = hedge;
  must (fixture_start (&p));
  lane = v->engine.lanes[0];
  t = v->extents;
  for (uint64_t i = 0; i < EXTENTS; i++)
    assert_int_equal (put (i, (unsigned char) (i + 1)), 0);
  extent = 3;
  first_conn = &lane->conns[atomic_load (&t->p[extent].server)];
  second_conn = &lane->conns[atomic_load (&t->p[t->nr + extent].server)];
  first = fake_server_data (servers[first_conn - lane->conns]);
  second = fake_server_data (servers[second_conn - lane->conns]);
  if (hedge)
    usual (USUAL_NS);
}

static int
setup (void **state)
{
  copies_setup (state);
  attach (true);
  return 0;
}

static int
teardown (void **state)
{
  for (unsigned i = 0; v != NULL && i < 2; i++) {
    fp_fake_server_hold (fake_server_data (servers[i]), false);
    while (fp_fake_server_release (fake_server_data (servers[i]), 0, 0))
      ;
  }
  return fixture_down (state);
}

static struct fp_hedge_status
counts (void)
{
  struct fp_volume_status s;

  fp_volume_status (v, &s);
  return s.hedges;
}

static void
expect (uint64_t sent, uint64_t won, uint64_t lost, uint64_t refused)
{
  struct fp_hedge_status h = counts ();

  assert_int_equal (h.sent, sent);
  assert_int_equal (h.won, won);
  assert_int_equal (h.lost, lost);
  assert_int_equal (h.refused, refused);
}

/* Read `extent` into memory that the test frees when the read is done. */
static struct fp_io *
submit (void)
{
  struct fp_io *io = calloc (1, sizeof *io);

  assert_non_null (io);
  io->kind = FP_IO_READ;
  io->length = IO;
  io->offset = extent * SLAB + 4096;
  io->buf = malloc (IO);
  assert_non_null (io->buf);
  memset (io->buf, MARK, IO);
  assert_int_equal (fp_lane_submit (lane, io), 0);
  return io;
}

/* Poll until the server holds n ops; no request may complete meanwhile. */
static void
held (struct fp_fake_server *s, unsigned n)
{
  uint64_t end = fp_deadline_in_ms (20000);

  while (fp_fake_server_held (s) < n) {
    assert_false (fp_deadline_passed (end));
    assert_null (fp_lane_poll (lane, false));
  }
}

static void
finished (struct fp_io *io, int status)
{
  struct fp_io *done = fp_lane_poll (lane, true);

  assert_ptr_equal (done, io);
  assert_null (done->next);
  assert_int_equal (done->status, status);
  for (unsigned n = 0; status == 0 && n < IO; n++)
    assert_int_equal (((unsigned char *) io->buf)[n], extent + 1);
}

static void
forget (struct fp_io *io)
{
  free (io->buf);
  free (io);
}

/* ---- tests ---- */

static void
test_off (void **state)
{
  struct fp_io *io;

  (void) state;
  detach ();
  attach (false);
  assert_false (counts ().on);
  assert_int_equal (lane->nr_frags, lane->nr_slots);
  fp_fake_server_hold (first, true);
  io = submit ();
  held (first, 1);
  pause_ms (20);
  assert_null (fp_lane_poll (lane, false));
  assert_int_equal (fp_fake_server_held (second), 0);
  assert_true (fp_fake_server_release (first, 0, 0));
  finished (io, 0);
  expect (0, 0, 0, 0);
  forget (io);
}

static void
test_second_wins (void **state)
{
  struct fp_io *io;
  unsigned char *buf;

  (void) state;
  fp_fake_server_hold (first, true);
  io = submit ();
  finished (io, 0);
  assert_int_equal (fp_fake_server_held (first), 1);
  expect (1, 1, 0, 0);
  assert_true (counts ().on);
  /* The buffer belongs to the client again. */
  buf = io->buf;
  free (io);
  memset (buf, MARK, IO);
  fp_fake_server_hold (first, false);
  /* Other reads go on meanwhile, in all other slots. */
  for (unsigned n = 0; n < 50; n++)
    for (uint64_t i = 0; i < EXTENTS; i++)
      assert_int_equal (get (i), i + 1);
  assert_int_equal (fp_fake_server_held (first), 1);
  assert_int_equal (length (lane->free[FRAG_USUAL]), lane->nr_slots);
  assert_true (fp_fake_server_release (first, 0, 0));
  all_free ();
  for (unsigned n = 0; n < IO; n++)
    assert_int_equal (buf[n], MARK);
  free (buf);
}

static void
test_first_wins (void **state)
{
  struct fp_io *io;
  unsigned char *buf;

  (void) state;
  fp_fake_server_hold (first, true);
  fp_fake_server_hold (second, true);
  io = submit ();
  held (second, 1);
  for (struct frag *f = lane->active_head; f != NULL; f = f->next)
    assert_ptr_equal (f->op.local, f->slot); /* each has its own slot */
  assert_true (fp_fake_server_release (first, 0, 0));
  finished (io, 0);
  expect (1, 0, 1, 0);
  buf = io->buf;
  free (io);
  memset (buf, MARK, IO);
  assert_true (fp_fake_server_release (second, 0, 0));
  all_free ();
  for (unsigned n = 0; n < IO; n++)
    assert_int_equal (buf[n], MARK);
  free (buf);
}

static void *
write_extent (void *arg)
{
  (void) arg;
  assert_int_equal (put (extent, (unsigned char) (extent + 1)), 0);
  return NULL;
}

/* A sleeping lane wakes up when a hedge is due, not only at the next scan.
 * So does a lane that a write put to sleep before the read came.
 */
static void
wakes (bool beside_write)
{
  for (unsigned n = 0; n < 20; n++) {
    unsigned char got[IO];
    uint64_t start;
    pthread_t writer;

    usual (USUAL_NS);
    fp_fake_server_hold (first, true);
    if (beside_write) {
      bool asleep = false;

      assert_int_equal (pthread_create (&writer, NULL, write_extent, NULL), 0);
      while (!asleep) {
        pause_ms (
            1); /* a thread that waits for the lock keeps the lane awake */
        LANE_LOCK_SCOPE (lane);
        asleep = lane->asleep;
      }
      LANE_LOCK_SCOPE (lane);
      second_conn->inflight += 10; /* so that the first copy is read */
    }
    start = fp_now_ns ();
    assert_int_equal (fp_lane_read (lane, got, IO, extent * SLAB + 4096), 0);
    assert_true (fp_now_ns () - start < 5 * FP_NS_PER_MS);
    assert_int_equal (got[0], extent + 1);
    if (beside_write) {
      LANE_LOCK_SCOPE (lane);
      second_conn->inflight -= 10;
    }
    fp_fake_server_hold (first, false);
    while (fp_fake_server_release (first, 0, 0))
      ;
    if (beside_write)
      pthread_join (writer, NULL);
    all_free ();
  }
  assert_int_equal (counts ().won, 20);
}

static void
test_wakes_up (void **state)
{
  (void) state;
  wakes (false);
}

static void
test_wakes_sleeper (void **state)
{
  (void) state;
  wakes (true);
}

/* If one of the two reads fails, the other one counts. */
static void
test_one_fails (void **state)
{
  (void) state;
  for (unsigned k = 0; k < 3; k++) {
    struct fp_io *io;

    usual (USUAL_NS);
    fp_fake_server_hold (first, true);
    fp_fake_server_hold (second, true);
    io = submit ();
    held (first, 1);
    held (second, 1);
    assert_true (
        fp_fake_server_release (k == 1 ? second : first, 0, -EREMOTEIO));
    pause_ms (5);
    assert_null (fp_lane_poll (lane, false));
    /* The read is not tried a third time. */
    assert_int_equal (counts ().sent, k + 1);
    assert_true (fp_fake_server_release (k == 1 ? first : second, 0,
                                         k == 2 ? -EREMOTEIO : 0));
    finished (io, k == 2 ? -EIO : 0);
    forget (io);
    /* The copy that had an error is resynced. */
    fp_fake_server_hold (first, false);
    fp_fake_server_hold (second, false);
    for (unsigned i = 0; i < 2; i++)
      while (fp_fake_server_release (fake_server_data (servers[i]), 0, 0))
        ;
    while (fp_copies_bad (v->extents, extent, 3) != 0)
      pause_ms (1);
    await_whole ();
    all_free ();
  }
}

static void
await_up (unsigned server)
{
  struct fp_server_status now;
  uint64_t end = fp_deadline_in_ms (20000);

  do {
    assert_false (fp_deadline_passed (end));
    fp_volume_server_status (v, server, &now);
    pause_ms (1);
  } while (now.state != FP_SERVER_UP);
}

static void
cut (unsigned server)
{
  struct fp_server_status before, now;
  uint64_t end = fp_deadline_in_ms (20000);

  fp_volume_server_status (v, server, &before);
  fake_server_cut (servers[server]);
  do { /* until the client notices: held ops would break later */
    assert_false (fp_deadline_passed (end));
    fp_volume_server_status (v, server, &now);
    pause_ms (1);
  } while (now.state == FP_SERVER_UP && now.reconnects == before.reconnects);
}

/* The server that was asked first dies (0), or the second one (1), or both
 * answers are there at once (2).
 */
static void
test_one_dies (void **state)
{
  (void) state;
  for (unsigned k = 0; k < 3; k++) {
    struct lane_conn *dead = k == 0 ? first_conn : second_conn;
    unsigned server = (unsigned) (dead - lane->conns);
    struct fp_io *io;

    fp_fake_server_hold (first, true);
    fp_fake_server_hold (second, true);
    usual (USUAL_NS);
    io = submit ();
    held (first, 1);
    held (second, 1);
    if (k < 2)
      cut (server);
    if (k != 0)
      assert_true (fp_fake_server_release (first, 0, 0));
    if (k != 1)
      assert_true (fp_fake_server_release (second, 0, 0));
    finished (io, 0);
    forget (io);
    fp_fake_server_hold (first, false);
    fp_fake_server_hold (second, false);
    if (k < 2)
      fake_server_revive (servers[server]);
    await_up (server);
    await_whole ();
    all_free ();
  }
}

/* The volume stops while an answer is late; its request was done long ago. */
static void
test_end (void **state)
{
  struct fp_io *io;

  (void) state;
  fp_fake_server_hold (first, true);
  io = submit ();
  finished (io, 0);
  forget (io);
  assert_int_equal (fp_fake_server_held (first), 1);
  detach ();
  assert_int_equal (fp_fake_server_held (first), 0);
}

/* An extent cannot move while a late answer is in flight. */
static void
test_is_inside (void **state)
{
  struct fp_extent *p = fp_copies_get (v->extents, extent, 0);
  struct fp_io *io;

  (void) state;
  fp_fake_server_hold (first, true);
  io = submit ();
  finished (io, 0);
  forget (io);
  assert_int_equal (atomic_load (&p->word) & FP_EXTENT_USERS, 1);
  assert_int_equal (atomic_load (&p[v->extents->nr].word) & FP_EXTENT_USERS,
                    0);
  assert_true (fp_fake_server_release (first, 0, 0));
  all_free ();
  assert_int_equal (atomic_load (&p->word) & FP_EXTENT_USERS, 0);
}

/* A copy that is not in sync may be old, so no hedge goes to it. */
static void
test_live_only (void **state)
{
  struct fp_extents *t = v->extents;
  struct fp_io *io;

  (void) state;
  fp_fake_server_hold (first, true);
  io = submit ();
  fp_lane_poll (lane, false);
  atomic_store (&t->in_sync[extent], 1);
  for (unsigned n = 0; n < 20; n++) {
    assert_null (fp_lane_poll (lane, false));
    pause_ms (1);
  }
  expect (0, 0, 0, 0);
  /* As soon as it is in sync, a hedge does. */
  atomic_store (&t->in_sync[extent], 3);
  finished (io, 0);
  expect (1, 1, 0, 0);
  forget (io);
}

/* A hedge costs 20 tokens, and each read brings one. */
static void
test_budget (void **state)
{
  struct fp_io *io;

  (void) state;
  lane->tokens = 0;
  fp_fake_server_hold (first, true);
  io = submit ();
  held (first, 1);
  for (unsigned n = 0; n < 20; n++) {
    assert_null (fp_lane_poll (lane, false));
    pause_ms (1);
  }
  expect (0, 0, 0, 1);
  fp_fake_server_hold (first, false);
  assert_true (fp_fake_server_release (first, 0, 0));
  finished (io, 0);
  forget (io);
  /* A read brings one token, however often it has to wait. */
  for (unsigned n = 0; n < 18; n++)
    assert_int_equal (get (extent), extent + 1);
  usual (USUAL_NS);
  lane->tokens = 18;
  fp_fake_server_hold (first, true);
  io = submit ();
  held (first, 1);
  for (unsigned n = 0; n < 10; n++) {
    assert_null (fp_lane_poll (lane, false));
    pause_ms (1);
  }
  assert_int_equal (counts ().sent, 0);
  /* One more read makes up the twenty. */
  get ((extent + 1) % EXTENTS);
  finished (io, 0);
  assert_int_equal (counts ().sent, 1);
  assert_true (lane->tokens < 5);
  forget (io);
}

/* Hedges take no fragments from requests, and are no more than the spare ones.
 */
static void
test_spares (void **state)
{
  unsigned spares = lane_hedge_spares (lane->nr_slots);
  struct fp_io *ios[2 * FP_MAX_SERVERS];
  unsigned n = 0;

  (void) state;
  lane->tokens = 10000;
  fp_fake_server_hold (first, true);
  fp_fake_server_hold (second, true);
  for (; n < lane->nr_slots; n++)
    ios[n] = submit ();
  /* All reads are in flight, and as many as possible are hedged. */
  held (first, lane->nr_slots / 2);
  for (unsigned k = 0; k < 20; k++) {
    assert_null (fp_lane_poll (lane, false));
    pause_ms (1);
  }
  assert_int_equal (counts ().sent, spares);
  assert_int_equal (counts ().refused, lane->nr_slots - spares);
  assert_int_equal (length (lane->free[FRAG_SPARE]), 0);
  assert_int_equal (fp_fake_server_held (first) + fp_fake_server_held (second),
                    lane->nr_slots + spares);
  fp_fake_server_hold (first, false);
  fp_fake_server_hold (second, false);
  while (fp_fake_server_release (second, 0, 0))
    ;
  while (fp_fake_server_release (first, 0, 0))
    ;
  while (n > 0)
    for (struct fp_io *io = fp_lane_poll (lane, true); io != NULL;
         io = io->next) {
      assert_int_equal (io->status, 0);
      n--;
    }
  for (n = 0; n < lane->nr_slots; n++)
    forget (ios[n]);
  all_free ();
}

/* The usual latency is measured. */
static void
test_learns (void **state)
{
  (void) state;
  first_conn->samples = 0;
  first_conn->p99_ns = 0;
  second_conn->p99_ns = AGES_NS; /* no read from the first is hedged */
  for (unsigned n = 0; n < 127; n++)
    assert_int_equal (get (extent), extent + 1);
  assert_int_equal (first_conn->samples, 127);
  assert_true (first_conn->p99_ns > 0);
  /* No hedge goes to a server whose latency is not known well enough. */
  fp_fake_server_hold (second, true);
  first_conn->inflight += 10; /* so that the second copy is read */
  {
    struct fp_io *io = submit ();

    held (second, 1);
    first_conn->inflight -= 10;
    for (unsigned n = 0; n < 20; n++) {
      assert_null (fp_lane_poll (lane, false));
      pause_ms (1);
    }
    assert_int_equal (counts ().sent, 0);
    fp_fake_server_hold (second, false);
    assert_true (fp_fake_server_release (second, 0, 0));
    finished (io, 0);
    forget (io);
  }
  get (extent);
  assert_int_equal (first_conn->samples, 128);
}

/* A server that is slow again and again is avoided, tried now and then, and
 * used again when it is quick.
 */
static void
test_avoided (void **state)
{
  uint64_t end;

  (void) state;
  fp_fake_server_hold (first, true);
  for (unsigned n = 0; n < 2; n++) {
    struct fp_io *io = submit ();

    usual (USUAL_NS);
    first_conn->points = n * 64;
    finished (io, 0);
    forget (io);
    pause_ms (10); /* more than three times the usual */
    fp_lane_poll (lane, false);
    assert_int_equal (first_conn->avoided, n == 1);
    assert_int_equal (fp_fake_server_held (first), 1);
    assert_true (fp_fake_server_release (first, 0, 0));
    all_free ();
  }
  /* If this process stalled, the second server got points, too. */
  second_conn->points = 0;
  second_conn->avoided = false;
  usual_ns (AGES_NS);
  first_conn->retry_ns = FP_NEVER;
  for (unsigned n = 0; n < 100; n++) {
    assert_int_equal (get (extent), extent + 1);
    assert_int_equal (fp_fake_server_held (first), 0);
  }
  /* Then one read asks it again; the other copy answers that read. */
  first_conn->retry_ns = 0;
  usual_ns (20 * USUAL_NS);
  assert_int_equal (get (extent), extent + 1);
  assert_int_equal (fp_fake_server_held (first), 1);
  assert_true (first_conn->avoided);
  second_conn->points = 0;
  second_conn->avoided = false;
  usual_ns (AGES_NS);
  for (unsigned n = 0; n < 100; n++) {
    assert_int_equal (get (extent), extent + 1);
    assert_int_equal (fp_fake_server_held (first), 1);
  }
  assert_true (first_conn->avoided);
  /* If there is no other copy, an avoided server is read. */
  fp_fake_server_hold (first, false);
  assert_true (fp_fake_server_release (first, 0, 0));
  all_free ();
  atomic_store (&v->extents->in_sync[extent], 1);
  assert_int_equal (get (extent), extent + 1);
  atomic_store (&v->extents->in_sync[extent], 3);
  /* The server is quick again. */
  end = fp_deadline_in_ms (20000);
  while (first_conn->avoided && !fp_deadline_passed (end))
    assert_int_equal (get (extent), extent + 1);
  assert_false (first_conn->avoided);
}

/* A server that is late each time is avoided, too. */
static void
test_often_late (void **state)
{
  unsigned n;

  (void) state;
  usual (20 * USUAL_NS);
  for (n = 0; n < 8 && !first_conn->avoided; n++) {
    struct fp_io *io;

    fp_fake_server_hold (first, true);
    io = submit ();
    finished (io, 0);
    forget (io);
    fp_fake_server_hold (first, false);
    assert_true (fp_fake_server_release (first, 0, 0));
    all_free ();
    assert_true (first_conn->points >= 16 * (n + 1));
  }
  assert_true (first_conn->avoided);
}

/* If no thread polled meanwhile, the latency is unknown: no points. */
static void
test_idle (void **state)
{
  unsigned server = (unsigned) (first_conn - lane->conns);
  struct fp_server_status before, now;
  uint64_t end = fp_deadline_in_ms (20000);
  struct fp_io *io;

  (void) state;
  fp_fake_server_hold (first, true);
  io = submit ();
  finished (io, 0);
  forget (io);
  {
    LANE_LOCK_SCOPE (lane);
    lane->active_head->judged = false;
    lane->looked_ns = lane->active_head->sent_ns + 1;
    first_conn->points = 0;
  }
  fp_fake_server_hold (first, false);
  assert_true (fp_fake_server_release (first, 0, 0));
  pause_ms (20);
  all_free ();
  assert_int_equal (first_conn->points, 0);
  usual (USUAL_NS);
  /* A deadline that passed meanwhile does not count, either. */
  fp_fake_server_hold (first, true);
  io = submit ();
  finished (io, 0);
  forget (io);
  pause_ms (150);
  lane->active_head->deadline_ns = 1;
  fp_lane_poll (lane, false);
  assert_false (fp_lane_broken (lane, server));
  assert_true (lane->active_head->deadline_ns > fp_now_ns ());
  /* If a thread polled, a passed deadline breaks the connection. */
  fp_volume_server_status (v, server, &before);
  fp_fake_server_hold (first, false);
  do {
    assert_false (fp_deadline_passed (end));
    {
      LANE_LOCK_SCOPE (lane);
      if (lane->active_head != NULL)
        lane->active_head->deadline_ns = 1;
    }
    fp_lane_poll (lane, false);
    pause_ms (5);
    fp_volume_server_status (v, server, &now);
  } while (now.reconnects == before.reconnects);
  await_whole ();
  all_free ();
}

/* ---- everything at once ---- */

#define WRITERS 3
#define ROUNDS 400

static _Atomic bool stop;

/* Make one server, or the other, or both slow for a while. */
static void *
disturb (void *arg)
{
  unsigned seed = 1;

  (void) arg;
  while (!atomic_load (&stop)) {
    unsigned which = (unsigned) rand_r (&seed) % 4;

    for (unsigned i = 0; i < 2; i++)
      fp_fake_server_hold (fake_server_data (servers[i]), which >> i & 1);
    pause_ms (1 + (unsigned) rand_r (&seed) % 5);
    for (unsigned i = 0; i < 2; i++)
      while (
          fp_fake_server_release (fake_server_data (servers[(i + which) % 2]),
                                  (unsigned) rand_r (&seed) % 2, 0))
        ;
  }
  for (unsigned i = 0; i < 2; i++) {
    fp_fake_server_hold (fake_server_data (servers[i]), false);
    while (fp_fake_server_release (fake_server_data (servers[i]), 0, 0))
      ;
  }
  return NULL;
}

/* Write and read.  Each read returns the last write, and no late answer
 * changes its buffer.
 */
static void *
work (void *arg)
{
  uint64_t i = (uint64_t) (uintptr_t) arg, at = i * SLAB + 8192;
  unsigned char has[IO], got[IO], byte = 0;
  unsigned seed = (unsigned) i;

  memset (has, 0, sizeof has);
  assert_int_equal (fp_lane_write (lane, has, IO, at), 0);
  for (unsigned n = 0; n < ROUNDS; n++) {
    if (rand_r (&seed) % 8 == 0) {
      memset (has, ++byte, sizeof has);
      assert_int_equal (fp_lane_write (lane, has, IO, at), 0);
    }
    memset (got, MARK, sizeof got);
    assert_int_equal (fp_lane_read (lane, got, IO, at), 0);
    assert_memory_equal (got, has, IO);
    memset (got, MARK, sizeof got);
    sched_yield ();
    for (unsigned k = 0; k < IO; k++)
      assert_int_equal (got[k], MARK);
  }
  return NULL;
}

static void
test_everything (void **state)
{
  pthread_t disturber, workers[WRITERS];

  (void) state;
  usual (0); /* hedge as early as possible */
  atomic_store (&stop, false);
  assert_int_equal (pthread_create (&disturber, NULL, disturb, NULL), 0);
  for (uintptr_t i = 0; i < WRITERS; i++)
    assert_int_equal (pthread_create (&workers[i], NULL, work, (void *) i), 0);
  for (unsigned i = 0; i < WRITERS; i++)
    pthread_join (workers[i], NULL);
  atomic_store (&stop, true);
  pthread_join (disturber, NULL);
  all_free ();
  assert_true (counts ().sent > 0);
  assert_int_equal (counts ().sent, counts ().won + counts ().lost);
}

#define TEST(name) cmocka_unit_test_setup_teardown (name, setup, teardown)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_off),           TEST (test_second_wins), TEST (test_first_wins),
    TEST (test_one_fails),     TEST (test_one_dies),    TEST (test_end),
    TEST (test_is_inside),     TEST (test_live_only),   TEST (test_budget),
    TEST (test_spares),        TEST (test_learns),      TEST (test_avoided),
    TEST (test_often_late),    TEST (test_idle),        TEST (test_wakes_up),
    TEST (test_wakes_sleeper), TEST (test_everything),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
