/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-lists.c - a client dies while it changes the list of a volume's
 * servers, so that some of them have a list that others never had.  Whoever
 * attaches the volume later finds what was last written, or is refused; and
 * when all servers are there again nothing is lost.
 */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "meta/meta_log.h"
#include "meta/membership.h"
#include "volume-fixture.h"

#define EXTENTS COPIES_EXTENTS
#define SIZE COPIES_SIZE
#define PATIENCE_MS 20000

enum { A, B, C, D }; /* servers */

/* What each extent may hold: what was last acknowledged, or what was written
 * in vain since then.
 */
static bool may[EXTENTS][256];

/* Wait until the condition holds. */
#define AWAIT(condition)                                                      \
  do {                                                                        \
    uint64_t end_ = fp_deadline_in_ms (PATIENCE_MS);                          \
                                                                              \
    while (!(condition)) {                                                    \
      assert_false (fp_deadline_passed (end_));                               \
      pause_ms (5);                                                           \
    }                                                                         \
  } while (0)

/* Return how many of the writes were acknowledged. */
static unsigned
write_all (unsigned char byte)
{
  unsigned n = 0;

  for (unsigned i = 0; i < EXTENTS; i++) {
    unsigned char is = (unsigned char) (byte + i);

    if (put (i, is) == 0) {
      memset (may[i], 0, sizeof may[i]);
      n++;
    }
    may[i][is] = true;
  }
  return n;
}

/* Check that each extent holds what it may.  all: none is an error. */
static void
check (bool all)
{
  for (unsigned i = 0; i < EXTENTS; i++) {
    int r = get (i);

    if (r == -EIO && !all)
      continue;
    assert_in_range (r, 0, 255);
    assert_true (may[i][r]);
  }
}

/* Attach without the servers that are cut.  What they miss stays so. */
static int
attach (void)
{
  struct fp_volume_params p;

  copies_params (&p);
  p.copies = 0;
  p.degraded = true;
  p.resync_delay_ms = 1000000;
  return fixture_start (&p);
}

/* Check that a client that attaches now is refused, or reads nothing old. */
static void
refused_or_right (void)
{
  if (attach () < 0)
    return;
  check (false);
  copies_die ();
}

/* All servers are there. */
static void
nothing_is_lost (void)
{
  must (copies_attach (0, false));
  check (true);
}

static unsigned
server_of (unsigned i, unsigned copy)
{
  return atomic_load (&fp_mirror_copy (v->extents, i, copy)->server);
}

/* Return an extent whose copies are on these servers, in this order, or -1. */
static int
find_extent (unsigned first, unsigned second)
{
  for (unsigned i = 0; i < EXTENTS; i++)
    if (server_of (i, 0) == first && server_of (i, 1) == second)
      return (int) i;
  return -1;
}

static bool
all_hold_some (void)
{
  for (unsigned s = 0; s < nr_named; s++)
    if (fake_server_labelled (servers[s]) == 0)
      return false;
  return true;
}

/* Make a volume on nr servers, and leave it in order.  There is an extent
 * whose first copy is on one of these servers, and whose second one on the
 * other.
 */
static void
make (unsigned nr, unsigned first, unsigned second)
{
  bool found = false;

  nr_named = nr;
  for (unsigned n = 0; !found; n++) {
    assert_true (n < 1000);
    for (unsigned s = 0; n > 0 && s < FIXTURE_SERVERS; s++)
      fake_server_forget (servers[s]);
    must (copies_attach (SIZE, false));
    assert_int_equal (write_all (1), EXTENTS);
    await_whole ();
    found = find_extent (first, second) >= 0 && all_hold_some ();
    detach ();
  }
}

/* These servers, a set, do so when they hear of a list. */
static void
silence (unsigned set, enum fake_silence how)
{
  for (unsigned s = 0; s < FIXTURE_SERVERS; s++)
    if (set >> s & 1)
      fake_server_silence (servers[s], how,
                           how == FAKE_SPEAKS ? 0 : FP_MSG_MEMBERS);
}

#define ALL 15u
#define ALL_BUT_A 14u

static uint64_t
version_of (unsigned server)
{
  return fake_server_version (servers[server]);
}

static struct fp_server_status
status_of (unsigned server)
{
  struct fp_server_status s;

  fp_volume_server_status (v, server, &s);
  return s;
}

/* A client dies when its first list, of all servers, is at A alone. */
static void
die_at_start (void)
{
  uint64_t version = version_of (A);

  silence (ALL_BUT_A, FAKE_DEAF);
  assert_true (attach () < 0);
  silence (ALL_BUT_A, FAKE_SPEAKS);
  assert_true (version_of (A) > version);
  for (unsigned s = 1; s < nr_named; s++)
    assert_int_equal (version_of (s), version);
}

/* A client dies when a list without server `gone` is at A alone.  What it
 * writes is what there is: it does not matter whether it can.
 */
static void
die_without (unsigned gone)
{
  uint64_t version;

  must (attach ());
  version = version_of (A);
  silence (ALL_BUT_A, FAKE_DEAF);
  fake_server_cut (servers[gone]);
  for (unsigned i = 0; i < EXTENTS && version_of (A) == version; i++)
    (void) put (i, (unsigned char) (1 + i));
  assert_true (version_of (A) > version);
  copies_die ();
  silence (ALL_BUT_A, FAKE_SPEAKS);
  fake_server_revive (servers[gone]);
  for (unsigned s = 1; s < nr_named; s++)
    assert_int_equal (version_of (s), version);
}

/* ---- tests ---- */

/* A client that does not see the only server with a list begins with the same
 * version.  Its list is complete, and the other one is not.
 */
static void
test_one_version (void **state)
{
  (void) state;
  make (3, A, C);
  die_at_start ();
  fake_server_cut (servers[A]);
  must (attach ());
  assert_true (write_all (2) > 0);
  assert_int_equal (version_of (B), version_of (A));
  copies_die ();

  fake_server_revive (servers[A]);
  fake_server_cut (servers[C]);
  refused_or_right ();
  fake_server_revive (servers[C]);
  nothing_is_lost ();
}

/* Likewise, and that list has a higher version. */
static void
test_higher_version (void **state)
{
  (void) state;
  make (3, A, B);
  die_at_start ();
  fake_server_attached (servers[A], 1); /* and another one likewise */
  fake_server_cut (servers[A]);
  must (attach ());
  assert_true (write_all (2) > 0);
  assert_true (version_of (B) < version_of (A));
  copies_die ();

  fake_server_revive (servers[A]);
  fake_server_cut (servers[B]);
  refused_or_right ();
  fake_server_revive (servers[B]);
  nothing_is_lost ();
}

/* A list of A and B is at A alone.  A client may not go on with A alone, as
 * half of that list: B and C are more than half of the list before.
 */
static void
test_half_of_incomplete (void **state)
{
  (void) state;
  make (3, A, C);
  die_without (C);
  fake_server_cut (servers[C]);
  silence (1u << B, FAKE_DEAF);
  if (attach () == 0) {
    (void) write_all (2);
    copies_die ();
  }
  silence (1u << B, FAKE_SPEAKS);
  fake_server_revive (servers[C]);
  fake_server_cut (servers[A]);
  must (attach ());
  check (false);
  detach ();
  fake_server_revive (servers[A]);
  nothing_is_lost ();
}

/* A list of three of four servers is at A alone, and two others go on. */
static void
test_two_of_three (void **state)
{
  (void) state;
  make (4, A, C);
  die_without (D);
  fake_server_cut (servers[A]);
  silence (1u << B, FAKE_DEAF);
  must (attach ());
  assert_true (write_all (2) > 0);
  copies_die ();
  silence (1u << B, FAKE_SPEAKS);

  fake_server_cut (servers[C]);
  fake_server_cut (servers[D]);
  fake_server_revive (servers[A]);
  refused_or_right ();
  fake_server_revive (servers[C]);
  fake_server_revive (servers[D]);
  nothing_is_lost ();
}

/* A is left out, and taken in again by a list that B alone has heard of; C has
 * the list without A.  A client may not go on with C alone: A and B, which
 * have an older list and that one, are more than half of either.
 */
static void
test_older_list (void **state)
{
  uint64_t version;

  (void) state;
  make (3, B, C);
  must (attach ());
  fake_server_cut (servers[A]);
  assert_true (write_all (2) > 0);
  version = version_of (B);
  assert_int_equal (fake_server_current (servers[B]), 2);
  silence (1u << A | 1u << C, FAKE_DEAF);
  silence (1u << B, FAKE_MUTE);
  fake_server_revive (servers[A]);
  AWAIT (version_of (B) > version && fake_server_current (servers[B]) == 3);
  copies_die ();
  assert_int_equal (version_of (C), version);
  assert_true (version_of (A) < version);

  silence (ALL, FAKE_SPEAKS);
  silence (1u << A | 1u << B, FAKE_DEAF);
  if (attach () == 0) {
    fake_server_cut (servers[A]);
    fake_server_cut (servers[B]);
    (void) write_all (3);
    copies_die ();
    fake_server_revive (servers[A]);
    fake_server_revive (servers[B]);
  }
  silence (ALL, FAKE_SPEAKS);
  fake_server_cut (servers[C]);
  refused_or_right ();
  fake_server_revive (servers[C]);
  nothing_is_lost ();
}

/* A list of A and B is at A alone, and one of B, C and D, by a client that did
 * not see A, at C and D alone.  B alone is current in both, and C and D are
 * enough for the second one: so they are in the first list with B.
 */
static void
test_all_are_here (void **state)
{
  uint64_t version;

  (void) state;
  make (4, A, B);
  must (attach ());
  version = version_of (A);
  silence (ALL_BUT_A, FAKE_DEAF);
  fake_server_cut (servers[C]);
  fake_server_cut (servers[D]);
  for (unsigned i = 0; i < EXTENTS && version_of (A) == version; i++)
    (void) put (i, (unsigned char) (1 + i));
  AWAIT (version_of (A) > version && fake_server_current (servers[A]) == 2);
  copies_die ();
  assert_int_equal (version_of (B), version);

  fake_server_revive (servers[C]);
  fake_server_revive (servers[D]);
  fake_server_cut (servers[A]);
  silence (1u << C | 1u << D, FAKE_MUTE);
  assert_true (attach () < 0);
  assert_int_equal (version_of (B), version);
  assert_true (version_of (C) > version && version_of (D) > version);

  silence (ALL, FAKE_SPEAKS);
  fake_server_revive (servers[A]);
  nothing_is_lost ();
  for (unsigned s = 0; s < nr_named; s++)
    AWAIT (fake_server_current (servers[s]) == 4);
  await_whole ();
  detach ();
  nothing_is_lost ();
}

/* This server alone has a newer list than all others, in which these are
 * current.
 */
static void
send_list (unsigned server, unsigned current)
{
  struct fp_volume_params p;

  copies_params (&p);
  p.copies = 0;
  must (fp_volume_probe (&p, why));
  p.members.version = p.newest + 1;
  for (unsigned m = 0; m < nr_named; m++)
    p.members.members[m].current = current >> m & 1;
  fake_server_set_list (servers[server], &p.members);
}

/* Three lists, each of D and two others, are at one server each. */
static void
test_three_lists (void **state)
{
  (void) state;
  make (4, A, B);
  send_list (C, 1u << B | 1u << C | 1u << D);
  send_list (A, 1u << A | 1u << C | 1u << D);
  send_list (B, 1u << A | 1u << B | 1u << D);
  nothing_is_lost ();
}

/* A list of A and B is at A alone, and one of C and D at C alone: nobody is
 * current in both.  If A were away it would be clear what to do.
 */
static void
test_passed_over (void **state)
{
  (void) state;
  make (4, A, B);
  send_list (A, 1u << A | 1u << B);
  send_list (C, 1u << C | 1u << D);
  nothing_is_lost ();
  for (unsigned s = 0; s < nr_named; s++)
    AWAIT (fake_server_current (servers[s]) == 4);
  await_whole ();
  detach ();
  nothing_is_lost ();
}

static bool
is_in_sync (unsigned i)
{
  const struct fp_extents *t = v->extents;

  return fp_mirror_in_sync (t, i) == 3 &&
         fp_meta_log_has_in_sync (v, fp_mirror_entry (t, i, 0)) &&
         fp_meta_log_has_in_sync (v, fp_mirror_entry (t, i, 1));
}

/* A has an old list of three servers, and B a list of four that nobody else
 * has heard of: so B may have had the old one.  But C and D went on from that
 * of B, and are away now.
 */
static void
doubt_two_of_four (void)
{
  uint64_t version;
  int i;

  make (4, B, C);
  die_without (D);
  fake_server_cut (servers[A]);
  must (attach ());
  i = find_extent (B, C);
  assert_true (i >= 0);
  AWAIT (is_in_sync ((unsigned) i));
  (void) write_all (2);
  fake_server_silence (servers[A], FAKE_FULL, FP_MSG_MAP_WRITE);
  fake_server_revive (servers[A]);
  AWAIT (status_of (A).state == FP_SERVER_UP);
  version = version_of (B);
  silence (1u << B, FAKE_MUTE);
  silence (1u << A | 1u << C | 1u << D, FAKE_DEAF);
  AWAIT (version_of (B) > version && fake_server_current (servers[B]) == 4);
  fake_server_cut (servers[A]);
  fake_server_cut (servers[B]);
  silence (1u << C | 1u << D, FAKE_SPEAKS);
  assert_true (write_all (3) > 0);
  copies_die ();
  silence (ALL, FAKE_SPEAKS);

  fake_server_cut (servers[C]);
  fake_server_cut (servers[D]);
  fake_server_revive (servers[A]);
  fake_server_revive (servers[B]);
}

static void
test_quorum_of_each (void **state)
{
  (void) state;
  doubt_two_of_four ();
  refused_or_right ();
  fake_server_revive (servers[C]);
  fake_server_revive (servers[D]);
  nothing_is_lost ();
}

/* C and D are dead for good: their lists count no more, whatever they are. */
static void
test_forced (void **state)
{
  struct fp_volume_params p;

  (void) state;
  doubt_two_of_four ();
  copies_params (&p);
  p.copies = 0;
  p.nr_servers = 2;
  p.remove[p.nr_remove++] = *fake_server_addr (servers[C]);
  p.remove[p.nr_remove++] = *fake_server_addr (servers[D]);
  p.degraded = true;
  assert_true (fixture_start (&p) < 0);
  p.degraded = false;
  p.force = true;
  must (fixture_start (&p));
  assert_true (version_of (A) > FP_MEMBERSHIP_FORCED);
  assert_int_equal (version_of (B), version_of (A));
}

/* A and D are left out, and D is taken in again by a list that B and C have,
 * and D has not: so it is not complete.  The list before, which A and D have,
 * is not the last that was: A is not believed.
 */
static void
test_left_out_twice (void **state)
{
  uint64_t version;

  (void) state;
  make (4, A, B);
  must (attach ());
  fake_server_cut (servers[A]);
  fake_server_cut (servers[D]);
  assert_true (write_all (2) > 0);
  version = version_of (B);
  assert_int_equal (fake_server_current (servers[B]), 2);
  silence (1u << B | 1u << C, FAKE_MUTE);
  silence (1u << D, FAKE_DEAF);
  fake_server_revive (servers[D]);
  AWAIT (version_of (B) > version && version_of (C) > version);
  copies_die ();
  silence (ALL, FAKE_SPEAKS);
  assert_true (version_of (D) < version);

  fake_server_revive (servers[A]);
  nothing_is_lost ();
}

/* A goes on alone, and B and C come back at once.  If one list took in both,
 * these could be attached by it without A, which may not have heard of it.
 */
static void
test_taken_in (void **state)
{
  uint64_t version;

  (void) state;
  make (3, A, B);
  must (attach ());
  fake_server_cut (servers[C]);
  (void) write_all (2);
  fake_server_cut (servers[B]);
  assert_true (write_all (3) > 0);
  version = version_of (A);
  assert_int_equal (fake_server_current (servers[A]), 1);
  silence (1u << A, FAKE_DEAF);
  fake_server_revive (servers[B]);
  fake_server_revive (servers[C]);
  AWAIT (version_of (B) > version || version_of (C) > version);
  pause_ms (5000);
  copies_die ();
  silence (1u << A, FAKE_SPEAKS);
  assert_int_equal (version_of (A), version);

  fake_server_cut (servers[B]);
  fake_server_cut (servers[C]);
  must (attach ());
  assert_true (write_all (4) > 0);
  copies_die ();

  fake_server_cut (servers[A]);
  fake_server_revive (servers[B]);
  fake_server_revive (servers[C]);
  assert_true (attach () < 0);
  fake_server_revive (servers[A]);
  nothing_is_lost ();
}

/* A goes on alone.  One server at a time is taken in: one that does not take
 * the map does not keep out the other one.
 */
static void
test_taken_in_turns (void **state)
{
  (void) state;
  for (unsigned bad = B; bad <= C; bad++) {
    unsigned good = B + C - bad;

    make (3, A, B);
    must (attach ());
    fake_server_cut (servers[C]);
    (void) write_all (2);
    fake_server_cut (servers[B]);
    assert_true (write_all (3) > 0);
    assert_int_equal (fake_server_current (servers[A]), 1);
    fake_server_silence (servers[bad], FAKE_FULL, FP_MSG_MAP_WRITE);
    fake_server_revive (servers[B]);
    fake_server_revive (servers[C]);
    AWAIT (version_of (good) == version_of (A) &&
           fake_server_current (servers[A]) == 2);
    fake_server_silence (servers[bad], FAKE_SPEAKS, 0);
    AWAIT (fake_server_current (servers[bad]) == 3);
    detach ();
  }
}

/* Nobody hears of a change while a list may be at some members and is not
 * complete.
 */
static void
test_list_before_map (void **state)
{
  uint64_t version;
  unsigned mapped;

  (void) state;
  make (3, A, C);
  must (attach ());
  version = version_of (A);
  mapped = fake_server_mapped (servers[A]);
  silence (1u << B, FAKE_DEAF);
  fake_server_cut (servers[C]);
  (void) put ((uint64_t) find_extent (A, C), 2);
  AWAIT (version_of (A) > version);
  pause_ms (2000);
  assert_int_equal (fake_server_mapped (servers[A]), mapped);
  assert_int_equal (fake_server_mapped (servers[B]), mapped);
  silence (1u << B, FAKE_SPEAKS);
  AWAIT (fake_server_mapped (servers[A]) != mapped);
}

/* A copy is on B, which misses what is written: it is made anew on D.  The
 * next client does not see D, so that what B has is in doubt, and the copy is
 * made anew on C.  Then B is current again, and C is away.
 */
static void
test_doubt_is_over (void **state)
{
  struct fp_volume_params p;
  unsigned seen = 0;

  (void) state;
  for (unsigned n = 0; seen == 0; n++) {
    bool on_d[EXTENTS], on_c[EXTENTS];

    assert_true (n < 100);
    make (4, A, B);
    must (copies_attach (0, false));
    for (unsigned i = 0; i < EXTENTS; i++)
      on_d[i] = server_of (i, 0) == A && server_of (i, 1) == B;
    fake_server_cut (servers[B]);
    assert_int_equal (write_all (2), EXTENTS);
    await_whole ();
    for (unsigned i = 0; i < EXTENTS; i++)
      on_d[i] = on_d[i] && server_of (i, 1) == D;
    copies_die ();

    fake_server_cut (servers[D]);
    fake_server_revive (servers[B]);
    copies_params (&p);
    p.copies = 0;
    p.degraded = true;
    must (fixture_start (&p));
    assert_int_equal (write_all (3), EXTENTS);
    await_whole ();
    AWAIT (fake_server_current (servers[B]) == 3);
    for (unsigned i = 0; i < EXTENTS; i++)
      on_c[i] = on_d[i] && server_of (i, 0) == A && server_of (i, 1) == C;
    copies_die ();

    fake_server_cut (servers[C]);
    must (attach ());
    check (false);
    for (unsigned i = 0; i < EXTENTS; i++) {
      seen += on_c[i];
      all_have (i, (int) (3 + i));
    }
    copies_die ();
    fake_server_revive (servers[C]);
    fake_server_revive (servers[D]);
    nothing_is_lost ();
    detach ();
  }
}

static char remove_why[FP_WHY_MAX];

static void
remove_first (void *arg)
{
  *(int *) arg = fp_volume_remove_server (v, A, remove_why);
}

/* A is to leave, and it alone hears of the list without it. */
static void
begin_to_leave (struct fp_thread *thread, int *result)
{
  uint64_t version;

  nr_named = 3;
  must (copies_attach (SIZE, false));
  must (fp_volume_drain (v, A, 0, why));
  AWAIT (status_of (A).drain.state == FP_DRAIN_DONE);
  assert_int_equal (write_all (1), EXTENTS);
  await_whole ();
  version = version_of (A);
  silence (ALL_BUT_A, FAKE_DEAF);
  assert_int_equal (fp_thread_create (thread, "remove", remove_first, result),
                    0);
  AWAIT (version_of (A) > version);
  assert_int_equal (fake_server_current (servers[A]), 2);
  assert_int_equal (version_of (B), version);
}

/* The client dies then.  Who attaches the volume by B and C finds A, and the
 * list that is without it.
 */
static void
test_leaves (void **state)
{
  struct fp_volume_params p;
  struct fp_thread thread;
  int result = 0;

  (void) state;
  begin_to_leave (&thread, &result);
  fake_ctl_fault_at (1, FAKE_CTL_DIE);
  assert_int_equal (fp_thread_join (&thread), 0);
  assert_true (result < 0);
  copies_die ();
  silence (ALL_BUT_A, FAKE_SPEAKS);

  fixture_params (&p, B, 2);
  p.copies = 0;
  must (fixture_start (&p));
  check (true);
}

/* It does not leave after all, and the others have heard of a list with it,
 * but not A itself.
 */
static void
test_stays (void **state)
{
  struct fp_thread thread;
  int result = 0;

  (void) state;
  begin_to_leave (&thread, &result);
  silence (1u << A, FAKE_DEAF);
  assert_int_equal (fp_thread_join (&thread), 0);
  assert_true (result < 0);
  silence (1u << B | 1u << C, FAKE_MUTE);
  AWAIT (version_of (B) > version_of (A) && version_of (C) > version_of (A));
  copies_die ();
  silence (ALL, FAKE_SPEAKS);
  nothing_is_lost ();
}

/* A server comes back with a list that its client did not in sync to complete,
 * and that is newer than any of this client's: it is taken in all the same.
 */
static void
test_outdone (void **state)
{
  struct fp_volume_status s;

  (void) state;
  make (3, A, B);
  die_at_start ();
  fake_server_attached (servers[A], 3);
  fake_server_cut (servers[A]);
  must (attach ());
  assert_true (version_of (B) < version_of (A));
  fake_server_revive (servers[A]);
  AWAIT (version_of (A) == version_of (B) &&
         version_of (A) == version_of (C) &&
         fake_server_current (servers[A]) == 3);
  fp_volume_status (v, &s);
  assert_false (s.fenced);
  assert_int_equal (write_all (2), EXTENTS);
  detach ();
  nothing_is_lost ();
}

/* It may be of a client that has the volume now: as long as the members do not
 * say that ours is the one, nothing is changed there.
 */
static void
test_not_ours (void **state)
{
  unsigned mapped, labelled;
  uint64_t opened;

  (void) state;
  make (3, A, B);
  fake_server_cut (servers[A]);
  must (attach ());
  assert_true (write_all (2) > 0);
  fake_server_cut (servers[B]);
  fake_server_cut (servers[C]);
  fake_server_attached (servers[A], 3);
  mapped = fake_server_mapped (servers[A]);
  labelled = fake_server_labelled (servers[A]);
  opened = fake_server_opened (servers[A]);
  fake_server_revive (servers[A]);
  AWAIT (strstr (status_of (A).why, "newer list") != NULL);
  pause_ms (5000);
  assert_int_equal (fake_server_mapped (servers[A]), mapped);
  assert_int_equal (fake_server_labelled (servers[A]), labelled);
  assert_int_equal (fake_server_opened (servers[A]), opened);
}

/* Also if its list is an old one: that client may do without it, and have lent
 * it memory for all that.
 */
static void
test_not_confirmed (void **state)
{
  unsigned labelled;

  (void) state;
  make (3, A, B);
  labelled = fake_server_labelled (servers[A]);
  fake_server_cut (servers[A]);
  must (attach ());
  assert_true (write_all (2) > 0);
  fake_server_cut (servers[B]);
  fake_server_cut (servers[C]);
  fake_server_revive (servers[A]);
  AWAIT (strstr (status_of (A).why, "confirm") != NULL);
  pause_ms (5000);
  assert_int_equal (fake_server_labelled (servers[A]), labelled);
  fake_server_revive (servers[B]);
  fake_server_revive (servers[C]);
  AWAIT (fake_server_current (servers[A]) == 3);
  detach ();
  nothing_is_lost ();
}

/* B and C may have been another client's, and B came back with nothing.  Who
 * has A and B does not go on with A alone, as half of A and C.
 */
static void
test_forgotten (void **state)
{
  uint64_t version;

  (void) state;
  make (3, A, B);
  must (attach ());
  version = version_of (A);
  fake_server_cut (servers[C]);
  fake_server_cut (servers[B]);
  fake_server_forget (servers[B]);
  fake_server_revive (servers[B]);
  AWAIT (status_of (B).state == FP_SERVER_UP);
  (void) write_all (2);
  assert_int_equal (version_of (A), version);
  fake_server_revive (servers[C]);
  AWAIT (fake_server_current (servers[A]) == 3 &&
         fake_server_current (servers[B]) == 3);
  assert_int_equal (write_all (3), EXTENTS);
  detach ();
  nothing_is_lost ();
}

/* A start that fails has released nothing: the next client may follow a list
 * of the time before.
 */
static void
test_not_released (void **state)
{
  unsigned labelled;

  (void) state;
  make (3, A, B);
  must (copies_attach (0, false));
  fake_server_cut (servers[A]);
  assert_int_equal (write_all (2), EXTENTS);
  await_whole ();
  copies_die ();
  labelled = fake_server_labelled (servers[A]);
  fake_server_revive (servers[A]);
  silence (1u << B | 1u << C, FAKE_DEAF);
  assert_true (attach () < 0);
  silence (ALL, FAKE_SPEAKS);
  assert_int_equal (fake_server_labelled (servers[A]), labelled);
  must (attach ());
  AWAIT (fake_server_labelled (servers[A]) < labelled);
  check (true);
}

/* A copy on C, which misses what is written, is made anew on B.  B forgets
 * that, and the client dies before it has noted it.  The map is true of what C
 * has, too, but A has what was written last.
 */
static void
test_stale_copy (void **state)
{
  (void) state;
  make (3, C, A);
  must (copies_attach (0, false));
  fake_server_cut (servers[C]);
  assert_int_equal (write_all (2), EXTENTS);
  await_whole ();
  silence (1u << A, FAKE_MUTE);
  fake_server_cut (servers[B]);
  fake_server_forget (servers[B]);
  fake_server_revive (servers[B]);
  AWAIT (fake_server_current (servers[A]) == 1 &&
         fake_server_knows (servers[B]));
  pause_ms (5000);
  copies_die ();
  silence (1u << A, FAKE_SPEAKS);

  fake_server_revive (servers[C]);
  must (attach ());
  check (true);
  for (unsigned i = 0; i < EXTENTS; i++)
    all_have (i, (int) (2 + i));
}

/* Who only reads the volume knows that there is such a list, and that it does
 * not count.
 */
static void
test_reader (void **state)
{
  struct fp_volume_params p;
  struct fp_volume_status s;

  (void) state;
  make (3, A, B);
  fake_server_attached (servers[A], 1);
  copies_params (&p);
  p.copies = 0;
  p.read_only = true;
  must (fixture_start (&p));
  check (true);
  fake_server_cut (servers[A]);
  fake_server_revive (servers[A]);
  pause_ms (2000);
  check (true);
  fp_volume_status (v, &s);
  assert_false (s.fenced);
}

#define TEST(t) cmocka_unit_test_setup_teardown (t, copies_setup, fixture_down)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_one_version),
    TEST (test_higher_version),
    TEST (test_half_of_incomplete),
    TEST (test_two_of_three),
    TEST (test_older_list),
    TEST (test_all_are_here),
    TEST (test_three_lists),
    TEST (test_passed_over),
    TEST (test_quorum_of_each),
    TEST (test_forced),
    TEST (test_left_out_twice),
    TEST (test_taken_in),
    TEST (test_taken_in_turns),
    TEST (test_list_before_map),
    TEST (test_doubt_is_over),
    TEST (test_leaves),
    TEST (test_stays),
    TEST (test_outdone),
    TEST (test_not_ours),
    TEST (test_not_confirmed),
    TEST (test_forgotten),
    TEST (test_not_released),
    TEST (test_stale_copy),
    TEST (test_reader),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
