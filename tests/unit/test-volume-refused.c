/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-refused.c - a server that answers, and always with an error: a
 * volume with several copies goes on without it at once, and makes its copies
 * anew; one with a single copy waits.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "volume-fixture.h"

#define SLAB COPIES_SLAB
#define PIECES COPIES_PIECES
#define TIMEOUT_MS 4000u

static int
setup (void **state)
{
  int r = copies_setup (state);

  copies_timeout_ms = TIMEOUT_MS;
  return r;
}

static void
answer (unsigned s, int status)
{
  fp_fake_server_answer (fake_server_data (servers[s]), status);
}

static void
fill (unsigned char byte)
{
  for (uint64_t i = 0; i < PIECES; i++)
    assert_int_equal (put (i, (unsigned char) (byte + i)), 0);
}

static void
holds (unsigned char byte)
{
  for (uint64_t i = 0; i < PIECES; i++)
    assert_int_equal (get (i), (unsigned char) (byte + i));
}

static unsigned
pieces_on (unsigned s)
{
  const struct fp_pieces *t = v->pieces;
  unsigned n = 0;

  for (uint64_t k = 0; k < t->all; k++)
    n += fp_piece_state (&t->p[k]) == FP_PIECE_READY &&
         atomic_load (&t->p[k].server) == s;
  return n;
}

/* One that has a copy. */
static unsigned
some_server (void)
{
  return atomic_load (&v->pieces->p[0].server);
}

/* Nobody waits for it, neither to read nor to write, and then all is well
 * again, without it.
 */
static void
goes_on_without (unsigned s)
{
  uint64_t start = fp_now_ns ();

  holds (1);
  fill (2);
  holds (2);
  assert_true (fp_now_ns () - start < TIMEOUT_MS / 2 * FP_NS_PER_MS);
  await_whole ();
  assert_int_equal (pieces_on (s), 0);
  for (uint64_t i = 0; i < PIECES; i++)
    all_have (i, 2 + (int) i);
}

static void
test_refuses (void **state)
{
  unsigned s;

  (void) state;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  s = some_server ();
  answer (s, -EPERM);
  goes_on_without (s);
}

static void
test_fails (void **state)
{
  unsigned s;

  (void) state;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  s = some_server ();
  answer (s, -EIO);
  goes_on_without (s);
}

/* The keys that it gave out open nothing any more, those that it gives out
 * now do.
 */
static void
test_revoked (void **state)
{
  uint64_t start;

  (void) state;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  fp_fake_server_revoke (fake_server_data (servers[some_server ()]));
  start = fp_now_ns ();
  fill (2);
  holds (2);
  assert_true (fp_now_ns () - start < TIMEOUT_MS / 2 * FP_NS_PER_MS);
  await_whole ();
  for (uint64_t i = 0; i < PIECES; i++)
    all_have (i, 2 + (int) i);
}

/* Likewise, where a key that opens nothing breaks the connection: one that is
 * made again in the same session would break as well.
 */
static void
test_revoked_breaks (void **state)
{
  uint64_t start;
  unsigned s;

  (void) state;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  s = some_server ();
  fp_fake_server_break (fake_server_data (servers[s]), true);
  fp_fake_server_revoke (fake_server_data (servers[s]));
  start = fp_now_ns ();
  fill (2);
  holds (2);
  assert_true (fp_now_ns () - start < TIMEOUT_MS / 2 * FP_NS_PER_MS);
  await_whole ();
  for (uint64_t i = 0; i < PIECES; i++)
    all_have (i, 2 + (int) i);
}

static void
test_revoked_alone (void **state)
{
  (void) state;
  nr_copies = nr_named = 1;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  fp_fake_server_break (fake_server_data (servers[0]), true);
  fp_fake_server_revoke (fake_server_data (servers[0]));
  holds (1);
  fill (2);
  holds (2);
}

/* Connections are made again each time, and break at the next transfer. */
static void
breaks (int status)
{
  unsigned s;

  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  s = some_server ();
  fp_fake_server_break (fake_server_data (servers[s]), true);
  answer (s, status);
  goes_on_without (s);
}

static void
test_breaks (void **state)
{
  (void) state;
  breaks (-EIO);
}

static void
test_breaks_refused (void **state)
{
  (void) state;
  breaks (-EACCES);
}

/* One server lets the client in no more (its access file was changed): the
 * volume goes on at the others, and there when it may.
 */
static void
test_barred (void **state)
{
  (void) state;
  nr_named = 2;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  fake_server_bar (servers[0], true);
  fake_server_cut (servers[0]);
  fake_server_revive (servers[0]);
  pause_ms (TIMEOUT_MS);
  fill (2);
  holds (2);
  assert_false (atomic_load (&v->taken));
  assert_int_equal (degraded (), PIECES);
  fake_server_bar (servers[0], false);
  await_whole ();
  for (uint64_t i = 0; i < PIECES; i++)
    all_have (i, 2 + (int) i);
}

/* All of them do: requests fail after a while, and the volume is there again
 * when it may.
 */
static void
test_all_barred (void **state)
{
  (void) state;
  nr_named = 2;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  for (unsigned s = 0; s < 2; s++) {
    fake_server_bar (servers[s], true);
    fake_server_cut (servers[s]);
    fake_server_revive (servers[s]);
  }
  assert_int_equal (put (0, 9), -EIO);
  assert_false (atomic_load (&v->taken));
  for (unsigned s = 0; s < 2; s++)
    fake_server_bar (servers[s], false);
  fill (2);
  holds (2);
}

/* Another client has opened the volume at one of them, and had a key. */
static void
test_visited (void **state)
{
  (void) state;
  nr_named = 2;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  fake_server_cut (servers[0]);
  fake_server_visit (servers[0]);
  fake_server_bar (servers[0], true);
  fake_server_revive (servers[0]);
  pause_ms (TIMEOUT_MS);
  assert_int_equal (put (0, 9), -EIO);
  assert_true (atomic_load (&v->taken));
}

/* What is zeroed by the servers is said before that by one-sided writes. */
static void
test_zeroed (void **state)
{
  struct fp_lane *lane;
  uint64_t start;
  int r;

  (void) state;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  answer (some_server (), -EPERM);
  lane = fp_volume_lane_get (v);
  start = fp_now_ns ();
  r = fp_lane_zero (lane, COPIES_SIZE - 8192, 4096, false);
  fp_volume_lane_put (lane);
  assert_int_equal (r, 0);
  assert_true (fp_now_ns () - start < TIMEOUT_MS / 2 * FP_NS_PER_MS);
  for (uint64_t i = 0; i < PIECES; i++)
    assert_int_equal (get (i), 0);
  await_whole ();
  for (uint64_t i = 0; i < PIECES; i++)
    all_have (i, 0);
}

/* It was recorded before the write was acknowledged. */
static void
test_recorded (void **state)
{
  (void) state;
  nr_named = 2;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  answer (0, -EPERM);
  fill (2);
  assert_int_equal (degraded (), PIECES);
  copies_die ();
  answer (0, 0);
  must (copies_attach (0, false));
  holds (2);
  await_whole ();
  for (uint64_t i = 0; i < PIECES; i++)
    all_have (i, 2 + (int) i);
}

/* ---- who has no other copy waits ---- */

struct mending {
  struct fp_thread thread;
  unsigned nr;
};

static void
mend (void *arg)
{
  const struct mending *m = arg;

  pause_ms (200);
  for (unsigned s = 0; s < m->nr; s++)
    answer (s, 0);
}

static void
waits_for (unsigned nr)
{
  struct mending m = { .nr = nr };

  for (unsigned s = 0; s < nr; s++)
    answer (s, -EPERM);
  assert_int_equal (fp_thread_create (&m.thread, "mend", mend, &m), 0);
  holds (1);
  fill (2);
  assert_int_equal (fp_thread_join (&m.thread), 0);
  holds (2);
}

static void
test_one_copy (void **state)
{
  (void) state;
  nr_copies = nr_named = 1;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  waits_for (1);
}

static void
test_both_refuse (void **state)
{
  (void) state;
  nr_named = 2;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  waits_for (2);
  await_whole ();
  for (uint64_t i = 0; i < PIECES; i++)
    all_have (i, 2 + (int) i);
}

#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, fixture_down)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_refuses),        TEST (test_fails),
    TEST (test_revoked),        TEST (test_zeroed),
    TEST (test_recorded),       TEST (test_one_copy),
    TEST (test_both_refuse),    TEST (test_revoked_breaks),
    TEST (test_revoked_alone),  TEST (test_breaks),
    TEST (test_breaks_refused), TEST (test_barred),
    TEST (test_all_barred),     TEST (test_visited),
  };

  return RUN_TESTS (tests);
}
