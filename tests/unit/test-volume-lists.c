/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-lists.c - a client dies while it changes a volume's list of
 * members, so that only some servers have the new list.  A later client reads
 * the last write, or is refused.  When all servers are back, nothing is lost.
 */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "meta/meta_log.h"
#include "meta/membership.h"
#include "volume-fixture.h"

#define EXTENTS COPIES_EXTENTS
#define SIZE COPIES_SIZE
#define PATIENCE_MS 20000

enum { A, B, C, D }; /* servers */

/* The bytes that each extent may hold: the last acknowledged one, and those of
 * writes that failed since.
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

/* Check that each extent holds one of its bytes.  all: no read may fail. */
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

/* Attach without the servers that are cut.  Nothing is resynced. */
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

/* Attach with all servers: nothing is lost. */
static void
nothing_is_lost (void)
{
  must (copies_attach (0, false));
  check (true);
}

static unsigned
server_of (unsigned i, unsigned copy)
{
  return atomic_load (&fp_copies_get (v->extents, i, copy)->server);
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

/* Return true if an extent has one copy on A or B and the other on C or D.  If
 * C and D are away, that must be recorded.
 */
static bool
some_is_mixed (void)
{
  for (unsigned i = 0; i < EXTENTS; i++)
    if ((server_of (i, 0) <= B) != (server_of (i, 1) <= B))
      return true;
  return false;
}

/* Create a volume on nr servers, and detach it.  Some extent has its first
 * copy on server `first`, and its second one on `second`.  With four servers,
 * some extent is also mixed.
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
    found = find_extent (first, second) >= 0 && all_hold_some () &&
            (nr < 4 || some_is_mixed ());
    detach ();
  }
}

/* Set how the servers of this set react to a member list. */
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

/* Let a client die when only A has its first list, which names all servers. */
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

/* Let a client die when only A has its list without server `gone`.  The writes
 * may fail: they change nothing.
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

/* Only A has a list.  A client that does not see A begins with the same
 * version.  That second list is complete, and A's is not.
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

/* As above, but A's list has a higher version. */
static void
test_higher_version (void **state)
{
  (void) state;
  make (3, A, B);
  die_at_start ();
  fake_server_attached (servers[A], 1); /* as if by another such client */
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

/* Only A has a list of A and B.  A client must not go on with A alone, as half
 * of that list: B and C are a majority of the list before.
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

/* Only A has a list of three of the four servers, and two others go on. */
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

/* A is left out.  Only B has a list that takes A in again; C has the one
 * without A.  A client must not go on with C alone.  A, with an older list,
 * and B, with the newest, are a majority of both.
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

/* Only A has a list of A and B.  Only C and D have one of B, C and D, from a
 * client that did not see A.  Only B is current in both.  C and D alone are a
 * quorum of the second list, so the next client's first list names them beside
 * B.
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

/* Give this server alone a newer list than all others, with these current. */
static void
send_list (unsigned server, unsigned current)
{
  struct fp_volume_params p;

  copies_params (&p);
  p.copies = 0;
  must (fp_volume_probe (&p, &last_error));
  p.members.version = p.newest + 1;
  for (unsigned m = 0; m < nr_named; m++)
    p.members.members[m].current = current >> m & 1;
  fake_server_set_list (servers[server], &p.members);
}

/* Three servers have different lists, each with D and two others. */
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

/* Only A has a list of A and B, and only C has one of C and D.  No server is
 * current in both.  If A were away, the case would be clear.
 */
static void
test_passed_over (void **state)
{
  (void) state;
  make (4, A, B);
  send_list (A, 1u << A | 1u << B);
  send_list (C, 1u << C | 1u << D);
  must (copies_attach (0, false));
  /* A counts as away at the start.  Until it is heard, its extents are in
   * doubt.
   */
  AWAIT (status_of (A).state == FP_SERVER_UP);
  check (true);
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

  return fp_copies_in_sync (t, i) == 3 &&
         fp_meta_log_has_in_sync (v->meta_log, fp_copies_entry (t, i, 0)) &&
         fp_meta_log_has_in_sync (v->meta_log, fp_copies_entry (t, i, 1));
}

/* A has an old list of three servers.  Only B has a newer list of four, so B
 * may have had A's list before.  In fact B, C and D had another list, with
 * which C and D went on.  These are away now.
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

/* C and D are dead for good: their lists no longer count, whatever they are.
 */
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

/* A and D are left out.  B and C have a list that takes D in again; D does
 * not, so it is not complete.  A and D have an earlier list, but not the last
 * complete one: A is not believed.
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

/* A goes on alone, and B and C come back at once.  If one list took both in, a
 * client could attach with them and that list, without A, which may not have
 * it.
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

/* A goes on alone.  Servers are taken in one at a time: one that refuses the
 * map does not keep the other out.
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

/* While a list may be at some members but is not complete, no change of the
 * map is sent.
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

/* B misses a write, and its copy is rebuilt on D.  The next client does not
 * see D: so B's data is in doubt, and the copy is rebuilt on C.  Then B is
 * current again, and C is away.
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

static struct fp_error remove_error;

static void
remove_first (void *arg)
{
  *(int *) arg = fp_volume_remove_server (v, A, &remove_error);
}

/* Begin to remove A: only A hears of the list without it. */
static void
begin_to_leave (struct fp_thread *thread, int *result)
{
  uint64_t version;

  nr_named = 3;
  must (copies_attach (SIZE, false));
  must (fp_volume_drain (v, A, 0, &last_error));
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

/* Then the client dies.  The next one attaches with B and C, and also finds A
 * and the list without it.
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

/* A stays after all.  The others have heard of a list with A, but A has not.
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

/* A server comes back with a list that its client died before completing, and
 * that is newer than any of this client's.  It is taken in all the same.
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

/* A's list may be that of a client that has the volume now.  Until the members
 * confirm that our list counts, nothing is changed at A.
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

/* That holds for an old list on A, too.  The other client may go on without A,
 * but still have memory there.
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

/* B and C may have been another client's meanwhile, and B came back empty.  A
 * client with A and B must not go on with A alone, as half of A and C.
 */
static void
test_forgotten (void **state)
{
  uint64_t version;

  (void) state;
  make (3, A, B);
  must (attach ());
  fake_server_cut (servers[C]);
  fake_server_cut (servers[B]);
  pause_ms (5000); /* between the two cuts A and B may get a list without C */
  version = version_of (A);
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

/* A start that fails releases nothing: the next client may follow an earlier
 * list.
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

/* C misses a write, and its copy is rebuilt on B.  B forgets it, and the
 * client dies before that is recorded.  The map then allows C's old copy, too,
 * but A has the last write.
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

/* Let A miss a write, and then B, so that C alone has all of them. */
static void
leave_alone (void)
{
  fake_server_cut (servers[A]);
  assert_int_equal (write_all (2), EXTENTS);
  await_whole ();
  fake_server_cut (servers[B]);
  assert_int_equal (write_all (3), EXTENTS);
  AWAIT (fake_server_current (servers[C]) == 1);
}

/* Let C come back with nothing, and the client die.  Then attach. */
static void
lose_all (void)
{
  fake_server_cut (servers[C]);
  fake_server_forget (servers[C]);
  fake_server_revive (servers[C]);
  AWAIT (fake_server_current (servers[C]) == 1);
  copies_die ();
  fake_server_revive (servers[A]);
  fake_server_revive (servers[B]);
  must (attach ());
}

/* Two servers miss writes, and the third one, which alone has them, comes back
 * with nothing.  The map says that there are copies.  The old ones do not
 * count, now and for later clients.
 */
static void
test_lost_for_good (void **state)
{
  (void) state;
  make (3, A, B);
  must (copies_attach (0, false));
  leave_alone ();
  lose_all ();
  for (unsigned n = 0; n < 3; n++) {
    for (unsigned i = 0; i < EXTENTS; i++)
      assert_int_equal (get (i), -EIO);
    if (n < 2) {
      AWAIT (fake_server_current (servers[C]) == 3);
      copies_die ();
      must (attach ());
    }
  }
}

/* B comes back with nothing while A is away.  A's copies are not lost. */
static void
test_not_lost (void **state)
{
  (void) state;
  make (4, A, B);
  must (copies_attach (0, false));
  fake_server_cut (servers[A]);
  fake_server_cut (servers[B]);
  fake_server_forget (servers[B]);
  fake_server_revive (servers[B]);
  AWAIT (fake_server_current (servers[B]) == 3);
  copies_die ();
  fake_server_revive (servers[A]);
  must (attach ());
  check (true);
}

/* Servers of 0.1 have no lost bits: old data can be read then. */
static void
test_old_servers (void **state)
{
  bool old = false;

  (void) state;
  fake_features &= ~FP_FEATURE_LOST;
  make (3, A, B);
  must (copies_attach (0, false));
  leave_alone ();
  lose_all ();
  fake_features |= FP_FEATURE_LOST;
  for (unsigned i = 0; i < EXTENTS; i++)
    old |= get (i) >= 0;
  assert_true (old);
}

/* A read-only client knows that A's newer list does not count. */
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
    TEST (test_lost_for_good),
    TEST (test_not_lost),
    TEST (test_old_servers),
    TEST (test_reader),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
