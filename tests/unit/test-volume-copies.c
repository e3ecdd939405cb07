/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-copies.c - extents with several copies.  While one copy is left,
 * requests go on and stale copies are resynced.  A later client reads the last
 * write, or is refused.
 */

#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/lane.h"
#include "peer/peer_migrate.h"
#include "volume-fixture.h"

#define SLAB COPIES_SLAB
#define EXTENTS COPIES_EXTENTS
#define SIZE COPIES_SIZE

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

static void
await_labelled (unsigned n)
{
  uint64_t end = fp_deadline_in_ms (20000);
  unsigned are;

  do {
    assert_false (fp_deadline_passed (end));
    pause_ms (5);
    are = 0;
    for (unsigned i = 0; i < FIXTURE_SERVERS; i++)
      are += fake_server_labelled (servers[i]);
  } while (are != n);
}

/* ---- tests ---- */

static void
test_on_different_servers (void **state)
{
  struct fp_extents *t;

  (void) state;
  must (copies_attach (SIZE, false));
  t = v->extents;
  assert_int_equal (get (0), 0);
  fill (1);
  holds (1);
  for (uint64_t i = 0; i < EXTENTS; i++) {
    assert_int_equal (fp_copies_in_sync (t, i), 3);
    assert_int_not_equal (atomic_load (&t->p[i].server),
                          atomic_load (&t->p[t->nr + i].server));
    all_have (i, 1 + (int) i);
  }
  detach ();
  must (copies_attach (0, false));
  assert_int_equal (v->p.copies, 2);
  assert_int_equal (degraded (), 0); /* detached cleanly */
  holds (1);
}

static void
test_one_dies (void **state)
{
  (void) state;
  must (copies_attach (SIZE, false));
  for (unsigned victim = 0; victim < 3; victim++) {
    fill ((unsigned char) (10 * victim + 1));
    fake_server_cut (servers[victim]);
    fill ((unsigned char) (10 * victim + 2));
    holds ((unsigned char) (10 * victim + 2));
    /* Server 0 keeps its data, the others come back empty. */
    if (victim > 0)
      fake_server_forget (servers[victim]);
    fake_server_revive (servers[victim]);
    await_whole ();
    for (uint64_t i = 0; i < EXTENTS; i++)
      all_have (i, (int) (10 * victim + 2 + i));
  }
}

/* A server dies while one of its extents has fewer copies than wanted.  That
 * is noticed at once, before the allocator's next round.
 */
static void
test_dies_when_formed (void **state)
{
  uint64_t start;

  (void) state;
  nr_copies = 3;
  copies_timeout_ms = 2000;
  fake_server_not_ready (servers[2], 1);
  must (copies_attach (SIZE, false));
  assert_int_equal (put (0, 1), 0);
  assert_int_equal (fp_copies_in_sync (v->extents, 0), 3);
  fake_server_cut (servers[0]);
  start = fp_now_ns ();
  assert_int_equal (put (0, 2), 0);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 0, 400);
  fake_server_not_ready (servers[2], 0);
  fake_server_revive (servers[0]);
  await_whole ();
  all_have (0, 2);
}

/* The last client died at work: one copy of each extent wins. */
static void
test_client_dies (void **state)
{
  (void) state;
  must (copies_attach (SIZE, false));
  fill (1);
  copies_die ();
  must (copies_attach (0, false));
  holds (1);
  await_whole ();
  for (uint64_t i = 0; i < EXTENTS; i++)
    all_have (i, 1 + (int) i);
}

/* Probe with degraded=true: here the user can still read a refusal. */
static int
probe_degraded (void)
{
  struct fp_volume_params p;

  copies_params (&p);
  p.copies = 0;
  p.degraded = true;
  return fp_volume_probe (&p, &last_error);
}

/* A stale copy is never read: not by a later client, and not even if it is the
 * only copy that answers.
 */
static void
test_stale (void **state)
{
  (void) state;
  nr_named = 2;
  must (copies_attach (SIZE, false));
  fill (1);
  fake_server_cut (servers[1]);
  fill (2);
  detach ();
  fake_server_cut (servers[0]);
  fake_server_revive (servers[1]);
  assert_true (copies_attach (0, false) < 0);
  assert_int_equal (probe_degraded (), -EROFS);
  assert_non_null (
      strstr (last_error.text, "may be old: start one more of them"));
  assert_non_null (strstr (last_error.text, "force=true"));
  fake_server_revive (servers[0]);
  must (copies_attach (0, false));
  holds (2);
  await_whole ();
  /* Now this server has all data, and is enough. */
  fake_server_cut (servers[0]);
  holds (2);
}

static bool
all_are_in_sync (void)
{
  for (uint64_t i = 0; i < EXTENTS; i++)
    if (fp_copies_in_sync (v->extents, i) != fp_copies_all (v->extents))
      return false;
  return true;
}

/* A resync is complete only once it is recorded for the next client. */
static void
test_whole_when_recorded (void **state)
{
  uint64_t end = fp_deadline_in_ms (20000);
  struct fp_volume_status s;

  (void) state;
  nr_named = 2;
  copies_timeout_ms = 4000;
  must (copies_attach (SIZE, false));
  fill (1);
  fake_server_cut (servers[1]);
  fill (2);
  for (unsigned n = 0; n < 2; n++)
    fake_server_silence (servers[n], FAKE_DEAF, FP_MSG_MAP);
  fake_server_revive (servers[1]);
  while (!all_are_in_sync ()) {
    assert_false (fp_deadline_passed (end));
    pause_ms (1);
  }
  pause_ms (20);
  fp_volume_status (v, &s);
  assert_int_equal (s.extents_degraded, EXTENTS);
  assert_int_equal (s.bytes_to_resync, 0);
  for (unsigned n = 0; n < 2; n++)
    fake_server_silence (servers[n], FAKE_SPEAKS, 0);
  await_whole ();
}

/* With three copies two servers may die at once, so server 0 may have gone on
 * alone.  The other two are not enough, even if server 0 is removed.
 */
static void
test_left_behind (void **state)
{
  struct fp_volume_params p;

  (void) state;
  nr_copies = 3;
  must (copies_attach (SIZE, false));
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
  copies_params (&p);
  for (unsigned i = 0; i < 2; i++)
    p.servers[i] = *fake_server_addr (servers[1 + i]);
  p.copies = 0;
  p.degraded = true;
  p.nr_remove = 1;
  p.remove[0] = *fake_server_addr (servers[0]);
  assert_int_equal (fp_volume_probe (&p, &last_error), -EROFS);
  assert_non_null (strstr (last_error.text, "force=true"));
  nr_named = 3;
  fake_server_revive (servers[0]);
  must (copies_attach (0, false));
  holds (2);
}

/* A server was away at the attach, and has forgotten the volume.  It does not
 * get a volume with a name again: that is the user's decision.
 */
static void
test_forgets_while_away (void **state)
{
  uint64_t end = fp_deadline_in_ms (20000);
  struct fp_server_status s;

  (void) state;
  must (copies_attach (SIZE, false));
  fill (1);
  detach ();
  fake_server_cut (servers[2]);
  must (copies_attach (0, true));
  fake_server_expire (servers[2]);
  fake_server_revive (servers[2]);
  do {
    assert_false (fp_deadline_passed (end));
    pause_ms (5);
    fp_volume_server_status (v, 2, &s);
  } while (s.state != FP_SERVER_LOST);
  assert_false (fake_server_knows (servers[2]));
  holds (1);
}

/* With no server left, I/O fails; it never returns zeros. */
static void
test_all_die (void **state)
{
  (void) state;
  nr_named = 2;
  must (copies_attach (SIZE, false));
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
  /* A failed write may have taken effect. */
  assert_true (get (0) == 2 || get (0) == 9);
  for (uint64_t i = 1; i < EXTENTS; i++)
    assert_int_equal (get (i), 2 + (int) i);
}

static void
revive_both (void *arg)
{
  (void) arg;
  pause_ms (3000);
  for (unsigned s = 0; s < 2; s++)
    fake_server_revive (servers[s]);
}

/* The client's own network is down for a while: no request fails. */
static void
test_all_come_back (void **state)
{
  (void) state;
  nr_named = 2;
  must (copies_attach (SIZE, false));
  fill (1);
  for (unsigned n = 0; n < 3; n++) {
    struct fp_thread thread;

    for (unsigned s = 0; s < 2; s++)
      fake_server_cut (servers[s]);
    assert_int_equal (fp_thread_create (&thread, "revive", revive_both, NULL),
                      0);
    pause_ms (n * 600);
    if (n == 0)
      assert_int_equal (get (0), 1);
    else if (n == 1)
      assert_int_equal (put (0, 1), 0);
    else
      trim (1, COPIES_SLAB / 2);
    assert_int_equal (fp_thread_join (&thread), 0);
    await_whole ();
    assert_int_equal (get (0), 1);
  }
}

/* A connection that is replaced at once costs no copy. */
static void
test_lane_mended (void **state)
{
  uint64_t sessions[2];

  (void) state;
  nr_named = 2;
  must (copies_attach (SIZE, false));
  fill (1);
  await_whole ();
  for (unsigned s = 0; s < 2; s++)
    sessions[s] = fp_peer_session (v->peers.at[s]);
  for (unsigned n = 1; n < 6; n++) {
    fp_fake_fault_at (n, FP_FAKE_BREAK);
    assert_int_equal (put (0, 2), 0);
    fp_fake_fault_at (0, FP_FAKE_BREAK);
    assert_int_equal (degraded (), 0);
    all_have (0, 2);
  }
  for (unsigned s = 0; s < 2; s++)
    assert_int_equal (fp_peer_session (v->peers.at[s]), sessions[s]);
}

static void *
put_9 (void *out)
{
  *(int *) out = put (0, 9);
  return NULL;
}

static uint64_t
reconnects (unsigned server)
{
  struct fp_server_status s;

  fp_volume_server_status (v, server, &s);
  return s.reconnects;
}

/* Nor does one that takes long to replace, and breaks once more.  A write that
 * finds no connection does not count that as a break.
 */
static void
test_lane_mended_late (void **state)
{
  struct fp_fake_server *far = fake_server_data (servers[0]);
  uint64_t before;
  pthread_t thread;
  int r = 1;

  (void) state;
  nr_named = 2;
  copies_timeout_ms = 8000; /* and so 500 ms to mend */
  must (copies_attach (SIZE, false));
  fill (1);
  await_whole ();
  before = reconnects (0);
  fp_fake_server_break (far, true);
  fp_fake_server_answer (far, -EREMOTEIO);
  fake_server_silence (servers[0], FAKE_DEAF, FP_MSG_TOKEN);
  assert_int_equal (pthread_create (&thread, NULL, put_9, &r), 0);
  pause_ms (100); /* many retries */
  fp_fake_server_answer (far, 0);
  fp_fake_server_hold (far, true);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  for (unsigned n = 0; fp_fake_server_held (far) == 0; n++) {
    assert_true (n < 20000);
    pause_ms (1);
  }
  fp_fake_server_hold (far, false);
  fp_fake_server_answer (far, -EREMOTEIO);
  assert_true (fp_fake_server_release (far, 0, 0));
  fp_fake_server_answer (far, 0);
  fp_fake_server_break (far, false);
  pthread_join (thread, NULL);
  assert_int_equal (r, 0);
  assert_int_equal (degraded (), 0);
  assert_int_equal (reconnects (0), before + 2);
  all_have (0, 9);
}

static void *
zero_all (void *out)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  *(int *) out = fp_lane_zero (lane, SIZE, 0, false);
  fp_volume_lane_put (lane);
  return NULL;
}

static void *
flush_all (void *out)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  *(int *) out = fp_lane_flush (lane);
  fp_volume_lane_put (lane);
  return NULL;
}

/* The server that is left takes many timeouts to record the other copy as
 * stale.  Requests wait for that, as one copy is alive.
 */
static void
test_slow_record (void **state)
{
  static const struct {
    void *(*request) (void *);
    int after;
  } requests[] = { { put_9, 9 }, { zero_all, 0 }, { flush_all, 1 } };

  (void) state;
  nr_named = 2;
  copies_timeout_ms = 100;
  must (copies_attach (SIZE, false));
  for (unsigned i = 0; i < 3; i++) {
    pthread_t thread;
    int r = 1;

    fill (1);
    fake_server_silence (servers[1], FAKE_DEAF, FP_MSG_MAP);
    fake_server_cut (servers[0]);
    assert_int_equal (pthread_create (&thread, NULL, requests[i].request, &r),
                      0);
    pause_ms (8 * copies_timeout_ms);
    fake_server_silence (servers[1], FAKE_SPEAKS, 0);
    pthread_join (thread, NULL);
    assert_int_equal (r, 0);
    assert_int_equal (get (0), requests[i].after);
    fake_server_revive (servers[0]);
    await_whole ();
  }
}

/* The sole in-sync copy gets more time than one of two would. */
static void
test_sole_is_slow (void **state)
{
  struct fp_server_status s;
  uint64_t before;
  pthread_t thread;
  int r = 1;

  (void) state;
  nr_named = 2;
  copies_timeout_ms = 400;
  must (copies_attach (SIZE, false));
  fill (1);
  fake_server_cut (servers[0]);
  fill (2);
  fp_volume_server_status (v, 1, &s);
  before = s.reconnects;
  fp_fake_server_hold (fake_server_data (servers[1]), true);
  assert_int_equal (pthread_create (&thread, NULL, put_9, &r), 0);
  pause_ms (copies_timeout_ms / 8 * 5);
  fp_fake_server_hold (fake_server_data (servers[1]), false);
  while (fp_fake_server_release (fake_server_data (servers[1]), 0, 0))
    ;
  pthread_join (thread, NULL);
  assert_int_equal (r, 0);
  fp_volume_server_status (v, 1, &s);
  assert_int_equal (s.reconnects, before);
}

/* ---- memory for new extents ---- */

/* One of two servers does not answer LABEL.  Each new extent begins with the
 * copy at the other one, well before its write would fail.
 */
static void
write_beside_silent (enum fake_silence silence, unsigned nr)
{
  nr_named = 2;
  must (copies_attach (SIZE, false));
  fake_server_silence (servers[1], silence, FP_MSG_LABEL);
  for (uint64_t i = 0; i < nr; i++) {
    uint64_t start = fp_now_ns ();

    assert_int_equal (put (i, (unsigned char) (1 + i)), 0);
    assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 0,
                     2 * copies_timeout_ms);
    assert_int_equal (__builtin_popcount (fp_copies_in_sync (v->extents, i)),
                      1);
  }
}

static void
silent_when_formed (enum fake_silence silence)
{
  write_beside_silent (silence, EXTENTS);
  holds (1);
  fake_server_silence (servers[1], FAKE_SPEAKS, 0);
  await_whole ();
  for (uint64_t i = 0; i < EXTENTS; i++)
    all_have (i, 1 + (int) i);
  await_labelled (2 * EXTENTS); /* withdrawn labels are gone */
}

static void
test_deaf_when_formed (void **state)
{
  (void) state;
  silent_when_formed (FAKE_DEAF);
}

static void
test_mute_when_formed (void **state)
{
  (void) state;
  silent_when_formed (FAKE_MUTE);
}

/* The client dies after a copy was withdrawn, and its label is still on the
 * server.  The next client has it released.
 */
static void
test_stray_label (void **state)
{
  (void) state;
  write_beside_silent (FAKE_MUTE, 1);
  copies_die ();
  fake_server_silence (servers[1], FAKE_SPEAKS, 0);
  assert_int_equal (fake_server_labelled (servers[1]), 1);
  must (copies_attach (0, false));
  assert_int_equal (get (0), 1);
  await_whole ();
  all_have (0, 1);
  await_labelled (2);
}

/* Count the milliseconds, of ms, in which the allocator found no server for
 * copy 0 of extent 0.
 */
static unsigned
count_refusals (unsigned ms)
{
  unsigned n = 0;

  for (; ms > 0; ms--) {
    n += atomic_exchange (&v->extents->p[0].refused, false);
    pause_ms (1);
  }
  return n;
}

/* While no server is up, a write to a new extent asks only now and then. */
static void
test_nobody_to_ask (void **state)
{
  pthread_t thread;
  int r = 1;

  (void) state;
  nr_named = 2;
  must (copies_attach (SIZE, false));
  for (unsigned s = 0; s < 2; s++)
    fake_server_cut (servers[s]);
  assert_int_equal (pthread_create (&thread, NULL, put_9, &r), 0);
  pause_ms (100);
  assert_in_range (count_refusals (1000), 1, 200);
  for (unsigned s = 0; s < 2; s++)
    fake_server_revive (servers[s]);
  pthread_join (thread, NULL);
  assert_int_equal (r, 0);
  await_whole ();
  all_have (0, 9);
}

/* ---- a server that takes long to connect to ---- */

static void *
trim_first (void *out)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  *(int *) out = fp_lane_zero (lane, SLAB, 0, true);
  fp_volume_lane_put (lane);
  return NULL;
}

/* While an extent is shut for a trim, the connection to one of its servers is
 * lost.  The release there does not wait for the reconnect attempt to end.
 */
static void
test_released_while_connecting (void **state)
{
  pthread_t thread;
  uint64_t start;
  int r = 1;

  (void) state;
  nr_named = 2;
  copies_timeout_ms = 4000; /* the attempt takes this long */
  must (copies_attach (SIZE, false));
  assert_int_equal (put (0, 1), 0);
  await_whole ();
  /* The trim waits until server 1 has recorded it. */
  fake_server_silence (servers[1], FAKE_DEAF, FP_MSG_MAP);
  assert_int_equal (pthread_create (&thread, NULL, trim_first, &r), 0);
  pause_ms (100);
  for (unsigned c = 0; c < 2; c++)
    assert_int_equal (fp_extent_state (fp_copies_get (v->extents, 0, c)),
                      FP_EXTENT_BUSY);
  fake_server_silence (servers[0], FAKE_DEAF, FP_MSG_HELLO);
  fake_server_cut (servers[0]);
  fake_server_revive (servers[0]);
  pause_ms (100);
  start = fp_now_ns ();
  fake_server_silence (servers[1], FAKE_SPEAKS, 0);
  pthread_join (thread, NULL);
  assert_int_equal (r, 0);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 0, 2000);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  assert_int_equal (get (0), 0);
  assert_int_equal (put (0, 9), 0);
  await_whole ();
  all_have (0, 9);
  await_labelled (2);
}

/* Two of three servers die at once. */
static void
test_three_copies (void **state)
{
  (void) state;
  nr_copies = 3;
  must (copies_attach (SIZE, false));
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
  for (uint64_t i = 0; i < EXTENTS; i++)
    all_have (i, 2 + (int) i);
}

/* A server is gone for good: another one gets its copies. */
static void
test_made_anew (void **state)
{
  (void) state;
  must (copies_attach (SIZE, false));
  fill (1);
  fake_server_cut (servers[0]);
  fill (2);
  await_whole ();
  fake_server_cut (servers[1]);
  holds (2);
  assert_int_equal (put (0, 7), 0);
  assert_int_equal (get (0), 7);
}

/* A server that was away must not bring a trimmed extent back. */
static void
test_trimmed_meanwhile (void **state)
{
  (void) state;
  must (copies_attach (SIZE, false));
  fill (1);
  fake_server_cut (servers[0]);
  for (uint64_t i = 0; i < EXTENTS; i++)
    trim (i, SLAB);
  assert_int_equal (put (1, 5), 0);
  fake_server_revive (servers[0]);
  await_whole ();
  for (uint64_t i = 0; i < EXTENTS; i++)
    assert_int_equal (get (i), i == 1 ? 5 : 0);
  detach ();
  must (copies_attach (0, false));
  for (uint64_t i = 0; i < EXTENTS; i++)
    assert_int_equal (get (i), i == 1 ? 5 : 0);
}

/* A server that was away during a trim releases its copy later. */
static void
test_trimmed_goes_back (void **state)
{
  (void) state;
  nr_named = 2;
  must (copies_attach (SIZE, false));
  fill (1);
  await_labelled (2 * EXTENTS);
  fake_server_cut (servers[0]);
  for (uint64_t i = 0; i < EXTENTS; i++)
    trim (i, SLAB);
  fake_server_revive (servers[0]);
  await_labelled (0);
  assert_int_equal (put (1, 5), 0);
  await_whole ();
  all_have (1, 5);
}

/* Write to copy 1 of the first extent, as a resync does.  Return the status.
 */
static int
write_copy (uint64_t generation)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  unsigned char bytes[512] = { 9 };
  struct fp_io io = {
    .kind = FP_IO_WRITE,
    .length = sizeof bytes,
    .offset = (fp_copies_entry (v->extents, 0, 1) << v->extents->shift) + 4096,
    .buf = bytes,
    .linear = true,
    .migrate = true,
    .target = fp_copies_get (v->extents, 0, 1),
    .generation = generation,
  };

  fp_lane_sync_begin (lane, &io);
  assert_true (fp_lane_sync_await (lane, &io, NULL, FP_NEVER));
  fp_volume_lane_put (lane);
  return io.status;
}

/* A copy that is resynced gets other memory, as its extent is trimmed and
 * written again.  The bytes that the resync has read before must not be
 * written there.
 */
static void
test_trimmed_while_resynced (void **state)
{
  uint64_t generation;

  (void) state;
  must (copies_attach (SIZE, false));
  assert_int_equal (put (0, 1), 0);
  generation = fp_copies_get (v->extents, 0, 1)->copy.generation;
  assert_int_equal (write_copy (generation), 0);
  trim (0, SLAB);
  assert_int_equal (put (0, 2), 0);
  assert_int_equal (write_copy (generation), -EIO);
  all_have (0, 2);
}

/* After a refused release, the extent can still get memory again. */
static void
test_release_refused (void **state)
{
  (void) state;
  nr_named = 2;
  must (copies_attach (SIZE, false));
  fill (1);
  for (unsigned i = 0; i < 2; i++)
    fake_server_keep (servers[i], true);
  trim (0, SLAB);
  for (unsigned i = 0; i < 2; i++)
    fake_server_keep (servers[i], false);
  assert_int_equal (get (0), 0);
  assert_int_equal (put (0, 9), 0);
  await_whole ();
  all_have (0, 9);
  trim (0, SLAB);
  await_labelled (2 * EXTENTS - 2);
}

static void
await_down (unsigned server)
{
  uint64_t end = fp_deadline_in_ms (20000);
  struct fp_server_status s;

  do {
    assert_false (fp_deadline_passed (end));
    pause_ms (5);
    fp_volume_server_status (v, server, &s);
  } while (s.state != FP_SERVER_DOWN);
}

/* Three of five servers die at once.  The two that hold an extent cannot
 * record that it is gone.  So both zero it, and it stays usable.
 */
static void
test_trim_unrecorded (void **state)
{
  struct fake_server *all[5];
  struct fp_volume_params p;
  unsigned has[2];

  (void) state;
  nr_named = 4;
  copies_params (&p);
  memcpy (all, servers, 4 * sizeof *all);
  all[4] = fake_server_new ("e", SLAB, COPIES_SLABS);
  p.servers[p.nr_servers++] = *fake_server_addr (all[4]);
  p.size = SIZE;
  must (fixture_start (&p));
  fill (1);
  for (unsigned c = 0; c < 2; c++)
    has[c] = atomic_load (&fp_copies_get (v->extents, 0, c)->server);
  for (unsigned s = 0; s < 5; s++)
    if (s != has[0] && s != has[1])
      fake_server_cut (all[s]);
  for (unsigned s = 0; s < 5; s++)
    if (s != has[0] && s != has[1])
      await_down (s);
  trim (0, SLAB);
  assert_int_equal (get (0), 0);
  assert_int_equal (put (0, 9), 0);
  all_have (0, 9);
  for (unsigned s = 0; s < 5; s++)
    fake_server_revive (all[s]);
  await_whole ();
  all_have (0, 9);
  for (uint64_t i = 1; i < EXTENTS; i++)
    assert_int_equal (get (i), 1 + (int) i);
  detach ();
  fake_server_free (all[4]);
}

static void
zero (uint64_t i, uint64_t length)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  assert_int_equal (fp_lane_zero (lane, length, i * SLAB, false), 0);
  fp_volume_lane_put (lane);
}

static bool
is_hole (uint64_t i, uint64_t length)
{
  uint64_t run;
  bool hole;

  fp_volume_extent (v, i * SLAB, length, &hole, &run);
  return hole && run == length;
}

/* Write a few bytes to unwritten chunks: the rest is zeros on each copy. */
static void
rest_is_zeros (uint64_t i)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  unsigned char got[COPIES_IO] = { 7 }, none[COPIES_IO] = { 0 };

  for (uint64_t at = 4096; at < 4096 + COPIES_IO; at += 4096)
    assert_int_equal (fp_lane_write (lane, got, 1, i * SLAB + at), 0);
  none[0] = none[4096] = 7;
  for (unsigned c = 0; c < v->extents->copies; c++) {
    memset (got, 1, sizeof got);
    assert_int_equal (fp_block_read_copy (&v->engine.block, 0, c, got,
                                          sizeof got, i * SLAB + 4096),
                      0);
    assert_memory_equal (got, none, sizeof got);
  }
  fp_volume_lane_put (lane);
}

/* A large zeroed range is a hole once all copies are zeros.  A copy that
 * missed the zeroing is zeroed before it is read.
 */
static void
test_zeroed (void **state)
{
  uint64_t large = SLAB - 65536;

  (void) state;
  nr_named = 2;
  must (copies_attach (SIZE, false));
  fill (1);
  assert_false (is_hole (0, large));
  zero (0, large);
  assert_true (is_hole (0, large));
  assert_int_equal (get (0), 0);
  rest_is_zeros (0);
  fake_server_cut (servers[1]);
  zero (1, large);
  assert_true (is_hole (1, large));
  fake_server_revive (servers[1]);
  await_whole ();
  rest_is_zeros (1);
  assert_int_equal (put (1, 8), 0);
  assert_false (is_hole (1, large));
  all_have (1, 8);
}

/* A server that lies about extents beyond the end stops only itself. */
static void
test_beyond_the_end (void **state)
{
  (void) state;
  must (copies_attach (SIZE, false));
  fill (1);
  detach ();
  fake_server_set_map (servers[1], 2 * EXTENTS + 1, true);
  assert_true (copies_attach (0, false) < 0);
  assert_non_null (strstr (last_error.text, "list the existing extents"));
  fake_server_set_map (servers[1], 2 * EXTENTS + 1, false);
  must (copies_attach (0, false));
  holds (1);
}

/* Visit each fault point: with one fault, no request fails.  Afterwards, and
 * at the next attach, all copies are the same.
 */
static void
walk (bool control, int kind)
{
  bool fired = true;
  unsigned n;

  copies_timeout_ms = 2000; /* these faults are over at once */
  for (n = 1; fired; n++) {
    fp_fake_fault_at (control ? 0 : n, (enum fp_fake_fault) kind);
    fake_ctl_fault_at (control ? n : 0, (enum fake_ctl_fault) kind);
    copies_exercise (control ? fake_ctl_fault_fired : fp_fake_fault_fired,
                     &fired);
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

/* A server refuses one transfer, on an intact connection. */
static void
test_walk_errors (void **state)
{
  (void) state;
  walk (false, FP_FAKE_ERROR);
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

#define TEST(t) cmocka_unit_test_setup_teardown (t, copies_setup, fixture_down)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_on_different_servers),
    TEST (test_one_dies),
    TEST (test_dies_when_formed),
    TEST (test_client_dies),
    TEST (test_stale),
    TEST (test_whole_when_recorded),
    TEST (test_left_behind),
    TEST (test_forgets_while_away),
    TEST (test_all_die),
    TEST (test_all_come_back),
    TEST (test_lane_mended),
    TEST (test_lane_mended_late),
    TEST (test_slow_record),
    TEST (test_sole_is_slow),
    TEST (test_deaf_when_formed),
    TEST (test_mute_when_formed),
    TEST (test_stray_label),
    TEST (test_nobody_to_ask),
    TEST (test_released_while_connecting),
    TEST (test_three_copies),
    TEST (test_made_anew),
    TEST (test_trimmed_meanwhile),
    TEST (test_trimmed_while_resynced),
    TEST (test_beyond_the_end),
    TEST (test_trimmed_goes_back),
    TEST (test_release_refused),
    TEST (test_trim_unrecorded),
    TEST (test_zeroed),
    TEST (test_walk_breaks),
    TEST (test_walk_errors),
    TEST (test_walk_refusals),
    TEST (test_walk_lost_answers),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
