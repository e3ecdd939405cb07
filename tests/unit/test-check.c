/* SPDX-License-Identifier: BSD-3-Clause */
/* test-check.c - comparing the copies.  A difference is found, located and
 * repaired.  Writes, trims and moves meanwhile are no difference, even if they
 * are tried twice.  If servers die, the check ends.
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
#include "engine/mirror.h"
#include "extent/stripe.h"
#include "fake-ctl.h"
#include "heal/check.h"
#include "heal/migrate.h"
#include "peer/peer.h"
#include "volume/volume_int.h"

#define SLAB (256 * 1024)
#define SLABS 64
#define NR_SERVERS 3
#define EXTENTS 6
#define SIZE ((uint64_t) EXTENTS * SLAB)
#define BLOCKS_OF_EXTENT (SLAB / FP_CHECK_BLOCK)
#define BLOCKS (EXTENTS * BLOCKS_OF_EXTENT)

static struct fake_server *servers[NR_SERVERS];
static struct fp_volume *v;
static struct fp_error error;
static struct fp_check_status s;

static void
start_striped (unsigned copies, unsigned nr, uint32_t width, uint32_t unit)
{
  struct fp_volume_params p;
  int r;

  fp_volume_params_init (&p);
  p.nr_servers = nr;
  for (unsigned i = 0; i < nr; i++)
    p.servers[i] = *fake_server_addr (servers[i]);
  strcpy (p.name, "vol");
  p.size = SIZE;
  p.copies = copies;
  p.stripe.width = width;
  p.stripe.size = unit;
  p.transports = FP_TRANSPORT_FAKE;
  p.timeout_ms = 400;
  p.lanes = 2;
  p.slots = 4;
  p.slot_size = 32 * 1024;
  p.resync_delay_ms = 0;
  r = fp_volume_probe (&p, &error);
  if (r == 0)
    r = fp_volume_start (&v, &p, &error);
  if (r < 0)
    fprintf (stderr, "%d: %s\n", r, error.text);
  assert_int_equal (r, 0);
}

static void
start (unsigned copies, unsigned nr)
{
  start_striped (copies, nr, 1, 0); /* extent i is at i * SLAB */
}

static int
setup (void **state)
{
  static const char *const names[] = { "a", "b", "c" };

  (void) state;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    servers[i] = fake_server_new (names[i], SLAB, SLABS);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  fp_fake_fault_at (0, FP_FAKE_ERROR);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fp_fake_server_hold (fake_server_data (servers[i]), false);
  fp_volume_stop (v, false);
  v = NULL;
  assert_int_equal (fp_fake_imports (), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_free (servers[i]);
  return 0;
}

static void
pause_ms (unsigned ms)
{
  struct timespec t = { .tv_sec = ms / 1000,
                        .tv_nsec = (long) (ms % 1000) * 1000000 };

  nanosleep (&t, NULL);
}

static int
put (uint64_t offset, unsigned char byte, uint32_t length)
{
  unsigned char *bytes = malloc (length);
  struct fp_lane *lane = fp_volume_lane_get (v);
  int r;

  assert_non_null (bytes);
  memset (bytes, byte, length);
  r = fp_lane_write (lane, bytes, length, offset);
  fp_volume_lane_put (lane);
  free (bytes);
  return r;
}

/* Write the whole volume. */
static void
fill (void)
{
  for (unsigned i = 0; i < EXTENTS; i++)
    assert_int_equal (put ((uint64_t) i * SLAB, (unsigned char) (i + 1), SLAB),
                      0);
}

static struct fake_server *
server_of (uint64_t i, unsigned copy)
{
  struct fp_extent *p = &v->extents->p[fp_copies_entry (v->extents, i, copy)];

  for (unsigned n = 0; n < NR_SERVERS; n++)
    if (fp_addr_eq (&v->p.servers[p->copy.server],
                    fake_server_addr (servers[n])))
      return servers[n];
  fail ();
  return NULL;
}

/* Return the address of byte `in` of that copy at its server. */
static uint8_t *
byte_of (uint64_t i, unsigned copy, uint64_t in)
{
  struct fp_extent *p = &v->extents->p[fp_copies_entry (v->extents, i, copy)];

  return fp_fake_server_memory (fake_server_data (server_of (i, copy))) +
         p->copy.slab * (SLAB + FP_TAIL_SIZE) + in;
}

static bool
is_running (void)
{
  fp_check_status (v->check, &s);
  return s.state == FP_CHECK_RUNNING;
}

static void
await_end (void)
{
  uint64_t end = fp_deadline_in_ms (60000);

  while (is_running ()) {
    assert_false (fp_deadline_passed (end));
    pause_ms (1);
  }
}

static void
check (bool repair)
{
  assert_int_equal (fp_volume_check (v, repair, 0, &error), 0);
  await_end ();
  assert_int_equal (s.state, FP_CHECK_DONE);
}

static void
expect (uint64_t compared, uint64_t differ)
{
  assert_int_equal (s.compared, compared);
  assert_int_equal (s.differ, differ);
  assert_int_equal (s.skipped, 0);
  assert_int_equal (s.degraded, 0);
}

static void
await_whole (void)
{
  uint64_t end = fp_deadline_in_ms (20000);
  struct fp_mirror_status m;

  for (;;) {
    fp_mirror_status (&v->engine, &m);
    if (m.degraded == 0)
      return;
    assert_false (fp_deadline_passed (end));
    pause_ms (5);
  }
}

/* Begin a check, and wait until it waits for server n. */
static void
begin_held (unsigned n)
{
  struct fp_fake_server *data = fake_server_data (servers[n]);
  uint64_t end = fp_deadline_in_ms (20000);

  fp_fake_server_hold (data, true);
  assert_int_equal (fp_volume_check (v, false, 0, &error), 0);
  while (fp_fake_server_held (data) == 0) {
    assert_false (fp_deadline_passed (end));
    assert_true (is_running ());
    pause_ms (1);
  }
}

/* ---- tests ---- */

static void
test_equal (void **state)
{
  (void) state;
  start (2, 3);
  check (false);
  expect (0, 0); /* nothing was written */
  assert_int_equal (put (5000, 1, 1), 0);
  assert_int_equal (put (2 * SLAB + FP_CHECK_BLOCK - 1, 1, 2), 0);
  check (false);
  expect (3, 0); /* no other block is read */
  fill ();
  check (true);
  expect (BLOCKS, 0);
  assert_int_equal (s.number, 3);
  assert_int_equal (s.all_compared, BLOCKS + 3);
}

static void
test_differs (void **state)
{
  (void) state;
  start (2, 3);
  fill ();
  *byte_of (2, 1, 70000) ^= 1;
  for (unsigned n = 0; n < 2; n++) {
    check (false);
    expect (BLOCKS, 1);
    assert_int_equal (s.repaired, 0);
    assert_int_equal (s.nr_offsets, 1);
    assert_int_equal (s.offsets[0], 2 * SLAB + 70000);
  }
  check (true);
  expect (BLOCKS, 1);
  assert_int_equal (s.repaired, 1);
  assert_int_equal (s.offsets[0], 2 * SLAB + 70000);
  assert_int_equal (*byte_of (2, 1, 70000), 3);
  check (false);
  expect (BLOCKS, 0);
  assert_int_equal (s.all_differ, 3);
  assert_int_equal (s.all_repaired, 1);
}

/* The first copy that is in sync wins, even if it is the wrong one. */
static void
test_first_copy_counts (void **state)
{
  (void) state;
  start (3, 3);
  fill ();
  *byte_of (1, 0, 9) = 99;
  *byte_of (1, 2, 7) = 77;
  check (true);
  expect (BLOCKS, 1);
  assert_int_equal (s.repaired, 1);
  assert_int_equal (s.offsets[0], SLAB + 7);
  for (unsigned c = 0; c < 3; c++) {
    assert_int_equal (*byte_of (1, c, 7), 2);
    assert_int_equal (*byte_of (1, c, 9), 99);
  }
  check (false);
  expect (BLOCKS, 0);
}

/* If there are too many differences, the lowest offsets are kept, in order.
 * In a striped volume, they are the volume's offsets.
 */
static void
test_offsets (void **state)
{
  uint64_t run;

  (void) state;
  start_striped (2, 3, 3, 4096);
  fill ();
  for (uint64_t i = 0; i < EXTENTS; i++)
    for (uint64_t n = 0; n < BLOCKS_OF_EXTENT; n++)
      *byte_of (i, i % 2, n * FP_CHECK_BLOCK + 4097) ^= 0xff;
  check (false);
  expect (BLOCKS, BLOCKS);
  assert_int_equal (s.nr_offsets, FP_CHECK_OFFSETS);
  for (unsigned n = 0; n < FP_CHECK_OFFSETS; n++) {
    uint64_t at = fp_stripe_at (v->extents, s.offsets[n], &run);

    assert_int_equal (at % FP_CHECK_BLOCK, 4097);
    /* Each group of three extents has twelve blocks. */
    assert_int_equal ((at >> v->extents->shift) / 3, n / 12);
    assert_true (n == 0 || s.offsets[n - 1] < s.offsets[n]);
  }
}

/* A copy that was away gets the repaired bytes when it is back. */
static void
test_mended_meanwhile (void **state)
{
  struct fake_server *third;

  (void) state;
  start (3, 3);
  fill ();
  third = server_of (0, 2);
  fake_server_cut (third);
  for (unsigned i = 0; i < EXTENTS; i++)
    assert_int_equal (put ((uint64_t) i * SLAB, 9, 4096), 0);
  *byte_of (0, 0, 100000) = 55;
  check (true);
  assert_int_equal (s.differ, 1);
  assert_int_equal (s.repaired, 1);
  assert_int_equal (s.degraded, EXTENTS);
  fake_server_revive (third);
  await_whole ();
  assert_int_equal (*byte_of (0, 2, 100000), 55);
  check (false);
  expect (BLOCKS, 0);
}

static _Atomic bool enough;

/* Write to the first two extents; sometimes trim one of them. */
static void
write_main (void *arg)
{
  unsigned seed = (unsigned) (uintptr_t) arg;

  while (!atomic_load (&enough)) {
    uint64_t unit = (uint64_t) rand_r (&seed) % (2 * SLAB / 4096);
    uint32_t length = 4096u * (1 + (unsigned) rand_r (&seed) % 4);

    if (rand_r (&seed) % 200 == 0) {
      struct fp_lane *lane = fp_volume_lane_get (v);

      assert_int_equal (
          fp_lane_zero (lane, SLAB, unit * 4096 / SLAB * SLAB, true), 0);
      fp_volume_lane_put (lane);
    }
    else
      assert_int_equal (
          put (unit * 4096, (unsigned char) rand_r (&seed), length), 0);
  }
}

static struct fp_thread writers[2];

static void
begin_writing (void)
{
  atomic_store (&enough, false);
  for (unsigned n = 0; n < 2; n++)
    assert_int_equal (fp_thread_create (&writers[n], "writer", write_main,
                                        (void *) (uintptr_t) (n + 1)),
                      0);
}

static void
end_writing (void)
{
  atomic_store (&enough, true);
  for (unsigned n = 0; n < 2; n++)
    assert_int_equal (fp_thread_join (&writers[n]), 0);
}

static void
test_live_writes (void **state)
{
  (void) state;
  start (2, 3);
  fill ();
  begin_writing ();
  for (unsigned n = 0; n < 30; n++) {
    check (n % 3 == 0);
    assert_int_equal (s.differ, 0);
    assert_int_equal (s.skipped, 0);
  }
  end_writing ();
  check (false);
  assert_int_equal (s.differ, 0);
}

/* Connections break during transfers.  So writes are in one copy for a while,
 * and copies become stale and are resynced.
 */
static void
test_faults (void **state)
{
  (void) state;
  start (2, 3);
  fill ();
  begin_writing ();
  for (unsigned n = 1; n < 60; n++) {
    fp_fake_fault_at (n * 3, FP_FAKE_BREAK);
    check (false);
    assert_int_equal (s.differ, 0);
  }
  end_writing ();
  await_whole ();
  check (false);
  assert_int_equal (s.differ, 0);
  assert_int_equal (s.skipped, 0);
}

/* Connections break while a check repairs. */
static void
test_faults_mending (void **state)
{
  unsigned mended = 0;

  (void) state;
  start (2, 3);
  fill ();
  for (unsigned n = 1; n < 30; n++) {
    *byte_of (0, 1, 1000) ^= 0xff;
    fp_fake_fault_at (n, FP_FAKE_BREAK);
    check (true);
    mended += (unsigned) s.repaired;
    fp_fake_fault_at (0, FP_FAKE_BREAK);
    await_whole ();
    check (true);
    check (false);
    expect (BLOCKS, 0);
  }
  assert_true (mended > 0);
}

static uint64_t
written_to (struct fake_server *to)
{
  struct fp_server_status it;

  for (unsigned i = 0; i < v->peers.nr; i++)
    if (fp_addr_eq (&v->p.servers[i], fake_server_addr (to))) {
      fp_peer_status (v->peers.at[i], &it);
      return it.bytes_written;
    }
  fail ();
  return 0;
}

/* A repair write that fails may land later.  So all of the copy is resynced,
 * and not that block alone.
 */
static void
test_failed_mend (void **state)
{
  struct fake_server *second;
  uint64_t most = 0;

  (void) state;
  start (2, 3);
  fill ();
  second = server_of (0, 1);
  for (unsigned n = 1; n < 20; n++) {
    uint64_t before = written_to (second), end = fp_deadline_in_ms (20000);

    *byte_of (0, 1, 1000) ^= 0xff;
    fp_fake_fault_at (n, FP_FAKE_ERROR);
    check (true);
    fp_fake_fault_at (0, FP_FAKE_ERROR);
    while (fp_copies_bad (v->extents, 0, 3) != 0) {
      assert_false (fp_deadline_passed (end));
      pause_ms (1);
    }
    await_whole ();
    most = FP_MAX (most, written_to (second) - before);
    check (true);
    check (false);
    expect (BLOCKS, 0);
  }
  assert_true (most >= SLAB);
}

/* Extents move between servers during a check. */
static void
test_moves (void **state)
{
  (void) state;
  start (2, 3);
  fill ();
  begin_writing ();
  for (unsigned n = 0; n < 20; n++) {
    assert_int_equal (fp_volume_check (v, true, 0, &error), 0);
    for (uint64_t k = 0; k < v->extents->all; k++)
      for (unsigned to = 0; to < 3; to++)
        if (to != atomic_load (&v->extents->p[k].server) &&
            to != atomic_load (
                      &v->extents->p[(k + v->extents->nr) % v->extents->all]
                           .server))
          (void) fp_migrate_move (v->migrate, k, to);
    await_end ();
    assert_int_equal (s.differ, 0);
  }
  end_writing ();
}

/* A server dies during a check: extents with one copy are skipped. */
static void
test_death (void **state)
{
  (void) state;
  start (2, 2);
  fill ();
  begin_held (1);
  fake_server_cut (servers[1]);
  await_end ();
  assert_int_equal (s.state, FP_CHECK_DONE);
  assert_int_equal (s.differ, 0);
  assert_int_equal (s.compared, 0);
  assert_int_equal (s.skipped, BLOCKS);
  assert_true (s.degraded > 0);
  fp_fake_server_hold (fake_server_data (servers[1]), false);
  fake_server_revive (servers[1]);
  await_whole ();
  check (false);
  expect (BLOCKS, 0);
}

/* All servers die during a check. */
static void
test_all_dead (void **state)
{
  (void) state;
  start (2, 2);
  fill ();
  begin_held (1);
  fake_server_cut (servers[0]);
  fake_server_cut (servers[1]);
  await_end ();
  assert_int_equal (s.state, FP_CHECK_DONE);
  assert_int_equal (s.compared, 0);
  assert_int_equal (s.skipped, BLOCKS);
}

static void
test_cancel (void **state)
{
  (void) state;
  start (2, 2);
  fill ();
  assert_int_equal (fp_volume_check_cancel (v, &error), -ENOENT);
  begin_held (1);
  assert_int_equal (fp_volume_check (v, false, 0, &error), -EBUSY);
  assert_int_equal (fp_volume_check_cancel (v, &error), 0);
  await_end ();
  assert_int_equal (s.state, FP_CHECK_CANCELLED);
  fp_fake_server_hold (fake_server_data (servers[1]), false);
  assert_int_equal (fp_volume_check_cancel (v, &error), -ENOENT);
  await_whole ();
  check (false);
  expect (BLOCKS, 0);
}

/* If one copy of a block does not answer, a write to it waits a bounded time.
 */
static void
test_held_block (void **state)
{
  (void) state;
  start (2, 2);
  fill ();
  begin_held (1);
  /* Ops that are already held stay held. */
  fp_fake_server_hold (fake_server_data (servers[1]), false);
  assert_int_equal (put (0, 7, 4096), 0);
  await_end ();
  await_whole ();
  check (false);
  expect (BLOCKS, 0);
  assert_int_equal (*byte_of (0, 0, 0), 7);
  assert_int_equal (*byte_of (0, 1, 0), 7);
}

/* Stopping the volume ends the check.  Teardown stops it. */
static void
test_detach (void **state)
{
  (void) state;
  start (2, 2);
  fill ();
  begin_held (1);
}

static void
test_one_copy (void **state)
{
  (void) state;
  start (1, 2);
  assert_int_equal (fp_volume_check (v, false, 0, &error), -EINVAL);
  assert_non_null (strstr (error.text, "one copy"));
}

/* The rate is two blocks in 50 ms. */
static void
test_rate (void **state)
{
  uint64_t begin;

  (void) state;
  start (2, 2);
  fill ();
  begin = fp_now_ns ();
  assert_int_equal (
      fp_volume_check (v, false, 40 * (uint64_t) FP_CHECK_BLOCK, &error), 0);
  await_end ();
  expect (BLOCKS, 0);
  assert_true (fp_now_ns () - begin >= (BLOCKS - 1) * FP_NS_PER_S / 40);
}

#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_equal),
    TEST (test_differs),
    TEST (test_first_copy_counts),
    TEST (test_offsets),
    TEST (test_mended_meanwhile),
    TEST (test_live_writes),
    TEST (test_faults),
    TEST (test_faults_mending),
    TEST (test_failed_mend),
    TEST (test_moves),
    TEST (test_death),
    TEST (test_all_dead),
    TEST (test_cancel),
    TEST (test_held_block),
    TEST (test_detach),
    TEST (test_one_copy),
    TEST (test_rate),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
