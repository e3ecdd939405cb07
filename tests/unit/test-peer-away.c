/* SPDX-License-Identifier: BSD-3-Clause */
/* test-peer-away.c - a volume whose servers go away and come back, with their
 * memory or without, or after the lease.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "engine/lane.h"       /* before the global v: -Wshadow */
#include "peer/peer_migrate.h" /* before the global v: -Wshadow */

#include "peer-fixture.h"
#include "sim/threads.h"

/* One of two servers is dead: new extents go to the other one, and to both
 * again when it is back.
 */
static void
test_dead_and_back (void **state)
{
  (void) state;
  fake_server_cut (servers[0]);
  for (unsigned i = 0; i < 10; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  assert_int_equal (fake_server_labelled (servers[1]), 10);
  fake_server_revive (servers[0]);
  await_state (0, FP_SERVER_UP);
  for (unsigned i = 10; i < EXTENTS; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  assert_in_range (fake_server_labelled (servers[0]), 1, 10);
  for (unsigned i = 0; i < EXTENTS; i++)
    expect (i, "data");
}

static void
revive_later (void *arg)
{
  pause_ms (200);
  fake_server_revive (arg);
}

/* A server is lost again before it answered anything.  The timeout counts from
 * the second loss, so a request waits.
 */
static void
test_lost_again (void **state)
{
  struct fp_thread thread;
  uint64_t i = 0;
  int r;

  (void) state;
  while (fake_server_labelled (servers[0]) == 0)
    assert_int_equal (write_extent (i++, "data"), 0);
  fake_server_cut (servers[0]);
  pause_ms (1500); /* longer than the timeout */
  fake_server_silence (servers[0], FAKE_DEAF, FP_MSG_GRANT);
  fake_server_revive (servers[0]);
  await_state (0, FP_SERVER_UP);
  pause_ms (50); /* a grant ahead of need is asked for */
  fake_server_cut (servers[0]);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  pause_ms (50);
  assert_int_equal (
      fp_thread_create (&thread, "later", revive_later, servers[0]), 0);
  r = write_extent (i - 1, "more");
  assert_int_equal (fp_thread_join (&thread), 0);
  assert_int_equal (r, 0);
  expect (i - 1, "more");
}

static _Atomic bool reviving;

static void
revive_often (void *arg)
{
  while (atomic_load (&reviving)) {
    pause_ms (600);
    fake_server_revive (arg);
  }
}

/* A server goes away again and again.  To trim many extents waits no longer
 * for it, in all, than to trim one.
 */
static void
test_trim_many (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct fp_thread thread;
  uint64_t start;

  (void) state;
  for (unsigned i = 0; i < EXTENTS; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  fake_server_die_of_release (servers[0], true);
  atomic_store (&reviving, true);
  assert_int_equal (
      fp_thread_create (&thread, "revive", revive_often, servers[0]), 0);
  start = fp_now_ns ();
  assert_int_equal (fp_lane_zero (lane, SIZE, 0, true), -EIO);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 1000, 4000);
  atomic_store (&reviving, false);
  assert_int_equal (fp_thread_join (&thread), 0);
  fake_server_die_of_release (servers[0], false);

  await_state (0, FP_SERVER_UP);
  fake_server_cut (servers[0]);
  pause_ms (1200);
  start = fp_now_ns ();
  assert_int_equal (fp_lane_zero (lane, SLAB, SIZE - SLAB, true), -EIO);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 1400, 2600);
  fake_server_revive (servers[0]);
  await_state (0, FP_SERVER_UP);
  assert_int_equal (fp_lane_zero (lane, SIZE, 0, true), 0);
  assert_int_equal (fake_server_labelled (servers[0]), 0);
  fp_volume_lane_put (lane);
}

/* A request past its deadline is tried once more before it fails.  Its server
 * may have come back since the last poll.
 */
static void
test_last_try (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct fp_io io = { .kind = FP_IO_READ, .length = 4, .buf = buf };
  uint64_t deadline = fp_deadline_in_ms (5000), begun;

  (void) state;
  for (unsigned i = 0; i < 6; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  fake_server_slow_list (servers[0], 400);
  fake_server_cut (servers[0]);
  await_extent (0, FP_EXTENT_OFFLINE);
  begun = fp_now_ns ();
  assert_int_equal (fp_lane_submit (lane, &io), 0);
  assert_null (fp_lane_poll (lane, false));
  fake_server_revive (servers[0]);
  pause_ms (250);
  /* The peer is connected, but the extent is not listed yet. */
  assert_null (fp_lane_poll (lane, false));
  while (fp_extent_state (&v->extents->p[0]) != FP_EXTENT_READY ||
         fp_now_ns () - begun < 1100 * FP_NS_PER_MS) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
  assert_ptr_equal (fp_lane_poll (lane, true), &io);
  assert_int_equal (io.status, 0);
  assert_memory_equal (buf, "data", 4);
  fake_server_slow_list (servers[0], 0);
  await_state (0, FP_SERVER_UP);
  fp_volume_lane_put (lane);
}

/* ---- how long a request waits ---- */

/* Attach the volume again with these parameters. */
static void
attach_again (unsigned lanes, unsigned await_ms)
{
  struct fp_volume_params p;
  struct fp_error error;

  link_params (&p);
  p.nr_servers = v->p.nr_servers;
  p.lanes = lanes;
  p.await_ms = await_ms;
  fp_volume_stop (v, true);
  assert_int_equal (fp_volume_start (&v, &p, &error), 0);
}

static void
revive_after_3_s (void *arg)
{
  (void) arg;
  pause_ms (3000);
  for (unsigned s = 0; s < NR_SERVERS; s++)
    fake_server_revive (servers[s]);
}

/* Each request waits for its own time, however long its server has been away.
 */
static void
test_away_for_long (void **state)
{
  struct fp_lane *lane;
  struct fp_thread thread;

  (void) state;
  attach_again (1, 6000);
  lane = fp_volume_lane_get (v);
  for (unsigned i = 0; i < EXTENTS; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  for (unsigned n = 0; n < 5; n++) {
    for (unsigned s = 0; s < NR_SERVERS; s++)
      fake_server_cut (servers[s]);
    await_state (0, FP_SERVER_DOWN);
    await_state (1, FP_SERVER_DOWN);
    pause_ms (9000);
    assert_int_equal (
        fp_thread_create (&thread, "revive", revive_after_3_s, NULL), 0);
    if (n == 0)
      assert_int_equal (write_extent (0, "more"), 0);
    else if (n == 1)
      expect (0, "more");
    else if (n == 2)
      assert_int_equal (fp_lane_zero (lane, 100, SLAB, false), 0);
    else if (n == 3)
      assert_int_equal (fp_lane_zero (lane, SLAB, 2 * SLAB, true), 0);
    else
      expect (2, "\0\0\0\0");
    assert_int_equal (fp_thread_join (&thread), 0);
    assert_int_equal (fp_volume_waits (v), n + 1);
    await_state (0, FP_SERVER_UP);
    await_state (1, FP_SERVER_UP);
  }
  fp_volume_lane_put (lane);
}

/* A request that waits for its server does not poll: in 3 s its wait times out
 * at most 10 times.
 */
static void
test_waits_without_polling (void **state)
{
  struct fp_lane *lane;
  struct fp_thread thread;

  (void) state;
  attach_again (1, 60000);
  lane = fp_volume_lane_get (v);
  for (unsigned i = 0; i < EXTENTS; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  for (unsigned n = 0; n < 4; n++) {
    unsigned long before;

    for (unsigned s = 0; s < NR_SERVERS; s++)
      fake_server_cut (servers[s]);
    await_state (0, FP_SERVER_DOWN);
    await_state (1, FP_SERVER_DOWN);
    assert_int_equal (
        fp_thread_create (&thread, "revive", revive_after_3_s, NULL), 0);
    before = sim_timeouts ();
    if (n == 0)
      assert_int_equal (write_extent (0, "more"), 0);
    else if (n == 1)
      expect (0, "more");
    else if (n == 2)
      assert_int_equal (fp_lane_zero (lane, SLAB / 2, SLAB, false), 0);
    else
      assert_int_equal (fp_lane_zero (lane, SLAB, 2 * SLAB, true), 0);
    assert_in_range (sim_timeouts () - before, 0, 10);
    assert_int_equal (fp_thread_join (&thread), 0);
    await_state (0, FP_SERVER_UP);
    await_state (1, FP_SERVER_UP);
  }
  fp_volume_lane_put (lane);
}

/* A server that is back may take longer than await_ms to register its slabs.
 * Requests wait as long as it lists more of them.
 */
static void
test_registers_slowly (void **state)
{
  uint64_t start;

  (void) state;
  for (unsigned i = 0; i < EXTENTS; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  for (unsigned s = 0; s < NR_SERVERS; s++) {
    fake_server_slow_list (servers[s], 500);
    fake_server_cut (servers[s]);
  }
  await_state (0, FP_SERVER_DOWN);
  await_state (1, FP_SERVER_DOWN);
  for (unsigned s = 0; s < NR_SERVERS; s++)
    fake_server_revive (servers[s]);
  start = fp_now_ns ();
  expect (EXTENTS - 1, "data");
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 2500, 20000);
  await_state (0, FP_SERVER_UP);
  await_state (1, FP_SERVER_UP);
  for (unsigned s = 0; s < NR_SERVERS; s++)
    fake_server_slow_list (servers[s], 0);
}

static struct fp_server_status
status_of (unsigned server)
{
  struct fp_server_status s;

  fp_volume_server_status (v, server, &s);
  return s;
}

/* A lane that cannot be connected again leaves the others alone. */
static void
test_one_lane (void **state)
{
  struct fp_lane *lanes[2];
  struct fp_io io = { .kind = FP_IO_READ, .length = 4, .buf = buf };
  unsigned char got[4];
  uint64_t session;

  (void) state;
  attach_again (2, 60000);
  assert_int_equal (write_extent (0, "data"), 0);
  for (unsigned i = 0; i < 2; i++)
    lanes[i] = fp_volume_lane_get (v);
  assert_ptr_not_equal (lanes[0], lanes[1]);
  session = fp_peer_session (v->peers.at[holder (0, &session)]);
  for (unsigned s = 0; s < NR_SERVERS; s++)
    fake_server_stingy (servers[s], true);
  fp_fake_fault_at (1, FP_FAKE_BREAK);
  assert_int_equal (fp_lane_submit (lanes[0], &io), 0);
  assert_null (fp_lane_poll (lanes[0], false));
  assert_true (fp_fake_fault_fired ());
  for (unsigned n = 0; n < 100; n++) {
    assert_null (fp_lane_poll (lanes[0], false));
    assert_int_equal (fp_lane_read (lanes[1], got, 4, 0), 0);
    assert_memory_equal (got, "data", 4);
    assert_int_equal (fp_lane_write (lanes[1], "data", 4, 0), 0);
    pause_ms (100);
  }
  for (unsigned s = 0; s < NR_SERVERS; s++)
    fake_server_stingy (servers[s], false);
  assert_ptr_equal (fp_lane_poll (lanes[0], true), &io);
  assert_int_equal (io.status, 0);
  assert_memory_equal (buf, "data", 4);
  for (unsigned i = 0; i < 2; i++)
    fp_volume_lane_put (lanes[i]);
  assert_int_equal (
      fp_peer_session (v->peers.at[holder (0, &(uint64_t) { 0 })]), session);
}

/* Break lanes 0 and 2, and refuse lane 0 each time.  Lane 2 is connected again
 * all the same.
 */
static void
test_other_lane (void **state)
{
  static struct fp_io ios[3];
  static unsigned char got[3][4];
  uint64_t deadline;

  (void) state;
  attach_again (3, 60000);
  assert_int_equal (write_extent (0, "data"), 0);
  fake_server_stingy_to (servers[0], 0, true);
  /* Lane 0 breaks first, so it is never the second one to be connected. */
  for (unsigned i = 0; i < 3; i += 2) {
    ios[i] = (struct fp_io) { .kind = FP_IO_READ, .length = 4, .buf = got[i] };
    fp_fake_fault_at (1, FP_FAKE_BREAK);
    assert_int_equal (fp_lane_submit (v->engine.lanes[i], &ios[i]), 0);
    assert_null (fp_lane_poll (v->engine.lanes[i], false));
    assert_true (fp_fake_fault_fired ());
  }
  deadline = fp_deadline_in_ms (5000);
  while (fp_lane_poll (v->engine.lanes[2], false) == NULL) {
    assert_false (fp_deadline_passed (deadline));
    assert_null (fp_lane_poll (v->engine.lanes[0], false));
    pause_ms (5);
  }
  assert_int_equal (ios[2].status, 0);
  assert_memory_equal (got[2], "data", 4);
  assert_true (fp_lane_broken (v->engine.lanes[0], 0));
  fake_server_stingy_to (servers[0], 0, false);
  assert_ptr_equal (fp_lane_poll (v->engine.lanes[0], true), &ios[0]);
  assert_int_equal (ios[0].status, 0);
  assert_memory_equal (got[0], "data", 4);
}

/* A transfer that is in flight while this process is stopped goes on. */
static void
test_stopped (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct fp_io io = { .kind = FP_IO_READ, .length = 4, .buf = buf };
  uint64_t reconnects;
  unsigned s;

  (void) state;
  assert_int_equal (write_extent (0, "data"), 0);
  s = holder (0, &reconnects);
  reconnects = status_of (s).reconnects;
  fp_fake_server_hold (fake_server_data (servers[s]), true);
  assert_int_equal (fp_lane_submit (lane, &io), 0);
  assert_null (fp_lane_poll (lane, false));
  sim_stop_ms (100000);
  assert_null (fp_lane_poll (lane, false));
  fp_fake_server_hold (fake_server_data (servers[s]), false);
  assert_true (fp_fake_server_release (fake_server_data (servers[s]), 0, 0));
  assert_ptr_equal (fp_lane_poll (lane, true), &io);
  assert_int_equal (io.status, 0);
  assert_memory_equal (buf, "data", 4);
  assert_int_equal (status_of (s).reconnects, reconnects);
  fp_volume_lane_put (lane);
}

/* Stop the process for less than its lease.  The PING that was due meanwhile
 * is sent at once, and the next one is not late either.
 */
static void
test_pings_after_stop (void **state)
{
  uint64_t deadline;

  (void) state;
  fake_lease_ms = 40000; /* a PING every 5 s */
  attach_again (1, 0);
  fake_lease_ms = 400;
  pause_ms (1000);
  /* From now on there are only PINGs.  Count them. */
  fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
  deadline = fp_deadline_in_ms (6000);
  while (fake_ctl_fault_points () == 0) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
  pause_ms (100);
  assert_int_equal (fake_ctl_fault_points (), 1);
  sim_stop_ms (20000);
  pause_ms (100);
  assert_int_equal (fake_ctl_fault_points (), 2);
  pause_ms (5000);
  assert_int_equal (fake_ctl_fault_points (), 3);
}

/* If the process was stopped, the front end may have repeated a write, and
 * written something else after it.  So the first write is not sent any more.
 */
static void
test_stale (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct fp_io waits = { .kind = FP_IO_WRITE, .length = 4, .buf = buf };
  struct fp_io sent = waits;
  unsigned s;
  uint64_t i, start;

  (void) state;
  assert_int_equal (write_extent (0, "old."), 0);
  s = holder (0, &i);
  memcpy (buf, "late", 4);
  /* The write waits for its server. */
  fake_server_cut (servers[s]);
  await_state (s, FP_SERVER_DOWN);
  assert_int_equal (fp_lane_submit (lane, &waits), 0);
  assert_null (fp_lane_poll (lane, false));
  sim_stop_ms (3000);
  fake_lease_ms = 40000; /* so that no end of a lease ends the next write */
  fake_server_revive (servers[s]);
  await_state (s, FP_SERVER_UP);
  fake_lease_ms = 400;
  assert_ptr_equal (fp_lane_poll (lane, true), &waits);
  assert_int_equal (waits.status, -EIO);
  expect (0, "old.");
  /* The write is in flight. */
  fp_fake_server_hold (fake_server_data (servers[s]), true);
  assert_int_equal (fp_lane_submit (lane, &sent), 0);
  assert_null (fp_lane_poll (lane, false));
  sim_stop_ms (3000);
  start = fp_mono_ns ();
  assert_ptr_equal (fp_lane_poll (lane, true), &sent);
  assert_int_equal (sent.status, -EIO);
  assert_true (fp_mono_ns () - start < 100 * FP_NS_PER_MS);
  fp_fake_server_hold (fake_server_data (servers[s]), false);
  expect (0, "old.");
  assert_int_equal (write_extent (0, "new."), 0);
  expect (0, "new.");
  /* The request was made long before it came here. */
  assert_int_equal (
      fp_lane_write_made (lane, "late", 4, 0, fp_mono_ns () - 2 * FP_NS_PER_S),
      -EIO);
  assert_int_equal (
      fp_lane_zero_made (lane, 4, 0, false, fp_mono_ns () - 2 * FP_NS_PER_S),
      -EIO);
  assert_int_equal (
      fp_lane_zero_made (lane, SLAB, 0, true, fp_mono_ns () - 2 * FP_NS_PER_S),
      -EIO);
  expect (0, "new.");
  fp_volume_lane_put (lane);
}

static void
silence_both (enum fake_silence silence)
{
  for (unsigned s = 0; s < NR_SERVERS; s++)
    fake_server_silence (servers[s], silence, 0);
}

/* After a stop that was longer than the lease, a client asks its servers
 * before it believes that unwritten data is zeros.
 */
static void
test_stopped_beyond_lease (void **state)
{
  (void) state;
  assert_int_equal (write_extent (0, "data"), 0);
  assert_true (fp_peers_are_leased (&v->peers));
  silence_both (FAKE_DEAF);
  sim_stop_ms (2000); /* five times the lease */
  assert_false (fp_peers_are_leased (&v->peers));
  silence_both (FAKE_SPEAKS);
  expect (5, "\0\0\0\0");
  assert_true (fp_peers_are_leased (&v->peers));
}

/* A server that has no slab ready is asked for one ahead of need.  More urgent
 * requests do not wait for that.
 */
static void
test_not_ready (void **state)
{
  uint64_t deadline = fp_deadline_in_ms (5000);

  (void) state;
  while (fake_server_free_slabs (servers[0]) != SLABS - FP_PEER_SPARES) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
  fake_server_not_ready (servers[0], 5000);
  for (unsigned i = 0; i < FP_PEER_SPARES; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  pause_ms (50);
  fp_fake_fault_at (1, FP_FAKE_BREAK);
  expect (0, "data");
  assert_true (fp_fake_fault_fired ());
  fake_server_not_ready (servers[0], 0);
}

static void
awaits_device (unsigned server)
{
  struct fp_server_status s;

  pause_ms (300);
  fp_peer_status (v->peers.at[server], &s);
  assert_int_not_equal (s.state, FP_SERVER_UP);
  assert_non_null (strstr (s.why, "another RDMA device"));
}

/* Another RDMA device leads to a server that comes back.  It waits until no
 * connection uses the old device.
 */
static void
test_another_device (void **state)
{
  (void) state;
  for (unsigned i = 0; i < EXTENTS; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  fake_server_cut (servers[0]);
  fp_fake_server_device (fake_server_data (servers[0]), 1);
  fake_server_revive (servers[0]);
  awaits_device (0);
  fake_server_cut (servers[1]);
  fp_fake_server_device (fake_server_data (servers[1]), 1);
  await_state (0, FP_SERVER_UP);
  fake_server_revive (servers[1]);
  await_state (1, FP_SERVER_UP);
  for (unsigned i = 0; i < EXTENTS; i++)
    expect (i, "data");
}

/* The old device is dead, and a connection to another server still uses it.
 * That is found out, although no request uses that connection.
 */
static void
test_device_gone (void **state)
{
  struct fp_server_status s = { .state = FP_SERVER_DOWN };
  uint64_t deadline = fp_deadline_in_ms (60000);

  (void) state;
  for (unsigned i = 0; i < EXTENTS; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  fp_fake_server_hold (fake_server_data (servers[1]), true);
  fake_server_cut (servers[0]);
  for (unsigned i = 0; i < 2; i++)
    fp_fake_server_device (fake_server_data (servers[i]), 1);
  fake_server_revive (servers[0]);
  while (s.state != FP_SERVER_UP) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (50);
    fp_peer_status (v->peers.at[0], &s);
  }
  fp_fake_server_hold (fake_server_data (servers[1]), false);
  await_state (1, FP_SERVER_UP);
  for (unsigned i = 0; i < EXTENTS; i++)
    expect (i, "data");
}

/* Two peers find at once that the device is another one. */
static void
test_devices_at_once (void **state)
{
  (void) state;
  for (unsigned i = 0; i < EXTENTS; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  for (unsigned n = 1; n < 20; n++) {
    for (unsigned s = 0; s < NR_SERVERS; s++) {
      fake_server_cut (servers[s]);
      fp_fake_server_device (fake_server_data (servers[s]), n);
    }
    for (unsigned s = 0; s < NR_SERVERS; s++)
      fake_server_revive (servers[s]);
    for (unsigned s = 0; s < NR_SERVERS; s++)
      await_state (s, FP_SERVER_UP);
  }
  for (unsigned i = 0; i < EXTENTS; i++)
    expect (i, "data");
}

/* Restart the server with empty memory. */
static void
restart (unsigned server)
{
  fake_server_cut (servers[server]);
  fake_server_forget (servers[server]);
  fake_server_revive (servers[server]);
}

/* A server that was restarted while it held nothing of the volume is used like
 * any other.
 */
static void
test_restarted_empty (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct fp_error error;

  (void) state;
  /* There were extents, but they were trimmed. */
  for (unsigned i = 0; i < EXTENTS; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  assert_int_equal (fp_lane_zero (lane, SIZE, 0, true), 0);
  fp_volume_lane_put (lane);
  fake_server_cut (servers[0]);
  for (unsigned i = 0; i < 10; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  restart (0);
  await_state (0, FP_SERVER_UP);
  for (unsigned i = 10; i < EXTENTS; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  assert_in_range (fake_server_labelled (servers[0]), 1, 10);
  assert_int_equal (link_resume (&error), 0);
  for (unsigned i = 0; i < EXTENTS; i++)
    expect (i, "data");
}

/* A server that lost extents stays LOST after a restart.  Otherwise they would
 * read as zeros.
 */
static void
test_restarted_after_loss (void **state)
{
  struct fp_error error;
  uint64_t i = 0;

  (void) state;
  for (; fake_server_labelled (servers[0]) == 0; i++)
    assert_int_equal (write_extent (i, "data"), 0);
  i--;
  fake_server_cut (servers[0]);
  fake_server_lose (servers[0]);
  fake_server_revive (servers[0]);
  await_extent (i, FP_EXTENT_LOST);
  await_state (0, FP_SERVER_UP);
  restart (0);
  await_state (0, FP_SERVER_LOST);
  assert_true (link_resume (&error) < 0);
  for (unsigned s = 0; s < NR_SERVERS; s++)
    fake_server_forget (servers[s]);
}

/* A probe tells before the start that a volume is gone.  It does not harm a
 * volume that is there.
 */
static void
test_probe_resume (void **state)
{
  struct fp_volume_params p;
  struct fp_error error;

  (void) state;
  assert_int_equal (write_extent (0, "data"), 0);
  link_params (&p);
  p.resume = true;
  p.uuid = *fp_volume_uuid (v);
  fp_volume_stop (v, false);
  assert_int_equal (fp_volume_probe (&p, &error), 0);
  assert_int_equal (fp_volume_probe (&p, &error), 0);
  assert_int_equal (fp_volume_start (&v, &p, &error), 0);
  expect (0, "data");
  fp_volume_stop (v, true);
  v = NULL;
  assert_int_equal (fp_volume_probe (&p, &error), -ENOENT);
  assert_non_null (strstr (error.text, "lease"));
}

/* ---- whether the volume is still ours ---- */

static int
read_at (uint64_t offset)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  int r = fp_lane_read (lane, buf, 5, offset);

  fp_volume_lane_put (lane);
  if (r == 0)
    assert_memory_equal (buf, "\0\0\0\0\0", 5);
  return r;
}

static int
zero_at (uint64_t offset)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  int r = fp_lane_zero (lane, SLAB / 4, offset, false);

  fp_volume_lane_put (lane);
  return r;
}

static bool
is_hole (uint64_t offset)
{
  uint64_t length;
  bool hole;

  fp_volume_extent (v, offset, UINT64_MAX, &hole, &length);
  return hole;
}

static void
speak_soon (void *arg)
{
  (void) arg;
  pause_ms (200);
  silence_both (FAKE_SPEAKS);
}

/* After the lease, another client may have written.  Data that we did not
 * write is zeros only when a server has confirmed that the volume is ours.
 */
static void
test_lease_over (void **state)
{
  const uint64_t empty = 5 * SLAB, clear = 2 * SLAB / 4;
  struct fp_thread thread;
  uint64_t start;

  (void) state;
  assert_int_equal (write_extent (0, "data"), 0);
  assert_int_equal (read_at (empty), 0);
  assert_int_equal (read_at (clear), 0);
  assert_true (is_hole (empty));

  /* While one server answers, no other client can have taken the volume over.
   */
  fake_server_silence (servers[0], FAKE_DEAF, 0);
  pause_ms (500);
  assert_int_equal (read_at (empty), 0);
  assert_int_equal (zero_at (empty), 0);
  assert_true (is_hole (empty));
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  pause_ms (200);

  /* No server answers; then both do, in time. */
  for (unsigned i = 0; i < 4; i++) {
    silence_both (FAKE_DEAF);
    pause_ms (500);
    assert_false (is_hole (empty));
    start = fp_now_ns ();
    assert_int_equal (fp_thread_create (&thread, "soon", speak_soon, NULL), 0);
    assert_int_equal (i == 0   ? read_at (empty)
                      : i == 1 ? read_at (clear)
                      : i == 2 ? zero_at (empty)
                               : zero_at (clear),
                      0);
    assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 150, 800);
    assert_int_equal (fp_thread_join (&thread), 0);
    pause_ms (200);
  }

  /* They do not answer in time. */
  silence_both (FAKE_DEAF);
  pause_ms (500);
  start = fp_now_ns ();
  assert_int_equal (read_at (empty), -EIO);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 1900, 2600);
  assert_int_equal (zero_at (empty), -EIO);
  silence_both (FAKE_SPEAKS);
  for (unsigned s = 0; s < NR_SERVERS; s++)
    await_state (s, FP_SERVER_UP);
  assert_int_equal (read_at (empty), 0);
  assert_int_equal (read_at (clear), 0);
  expect (0, "data");
}

/* All servers were away.  One that is back is enough if it let no other client
 * in meanwhile.  If it did, the other server may have newer data.
 */
static void
test_visited (void **state)
{
  const uint64_t empty = 5 * SLAB;

  (void) state;
  for (unsigned visited = 0; visited < 2; visited++) {
    for (unsigned s = 0; s < NR_SERVERS; s++)
      fake_server_cut (servers[s]);
    await_state (0, FP_SERVER_DOWN);
    if (visited)
      fake_server_visit (servers[0]);
    fake_server_revive (servers[0]);
    await_state (0, FP_SERVER_UP);
    assert_int_equal (read_at (empty), visited ? -EIO : 0);
    fake_server_revive (servers[1]);
    await_state (1, FP_SERVER_UP);
    assert_int_equal (read_at (empty), 0);
  }
  /* The volume is ours again, whichever server goes away. */
  fake_server_cut (servers[1]);
  assert_int_equal (read_at (empty), 0);
  fake_server_revive (servers[1]);
  await_state (1, FP_SERVER_UP);
}

/* After many other clients, a server has forgotten that it shut us out, and
 * lets us in.  Our view of the volume may be stale, so this client counts as
 * fenced.
 */
static void
test_visited_often (void **state)
{
  const unsigned least = FP_FORMER_MIN - 4; /* our own OPEN counts, too */
  uint64_t deadline;

  (void) state;
  for (unsigned visits = least - 1; visits <= least; visits++) {
    for (unsigned s = 0; s < NR_SERVERS; s++)
      fake_server_cut (servers[s]);
    await_state (0, FP_SERVER_DOWN);
    await_state (1, FP_SERVER_DOWN);
    for (unsigned i = 0; i < visits; i++)
      for (unsigned s = 0; s < NR_SERVERS; s++)
        fake_server_visit (servers[s]);
    for (unsigned s = 0; s < NR_SERVERS; s++)
      fake_server_revive (servers[s]);
    if (visits == least)
      break;
    await_state (0, FP_SERVER_UP);
    await_state (1, FP_SERVER_UP);
    assert_int_equal (read_at (0), 0);
  }
  deadline = fp_deadline_in_ms (60000);
  while (!fp_lease_is_fenced (&v->lease)) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (10);
  }
  assert_int_equal (read_at (0), -EIO);
  assert_int_equal (write_extent (0, "data"), -EIO);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_dead_and_back),        TEST (test_lost_again),
    TEST_ONE (test_trim_many),        TEST_ONE (test_last_try),
    TEST (test_away_for_long),        TEST (test_waits_without_polling),
    TEST (test_registers_slowly),     TEST (test_one_lane),
    TEST_ONE (test_other_lane),       TEST (test_stopped),
    TEST_ONE (test_pings_after_stop), TEST_ONE (test_stale),
    TEST (test_stopped_beyond_lease), TEST_ONE (test_not_ready),
    TEST (test_another_device),       TEST (test_device_gone),
    TEST (test_devices_at_once),      TEST (test_restarted_empty),
    TEST (test_restarted_after_loss), TEST (test_probe_resume),
    TEST (test_lease_over),           TEST (test_visited),
    TEST (test_visited_often),
  };

  if (getenv ("FARPAGE_TEST") != NULL)
    cmocka_set_test_filter (getenv ("FARPAGE_TEST"));
  return cmocka_run_group_tests (tests, NULL, NULL);
}
