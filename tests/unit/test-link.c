/* SPDX-License-Identifier: BSD-3-Clause */
/* test-link.c - a volume and its servers when one of them is silent, dead, or
 * says what another one says, too.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "fake-ctl.h"
#include "volume/volume_int.h"

#define SLAB (256 * 1024)
#define SLABS 200
#define NR_SERVERS 2
#define PIECES 20
#define SIZE (PIECES * SLAB)

static struct fake_server *servers[NR_SERVERS];
static struct fp_volume *v;
static unsigned char buf[SLAB];

static void
params (struct fp_volume_params *p)
{
  fp_volume_params_init (p);
  p->nr_servers = NR_SERVERS;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    p->servers[i] = *fake_server_addr (servers[i]);
  p->size = SIZE;
  p->slab_size = SLAB;
  p->transports = FP_TRANSPORT_FAKE;
  p->timeout_ms = 1000;
  p->slots = 4;
  p->slot_size = 32 * 1024;
}

static int
setup (void **state)
{
  static const char *const names[] = { "a", "b" };
  struct fp_volume_params p;
  char why[FP_WHY_MAX];

  (void) state;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    servers[i] = fake_server_new (names[i], SLAB, SLABS);
  params (&p);
  return fp_volume_start (&v, &p, why) < 0;
}

static int
teardown (void **state)
{
  (void) state;
  fp_volume_stop (v, true);
  v = NULL;
  assert_int_equal (fp_fake_imports (), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    assert_int_equal (fake_server_free_slabs (servers[i]), SLABS);
    fake_server_free (servers[i]);
  }
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
write_piece (uint64_t i, const char *text)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  int r = fp_lane_write (lane, text, 5, i * SLAB);

  fp_volume_lane_put (lane);
  return r;
}

static void
expect (uint64_t i, const char *text)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  assert_int_equal (fp_lane_read (lane, buf, 5, i * SLAB), 0);
  assert_memory_equal (buf, text, 5);
  fp_volume_lane_put (lane);
}

/* The process dies; the next one takes up its volume. */
static int
resume (char why[FP_WHY_MAX])
{
  struct fp_volume_params p;

  params (&p);
  p.resume = true;
  p.uuid = *fp_volume_uuid (v);
  fp_volume_stop (v, false);
  v = NULL;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_revive (servers[i]);
  return fp_volume_start (&v, &p, why);
}

/* Which server holds piece i; the generation of its label. */
static unsigned
holder (uint64_t i, uint64_t *generation)
{
  for (unsigned s = 0; s < NR_SERVERS; s++) {
    *generation = fake_server_generation (servers[s], i);
    if (*generation != 0)
      return s;
  }
  fail ();
  return 0;
}

static void
await_state (unsigned server, enum fp_server_state state)
{
  uint64_t deadline = fp_deadline_in_ms (5000);
  struct fp_server_status s;

  for (;;) {
    fp_volume_server_status (v, server, &s);
    if (s.state == state)
      return;
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}

/* Wait until only that many slabs are labelled, on both. */
static void
await_labelled (unsigned n)
{
  uint64_t deadline = fp_deadline_in_ms (5000);

  while (fake_server_labelled (servers[0]) +
             fake_server_labelled (servers[1]) !=
         n) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}

/* ---- two labels for one piece ---- */

/* Every new label has a generation above all others. */
static void
test_generations (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  uint64_t g, last = 0;
  char why[FP_WHY_MAX];

  (void) state;
  for (unsigned i = 0; i < 5; i++) {
    assert_int_equal (write_piece (i, "data"), 0);
    holder (i, &g);
    assert_true (g > last);
    last = g;
  }
  assert_int_equal (fp_lane_zero (lane, SLAB, 0, true), 0);
  fp_volume_lane_put (lane);
  assert_int_equal (resume (why), 0);
  assert_int_equal (write_piece (0, "more"), 0);
  holder (0, &g);
  assert_true (g > last);
}

static void
speak_later (void *arg)
{
  pause_ms (100);
  fake_server_silence (arg, FAKE_SPEAKS, 0);
}

/* Piece 0 is labelled on the other server, too, with a generation that
 * differs by so much; `late` is heard of last.
 */
static void
two_labels (int64_t difference, bool late, const char *text)
{
  struct fp_thread thread;
  char why[FP_WHY_MAX];
  unsigned at, slow;
  uint64_t g;

  for (unsigned i = 0; i < 4; i++)
    assert_int_equal (write_piece (3 - i, "data"), 0);
  at = holder (0, &g);
  slow = late ? at : !at;
  /* Its memory is zeros, as it was lent. */
  fake_server_plant (servers[!at], SLABS - 1, 0, g + (uint64_t) difference);
  fake_server_silence (servers[slow], FAKE_DEAF, FP_MSG_LIST);
  assert_int_equal (
      fp_thread_create (&thread, "later", speak_later, servers[slow]), 0);
  assert_int_equal (resume (why), 0);
  assert_int_equal (fp_thread_join (&thread), 0);
  expect (0, text);
  for (unsigned i = 1; i < 4; i++)
    expect (i, "data");
  await_labelled (4);
  /* The one that was dropped cannot come back. */
  assert_int_equal (resume (why), 0);
  expect (0, text);
  assert_int_equal (write_piece (0, "more"), 0);
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

/* The other one is the newer: what is here was never acknowledged. */
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

/* Nobody can tell which one is right. */
static void
test_same_generation (void **state)
{
  char why[FP_WHY_MAX];
  uint64_t g;
  unsigned at;

  (void) state;
  assert_int_equal (write_piece (0, "data"), 0);
  at = holder (0, &g);
  fake_server_plant (servers[!at], SLABS - 1, 0, g);
  assert_true (resume (why) < 0);
  for (unsigned s = 0; s < NR_SERVERS; s++)
    fake_server_forget (servers[s]);
}

/* A label whose answer is lost, then the server is away; the piece goes to
 * the other one.  Then the client dies.
 */
static void
test_label_lost_then_death (void **state)
{
  uint64_t i = 0;
  char why[FP_WHY_MAX];

  (void) state;
  fake_server_die_of_label (servers[0], true);
  for (;; i++) {
    assert_true (i < PIECES);
    assert_int_equal (write_piece (i, "data"), 0);
    if (fake_server_generation (servers[0], i) != 0)
      break;
  }
  assert_int_equal (fake_server_labelled (servers[0]), 1);
  assert_true (fake_server_generation (servers[1], i) >
               fake_server_generation (servers[0], i));
  fake_server_die_of_label (servers[0], false);
  assert_int_equal (resume (why), 0);
  for (uint64_t n = 0; n <= i; n++)
    expect (n, "data");
  await_labelled ((unsigned) i + 1);
}

/* A server that gave up the memory of a piece, and another attempt for it. */
static void
lost_and_label (int64_t difference, int status)
{
  char why[FP_WHY_MAX];
  struct fp_lane *lane;
  uint64_t g;
  unsigned at;

  assert_int_equal (write_piece (0, "data"), 0);
  at = holder (0, &g);
  fake_server_lose (servers[at]);
  fake_server_plant (servers[!at], SLABS - 1, 0, g + (uint64_t) difference);
  assert_int_equal (resume (why), 0);
  lane = fp_volume_lane_get (v);
  assert_int_equal (fp_lane_read (lane, buf, 5, 0), status);
  fp_volume_lane_put (lane);
  await_labelled (status == 0 ? 1 : 0);
  assert_int_equal (resume (why), 0);
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
    assert_int_equal (write_piece (i, "data"), 0);
  fake_server_cut (servers[0]);
  for (unsigned i = 0; i < 150; i++)
    fake_server_plant (servers[0], SLABS - 1 - i, i % PIECES, 0);
  fake_server_revive (servers[0]);
  await_labelled (4);
  await_state (0, FP_SERVER_UP);
  for (unsigned i = 0; i < 4; i++)
    expect (i, "data");
}

/* ---- one server is silent ---- */

/* Every first write finds the other server, well within the timeout, whatever
 * the silent one does not answer.
 */
static void
silent_server (enum fake_silence silence, unsigned about)
{
  uint64_t start = fp_now_ns ();

  fake_server_silence (servers[0], silence, about);
  for (unsigned i = 0; i < PIECES; i++)
    assert_int_equal (write_piece (i, "data"), 0);
  assert_true (fp_now_ns () - start < 5000 * FP_NS_PER_MS);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  for (unsigned i = 0; i < PIECES; i++)
    expect (i, "data");
  await_labelled (PIECES);
  for (unsigned i = 0; i < PIECES; i++)
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

/* The answer to a label comes when the piece is elsewhere. */
static void
test_late_label (void **state)
{
  struct fp_server_status before, after;
  uint64_t i = 0;

  (void) state;
  fp_volume_server_status (v, 0, &before);
  fake_server_silence (servers[0], FAKE_MUTE, FP_MSG_LABEL);
  for (; fake_server_labelled (servers[0]) == 0; i++)
    assert_int_equal (write_piece (i, "data"), 0);
  assert_int_equal (fake_server_labelled (servers[1]), i);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  await_labelled ((unsigned) i);
  fp_volume_server_status (v, 0, &after);
  assert_int_equal (before.reconnects, after.reconnects);
  for (uint64_t n = 0; n < i; n++)
    expect (n, "data");
}

/* A server is stopped while it is asked for a label: longer than the timeout,
 * but what it holds can be read and written, and it is not lost.
 */
static void
test_stopped_at_label (void **state)
{
  struct fp_server_status before, after;
  uint64_t held, i = 0;

  (void) state;
  while (fake_server_labelled (servers[0]) == 0)
    assert_int_equal (write_piece (i++, "data"), 0);
  held = i - 1;
  fp_volume_server_status (v, 0, &before);
  fake_server_silence (servers[0], FAKE_MUTE, FP_MSG_LABEL);
  while (fake_server_labelled (servers[0]) == 1)
    assert_int_equal (write_piece (i++, "data"), 0);
  pause_ms (1500);
  expect (held, "data");
  fp_volume_server_status (v, 0, &after);
  assert_int_equal (after.state, FP_SERVER_UP);
  assert_int_equal (before.reconnects, after.reconnects);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  await_labelled ((unsigned) i);
}

/* Of two servers one is dead: new pieces go to the other one, and to both
 * again when it is back.
 */
static void
test_dead_and_back (void **state)
{
  (void) state;
  fake_server_cut (servers[0]);
  for (unsigned i = 0; i < 10; i++)
    assert_int_equal (write_piece (i, "data"), 0);
  assert_int_equal (fake_server_labelled (servers[1]), 10);
  fake_server_revive (servers[0]);
  await_state (0, FP_SERVER_UP);
  for (unsigned i = 10; i < PIECES; i++)
    assert_int_equal (write_piece (i, "data"), 0);
  assert_in_range (fake_server_labelled (servers[0]), 1, 10);
  for (unsigned i = 0; i < PIECES; i++)
    expect (i, "data");
}

static void
revive_later (void *arg)
{
  pause_ms (200);
  fake_server_revive (arg);
}

/* A server that is lost again before it has answered anything was lost now,
 * and not when it was lost before: what needs it waits.
 */
static void
test_lost_again (void **state)
{
  struct fp_thread thread;
  uint64_t i = 0;
  int r;

  (void) state;
  while (fake_server_labelled (servers[0]) == 0)
    assert_int_equal (write_piece (i++, "data"), 0);
  fake_server_cut (servers[0]);
  pause_ms (1500); /* longer than the timeout */
  fake_server_silence (servers[0], FAKE_DEAF, FP_MSG_GRANT);
  fake_server_revive (servers[0]);
  await_state (0, FP_SERVER_UP);
  pause_ms (50); /* it is asked for a grant ahead */
  fake_server_cut (servers[0]);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  pause_ms (50);
  assert_int_equal (
      fp_thread_create (&thread, "later", revive_later, servers[0]), 0);
  r = write_piece (i - 1, "more");
  assert_int_equal (fp_thread_join (&thread), 0);
  assert_int_equal (r, 0);
  expect (i - 1, "more");
}

/* It is restarted, and its memory is new. */
static void
restart (unsigned server)
{
  fake_server_cut (servers[server]);
  fake_server_forget (servers[server]);
  fake_server_revive (servers[server]);
}

static void
await_piece (uint64_t i, enum fp_piece_state state)
{
  uint64_t deadline = fp_deadline_in_ms (5000);

  while (fp_piece_state (&v->pieces->p[i]) != state) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}

/* A server that was restarted while nothing of ours was there is as good as
 * any other.
 */
static void
test_restarted_empty (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  char why[FP_WHY_MAX];

  (void) state;
  /* Something was, and was trimmed. */
  for (unsigned i = 0; i < PIECES; i++)
    assert_int_equal (write_piece (i, "data"), 0);
  assert_int_equal (fp_lane_zero (lane, SIZE, 0, true), 0);
  fp_volume_lane_put (lane);
  fake_server_cut (servers[0]);
  for (unsigned i = 0; i < 10; i++)
    assert_int_equal (write_piece (i, "data"), 0);
  restart (0);
  await_state (0, FP_SERVER_UP);
  for (unsigned i = 10; i < PIECES; i++)
    assert_int_equal (write_piece (i, "data"), 0);
  assert_in_range (fake_server_labelled (servers[0]), 1, 10);
  assert_int_equal (resume (why), 0);
  for (unsigned i = 0; i < PIECES; i++)
    expect (i, "data");
}

/* Where anything was lost it stays LOST, or what comes next would read zeros
 * for it.
 */
static void
test_restarted_after_loss (void **state)
{
  char why[FP_WHY_MAX];
  uint64_t i = 0;

  (void) state;
  for (; fake_server_labelled (servers[0]) == 0; i++)
    assert_int_equal (write_piece (i, "data"), 0);
  i--;
  fake_server_cut (servers[0]);
  fake_server_lose (servers[0]);
  fake_server_revive (servers[0]);
  await_piece (i, FP_PIECE_LOST);
  await_state (0, FP_SERVER_UP);
  restart (0);
  await_state (0, FP_SERVER_LOST);
  assert_true (resume (why) < 0);
  for (unsigned s = 0; s < NR_SERVERS; s++)
    fake_server_forget (servers[s]);
}

/* Before anything is started it is known that a volume is gone; and looking
 * costs it nothing.
 */
static void
test_probe_resume (void **state)
{
  struct fp_volume_params p;
  char why[FP_WHY_MAX];

  (void) state;
  assert_int_equal (write_piece (0, "data"), 0);
  params (&p);
  p.resume = true;
  p.uuid = *fp_volume_uuid (v);
  fp_volume_stop (v, false);
  assert_int_equal (fp_volume_probe (&p, why), 0);
  assert_int_equal (fp_volume_probe (&p, why), 0);
  assert_int_equal (fp_volume_start (&v, &p, why), 0);
  expect (0, "data");
  fp_volume_stop (v, true);
  v = NULL;
  assert_int_equal (fp_volume_probe (&p, why), -ENOENT);
  assert_non_null (strstr (why, "lease"));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
    TEST (test_generations),
    TEST (test_lower_first),
    TEST (test_lower_last),
    TEST (test_higher_first),
    TEST (test_higher_last),
    TEST (test_same_generation),
    TEST (test_label_lost_then_death),
    TEST (test_lost_is_newer),
    TEST (test_lost_is_older),
    TEST (test_many_leftovers),
    TEST (test_deaf),
    TEST (test_mute),
    TEST (test_deaf_to_grant),
    TEST (test_mute_about_label),
    TEST (test_late_label),
    TEST (test_stopped_at_label),
    TEST (test_dead_and_back),
    TEST (test_lost_again),
    TEST (test_probe_resume),
    TEST (test_restarted_empty),
    TEST (test_restarted_after_loss),
  };

  if (getenv ("FARPAGE_TEST") != NULL)
    cmocka_set_test_filter (getenv ("FARPAGE_TEST"));
  return cmocka_run_group_tests (tests, NULL, NULL);
}
