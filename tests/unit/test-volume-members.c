/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-members.c - servers join and leave a volume with a name. */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "fake-ctl.h"
#include "heal/migrate.h"
#include "meta/meta_log.h"
#include "volume/volume_int.h"

#define SLAB (256 * 1024)
#define SLABS 64
#define NR_SERVERS 4
#define EXTENTS 40
#define SIZE ((uint64_t) EXTENTS * SLAB)

static struct fake_server *servers[NR_SERVERS];
static struct fp_volume *v;
static struct fp_error error;

static void
pause_ms (unsigned ms)
{
  struct timespec t = { .tv_sec = ms / 1000,
                        .tv_nsec = (long) (ms % 1000) * 1000000 };

  nanosleep (&t, NULL);
}

static struct fp_volume_params p;

/* Name nr servers from the first one on. */
static void
name_servers (unsigned first, unsigned nr)
{
  fp_volume_params_init (&p);
  p.nr_servers = nr;
  for (unsigned i = 0; i < nr; i++)
    p.servers[i] = *fake_server_addr (servers[first + i]);
  strcpy (p.name, "vol");
  p.size = SIZE;
  p.stripe.width = 1; /* extent i is at i * SLAB */
  p.transports = FP_TRANSPORT_FAKE;
  p.timeout_ms = 400;
  p.slots = 4;
  p.slot_size = 32 * 1024;
}

static void
remove_server (unsigned i)
{
  p.remove[p.nr_remove++] = *fake_server_addr (servers[i]);
}

static int
start (void)
{
  int r = fp_volume_probe (&p, &error);

  if (r == 0)
    r = fp_volume_start (&v, &p, &error);
  if (r < 0)
    fprintf (stderr, "%d: %s\n", r, error.text);
  return r;
}

static int
attach (unsigned first, unsigned nr)
{
  name_servers (first, nr);
  return start ();
}

static void
detach (void)
{
  fp_volume_stop (v, false);
  v = NULL;
  assert_int_equal (fp_fake_imports (), 0);
}

static int
setup (void **state)
{
  static const char *const names[] = { "a", "b", "c", "d" };

  (void) state;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    servers[i] = fake_server_new (names[i], SLAB, SLABS);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  fp_volume_stop (v, false);
  v = NULL;
  for (unsigned i = 0; i < NR_SERVERS; i++)
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

static unsigned
holder (uint64_t i)
{
  return atomic_load (&v->extents->p[i].server);
}

static unsigned
nr_servers (void)
{
  struct fp_volume_status s;

  fp_volume_status (v, &s);
  return s.nr_servers;
}

/* Wait until the server has a list with n current members. */
static void
await_current (unsigned server, unsigned n)
{
  uint64_t deadline = fp_deadline_in_ms (5000);

  while (fake_server_current (servers[server]) != n) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}

static unsigned at[20];

/* Create a volume on three servers, with extents on all of them. */
static void
make (void)
{
  assert_int_equal (attach (0, 3), 0);
  for (unsigned i = 0; i < 20; i++) {
    assert_int_equal (write_extent (i, "text."), 0);
    at[i] = holder (i);
  }
  detach ();
}

static void
expect_without (unsigned gone)
{
  for (unsigned i = 0; i < 20; i++) {
    if (at[i] == gone)
      expect_error (i);
    else
      expect (i, "text.");
  }
  expect (30, "");
}

static void
test_add (void **state)
{
  (void) state;
  assert_int_equal (attach (0, 1), 0);
  assert_int_equal (write_extent (0, "one.."), 0);
  detach ();
  assert_int_equal (attach (0, 3), -EINVAL);
  assert_non_null (strstr (error.text, "add=true"));
  name_servers (0, 3);
  p.add = true;
  strcpy (p.domains[2], "rack");
  assert_int_equal (start (), 0);
  assert_string_equal (v->p.domains[2], "rack");
  await_current (2, 3);
  for (unsigned i = 1; i < 20; i++)
    assert_int_equal (write_extent (i, "two.."), 0);
  assert_true (fake_server_labelled (servers[2]) > 0);
  detach ();
  assert_int_equal (attach (2, 1), 0);
  assert_int_equal (nr_servers (), 3);
  expect (0, "one..");
  for (unsigned i = 1; i < 20; i++)
    expect (i, "two..");
}

/* A server came back empty: its data stays lost, and all else is right. */
static void
test_came_back_empty (void **state)
{
  unsigned gone;

  (void) state;
  make ();
  gone = at[0];
  fake_server_forget (servers[gone]);
  assert_int_equal (attach (0, 3), -ENOTCONN);
  {
    char with[FP_ADDR_MAX + 32], addr[FP_ADDR_MAX + 1];

    name_servers (gone, 1);
    fp_addr_format (&p.servers[0], addr);
    snprintf (with, sizeof with, "give server=%s add=true", addr);
    assert_non_null (strstr (error.text, with));
  }
  p.add = true;
  assert_int_equal (start (), -ENOENT); /* this one knows no other */
  name_servers (0, 3);
  p.add = true;
  assert_int_equal (start (), 0);
  expect_without (gone);
  await_current (gone, 3);
  for (unsigned i = 31; i < 38; i++)
    assert_int_equal (write_extent (i, "late."), 0);
  detach ();
  for (unsigned s = 0; s < 3; s++) {
    assert_int_equal (attach (s, 1), 0);
    assert_int_equal (nr_servers (), 3);
    expect_without (gone);
    for (unsigned i = 31; i < 38; i++)
      expect (i, "late.");
    detach ();
  }
}

static void
test_remove_dead (void **state)
{
  unsigned gone, other;

  (void) state;
  make ();
  gone = at[0];
  other = (gone + 1) % 3;
  fake_server_cut (servers[gone]);
  name_servers (other, 1);
  remove_server (gone);
  assert_int_equal (start (), -ENOTCONN);
  assert_non_null (strstr (error.text, "would be lost"));
  p.degraded = true;
  assert_int_equal (start (), 0);
  expect_without (gone);
  assert_int_equal (write_extent (31, "late."), 0);
  /* The removed server comes back, too late. */
  fake_server_revive (servers[gone]);
  pause_ms (300);
  expect_without (gone);
  detach ();
  for (unsigned s = 0; s < 3; s++) {
    if (s == gone)
      continue;
    assert_int_equal (attach (s, 1), 0);
    assert_int_equal (nr_servers (), 2);
    expect_without (gone);
    expect (31, "late.");
    detach ();
  }
  assert_int_equal (attach (gone, 1), -EINVAL);
  assert_non_null (strstr (error.text, "not one of the servers"));
  name_servers (0, 3);
  p.add = true;
  assert_int_equal (start (), -EEXIST);
  fake_server_forget (servers[gone]);
  assert_int_equal (start (), 0);
  await_current (gone, 3);
  expect_without (gone);
}

static void
test_remove_drained (void **state)
{
  (void) state;
  assert_int_equal (attach (0, 2), 0);
  for (unsigned i = 0; i < 20; i++)
    assert_int_equal (write_extent (i, "text."), 0);
  detach ();
  name_servers (0, 1);
  remove_server (1);
  assert_int_equal (start (), -ENOTEMPTY);
  assert_non_null (strstr (error.text, "drain"));
  name_servers (0, 1);
  remove_server (2);
  assert_int_equal (start (), -ENOENT);
  assert_int_equal (attach (0, 2), 0);
  for (unsigned i = 0; i < 20; i++)
    if (holder (i) == 1)
      assert_int_equal (fp_migrate_move (v->migrate, i, 0), 0);
  detach ();
  name_servers (0, 1);
  remove_server (1);
  assert_int_equal (start (), 0);
  for (unsigned i = 20; i < 30; i++)
    assert_int_equal (write_extent (i, "text."), 0);
  assert_int_equal (fake_server_labelled (servers[1]), 0);
  detach ();
  assert_int_equal (attach (1, 1), -EINVAL);
  fake_server_cut (servers[1]);
  assert_int_equal (attach (0, 1), 0);
  assert_int_equal (nr_servers (), 1);
  for (unsigned i = 0; i < 30; i++)
    expect (i, "text.");
}

/* Too few of the servers that know the list would be left. */
static void
test_refused (void **state)
{
  (void) state;
  make ();
  fake_server_cut (servers[1]);
  fake_server_cut (servers[2]);
  name_servers (0, 1);
  p.degraded = true;
  remove_server (1);
  assert_int_equal (start (), -ENOTCONN);
  remove_server (2);
  assert_int_equal (start (), -EROFS);
  fake_server_revive (servers[1]);
  fake_server_revive (servers[2]);
  assert_int_equal (attach (0, 1), 0);
  expect_without (3);
}

/* The removed server may have had newer data than the others. */
static void
test_doubt (void **state)
{
  uint64_t open = UINT64_C (1) << 63;
  unsigned gone, other, slab = SLABS - 1;

  (void) state;
  make ();
  gone = at[0];
  other = (gone + 1) % 3;
  fake_server_plant (servers[other], slab, 0, open | 1);
  fake_server_cut (servers[gone]);
  name_servers (other, 1);
  remove_server (gone);
  p.degraded = true;
  assert_int_equal (start (), 0);
  expect_without (gone);
  assert_int_equal (fake_server_generation (servers[other], 0), 0);
  detach ();
  assert_int_equal (attach (other, 1), 0);
  expect_without (gone);
}

/* Attach with force=true: `gone` is removed as dead. */
static int
force (unsigned stays, unsigned gone)
{
  name_servers (stays, 1);
  remove_server (gone);
  p.force = true;
  return start ();
}

/* One of two servers is dead, and the other one cannot know what it missed.
 * Extents that the dead one may have had are errors: never zeros, never older
 * data.
 */
static void
test_forced (void **state)
{
  uint64_t version;
  unsigned stays, gone;

  (void) state;
  assert_int_equal (attach (0, 2), 0);
  for (unsigned i = 0; i < 20; i++) {
    assert_int_equal (write_extent (i, "text."), 0);
    at[i] = holder (i);
  }
  /* The server that stays misses writes, and extents are created without it.
   */
  gone = at[0];
  stays = 1 - gone;
  fake_server_cut (servers[stays]);
  assert_int_equal (write_extent (25, "newer"), 0);
  await_current (gone, 1);
  assert_int_equal (write_extent (0, "newer"), 0);
  detach ();
  version = fake_server_version (servers[gone]);
  fake_server_cut (servers[gone]);
  fake_server_revive (servers[stays]);
  name_servers (stays, 1);
  remove_server (gone);
  p.degraded = true;
  assert_int_equal (start (), -EROFS);
  assert_non_null (strstr (error.text, "force=true"));
  assert_int_equal (force (stays, gone), 0);
  assert_true (fake_server_version (servers[stays]) > version + 1000000);
  for (unsigned n = 0; n < 2; n++) {
    for (unsigned i = 0; i < 20; i++) {
      if (at[i] == gone)
        expect_error (i);
      else
        expect (i, "text.");
    }
    expect_error (25);
    expect_error (30);
    detach ();
    /* Servers can be added again. */
    name_servers (stays, 1);
    p.nr_servers = 2;
    p.servers[1] = *fake_server_addr (servers[2]);
    p.add = true;
    assert_int_equal (start (), 0);
    await_current (2, 2);
  }
  detach ();
  /* That server was not dead after all: its data does not count. */
  fake_server_revive (servers[gone]);
  assert_int_equal (attach (gone, 1), -EINVAL);
  name_servers (gone, 1);
  p.add = true;
  assert_int_equal (start (), -EEXIST);
  name_servers (0, 2);
  p.add = true;
  assert_int_equal (start (), -EEXIST);
  assert_int_equal (attach (2, 1), 0);
  expect_error (0);
  expect_error (25);
}

/* Force is refused if a further server is away, or if the removed one answers
 * and has extents.
 */
static void
test_forced_refused (void **state)
{
  unsigned gone = 0;

  (void) state;
  make ();
  fake_server_cut (servers[gone]);
  fake_server_cut (servers[1]);
  assert_int_equal (force (2, gone), -ENOTCONN);
  fake_server_revive (servers[gone]);
  fake_server_revive (servers[1]);
  /* The removed server answers, and has extents. */
  assert_int_equal (force (2, gone), -ENOTEMPTY);
  assert_int_equal (attach (0, 3), 0);
  fake_server_cut (servers[2]);
  assert_int_equal (write_extent (25, "newer"), 0);
  await_current (0, 2);
  detach ();
  fake_server_cut (servers[0]);
  fake_server_cut (servers[1]);
  fake_server_revive (servers[2]);
  name_servers (2, 1);
  remove_server (0);
  remove_server (1);
  p.force = true;
  /* Server 2 does not know that it was left out. */
  assert_int_equal (start (), 0);
  expect_error (25);
  expect_error (30);
}

static void
await_state (unsigned i, enum fp_server_state state)
{
  uint64_t deadline = fp_deadline_in_ms (5000);
  struct fp_server_status s;

  do {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
    fp_volume_server_status (v, i, &s);
  } while (s.state != state);
}

/* Wait until server i, at place i, is closed to new extents, or open. */
static void
await_closed (unsigned i, bool closed)
{
  uint64_t deadline = fp_deadline_in_ms (5000);

  while (fp_peers_gets_none (&v->peers, i) != closed) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}

/* A server that no list names gets no extents, as the next client would not
 * find them.  Here the server restarted empty while too few others were up to
 * record its new identity.
 */
static void
test_not_listed (void **state)
{
  (void) state;
  assert_int_equal (attach (0, 4), 0);
  for (unsigned i = 0; i < 20; i++)
    assert_int_equal (write_extent (i, "text."), 0);
  for (unsigned i = 0; i < 20; i++)
    if (i == 0 ? holder (i) != 0 : holder (i) == 3)
      assert_int_equal (fp_migrate_move (v->migrate, i, 0), 0);
  for (unsigned i = 1; i < 4; i++)
    fake_server_cut (servers[i]);
  await_state (3, FP_SERVER_DOWN);
  fake_server_forget (servers[3]);
  fake_server_revive (servers[3]);
  await_state (3, FP_SERVER_UP);
  assert_int_equal (fp_migrate_move (v->migrate, 0, 3), -ENOSPC);
  assert_int_equal (fp_volume_drain (v, 0, 0, &error), -ENOSPC);
  expect (0, "text.");
  /* The others have the list now, so the next client can find the server. */
  fake_server_revive (servers[1]);
  fake_server_revive (servers[2]);
  await_closed (3, false);
  assert_int_equal (fp_migrate_move (v->migrate, 0, 3), 0);
  detach ();
  assert_int_equal (attach (1, 1), 0);
  assert_int_equal (nr_servers (), 4);
  for (unsigned i = 0; i < 20; i++)
    expect (i, "text.");
}

/* A removal failed, and the other servers may have a list without this one.
 * It gets no extents until they have one with it.
 */
static void
test_does_not_leave (void **state)
{
  (void) state;
  make ();
  assert_int_equal (attach (0, 3), 0);
  for (unsigned i = 0; i < 20; i++)
    if (holder (i) == 2)
      assert_int_equal (fp_migrate_move (v->migrate, i, 0), 0);
  for (unsigned i = 0; i < 2; i++)
    fake_server_silence (servers[i], FAKE_MUTE, FP_MSG_MEMBERS);
  assert_int_equal (fp_volume_remove_server (v, 2, &error), -ENOTCONN);
  assert_true (fp_peers_gets_none (&v->peers, 2));
  for (unsigned i = 0; i < 2; i++)
    fake_server_silence (servers[i], FAKE_SPEAKS, 0);
  await_closed (2, false);
  assert_int_equal (write_extent (21, "text."), 0); /* all answer again */
  if (holder (21) != 2)
    assert_int_equal (fp_migrate_move (v->migrate, 21, 2), 0);
  detach ();
  assert_int_equal (attach (0, 1), 0);
  assert_int_equal (nr_servers (), 3);
  expect (21, "text.");
}

/* Only one server heard of a list.  It must not win over a later one that is
 * complete, even if most servers that it names come back.
 */
static void
test_unheard_list (void **state)
{
  struct fp_meta_log_status s;
  uint64_t deadline = fp_deadline_in_ms (10000), version;
  bool written = false;
  char text[6];

  (void) state;
  assert_int_equal (attach (0, 4), 0);
  assert_int_equal (write_extent (0, "first"), 0);
  fp_meta_log_status (v->meta_log, &s);
  version = s.version;
  fake_server_silence (servers[0], FAKE_MUTE, FP_MSG_MEMBERS);
  fake_server_silence (servers[1], FAKE_DEAF, FP_MSG_MEMBERS);
  fake_server_silence (servers[2], FAKE_DEAF, FP_MSG_MEMBERS);
  fake_server_cut (servers[3]);
  (void) write_extent (1, "other"); /* cannot be recorded */
  while (fake_server_version (servers[0]) <= version) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
  fake_server_cut (servers[0]);
  fake_server_cut (servers[1]);
  fake_server_silence (servers[2], FAKE_SPEAKS, 0);
  fake_server_revive (servers[3]);
  for (unsigned i = 0; i < 4 && !written; i++)
    written = write_extent (2, "newer") == 0;
  detach ();
  for (unsigned i = 0; i < 4; i++) {
    fake_server_silence (servers[i], FAKE_SPEAKS, 0);
    if (i < 2)
      fake_server_revive (servers[i]);
    else
      fake_server_cut (servers[i]);
  }
  name_servers (0, 2);
  p.degraded = true;
  assert_int_equal (start (), 0);
  if (written)
    assert_int_equal (read_extent (2, text), -EIO);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
    TEST (test_add),          TEST (test_came_back_empty),
    TEST (test_remove_dead),  TEST (test_remove_drained),
    TEST (test_refused),      TEST (test_doubt),
    TEST (test_forced),       TEST (test_forced_refused),
    TEST (test_not_listed),   TEST (test_does_not_leave),
    TEST (test_unheard_list),
  };

  if (getenv ("FARPAGE_TEST") != NULL)
    cmocka_set_test_filter (getenv ("FARPAGE_TEST"));
  return cmocka_run_group_tests (tests, NULL, NULL);
}
