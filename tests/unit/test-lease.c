/* SPDX-License-Identifier: BSD-3-Clause */
/* test-lease.c - a client never believes that it holds a volume which another
 * one may have, however long it was stopped.
 */

#include "unit.h"

#include <string.h>

#include "base/clock.h"
#include "extent/lease.h"
#include "sim/threads.h"

#define LEASE_MS 8000u
#define HELD_MS 7000u /* without the margin of an eighth */

static struct fp_notifier changes;
static struct fp_lease lease;
static unsigned asked;

static void
ask (void *arg)
{
  assert_ptr_equal (arg, &asked);
  asked++;
}

static int
setup (void **state)
{
  (void) state;
  fp_notifier_init (&changes);
  fp_lease_init (&lease, ask, &asked);
  lease.changes = &changes;
  asked = 0;
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  fp_lease_destroy (&lease);
  fp_notifier_destroy (&changes);
  return 0;
}

static bool
open_at (unsigned server, uint64_t others, bool unbroken, bool forgets)
{
  return fp_lease_open (&lease, server, others, unbroken, forgets,
                        fp_boot_ns (), LEASE_MS);
}

static void
renew (unsigned server)
{
  (void) fp_lease_renew (&lease, server, fp_boot_ns (), LEASE_MS);
}

static void
test_ends (void **state)
{
  (void) state;
  assert_false (fp_lease_covers_mapped (&lease, 0, fp_mono_ns ()));
  assert_true (open_at (0, 0, true, false));
  assert_true (fp_lease_covers_mapped (&lease, 0, fp_mono_ns ()));
  assert_true (fp_lease_covers_zeros (&lease, 0, fp_boot_ns ()));
  assert_false (fp_lease_covers_zeros (&lease, 1, fp_boot_ns ()));
  sim_stop_ms (HELD_MS - 10);
  assert_true (fp_lease_covers_mapped (&lease, 0, fp_mono_ns ()));
  assert_true (fp_lease_covers_zeros (&lease, 0, fp_boot_ns ()));
  sim_stop_ms (10);
  assert_false (fp_lease_covers_mapped (&lease, 0, fp_mono_ns ()));
  assert_false (fp_lease_covers_zeros (&lease, 0, fp_boot_ns ()));
  renew (0);
  assert_true (fp_lease_covers_mapped (&lease, 0, fp_mono_ns ()));
  fp_lease_end (&lease, 0);
  assert_false (fp_lease_covers_mapped (&lease, 0, fp_mono_ns ()));
  assert_false (fp_lease_covers_zeros (&lease, 0, fp_boot_ns ()));
}

/* The time counts from when the message was sent, and an answer to an earlier
 * one shortens nothing.
 */
static void
test_renewed (void **state)
{
  uint64_t sent = fp_boot_ns ();

  (void) state;
  sim_stop_ms (HELD_MS / 2);
  renew (0);
  assert_true (fp_lease_renew (&lease, 0, sent, LEASE_MS) <= fp_mono_ns ());
  sim_stop_ms (HELD_MS / 2 + 500);
  assert_true (fp_lease_covers_zeros (&lease, 0, fp_boot_ns ()));
  assert_true (fp_lease_covers_mapped (&lease, 0, fp_mono_ns ()));
  (void) fp_lease_renew (&lease, 1, sent, LEASE_MS);
  assert_false (fp_lease_covers_zeros (&lease, 1, fp_boot_ns ()));
  assert_false (fp_lease_covers_mapped (&lease, 1, fp_mono_ns ()));
}

/* When a lease that was over is renewed, the threads that wait for it wake up.
 */
static void
test_raises (void **state)
{
  uint32_t seen = fp_notifier_count (&changes);

  (void) state;
  renew (0);
  assert_int_not_equal (fp_notifier_count (&changes), seen);
  seen = fp_notifier_count (&changes);
  sim_stop_ms (HELD_MS / 2);
  renew (0);
  assert_int_equal (fp_notifier_count (&changes), seen);
  sim_stop_ms (HELD_MS);
  renew (0);
  assert_int_not_equal (fp_notifier_count (&changes), seen);
}

static void
test_half (void **state)
{
  const uint64_t all = 0xf;

  (void) state;
  assert_false (fp_lease_holds (&lease, all, 0));
  assert_int_equal (asked, 1);
  assert_true (open_at (3, 0, true, false));
  assert_true (fp_lease_holds (&lease, all, 0));
  assert_true (fp_lease_holds (&lease, all, 0x8));
  assert_true (fp_lease_holds (&lease, all, 0x9));
  assert_int_equal (asked, 1);
  assert_false (fp_lease_holds (&lease, all, 0xb));
  assert_false (fp_lease_holds (&lease, all, 0x1));
  assert_false (fp_lease_holds (&lease, 0x7, 0));
  assert_int_equal (asked, 4);
  assert_true (open_at (0, 0, true, false));
  assert_true (fp_lease_holds (&lease, all, 0xb));
  sim_stop_ms (HELD_MS);
  assert_false (fp_lease_holds (&lease, all, 0));
}

/* A session may follow one of another client.  Then it counts only if another
 * server proves that it does not, or all have let this client in again.
 */
static void
test_broken (void **state)
{
  const uint64_t all = 0x7;

  (void) state;
  for (unsigned i = 0; i < 3; i++)
    assert_true (open_at (i, all & ~(1u << i), true, false));
  sim_stop_ms (HELD_MS);
  assert_true (open_at (0, 0x6, false, false));
  assert_false (fp_lease_holds (&lease, all, 0));
  assert_true (open_at (1, 0x5, false, false));
  assert_false (fp_lease_holds (&lease, all, 0));
  /* With the third one, each has let this client in again. */
  assert_true (open_at (2, 0x3, false, false));
  assert_true (fp_lease_holds (&lease, all, 0x7));
  /* One unbroken lease proves that the lease of server 1 is unbroken, too. */
  fp_lease_reset (&lease, 1);
  assert_true (open_at (1, 0x5, false, false));
  fp_lease_end (&lease, 0);
  fp_lease_end (&lease, 2);
  assert_true (fp_lease_holds (&lease, all, 0));
}

static bool held;

static void
look (void *arg)
{
  (void) arg;
  held |= fp_lease_holds (&lease, 1, 0);
}

/* A thread that is woken by the new session must not find the lease of the old
 * one.
 */
static void
test_broken_at_once (void **state)
{
  struct fp_listener l = { .wake = look };

  (void) state;
  assert_true (open_at (0, 0x2, true, false));
  fp_notifier_listen (&changes, &l);
  sim_stop_ms (HELD_MS);
  held = false;
  assert_true (open_at (0, 0x2, false, false));
  assert_false (held);
  fp_lease_end (&lease, 0);
  assert_true (open_at (0, 0x2, true, false));
  assert_true (held);
}

/* A server that may have forgotten this client is not believed alone. */
static void
test_forgotten (void **state)
{
  (void) state;
  assert_false (open_at (0, 0x2, false, true));
  assert_false (fp_lease_covers_zeros (&lease, 0, fp_boot_ns ()));
  assert_true (open_at (1, 0x1, true, false));
  assert_true (open_at (0, 0x2, false, true));
  assert_true (fp_lease_covers_zeros (&lease, 0, fp_boot_ns ()));
  fp_lease_end (&lease, 1);
  assert_true (fp_lease_holds (&lease, 0x3, 0));
}

static void
test_fence (void **state)
{
  uint32_t seen = fp_notifier_count (&changes);
  char by[FP_STATUS_REASON_MAX];

  (void) state;
  assert_false (fp_lease_is_fenced (&lease));
  fp_lease_fence (&lease, NULL);
  assert_true (fp_lease_is_fenced (&lease));
  assert_int_equal (asked, 1);
  assert_int_not_equal (fp_notifier_count (&changes), seen);
  fp_lease_fenced_by (&lease, by);
  assert_string_equal (by, "");
  /* The first description stays. */
  fp_lease_fence (&lease, "held by a");
  fp_lease_fence (&lease, "held by b");
  fp_lease_fenced_by (&lease, by);
  assert_string_equal (by, "held by a");
}

int
main (void)
{
#define TEST(f) cmocka_unit_test_setup_teardown (f, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_ends),      TEST (test_renewed), TEST (test_raises),
    TEST (test_half),      TEST (test_broken),  TEST (test_broken_at_once),
    TEST (test_forgotten), TEST (test_fence),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
