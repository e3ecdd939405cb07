/* SPDX-License-Identifier: BSD-3-Clause */
/* test-copies-missed.c - a write that is in one copy and not yet in the other.
 * It is completed, and a check sees no difference.  While it lasts, both
 * copies are marked in their dirty logs.
 *
 * Only the test polls its lane.  So an op that it began stays as it is.
 */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/tsan.h"
#include "heal/check.h" /* both before the global v: -Wshadow */
#include "engine/dirty_log.h"
#include "volume-fixture.h"
#include "sim/threads.h"

#define SLAB COPIES_SLAB
#define REGION (64 * 1024)
#define IO 4096u
#define AT (3 * REGION)    /* offset of the write, in extent 0 */
#define OTHER (5 * REGION) /* another offset */
#define PUT_AT 4096        /* offset that put and all_have use */
#define NEVER 100000

static struct fp_lane *lane;
static unsigned quiet_ms;

static int
setup (void **state)
{
  int r = copies_setup (state);

  nr_named = 2;
  copies_timeout_ms = 20000;
  quiet_ms = NEVER;
  fake_lease_ms = 400;
  fake_features |= FP_FEATURE_AHEAD;
  return r;
}

static void
attach (void)
{
  struct fp_volume_params p;

  copies_params (&p);
  p.size = COPIES_SIZE;
  p.quiet_ms = quiet_ms;
  must (fixture_start (&p));
  lane = fp_volume_lane_get (v);
  fp_volume_lane_put (lane);
}

static int
write_at (uint64_t in, unsigned char byte)
{
  unsigned char bytes[IO];

  memset (bytes, byte, sizeof bytes);
  return fp_lane_write (lane, bytes, sizeof bytes, in);
}

/* Return the server of copy c of extent 0. */
static struct fp_fake_server *
server_of (unsigned c)
{
  unsigned s = atomic_load (&fp_copies_get (v->extents, 0, c)->server);

  return fake_server_data (servers[s]);
}

static unsigned char
byte_of (unsigned c, uint64_t in)
{
  const struct fp_extent *p = fp_copies_get (v->extents, 0, c);
  unsigned char it;

  /* A client with the key may write to a server's memory at any time. */
  fp_tsan_read_while_written_begin ();
  it = fp_fake_server_memory (
      server_of (c))[p->copy.slab * (SLAB + FP_TAIL_SIZE) + in];
  fp_tsan_read_while_written_end ();
  return it;
}

static bool
says (unsigned c, uint64_t in)
{
  return byte_of (c, SLAB + in / REGION) != 0;
}

/* ---- a write, step by step ---- */

struct writing {
  struct fp_io io;
  unsigned char bytes[IO];
  bool done;
};

static void
collect (void)
{
  struct fp_io *next;

  for (struct fp_io *io = fp_lane_poll (lane, false); io != NULL; io = next) {
    next = io->next;
    ((struct writing *) io)->done = true;
  }
}

static void
begin (struct writing *w, uint64_t in, unsigned char byte)
{
  *w = (struct writing) {
    .io = { .kind = FP_IO_WRITE, .length = IO, .offset = in, .buf = w->bytes }
  };
  memset (w->bytes, byte, sizeof w->bytes);
  assert_int_equal (fp_lane_submit (lane, &w->io), 0);
  collect ();
}

static void
finish (struct writing *w)
{
  uint64_t end = fp_deadline_in_ms (20000);

  while (!w->done) {
    assert_false (fp_deadline_passed (end));
    collect ();
  }
  assert_int_equal (w->io.status, 0);
}

/* Begin a write that is in copy 0, and that the server of copy 1 holds. */
static void
begin_held (struct writing *w, uint64_t in, unsigned char byte)
{
  for (unsigned n = 0; n < 100; n++) {
    /* This write marks both copies, but a sweep may just clear the marks. */
    assert_int_equal (write_at (in, (unsigned char) (byte - 1)), 0);
    fp_fake_server_hold (server_of (1), true);
    begin (w, in, byte);
    for (unsigned k = 0; k < 10 && byte_of (0, in) != byte; k++) {
      pause_ms (1);
      collect ();
    }
    if (byte_of (0, in) == byte)
      break;
    fp_fake_server_hold (server_of (1), false);
    while (fp_fake_server_release (server_of (1), 0, 0))
      ;
    finish (w);
  }
  assert_int_equal (byte_of (0, in), byte);
  assert_int_not_equal (byte_of (1, in), byte);
  collect ();
}

/* Make the held write fail.  It is retried at the next poll of the lane. */
static void
fail_one (void)
{
  assert_true (fp_fake_server_release (server_of (1), 0, -EPERM));
  collect ();
  fp_fake_server_hold (server_of (1), false);
}

/* ---- a missed write is made up for ---- */

static void
await_byte (unsigned c, uint64_t in, unsigned char byte)
{
  uint64_t end = fp_deadline_in_ms (20000);

  while (byte_of (c, in) != byte) {
    assert_false (fp_deadline_passed (end));
    pause_ms (1);
  }
}

/* A write is in copy 1 and not yet in copy 0.  Meanwhile copy 1 is resynced
 * from copy 0, and gets older data.  So the write goes to it once more.
 */
static void
test_made_anew_meanwhile (void **state)
{
  struct writing w, bad;
  struct fp_fake_server *first;

  (void) state;
  attach ();
  assert_int_equal (write_at (AT, 1), 0);
  assert_int_equal (write_at (OTHER, 1), 0);
  first = server_of (0);
  fp_fake_server_hold (first, true);
  begin (&w, AT, 2);
  await_byte (1, AT, 2);
  collect ();
  assert_int_equal (fp_fake_server_held (first), 1);
  fp_fake_server_hold (first, false);
  /* The server of copy 1 answers another write with an error. */
  fp_fake_server_hold (server_of (1), true);
  begin (&bad, OTHER, 2);
  assert_true (fp_fake_server_release (server_of (1), 0, -EREMOTEIO));
  collect ();
  fp_fake_server_hold (server_of (1), false);
  finish (&bad);
  /* Copy 1 is stale, and stays so while a write to copy 0 is in flight. */
  await_byte (1, AT, 1);
  assert_true (fp_fake_server_release (first, 0, 0));
  finish (&w);
  await_whole ();
  for (unsigned c = 0; c < 2; c++) {
    assert_int_equal (byte_of (c, AT), 2);
    assert_int_equal (byte_of (c, OTHER), 2);
  }
}

/* ---- an unfinished write is no difference, and is marked ---- */

static void
check_waits (struct writing *w)
{
  struct fp_check_status s;
  uint64_t end = fp_deadline_in_ms (20000);

  assert_int_equal (byte_of (0, AT), 9);
  assert_int_equal (byte_of (1, AT), 8);
  assert_int_equal (fp_volume_check (v, false, 0, &last_error), 0);
  pause_ms (200);
  finish (w);
  do {
    assert_false (fp_deadline_passed (end));
    pause_ms (1);
    fp_check_status (v->check, &s);
  } while (s.state == FP_CHECK_RUNNING);
  assert_int_equal (s.state, FP_CHECK_DONE);
  assert_int_equal (s.differ, 0);
  assert_int_equal (s.skipped, 0);
  assert_int_equal (atomic_load (&v->engine.unsettled), 0);
  for (unsigned c = 0; c < 2; c++)
    assert_int_equal (byte_of (c, AT), 9);
}

static void
test_failed_is_no_difference (void **state)
{
  struct writing w;

  (void) state;
  attach ();
  begin_held (&w, AT, 9);
  fail_one ();
  check_waits (&w);
}

/* The write could not be sent to one copy. */
static void
test_not_sent_is_no_difference (void **state)
{
  struct writing w;

  (void) state;
  attach ();
  assert_int_equal (write_at (AT, 8), 0);
  fp_fake_fault_at (2, FP_FAKE_ERROR); /* the post to copy 1 */
  begin (&w, AT, 9);
  assert_true (fp_fake_fault_fired ());
  /* The peer reconnects soon, so copy 1 does not become stale. */
  assert_int_equal (fp_copies_in_sync (v->extents, 0), 3);
  check_waits (&w);
}

static void
test_failed_is_said (void **state)
{
  uint64_t end = fp_deadline_in_ms (20000);
  struct writing w;

  (void) state;
  quiet_ms = 20;
  attach ();
  begin_held (&w, AT, 9);
  fail_one ();
  pause_ms (400); /* twenty times quiet_ms */
  for (unsigned c = 0; c < 2; c++)
    assert_true (says (c, AT));
  finish (&w);
  while (says (0, AT) || says (1, AT)) {
    assert_false (fp_deadline_passed (end));
    pause_ms (2);
  }
}

/* ---- zeroing by servers ---- */

struct zeroing {
  struct fp_thread thread;
  int result;
};

static void
zero (void *arg)
{
  ((struct zeroing *) arg)->result = fp_lane_zero (lane, SLAB, 0, false);
}

/* The server of copy c hangs during a ZERO.  Writes go on with the other copy,
 * and the zeros are in both afterwards.
 */
static void
zeros_at_hung (unsigned c)
{
  struct zeroing z;
  unsigned s;
  uint64_t start;

  copies_timeout_ms = 2000;
  fake_lease_ms = 30000; /* so no heartbeat fails */
  attach ();
  assert_int_equal (write_at (AT, 9), 0);
  s = atomic_load (&fp_copies_get (v->extents, 0, c)->server);
  fake_server_silence (servers[s], FAKE_DEAF, 0);
  assert_int_equal (fp_thread_create (&z.thread, "zero", zero, &z), 0);
  pause_ms (100);
  start = fp_now_ns ();
  assert_int_equal (write_at (AT + IO, 5), 0);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 0, 3000);
  assert_int_equal (fp_thread_join (&z.thread), 0);
  assert_int_equal (z.result, 0);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 0, 3500);
  fake_server_silence (servers[s], FAKE_SPEAKS, 0);
  await_whole ();
  for (unsigned n = 0; n < 2; n++)
    assert_int_equal (byte_of (n, AT), 0);
}

static void
test_zeros_at_first_hung (void **state)
{
  (void) state;
  zeros_at_hung (0);
}

static void
test_zeros_at_second_hung (void **state)
{
  (void) state;
  zeros_at_hung (1);
}

/* As zeros_at_hung, but the server was asked for memory first.  A sound server
 * may take long for that, so the writes go on later: after half of await_ms.
 */
static void
test_zeros_behind_grant (void **state)
{
  struct zeroing z;
  uint64_t start;
  unsigned s;

  (void) state;
  copies_timeout_ms = 1000;
  fake_lease_ms = 30000;
  fake_features &= ~FP_FEATURE_AHEAD; /* so each GRANT may take it long */
  attach ();
  assert_int_equal (write_at (AT, 9), 0);
  s = atomic_load (&fp_copies_get (v->extents, 0, 1)->server);
  fake_server_silence (servers[s], FAKE_DEAF, FP_MSG_GRANT);
  /* This takes memory that was granted ahead, so the client asks for more. */
  assert_int_equal (write_at (SLAB + AT, 7), 0);
  pause_ms (100);
  fake_server_silence (servers[s], FAKE_DEAF, 0);
  assert_int_equal (fp_thread_create (&z.thread, "zero", zero, &z), 0);
  pause_ms (100);
  start = fp_now_ns ();
  assert_int_equal (write_at (AT + IO, 5), 0);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 3000,
                   v->engine.block.await_ms / 2 + 1000);
  assert_int_equal (fp_thread_join (&z.thread), 0);
  assert_int_equal (z.result, 0);
  fake_server_silence (servers[s], FAKE_SPEAKS, 0);
  await_whole ();
  for (unsigned n = 0; n < 2; n++)
    assert_int_equal (byte_of (n, AT), 0);
}

/* Both server processes hang, but their memory can be used.  Dropping one copy
 * would not help, because the other server could not record that.
 */
static void
test_zeros_at_both_hung (void **state)
{
  struct zeroing z;
  uint64_t start;

  (void) state;
  copies_timeout_ms = 4000;
  fake_lease_ms = 30000;
  attach ();
  assert_int_equal (write_at (AT, 9), 0);
  assert_int_equal (write_at (SLAB + AT, 9), 0);
  for (unsigned s = 0; s < 2; s++)
    fake_server_silence (servers[s], FAKE_DEAF, 0);
  assert_int_equal (fp_thread_create (&z.thread, "zero", zero, &z), 0);
  pause_ms (2500); /* longer than the wait for one server */
  start = fp_now_ns ();
  assert_int_equal (write_at (SLAB + AT, 5), 0);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 0, 100);
  for (unsigned s = 0; s < 2; s++)
    fake_server_silence (servers[s], FAKE_SPEAKS, 0);
  assert_int_equal (fp_thread_join (&z.thread), 0);
  assert_int_equal (z.result, 0);
}

/* The server of one copy refuses, because it is copying the slab. */
static void
test_zeros_at_busy (void **state)
{
  struct zeroing z = { .result = 1 };
  unsigned s;

  (void) state;
  attach ();
  assert_int_equal (write_at (AT, 9), 0);
  s = atomic_load (&fp_copies_get (v->extents, 0, 1)->server);
  fake_server_keep (servers[s], true);
  assert_int_equal (fp_thread_create (&z.thread, "zero", zero, &z), 0);
  pause_ms (300);
  assert_int_equal (z.result, 1);
  fake_server_keep (servers[s], false);
  assert_int_equal (fp_thread_join (&z.thread), 0);
  assert_int_equal (z.result, 0);
  for (unsigned n = 0; n < 2; n++)
    assert_int_equal (byte_of (n, AT), 0);
}

static void
test_zeros_are_unsettled (void **state)
{
  uint64_t end = fp_deadline_in_ms (20000);
  struct zeroing z;
  unsigned s;

  (void) state;
  attach ();
  assert_int_equal (write_at (AT, 9), 0);
  s = atomic_load (&fp_copies_get (v->extents, 0, 1)->server);
  fake_server_silence (servers[s], FAKE_DEAF, FP_MSG_ZERO);
  assert_int_equal (fp_thread_create (&z.thread, "zero", zero, &z), 0);
  while (byte_of (0, AT) != 0) {
    assert_false (fp_deadline_passed (end));
    pause_ms (1);
  }
  assert_int_equal (atomic_load (&v->engine.unsettled), 1);
  fake_server_silence (servers[s], FAKE_SPEAKS, 0);
  assert_int_equal (fp_thread_join (&z.thread), 0);
  assert_int_equal (z.result, 0);
  assert_int_equal (byte_of (1, AT), 0);
  assert_int_equal (atomic_load (&v->engine.unsettled), 0);
}

static void
zero_two (void *arg)
{
  ((struct zeroing *) arg)->result = fp_lane_zero (lane, 2 * SLAB, 0, false);
}

/* Zero extents 0 and 1.  The time for that runs out while copy 0 of extent 0
 * is zeros and copy 1 is not.  If cut, the request to copy 1 fails, and its
 * server is back at once.  Else copy 1 becomes zeros, too.
 */
static void
zeros_stale (bool cut)
{
  struct zeroing z;
  unsigned s;

  attach ();
  for (uint64_t i = 0; i < 2; i++)
    assert_int_equal (put (i, 9), 0);
  s = atomic_load (&fp_copies_get (v->extents, 0, 1)->server);
  fake_server_silence (servers[s], FAKE_DEAF, FP_MSG_ZERO);
  assert_int_equal (fp_thread_create (&z.thread, "zero", zero_two, &z), 0);
  await_byte (0, PUT_AT, 0);
  pause_ms (50); /* by now the server of copy 1 was asked */
  assert_int_equal (byte_of (1, PUT_AT), 9);
  sim_stop_ms (v->engine.block.await_ms / 4 * 3);
  if (cut)
    fake_server_cut (servers[s]);
  fake_server_silence (servers[s], FAKE_SPEAKS, 0);
  if (cut)
    fake_server_revive (servers[s]);
  assert_int_equal (fp_thread_join (&z.thread), 0);
  assert_int_equal (z.result, -EIO);
  assert_int_equal (atomic_load (&v->engine.unsettled), 0);
  await_whole ();
  all_have (0, 0);
  all_have (1, 9);
  for (unsigned c = 0; c < 2; c++)
    assert_int_equal (byte_of (c, PUT_AT), 0);
}

static void
test_stale_between_copies (void **state)
{
  (void) state;
  zeros_stale (true);
}

static void
test_stale_between_extents (void **state)
{
  (void) state;
  zeros_stale (false);
}

#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, fixture_down)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_made_anew_meanwhile),
    TEST (test_failed_is_no_difference),
    TEST (test_not_sent_is_no_difference),
    TEST (test_failed_is_said),
    TEST (test_zeros_at_busy),
    TEST (test_zeros_are_unsettled),
    TEST (test_zeros_at_first_hung),
    TEST (test_zeros_at_second_hung),
    TEST (test_zeros_behind_grant),
    TEST (test_zeros_at_both_hung),
    TEST (test_stale_between_copies),
    TEST (test_stale_between_extents),
  };

  return RUN_TESTS (tests);
}
