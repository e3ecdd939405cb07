/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-ephemeral-copies.c - a volume without a name and with several
 * copies, as swap uses it.  While one copy is left, requests go on.  A client
 * that resumes after a crash reads the last write, or is refused.  At the end
 * nothing is left on any server.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/lane.h"
#include "fake-ctl.h"
#include "engine/mirror.h"
#include "meta/meta_log.h"
#include "volume/volume_int.h"

#define SLAB (256 * 1024)
#define SLABS 64
#define NR_SERVERS 4
#define EXTENTS 5
#define SIZE ((uint64_t) EXTENTS * SLAB)
#define IO 8192u

static struct fake_server *servers[NR_SERVERS];
static struct fp_volume *v;
static struct fp_uuid uuid; /* the volume's, once created */
static struct fp_error error;
static unsigned copies = 2, nr_named = 3;
static bool reserve;

/* Start the volume as nbdkit does. */
static int
start (bool resume)
{
  struct fp_volume_params p;
  int r;

  fp_volume_params_init (&p);
  p.nr_servers = nr_named;
  for (unsigned i = 0; i < nr_named; i++)
    p.servers[i] = *fake_server_addr (servers[i]);
  p.size = SIZE;
  p.copies = copies;
  p.stripe.width = 1; /* extent i is at i * SLAB */
  p.transports = FP_TRANSPORT_FAKE;
  p.timeout_ms = 2000;
  p.slots = 4;
  p.slot_size = 32 * 1024;
  p.resync_delay_ms = 0;
  p.reserve_full = reserve;
  p.resume = resume;
  if (resume)
    p.uuid = uuid;
  r = fp_volume_probe (&p, &error);
  if (r == 0)
    r = fp_volume_start (&v, &p, &error);
  if (r == 0)
    uuid = *fp_volume_uuid (v);
  return r;
}

static void
must (int r)
{
  if (r < 0)
    fprintf (stderr, "%d: %s\n", r, error.text);
  assert_int_equal (r, 0);
}

static void
make (void)
{
  must (start (false));
}

/* End the client without a word to any server. */
static void
crash (void)
{
  fake_ctl_fault_at (1, FAKE_CTL_DIE);
  fp_volume_stop (v, false);
  v = NULL;
  fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
  assert_int_equal (fp_fake_imports (), 0);
}

static void
detach (void)
{
  fp_volume_stop (v, true);
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
  reserve = false;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    servers[i] = fake_server_new (names[i], SLAB, SLABS);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
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

/* Return the byte that fills the range, or -errno. */
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
trim (uint64_t i)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  assert_int_equal (fp_lane_zero (lane, SLAB, i * SLAB, true), 0);
  fp_volume_lane_put (lane);
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

static uint64_t
degraded (void)
{
  struct fp_mirror_status s;

  fp_mirror_status (&v->engine, &s);
  return s.degraded;
}

#define AWAIT(condition)                                                      \
  do {                                                                        \
    uint64_t end_ = fp_deadline_in_ms (20000);                                \
                                                                              \
    while (!(condition)) {                                                    \
      assert_false (fp_deadline_passed (end_));                               \
      pause_ms (5);                                                           \
    }                                                                         \
  } while (0)

static void
await_whole (void)
{
  AWAIT (degraded () == 0);
}

/* Check that each in-sync copy has the byte. */
static void
all_have (uint64_t i, int byte)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  unsigned char copy[IO];

  for (unsigned c = 0; c < v->extents->copies; c++) {
    memset (copy, byte + 1, sizeof copy);
    /* A copy that leaves the in-sync set meanwhile does not count. */
    AWAIT (!(fp_copies_in_sync (v->extents, i) >> c & 1) ||
           fp_block_read_copy (&v->engine.block, 0, c, copy, IO,
                               i * SLAB + 4096) == 0);
    for (unsigned n = 0;
         n < IO && (fp_copies_in_sync (v->extents, i) >> c & 1); n++)
      assert_int_equal (copy[n], byte);
  }
  fp_volume_lane_put (lane);
}

static void
all_hold (unsigned char byte)
{
  for (uint64_t i = 0; i < EXTENTS; i++)
    all_have (i, byte + (int) i);
}

static enum fp_server_state
state_of (unsigned i)
{
  struct fp_server_status s;

  fp_volume_server_status (v, i, &s);
  return s.state;
}

/* ---- tests ---- */

static void
test_nothing_is_left (void **state)
{
  struct fp_extents *t;

  (void) state;
  make ();
  t = v->extents;
  assert_int_equal (get (0), 0);
  fill (1);
  holds (1);
  for (uint64_t i = 0; i < EXTENTS; i++) {
    assert_int_equal (fp_copies_in_sync (t, i), 3);
    assert_int_not_equal (atomic_load (&t->p[i].server),
                          atomic_load (&t->p[t->nr + i].server));
  }
  all_hold (1);
  detach ();
  for (unsigned i = 0; i < nr_named; i++) {
    assert_false (fake_server_knows (servers[i]));
    assert_int_equal (fake_server_free_slabs (servers[i]), SLABS);
    assert_int_equal (fake_server_mapped (servers[i]), 0);
  }
  assert_int_equal (start (true), -ENOENT);
  assert_non_null (strstr (error.text, "is gone"));
}

/* All extents have memory before the first write, and again after a crash. */
static void
test_reserved (void **state)
{
  struct fp_volume_status s;

  (void) state;
  reserve = true;
  make ();
  fp_volume_status (v, &s);
  assert_int_equal (s.extents_allocated, EXTENTS);
  assert_int_equal (get (0), 0);
  assert_int_equal (put (2, 7), 0);
  crash ();
  must (start (true));
  fp_volume_status (v, &s);
  assert_int_equal (s.extents_allocated, EXTENTS);
  await_whole ();
  assert_int_equal (get (2), 7);
  assert_int_equal (get (0), 0);
  all_have (2, 7);
}

/* All servers restart empty: reads, writes and zeros of what was there fail at
 * once, and it is not reported as a hole.
 */
static void
test_all_copies_lost (void **state)
{
  struct fp_lane *lane;
  struct fp_volume_status s;
  uint64_t start, length;
  bool hole;

  (void) state;
  make ();
  assert_int_equal (put (1, 7), 0);
  for (unsigned i = 0; i < nr_named; i++) {
    fake_server_cut (servers[i]);
    fake_server_forget (servers[i]);
  }
  for (unsigned i = 0; i < nr_named; i++)
    fake_server_revive (servers[i]);
  do {
    pause_ms (5);
    fp_volume_status (v, &s);
  } while (s.extents_lost == 0);
  start = fp_now_ns ();
  assert_int_equal (get (1), -EIO);
  assert_int_equal (put (1, 8), -EIO);
  lane = fp_volume_lane_get (v);
  assert_int_equal (fp_lane_zero (lane, SLAB / 2, SLAB + SLAB / 2, false),
                    -EIO);
  assert_int_equal (fp_lane_zero (lane, SLAB, SLAB, true), -EIO);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 0, 100);
  assert_int_equal (fp_lane_zero (lane, SLAB, 0, true), 0);
  fp_volume_lane_put (lane);
  fp_volume_extent (v, SLAB, SLAB, &hole, &length);
  assert_false (hole);
}

/* There is no memory for the dead server's copies: the others are enough. */
static void
test_reserved_without_one (void **state)
{
  (void) state;
  reserve = true;
  nr_named = 2;
  make ();
  assert_int_equal (put (2, 7), 0);
  fake_server_cut (servers[1]);
  assert_int_equal (put (2, 8), 0);
  crash ();
  must (start (true));
  assert_int_equal (get (2), 8);
  fill (1);
  fake_server_forget (servers[1]);
  fake_server_revive (servers[1]);
  await_whole ();
  all_hold (1);
}

/* Extents that were never written lose nothing if all servers restart empty,
 * one after the other.  They get memory again.
 */
static void
test_reserved_restarts (void **state)
{
  (void) state;
  reserve = true;
  make ();
  assert_int_equal (put (2, 7), 0);
  for (unsigned victim = 0; victim < nr_named; victim++) {
    fake_server_cut (servers[victim]);
    AWAIT (state_of (victim) != FP_SERVER_UP);
    fake_server_forget (servers[victim]);
    fake_server_revive (servers[victim]);
    AWAIT (state_of (victim) == FP_SERVER_UP);
    assert_int_equal (put (2, 7), 0);
    await_whole ();
  }
  assert_int_equal (get (2), 7);
  for (uint64_t k = 0; k < v->extents->all; k++)
    AWAIT (fp_extent_state (&v->extents->p[k]) == FP_EXTENT_READY);
  fill (1);
  await_whole ();
  all_hold (1);
}

/* A server returns with its data, after its lease has ended, or empty. */
static void
test_one_dies (void **state)
{
  (void) state;
  make ();
  for (unsigned victim = 0; victim < 3; victim++) {
    fill ((unsigned char) (10 * victim + 1));
    fake_server_cut (servers[victim]);
    fill ((unsigned char) (10 * victim + 2));
    holds ((unsigned char) (10 * victim + 2));
    if (victim == 1)
      fake_server_expire (servers[victim]);
    if (victim == 2)
      fake_server_forget (servers[victim]);
    fake_server_revive (servers[victim]);
    await_whole ();
    all_hold ((unsigned char) (10 * victim + 2));
  }
}

/* A server is gone for good: another one gets its copies. */
static void
test_made_anew (void **state)
{
  (void) state;
  make ();
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
test_resume (void **state)
{
  (void) state;
  make ();
  fill (1);
  trim (1);
  crash ();
  copies = 1;
  assert_int_equal (start (true), -EINVAL);
  assert_non_null (strstr (error.text, "give copies=2"));
  copies = 3;
  assert_int_equal (start (true), -EINVAL);
  copies = 2;
  must (start (true));
  assert_int_equal (get (1), 0);
  assert_int_equal (put (1, 2), 0);
  holds (1);
  await_whole ();
  all_hold (1);
  for (unsigned i = 0; i < nr_named; i++)
    AWAIT (state_of (i) == FP_SERVER_UP);
  detach ();
  for (unsigned i = 0; i < nr_named; i++)
    assert_int_equal (fake_server_free_slabs (servers[i]), SLABS);
}

/* One of two servers dies, then the client.  The other server knows that it
 * has all writes.  The first one comes back and is resynced.
 */
static void
resume_without (void (*come_back) (struct fake_server *s))
{
  nr_named = 2;
  make ();
  fill (1);
  fake_server_cut (servers[1]);
  fill (2);
  crash ();
  must (start (true));
  holds (2);
  fill (3);
  holds (3);
  come_back (servers[1]);
  fake_server_revive (servers[1]);
  await_whole ();
  all_hold (3);
  /* That server is a full member again, and enough alone. */
  AWAIT (fake_server_current (servers[1]) == 2);
  fake_server_cut (servers[0]);
  holds (3);
  fill (4);
  crash ();
  must (start (true));
  holds (4);
}

static void
test_resume_without_restarted (void **state)
{
  (void) state;
  resume_without (fake_server_forget);
}

static void
test_resume_without_expired (void **state)
{
  (void) state;
  resume_without (fake_server_expire);
}

static void
nothing (struct fake_server *s)
{
  (void) s;
}

static void
test_resume_without_stale (void **state)
{
  (void) state;
  resume_without (nothing);
}

/* One of three servers dies with the client. */
static void
test_resume_two_of_three (void **state)
{
  (void) state;
  make ();
  fill (1);
  crash ();
  fake_server_cut (servers[2]);
  must (start (true));
  holds (1);
  fill (2);
  await_whole ();
  all_hold (2);
}

/* Return true if the metadata log shows all in-sync copies as such.  A resync
 * ends before that, and until then a later client would not know.
 */
static bool
is_recorded (void)
{
  struct fp_extents *t = v->extents;

  for (uint64_t k = 0; k < t->all; k++)
    if ((fp_copies_in_sync (t, fp_extent_of (t, k)) >> fp_copy_of (t, k) &
         1) &&
        (!fp_recorded_may_exist (&v->recorded, k) ||
         fp_meta_log_is_due (v->meta_log, k)))
      return false;
  return true;
}

/* One of three servers has forgotten the volume, but answers.  It gets the
 * volume again, though not before the client has read what the others know.
 */
static void
resume_beside (void (*forget) (struct fake_server *s))
{
  make ();
  for (unsigned n = 0; n < 6; n++) {
    unsigned victim = n % nr_named;

    fill ((unsigned char) (10 * n));
    crash ();
    fake_server_cut (servers[victim]);
    forget (servers[victim]);
    fake_server_revive (servers[victim]);
    must (start (true));
    holds ((unsigned char) (10 * n));
    await_whole ();
    all_hold ((unsigned char) (10 * n));
    AWAIT (state_of (victim) == FP_SERVER_UP &&
           fake_server_current (servers[victim]) == 3 && is_recorded ());
  }
}

static void
test_resume_beside_restarted (void **state)
{
  (void) state;
  resume_beside (fake_server_forget);
}

static void
test_resume_beside_expired (void **state)
{
  (void) state;
  resume_beside (fake_server_expire);
}

/* A server restarts, and only one of the others hears of the list with its new
 * identity.  Both lists have one server at its address.
 */
static void
test_resume_named_twice (void **state)
{
  uint64_t version;

  (void) state;
  make ();
  fill (10);
  await_whole ();
  AWAIT (is_recorded ());
  version = fake_server_version (servers[1]);
  fake_server_silence (servers[1], FAKE_MUTE, FP_MSG_MEMBERS);
  fake_server_silence (servers[2], FAKE_DEAF, FP_MSG_MEMBERS);
  fake_server_cut (servers[0]);
  fake_server_forget (servers[0]);
  fake_server_revive (servers[0]);
  AWAIT (fake_server_version (servers[1]) > version);
  crash ();
  assert_int_equal (fake_server_version (servers[2]), version);
  fake_server_silence (servers[1], FAKE_SPEAKS, 0);
  fake_server_silence (servers[2], FAKE_SPEAKS, 0);

  for (unsigned n = 0; n < 2; n++) {
    must (start (true));
    assert_int_equal (v->peers.nr, 3);
    holds (10);
    await_whole ();
    for (unsigned i = 0; i < nr_named; i++)
      AWAIT (fake_server_current (servers[i]) == 3);
    crash ();
  }
}

/* One of two servers dies with the client.  The other one may have been left
 * behind before.
 */
static void
test_resume_in_doubt (void **state)
{
  (void) state;
  nr_named = 2;
  make ();
  fill (1);
  crash ();
  fake_server_cut (servers[0]);
  assert_int_equal (start (true), -EROFS);
  assert_non_null (strstr (error.text, "may be old"));
  fake_server_revive (servers[0]);
  must (start (true));
  holds (1);
  await_whole ();
  all_hold (1);
}

/* A server that was left behind is not believed, whatever happened to the
 * other one.
 */
static void
stale_alone (void (*end) (struct fake_server *s), bool revive)
{
  nr_named = 2;
  make ();
  fill (1);
  fake_server_cut (servers[1]);
  fill (2);
  crash ();
  end (servers[0]);
  fake_server_revive (servers[1]);
  if (revive)
    fake_server_revive (servers[0]);
  assert_int_equal (start (true), -EROFS);
  assert_non_null (strstr (error.text, "may be old"));
}

static void
test_stale (void **state)
{
  (void) state;
  stale_alone (fake_server_cut, false);
  fake_server_revive (servers[0]);
  must (start (true));
  holds (2);
  await_whole ();
  all_hold (2);
}

static void
test_stale_and_expired (void **state)
{
  (void) state;
  stale_alone (fake_server_expire, true);
}

static void
test_stale_and_restarted (void **state)
{
  (void) state;
  stale_alone (fake_server_forget, true);
}

/* The last in-sync server forgets the volume and gets it again; then the
 * client dies.  The older data of the other server must not count because of
 * that.
 */
static void
test_stale_and_anew (void **state)
{
  (void) state;
  nr_named = 2;
  make ();
  fill (1);
  fake_server_cut (servers[1]);
  fill (2);
  fake_server_cut (servers[0]);
  fake_server_expire (servers[0]);
  fake_server_revive (servers[0]);
  AWAIT (state_of (0) == FP_SERVER_UP);
  assert_int_equal (get (0), -EIO);
  crash ();
  fake_server_revive (servers[1]);
  if (start (true) == 0) {
    for (uint64_t i = 0; i < EXTENTS; i++)
      assert_int_equal (get (i), -EIO);
  }
}

/* A lease ends while its server holds no copy, so no extent is missed.  The
 * server is told the whole metadata log again.
 */
static void
test_expired_unnoticed (void **state)
{
  (void) state;
  make ();
  must (fp_volume_drain (v, 0, 0, &error));
  fill (1);
  assert_int_equal (fake_server_labelled (servers[0]), 0);
  fake_server_cut (servers[0]);
  fake_server_expire (servers[0]);
  fake_server_revive (servers[0]);
  AWAIT (fake_server_version (servers[0]) > 0 &&
         fake_server_mapped (servers[0]) == fake_server_mapped (servers[1]) &&
         fake_server_current (servers[0]) == 3 &&
         fake_server_version (servers[0]) == fake_server_version (servers[1]));
  holds (1);
  crash ();
  fake_server_cut (servers[2]);
  must (start (true));
  holds (1);
}

/* Visit each fault point: with one fault, no request fails.  A client that
 * resumes the volume reads what was acknowledged.
 */
static void
walk (bool control, int kind)
{
  bool fired = true;
  unsigned n, begun = 0;

  for (n = 1; fired; n++) {
    unsigned char has[EXTENTS] = { 0 };
    int r;

    fp_fake_fault_at (control ? 0 : n, (enum fp_fake_fault) kind);
    fake_ctl_fault_at (control ? n : 0, (enum fake_ctl_fault) kind);
    r = start (false);
    for (unsigned k = 1; r == 0 && k < 3 * EXTENTS; k++) {
      uint64_t i = k * 3 % EXTENTS;

      if (k % 9 == 8)
        trim (i);
      else
        assert_int_equal (put (i, (unsigned char) k), 0);
      has[i] = k % 9 == 8 ? 0 : (unsigned char) k;
      assert_int_equal (get ((i + 1) % EXTENTS), has[(i + 1) % EXTENTS]);
    }
    fired = control ? fake_ctl_fault_fired () : fp_fake_fault_fired ();
    fp_fake_fault_at (0, FP_FAKE_ERROR);
    if (r == 0) {
      begun++;
      crash ();
      must (start (true));
      for (uint64_t i = 0; i < EXTENTS; i++)
        assert_int_equal (get (i), has[i]);
      await_whole ();
      for (uint64_t i = 0; i < EXTENTS; i++)
        all_have (i, has[i]);
      detach ();
    }
    for (unsigned i = 0; i < NR_SERVERS; i++)
      fake_server_forget (servers[i]);
  }
  printf ("walked %u %s fault points of kind %d\n", n - 2,
          control ? "control" : "data", kind);
  assert_true (n > 10 && begun > 5);
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

#define TEST(f) cmocka_unit_test_setup_teardown (f, setup, teardown)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_nothing_is_left),
    TEST (test_reserved),
    TEST (test_all_copies_lost),
    TEST (test_reserved_without_one),
    TEST (test_reserved_restarts),
    TEST (test_one_dies),
    TEST (test_made_anew),
    TEST (test_resume),
    TEST (test_resume_without_restarted),
    TEST (test_resume_without_expired),
    TEST (test_resume_without_stale),
    TEST (test_resume_two_of_three),
    TEST (test_resume_beside_restarted),
    TEST (test_resume_beside_expired),
    TEST (test_resume_named_twice),
    TEST (test_resume_in_doubt),
    TEST (test_stale),
    TEST (test_stale_and_expired),
    TEST (test_stale_and_restarted),
    TEST (test_stale_and_anew),
    TEST (test_expired_unnoticed),
    TEST (test_walk_breaks),
    TEST (test_walk_refusals),
    TEST (test_walk_lost_answers),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
