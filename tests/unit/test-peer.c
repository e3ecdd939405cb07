/* SPDX-License-Identifier: BSD-3-Clause */
/* test-peer.c - a volume with a server that is silent, or that has a label for
 * an extent of another server.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "peer-fixture.h"

/* Each new label has a generation above all earlier ones. */
static void
test_generations (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  uint64_t g, last = 0;
  struct fp_error error;

  (void) state;
  for (unsigned i = 0; i < 5; i++) {
    assert_int_equal (write_extent (i, "data"), 0);
    holder (i, &g);
    assert_true (g > last);
    last = g;
  }
  assert_int_equal (fp_lane_zero (lane, SLAB, 0, true), 0);
  fp_volume_lane_put (lane);
  assert_int_equal (link_resume (&error), 0);
  assert_int_equal (write_extent (0, "more"), 0);
  holder (0, &g);
  assert_true (g > last);
}

static void
speak_later (void *arg)
{
  pause_ms (100);
  fake_server_silence (arg, FAKE_SPEAKS, 0);
}

/* Label extent 0 on the other server, too; its generation differs by
 * `difference`.  If late, the server with the data answers LIST last.
 */
static void
two_labels (int64_t difference, bool late, const char *text)
{
  struct fp_thread thread;
  struct fp_error error;
  unsigned at, slow;
  uint64_t g;

  for (unsigned i = 0; i < 4; i++)
    assert_int_equal (write_extent (3 - i, "data"), 0);
  at = holder (0, &g);
  slow = late ? at : !at;
  /* The other slab is zeros, as it was lent. */
  fake_server_plant (servers[!at], SLABS - 1, 0, g + (uint64_t) difference);
  fake_server_silence (servers[slow], FAKE_DEAF, FP_MSG_LIST);
  assert_int_equal (
      fp_thread_create (&thread, "later", speak_later, servers[slow]), 0);
  assert_int_equal (link_resume (&error), 0);
  assert_int_equal (fp_thread_join (&thread), 0);
  expect (0, text);
  for (unsigned i = 1; i < 4; i++)
    expect (i, "data");
  await_labelled (4);
  /* The label that was dropped cannot come back. */
  assert_int_equal (link_resume (&error), 0);
  expect (0, text);
  assert_int_equal (write_extent (0, "more"), 0);
  expect (0, "more");
}

static void
test_lower_first (void **state)
{
  (void) state;
  two_labels (-1, true, "data");
}

static void
test_lower_last (void **state)
{
  (void) state;
  two_labels (-1, false, "data");
}

/* The other label is newer, so the data here was never acknowledged. */
static void
test_higher_first (void **state)
{
  (void) state;
  two_labels (1, true, "\0\0\0\0");
}

static void
test_higher_last (void **state)
{
  (void) state;
  two_labels (1, false, "\0\0\0\0");
}

/* Server 0 goes away in the middle of the start.  It is releasing extents for
 * which the other server turns out to have newer labels.
 */
static void
cut_later (void *arg)
{
  pause_ms (250);
  fake_server_slow_list (servers[0], 0);
  fake_server_cut (arg);
  pause_ms (500);
  fake_server_revive (arg);
}

static void
test_taken_while_let_go (void **state)
{
  struct fp_thread thread;
  struct fp_error error;
  uint64_t g;
  unsigned at;

  (void) state;
  for (unsigned i = 0; i < EXTENTS; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  for (uint64_t i = 0; i < EXTENTS; i++) {
    at = holder (i, &g);
    if (at == 0)
      fake_server_plant (servers[1], SLABS - 1 - (unsigned) i, i, g + EXTENTS);
  }
  fake_server_slow_list (servers[0], 100);
  fake_server_slow_list (servers[1], 40);
  assert_int_equal (fp_thread_create (&thread, "later", cut_later, servers[0]),
                    0);
  assert_int_equal (link_resume (&error), 0);
  assert_int_equal (fp_thread_join (&thread), 0);
  fake_server_slow_list (servers[1], 0);
  await_labelled (EXTENTS);
}

/* If both generations are equal, neither is right for certain: the start
 * fails.
 */
static void
test_same_generation (void **state)
{
  struct fp_error error;
  uint64_t g;
  unsigned at;

  (void) state;
  assert_int_equal (write_extent (0, "data"), 0);
  at = holder (0, &g);
  fake_server_plant (servers[!at], SLABS - 1, 0, g);
  assert_true (link_resume (&error) < 0);
  for (unsigned s = 0; s < NR_SERVERS; s++)
    fake_server_forget (servers[s]);
}

/* The answer to a label is lost, and its server is away.  The extent goes to
 * the other server.  Then the client dies.
 */
static void
test_label_lost_then_death (void **state)
{
  uint64_t i = 0;
  struct fp_error error;

  (void) state;
  fake_server_die_of_label (servers[0], true);
  for (;; i++) {
    assert_true (i < EXTENTS);
    assert_int_equal (write_extent (i, "data"), 0);
    if (fake_server_generation (servers[0], i) != 0)
      break;
  }
  assert_int_equal (fake_server_labelled (servers[0]), 1);
  assert_true (fake_server_generation (servers[1], i) >
               fake_server_generation (servers[0], i));
  fake_server_die_of_label (servers[0], false);
  assert_int_equal (link_resume (&error), 0);
  for (uint64_t n = 0; n <= i; n++)
    expect (n, "data");
  await_labelled ((unsigned) i + 1);
}

/* One server gave up the memory of an extent, and the other one has a label
 * for it.  The higher generation counts.
 */
static void
lost_and_label (int64_t difference, int status)
{
  struct fp_error error;
  struct fp_lane *lane;
  uint64_t g;
  unsigned at;

  assert_int_equal (write_extent (0, "data"), 0);
  at = holder (0, &g);
  fake_server_lose (servers[at]);
  fake_server_plant (servers[!at], SLABS - 1, 0, g + (uint64_t) difference);
  assert_int_equal (link_resume (&error), 0);
  lane = fp_volume_lane_get (v);
  assert_int_equal (fp_lane_read (lane, buf, 5, 0), status);
  fp_volume_lane_put (lane);
  await_labelled (status == 0 ? 1 : 0);
  assert_int_equal (link_resume (&error), 0);
  lane = fp_volume_lane_get (v);
  assert_int_equal (fp_lane_read (lane, buf, 5, 0), status);
  fp_volume_lane_put (lane);
}

static void
test_lost_is_newer (void **state)
{
  (void) state;
  lost_and_label (-1, -EIO);
}

static void
test_lost_is_older (void **state)
{
  (void) state;
  lost_and_label (1, 0);
}

/* More leftovers than one message can release. */
static void
test_many_leftovers (void **state)
{
  (void) state;
  for (unsigned i = 0; i < 4; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  fake_server_cut (servers[0]);
  for (unsigned i = 0; i < 150; i++)
    fake_server_plant (servers[0], SLABS - 1 - i, i % EXTENTS, 0);
  fake_server_revive (servers[0]);
  await_labelled (4);
  await_state (0, FP_SERVER_UP);
  for (unsigned i = 0; i < 4; i++)
    expect (i, "data");
}

/* To register the slabs of a large volume may take longer than a start without
 * progress may.  But a server cannot delay a start for ever.
 */
static void
slow_resume (unsigned labels, unsigned ms, bool works, unsigned most_ms)
{
  struct fp_error error;
  uint64_t i = 0, start;

  while (fake_server_labelled (servers[0]) < labels) {
    assert_true (i < EXTENTS);
    assert_int_equal (write_extent (i++, "data"), 0);
  }
  fake_server_slow_list (servers[0], ms);
  start = fp_now_ns ();
  assert_int_equal (link_resume (&error) == 0, works);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 8000, most_ms);
  fake_server_slow_list (servers[0], 0);
  for (uint64_t n = 0; works && n < i; n++)
    expect (n, "data");
  for (unsigned s = 0; !works && s < NR_SERVERS; s++)
    fake_server_forget (servers[s]);
}

static void
test_slow_resume (void **state)
{
  (void) state;
  slow_resume (5, 2000, true, 12500);
}

static void
test_endless_resume (void **state)
{
  (void) state;
  slow_resume (3, 4000, false, 13500);
}

/* ---- one server is silent ---- */

/* Each first write goes to the other server, well within the timeout, whatever
 * the silent one does not answer.
 */
static void
silent_server (enum fake_silence silence, unsigned about)
{
  uint64_t start = fp_now_ns ();

  fake_server_silence (servers[0], silence, about);
  for (unsigned i = 0; i < EXTENTS; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  assert_true (fp_now_ns () - start < 5000 * FP_NS_PER_MS);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  for (unsigned i = 0; i < EXTENTS; i++)
    expect (i, "data");
  await_labelled (EXTENTS);
  for (unsigned i = 0; i < EXTENTS; i++)
    expect (i, "data");
  await_state (0, FP_SERVER_UP);
}

static void
test_deaf (void **state)
{
  (void) state;
  silent_server (FAKE_DEAF, 0);
}

static void
test_mute (void **state)
{
  (void) state;
  silent_server (FAKE_MUTE, 0);
}

static void
test_deaf_to_grant (void **state)
{
  (void) state;
  silent_server (FAKE_DEAF, FP_MSG_GRANT);
}

static void
test_mute_about_label (void **state)
{
  (void) state;
  silent_server (FAKE_MUTE, FP_MSG_LABEL);
}

/* The answer to a label comes when the extent is on the other server. */
static void
test_late_label (void **state)
{
  struct fp_server_status before, after;
  uint64_t i = 0;

  (void) state;
  fp_volume_server_status (v, 0, &before);
  fake_server_silence (servers[0], FAKE_MUTE, FP_MSG_LABEL);
  for (; fake_server_labelled (servers[0]) == 0; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  assert_int_equal (fake_server_labelled (servers[1]), i);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  await_labelled ((unsigned) i);
  fp_volume_server_status (v, 0, &after);
  assert_int_equal (before.reconnects, after.reconnects);
  for (uint64_t n = 0; n < i; n++)
    expect (n, "data");
}

/* A server does not answer a LABEL for longer than the timeout.  Its memory
 * can be read and written, so it is not lost.
 */
static void
test_stopped_at_label (void **state)
{
  struct fp_server_status before, after;
  uint64_t held, i = 0;

  (void) state;
  while (fake_server_labelled (servers[0]) == 0)
    assert_int_equal (write_extent (i++, "data"), 0);
  held = i - 1;
  fp_volume_server_status (v, 0, &before);
  fake_server_silence (servers[0], FAKE_MUTE, FP_MSG_LABEL);
  while (fake_server_labelled (servers[0]) == 1)
    assert_int_equal (write_extent (i++, "data"), 0);
  pause_ms (1500);
  expect (held, "data");
  fp_volume_server_status (v, 0, &after);
  assert_int_equal (after.state, FP_SERVER_UP);
  assert_int_equal (before.reconnects, after.reconnects);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  await_labelled ((unsigned) i);
}

/* The only server is slow to lend more.  Grants ahead of need are used at
 * once.  Only the extent without one waits.
 */
static void
test_spares_first (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct fp_io io[FP_PEER_SPARES + 1];
  uint64_t begun, deadline = fp_deadline_in_ms (5000);

  (void) state;
  while (fake_server_free_slabs (servers[0]) != SLABS - FP_PEER_SPARES) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
  fake_server_silence (servers[0], FAKE_DEAF, FP_MSG_GRANT);
  begun = fp_now_ns ();
  for (unsigned i = 0; i <= FP_PEER_SPARES; i++) {
    io[i] = (struct fp_io) {
      .kind = FP_IO_WRITE, .length = 4, .offset = i * SLAB, .buf = buf
    };
    assert_int_equal (fp_lane_submit (lane, &io[i]), 0);
  }
  for (unsigned done = 0; done < FP_PEER_SPARES;) {
    for (struct fp_io *d = fp_lane_poll (lane, true); d != NULL; d = d->next) {
      assert_int_equal (d->status, 0);
      done++;
    }
  }
  assert_true (fp_now_ns () - begun < 800 * FP_NS_PER_MS);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  assert_ptr_not_equal (fp_lane_poll (lane, true), NULL);
  for (unsigned i = 0; i <= FP_PEER_SPARES; i++)
    assert_int_equal (io[i].status, 0);
  fp_volume_lane_put (lane);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_generations),
    TEST (test_lower_first),
    TEST (test_lower_last),
    TEST (test_higher_first),
    TEST (test_higher_last),
    TEST (test_taken_while_let_go),
    TEST (test_same_generation),
    TEST (test_label_lost_then_death),
    TEST (test_lost_is_newer),
    TEST (test_lost_is_older),
    TEST (test_many_leftovers),
    TEST (test_slow_resume),
    TEST (test_endless_resume),
    TEST (test_deaf),
    TEST (test_mute),
    TEST (test_deaf_to_grant),
    TEST (test_mute_about_label),
    TEST (test_late_label),
    TEST (test_stopped_at_label),
    TEST_ONE (test_spares_first),
  };

  if (getenv ("FARPAGE_TEST") != NULL)
    cmocka_set_test_filter (getenv ("FARPAGE_TEST"));
  return cmocka_run_group_tests (tests, NULL, NULL);
}
