/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-doubt.c - attach a volume with a name without the server that
 * has the newest data of an extent, but with one that has older data.  Reads
 * fail, and never return the older data.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "fake-ctl.h"
#include "heal/migrate.h"
#include "volume/volume_int.h"

#define SLAB (256 * 1024)
#define SLABS 64
#define MAX_SERVERS 3
#define EXTENTS 40
#define SIZE ((uint64_t) EXTENTS * SLAB)

static struct fake_server *servers[MAX_SERVERS];
static unsigned nr_servers;
static struct fp_volume *v;
static struct fp_error error;

static void
pause_ms (unsigned ms)
{
  struct timespec t = { .tv_sec = ms / 1000,
                        .tv_nsec = (long) (ms % 1000) * 1000000 };

  nanosleep (&t, NULL);
}

static void
params_of (struct fp_volume_params *p, unsigned first, unsigned nr)
{
  fp_volume_params_init (p);
  p->nr_servers = nr;
  for (unsigned i = 0; i < nr; i++)
    p->servers[i] = *fake_server_addr (servers[first + i]);
  strcpy (p->name, "vol");
  p->size = SIZE;
  p->stripe.width = 1; /* extent i is at i * SLAB */
  p->transports = FP_TRANSPORT_FAKE;
  p->timeout_ms = 400;
  p->slots = 4;
  p->slot_size = 32 * 1024;
}

static int
start (struct fp_volume_params *p)
{
  int r = fp_volume_probe (p, &error);

  if (r == 0)
    r = fp_volume_start (&v, p, &error);
  if (r < 0)
    fprintf (stderr, "%d: %s\n", r, error.text);
  return r;
}

static int
attach (unsigned first, unsigned nr, bool degraded)
{
  struct fp_volume_params p;

  params_of (&p, first, nr);
  p.degraded = degraded;
  return start (&p);
}

static void
detach (void)
{
  fp_volume_stop (v, false);
  v = NULL;
  assert_int_equal (fp_fake_imports (), 0);
}

static void
setup (unsigned nr)
{
  static const char *const names[] = { "a", "b", "c" };

  nr_servers = nr;
  for (unsigned i = 0; i < nr; i++)
    servers[i] = fake_server_new (names[i], SLAB, SLABS);
}

static int
setup_two (void **state)
{
  (void) state;
  setup (2);
  return 0;
}

static int
setup_three (void **state)
{
  (void) state;
  setup (3);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
  fp_volume_stop (v, false);
  v = NULL;
  for (unsigned i = 0; i < nr_servers; i++)
    fake_server_free (servers[i]);
  return 0;
}

static int
write_extent (uint64_t i, const char *text)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  int r = fp_lane_write (lane, text, 5, i * SLAB);

  fp_volume_lane_put (lane);
  return r;
}

static int
read_extent (uint64_t i, char text[6])
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  int r = fp_lane_read (lane, text, 5, i * SLAB);

  text[5] = '\0';
  fp_volume_lane_put (lane);
  return r;
}

static void
expect (uint64_t i, const char *text)
{
  char found[6];

  assert_int_equal (read_extent (i, found), 0);
  assert_string_equal (found, text);
}

static void
expect_error (uint64_t i)
{
  char found[6];

  assert_int_equal (read_extent (i, found), -EIO);
  assert_int_equal (write_extent (i, "no..."), -EIO);
}

static void
expect_soon (uint64_t i, const char *text)
{
  uint64_t deadline = fp_deadline_in_ms (5000);
  char found[6];

  while (read_extent (i, found) < 0)
    assert_false (fp_deadline_passed (deadline));
  assert_string_equal (found, text);
}

static unsigned
holder (uint64_t i)
{
  return atomic_load (&v->extents->p[i].server);
}

static bool
is_open (unsigned server, uint64_t i)
{
  return fake_server_generation (servers[server], i) >> 63 != 0;
}

struct move {
  struct fp_thread thread;
  unsigned to;
  int result;
};

static void
do_move (void *arg)
{
  struct move *m = arg;

  m->result = fp_migrate_move (v->migrate, 0, m->to);
}

/* Migrate extent 0 without its old server hearing of it, then write to it at
 * the new one.  Return the old server.
 */
static unsigned
move_unheard (void)
{
  uint64_t deadline = fp_deadline_in_ms (5000);
  struct move m;
  unsigned from;

  assert_int_equal (attach (0, nr_servers, false), 0);
  assert_int_equal (write_extent (0, "old.."), 0);
  from = holder (0);
  m.to = (from + 1) % nr_servers;
  fake_server_silence (servers[from], FAKE_DEAF, FP_MSG_RELEASE);
  assert_int_equal (fp_thread_create (&m.thread, "move", do_move, &m), 0);
  while (holder (0) != m.to)
    assert_false (fp_deadline_passed (deadline));
  fake_server_cut (servers[from]);
  assert_int_equal (fp_thread_join (&m.thread), 0);
  assert_int_equal (m.result, 0);
  fake_server_silence (servers[from], FAKE_SPEAKS, 0);
  assert_int_equal (write_extent (0, "new.."), 0);
  detach ();
  assert_int_not_equal (fake_server_generation (servers[from], 0), 0);
  return from;
}

/* With all servers, the last write is read, and no extent is in doubt. */
static void
check_whole (void)
{
  for (unsigned i = 0; i < nr_servers; i++)
    fake_server_revive (servers[i]);
  assert_int_equal (attach (0, nr_servers, false), 0);
  expect (0, "new..");
  assert_false (is_open (holder (0), 0));
  assert_int_equal (write_extent (0, "more."), 0);
  detach ();
}

static void
test_moved (void **state)
{
  unsigned from, to;

  (void) state;
  from = move_unheard ();
  to = (from + 1) % nr_servers;
  fake_server_cut (servers[to]);
  fake_server_revive (servers[from]);
  /* The first attach makes `from` a current member again. */
  for (unsigned n = 0; n < 3; n++) {
    assert_int_equal (attach (from, 1, true), 0);
    expect_error (0);
    pause_ms (200);
    expect_error (0);
    detach ();
  }
  check_whole ();
}

/* Both servers are away at the attach, and the old one returns first. */
static void
test_moved_late (void **state)
{
  unsigned from, to;

  (void) state;
  from = move_unheard ();
  to = (from + 1) % nr_servers;
  fake_server_cut (servers[to]);
  assert_int_equal (attach ((to + 1) % 3, 1, true), 0);
  expect_error (0);
  fake_server_revive (servers[from]);
  pause_ms (500);
  expect_error (0);
  fake_server_revive (servers[to]);
  expect_soon (0, "new..");
  detach ();
  check_whole ();
}

/* The answer to LABEL is lost in a migration, and the extent stays where it
 * was.
 */
static void
test_stayed (void **state)
{
  unsigned from, to;

  (void) state;
  assert_int_equal (attach (0, nr_servers, false), 0);
  assert_int_equal (write_extent (0, "old.."), 0);
  from = holder (0);
  to = (from + 1) % nr_servers;
  fake_server_die_of_label (servers[to], true);
  assert_true (fp_migrate_move (v->migrate, 0, to) < 0);
  fake_server_die_of_label (servers[to], false);
  assert_int_equal (write_extent (0, "new.."), 0);
  assert_false (is_open (from, 0));
  detach ();
  assert_int_not_equal (fake_server_generation (servers[to], 0), 0);
  fake_server_cut (servers[from]);
  fake_server_revive (servers[to]);
  assert_int_equal (attach (to, 1, true), 0);
  expect_error (0);
  detach ();
  check_whole ();
}

/* A new extent is labelled at a silent server, and used at another one. */
static void
test_withdrawn (void **state)
{
  unsigned n = 0;

  (void) state;
  assert_int_equal (attach (0, nr_servers, false), 0);
  fake_server_silence (servers[0], FAKE_MUTE, FP_MSG_LABEL);
  while (fake_server_labelled (servers[0]) == 0) {
    assert_true (n < 30);
    assert_int_equal (write_extent (n++, "new.."), 0);
  }
  fake_server_cut (servers[0]);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  for (unsigned i = 0; i < n; i++) {
    unsigned other = holder (i);

    if (fake_server_generation (servers[0], i) == 0)
      continue;
    assert_int_not_equal (other, 0);
    expect (i, "new..");
    detach ();
    fake_server_revive (servers[0]);
    fake_server_cut (servers[other]);
    for (unsigned k = 0; k < 2; k++) {
      assert_int_equal (attach (0, 1, true), 0);
      expect_error (i);
      pause_ms (200);
      detach ();
    }
    fake_server_revive (servers[other]);
    assert_int_equal (attach (0, nr_servers, false), 0);
    expect (i, "new..");
    return;
  }
  fail ();
}

/* The client dies during a migration. */
static void
test_walk_death (void **state)
{
  bool fired = true;
  unsigned n;

  (void) state;
  for (n = 1; fired; n++) {
    struct move m;
    unsigned from;

    setup (2);
    assert_int_equal (attach (0, 2, false), 0);
    assert_int_equal (write_extent (0, "new.."), 0);
    from = holder (0);
    m.to = !from;
    pause_ms (20); /* until grants ahead of need are there */
    fake_ctl_fault_at (n, FAKE_CTL_DIE);
    assert_int_equal (fp_thread_create (&m.thread, "move", do_move, &m), 0);
    pause_ms (150);
    fired = fake_ctl_fault_fired ();
    fp_migrate_stop (v->migrate);
    assert_int_equal (fp_thread_join (&m.thread), 0);
    fp_volume_stop (v, false);
    v = NULL;
    fake_ctl_fault_at (0, FAKE_CTL_DIE);
    assert_int_equal (attach (0, 2, false), 0);
    expect (0, "new..");
    assert_false (is_open (holder (0), 0));
    from = holder (0);
    detach ();
    fake_server_cut (servers[!from]);
    assert_int_equal (attach (from, 1, true), 0);
    expect (0, "new..");
    teardown (NULL);
    assert_true (n < 100);
  }
  assert_true (n > 4);
}

/* Once the server has been told that all extents may exist, give it a newer
 * list.
 */
static void
tell_newer (void *arg)
{
  const struct fp_members newer = { .version = UINT64_C (1) << 40,
                                    .count = 1 };
  uint64_t deadline = fp_deadline_in_ms (5000);
  struct fake_server *s = arg;

  while (fake_server_mapped (s) < EXTENTS && !fp_deadline_passed (deadline))
    pause_ms (5);
  fake_server_set_list (s, &newer);
  fake_server_silence (s, FAKE_SPEAKS, 0);
}

/* An attach with force=true fails halfway.  The error also says what it has
 * already changed.
 */
static void
test_forced_in_vain (void **state)
{
  struct fp_volume_params p;
  struct fp_thread other;

  (void) state;
  assert_int_equal (attach (0, 2, false), 0);
  assert_int_equal (write_extent (0, "text."), 0);
  detach ();
  fake_server_cut (servers[1]);
  params_of (&p, 0, 1);
  p.nr_remove = 1;
  p.remove[0] = *fake_server_addr (servers[1]);
  p.force = true;
  fake_server_silence (servers[0], FAKE_DEAF, FP_MSG_MEMBERS);
  assert_int_equal (fp_thread_create (&other, "other", tell_newer, servers[0]),
                    0);
  assert_int_equal (start (&p), -EAGAIN);
  assert_int_equal (fp_thread_join (&other), 0);
  assert_int_equal (fake_server_mapped (servers[0]), EXTENTS);
  assert_non_null (strstr (error.text, "permanently"));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
#define TEST(t, n) cmocka_unit_test_setup_teardown (t, setup_##n, teardown)
    TEST (test_moved, two),
    TEST (test_moved, three),
    TEST (test_moved_late, three),
    TEST (test_stayed, two),
    TEST (test_stayed, three),
    TEST (test_withdrawn, two),
    TEST (test_withdrawn, three),
    TEST (test_forced_in_vain, two),
    cmocka_unit_test (test_walk_death),
  };

  if (getenv ("FARPAGE_TEST") != NULL)
    cmocka_set_test_filter (getenv ("FARPAGE_TEST"));
  return cmocka_run_group_tests (tests, NULL, NULL);
}
