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

/* Return the reclaim status of the first server. */
static struct fp_reclaim_status
status (void)
{
  struct fp_server_status s;

  fp_volume_server_status (v, 0, &s);
  return s.reclaim;
}

/* Put all extents on the first server; use extent i later than i - 1. */
static int
setup (void **state)
{
  static const char *const names[] = { "a", "b", "c" };
  struct fp_volume_params p;
  struct fp_error error;

  (void) state;
  fp_volume_params_init (&p);
  p.nr_servers = NR_SERVERS;
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    servers[i] = fake_server_new (names[i], SLAB, SLABS);
    p.servers[i] = *fake_server_addr (servers[i]);
  }
  p.size = SIZE;
  p.slab_size = SLAB;
  p.transports = FP_TRANSPORT_FAKE;
  p.timeout_ms = 1000;
  p.lanes = 2;
  p.slots = 4;
  p.slot_size = 64 * 1024;
  shadow = calloc (1, SIZE);
  buf = malloc (SIZE);
  if (shadow == NULL || buf == NULL || fp_volume_start (&v, &p, &error) < 0)
    return 1;
  for (uint64_t i = 0; i < EXTENTS; i++) {
    write_extent (i, (unsigned char) (i + 1));
    if (holder (i) != 0)
      assert_int_equal (fp_migrate_move (v->migrate, i, 0), 0);
    atomic_store (&v->extents->p[i].used,
                  atomic_load (&v->extents->tick) - 1000 + (uint32_t) i * 100);
  }
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
    assert_int_equal (fake_server_free_slabs (servers[i]), SLABS);
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
  check_all ();
  fake_server_want (servers[2], 0);
  await_given (3);
  assert_int_equal (fake_server_labelled (servers[1]), 0);
  assert_string_equal (status ().why, "");
  check_all ();
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
  };

  return RUN_TESTS (tests);
}
