/* SPDX-License-Identifier: BSD-3-Clause */
/* test-migrate.c - extents move between servers while they are read and
 * written. Each acknowledged byte is there afterwards, for this client and for
 * the next, whatever breaks meanwhile.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "fake-ctl.h"
#include "heal/migrate.h"
#include "volume/volume_int.h"

#define SLAB (512 * 1024)
#define CHUNK 65536
#define SLABS 12
#define NR_SERVERS 3
#define EXTENTS 8
#define SIZE (EXTENTS * SLAB)

static struct fake_server *servers[NR_SERVERS];
static struct fp_volume *v;
static unsigned char *shadow, *buf;
static uint64_t seed;

static uint64_t
rnd (uint64_t *x)
{
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x;
}

static void
fill (unsigned char *p, size_t n, uint64_t *x)
{
  for (size_t i = 0; i < n; i += 8) {
    uint64_t r = rnd (x);

    memcpy (p + i, &r, n - i < 8 ? n - i : 8);
  }
}

static void
pause_ms (unsigned ms)
{
  struct timespec t = { .tv_sec = ms / 1000,
                        .tv_nsec = (long) (ms % 1000) * 1000000 };

  nanosleep (&t, NULL);
}

static void
params (struct fp_volume_params *p)
{
  fp_volume_params_init (p);
  p->nr_servers = NR_SERVERS;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    p->servers[i] = *fake_server_addr (servers[i]);
  p->size = SIZE;
  p->slab_size = SLAB;
  p->transports = FP_TRANSPORT_FAKE;
  p->timeout_ms = 1000;
  p->lanes = 2;
  p->slots = 4;
  p->slot_size = 64 * 1024;
}

static int
setup_servers (void **state)
{
  static const char *const names[] = { "a", "b", "c" };

  (void) state;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    servers[i] = fake_server_new (names[i], SLAB, SLABS);
  shadow = calloc (1, SIZE);
  buf = malloc (SIZE);
  return shadow == NULL || buf == NULL;
}

static void
start (uint64_t rate)
{
  struct fp_volume_params p;
  struct fp_error error;

  params (&p);
  p.move_rate = rate;
  assert_int_equal (fp_volume_start (&v, &p, &error), 0);
}

static int
setup (void **state)
{
  if (setup_servers (state) != 0)
    return 1;
  start (0);
  return 0;
}

/* Map the memory of the first nr servers, as shm does; transfer to the others.
 */
static int
setup_some_mapped (void **state, unsigned nr)
{
  if (setup_servers (state) != 0)
    return 1;
  for (unsigned i = 0; i < nr; i++)
    fp_fake_server_map (fake_server_data (servers[i]));
  start (0);
  return 0;
}

static int
setup_mapped (void **state)
{
  return setup_some_mapped (state, NR_SERVERS);
}

static int
setup_mixed (void **state)
{
  return setup_some_mapped (state, NR_SERVERS - 1);
}

static void
all_is_back (void)
{
  assert_int_equal (fp_fake_imports (), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    assert_int_equal (fake_server_free_slabs (servers[i]), SLABS);
}

static int
teardown (void **state)
{
  (void) state;
  fp_volume_stop (v, true);
  v = NULL;
  all_is_back ();
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_free (servers[i]);
  free (shadow);
  free (buf);
  return 0;
}

/* Let the process die; resume its volume as the next process does. */
static void
resume (void)
{
  struct fp_volume_params p;
  struct fp_error error;

  params (&p);
  p.resume = true;
  p.uuid = *fp_volume_uuid (v);
  fp_volume_stop (v, false);
  v = NULL;
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    fake_server_silence (servers[i], FAKE_SPEAKS, 0);
    fake_server_revive (servers[i]);
  }
  assert_int_equal (fp_volume_start (&v, &p, &error), 0);
}

static void
write_shadow (uint64_t length, uint64_t offset, uint64_t *x)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  fill (shadow + offset, length, x);
  assert_int_equal (
      fp_lane_write (lane, shadow + offset, (uint32_t) length, offset), 0);
  fp_volume_lane_put (lane);
}

static void
check_all (void)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  assert_int_equal (fp_lane_read (lane, buf, SIZE, 0), 0);
  assert_memory_equal (buf, shadow, SIZE);
  fp_volume_lane_put (lane);
}

/* Check all data when the servers that were away are back. */
static void
check_soon (void)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  uint64_t deadline = fp_deadline_in_ms (10000);

  while (fp_lane_read (lane, buf, SIZE, 0) < 0) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
  assert_memory_equal (buf, shadow, SIZE);
  fp_volume_lane_put (lane);
}

static unsigned
holder (uint64_t i)
{
  return atomic_load (&v->extents->p[i].server);
}

static unsigned
other (uint64_t i)
{
  return (holder (i) + 1) % NR_SERVERS;
}

static unsigned
labelled (void)
{
  unsigned n = 0;

  for (unsigned i = 0; i < NR_SERVERS; i++)
    n += fake_server_labelled (servers[i]);
  return n;
}

static void
await_labelled (unsigned n)
{
  uint64_t deadline = fp_deadline_in_ms (5000);

  while (labelled () != n) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}

/* ---- one extent ---- */

static void
test_move (void **state)
{
  uint64_t x = seed;

  (void) state;
  write_shadow (SIZE, 0, &x);
  for (unsigned round = 0; round < NR_SERVERS; round++)
    for (uint64_t i = 0; i < EXTENTS; i++) {
      unsigned to = other (i), from = holder (i);
      unsigned here = fake_server_labelled (servers[from]);

      assert_int_equal (fp_migrate_move (v->migrate, i, to), 0);
      assert_int_equal (holder (i), to);
      assert_int_equal (fake_server_labelled (servers[from]), here - 1);
      assert_int_equal (labelled (), EXTENTS);
    }
  check_all ();
  write_shadow (SIZE / 2, 1000, &x);
  check_all ();
  resume ();
  check_all ();
}

/* A move starts when it is asked for.  The migration thread does not finish
 * its idle second first.
 */
static void
test_at_once (void **state)
{
  uint64_t x = seed;

  (void) state;
  write_shadow (SIZE, 0, &x);
  for (unsigned n = 0; n < 200; n++) {
    uint64_t i = n % EXTENTS, begun = fp_now_ns ();

    assert_int_equal (fp_migrate_move (v->migrate, i, other (i)), 0);
    assert_true (fp_now_ns () - begun < 500 * FP_NS_PER_MS);
  }
}

/* Data that was never written is not copied, and stays a hole. */
static void
test_sparse (void **state)
{
  struct fp_server_status before, after;
  unsigned to;
  uint64_t x = seed, length;
  bool hole;

  (void) state;
  write_shadow (10, 3 * CHUNK, &x);
  write_shadow (10, 5 * CHUNK - 5, &x);
  to = other (0);
  fp_volume_server_status (v, to, &before);
  assert_int_equal (fp_migrate_move (v->migrate, 0, to), 0);
  fp_volume_server_status (v, to, &after);
  assert_int_equal (after.bytes_written - before.bytes_written, 3 * CHUNK);
  fp_volume_extent (v, 0, UINT64_MAX, &hole, &length);
  assert_true (hole);
  assert_int_equal (length, 3 * CHUNK);
  check_all ();
}

static void
test_refused (void **state)
{
  uint64_t x = seed;

  (void) state;
  write_shadow (10, 0, &x);
  assert_int_equal (fp_migrate_move (v->migrate, EXTENTS, 0), -EINVAL);
  assert_int_equal (fp_migrate_move (v->migrate, 0, NR_SERVERS), -EINVAL);
  assert_int_equal (fp_migrate_move (v->migrate, 0, holder (0)), -EAGAIN);
  assert_int_equal (fp_migrate_move (v->migrate, 1, 0), -EAGAIN); /* no copy */
  check_all ();
}

/* ---- moving while it is used ---- */

static _Atomic bool stop;

struct worker {
  struct fp_thread thread;
  unsigned index, errors;
  uint64_t ops;
};

#define WORKERS 4

/* Assert in a worker's thread, which cmocka's assertions cannot leave. */
static void
worker_assert (bool holds, const char *what, uint64_t offset)
{
  if (holds)
    return;
  fprintf (stderr, "%s: at %llu, seed %llu\n", what,
           (unsigned long long) offset, (unsigned long long) seed);
  abort ();
}

/* Do one random operation in [from, from + span), which only the caller uses.
 */
static int
random_op (struct fp_lane *lane, uint64_t *x, uint64_t from, uint64_t span,
           unsigned char *tmp)
{
  uint64_t length = 1 + rnd (x) % (rnd (x) % 8 == 0 ? span : 20000), offset;
  int r;

  offset = from + rnd (x) % (span - length + 1);
  switch (rnd (x) % 16) {
  case 0:
  case 1: {
    bool trim = rnd (x) % 2;

    if (rnd (x) % 4 == 0) { /* whole extents */
      offset = (offset + SLAB - 1) & ~(SLAB - 1ull);
      length = SLAB;
      if (offset + length > from + span)
        return 0;
    }
    r = fp_lane_zero (lane, length, offset, trim);
    if (r == 0)
      memset (shadow + offset, 0, length);
    break;
  }
  case 2:
    return fp_lane_flush (lane);
  case 3:
  case 4:
  case 5:
  case 6:
    memset (tmp, 0x5a, length);
    r = fp_lane_read (lane, tmp, (uint32_t) length, offset);
    for (uint64_t i = 0; r == 0 && i < length; i++)
      worker_assert (tmp[i] == shadow[offset + i], "wrong byte", offset + i);
    return r;
  default:
    fill (tmp, length, x);
    r = fp_lane_write (lane, tmp, (uint32_t) length, offset);
    if (r == 0)
      memcpy (shadow + offset, tmp, length);
    break;
  }
  /* An error leaves the range undefined: read what it is now. */
  for (unsigned tries = 0; r < 0; tries++) {
    if (fp_lane_read (lane, shadow + offset, (uint32_t) length, offset) == 0)
      return r;
    worker_assert (tries < 2000, strerror (-r), offset);
    pause_ms (5);
  }
  return r;
}

/* Run random operations.  Workers share extents, but no bytes. */
static void
work (void *arg)
{
  struct worker *w = arg;
  struct fp_lane *lane = fp_volume_lane_get (v);
  unsigned char *tmp = malloc (SIZE / WORKERS);
  uint64_t x = seed + w->index * 7919;
  const struct timespec breath = { .tv_nsec = 200000 };

  while (tmp != NULL && !atomic_load (&stop)) {
    w->errors += random_op (lane, &x, w->index * (SIZE / WORKERS),
                            SIZE / WORKERS, tmp) < 0;
    w->ops++;
    (void) nanosleep (&breath, NULL); /* a mapped request takes no time */
  }
  fp_volume_lane_put (lane);
  free (tmp);
}

static struct worker workers[WORKERS];

static void
start_workers (void)
{
  atomic_store (&stop, false);
  for (unsigned i = 0; i < WORKERS; i++) {
    workers[i] = (struct worker) { .index = i };
    assert_int_equal (
        fp_thread_create (&workers[i].thread, "worker", work, &workers[i]), 0);
  }
}

static void
end_workers (unsigned errors)
{
  uint64_t ops = 0;

  atomic_store (&stop, true);
  for (unsigned i = 0; i < WORKERS; i++) {
    assert_int_equal (fp_thread_join (&workers[i].thread), 0);
    assert_true (workers[i].errors <= errors);
    ops += workers[i].ops;
  }
  print_message ("%llu operations\n", (unsigned long long) ops);
}

static void
test_used (void **state)
{
  uint64_t x = seed;
  unsigned moved = 0;

  (void) state;
  start_workers ();
  /* -EAGAIN until the workers have written somewhere. */
  for (unsigned n = 0; n < 300; n++) {
    int r = fp_migrate_move (v->migrate, rnd (&x) % EXTENTS,
                             (unsigned) (rnd (&x) % NR_SERVERS));

    if (r != 0)
      assert_int_equal (r, -EAGAIN);
    moved += r == 0;
  }
  end_workers (0);
  print_message ("%u moves\n", moved);
  assert_true (moved > 20);
  check_all ();
  resume ();
  check_all ();
}

/* Meanwhile the network is cut and comes back. */
static void
test_used_cuts (void **state)
{
  uint64_t x = seed;

  (void) state;
  start_workers ();
  for (unsigned n = 0; n < 60; n++) {
    struct fake_server *s = servers[rnd (&x) % NR_SERVERS];

    if (n % 4 == 0)
      fake_server_cut (s);
    (void) fp_migrate_move (v->migrate, rnd (&x) % EXTENTS,
                            (unsigned) (rnd (&x) % NR_SERVERS));
    if (n % 4 == 0)
      fake_server_revive (s);
  }
  end_workers (UINT32_MAX);
  check_soon ();
  resume ();
  check_all ();
}

/* ---- faults ---- */

struct migrate_call {
  struct fp_thread thread;
  uint64_t extent;
  unsigned to;
  int result;
  uint64_t took_ns;
};

static void
do_move (void *arg)
{
  struct migrate_call *c = arg;
  uint64_t begun = fp_now_ns ();

  c->result = fp_migrate_move (v->migrate, c->extent, c->to);
  c->took_ns = fp_now_ns () - begun;
}

static void
begin_move (struct migrate_call *c, uint64_t extent, unsigned to)
{
  *c = (struct migrate_call) { .extent = extent, .to = to };
  assert_int_equal (fp_thread_create (&c->thread, "move", do_move, c), 0);
}

static int
end_move (struct migrate_call *c)
{
  assert_int_equal (fp_thread_join (&c->thread), 0);
  return c->result;
}

static void
await_moving (void)
{
  uint64_t deadline = fp_deadline_in_ms (5000);

  while (atomic_load (&v->extents->moving) == UINT64_MAX) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (1);
  }
  pause_ms (100);
}

/* A store to mapped memory that was already copied is not lost. */
static void
test_mapped_written (void **state)
{
  struct migrate_call c;
  uint64_t x = seed;

  (void) state;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fp_fake_server_map (fake_server_data (servers[i]));
  start (1024 * 1024);
  write_shadow (SLAB, 0, &x);
  begin_move (&c, 0, other (0));
  await_moving ();
  write_shadow (2 * CHUNK, 1000, &x);
  assert_int_equal (end_move (&c), 0);
  check_all ();
}

/* A write is in flight for very long.  Before it lands, the migration thread
 * reads the range, even twice.
 */
static void
test_write_under_way (void **state)
{
  struct fp_io io = { .kind = FP_IO_WRITE,
                      .length = 4096,
                      .offset = CHUNK - 2048 };
  struct fp_fake_server *s;
  struct fp_lane *lane;
  struct migrate_call c;
  uint64_t x = seed;

  (void) state;
  start (1024 * 1024);
  lane = fp_volume_lane_get (v);
  write_shadow (SLAB, 0, &x);
  s = fake_server_data (servers[holder (0)]);
  begin_move (&c, 0, other (0));
  await_moving ();
  /* The migration thread waits for its rate now, and has copied the first half
   * of the extent.
   */
  fp_fake_server_hold (s, true);
  fill (shadow + io.offset, io.length, &x);
  io.buf = shadow + io.offset;
  assert_int_equal (fp_lane_submit (lane, &io), 0);
  assert_null (fp_lane_poll (lane, false));
  assert_int_equal (fp_fake_server_held (s), 1);
  for (unsigned i = 0; i < 500; i++) {
    while (fp_fake_server_release (s, 1, 0))
      ;
    pause_ms (1);
  }
  fp_fake_server_hold (s, false);
  assert_true (fp_fake_server_release (s, 0, 0));
  while (fp_fake_server_release (s, 0, 0))
    ;
  assert_ptr_equal (fp_lane_poll (lane, true), &io);
  assert_int_equal (io.status, 0);
  fp_volume_lane_put (lane);
  assert_int_equal (end_move (&c), 0);
  check_all ();
  resume ();
  check_all ();
}

/* Before the rest of a FROZEN extent is copied, a queue pair is flushed.  If
 * that stalls, other requests are let in after an eighth of the timeout.
 */
static void
test_flush_stalls (void **state)
{
  struct fp_io first = { .kind = FP_IO_WRITE, .length = 4096 };
  struct fp_io second = { .kind = FP_IO_WRITE,
                          .length = 4096,
                          .offset = 8192 };
  struct fp_extent *p;
  struct fp_fake_server *s;
  struct fp_lane *lanes[2];
  struct fp_io *done = NULL;
  struct migrate_call c;
  uint64_t x = seed, begun;

  (void) state;
  start (1024 * 1024);
  p = &v->extents->p[0];
  for (unsigned i = 0; i < 2; i++)
    lanes[i] = fp_volume_lane_get (v);
  assert_ptr_not_equal (lanes[0], lanes[1]);
  write_shadow (SLAB, 0, &x);
  s = fake_server_data (servers[holder (0)]);
  begin_move (&c, 0, other (0));
  await_moving ();
  fill (shadow, 8192 + 4096, &x);
  write_shadow (8192 + 4096, 0, &x);
  /* This write stays inside the extent until it is FROZEN. */
  fp_fake_server_hold (s, true);
  first.buf = shadow;
  assert_int_equal (fp_lane_submit (lanes[0], &first), 0);
  assert_null (fp_lane_poll (lanes[0], false));
  while (fp_extent_state (p) != FP_EXTENT_FROZEN ||
         fp_fake_server_held (s) != 1) {
    while (fp_fake_server_release (s, 1, 0))
      ;
    pause_ms (1);
  }
  assert_true (fp_fake_server_release (s, 0, 0));
  while (done == NULL || fp_extent_state (p) != FP_EXTENT_FROZEN ||
         fp_fake_server_held (s) != 1) {
    if (done == NULL)
      done = fp_lane_poll (lanes[0], false);
    pause_ms (1);
  }
  assert_ptr_equal (done, &first);
  begun = fp_now_ns ();
  fill (shadow + second.offset, second.length, &x);
  second.buf = shadow + second.offset;
  assert_int_equal (fp_lane_submit (lanes[1], &second), 0);
  while (fp_fake_server_held (s) < 2) {
    assert_null (fp_lane_poll (lanes[1], false));
    pause_ms (1);
  }
  assert_in_range ((fp_now_ns () - begun) / FP_NS_PER_MS, 0, 1000 / 8 + 400);
  fp_fake_server_hold (s, false);
  while (fp_fake_server_release (s, 0, 0))
    ;
  assert_ptr_equal (fp_lane_poll (lanes[1], true), &second);
  assert_int_equal (first.status, 0);
  assert_int_equal (second.status, 0);
  assert_int_equal (end_move (&c), 0);
  for (unsigned i = 0; i < 2; i++)
    fp_volume_lane_put (lanes[i]);
  check_all ();
}

/* The answer to the label is lost with its server.  Later writes are the
 * newest data, also for the next client, which sees both labels.
 */
static void
label_lost (bool dies)
{
  uint64_t x = seed;
  unsigned to, from;

  write_shadow (SLAB, 0, &x);
  from = holder (0);
  to = other (0);
  if (dies)
    fake_server_die_of_label (servers[to], true);
  else
    fake_server_silence (servers[to], FAKE_MUTE, FP_MSG_LABEL);
  if (dies) {
    assert_true (fp_migrate_move (v->migrate, 0, to) < 0);
    assert_int_equal (holder (0), from);
    write_shadow (CHUNK, 100, &x);
  }
  else {
    struct migrate_call c;
    uint64_t begun;

    begin_move (&c, 0, to);
    while (fake_server_labelled (servers[to]) == 0)
      pause_ms (1);
    /* Writes need the source alone, and do not wait for all of the timeout. */
    begun = fp_now_ns ();
    write_shadow (CHUNK, 100, &x);
    assert_true (fp_now_ns () - begun < 900 * FP_NS_PER_MS);
    assert_int_equal (fake_server_labelled (servers[to]), 1);
    fake_server_cut (servers[to]);
    assert_true (end_move (&c) < 0);
    assert_int_equal (holder (0), from);
  }
  fake_server_die_of_label (servers[to], false);
  assert_int_equal (fake_server_labelled (servers[to]), 1);
  check_all ();
  resume ();
  check_all ();
  await_labelled (1);
}

static void
test_label_lost (void **state)
{
  (void) state;
  label_lost (true);
}

static void
test_label_unanswered (void **state)
{
  (void) state;
  label_lost (false);
}

/* The answer to the label comes when the move has been given up. */
static void
test_label_late (void **state)
{
  struct migrate_call c;
  uint64_t x = seed;
  unsigned from, to;

  (void) state;
  write_shadow (SLAB, 0, &x);
  from = holder (0);
  to = other (0);
  fake_server_silence (servers[to], FAKE_MUTE, FP_MSG_LABEL);
  begin_move (&c, 0, to);
  while (fake_server_labelled (servers[to]) == 0)
    pause_ms (1);
  write_shadow (CHUNK, 100, &x);
  fake_server_silence (servers[to], FAKE_SPEAKS, 0);
  assert_true (end_move (&c) < 0);
  assert_int_equal (holder (0), from);
  await_labelled (1);
  check_all ();
  assert_int_equal (fp_migrate_move (v->migrate, 0, to), 0);
  check_all ();
}

/* Neither server can say which label counts.  Nothing is written until one of
 * them can.
 */
static void
nobody_knows (bool source_first)
{
  struct migrate_call c;
  struct fp_lane *lane;
  uint64_t x = seed;
  unsigned from, to;

  write_shadow (SLAB, 0, &x);
  from = holder (0);
  to = other (0);
  fake_server_silence (servers[from], FAKE_DEAF, FP_MSG_LABEL);
  fake_server_die_of_label (servers[to], true);
  begin_move (&c, 0, to);
  while (fake_server_labelled (servers[to]) == 0)
    pause_ms (1);
  pause_ms (50);
  fake_server_cut (servers[from]);
  fake_server_silence (servers[from], FAKE_SPEAKS, 0);
  lane = fp_volume_lane_get (v);
  assert_int_equal (fp_lane_write (lane, "no", 2, 0), -EIO);
  fp_volume_lane_put (lane);
  fake_server_die_of_label (servers[to], false);
  fake_server_revive (servers[source_first ? from : to]);
  if (!source_first) {
    uint64_t deadline = fp_deadline_in_ms (5000);

    while (fp_extent_state (&v->extents->p[0]) != FP_EXTENT_OFFLINE) {
      assert_false (fp_deadline_passed (deadline));
      pause_ms (5);
    }
    fake_server_revive (servers[from]);
  }
  assert_true (end_move (&c) < 0);
  assert_int_equal (holder (0), from);
  check_soon ();
  write_shadow (CHUNK, 100, &x);
  check_all ();
  resume ();
  check_all ();
  await_labelled (1);
}

static void
test_nobody_knows (void **state)
{
  (void) state;
  nobody_knows (true);
}

static void
test_nobody_knows_target_first (void **state)
{
  (void) state;
  nobody_knows (false);
}

/* If this client ends then, the next one finds all acknowledged data. */
static void
test_nobody_knows_death (void **state)
{
  struct migrate_call c;
  uint64_t x = seed;
  unsigned from, to;

  (void) state;
  write_shadow (SLAB, 0, &x);
  from = holder (0);
  to = other (0);
  fake_server_silence (servers[from], FAKE_DEAF, FP_MSG_LABEL);
  fake_server_die_of_label (servers[to], true);
  begin_move (&c, 0, to);
  while (fake_server_labelled (servers[to]) == 0)
    pause_ms (1);
  pause_ms (50);
  fake_server_cut (servers[from]);
  fake_server_die_of_label (servers[to], false);
  pause_ms (50);
  fp_migrate_stop (v->migrate);
  assert_true (end_move (&c) < 0);
  resume ();
  check_all ();
  await_labelled (1);
}

/* A server dies while an extent is copied from it or to it. */
static void
dies (bool source)
{
  struct migrate_call c;
  uint64_t x = seed;
  unsigned from, to;

  start (400 * 1024);
  write_shadow (SIZE, 0, &x);
  from = holder (0);
  to = other (0);
  begin_move (&c, 0, to);
  await_moving ();
  fake_server_cut (servers[source ? from : to]);
  if (!source)
    write_shadow (CHUNK, 0, &x);
  assert_int_equal (end_move (&c), source ? -EIO : -ENOTCONN);
  assert_true (c.took_ns < 4000 * FP_NS_PER_MS);
  assert_int_equal (holder (0), from);
  fake_server_revive (servers[source ? from : to]);
  check_soon ();
  resume ();
  check_all ();
  await_labelled (EXTENTS);
}

static void
test_source_dies (void **state)
{
  (void) state;
  dies (true);
}

static void
test_target_dies (void **state)
{
  (void) state;
  dies (false);
}

/* An extent that is trimmed during its move is zeros, except for later writes.
 */
static void
test_trimmed (void **state)
{
  struct migrate_call c;
  uint64_t x = seed;
  struct fp_lane *lane;

  (void) state;
  start (400 * 1024);
  lane = fp_volume_lane_get (v);
  write_shadow (SLAB, 0, &x);
  begin_move (&c, 0, other (0));
  await_moving ();
  assert_int_equal (fp_lane_zero (lane, SLAB, 0, true), 0);
  memset (shadow, 0, SLAB);
  write_shadow (10, CHUNK * 2, &x);
  assert_int_equal (end_move (&c), -EAGAIN);
  check_all ();
  fp_volume_lane_put (lane);
  resume ();
  check_all ();
}

static void
test_stopped (void **state)
{
  struct fp_volume_params p;
  struct migrate_call c;
  struct fp_error error;
  uint64_t x = seed;

  (void) state;
  start (100 * 1024);
  write_shadow (SLAB, 0, &x);
  begin_move (&c, 0, other (0));
  await_moving ();
  params (&p);
  p.resume = true;
  p.uuid = *fp_volume_uuid (v);
  fp_migrate_stop (v->migrate);
  assert_int_equal (end_move (&c), -ECANCELED);
  fp_volume_stop (v, false);
  assert_int_equal (fp_volume_start (&v, &p, &error), 0);
  check_all ();
}

struct zero_call {
  struct fp_thread thread;
  uint64_t extent;
  int result;
};

static void
do_zero (void *arg)
{
  struct zero_call *z = arg;
  struct fp_lane *lane = fp_volume_lane_get (v);

  z->result = fp_lane_zero (lane, SLAB, z->extent * SLAB, false);
  fp_volume_lane_put (lane);
}

/* Keep the server's peer waiting for an answer about another extent. */
static void
keep_waiting (struct zero_call *z, unsigned server)
{
  *z = (struct zero_call) { .extent = 1 };
  while (z->extent < EXTENTS && holder (z->extent) != server)
    z->extent++;
  assert_in_range (z->extent, 1, EXTENTS - 1);
  fake_server_silence (servers[server], FAKE_DEAF, FP_MSG_ZERO);
  assert_int_equal (fp_thread_create (&z->thread, "zero", do_zero, z), 0);
}

/* When the label should be sent, the peers of both servers wait for other
 * answers.  So it is never sent, and the extent is usable at once.
 */
static void
test_label_not_sent (void **state)
{
  struct zero_call zeros[2];
  struct migrate_call c;
  uint64_t x = seed, begun;
  unsigned from, to;

  (void) state;
  start (1024 * 1024);
  write_shadow (SIZE, 0, &x);
  from = holder (0);
  to = other (0);
  begin_move (&c, 0, to);
  await_moving ();
  keep_waiting (&zeros[0], from);
  keep_waiting (&zeros[1], to);
  while (fp_extent_state (&v->extents->p[0]) != FP_EXTENT_BUSY)
    pause_ms (1);
  begun = fp_now_ns ();
  write_shadow (CHUNK, 100, &x);
  assert_true (fp_now_ns () - begun < 700 * FP_NS_PER_MS);
  for (unsigned i = 0; i < 2; i++) {
    fake_server_silence (servers[i == 0 ? from : to], FAKE_SPEAKS, 0);
    assert_int_equal (fp_thread_join (&zeros[i].thread), 0);
    if (zeros[i].result == 0)
      memset (shadow + zeros[i].extent * SLAB, 0, SLAB);
  }
  assert_true (end_move (&c) < 0);
  assert_int_equal (holder (0), from);
  for (unsigned i = 0; i < 2; i++)
    write_shadow (SLAB, zeros[i].extent * SLAB, &x);
  check_all ();
  resume ();
  check_all ();
}

/* The volume is stopped while a server does not answer the migration thread.
 */
static void
test_stopped_unanswered (void **state)
{
  static const unsigned about[] = { FP_MSG_LABEL, FP_MSG_GRANT,
                                    FP_MSG_RELEASE };
  (void) state;
  for (unsigned i = 0; i < 3; i++) {
    struct migrate_call c;
    uint64_t x = seed, begun;
    unsigned to;

    memset (shadow, 0, SIZE);
    start (0);
    write_shadow (SLAB, 0, &x);
    to = other (0);
    for (unsigned k = 0; k < NR_SERVERS; k++)
      if (about[i] != FP_MSG_LABEL || k == to)
        fake_server_silence (servers[k], FAKE_DEAF, about[i]);
    begin_move (&c, 0, to);
    pause_ms (400);
    begun = fp_now_ns ();
    fp_migrate_stop (v->migrate);
    (void) end_move (&c);
    resume ();
    assert_true (fp_now_ns () - begun < 5000 * FP_NS_PER_MS);
    check_all ();
    fp_volume_stop (v, true);
    v = NULL;
    all_is_back ();
  }
}

/* Walk through the fault points of a move.  After each fault all bytes are
 * right, for this client and for the next.
 */
static void
walk (bool control, int kind)
{
  unsigned n = 1;
  bool fired = true;

  for (; fired; n++) {
    struct fp_lane *lane;
    uint64_t x = seed + n;
    unsigned to, errors = 0;
    int r;

    memset (shadow, 0, SIZE);
    start (0);
    write_shadow (2 * SLAB, 0, &x);
    pause_ms (20); /* for grants ahead of need */
    to = other (0);
    fp_fake_fault_at (control ? 0 : n, (enum fp_fake_fault) kind);
    fake_ctl_fault_at (control ? n : 0, (enum fake_ctl_fault) kind);
    r = fp_migrate_move (v->migrate, 0, to);
    fired = control ? fake_ctl_fault_fired () : fp_fake_fault_fired ();
    assert_true (r == 0 || fired);
    lane = fp_volume_lane_get (v);
    for (unsigned i = 0; i < 20; i++)
      errors += random_op (lane, &x, 0, 2 * SLAB, buf) < 0;
    fp_volume_lane_put (lane);
    fp_fake_fault_at (0, FP_FAKE_ERROR);
    fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
    assert_true (errors <= (kind == FP_FAKE_ERROR && !control ? 1u : 0u));
    check_all ();
    resume ();
    check_all ();
    fp_volume_stop (v, true);
    v = NULL;
    all_is_back ();
  }
  print_message ("walked %u %s fault points of kind %d\n", n - 2,
                 control ? "control" : "data", kind);
  assert_true (n > (control ? 3 : 20));
}

static void
test_walk_data_errors (void **state)
{
  (void) state;
  walk (false, FP_FAKE_ERROR);
}

static void
test_walk_data_breaks (void **state)
{
  (void) state;
  walk (false, FP_FAKE_BREAK);
}

static void
test_walk_control_refused (void **state)
{
  (void) state;
  walk (true, FAKE_CTL_REFUSE);
}

static void
test_walk_control_answers (void **state)
{
  (void) state;
  walk (true, FAKE_CTL_LOSE_ANSWER);
}

/* ---- draining a server ---- */

static void
await_drain (unsigned server, enum fp_drain_state state)
{
  uint64_t deadline = fp_deadline_in_ms (20000);
  struct fp_server_status s;

  for (;;) {
    fp_volume_server_status (v, server, &s);
    if (s.drain.state == state)
      return;
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}

/* Begin to drain; retry, as the client learns of free room at a heartbeat. */
static void
drain_soon (unsigned server)
{
  uint64_t deadline = fp_deadline_in_ms (5000);
  struct fp_error error;
  int r;

  while ((r = fp_volume_drain (v, server, 0, &error)) == -ENOSPC) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
  assert_int_equal (r, 0);
}

static void
test_drain (void **state)
{
  struct fp_server_status s;
  struct fp_error error;
  uint64_t x = seed;

  (void) state;
  start_workers ();
  pause_ms (50);
  for (unsigned i = 0; i + 1 < NR_SERVERS; i++) {
    drain_soon (i);
    assert_int_equal (fp_volume_drain (v, i, 0, &error), 0);
    await_drain (i, FP_DRAIN_DONE);
  }
  pause_ms (50);
  end_workers (0);
  write_shadow (SIZE, 0, &x);
  for (unsigned i = 0; i + 1 < NR_SERVERS; i++) {
    /* Grants ahead of need are back, too. */
    assert_int_equal (fake_server_free_slabs (servers[i]), SLABS);
    fp_volume_server_status (v, i, &s);
    assert_int_equal (s.extents, 0);
    assert_int_equal (s.drain.left, 0);
    fake_server_cut (servers[i]);
  }
  check_all ();
  assert_int_equal (fp_volume_drain (v, NR_SERVERS - 1, 0, &error), -EBUSY);
  assert_non_null (strstr (error.text, "last server"));
  for (unsigned i = 0; i + 1 < NR_SERVERS; i++)
    fake_server_revive (servers[i]);
  assert_int_equal (fp_volume_drain_cancel (v, 0, &error), 0);
  assert_int_equal (fp_volume_drain_cancel (v, 0, &error), -ENOENT);
  drain_soon (NR_SERVERS - 1);
  await_drain (NR_SERVERS - 1, FP_DRAIN_DONE);
  assert_int_equal (fake_server_labelled (servers[0]), EXTENTS);
  check_all ();
  resume ();
  check_all ();
}

/* A drain that is cancelled moves no more extents. */
static void
test_drain_cancel (void **state)
{
  struct fp_server_status s;
  struct fp_error error;
  uint64_t x = seed;
  unsigned at;

  (void) state;
  start (512 * 1024);
  write_shadow (SIZE, 0, &x);
  at = holder (0);
  assert_int_equal (fp_volume_drain (v, at, 0, &error), 0);
  await_moving ();
  fp_volume_server_status (v, at, &s);
  assert_int_equal (s.drain.state, FP_DRAIN_MOVING);
  assert_int_equal (s.drain.left, s.extents);
  assert_int_equal (fp_volume_drain_cancel (v, at, &error), 0);
  fp_volume_server_status (v, at, &s);
  assert_int_equal (s.drain.state, FP_DRAIN_NONE);
  pause_ms (200);
  assert_int_equal (atomic_load (&v->extents->moving), UINT64_MAX);
  fp_volume_server_status (v, at, &s);
  assert_true (s.extents > 0);
  await_labelled (EXTENTS);
  check_all ();
}

static void
test_drain_no_room (void **state)
{
  struct fp_volume_params p;
  struct fp_lane *lane;
  struct fp_error error;
  unsigned before;

  (void) state;
  params (&p);
  p.size = (uint64_t) NR_SERVERS * SLABS * SLAB;
  assert_int_equal (fp_volume_start (&v, &p, &error), 0);
  lane = fp_volume_lane_get (v);
  for (uint64_t i = 0; i < (NR_SERVERS - 1) * SLABS + 3; i++)
    assert_int_equal (fp_lane_write (lane, "data", 4, i * SLAB), 0);
  before = fake_server_labelled (servers[0]);
  assert_int_equal (fp_volume_drain (v, 0, 0, &error), -ENOSPC);
  assert_non_null (strstr (error.text, "missing"));
  assert_int_equal (fake_server_labelled (servers[0]), before);
  /* The server still gets new extents. */
  for (uint64_t i = (NR_SERVERS - 1) * SLABS + 3; i < NR_SERVERS * SLABS; i++)
    assert_int_equal (fp_lane_write (lane, "data", 4, i * SLAB), 0);
  fp_volume_lane_put (lane);
}

/* The server goes away while it is drained, and comes back. */
static void
test_drain_away (void **state)
{
  struct fp_server_status s;
  struct fp_error error;
  uint64_t x = seed;
  unsigned at;

  (void) state;
  start (2 * 1024 * 1024);
  write_shadow (SIZE, 0, &x);
  at = holder (0);
  assert_int_equal (fp_volume_drain (v, at, 0, &error), 0);
  await_moving ();
  fake_server_cut (servers[at]);
  pause_ms (1500);
  fp_volume_server_status (v, at, &s);
  assert_int_equal (s.drain.state, FP_DRAIN_MOVING);
  fake_server_revive (servers[at]);
  await_drain (at, FP_DRAIN_DONE);
  check_soon ();
}

static void
test_rate (void **state)
{
  uint64_t x = seed, begun;

  (void) state;
  start (1024 * 1024);
  write_shadow (SLAB, 0, &x);
  begun = fp_now_ns ();
  assert_int_equal (fp_migrate_move (v->migrate, 0, other (0)), 0);
  assert_in_range ((fp_now_ns () - begun) / FP_NS_PER_MS, 200, 15000);
  check_all ();
}

int
main (void)
{
  const char *s = getenv ("FARPAGE_TEST_SEED");
  const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
#define TEST_ALONE(t)                                                         \
  cmocka_unit_test_setup_teardown (t, setup_servers, teardown)
#define TEST_MAPPED(t, how) { #t "_" #how, t, setup_##how, teardown, NULL }
    TEST (test_move),
    TEST (test_at_once),
    TEST (test_sparse),
    TEST (test_refused),
    TEST (test_used),
    TEST (test_used_cuts),
    TEST_MAPPED (test_move, mapped),
    TEST_MAPPED (test_move, mixed),
    TEST_MAPPED (test_used, mapped),
    TEST_MAPPED (test_used, mixed),
    TEST_MAPPED (test_used_cuts, mapped),
    TEST_MAPPED (test_drain, mapped),
    TEST_ALONE (test_mapped_written),
    TEST_ALONE (test_write_under_way),
    TEST_ALONE (test_flush_stalls),
    TEST (test_label_lost),
    TEST (test_label_unanswered),
    TEST (test_label_late),
    TEST (test_nobody_knows),
    TEST (test_nobody_knows_target_first),
    TEST (test_nobody_knows_death),
    TEST_ALONE (test_source_dies),
    TEST_ALONE (test_target_dies),
    TEST_ALONE (test_trimmed),
    TEST_ALONE (test_stopped),
    TEST_ALONE (test_stopped_unanswered),
    TEST_ALONE (test_label_not_sent),
    TEST_ALONE (test_walk_data_errors),
    TEST_ALONE (test_walk_data_breaks),
    TEST_ALONE (test_walk_control_refused),
    TEST_ALONE (test_walk_control_answers),
    TEST (test_drain),
    TEST_ALONE (test_drain_cancel),
    TEST_ALONE (test_drain_no_room),
    TEST_ALONE (test_drain_away),
    TEST_ALONE (test_rate),
  };

  seed = s != NULL ? strtoull (s, NULL, 0) : 1;
  printf ("FARPAGE_TEST_SEED=%llu\n", (unsigned long long) seed);
  if (getenv ("FARPAGE_TEST") != NULL)
    cmocka_set_test_filter (getenv ("FARPAGE_TEST"));
  return cmocka_run_group_tests (tests, NULL, NULL);
}
