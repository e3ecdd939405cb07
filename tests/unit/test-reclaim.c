/* SPDX-License-Identifier: BSD-3-Clause */
/* test-reclaim.c - a server that is short of memory asks for slabs.  It gets
 * those that were not used for the longest time, as many as it asked for.
 * Meanwhile the volume goes on.
 */

#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "fake-ctl.h"
#include "heal/migrate.h"
#include "volume/volume_int.h"

#define SLAB (512 * 1024)
#define SLABS 12
#define NR_SERVERS 3
#define EXTENTS 8
#define SIZE (EXTENTS * SLAB)

static struct fake_server *servers[NR_SERVERS];
static unsigned slabs[NR_SERVERS];
static uint64_t rate; /* bytes a second that are copied; 0: no limit */
static struct fp_volume *v;
static unsigned char *shadow, *buf;

static void
pause_ms (unsigned ms)
{
  struct timespec t = { .tv_sec = ms / 1000,
                        .tv_nsec = (long) (ms % 1000) * 1000000 };

  nanosleep (&t, NULL);
}

static void
check_all (void)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  assert_int_equal (fp_lane_read (lane, buf, SIZE, 0), 0);
  assert_memory_equal (buf, shadow, SIZE);
  fp_volume_lane_put (lane);
}

static void
write_extent (uint64_t i, unsigned char byte)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  memset (shadow + i * SLAB, byte, SLAB);
  assert_int_equal (fp_lane_write (lane, shadow + i * SLAB, SLAB, i * SLAB),
                    0);
  fp_volume_lane_put (lane);
}

static unsigned
holder (uint64_t i)
{
  return atomic_load (&v->extents->p[i].server);
}

/* Return true if a copy of extent i is on that server. */
static bool
has (uint64_t i, unsigned server)
{
  for (uint64_t k = i; k < v->extents->all; k += EXTENTS)
    if (holder (k) == server)
      return true;
  return false;
}

static enum fp_server_state
state_of (unsigned server)
{
  struct fp_server_status s;

  fp_volume_server_status (v, server, &s);
  return s.state;
}

/* Return the reclaim status of the first server. */
static struct fp_reclaim_status
status (void)
{
  struct fp_server_status s;

  fp_volume_server_status (v, 0, &s);
  return s.reclaim;
}

/* Put one copy of each extent on the first server; use extent i later than
 * i - 1.
 */
static int
start (unsigned copies, unsigned last_slabs)
{
  static const char *const names[] = { "a", "b", "c" };
  struct fp_volume_params p;
  struct fp_error error;

  fp_volume_params_init (&p);
  p.nr_servers = NR_SERVERS;
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    slabs[i] = i == NR_SERVERS - 1 ? last_slabs : SLABS;
    servers[i] = fake_server_new (names[i], SLAB, slabs[i]);
    p.servers[i] = *fake_server_addr (servers[i]);
  }
  p.size = SIZE;
  p.slab_size = SLAB;
  p.transports = FP_TRANSPORT_FAKE;
  p.timeout_ms = 10000;
  p.resync_delay_ms = 0;
  p.move_rate = rate;
  p.copies = copies;
  p.lanes = 2;
  p.slots = 4;
  p.slot_size = 64 * 1024;
  shadow = calloc (1, SIZE);
  buf = malloc (SIZE);
  if (shadow == NULL || buf == NULL || fp_volume_start (&v, &p, &error) < 0)
    return 1;
  for (uint64_t i = 0; i < EXTENTS; i++) {
    write_extent (i, (unsigned char) (i + 1));
    if (!has (i, 0))
      assert_int_equal (fp_migrate_move (v->migrate, i, 0), 0);
    for (uint64_t k = i; k < v->extents->all; k += EXTENTS)
      atomic_store (&v->extents->p[k].used, atomic_load (&v->extents->tick) -
                                                1000 + (uint32_t) i * 100);
  }
  return 0;
}

static int
setup (void **state)
{
  (void) state;
  return start (1, SLABS);
}

static void
move_copy (uint64_t i, unsigned from, unsigned to)
{
  uint64_t k = holder (i) == from ? i : i + EXTENTS;

  assert_int_equal (holder (k), from);
  assert_int_equal (fp_migrate_move (v->migrate, k, to), 0);
}

/* There are two copies, and only the second server has room left.  The other
 * copies are there, except that of the last extent.
 */
static int
setup_copies (void **state)
{
  (void) state;
  if (start (2, 1) != 0)
    return 1;
  for (uint64_t i = 0; i < EXTENTS - 1; i++)
    if (has (i, 2)) /* the only slab there */
      move_copy (i, 2, 1);
  if (!has (EXTENTS - 1, 2))
    move_copy (EXTENTS - 1, 1, 2);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  fp_volume_stop (v, true);
  v = NULL;
  assert_int_equal (fp_fake_imports (), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    assert_int_equal (fake_server_free_slabs (servers[i]), slabs[i]);
    fake_server_free (servers[i]);
  }
  free (shadow);
  free (buf);
  return 0;
}

/* Wait until the server has all that it wanted.  Return the number of extents
 * moved.  Grants ahead of need count as well, so that may be less.
 */
static unsigned
await_given (unsigned least)
{
  uint64_t deadline = fp_deadline_in_ms (10000);
  struct fp_reclaim_status s = status ();

  while (s.reclaimed < least || s.wanted > 0) {
    assert_false (fp_deadline_passed (deadline));
    write_extent (EXTENTS - 1, (unsigned char) rand ());
    pause_ms (1);
    s = status ();
  }
  return (unsigned) s.reclaimed;
}

static void
test_coldest (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  unsigned n;

  (void) state;
  /* The oldest extent but one is read: it stays. */
  assert_int_equal (fp_lane_read (lane, buf, 1, SLAB), 0);
  fp_volume_lane_put (lane);
  fake_server_want (servers[0], 2 + FP_PEER_SPARES);
  n = await_given (2);
  assert_in_range (n, 2, 2 + FP_PEER_SPARES);
  for (uint64_t i = 0; i < EXTENTS; i++)
    assert_int_equal (holder (i) != 0, i != 1 && i < n + 1);
  check_all ();
  /* No more extents move. */
  pause_ms (500);
  assert_int_equal (status ().reclaimed, n);
  assert_int_equal (fake_server_labelled (servers[0]), EXTENTS - n);
}

/* If no server has room, nothing moves, and the status says why.  When there
 * is room, it goes on.
 */
static void
test_nowhere (void **state)
{
  uint64_t deadline = fp_deadline_in_ms (10000);

  (void) state;
  fake_server_want (servers[1], 1000);
  fake_server_want (servers[2], 1000);
  pause_ms (300);
  fake_server_want (servers[0], 3 + FP_PEER_SPARES);
  while (status ().why[0] == '\0') {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
  assert_non_null (strstr (status ().why, "no room"));
  assert_int_equal (status ().reclaimed, 0);
  assert_true (status ().wanted > 0);
  assert_int_equal (fake_server_labelled (servers[0]), EXTENTS);
  while (!fake_server_is_stuck (servers[0])) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
  check_all ();
  fake_server_want (servers[2], 0);
  await_given (3);
  assert_int_equal (fake_server_labelled (servers[1]), 0);
  assert_string_equal (status ().why, "");
  check_all ();
}

/* A server that is being drained gets rid of everything. */
static void
test_drain (void **state)
{
  uint64_t deadline = fp_deadline_in_ms (10000);

  (void) state;
  assert_false (status ().draining);
  fake_server_drain (servers[0], true);
  fake_server_want (servers[0], EXTENTS + FP_PEER_SPARES);
  while (fake_server_labelled (servers[0]) > 0 || !status ().draining) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (1);
  }
  assert_false (fake_server_is_stuck (servers[0]));
  fake_server_want (servers[0], 0);
  fake_server_drain (servers[0], false);
  while (status ().draining) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (1);
  }
  check_all ();
}

/* The oldest extents cannot move, as their other copy is where there is room.
 * A later one can.
 */
static void
test_not_the_oldest (void **state)
{
  uint64_t deadline = fp_deadline_in_ms (10000);

  (void) state;
  fake_server_want (servers[0], 1 + FP_PEER_SPARES);
  while (has (EXTENTS - 1, 0)) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (1);
  }
  fake_server_want (servers[0], 0);
  assert_true (has (EXTENTS - 1, 1) && has (EXTENTS - 1, 2));
  for (uint64_t i = 0; i < EXTENTS - 1; i++)
    assert_true (has (i, 0) && has (i, 1));
  check_all ();
}

/* While a copy moves to the second server, the third one, which has the other
 * copy, dies.  That copy is made again, but not where the first one goes.
 */
static void
test_apart (void **state)
{
  uint64_t deadline = fp_deadline_in_ms (30000);
  struct fp_extents *t = v->extents;
  struct fp_fake_server *to = fake_server_data (servers[1]);
  uint64_t first, other;

  (void) state;
  if (!has (0, 2))
    move_copy (0, 1, 2);
  first = holder (0) == 0 ? 0 : EXTENTS;
  other = EXTENTS - first;
  atomic_store (&t->p[first].used, atomic_load (&t->tick) - 5000);
  fp_fake_server_hold (to, true);
  fake_server_want (servers[0], 1 + FP_PEER_SPARES);
  while (atomic_load (&t->moving) != first) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (1);
  }
  fake_server_cut (servers[2]);
  while (!atomic_load (&t->p[other].refused) &&
         fp_extent_server (&t->p[other]) != 1) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (1);
  }
  fp_fake_server_hold (to, false);
  while (fp_fake_server_release (to, 0, 0))
    ;
  fake_server_want (servers[0], 0);
  while (fp_copies_in_sync (t, 0) != fp_copies_all (t)) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (1);
  }
  assert_int_not_equal (holder (first), holder (other));
  check_all ();
  fake_server_revive (servers[2]);
  while (state_of (2) != FP_SERVER_UP) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (1);
  }
}

static int
setup_apart (void **state)
{
  (void) state;
  return start (2, SLABS);
}

/* Return true if the first server has an extent whose other copy is not in
 * sync.
 */
static bool
has_the_only_one (void)
{
  struct fp_extents *t = v->extents;

  for (uint64_t i = 0; i < EXTENTS; i++)
    if (has (i, 0) && fp_copies_in_sync (t, i) != fp_copies_all (t))
      return true;
  return false;
}

/* The copies elsewhere have missed writes.  The client does not say that it
 * can move nothing before they are up to date, so that a server that stops
 * waits.
 */
static void
test_resync_first (void **state)
{
  uint64_t deadline = fp_deadline_in_ms (60000);

  (void) state;
  fake_server_cut (servers[1]);
  for (uint64_t i = 0; i < EXTENTS; i++)
    write_extent (i, (unsigned char) (i + 100));
  fake_server_revive (servers[1]);
  while (state_of (1) != FP_SERVER_UP) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (1);
  }
  assert_true (has_the_only_one ());
  fake_server_want (servers[0], 1000);
  while (!fake_server_is_stuck (servers[0])) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (1);
  }
  assert_false (has_the_only_one ());
  fake_server_want (servers[0], 0);
  check_all ();
}

static int
setup_slow (void **state)
{
  rate = SLAB;
  return setup_copies (state);
}

static int
teardown_slow (void **state)
{
  rate = 0;
  return teardown (state);
}

/* The pressure ends before the server has all that it wanted. */
static void
test_enough (void **state)
{
  unsigned n;

  (void) state;
  fake_server_want (servers[0], 1000);
  while (status ().reclaimed == 0)
    pause_ms (1);
  fake_server_want (servers[0], 0);
  n = await_given (1);
  pause_ms (300);
  assert_true (status ().reclaimed <= n + 1); /* the move under way */
  check_all ();
}

int
main (void)
{
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_coldest),
    TEST (test_nowhere),
    TEST (test_enough),
    TEST (test_drain),
    cmocka_unit_test_setup_teardown (test_resync_first, setup_slow,
                                     teardown_slow),
    cmocka_unit_test_setup_teardown (test_apart, setup_apart, teardown),
    cmocka_unit_test_setup_teardown (test_not_the_oldest, setup_copies,
                                     teardown),
  };

  return RUN_TESTS (tests);
}
