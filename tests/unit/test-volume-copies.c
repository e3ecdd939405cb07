/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-copies.c - pieces with several copies: while one is left
 * requests go on, and what was missed is made up for; whoever attaches the
 * volume later finds what was last written, or is refused.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "fake-ctl.h"
#include "volume/mirror.h"
#include "volume/volume_int.h"

#define SLAB (256 * 1024)
#define SLABS 64
#define NR_SERVERS 4
#define PIECES 6
#define SIZE ((uint64_t) PIECES * SLAB)
#define IO 8192u

static struct fake_server *servers[NR_SERVERS];
static struct fp_volume *v;
static char why[FP_WHY_MAX];
static unsigned copies = 2, nr_named = 3;

static void
params_of (struct fp_volume_params *p)
{
  fp_volume_params_init (p);
  p->nr_servers = nr_named;
  for (unsigned i = 0; i < nr_named; i++)
    p->servers[i] = *fake_server_addr (servers[i]);
  strcpy (p->name, "vol");
  p->copies = copies;
  p->stripe.width = 1; /* piece i is at i * SLAB */
  p->transports = FP_TRANSPORT_FAKE;
  p->timeout_ms = 400;
  p->slots = 4;
  p->slot_size = 32 * 1024;
  p->rebuild_delay_ms = 0;
}

/* As nbdkit does it. */
static int
start (struct fp_volume_params *p)
{
  int r = fp_volume_probe (p, why);

  return r < 0 ? r : fp_volume_start (&v, p, why);
}

static int
attach (uint64_t size, bool degraded)
{
  struct fp_volume_params p;

  params_of (&p);
  p.size = size;
  p.degraded = degraded;
  if (size == 0)
    p.copies = 0; /* as it was made */
  return start (&p);
}

static void
must (int r)
{
  if (r < 0)
    fprintf (stderr, "%d: %s\n", r, why);
  assert_int_equal (r, 0);
}

static void
detach (void)
{
  fp_volume_stop (v, true); /* which does not count for one with a name */
  v = NULL;
  assert_int_equal (fp_fake_imports (), 0);
}

static int
setup (void **state)
{
  static const char *const names[] = { "a", "b", "c", "d" };

  (void) state;
  copies = 2;
  nr_named = 3;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    servers[i] = fake_server_new (names[i], SLAB, SLABS);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
  fp_fake_fault_at (0, FP_FAKE_ERROR);
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

static unsigned char bytes[IO], got[IO];

static int
put (uint64_t i, unsigned char byte)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  int r;

  memset (bytes, byte, IO);
  r = fp_lane_write (lane, bytes, IO, i * SLAB + 4096);
  fp_volume_lane_put (lane);
  return r;
}

/* The byte that all of it is, or -errno. */
static int
get (uint64_t i)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  int r = fp_lane_read (lane, got, IO, i * SLAB + 4096);

  fp_volume_lane_put (lane);
  for (unsigned n = 1; r == 0 && n < IO; n++)
    assert_int_equal (got[n], got[0]);
  return r < 0 ? r : got[0];
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

static uint64_t
degraded (void)
{
  struct fp_mirror_status s;

  fp_mirror_status (v, &s);
  return s.degraded;
}

static void
await_whole (void)
{
  uint64_t end = fp_deadline_in_ms (20000);

  while (degraded () > 0) {
    assert_false (fp_deadline_passed (end));
    pause_ms (5);
  }
}

/* Each copy has the byte. */
static void
all_have (uint64_t i, int byte)
{
  struct fp_pieces *t = v->pieces;
  uint8_t before = fp_mirror_live (t, i);

  for (unsigned c = 0; c < t->copies; c++) {
    if (!(before >> c & 1))
      continue;
    atomic_store (&t->live[i], (uint8_t) (1u << c));
    assert_int_equal (get (i), byte);
  }
  atomic_store (&t->live[i], before);
}

/* ---- tests ---- */

static void
test_on_different_servers (void **state)
{
  struct fp_pieces *t;

  (void) state;
  must (attach (SIZE, false));
  t = v->pieces;
  assert_int_equal (get (0), 0);
  fill (1);
  holds (1);
  for (uint64_t i = 0; i < PIECES; i++) {
    assert_int_equal (fp_mirror_live (t, i), 3);
    assert_int_not_equal (atomic_load (&t->p[i].server),
                          atomic_load (&t->p[t->nr + i].server));
    all_have (i, 1 + (int) i);
  }
  detach ();
  must (attach (0, false));
  assert_int_equal (v->p.copies, 2);
  assert_int_equal (degraded (), 0); /* it was left in order */
  holds (1);
}

static void
test_one_dies (void **state)
{
  (void) state;
  must (attach (SIZE, false));
  for (unsigned victim = 0; victim < 3; victim++) {
    fill ((unsigned char) (10 * victim + 1));
    fake_server_cut (servers[victim]);
    fill ((unsigned char) (10 * victim + 2));
    holds ((unsigned char) (10 * victim + 2));
    /* With what it had; with nothing. */
    if (victim > 0)
      fake_server_forget (servers[victim]);
    fake_server_revive (servers[victim]);
    await_whole ();
    for (uint64_t i = 0; i < PIECES; i++)
      all_have (i, (int) (10 * victim + 2 + i));
  }
}

/* Its last client died in the middle of things: one copy of each piece is
 * believed.
 */
static void
test_client_dies (void **state)
{
  (void) state;
  must (attach (SIZE, false));
  fill (1);
  /* So it says nothing to any server at its end. */
  fake_ctl_fault_at (1, FAKE_CTL_DIE);
  detach ();
  fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
  must (attach (0, false));
  holds (1);
  await_whole ();
  for (uint64_t i = 0; i < PIECES; i++)
    all_have (i, 1 + (int) i);
}

/* Before anything is started, where somebody reads why. */
static int
probe_degraded (void)
{
  struct fp_volume_params p;

  params_of (&p);
  p.copies = 0;
  p.degraded = true;
  return fp_volume_probe (&p, why);
}

/* What one server missed is not read from it, by whoever comes next; not even
 * if nobody else is there.
 */
static void
test_stale (void **state)
{
  (void) state;
  nr_named = 2;
  must (attach (SIZE, false));
  fill (1);
  fake_server_cut (servers[1]);
  fill (2);
  detach ();
  fake_server_cut (servers[0]);
  fake_server_revive (servers[1]);
  assert_true (attach (0, false) < 0);
  assert_int_equal (probe_degraded (), -EROFS);
  assert_non_null (strstr (why, "may be old: start one more of them"));
  assert_non_null (strstr (why, "force=true"));
  fake_server_revive (servers[0]);
  must (attach (0, false));
  holds (2);
  await_whole ();
  /* Now it has all of it, and is enough. */
  fake_server_cut (servers[0]);
  holds (2);
}

/* With three copies two may die at once: so two, or one that is to leave, may
 * have gone on without the others.
 */
static void
test_left_behind (void **state)
{
  struct fp_volume_params p;

  (void) state;
  copies = 3;
  must (attach (SIZE, false));
  fill (1);
  fake_server_cut (servers[1]);
  fake_server_cut (servers[2]);
  fill (2);
  detach ();
  fake_server_revive (servers[1]);
  fake_server_revive (servers[2]);
  fake_server_cut (servers[0]);
  assert_int_equal (probe_degraded (), -EROFS);
  nr_named = 2;
  params_of (&p);
  for (unsigned i = 0; i < 2; i++)
    p.servers[i] = *fake_server_addr (servers[1 + i]);
  p.copies = 0;
  p.degraded = true;
  p.nr_remove = 1;
  p.remove[0] = *fake_server_addr (servers[0]);
  assert_int_equal (fp_volume_probe (&p, why), -EROFS);
  assert_non_null (strstr (why, "force=true"));
  nr_named = 3;
  fake_server_revive (servers[0]);
  must (attach (0, false));
  holds (2);
}

/* Nobody is left: an error, and no zeros. */
static void
test_all_die (void **state)
{
  (void) state;
  nr_named = 2;
  must (attach (SIZE, false));
  fill (1);
  fake_server_cut (servers[0]);
  fill (2);
  fake_server_cut (servers[1]);
  assert_int_equal (get (0), -EIO);
  assert_int_equal (put (0, 9), -EIO);
  fake_server_revive (servers[0]);
  assert_int_equal (get (0), -EIO);
  fake_server_revive (servers[1]);
  await_whole ();
  /* A write that failed may have been done. */
  assert_true (get (0) == 2 || get (0) == 9);
  for (uint64_t i = 1; i < PIECES; i++)
    assert_int_equal (get (i), 2 + (int) i);
}

/* Two of three servers at once. */
static void
test_three_copies (void **state)
{
  (void) state;
  copies = 3;
  must (attach (SIZE, false));
  fill (1);
  fake_server_cut (servers[0]);
  fake_server_cut (servers[2]);
  holds (1);
  fill (2);
  holds (2);
  fake_server_revive (servers[0]);
  fake_server_forget (servers[2]);
  fake_server_revive (servers[2]);
  await_whole ();
  for (uint64_t i = 0; i < PIECES; i++)
    all_have (i, 2 + (int) i);
}

/* Its server is gone for good, and there is another one. */
static void
test_made_anew (void **state)
{
  (void) state;
  must (attach (SIZE, false));
  fill (1);
  fake_server_cut (servers[0]);
  fill (2);
  await_whole ();
  fake_server_cut (servers[1]);
  holds (2);
  assert_int_equal (put (0, 7), 0);
  assert_int_equal (get (0), 7);
}

static void
trim (uint64_t i, uint64_t length)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  assert_int_equal (fp_lane_zero (lane, length, i * SLAB, true), 0);
  fp_volume_lane_put (lane);
}

/* A piece that was trimmed is not what a server that was away says. */
static void
test_trimmed_meanwhile (void **state)
{
  (void) state;
  must (attach (SIZE, false));
  fill (1);
  fake_server_cut (servers[0]);
  for (uint64_t i = 0; i < PIECES; i++)
    trim (i, SLAB);
  assert_int_equal (put (1, 5), 0);
  fake_server_revive (servers[0]);
  await_whole ();
  for (uint64_t i = 0; i < PIECES; i++)
    assert_int_equal (get (i), i == 1 ? 5 : 0);
  detach ();
  must (attach (0, false));
  for (uint64_t i = 0; i < PIECES; i++)
    assert_int_equal (get (i), i == 1 ? 5 : 0);
}

/* A server that lies about pieces beyond the end stops nobody but itself. */
static void
test_beyond_the_end (void **state)
{
  (void) state;
  must (attach (SIZE, false));
  fill (1);
  detach ();
  fake_server_set_map (servers[1], 2 * PIECES + 1, true);
  assert_true (attach (0, false) < 0);
  assert_non_null (strstr (why, "say which pieces there are"));
  fake_server_set_map (servers[1], 2 * PIECES + 1, false);
  must (attach (0, false));
  holds (1);
}

/* Every fault point, one after the other: with one fault nobody hears of any
 * error, and all copies are alike afterwards, and at the next attach.
 */
static void
walk (bool control, int kind)
{
  bool fired = true;
  unsigned n;

  for (n = 1; fired; n++) {
    unsigned char has[PIECES] = { 0 };
    int r;

    fp_fake_fault_at (control ? 0 : n, (enum fp_fake_fault) kind);
    fake_ctl_fault_at (control ? n : 0, (enum fake_ctl_fault) kind);
    r = attach (SIZE, false);
    if (r == 0) {
      for (unsigned k = 1; k < 3 * PIECES; k++) {
        uint64_t i = k * 5 % PIECES;

        if (k % 9 == 8) {
          trim (i, SLAB);
          has[i] = 0;
        }
        else {
          assert_int_equal (put (i, (unsigned char) k), 0);
          has[i] = (unsigned char) k;
        }
        assert_int_equal (get ((i + 1) % PIECES), has[(i + 1) % PIECES]);
      }
      fired = control ? fake_ctl_fault_fired () : fp_fake_fault_fired ();
      await_whole ();
      for (uint64_t i = 0; i < PIECES; i++) {
        assert_int_equal (get (i), has[i]);
        all_have (i, has[i]);
      }
      detach ();
      fp_fake_fault_at (0, FP_FAKE_ERROR);
      fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
      must (attach (0, false));
      for (uint64_t i = 0; i < PIECES; i++)
        assert_int_equal (get (i), has[i]);
      detach ();
    }
    else {
      fired = control ? fake_ctl_fault_fired () : fp_fake_fault_fired ();
    }
    for (unsigned i = 0; i < NR_SERVERS; i++)
      fake_server_forget (servers[i]);
  }
  printf ("walked %u %s fault points of kind %d\n", n - 2,
          control ? "control" : "data", kind);
  assert_true (n > 10);
}

static void
test_walk_breaks (void **state)
{
  (void) state;
  walk (false, FP_FAKE_BREAK);
}

static void
test_walk_refusals (void **state)
{
  (void) state;
  walk (true, FAKE_CTL_REFUSE);
}

static void
test_walk_lost_answers (void **state)
{
  (void) state;
  walk (true, FAKE_CTL_LOSE_ANSWER);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_on_different_servers, setup,
                                     teardown),
    cmocka_unit_test_setup_teardown (test_one_dies, setup, teardown),
    cmocka_unit_test_setup_teardown (test_client_dies, setup, teardown),
    cmocka_unit_test_setup_teardown (test_stale, setup, teardown),
    cmocka_unit_test_setup_teardown (test_left_behind, setup, teardown),
    cmocka_unit_test_setup_teardown (test_all_die, setup, teardown),
    cmocka_unit_test_setup_teardown (test_three_copies, setup, teardown),
    cmocka_unit_test_setup_teardown (test_made_anew, setup, teardown),
    cmocka_unit_test_setup_teardown (test_trimmed_meanwhile, setup, teardown),
    cmocka_unit_test_setup_teardown (test_beyond_the_end, setup, teardown),
    cmocka_unit_test_setup_teardown (test_walk_breaks, setup, teardown),
    cmocka_unit_test_setup_teardown (test_walk_refusals, setup, teardown),
    cmocka_unit_test_setup_teardown (test_walk_lost_answers, setup, teardown),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
