/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-readonly.c - volumes that are attached read-only.  Reads return
 * what was written last, or fail if that is not certain.  Nothing is changed
 * at any server: the fake ones abort if asked to.
 */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "volume-fixture.h"
#include "volume/volume_int.h"

#define EXTENTS COPIES_EXTENTS
#define SIZE COPIES_SIZE

static int
setup (void **state)
{
  (void) copies_setup (state);
  nr_copies = 1;
  nr_named = 2;
  return 0;
}

static int
attach_read_only (bool without)
{
  struct fp_volume_params p;

  copies_params (&p);
  p.copies = 0;
  p.degraded = without;
  p.read_only = true;
  return fixture_start (&p);
}

static void
await_up (unsigned server)
{
  uint64_t end = fp_deadline_in_ms (20000);
  struct fp_server_status s;

  do {
    assert_false (fp_deadline_passed (end));
    pause_ms (2);
    fp_volume_server_status (v, server, &s);
  } while (s.state != FP_SERVER_UP);
}

static void
write_some_extents (unsigned char byte)
{
  must (copies_attach (fake_server_knows (servers[0]) ? 0 : SIZE, false));
  for (uint64_t i = 0; i + 1 < EXTENTS; i++)
    assert_int_equal (put (i, (unsigned char) (byte + i)), 0);
  detach ();
}

static void
holds (unsigned char byte)
{
  for (uint64_t i = 0; i + 1 < EXTENTS; i++)
    assert_int_equal (get (i), (unsigned char) (byte + i));
  assert_int_equal (get (EXTENTS - 1), 0);
}

static void
cannot_be_changed (void)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct fp_volume_status s;
  struct fp_io io = { .kind = FP_IO_WRITE,
                      .length = 512,
                      .buf = last_error.text };

  assert_int_equal (put (0, 9), -EROFS);
  assert_int_equal (put (EXTENTS - 1, 9), -EROFS);
  assert_int_equal (fp_lane_zero (lane, COPIES_SLAB, 0, true), -EROFS);
  assert_int_equal (fp_lane_zero (lane, 4096, 0, false), -EROFS);
  assert_int_equal (fp_lane_flush (lane), 0);
  assert_int_equal (fp_lane_submit (lane, &io), -EROFS);
  assert_null (fp_lane_poll (lane, false));
  fp_volume_lane_put (lane);
  assert_int_equal (fp_volume_drain (v, 0, 0, &last_error), -EROFS);
  assert_non_null (strstr (last_error.text, "readonly=true"));
  assert_int_equal (fp_volume_check (v, true, 0, &last_error), -EROFS);
  fp_volume_status (v, &s);
  assert_true (s.read_only);
}

static void
test_reads (void **state)
{
  uint64_t version, mapped;

  (void) state;
  write_some_extents (1);
  version = fake_server_version (servers[0]);
  mapped = fake_server_mapped (servers[0]);
  /* Some client left a label that is no extent, as its answer was lost. */
  fake_server_plant (servers[1], COPIES_SLABS - 1, EXTENTS - 1, 1);
  for (unsigned n = 0; n < 2; n++) {
    must (attach_read_only (false));
    assert_true (fake_server_is_read (servers[0]));
    assert_true (fake_server_is_read (servers[1]));
    holds (1);
    cannot_be_changed ();
    holds (1);
    assert_int_not_equal (fake_server_generation (servers[1], EXTENTS - 1), 0);
    detach ();
  }
  assert_int_equal (fake_server_version (servers[0]), version);
  assert_int_equal (fake_server_mapped (servers[0]), mapped);
  write_some_extents (2);
  must (attach_read_only (false));
  holds (2);
}

static void
test_makes_none (void **state)
{
  struct fp_volume_params p;

  (void) state;
  assert_int_equal (attach_read_only (false), -ENOENT);
  assert_non_null (strstr (last_error.text, "readonly=true creates none"));
  assert_false (fake_server_knows (servers[0]));
  copies_params (&p);
  p.size = SIZE;
  p.slab_size = COPIES_SLAB;
  p.read_only = true;
  assert_int_equal (fp_volume_start (&v, &p, &last_error), -EINVAL);
}

/* While a connection is down, another client opens the volume, but does not
 * write.
 */
static void
test_comes_back (void **state)
{
  (void) state;
  write_some_extents (1);
  must (attach_read_only (false));
  holds (1);
  fake_server_cut (servers[1]);
  fake_server_visit (servers[1]);
  fake_server_revive (servers[1]);
  await_up (1);
  holds (1);
  cannot_be_changed ();
}

/* Wait until the volume is fenced and all reads fail.  No other copy is read
 * instead, as it may be old.
 */
static void
await_taken (void)
{
  uint64_t end = fp_deadline_in_ms (20000);
  struct fp_volume_status s;

  do {
    assert_false (fp_deadline_passed (end));
    pause_ms (2);
    fp_volume_status (v, &s);
  } while (!s.fenced);
  assert_non_null (strstr (s.fenced_by, "has written the volume since"));
  /* The status shows it slightly before each extent fails. */
  for (uint64_t i = 0; i < EXTENTS; i++) {
    while (get (i) != -EIO) {
      assert_false (fp_deadline_passed (end));
      pause_ms (2);
    }
  }
}

/* A writer has two of three servers, and keeps them.  The third one can still
 * be read, but has old copies.
 */
static void
test_written_elsewhere (void **state)
{
  (void) state;
  nr_copies = 2;
  nr_named = 3;
  write_some_extents (1);
  must (attach_read_only (false));
  holds (1);
  for (unsigned i = 1; i < 3; i++) {
    fake_server_cut (servers[i]);
    fake_server_newer_list (servers[i]);
  }
  pause_ms (100);
  fake_server_hold (servers[1]);
  fake_server_revive (servers[1]); /* one server is enough to tell */
  await_taken ();
}

/* Another client has the volume open read-only: that means nothing. */
static void
test_held_elsewhere (void **state)
{
  struct fp_volume_status s;

  (void) state;
  nr_copies = 2;
  nr_named = 3;
  write_some_extents (1);
  must (attach_read_only (false));
  fake_server_cut (servers[1]);
  fake_server_hold (servers[1]);
  fake_server_revive (servers[1]);
  for (unsigned n = 0; n < 10; n++) {
    pause_ms (50);
    holds (1);
  }
  fp_volume_status (v, &s);
  assert_false (s.fenced);
}

/* A server that was away at the attach has a newer list. */
static void
test_written_before (void **state)
{
  (void) state;
  nr_copies = 2;
  nr_named = 3;
  write_some_extents (1);
  fake_server_cut (servers[1]);
  must (attach_read_only (true));
  fake_server_newer_list (servers[1]);
  fake_server_revive (servers[1]);
  await_taken ();
}

/* Another client has written: the extents known here are old. */
static void
test_written_meanwhile (void **state)
{
  uint64_t end = fp_deadline_in_ms (20000);
  struct fp_volume_status s;

  (void) state;
  write_some_extents (1);
  must (attach_read_only (false));
  holds (1);
  for (unsigned i = 0; i < 2; i++)
    fake_server_cut (servers[i]);
  for (unsigned i = 0; i < 2; i++) {
    fake_server_newer_list (servers[i]);
    fake_server_revive (servers[i]);
  }
  do {
    assert_false (fp_deadline_passed (end));
    for (uint64_t i = 0; i < EXTENTS; i++)
      assert_int_equal (get (i), -EIO);
    fp_volume_status (v, &s);
  } while (!s.fenced);
  assert_non_null (strstr (s.fenced_by, "has written the volume since"));
}

/* Without a data connection, the status gives the server's reason. */
static void
test_no_token (void **state)
{
  uint64_t end = fp_deadline_in_ms (20000);
  struct fp_server_status s;

  (void) state;
  write_some_extents (1);
  must (attach_read_only (false));
  fake_server_cut (servers[1]);
  fake_server_stingy (servers[1], true);
  fake_server_revive (servers[1]);
  do {
    assert_false (fp_deadline_passed (end));
    pause_ms (2);
    fp_volume_server_status (v, 1, &s);
  } while (strstr (s.why, "data connection: ") == NULL);
  assert_non_null (strstr (s.why, "too many lanes have one"));
}

/* One server is away: its extents are errors, and do not read as zeros. */
static void
test_degraded (void **state)
{
  unsigned good = 0;

  (void) state;
  write_some_extents (1);
  fake_server_cut (servers[1]);
  assert_int_equal (attach_read_only (false), -ENOTCONN);
  must (attach_read_only (true));
  for (uint64_t i = 0; i + 1 < EXTENTS; i++) {
    int r = get (i);

    assert_true (r == -EIO || r == 1 + (int) i);
    assert_int_equal (r != -EIO, fake_server_generation (servers[0], i) != 0);
    good += r != -EIO;
  }
  assert_true (good > 0 && good + 1 < EXTENTS);
}

static void
test_copies (void **state)
{
  uint64_t version;

  (void) state;
  nr_copies = 2;
  nr_named = 3;
  write_some_extents (1);
  version = fake_server_version (servers[0]);
  must (attach_read_only (false));
  holds (1);
  cannot_be_changed ();
  /* Reads go on without one server, and that is not recorded. */
  for (unsigned victim = 0; victim < 3; victim++) {
    fake_server_cut (servers[victim]);
    for (uint64_t i = 0; i + 1 < EXTENTS; i++)
      assert_int_equal (get (i), 1 + (int) i);
    pause_ms (300);
    fake_server_revive (servers[victim]);
    await_up (victim);
    holds (1);
  }
  detach ();
  assert_int_equal (fake_server_version (servers[0]), version);
  /* The next client finds all copies in sync. */
  must (copies_attach (0, false));
  assert_int_equal (degraded (), 0);
  holds (1);
}

/* After a crash copies may differ, and a read-only client cannot record which
 * one counts.
 */
static void
test_copies_not_left_in_order (void **state)
{
  (void) state;
  nr_copies = 2;
  nr_named = 3;
  must (copies_attach (SIZE, false));
  assert_int_equal (put (0, 1), 0);
  copies_die ();
  assert_int_equal (attach_read_only (false), -EROFS);
  assert_non_null (strstr (last_error.text, "was not detached cleanly"));
  must (copies_attach (0, false));
  await_whole ();
  detach ();
  must (attach_read_only (false));
  assert_int_equal (get (0), 1);
}

/* A stale copy is not read. */
static void
test_copies_stale (void **state)
{
  (void) state;
  nr_copies = 2;
  nr_named = 2;
  write_some_extents (1);
  must (copies_attach (0, false));
  fake_server_cut (servers[1]);
  for (uint64_t i = 0; i + 1 < EXTENTS; i++)
    assert_int_equal (put (i, (unsigned char) (20 + i)), 0);
  detach ();
  fake_server_revive (servers[1]);
  for (unsigned n = 0; n < 3; n++) {
    must (attach_read_only (false));
    holds (20);
    pause_ms (100);
    holds (20);
    assert_int_equal (degraded (), EXTENTS - 1);
    detach ();
  }
}

#define TEST(f)                                                               \
  {                                                                           \
#f, f, setup, fixture_down, NULL                                          \
  }

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_reads),
    TEST (test_makes_none),
    TEST (test_comes_back),
    TEST (test_written_meanwhile),
    TEST (test_written_elsewhere),
    TEST (test_held_elsewhere),
    TEST (test_written_before),
    TEST (test_no_token),
    TEST (test_degraded),
    TEST (test_copies),
    TEST (test_copies_not_left_in_order),
    TEST (test_copies_stale),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
