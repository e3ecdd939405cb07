/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-refused.c - a server answers each request with an error, or its
 * mapped memory is missing.  A volume with several copies goes on without it
 * at once, and rebuilds its copies on other servers.  One with a single copy
 * waits.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "volume-fixture.h"

#define SLAB COPIES_SLAB
#define EXTENTS COPIES_EXTENTS
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
  for (uint64_t i = 0; i < EXTENTS; i++)
    assert_int_equal (put (i, (unsigned char) (byte + i)), 0);
}

static void
holds (unsigned char byte)
{
  for (uint64_t i = 0; i < EXTENTS; i++)
    assert_int_equal (get (i), (unsigned char) (byte + i));
}

static unsigned
extents_on (unsigned s)
{
  const struct fp_extents *t = v->extents;
  unsigned n = 0;

  for (uint64_t k = 0; k < t->all; k++)
    n += fp_extent_state (&t->p[k]) == FP_EXTENT_READY &&
         atomic_load (&t->p[k].server) == s;
  return n;
}

/* Return a server that has a copy. */
static unsigned
some_server (void)
{
  return atomic_load (&v->extents->p[0].server);
}

/* No read or write waits for server s.  Then all copies are complete without
 * it.
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
  assert_int_equal (extents_on (s), 0);
  for (uint64_t i = 0; i < EXTENTS; i++)
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

/* The server's old keys are void, but the keys that it gives out now work. */
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
  for (uint64_t i = 0; i < EXTENTS; i++)
    all_have (i, 2 + (int) i);
}

/* As above, but a void key breaks the connection.  A new connection in the
 * same session would break as well.
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
  for (uint64_t i = 0; i < EXTENTS; i++)
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

/* Each new connection breaks at its first transfer. */
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

/* A server no longer admits the client (its access file was changed).  The
 * volume goes on at the others, and uses that one once it is admitted again.
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
  assert_false (fp_lease_is_fenced (&v->lease));
  assert_int_equal (degraded (), EXTENTS);
  fake_server_bar (servers[0], false);
  await_whole ();
  for (uint64_t i = 0; i < EXTENTS; i++)
    all_have (i, 2 + (int) i);
}

/* No server admits the client.  Requests fail after a while, and work again
 * once the client is admitted.
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
  assert_false (fp_lease_is_fenced (&v->lease));
  for (unsigned s = 0; s < 2; s++)
    fake_server_bar (servers[s], false);
  fill (2);
  holds (2);
}

/* Another client has opened the volume at one server, and had a key. */
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
  assert_true (fp_lease_is_fenced (&v->lease));
}

/* Zero all extents, while some dirty logs cannot be written.  The servers zero
 * the memory, after one-sided writes to the dirty logs.
 */
static void
zero_all (void)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  uint64_t start = fp_now_ns ();
  int r;

  r = fp_lane_zero (lane, COPIES_SIZE - 8192, 4096, false);
  fp_volume_lane_put (lane);
  assert_int_equal (r, 0);
  assert_true (fp_now_ns () - start < TIMEOUT_MS / 2 * FP_NS_PER_MS);
  for (uint64_t i = 0; i < EXTENTS; i++)
    assert_int_equal (get (i), 0);
  await_whole ();
  for (uint64_t i = 0; i < EXTENTS; i++)
    all_have (i, 0);
}

static void
test_zeroed (void **state)
{
  (void) state;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  answer (some_server (), -EPERM);
  zero_all ();
}

/* The stale copy is recorded before the write is acknowledged. */
static void
test_recorded (void **state)
{
  (void) state;
  nr_named = 2;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  answer (0, -EPERM);
  fill (2);
  assert_int_equal (degraded (), EXTENTS);
  copies_die ();
  answer (0, 0);
  must (copies_attach (0, false));
  holds (2);
  await_whole ();
  for (uint64_t i = 0; i < EXTENTS; i++)
    all_have (i, 2 + (int) i);
}

/* ---- without another copy, requests wait ---- */

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
  for (uint64_t i = 0; i < EXTENTS; i++)
    all_have (i, 2 + (int) i);
}

/* ---- mapped memory that is missing ---- */

#define STRIDE ((uintptr_t) COPIES_SLAB + FP_TAIL_SIZE)

/* The server whose mapped memory is missing, or -1; with its dirty logs or
 * without.
 */
static _Atomic int taker = -1;
static _Atomic bool takes_tails;

static bool
is_missing (const void *p)
{
  int s = atomic_load (&taker);
  uintptr_t at = (uintptr_t) p, memory;

  if (s < 0)
    return false;
  memory = (uintptr_t) fp_fake_server_memory (fake_server_data (servers[s]));
  return at >= memory && at - memory < COPIES_SLABS * STRIDE &&
         (takes_tails || (at - memory) % STRIDE < COPIES_SLAB);
}

/* If true, the next copy drops copy 1 of extent 0 before it begins. */
static _Atomic bool drops;

int __real_fp_mapped_copy (void *to, const void *from, size_t length);
int __wrap_fp_mapped_copy (void *to, const void *from, size_t length);

int
__wrap_fp_mapped_copy (void *to, const void *from, size_t length)
{
  if (atomic_exchange (&drops, false))
    atomic_store (&v->extents->in_sync[0], 1);
  return is_missing (to) || is_missing (from)
             ? -EFAULT
             : __real_fp_mapped_copy (to, from, length);
}

static int
setup_mapped (void **state)
{
  int r = setup (state);

  for (unsigned s = 0; s < FIXTURE_SERVERS; s++)
    fp_fake_server_map (fake_server_data (servers[s]));
  return r;
}

static int
down_mapped (void **state)
{
  atomic_store (&taker, -1);
  return fixture_down (state);
}

static void
missing (bool tails)
{
  unsigned s;

  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  s = some_server ();
  atomic_store (&takes_tails, tails);
  atomic_store (&taker, (int) s);
  goes_on_without (s);
}

static void
test_missing (void **state)
{
  (void) state;
  missing (true);
}

static void
test_missing_data (void **state)
{
  (void) state;
  missing (false);
}

/* The first request that finds memory missing is a write. */
static void
missing_to_write (bool tails)
{
  unsigned s;

  must (copies_attach (COPIES_SIZE, false));
  fill (0);
  pause_ms (60000); /* until the dirty logs are clear */
  s = some_server ();
  atomic_store (&takes_tails, tails);
  atomic_store (&taker, (int) s);
  fill (1);
  goes_on_without (s);
}

static void
test_missing_to_write (void **state)
{
  (void) state;
  missing_to_write (false);
}

static void
test_missing_to_say (void **state)
{
  (void) state;
  missing_to_write (true);
}

static void
test_missing_zeroed (void **state)
{
  (void) state;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  atomic_store (&takes_tails, true);
  atomic_store (&taker, (int) some_server ());
  zero_all ();
}

/* If the other servers are away, the only copy left is needed.  A request that
 * meets missing memory fails at once.
 */
static void
test_missing_last (void **state)
{
  uint64_t start;

  (void) state;
  nr_named = 2;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  fake_server_cut (servers[1]);
  fill (2);
  while (degraded () < EXTENTS)
    pause_ms (5);
  atomic_store (&taker, 0);
  start = fp_now_ns ();
  for (unsigned n = 0; n < 2; n++) {
    atomic_store (&takes_tails, n == 0);
    assert_int_equal (get (0), -EIO);
    assert_int_equal (put (0, 9), -EIO);
  }
  assert_true (fp_now_ns () - start < TIMEOUT_MS / 2 * FP_NS_PER_MS);
  atomic_store (&taker, -1);
  assert_int_equal (get (1), 3);
}

/* With one copy, requests fail at once, and the volume goes on. */
static void
test_missing_alone (void **state)
{
  uint64_t start;

  (void) state;
  nr_copies = nr_named = 1;
  must (copies_attach (COPIES_SIZE, false));
  fill (1);
  atomic_store (&taker, 0);
  start = fp_now_ns ();
  assert_int_equal (get (0), -EIO);
  assert_int_equal (put (0, 9), -EIO);
  assert_true (fp_now_ns () - start < TIMEOUT_MS / 2 * FP_NS_PER_MS);
  atomic_store (&taker, -1);
  holds (1);
  fill (2);
  holds (2);
}

/* Copy 1 is dropped while a write stores to the copies.  A resync may have
 * read copy 0 before the store, so the write must be marked as missed.
 */
static void
test_dropped_meanwhile (void **state)
{
  const struct fp_extents *t;
  _Atomic uint64_t *dirty;

  (void) state;
  must (copies_attach (COPIES_SIZE, false));
  assert_int_equal (put (0, 1), 0);
  t = v->extents;
  dirty = t->dirty + fp_copies_entry (t, 0, 1) * t->words;
  assert_int_equal (atomic_load (dirty), 0);
  atomic_store (&drops, true);
  assert_int_equal (put (0, 2), 0);
  assert_false (drops);
  assert_int_not_equal (atomic_load (dirty), 0);
  await_whole ();
  all_have (0, 2);
}

#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, fixture_down)
#define TEST_MAPPED(t)                                                        \
  cmocka_unit_test_setup_teardown (t, setup_mapped, down_mapped)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_refuses),
    TEST (test_fails),
    TEST (test_revoked),
    TEST (test_zeroed),
    TEST (test_recorded),
    TEST (test_one_copy),
    TEST (test_both_refuse),
    TEST (test_revoked_breaks),
    TEST (test_revoked_alone),
    TEST (test_breaks),
    TEST (test_breaks_refused),
    TEST (test_barred),
    TEST (test_all_barred),
    TEST (test_visited),
    TEST_MAPPED (test_missing),
    TEST_MAPPED (test_missing_data),
    TEST_MAPPED (test_missing_to_write),
    TEST_MAPPED (test_missing_to_say),
    TEST_MAPPED (test_missing_zeroed),
    TEST_MAPPED (test_missing_last),
    TEST_MAPPED (test_missing_alone),
    TEST_MAPPED (test_dropped_meanwhile),
  };

  return RUN_TESTS (tests);
}
