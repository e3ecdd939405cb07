/* SPDX-License-Identifier: BSD-3-Clause */
/* test-peers.c - the states of a server's place, and what peers tell the
 * layers above: peers.h.
 */

#include "unit.h"

#include <signal.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "engine/lane.h"
#include "volume-fixture.h"
#include "volume/volume_int.h"

/* ---- what peers tell ---- */

enum told { COMING_UP, UP, CLOSING, DOWN, COUNTED, PLACED, ANSWERED, NR_TOLD };

static _Atomic unsigned told[NR_TOLD];
static const struct fp_peer_ops *real;

/* Take the lock of each peer.  A peer that held its own would wait for itself.
 */
static void
call_back (struct fp_volume *of, enum told what)
{
  for (unsigned i = 0; i < atomic_load (&of->peers.nr); i++) {
    struct fp_server_status s;

    fp_peer_status (of->peers.at[i], &s);
  }
  atomic_fetch_add (&told[what], 1);
}

static void
coming_up (struct fp_volume *of, unsigned server, const struct fp_uuid *uuid,
           bool restarted)
{
  call_back (of, COMING_UP);
  real->coming_up (of, server, uuid, restarted);
}

static void
up (struct fp_volume *of)
{
  call_back (of, UP);
  real->up (of);
}

static void
closing (struct fp_volume *of, unsigned server)
{
  call_back (of, CLOSING);
  real->closing (of, server);
}

static void
down (struct fp_volume *of)
{
  call_back (of, DOWN);
  real->down (of);
}

static void
counted (struct fp_volume *of)
{
  call_back (of, COUNTED);
  real->counted (of);
}

static void
placed (struct fp_volume *of, const uint32_t *fresh, unsigned nr)
{
  call_back (of, PLACED);
  real->placed (of, fresh, nr);
}

static void
answered (struct fp_volume *of)
{
  call_back (of, ANSWERED);
  real->answered (of);
}

static void
await_state (enum fp_server_state state)
{
  struct fp_server_status s;

  do {
    pause_ms (10);
    fp_volume_server_status (v, 0, &s);
  } while (s.state != state);
}

static void
test_told_without_lock (void **state)
{
  struct fp_peer_ops ops = fp_volume_peer_ops;

  (void) state;
  alarm (60); /* only a hang gets there */
  must (copies_attach (COPIES_SIZE, false));
  real = v->peers.ops;
  ops.coming_up = coming_up;
  ops.up = up;
  ops.closing = closing;
  ops.down = down;
  ops.counted = counted;
  ops.placed = placed;
  ops.answered = answered;
  v->peers.ops = &ops;
  must (put (0, 'a'));
  fake_server_cut (servers[0]);
  await_state (FP_SERVER_DOWN);
  must (put (0, 'b'));
  fake_server_revive (servers[0]);
  await_state (FP_SERVER_UP);
  await_whole ();
  all_have (0, 'b');
  for (unsigned n = 0; n < NR_TOLD; n++)
    if (atomic_load (&told[n]) == 0)
      fail_msg ("%u was not told", n);
  detach ();
  alarm (0);
}

/* ---- places ---- */

static struct fp_peers peers;

static int
peers_setup (void **state)
{
  (void) state;
  peers = (struct fp_peers) { .nr = 2 };
  fp_peers_init (&peers);
  return 0;
}

static int
peers_teardown (void **state)
{
  (void) state;
  fp_peers_destroy (&peers);
  return 0;
}

static void
go (enum fp_place from, enum fp_place to)
{
  assert_true (fp_peers_move (&peers, 1, from, to));
  assert_int_equal (fp_peers_place (&peers, 1), to);
}

static void
test_join_and_leave (void **state)
{
  (void) state;
  go (FP_PLACE_FREE, FP_PLACE_CONNECTING);
  go (FP_PLACE_CONNECTING, FP_PLACE_JOINING);
  assert_false (fp_peers_is_open (&peers, 1));
  assert_true (fp_peers_must_be_empty (&peers, 1));
  go (FP_PLACE_JOINING, FP_PLACE_NEW);
  assert_true (fp_peers_is_open (&peers, 1));
  assert_false (fp_peers_must_be_empty (&peers, 1));
  go (FP_PLACE_NEW, FP_PLACE_MEMBER);
  assert_true (fp_peers_is_open (&peers, 1));
  atomic_store (&peers.drained, 2);
  assert_true (fp_peers_must_be_empty (&peers, 1));
  go (FP_PLACE_MEMBER, FP_PLACE_LEAVING);
  assert_false (fp_peers_is_open (&peers, 1));
  go (FP_PLACE_LEAVING, FP_PLACE_FREE);
  assert_int_equal (peers.open, 0);
}

static void
test_counting (void **state)
{
  (void) state;
  go (FP_PLACE_FREE, FP_PLACE_CONNECTING);
  go (FP_PLACE_CONNECTING, FP_PLACE_JOINING);
  go (FP_PLACE_JOINING, FP_PLACE_COUNTING);
  assert_int_equal (peers.counting, 2);
  assert_int_equal (peers.open, 0);
  go (FP_PLACE_COUNTING, FP_PLACE_MEMBER);
  assert_int_equal (peers.counting, 0);
  assert_int_equal (peers.open, 2);
  go (FP_PLACE_MEMBER, FP_PLACE_LEAVING);
  go (FP_PLACE_LEAVING, FP_PLACE_RECOUNTING);
  assert_int_equal (peers.counting, 2);
  assert_int_equal (peers.open, 0);
}

/* A move from another state than the present one changes nothing. */
static void
test_not_from (void **state)
{
  (void) state;
  go (FP_PLACE_FREE, FP_PLACE_MEMBER);
  assert_false (fp_peers_move (&peers, 1, FP_PLACE_NEW, FP_PLACE_LEAVING));
  assert_int_equal (fp_peers_place (&peers, 1), FP_PLACE_MEMBER);
  assert_int_equal (fp_peers_place (&peers, 0), FP_PLACE_FREE);
  assert_int_equal (peers.open, 2);
}

/* Return true if a child that makes this move is killed by the assertion. */
static bool
aborts (enum fp_place from, enum fp_place to)
{
  pid_t pid = fork ();
  int status;

  assert_int_not_equal (pid, -1);
  if (pid == 0) {
    (void) close (STDERR_FILENO);
    signal (SIGABRT, SIG_DFL);
    peers.place[1] = (uint8_t) from;
    (void) fp_peers_move (&peers, 1, from, to);
    _exit (0);
  }
  assert_int_equal (waitpid (pid, &status, 0), pid);
  return WIFSIGNALED (status) && WTERMSIG (status) == SIGABRT;
}

static void
test_illegal (void **state)
{
  (void) state;
  assert_true (aborts (FP_PLACE_FREE, FP_PLACE_JOINING));
  assert_true (aborts (FP_PLACE_JOINING, FP_PLACE_MEMBER));
  assert_true (aborts (FP_PLACE_COUNTING, FP_PLACE_FREE));
  assert_true (aborts (FP_PLACE_MEMBER, FP_PLACE_FREE));
  assert_true (aborts (FP_PLACE_LEAVING, FP_PLACE_JOINING));
  assert_false (aborts (FP_PLACE_LEAVING, FP_PLACE_FREE));
}

#define PLACE(t)                                                              \
  cmocka_unit_test_setup_teardown (t, peers_setup, peers_teardown)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_told_without_lock, copies_setup,
                                     fixture_down),
    PLACE (test_join_and_leave),
    PLACE (test_counting),
    PLACE (test_not_from),
    PLACE (test_illegal),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
