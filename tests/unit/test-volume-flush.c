/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-flush.c - a flush reads from each server that was written
 * to.  If one dies meanwhile, the flush waits until that is known.  It does
 * not wait for the whole timeout, as another server has the data.
 */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "peer/peer_migrate.h" /* before `v`, which would be shadowed */
#include "volume-fixture.h"

#define EXTENTS COPIES_EXTENTS
#define TIMEOUT_MS 2000u

static int
setup (void **state)
{
  int r = copies_setup (state);

  copies_timeout_ms = TIMEOUT_MS;
  nr_named = 2;
  return r;
}

static void
fill (unsigned char byte)
{
  for (uint64_t i = 0; i < EXTENTS; i++)
    assert_int_equal (put (i, (unsigned char) (byte + i)), 0);
}

static void
holds (unsigned char byte)
{
  for (uint64_t i = 0; i < EXTENTS; i++)
    assert_int_equal (get (i), (unsigned char) (byte + i));
}

static struct fp_fake_server *
data (unsigned s)
{
  return fake_server_data (servers[s]);
}

struct flush {
  struct fp_thread thread;
  int result;
  uint64_t ns;
};

static void
flush (void *arg)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct flush *f = arg;
  uint64_t start = fp_now_ns ();

  f->result = fp_lane_flush (lane);
  f->ns = fp_now_ns () - start;
  fp_volume_lane_put (lane);
}

static void
begin (struct flush *f)
{
  assert_int_equal (fp_thread_create (&f->thread, "flush", flush, f), 0);
}

/* The operation succeeded, within ms. */
static void
must_end (struct flush *f, unsigned ms)
{
  assert_int_equal (fp_thread_join (&f->thread), 0);
  assert_int_equal (f->result, 0);
  assert_in_range (f->ns / FP_NS_PER_MS, 0, ms);
}

static void
await_held (unsigned s)
{
  uint64_t end = fp_deadline_in_ms (20000);

  while (fp_fake_server_held (data (s)) == 0) {
    assert_false (fp_deadline_passed (end));
    pause_ms (1);
  }
}

static void
attach_and_fill (void)
{
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
}

/* The servers answer no READ, and there is nothing to flush. */
static void
nothing_is_read (void)
{
  struct flush f;

  for (unsigned s = 0; s < nr_named; s++)
    fp_fake_server_hold (data (s), true);
  begin (&f);
  must_end (&f, TIMEOUT_MS);
  for (unsigned s = 0; s < nr_named; s++)
    fp_fake_server_hold (data (s), false);
}

static void
test_all_are_read (void **state)
{
  struct flush f;

  (void) state;
  attach_and_fill ();
  for (unsigned s = 0; s < 2; s++) {
    fill (2);
    fp_fake_server_hold (data (s), true);
    begin (&f);
    await_held (s);
    fp_fake_server_hold (data (s), false);
    assert_true (fp_fake_server_release (data (s), 0, 0));
    must_end (&f, TIMEOUT_MS);
  }
  nothing_is_read ();
}

/* No READ of a flush waits for another one. */
static void
test_at_once (void **state)
{
  struct flush f;

  (void) state;
  attach_and_fill ();
  for (unsigned s = 0; s < 2; s++)
    fp_fake_server_hold (data (s), true);
  begin (&f);
  for (unsigned s = 0; s < 2; s++)
    await_held (s);
  for (unsigned s = 0; s < 2; s++) {
    fp_fake_server_hold (data (s), false);
    assert_true (fp_fake_server_release (data (s), 0, 0));
  }
  must_end (&f, TIMEOUT_MS);
}

/* There are more queue pairs than READs in flight at once. */
static void
test_many_queues (void **state)
{
  struct fp_lane *lanes[20];
  unsigned nr = sizeof lanes / sizeof lanes[0];
  unsigned char bytes[COPIES_IO] = { 0 };
  struct fp_volume_params p;
  struct flush f;

  (void) state;
  copies_params (&p);
  p.size = COPIES_SIZE;
  p.lanes = nr;
  must (fixture_start (&p));
  for (unsigned i = 0; i < nr; i++) {
    lanes[i] = fp_volume_lane_get (v);
    assert_int_equal (fp_lane_write (lanes[i], bytes, sizeof bytes,
                                     i % EXTENTS * COPIES_SLAB),
                      0);
  }
  begin (&f);
  must_end (&f, TIMEOUT_MS);
  nothing_is_read ();
  for (unsigned i = 0; i < nr; i++)
    fp_volume_lane_put (lanes[i]);
}

/* A read of the front end places earlier writes, too. */
static void
test_reads_place (void **state)
{
  (void) state;
  nr_copies = nr_named = 1;
  attach_and_fill ();
  assert_int_equal (get (0), 1);
  nothing_is_read ();
}

static void
zero (void *arg)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct flush *f = arg;
  uint64_t start = fp_now_ns ();

  /* A range so large that the servers zero it. */
  f->result = fp_lane_zero (lane, COPIES_SLAB - COPIES_IO, 0, false);
  f->ns = fp_now_ns () - start;
  fp_volume_lane_put (lane);
}

/* A server zeroes memory with its CPU, so acknowledged writes must be in its
 * memory before.  The client makes sure of that by a read.
 */
static void
zero_reads (void)
{
  struct fp_volume_params p;

  copies_params (&p);
  p.size = COPIES_SIZE;
  p.quiet_ms = 1000000; /* the copies stay marked as possibly different */
  must (fixture_start (&p));
  for (unsigned s = 0; s < nr_named; s++) {
    struct flush f;

    fill (3);
    assert_int_equal (fp_thread_create (&f.thread, "zero", zero, &f), 0);
    must_end (&f, TIMEOUT_MS);
    fill (3);
    fp_fake_server_hold (data (s), true);
    assert_int_equal (fp_thread_create (&f.thread, "zero", zero, &f), 0);
    await_held (s);
    fp_fake_server_hold (data (s), false);
    assert_true (fp_fake_server_release (data (s), 0, 0));
    must_end (&f, TIMEOUT_MS);
    assert_int_equal (get (0), 0);
  }
}

/* The queue pair broke unnoticed: it is replaced, and the session stays. */
static void
zero_meets_break (void)
{
  uint64_t session = fp_peer_session (v->peers.at[0]);
  struct flush f;

  fill (4);
  fp_fake_fault_at (1, FP_FAKE_BREAK);
  assert_int_equal (fp_thread_create (&f.thread, "zero", zero, &f), 0);
  must_end (&f, TIMEOUT_MS);
  assert_true (fp_fake_fault_fired ());
  fp_fake_fault_at (0, FP_FAKE_ERROR);
  assert_int_equal (fp_peer_session (v->peers.at[0]), session);
  assert_int_equal (get (0), 0);
}

static void
test_zero_reads (void **state)
{
  (void) state;
  zero_reads ();
}

static void
test_zero_of_one_reads (void **state)
{
  (void) state;
  nr_copies = nr_named = 1;
  zero_reads ();
  zero_meets_break ();
}

/* A server is killed: all connections to it end. */
static void
test_server_dies (void **state)
{
  struct flush f;

  (void) state;
  attach_and_fill ();
  fp_fake_server_hold (data (1), true);
  begin (&f);
  await_held (1);
  fake_server_cut (servers[1]);
  must_end (&f, TIMEOUT_MS / 4);
  fp_fake_server_hold (data (1), false);
  holds (1);
  begin (&f);
  must_end (&f, TIMEOUT_MS / 4);
  fake_server_revive (servers[1]);
  await_whole ();
}

/* A server is stopped: a request waits 3/8 of the timeout for its answer.
 * 1/16 later the server is left behind, even if its peer thread waits for
 * another answer.
 */
static void
test_server_is_silent (void **state)
{
  struct flush f;

  (void) state;
  copies_timeout_ms = 800;
  attach_and_fill ();
  fp_fake_server_hold (data (1), true);
  fake_server_silence (servers[1], FAKE_DEAF, 0);
  begin (&f);
  must_end (&f, 700);
  begin (&f);
  must_end (&f, 700);
  holds (1);
  fake_server_silence (servers[1], FAKE_SPEAKS, 0);
  fp_fake_server_hold (data (1), false);
  await_whole ();
}

/* A server answers each request with an error. */
static void
test_server_refuses (void **state)
{
  struct flush f;

  (void) state;
  attach_and_fill ();
  fp_fake_server_answer (data (1), -EPERM);
  begin (&f);
  must_end (&f, TIMEOUT_MS / 4);
  fp_fake_server_answer (data (1), 0);
  holds (1);
}

/* Without another copy, the flush waits, and then fails. */
static void
test_one_copy (void **state)
{
  struct flush f;

  (void) state;
  nr_copies = nr_named = 1;
  copies_timeout_ms = 400;
  attach_and_fill ();
  fp_fake_server_hold (data (0), true);
  begin (&f);
  await_held (0);
  fake_server_cut (servers[0]);
  assert_int_equal (fp_thread_join (&f.thread), 0);
  assert_int_equal (f.result, -EIO);
  assert_true (f.ns >= 300 * FP_NS_PER_MS);
  fp_fake_server_hold (data (0), false);
  fake_server_revive (servers[0]);
}

#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, fixture_down)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_all_are_read),   TEST (test_at_once),
    TEST (test_many_queues),    TEST (test_reads_place),
    TEST (test_server_dies),    TEST (test_server_is_silent),
    TEST (test_server_refuses), TEST (test_one_copy),
    TEST (test_zero_reads),     TEST (test_zero_of_one_reads),
  };

  return RUN_TESTS (tests);
}
