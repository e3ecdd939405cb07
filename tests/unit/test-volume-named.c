/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-named.c - volumes that outlive their client.  The next client
 * reads each acknowledged byte, or an error.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "meta/membership.h"
#include "volume-fixture.h"
#include "volume/volume_int.h"

#define SLAB (256 * 1024)
#define SLABS 64
#define NR_SERVERS 3
#define EXTENTS 70 /* more than one word of the map has bits for */
#define SIZE ((uint64_t) EXTENTS * SLAB)

/* Attach nr servers from the first one on.  size 0: the volume exists. */
static int
attach (unsigned first, unsigned nr, uint64_t size)
{
  struct fp_volume_params p;

  fixture_params (&p, first, nr);
  p.size = size;
  return fixture_start (&p);
}

static int
attach_degraded (unsigned first, unsigned nr)
{
  struct fp_volume_params p;

  fixture_params (&p, first, nr);
  p.degraded = true;
  return fixture_start (&p);
}

static int
setup (void **state)
{
  (void) state;
  fixture_up (NR_SERVERS, SLAB, SLABS);
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
trim_extent (uint64_t i)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  int r = fp_lane_zero (lane, SLAB, i * SLAB, true);

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
}

/* Return the server that has extent i. */
static unsigned
holder (uint64_t i)
{
  for (unsigned s = 0; s < NR_SERVERS; s++)
    if (fake_server_generation (servers[s], i) != 0)
      return s;
  fail ();
  return 0;
}

static unsigned
labelled (void)
{
  unsigned n = 0;

  for (unsigned s = 0; s < NR_SERVERS; s++)
    n += fake_server_labelled (servers[s]);
  return n;
}

static void
text_of (uint64_t i, char text[6])
{
  snprintf (text, 6, "t%04u", (unsigned) (i % 10000));
}

static void
write_all (unsigned first, unsigned end)
{
  char text[6];

  for (unsigned i = first; i < end; i++) {
    text_of (i, text);
    assert_int_equal (write_extent (i, text), 0);
  }
}

static void
expect_all (unsigned first, unsigned end)
{
  char text[6];

  for (unsigned i = first; i < end; i++) {
    text_of (i, text);
    expect (i, text);
  }
}

/* Wait until the server has the newest list, with n current members. */
static void
await_current (unsigned server, unsigned n)
{
  uint64_t deadline = fp_deadline_in_ms (5000);

  while (fake_server_current (servers[server]) != n ||
         fake_server_version (servers[server]) !=
             fake_server_version (servers[(server + 1) % NR_SERVERS])) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}

static void
await_state (unsigned server, enum fp_server_state state)
{
  uint64_t deadline = fp_deadline_in_ms (10000);
  struct fp_server_status s;

  for (;;) {
    fp_volume_server_status (v, server, &s);
    if (s.state == state)
      return;
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}

/* ---- a volume without trouble ---- */

static void
test_again (void **state)
{
  (void) state;
  assert_int_equal (attach (0, 3, 0), -ENOENT);
  assert_non_null (strstr (last_error.text, "size="));
  must (attach (0, 3, SIZE));
  assert_int_equal (fake_server_version (servers[0]), FP_MEMBERSHIP_ROUND);
  write_all (0, 66);
  expect (69, "");
  for (unsigned s = 0; s < NR_SERVERS; s++)
    assert_int_equal (fake_server_mapped (servers[s]), 66);
  assert_int_equal (trim_extent (3), 0);
  assert_int_equal (trim_extent (65), 0);
  detach ();
  for (unsigned s = 0; s < NR_SERVERS; s++) {
    must (attach (s, 1, s == 1 ? SIZE : 0));
    assert_int_equal (fp_volume_size (v), SIZE);
    expect_all (0, 3);
    expect (3, "");
    expect_all (4, 65);
    expect (65, "");
    expect (66, "");
    assert_int_equal (labelled (), 64);
    assert_int_equal (fake_server_version (servers[0]),
                      (2 + s) * FP_MEMBERSHIP_ROUND);
    detach ();
  }
  assert_int_equal (attach (0, 3, SIZE / 2), -EINVAL);
  assert_non_null (strstr (last_error.text, "18350080"));
  assert_non_null (strstr (last_error.text, "9175040"));
}

static void
test_one_server (void **state)
{
  (void) state;
  must (attach (0, 1, SIZE));
  write_all (0, 10);
  assert_int_equal (trim_extent (0), 0);
  assert_int_equal (fake_server_mapped (servers[0]), 9);
  detach ();
  must (attach (0, 1, 0));
  expect (0, "");
  expect_all (1, 10);
  detach ();
  assert_int_equal (attach (0, 2, 0), -EINVAL);
  assert_non_null (strstr (last_error.text, "not one of the servers"));
}

static void
test_no_name_no_message (void **state)
{
  struct fp_volume_params p;

  (void) state;
  fixture_params (&p, 0, 1);
  p.name[0] = '\0';
  p.size = SIZE;
  must (fixture_start (&p));
  write_all (0, 3);
  assert_int_equal (trim_extent (0), 0);
  assert_int_equal (fake_server_version (servers[0]), 0);
  assert_int_equal (fake_server_mapped (servers[0]), 0);
  fp_volume_stop (v, true);
  v = NULL;
  assert_int_equal (labelled (), 0);
}

/* A start that fails leaves nothing of the volume that it created. */
static void
test_failed_start (void **state)
{
  struct fp_volume_params p;

  (void) state;
  fixture_params (&p, 0, 3);
  p.size = SIZE;
  must (fp_volume_probe (&p, &last_error));
  fake_server_silence (servers[2], FAKE_DEAF, FP_MSG_LOOKUP);
  assert_true (fp_volume_start (&v, &p, &last_error) < 0);
  assert_non_null (strstr (last_error.text, "c"));
  fake_server_silence (servers[2], FAKE_SPEAKS, 0);
  assert_int_equal (attach (0, 2, 0), -ENOENT);
  must (attach (0, 2, SIZE));
}

/* ---- two clients ---- */

static void
test_busy (void **state)
{
  struct fp_volume *first;
  char text[6];

  (void) state;
  must (attach (0, 3, SIZE));
  write_all (0, 10);
  first = v;
  v = NULL;
  assert_int_equal (attach (0, 1, 0), -EBUSY);
  assert_non_null (strstr (last_error.text, "is attached to"));
  assert_non_null (strstr (last_error.text, "takeover"));
  {
    struct fp_volume_params p;
    struct fp_volume *second;
    uint64_t since;

    fixture_params (&p, 1, 1);
    p.takeover = true;
    must (fixture_start (&p));
    expect_all (0, 10);
    assert_int_equal (write_extent (0, "new.."), 0);
    assert_int_equal (write_extent (20, "new.."), 0);
    second = v;
    v = first;
    assert_int_equal (write_extent (0, "old.."), -EIO);
    since = fp_now_ns ();
    assert_int_equal (write_extent (30, "old.."), -EIO);
    assert_int_equal (read_extent (20, text), -EIO);
    assert_int_equal (read_extent (40, text), -EIO);
    assert_int_equal (trim_extent (1), -EIO);
    assert_int_equal (trim_extent (41), -EIO);
    /* These fail at once, without waiting. */
    assert_true (fp_now_ns () - since < 300 * FP_NS_PER_MS);
    v = second;
    pause_ms (300);
    fp_volume_stop (first, true);
    expect (0, "new..");
    expect (20, "new..");
    expect (30, "");
    expect_all (1, 10);
  }
}

static void
test_two_volumes (void **state)
{
  (void) state;
  must (attach (0, 1, SIZE));
  detach ();
  must (attach (1, 1, SIZE));
  detach ();
  assert_int_equal (attach (0, 3, 0), -EEXIST);
  assert_non_null (strstr (last_error.text, "two volumes"));
}

/* ---- servers that are away ---- */

static void
test_degraded (void **state)
{
  unsigned gone, at[30];

  (void) state;
  must (attach (0, 3, SIZE));
  write_all (0, 30);
  for (unsigned i = 0; i < 30; i++)
    at[i] = holder (i);
  detach ();
  gone = at[0];
  fake_server_cut (servers[gone]);
  assert_int_equal (attach ((gone + 1) % 3, 1, 0), -ENOTCONN);
  assert_non_null (strstr (last_error.text, "degraded=true"));
  must (attach_degraded ((gone + 1) % 3, 1));
  for (unsigned i = 0; i < 30; i++) {
    if (at[i] == gone)
      expect_error (i);
    else
      expect_all (i, i + 1);
  }
  for (unsigned i = 30; i < EXTENTS; i++)
    expect (i, "");
  /* Writes go on. */
  write_all (40, 50);
  assert_int_equal (fake_server_current (servers[(gone + 1) % 3]), 2);
  fake_server_revive (servers[gone]);
  await_current (gone, 3);
  expect_all (0, 30);
  expect_all (40, 50);
  write_all (50, 60);
  detach ();
  must (attach (gone, 1, 0));
  expect_all (0, 30);
  expect (30, "");
  expect_all (40, 60);
}

/* A server that comes late has a label that was never acknowledged.  The
 * extent has been created elsewhere since.
 */
static void
test_late_label (void **state)
{
  (void) state;
  must (attach (0, 3, SIZE));
  write_all (0, 30);
  detach ();
  fake_server_plant (servers[2], SLABS - 1, 50, (UINT64_C (1) << 32) + 1000);
  fake_server_cut (servers[2]);
  must (attach_degraded (0, 1));
  write_all (50, 51);
  fake_server_revive (servers[2]);
  await_current (2, 3);
  expect_all (50, 51);
  expect_all (0, 30);
  detach ();
  must (attach (2, 1, 0));
  expect_all (50, 51);
}

/* Attach the volume as often as only a supervisor would. */
static void
test_attached_often (void **state)
{
  (void) state;
  must (attach (0, 3, SIZE));
  write_all (0, 30);
  detach ();
  for (unsigned n = 0; n < 3; n++) {
    for (unsigned s = 0; s < NR_SERVERS; s++)
      fake_server_attached (servers[s], UINT64_C (1) << 19);
    must (attach (n, 1, 0));
    expect_all (0, 30 + n);
    write_all (30 + n, 31 + n);
    detach ();
    /* The last client left this label unacknowledged. */
    fake_server_plant (
        servers[2], SLABS - 1 - n, 50 + n,
        fp_membership_generation (fake_server_version (servers[2])) + 1000);
    fake_server_cut (servers[2]);
    must (attach_degraded (0, 1));
    write_all (50 + n, 51 + n);
    fake_server_revive (servers[2]);
    await_current (2, 3);
    expect_all (50, 51 + n);
    detach ();
  }
}

static void
trim_later (void *arg)
{
  *(int *) arg = trim_extent (0);
}

/* A trim is recorded, but its server is cut before the release.  A later write
 * must not be taken for a leftover.
 */
static void
test_trim_cut (void **state)
{
  uint64_t deadline = fp_deadline_in_ms (5000);
  struct fp_thread thread;
  int result = 0;

  (void) state;
  must (attach (0, 1, SIZE));
  write_all (0, 2);
  fake_server_silence (servers[0], FAKE_DEAF, FP_MSG_RELEASE);
  assert_int_equal (fp_thread_create (&thread, "later", trim_later, &result),
                    0);
  while (fake_server_mapped (servers[0]) != 1)
    assert_false (fp_deadline_passed (deadline));
  pause_ms (50);
  fake_server_cut (servers[0]);
  assert_int_equal (fp_thread_join (&thread), 0);
  assert_int_equal (result, -EIO);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  fake_server_revive (servers[0]);
  while (write_extent (0, "new..") < 0)
    assert_false (fp_deadline_passed (deadline));
  detach ();
  must (attach (0, 1, 0));
  expect (0, "new..");
  expect_all (1, 2);
}

/* Two of three servers are away, so the third one must not record that an
 * extent is gone.  The extent is zeroed instead, and usable at once.
 */
static void
test_trim_alone (void **state)
{
  uint64_t since;
  unsigned at;

  (void) state;
  must (attach (0, 3, SIZE));
  write_all (0, 10);
  at = holder (0);
  for (unsigned n = 1; n < 3; n++) {
    fake_server_cut (servers[(at + n) % 3]);
    await_state ((at + n) % 3, FP_SERVER_DOWN);
  }
  since = fp_now_ns ();
  assert_int_equal (trim_extent (0), 0);
  expect (0, "");
  assert_int_equal (write_extent (0, "new.."), 0);
  expect (0, "new..");
  assert_true (fp_now_ns () - since < 400 * FP_NS_PER_MS);
  assert_int_equal (fake_server_mapped (servers[at]), 10);

  for (unsigned n = 1; n < 3; n++) {
    fake_server_revive (servers[(at + n) % 3]);
    await_state ((at + n) % 3, FP_SERVER_UP);
  }
  expect (0, "new..");
  expect_all (1, 10);
  detach ();
  must (attach (at, 1, 0));
  expect (0, "new..");
  expect_all (1, 10);
  /* With all servers there, the memory goes back. */
  assert_int_equal (trim_extent (0), 0);
  assert_int_equal (labelled (), 9);
}

struct trim {
  struct fp_thread thread;
  uint64_t extent;
  int result;
};

static void
do_trim (void *arg)
{
  struct trim *t = arg;

  t->result = trim_extent (t->extent);
}

/* Two trims are under way when the two other servers die: one that was sent to
 * a server, and one that waits behind it.  Only the first is undone.
 */
static void
test_trim_queued (void **state)
{
  struct trim sent = { .extent = 0 }, queued = { .extent = 1 };
  uint64_t deadline = fp_deadline_in_ms (20000);
  char text[6];
  unsigned at;

  (void) state;
  must (attach (0, 3, SIZE));
  write_all (0, 30);
  at = holder (0);
  while (holder (queued.extent) != at)
    queued.extent++;
  for (unsigned n = 1; n < 3; n++)
    fake_server_silence (servers[(at + n) % 3], FAKE_DEAF, FP_MSG_MAP);
  assert_int_equal (fp_thread_create (&sent.thread, "sent", do_trim, &sent),
                    0);
  while (fake_server_mapped (servers[at]) != 29)
    assert_false (fp_deadline_passed (deadline));
  assert_int_equal (
      fp_thread_create (&queued.thread, "queued", do_trim, &queued), 0);
  pause_ms (100);
  for (unsigned n = 1; n < 3; n++)
    fake_server_cut (servers[(at + n) % 3]);
  assert_int_equal (fp_thread_join (&queued.thread), 0);
  assert_int_equal (queued.result, 0);
  expect (queued.extent, "");
  assert_int_equal (write_extent (queued.extent, "new.."), 0);
  assert_int_equal (fp_thread_join (&sent.thread), 0);
  assert_int_equal (sent.result, -EIO);

  for (unsigned n = 1; n < 3; n++) {
    fake_server_silence (servers[(at + n) % 3], FAKE_SPEAKS, 0);
    fake_server_revive (servers[(at + n) % 3]);
  }
  while (read_extent (0, text) < 0)
    assert_false (fp_deadline_passed (deadline));
  assert_string_equal (text, "t0000");
  expect (queued.extent, "new..");
  detach ();
  must (attach (0, 3, 0));
  expect_all (0, 1);
  expect (queued.extent, "new..");
  for (unsigned i = 1; i < 30; i++)
    if (i != queued.extent)
      expect_all (i, i + 1);
}

/* The server of an extent does not record that it is gone.  Then no other one
 * does.  Otherwise a client with the others would find nothing there, while a
 * client with that server alone still writes to it.
 */
static void
test_gone_first_at_holder (void **state)
{
  struct trim t = { .extent = 0 };
  unsigned at;

  (void) state;
  must (attach (0, 3, SIZE));
  write_all (0, 10);
  at = holder (0);
  fake_server_silence (servers[at], FAKE_DEAF, FP_MSG_MAP);
  assert_int_equal (fp_thread_create (&t.thread, "trim", do_trim, &t), 0);
  for (unsigned ms = 0; ms < 100; ms++) {
    pause_ms (1);
    for (unsigned n = 1; n < 3; n++)
      assert_int_equal (fake_server_mapped (servers[(at + n) % 3]), 10);
  }
  assert_int_equal (fp_thread_join (&t.thread), 0);
  assert_int_equal (t.result, -EIO);
  fake_server_silence (servers[at], FAKE_SPEAKS, 0);
  await_current (at, 3);
  expect_all (1, 10);
  assert_int_equal (write_extent (0, "new.."), 0);
  expect (0, "new..");
  fake_server_cut (servers[at]);
  detach ();
  must (attach_degraded (0, 3));
  expect_error (0);
}

static void
write_later (void *arg)
{
  struct trim *t = arg;

  t->result = write_extent (t->extent, "new..");
}

/* The server of a new extent is the last to record that it exists. */
static void
test_exists_last_at_holder (void **state)
{
  (void) state;
  must (attach (0, 2, SIZE));
  for (unsigned i = 0; i < 4; i++) {
    struct trim w = { .extent = i };
    uint64_t deadline = fp_deadline_in_ms (5000);

    for (unsigned s = 0; s < 2; s++)
      fake_server_silence (servers[s], FAKE_MUTE, FP_MSG_MAP);
    assert_int_equal (fp_thread_create (&w.thread, "write", write_later, &w),
                      0);
    while (fake_server_mapped (servers[0]) + fake_server_mapped (servers[1]) ==
           2 * i)
      assert_false (fp_deadline_passed (deadline));
    assert_int_equal (fake_server_mapped (servers[holder (i)]), i);
    assert_int_equal (fake_server_mapped (servers[!holder (i)]), i + 1);
    for (unsigned s = 0; s < 2; s++)
      fake_server_silence (servers[s], FAKE_SPEAKS, 0);
    assert_int_equal (fp_thread_join (&w.thread), 0);
    assert_int_equal (w.result, 0);
  }
}

/* One of two servers may not know of a newer list.  With it alone, nothing
 * reads as zeros, and nothing is recorded.  The other one comes back with an
 * extent that is in no map: the next client would not find what is written
 * there.
 */
static void
test_frozen (void **state)
{
  unsigned gone;

  (void) state;
  must (attach (0, 2, SIZE));
  write_all (0, 20);
  gone = holder (0);
  detach ();
  fake_server_plant (servers[gone], SLABS - 1, 40, 1000);
  fake_server_cut (servers[gone]);
  assert_int_equal (attach (!gone, 1, 0), -ENOTCONN);
  must (attach_degraded (!gone, 1));
  for (unsigned i = 0; i < 20; i++) {
    if (holder (i) == gone) {
      expect_error (i);
      assert_int_equal (write_extent (i, "lost."), -EIO);
    }
    else {
      expect_all (i, i + 1);
      assert_int_equal (write_extent (i, "here."), 0);
    }
  }
  expect_error (30);
  assert_int_equal (fake_server_version (servers[!gone]), FP_MEMBERSHIP_ROUND);
  fake_server_revive (servers[gone]);
  {
    uint64_t deadline = fp_deadline_in_ms (5000);
    char text[6];

    while (read_extent (0, text) < 0)
      assert_false (fp_deadline_passed (deadline));
    assert_string_equal (text, "t0000");
  }
  for (unsigned i = 0; i < 20; i++)
    if (holder (i) != gone) {
      assert_int_equal (trim_extent (i), 0);
      expect (i, "");
    }
  expect_error (40);
  assert_int_equal (write_extent (40, "lost."), -EIO);
  detach ();
  must (attach (gone, 1, 0));
  for (unsigned i = 0; i < 20; i++) {
    if (holder (i) == gone)
      expect_all (i, i + 1);
    else
      expect (i, "");
  }
  expect (30, "");
}

/* A server came back empty: its data is lost, and does not read as zeros. */
static void
test_came_back_empty (void **state)
{
  unsigned gone, at[30];

  (void) state;
  must (attach (0, 3, SIZE));
  write_all (0, 30);
  for (unsigned i = 0; i < 30; i++)
    at[i] = holder (i);
  gone = at[7];
  detach ();
  fake_server_forget (servers[gone]);
  assert_int_equal (attach (0, 3, 0), -ENOTCONN);
  assert_non_null (strstr (last_error.text, "lost"));
  must (attach_degraded (0, 3));
  for (unsigned i = 0; i < 30; i++) {
    if (at[i] == gone)
      expect_error (i);
    else
      expect_all (i, i + 1);
  }
  expect (40, "");
  detach ();
  /* That lasts. */
  must (attach_degraded ((gone + 1) % 3, 1));
  expect_error (7);
  expect (40, "");
}

/* A list that only one server hears of is retried.  However often, its version
 * must not exceed that of the next client, which writes without that server.
 */
static void
test_tried_often (void **state)
{
  uint64_t version;

  (void) state;
  must (attach (0, 3, SIZE));
  write_all (0, 10);
  version = fake_server_version (servers[0]);
  fake_server_cut (servers[1]);
  fake_server_silence (servers[2], FAKE_DEAF, FP_MSG_MEMBERS);
  assert_int_equal (write_extent (20, "lost."), -EIO);
  assert_in_range (fake_server_version (servers[0]), version + 1, version + 5);
  fake_server_silence (servers[2], FAKE_SPEAKS, 0);
  fake_server_revive (servers[1]);
  await_current (2, 3);
  expect_all (0, 10);
}

/* A member that is away while extents come and go is left out.  When it is
 * back it is told everything.
 */
static void
test_left_out (void **state)
{
  uint64_t start;

  (void) state;
  must (attach (0, 3, SIZE));
  write_all (0, 10);
  fake_server_cut (servers[2]);
  start = fp_now_ns ();
  for (unsigned i = 10; i < 20; i++)
    assert_int_equal (write_extent (i, "later"), 0);
  assert_true (fp_now_ns () - start < 2000 * FP_NS_PER_MS);
  assert_int_equal (fake_server_current (servers[0]), 2);
  assert_int_equal (fake_server_current (servers[2]), 3);
  write_all (10, 20);
  fake_server_revive (servers[2]);
  await_current (2, 3);
  expect_all (0, 20);
  for (unsigned s = 0; s < NR_SERVERS; s++)
    assert_int_equal (fake_server_mapped (servers[s]), 20);
  detach ();
  must (attach (2, 1, 0));
  expect_all (0, 20);
}

/* A member that is silent is treated like a dead one. */
static void
test_silent_member (void **state)
{
  (void) state;
  must (attach (0, 3, SIZE));
  fake_server_silence (servers[1], FAKE_DEAF, FP_MSG_MAP);
  write_all (0, 20);
  fake_server_silence (servers[1], FAKE_SPEAKS, 0);
  await_current (1, 3);
  assert_int_equal (fake_server_mapped (servers[1]), 20);
  detach ();
  must (attach (1, 1, 0));
  expect_all (0, 20);
}

/* A server with an old list refers the client to servers that know better. */
static void
test_old_list (void **state)
{
  (void) state;
  must (attach (0, 3, SIZE));
  write_all (0, 10);
  fake_server_cut (servers[2]);
  for (unsigned i = 10; i < 40; i++)
    assert_int_equal (write_extent (i, "late."), 0);
  for (unsigned i = 0; i < 10; i++)
    if (holder (i) != 2)
      assert_int_equal (trim_extent (i), 0);
  detach ();
  fake_server_revive (servers[2]);
  assert_int_equal (fake_server_current (servers[2]), 3);
  must (attach (2, 1, 0));
  for (unsigned i = 0; i < 10; i++) {
    if (fake_server_generation (servers[2], i) == 0)
      expect (i, "");
    else
      expect_all (i, i + 1);
  }
  for (unsigned i = 10; i < 40; i++)
    expect (i, "late.");
}

/* If no server can record a new extent, the write fails: it is not lost later.
 */
static void
test_nobody_left (void **state)
{
  (void) state;
  must (attach (0, 1, SIZE));
  write_all (0, 5);
  fake_server_silence (servers[0], FAKE_DEAF, FP_MSG_MAP);
  assert_int_equal (write_extent (5, "no..."), -EIO);
  assert_int_equal (trim_extent (1), -EIO);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  {
    uint64_t deadline = fp_deadline_in_ms (5000);

    while (write_extent (5, "yes..") < 0)
      assert_false (fp_deadline_passed (deadline));
  }
  expect_all (2, 5);
  detach ();
  must (attach (0, 1, 0));
  expect (0, "t0000");
  expect_all (2, 5);
  expect (5, "yes..");
}

/* A single server restarts while the volume is empty. */
static void
test_restarted_empty (void **state)
{
  uint64_t deadline = fp_deadline_in_ms (5000);

  (void) state;
  must (attach (0, 1, SIZE));
  fake_server_cut (servers[0]);
  fake_server_forget (servers[0]);
  fake_server_revive (servers[0]);
  while (write_extent (0, "t0000") < 0)
    assert_false (fp_deadline_passed (deadline));
  detach ();
  must (attach (0, 1, 0));
  expect_all (0, 1);
}

/* ---- operations that were not finished ---- */

static void
test_label_without_bit (void **state)
{
  (void) state;
  must (attach (0, 3, SIZE));
  write_all (0, 5);
  detach ();
  fake_server_plant (servers[0], SLABS - 1, 50, 1);
  must (attach (0, 3, 0));
  expect (50, "");
  assert_int_equal (labelled (), 5);
  write_all (50, 51);
  detach ();
  must (attach (0, 3, 0));
  expect_all (0, 5);
  expect_all (50, 51);
}

static void
test_bit_without_label (void **state)
{
  (void) state;
  must (attach (0, 3, SIZE));
  write_all (0, 5);
  detach ();
  fake_server_set_map (servers[1], 60, true);
  must (attach (0, 3, 0));
  expect_error (60);
  expect (61, "");
  expect_all (0, 5);
}

/* A client dies when only one of two servers has heard of an extent.  The next
 * client finds and uses the extent, and goes on without that server.
 */
static void
test_bit_at_one_server (void **state)
{
  uint64_t i = 0;

  (void) state;
  must (attach (0, 2, SIZE));
  write_all (0, 20);
  while (holder (i) != 1)
    i++;
  detach ();
  fake_server_set_map (servers[1], i, false);
  must (attach (0, 2, 0));
  assert_int_equal (write_extent (i, "new.."), 0);
  fake_server_cut (servers[0]);
  for (unsigned n = 20; fake_server_current (servers[1]) != 1; n++) {
    assert_true (n < EXTENTS);
    (void) write_extent (n, "other");
  }
  detach ();
  must (attach_degraded (1, 1));
  expect (i, "new..");
}

/* The text acknowledged for each extent, "" = zeros, NULL = unknown. */
static const char *known[8];

static void
story (unsigned nr, unsigned n, enum fake_ctl_fault fault)
{
  static const char *const text[] = { "one..", "two..", "three", "four." };

  memset (known, 0, sizeof known);
  for (unsigned i = 0; i < 8; i++)
    known[i] = "";
  if (fault != FAKE_CTL_DIE)
    fake_ctl_fault_at (n, fault);
  if (attach (0, nr, SIZE) < 0)
    return;
  if (fault == FAKE_CTL_DIE)
    fake_ctl_fault_at (n, fault);
  for (unsigned k = 0; k < 4; k++)
    for (unsigned i = k; i < 6; i += 2) {
      bool trim = (k + i) % 5 == 4;
      int r = trim ? trim_extent (i) : write_extent (i, text[k]);

      known[i] = r < 0 ? NULL : trim ? "" : text[k];
      if (r < 0 && fault == FAKE_CTL_DIE)
        return;
    }
}

/* Each message of create, use and attach fails once, before or after it took
 * effect.  Then the client dies.
 */
static void
walk (unsigned nr, enum fake_ctl_fault fault)
{
  bool fired = true;

  for (unsigned n = 1; fired; n++) {
    setup (NULL);
    story (nr, n, fault);
    fired = fake_ctl_fault_fired ();
    fake_ctl_fault_at (0, fault);
    fp_volume_stop (v, false);
    v = NULL;
    must (attach (n % nr, 1, SIZE));
    for (unsigned i = 0; i < 8; i++) {
      if (known[i] != NULL)
        expect (i, known[i]);
      else
        assert_int_equal (write_extent (i, "again"), 0);
    }
    fixture_down (NULL);
    assert_true (n < 2000);
  }
}

static void
test_walk_refused (void **state)
{
  (void) state;
  for (unsigned nr = 1; nr <= NR_SERVERS; nr++)
    walk (nr, FAKE_CTL_REFUSE);
}

static void
test_walk_lost (void **state)
{
  (void) state;
  for (unsigned nr = 1; nr <= NR_SERVERS; nr++)
    walk (nr, FAKE_CTL_LOSE_ANSWER);
}

static void
test_walk_death (void **state)
{
  (void) state;
  for (unsigned nr = 1; nr <= NR_SERVERS; nr++)
    walk (nr, FAKE_CTL_DIE);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, fixture_down)
    TEST (test_again),
    TEST (test_one_server),
    TEST (test_no_name_no_message),
    TEST (test_failed_start),
    TEST (test_busy),
    TEST (test_two_volumes),
    TEST (test_degraded),
    TEST (test_late_label),
    TEST (test_attached_often),
    TEST (test_trim_cut),
    TEST (test_trim_alone),
    TEST (test_trim_queued),
    TEST (test_gone_first_at_holder),
    TEST (test_exists_last_at_holder),
    TEST (test_frozen),
    TEST (test_came_back_empty),
    TEST (test_tried_often),
    TEST (test_left_out),
    TEST (test_silent_member),
    TEST (test_old_list),
    TEST (test_nobody_left),
    TEST (test_restarted_empty),
    TEST (test_label_without_bit),
    TEST (test_bit_without_label),
    TEST (test_bit_at_one_server),
    cmocka_unit_test (test_walk_refused),
    cmocka_unit_test (test_walk_lost),
    cmocka_unit_test (test_walk_death),
  };

  if (getenv ("FARPAGE_TEST") != NULL)
    cmocka_set_test_filter (getenv ("FARPAGE_TEST"));
  return cmocka_run_group_tests (tests, NULL, NULL);
}
