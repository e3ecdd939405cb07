/* SPDX-License-Identifier: BSD-3-Clause */
/* test-dirty-log.c - a client dies while it writes.  The next client makes the
 * copies equal where they may differ, and nowhere else.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/tsan.h"
#include "engine/dirty_log.h" /* before the global v: -Wshadow */
#include "heal/migrate.h"
#include "volume-fixture.h"

static struct fp_volume_status
status_of (void)
{
  struct fp_volume_status s;

  fp_volume_status (v, &s);
  return s;
}

#define SLAB COPIES_SLAB
#define EXTENTS COPIES_EXTENTS
#define REGION (64 * 1024) /* in slabs this small: a chunk */
#define NEVER 100000

static unsigned quiet_ms;

static int
setup (void **state)
{
  quiet_ms = NEVER;
  return copies_setup (state);
}

static int
attach (bool again)
{
  struct fp_volume_params p;

  copies_params (&p);
  p.size = again ? 0 : COPIES_SIZE;
  p.copies = again ? 0 : nr_copies;
  p.quiet_ms = quiet_ms;
  return fixture_start (&p);
}

/* Let the client die: nothing that it does from now on has an effect. */
static void
die (void)
{
  if (!fp_fake_died ())
    fp_fake_fault_at (1, FP_FAKE_DIE);
  copies_die ();
  fp_fake_fault_at (0, FP_FAKE_ERROR);
}

static int
write_at (uint64_t i, uint64_t in, unsigned char byte, uint32_t length)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  unsigned char *bytes = malloc (length); /* threads have small stacks */
  int r;

  assert_non_null (bytes);
  memset (bytes, byte, length);
  r = fp_lane_write (lane, bytes, length, i * SLAB + in);
  fp_volume_lane_put (lane);
  free (bytes);
  return r;
}

static int
zero_at (uint64_t i, uint64_t in, uint64_t length)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  int r = fp_lane_zero (lane, length, i * SLAB + in, false);

  fp_volume_lane_put (lane);
  return r;
}

static struct fake_server *
server_of (uint64_t i, unsigned c)
{
  const struct fp_addr *addr =
      &v->p.servers[fp_copies_get (v->extents, i, c)->copy.server];

  for (unsigned s = 0; s < FIXTURE_SERVERS; s++)
    if (servers[s] != NULL &&
        strcmp (addr->host, fake_server_addr (servers[s])->host) == 0)
      return servers[s];
  fail ();
  return NULL;
}

/* Return the memory of copy c of extent i at its server.  Its tail follows. */
static const unsigned char *
memory_of (uint64_t i, unsigned c)
{
  return fp_fake_server_memory (fake_server_data (server_of (i, c))) +
         fp_copies_get (v->extents, i, c)->copy.slab * (SLAB + FP_TAIL_SIZE);
}

static const volatile unsigned char *
tail_of (uint64_t i, unsigned c)
{
  return memory_of (i, c) + SLAB;
}

static bool
says (uint64_t i, unsigned c, unsigned region)
{
  bool it;

  /* A client with the key may write to a server's memory at any time. */
  fp_tsan_read_while_written_begin ();
  it = tail_of (i, c)[region] != 0;
  fp_tsan_read_while_written_end ();
  return it;
}

static unsigned
said (uint64_t i, unsigned c)
{
  unsigned n = 0;

  for (unsigned r = 0; r < SLAB / REGION; r++)
    n += says (i, c, r);
  return n;
}

static void
await_said (uint64_t i, unsigned c, unsigned nr)
{
  uint64_t end = fp_deadline_in_ms (20000);

  while (said (i, c) != nr) {
    assert_false (fp_deadline_passed (end));
    pause_ms (2);
  }
}

static void
all_alike (void)
{
  await_whole ();
  for (uint64_t i = 0; i < EXTENTS; i++)
    if (fp_copies_in_sync (v->extents, i) != 0)
      for (unsigned c = 1; c < nr_copies; c++)
        assert_memory_equal (memory_of (i, 0), memory_of (i, c), SLAB);
}

static void
fill (void)
{
  for (uint64_t i = 0; i < EXTENTS; i++)
    for (uint64_t in = 0; in < SLAB; in += 2 * REGION)
      assert_int_equal (write_at (i, in, (unsigned char) (1 + i), 2 * REGION),
                        0);
}

/* Fill the volume and wait until no region is marked. */
static void
fill_and_settle (void)
{
  fill ();
  for (uint64_t i = 0; i < EXTENTS; i++)
    for (unsigned c = 0; c < nr_copies; c++)
      await_said (i, c, 0);
}

/* ---- tests ---- */

static void
test_said_and_cleared (void **state)
{
  (void) state;
  quiet_ms = 20;
  must (attach (false));
  assert_int_equal (write_at (1, REGION - 4096, 7, 8192), 0);
  for (unsigned c = 0; c < 2; c++)
    await_said (1, c, 0);
  detach ();
  quiet_ms = NEVER;
  must (attach (true));
  assert_int_equal (write_at (1, REGION - 4096, 7, 8192), 0);
  for (unsigned c = 0; c < 2; c++) {
    assert_int_equal (said (1, c), 2);
    assert_true (says (1, c, 0));
    assert_true (says (1, c, 1));
  }
}

/* In a large volume a write marks neighbours, too, with no more messages. */
static void
test_in_groups (void **state)
{
  (void) state;
  quiet_ms = 1000;
  must (attach (false));
  assert_int_equal (v->engine.dirty_log->group, 1);
  v->engine.dirty_log->group = 4;
  fill_and_settle ();
  assert_int_equal (write_at (1, 5 * REGION, 7, 512), 0);
  assert_int_equal (write_at (2, 3 * REGION, 7, REGION + 1), 0);
  for (unsigned c = 0; c < 2; c++) {
    assert_int_equal (said (1, c), 4);
    for (unsigned r = 0; r < SLAB / REGION; r++)
      assert_true (says (1, c, r) == (r >= 4));
    assert_int_equal (said (2, c), 8);
  }
}

/* Only one region is still marked: only that is resynced. */
static void
test_what_was_written_of_late (void **state)
{
  struct fp_volume_status s;

  (void) state;
  quiet_ms = 100;
  must (attach (false));
  fill_and_settle ();
  assert_int_equal (write_at (2, 3 * REGION + 512, 9, 512), 0);
  die ();
  must (attach (true));
  assert_int_equal (status_of ().resync_bytes, REGION);
  fp_volume_status (v, &s);
  assert_true (s.unclean);
  assert_int_equal (s.resync_bytes, REGION);
  assert_int_equal (s.resync_of, COPIES_SIZE);
  all_alike ();
}

static void
test_in_order (void **state)
{
  (void) state;
  must (attach (false));
  fill ();
  detach ();
  must (attach (true));
  assert_int_equal (status_of ().resync_bytes, 0);
  assert_false (status_of ().unclean);
  /* The next client clears the marks that are left. */
  detach ();
  quiet_ms = 20;
  must (attach (true));
  for (uint64_t i = 0; i < EXTENTS; i++)
    for (unsigned c = 0; c < 2; c++)
      await_said (i, c, 0);
}

struct writing {
  struct fp_thread thread;
  uint64_t i, in;
  unsigned char byte;
  int result;
};

static void
writer (void *arg)
{
  struct writing *w = arg;

  w->result = write_at (w->i, w->in, w->byte, 4096);
}

static void
begin_write (struct writing *w, uint64_t i, uint64_t in, unsigned char byte)
{
  *w = (struct writing) { .i = i, .in = in, .byte = byte };
  assert_int_equal (fp_thread_create (&w->thread, "writer", writer, w), 0);
}

static void
await_held (struct fake_server *s, unsigned nr)
{
  uint64_t end = fp_deadline_in_ms (20000);

  while (fp_fake_server_held (fake_server_data (s)) < nr) {
    assert_false (fp_deadline_passed (end));
    pause_ms (1);
  }
}

/* A write is in one copy, and in flight to the other.  Both are marked as long
 * as that takes, and the next client makes them equal.
 */
static void
one_has_it (unsigned slow)
{
  struct fake_server *s;
  struct writing w;
  unsigned region = 5;

  copies_timeout_ms = 4000;
  quiet_ms = 10;
  must (attach (false));
  fill_and_settle ();
  s = server_of (3, slow);
  /* This write sets the marks before the server is slow. */
  assert_int_equal (write_at (3, region * REGION, 20, 4096), 0);
  for (unsigned n = 0; n < 50; n++) {
    fp_fake_server_hold (fake_server_data (s), true);
    begin_write (&w, 3, region * REGION, 21);
    await_held (s, 1);
    if (memory_of (3, 1 - slow)[region * REGION] == 21)
      break;
    /* The marks were cleared meanwhile: try again. */
    fp_fake_server_hold (fake_server_data (s), false);
    while (fp_fake_server_release (fake_server_data (s), 0, 0))
      ;
    assert_int_equal (fp_thread_join (&w.thread), 0);
  }
  assert_int_equal (memory_of (3, 1 - slow)[region * REGION], 21);
  assert_int_not_equal (memory_of (3, slow)[region * REGION], 21);
  pause_ms (200); /* twenty times quiet_ms */
  for (unsigned c = 0; c < 2; c++)
    assert_true (says (3, c, region));
  fp_fake_fault_at (1, FP_FAKE_DIE);
  fp_fake_server_hold (fake_server_data (s), false);
  assert_int_equal (fp_thread_join (&w.thread), 0);
  assert_int_equal (w.result, -EIO);
  die ();
  quiet_ms = NEVER;
  must (attach (true));
  assert_in_range (status_of ().resync_bytes, REGION, 2 * REGION);
  all_alike ();
}

static void
test_first_has_it (void **state)
{
  (void) state;
  one_has_it (1);
}

static void
test_second_has_it (void **state)
{
  (void) state;
  one_has_it (0);
}

/* One server zeroes its copy.  The client dies before it asks the other one.
 */
static void
test_zeroed_in_one (void **state)
{
  (void) state;
  quiet_ms = 20;
  copies_timeout_ms = 200;
  must (attach (false));
  fill_and_settle ();
  fake_ctl_fault_at (2, FAKE_CTL_DIE);
  assert_int_equal (zero_at (4, 0, SLAB), -EIO);
  assert_true (fake_ctl_fault_fired ());
  assert_int_equal (memory_of (4, 0)[REGION], 0);
  assert_int_not_equal (memory_of (4, 1)[REGION], 0);
  die ();
  fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
  quiet_ms = NEVER;
  must (attach (true));
  all_alike ();
}

/* A moved copy, or one resynced beside two others, marks all regions.  It may
 * have part of a write in flight that is marked in other copies only.
 */
static void
test_moved_says_all (void **state)
{
  (void) state;
  must (attach (false));
  assert_int_equal (write_at (0, 0, 1, 4096), 0);
  for (unsigned s = 0; s < v->peers.nr; s++)
    if (fp_copies_get (v->extents, 0, 0)->copy.server != s &&
        fp_copies_get (v->extents, 0, 1)->copy.server != s) {
      assert_int_equal (fp_migrate_move (v->migrate, 0, s), 0);
      break;
    }
  assert_int_equal (said (0, 0), SLAB / REGION);
  assert_int_equal (said (0, 1), 1);
}

static void
test_made_anew_says_all (void **state)
{
  struct fake_server *s;

  (void) state;
  nr_copies = 3;
  must (attach (false));
  assert_int_equal (write_at (0, 0, 1, 4096), 0);
  s = server_of (0, 2);
  fake_server_cut (s);
  assert_int_equal (write_at (0, 0, 2, 4096), 0);
  fake_server_revive (s);
  await_whole ();
  assert_int_equal (said (0, 2), SLAB / REGION);
  assert_int_equal (said (0, 1), 1);
}

/* A server without tails has no marks: everything is made equal. */
static void
test_without_tails (void **state)
{
  (void) state;
  nr_named = 2;
  fake_server_no_tails (servers[1]);
  quiet_ms = 10;
  must (attach (false));
  fill ();
  pause_ms (100);
  die ();
  must (attach (true));
  assert_int_equal (status_of ().resync_bytes, COPIES_SIZE);
  all_alike ();
}

static void
test_restarted_empty (void **state)
{
  struct fp_volume_params p;

  (void) state;
  quiet_ms = 20;
  must (attach (false));
  fill_and_settle ();
  assert_int_equal (write_at (0, 0, 9, 4096), 0);
  die ();
  fake_server_forget (servers[0]);
  copies_params (&p);
  p.size = 0;
  p.copies = 0;
  p.quiet_ms = quiet_ms;
  p.degraded = true;
  must (fixture_start (&p));
  all_alike ();
  for (uint64_t i = 0; i < EXTENTS; i++)
    assert_int_equal (get (i), 1 + (int) i);
}

/* ---- random fault points; all of them with FARPAGE_TEST_ALL ---- */

static unsigned
after (unsigned n)
{
  static unsigned seed;

  if (getenv ("FARPAGE_TEST_ALL") != NULL)
    return n + 1;
  if (seed == 0)
    seed = fixture_seed () | 1u;
  seed = seed * 1103515245u + 12345u;
  return n + 1 + (seed >> 8) % (1 + n / 4);
}

static bool
some_work (void)
{
  for (uint64_t i = 0; i < 3; i++)
    if (write_at (i, 0, 1, 2 * REGION) < 0 ||
        write_at (i, 3 * REGION, 2, 4096) < 0)
      return false;
  for (unsigned k = 0; k < 6; k++) {
    uint64_t i = k % 3;

    if (write_at (i, REGION * (k % 2) + 4096 * k, (unsigned char) (10 + k),
                  8192) < 0)
      return false;
    if (k % 3 == 2)
      pause_ms (6 * quiet_ms);
    if (k == 3 && zero_at (1, 0, SLAB - 4096) < 0)
      return false;
    if (k == 4) /* may fail */
      (void) fp_migrate_move (v->migrate, 2, 0);
  }
  return true;
}

/* Let the client die at each fault point. */
static void
walk_deaths (unsigned copies)
{
  unsigned n = 0, looked = 0;
  bool died = true;

  copies_timeout_ms = 150;
  nr_copies = copies;
  /* Skip the points of the first connections: each takes a long wait. */
  for (n = 8; died; n = after (n)) {
    quiet_ms = 3;
    fp_fake_fault_at (n, FP_FAKE_DIE);
    if (attach (false) == 0) {
      (void) some_work ();
      died = fp_fake_died ();
      die ();
      quiet_ms = NEVER;
      copies_timeout_ms = 1000;
      must (attach (true));
      looked += status_of ().resync_bytes > 0;
      all_alike ();
      detach ();
      copies_timeout_ms = 150;
    }
    fp_fake_fault_at (0, FP_FAKE_ERROR);
    for (unsigned i = 0; i < FIXTURE_SERVERS; i++)
      fake_server_forget (servers[i]);
  }
  printf ("died at up to %u points, %u times something was made equal\n",
          n - 1, looked);
  assert_true (n > 40 && looked > 3);
}

static void
test_walk_deaths (void **state)
{
  (void) state;
  walk_deaths (2);
}

static void
test_walk_deaths_of_three (void **state)
{
  (void) state;
  walk_deaths (3);
}

/* Inject one fault that causes no error; then the client dies. */
static void
walk_faults (enum fp_fake_fault kind)
{
  bool fired = true;
  unsigned n;

  copies_timeout_ms = 2000;
  for (n = 1; fired; n = after (n)) {
    quiet_ms = 3;
    must (attach (false));
    fp_fake_fault_at (n, kind);
    assert_true (some_work ());
    fired = fp_fake_fault_fired ();
    die ();
    quiet_ms = NEVER;
    must (attach (true));
    all_alike ();
    detach ();
    for (unsigned i = 0; i < FIXTURE_SERVERS; i++)
      fake_server_forget (servers[i]);
  }
  printf ("walked up to %u fault points of kind %d\n", n - 1, (int) kind);
  assert_true (n > 20);
}

static void
test_walk_breaks (void **state)
{
  (void) state;
  walk_faults (FP_FAKE_BREAK);
}

#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, fixture_down)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_said_and_cleared),
    TEST (test_what_was_written_of_late),
    TEST (test_in_groups),
    TEST (test_in_order),
    TEST (test_first_has_it),
    TEST (test_second_has_it),
    TEST (test_zeroed_in_one),
    TEST (test_moved_says_all),
    TEST (test_made_anew_says_all),
    TEST (test_without_tails),
    TEST (test_restarted_empty),
    TEST (test_walk_deaths),
    TEST (test_walk_deaths_of_three),
    TEST (test_walk_breaks),
  };

  return RUN_TESTS (tests);
}
