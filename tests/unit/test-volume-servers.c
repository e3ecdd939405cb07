/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-servers.c - add servers to a volume in use, and remove them,
 * with a name and without.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/control/resolve.h"
#include "fake-ctl.h"
#include "heal/migrate.h"
#include "meta/meta_log.h"
#include "peer/peer.h"
#include "volume/volume_int.h"

#define SLAB (256 * 1024)
#define SLABS 64
#define NR_SERVERS 4
#define EXTENTS 40
#define SIZE ((uint64_t) EXTENTS * SLAB)
#define MS 400

static struct fake_server *servers[FP_MAX_SERVERS + 1];
static struct fp_volume *v;
static struct fp_volume_params p;
static struct fp_error error;
static bool named;

/* The last list given to keep_servers, and its result. */
static struct fp_server_names kept;
static int keep_result;

static int
keep (void *opaque, const struct fp_server_names *names, struct fp_error *out)
{
  assert_ptr_equal (opaque, &kept);
  if (keep_result < 0)
    return fp_fail (out, keep_result, "no room for the list");
  kept = *names;
  return keep_result;
}

static void
pause_ms (unsigned ms)
{
  struct timespec t = { .tv_sec = ms / 1000,
                        .tv_nsec = (long) (ms % 1000) * 1000000 };

  nanosleep (&t, NULL);
}

static void
name_servers (unsigned nr)
{
  fp_volume_params_init (&p);
  p.nr_servers = nr;
  for (unsigned i = 0; i < nr; i++)
    p.servers[i] = *fake_server_addr (servers[i]);
  if (named)
    strcpy (p.name, "vol");
  p.size = SIZE;
  p.transports = FP_TRANSPORT_FAKE;
  p.timeout_ms = MS;
  p.slots = 4;
  p.slot_size = 32 * 1024;
  p.keep_servers = keep;
  p.opaque = &kept;
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

static void
attach (unsigned nr)
{
  name_servers (nr);
  assert_int_equal (start (), 0);
}

static void
stop (void)
{
  fp_volume_stop (v, false);
  v = NULL;
  assert_int_equal (fp_fake_imports (), 0);
}

static int
setup (void **state)
{
  static const char *const names[] = { "a", "b", "c", "d" };

  named = *state != NULL;
  keep_result = 0;
  memset (&kept, 0, sizeof kept);
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
  for (unsigned i = 0; i <= FP_MAX_SERVERS; i++) {
    if (servers[i] != NULL)
      fake_server_free (servers[i]);
    servers[i] = NULL;
  }
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

static void
expect (uint64_t i, const char *text)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  char found[6];

  assert_int_equal (fp_lane_read (lane, found, 5, i * SLAB), 0);
  found[5] = '\0';
  fp_volume_lane_put (lane);
  assert_string_equal (found, text);
}

static unsigned
nr_servers (void)
{
  struct fp_server_names names;

  fp_volume_servers (v, &names);
  return names.nr;
}

static int
add (unsigned i)
{
  struct fp_server_name name = { .addr = *fake_server_addr (servers[i]) };

  return fp_volume_add_server (v, &name, &error);
}

static void
must_add (unsigned i)
{
  int r = add (i);

  if (r < 0)
    fprintf (stderr, "add: %d: %s\n", r, error.text);
  assert_int_equal (r, 0);
}

static unsigned
place_of (unsigned i)
{
  for (unsigned k = 0; k < v->peers.nr; k++)
    if (fp_peers_place (&v->peers, k) != FP_PLACE_FREE &&
        fp_addr_eq (&v->p.servers[k], fake_server_addr (servers[i])))
      return k;
  fail ();
  return 0;
}

static int
take_out (unsigned i)
{
  int r = fp_volume_remove_server (v, place_of (i), &error);

  if (r < 0)
    fprintf (stderr, "remove: %d: %s\n", r, error.text);
  return r;
}

static void
drain (unsigned i)
{
  uint64_t deadline = fp_deadline_in_ms (10000);
  struct fp_server_status s;

  assert_int_equal (fp_volume_drain (v, place_of (i), 0, &error), 0);
  do {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
    fp_volume_server_status (v, place_of (i), &s);
  } while (s.drain.state != FP_DRAIN_DONE);
}

static void
await_current (unsigned server, unsigned n)
{
  uint64_t deadline = fp_deadline_in_ms (5000);

  while (named && fake_server_current (servers[server]) != n) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}

static void
await_state (unsigned i, enum fp_server_state state)
{
  uint64_t deadline = fp_deadline_in_ms (5000);
  struct fp_server_status s;

  do {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
    fp_volume_server_status (v, place_of (i), &s);
  } while (s.state != state);
}

/* The process has died, and another one resumes its volume.  Then all servers
 * answer.
 */
static int
resume (unsigned nr)
{
  struct fp_uuid uuid = *fp_volume_uuid (v);

  stop ();
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_silence (servers[i], FAKE_SPEAKS, 0);
  name_servers (nr);
  p.resume = true;
  p.uuid = uuid;
  return start ();
}

/* ---- tests ---- */

static void
test_add (void **state)
{
  (void) state;
  attach (1);
  assert_int_equal (write_extent (0, "one.."), 0);
  must_add (1);
  must_add (2);
  assert_int_equal (nr_servers (), 3);
  assert_int_equal (kept.nr, 3);
  await_current (0, 3);
  for (unsigned i = 1; i < 30; i++)
    assert_int_equal (write_extent (i, "two.."), 0);
  assert_true (fake_server_labelled (servers[1]) > 0);
  assert_true (fake_server_labelled (servers[2]) > 0);
  if (!named) {
    /* A client that does not know all servers would read zeros. */
    assert_int_equal (resume (2), -EINVAL);
    return;
  }
  stop ();
  attach (1);
  assert_int_equal (nr_servers (), 3);
  expect (0, "one..");
  for (unsigned i = 1; i < 30; i++)
    expect (i, "two..");
  expect (35, "");
}

static void
test_resume (void **state)
{
  (void) state;
  attach (1);
  must_add (1);
  assert_int_equal (fake_server_counted (servers[0]), named ? 1 : 2);
  for (unsigned i = 0; i < 20; i++)
    assert_int_equal (write_extent (i, "text."), 0);
  assert_int_equal (resume (kept.nr), 0);
  for (unsigned i = 0; i < 20; i++)
    expect (i, "text.");
  drain (0);
  assert_int_equal (take_out (0), 0);
  assert_int_equal (kept.nr, 1);
  assert_true (
      fp_addr_eq (&kept.names[0].addr, fake_server_addr (servers[1])));
  assert_false (fake_server_knows (servers[0]));
  servers[4] = servers[0];
  servers[0] = servers[1];
  servers[1] = servers[4];
  servers[4] = NULL;
  assert_int_equal (resume (1), 0);
  for (unsigned i = 0; i < 20; i++)
    expect (i, "text.");
  expect (30, "");
}

/* The place of a removed server is used again. */
static void
test_again (void **state)
{
  (void) state;
  attach (2);
  for (unsigned i = 0; i < 20; i++)
    assert_int_equal (write_extent (i, "text."), 0);
  for (unsigned n = 0; n < 6; n++) {
    unsigned in = 2 - n % 2, out = 1 + n % 2;

    must_add (in);
    await_current (0, 3);
    drain (out);
    assert_int_equal (take_out (out), 0);
    assert_int_equal (fake_server_labelled (servers[out]), 0);
    assert_false (fake_server_knows (servers[out]));
    assert_true (v->peers.nr <= 3);
    for (unsigned i = 0; i < 20; i++)
      expect (i, "text.");
    assert_int_equal (write_extent (20 + n, "more."), 0);
  }
  drain (0);
  for (unsigned i = 0; i < 26; i++)
    expect (i, i < 20 ? "text." : "more.");
}

static void
test_refused (void **state)
{
  struct fp_server_name name = { .domain = "" };
  struct fp_sockaddrs list;

  (void) state;
  attach (2);
  for (unsigned i = 0; i < 20; i++)
    assert_int_equal (write_extent (i, "text."), 0);
  /* A server that is there already, also by another name. */
  assert_int_equal (add (1), -EEXIST);
  fake_server_alias (servers[1], "alias");
  name.addr = *fake_server_addr (servers[1]);
  strcpy (name.addr.host, "alias");
  assert_int_equal (fp_volume_add_server (v, &name, &error), -EEXIST);
  assert_non_null (strstr (error.text, "same server"));
  /* The name is looked up again: an older address does not count. */
  strcpy (name.addr.host, "localhost");
  assert_int_equal (
      fp_addr_resolve_by (&name.addr, &list, fp_deadline_in_ms (5000), NULL),
      0);
  assert_true (fp_addr_known (&name.addr, &list));
  fake_server_alias (servers[1], "localhost");
  (void) fp_volume_add_server (v, &name, &error);
  assert_false (fp_addr_known (&name.addr, &list));
  /* A server that does not answer. */
  fake_server_cut (servers[2]);
  assert_int_equal (add (2), -ECONNREFUSED);
  fake_server_revive (servers[2]);
  /* A server with slabs of another size. */
  servers[4] = fake_server_new ("e", 2 * SLAB, SLABS);
  assert_int_equal (add (4), -EINVAL);
  /* A server that holds extents is not removed. */
  assert_int_equal (take_out (0), -ENOTEMPTY);
  assert_non_null (strstr (error.text, "farpage drain"));
  assert_int_equal (nr_servers (), 2);
  assert_int_equal (v->peers.nr, 2);
  /* The list of servers cannot be kept. */
  keep_result = -ENOSPC;
  if (named)
    must_add (2); /* the servers keep the list */
  else {
    assert_int_equal (add (2), -ENOSPC);
    assert_int_equal (nr_servers (), 2);
    assert_false (fake_server_knows (servers[2]));
    keep_result = 0;
    must_add (2);
    assert_int_equal (fake_server_counted (servers[0]), 3);
    keep_result = -ENOSPC;
  }
  drain (2);
  assert_int_equal (take_out (2), -ENOSPC);
  assert_int_equal (nr_servers (), 3);
  keep_result = 0;
  /* The other servers must answer. */
  fake_server_cut (servers[1]);
  await_state (1, FP_SERVER_DOWN);
  assert_int_equal (take_out (2), -ENOTCONN);
  /* A server that is down, but holds extents. */
  assert_int_equal (take_out (1), -ENOTEMPTY);
  fake_server_revive (servers[1]);
  await_state (1, FP_SERVER_UP);
  await_current (0, 3);
  assert_int_equal (take_out (2), 0);
  assert_int_equal (nr_servers (), 2);
  for (unsigned i = 0; i < 20; i++)
    expect (i, "text.");
}

static void
test_last (void **state)
{
  (void) state;
  attach (2);
  assert_int_equal (take_out (1), 0);
  assert_int_equal (take_out (0), -EBUSY);
  assert_int_equal (write_extent (1, "text."), 0);
  must_add (1);
  drain (0);
  assert_int_equal (take_out (1), -EBUSY);
  expect (1, "text.");
  assert_int_equal (take_out (0), 0);
  expect (1, "text.");
}

/* A server that holds nothing has died. */
static void
test_unreachable (void **state)
{
  (void) state;
  attach (3);
  for (unsigned i = 0; i < 20; i++)
    assert_int_equal (write_extent (i, "text."), 0);
  drain (2);
  fake_server_cut (servers[2]);
  await_state (2, FP_SERVER_DOWN);
  assert_int_equal (take_out (2), 0);
  assert_non_null (strstr (error.text, "may still know"));
  assert_int_equal (nr_servers (), 2);
  for (unsigned i = 0; i < 20; i++)
    expect (i, "text.");
  fake_server_revive (servers[2]);
  if (named) {
    stop ();
    attach (2);
    assert_int_equal (nr_servers (), 2);
  }
  /* The server has nothing of the volume, so it can be added again. */
  must_add (2);
  for (unsigned i = 20; i < 40; i++)
    assert_int_equal (write_extent (i, "more."), 0);
  assert_true (fake_server_labelled (servers[2]) > 0);
}

/* The address of a server leads to another server for a while.  The other
 * server keeps its session and its extents.
 */
static void
test_astray (void **state)
{
  uint64_t deadline = fp_deadline_in_ms (5000);
  struct fp_server_status s;

  (void) state;
  name_servers (2);
  assert_int_equal (fp_uuid_generate (&p.client), 0);
  assert_int_equal (start (), 0);
  for (unsigned i = 0; i < 20; i++)
    assert_int_equal (write_extent (i, "text."), 0);
  fake_server_alias (servers[0], fake_server_addr (servers[1])->host);
  fake_server_cut (servers[1]);
  do {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
    fp_volume_server_status (v, 1, &s);
  } while (strstr (s.why, "the same server as") == NULL);
  fake_server_alias (servers[0], "");
  fake_server_revive (servers[1]);
  await_state (1, FP_SERVER_UP);
  for (unsigned i = 0; i < 20; i++)
    expect (i, "text.");
  fp_volume_server_status (v, 0, &s);
  assert_int_equal (s.reconnects, 0);
}

/* A server has an extent of this volume that the client does not know. */
static void
test_stale (void **state)
{
  (void) state;
  attach (3);
  drain (2);
  fake_server_cut (servers[2]);
  await_state (2, FP_SERVER_DOWN);
  assert_int_equal (take_out (2), 0);
  fake_server_revive (servers[2]);
  fake_server_plant (servers[2], 3, 7, UINT64_C (1) << 40);
  assert_int_equal (add (2), -EEXIST);
  assert_int_equal (nr_servers (), 2);
  expect (7, "");
}

/* Each message of an add stays unanswered once. */
static void
test_dies (void **state)
{
  unsigned n = 0;

  (void) state;
  attach (2);
  for (unsigned i = 0; i < 10; i++)
    assert_int_equal (write_extent (i, "text."), 0);
  for (n = 1; n < 12; n++) {
    static const unsigned abouts[] = { FP_MSG_LOOKUP, FP_MSG_OPEN, FP_MSG_LIST,
                                       FP_MSG_MAP_WRITE, FP_MSG_MEMBERS };
    int r;

    if (n > sizeof abouts / sizeof abouts[0])
      break;
    fake_server_silence (servers[2], FAKE_DEAF, abouts[n - 1]);
    r = add (2);
    fake_server_silence (servers[2], FAKE_SPEAKS, 0);
    if (r == 0) {
      for (unsigned i = 0; i < 10; i++)
        expect (i, "text.");
      await_current (0, 3);
      assert_int_equal (take_out (2), 0);
    }
    assert_int_equal (nr_servers (), 2);
    for (unsigned i = 0; i < 10; i++)
      expect (i, "text.");
    assert_int_equal (write_extent (10 + n, "more."), 0);
  }
  must_add (2);
}

/* Write until server i gets an extent.  It is open to extents once all pending
 * answers are there.
 */
static void
await_use (unsigned i)
{
  uint64_t deadline = fp_deadline_in_ms (10000);

  for (unsigned n = 0; fake_server_labelled (servers[i]) == 0; n++) {
    assert_false (fp_deadline_passed (deadline));
    (void) write_extent (n % EXTENTS, "text.");
    pause_ms (5);
  }
}

/* The other servers do not answer in time, but do so later. */
static void
test_late (void **state)
{
  (void) state;
  attach (1);
  assert_int_equal (write_extent (0, "text."), 0);
  fake_server_silence (servers[0], FAKE_DEAF,
                       named ? FP_MSG_MEMBERS : FP_MSG_OPEN);
  assert_int_equal (add (1), -ETIMEDOUT);
  assert_non_null (strstr (error.text, "it joins as soon as they do"));
  assert_int_equal (take_out (1), -EBUSY);
  assert_int_equal (add (2), -EBUSY);
  assert_int_equal (nr_servers (), 2);
  for (unsigned i = 1; i < 5; i++)
    (void) write_extent (i, "text.");
  assert_int_equal (fake_server_labelled (servers[1]), 0);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  await_current (0, 2);
  expect (0, "text.");
  await_use (1);
  must_add (2);
  drain (1);
  assert_int_equal (take_out (1), 0);
  expect (0, "text.");
}

/* The other server has counted the new one, but its answer is lost, and the
 * client dies.
 */
static void
test_counted_and_killed (void **state)
{
  (void) state;
  attach (2);
  assert_int_equal (write_extent (0, "text."), 0);
  fake_server_silence (servers[1], FAKE_MUTE, FP_MSG_OPEN);
  assert_int_equal (add (2), -ETIMEDOUT);
  assert_true (fake_server_knows (servers[2]));
  assert_int_equal (fake_server_counted (servers[1]), 3);
  assert_int_equal (resume (kept.nr), 0);
  expect (0, "text.");
}

/* The other server has not heard that it must count the new one, and the
 * client dies.
 */
static void
test_uncounted_and_killed (void **state)
{
  (void) state;
  attach (1);
  assert_int_equal (write_extent (0, "text."), 0);
  fake_server_silence (servers[0], FAKE_DEAF, FP_MSG_OPEN);
  assert_int_equal (add (1), -ETIMEDOUT);
  assert_int_equal (kept.nr, 2);
  assert_int_equal (resume (2), 0);
  assert_int_equal (fake_server_counted (servers[0]), 2);
  expect (0, "text.");
  await_use (1);
  assert_int_equal (resume (1), -EINVAL);
}

/* A server was away when the number of servers rose, and another client has
 * probed it meanwhile.
 */
static void
test_counted_later (void **state)
{
  uint64_t deadline = fp_deadline_in_ms (5000);

  (void) state;
  attach (2);
  fake_server_cut (servers[1]);
  await_state (1, FP_SERVER_DOWN);
  must_add (2);
  fake_server_probe (servers[1]);
  fake_server_revive (servers[1]);
  await_state (1, FP_SERVER_UP);
  while (fake_server_counted (servers[1]) != 3) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}

/* A request to a peer that has ended gets an answer. */
static void
test_link_has_ended (void **state)
{
  struct fp_peer *peer;

  (void) state;
  attach (2);
  peer = v->peers.at[place_of (1)];
  assert_int_equal (take_out (1), 0);
  alarm (60); /* only a hang gets there */
  assert_int_equal (fp_peer_check_empty (peer), 0);
  alarm (0);
  must_add (1);
  await_use (1);
}

/* A server whose removal failed gets no extents as long as another server may
 * come to count one less.
 */
static void
test_not_removed (void **state)
{
  (void) state;
  attach (2);
  assert_int_equal (take_out (1), 0);
  assert_int_equal (write_extent (0, "text."), 0);
  must_add (1);
  fake_server_silence (servers[0], FAKE_DEAF, FP_MSG_OPEN);
  assert_int_equal (take_out (1), -ENOTCONN);
  assert_int_equal (take_out (1), -EBUSY);
  assert_int_equal (nr_servers (), 2);
  for (unsigned i = 1; i < 8; i++)
    (void) write_extent (i, "text.");
  assert_int_equal (fake_server_labelled (servers[1]), 0);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  await_use (1);
  assert_int_equal (fake_server_counted (servers[0]), 2);
  assert_int_equal (resume (1), -EINVAL);
}

static void
test_while_draining (void **state)
{
  (void) state;
  attach (2);
  for (unsigned i = 0; i < 30; i++)
    assert_int_equal (write_extent (i, "text."), 0);
  assert_int_equal (fp_volume_drain (v, place_of (1), 8 * SLAB, &error), 0);
  must_add (2);
  drain (1);
  assert_int_equal (take_out (1), 0);
  for (unsigned i = 0; i < 30; i++)
    expect (i, "text.");
}

static void
test_too_many (void **state)
{
  (void) state;
  attach (2);
  for (unsigned i = NR_SERVERS; i <= FP_MAX_SERVERS; i++) {
    char host[16];

    snprintf (host, sizeof host, "s%u", i);
    servers[i] = fake_server_new (host, SLAB, 4);
  }
  for (unsigned i = 2; i < FP_MAX_SERVERS; i++)
    must_add (i);
  assert_int_equal (add (FP_MAX_SERVERS), -ENOSPC);
  for (unsigned i = 0; i < EXTENTS; i++)
    assert_int_equal (write_extent (i, "text."), 0);
  drain (5);
  assert_int_equal (take_out (5), 0);
  must_add (FP_MAX_SERVERS);
  assert_int_equal (v->peers.nr, FP_MAX_SERVERS);
  for (unsigned i = 0; i < EXTENTS; i++)
    expect (i, "text.");
}

/* ---- volumes with a name ---- */

static void
test_frozen (void **state)
{
  (void) state;
  attach (2);
  assert_int_equal (write_extent (0, "text."), 0);
  await_current (0, 2);
  stop ();
  fake_server_cut (servers[1]);
  name_servers (1);
  p.degraded = true;
  assert_int_equal (start (), 0);
  assert_int_equal (add (2), -EROFS);
  assert_int_equal (take_out (1), -EROFS);
  assert_false (fake_server_knows (servers[2]));
  assert_int_equal (nr_servers (), 2);
}

/* A client that takes the volume over right after that sees the new member. */
static void
test_takeover (void **state)
{
  struct fp_volume *old;

  (void) state;
  attach (2);
  must_add (2);
  for (unsigned i = 0; i < 20; i++)
    assert_int_equal (write_extent (i, "text."), 0);
  old = v;
  name_servers (1);
  p.takeover = true;
  assert_int_equal (start (), 0);
  assert_int_equal (nr_servers (), 3);
  for (unsigned i = 0; i < 20; i++)
    expect (i, "text.");
  {
    struct fp_volume *mine = v;
    uint64_t deadline = fp_deadline_in_ms (5000);

    v = old;
    while (!fp_lease_is_fenced (&old->lease)) {
      assert_false (fp_deadline_passed (deadline));
      pause_ms (5);
    }
    assert_int_equal (add (3), -EPERM);
    v = mine;
  }
  fp_volume_stop (old, false);
}

/* A list without the leaving server is recorded, but the answer is lost.  The
 * next client would not hear of anything that only the leaving server knows.
 */
static void
test_half_left (void **state)
{
  int r;

  (void) state;
  attach (2);
  assert_int_equal (write_extent (0, "text."), 0);
  await_current (0, 2);
  drain (1);
  fake_server_silence (servers[0], FAKE_MUTE, FP_MSG_MEMBERS);
  assert_int_equal (take_out (1), -ENOTCONN);
  assert_int_equal (nr_servers (), 2);
  fake_server_cut (servers[0]);
  fake_server_silence (servers[0], FAKE_SPEAKS, 0);
  await_state (0, FP_SERVER_DOWN);
  assert_int_equal (fp_volume_drain_cancel (v, place_of (1), &error), 0);
  r = write_extent (5, "newer");
  stop ();
  fake_server_revive (servers[0]);
  attach (1);
  if (r == 0)
    expect (5, "newer");
}

static void *
take_first_out (void *arg)
{
  *(int *) arg = take_out (0);
  return NULL;
}

/* Only the leaving server has the list.  The joining one has the map, but does
 * not answer when it is told that it is the only one.
 */
static void
test_last_leaves (void **state)
{
  uint64_t deadline = fp_deadline_in_ms (10000);
  pthread_t thread;
  int r = 0;

  (void) state;
  attach (1);
  fake_server_silence (servers[1], FAKE_DEAF, FP_MSG_MAP_WRITE);
  must_add (1);
  assert_int_equal (pthread_create (&thread, NULL, take_first_out, &r), 0);
  pause_ms (400);
  fake_server_silence (servers[1], FAKE_DEAF, FP_MSG_MEMBERS);
  assert_int_equal (pthread_join (thread, NULL), 0);
  assert_int_equal (r, -ENOTCONN);
  fake_server_silence (servers[1], FAKE_SPEAKS, 0);
  while (write_extent (0, "text.") < 0)
    assert_false (fp_deadline_passed (deadline));
  /* When the other server answers, this one can leave. */
  await_current (0, 2);
  drain (0);
  while (take_out (0) < 0)
    assert_false (fp_deadline_passed (deadline));
  expect (0, "text.");
  stop ();
  servers[4] = servers[0];
  servers[0] = servers[1];
  servers[1] = servers[4];
  servers[4] = NULL;
  attach (1);
  assert_int_equal (nr_servers (), 1);
  expect (0, "text.");
}

/* A server was away from the start, so its extents are not known. */
static void
test_never_heard (void **state)
{
  (void) state;
  attach (3);
  for (unsigned i = 0; i < 20; i++)
    assert_int_equal (write_extent (i, "text."), 0);
  await_current (0, 3);
  stop ();
  fake_server_cut (servers[2]);
  name_servers (2);
  p.degraded = true;
  assert_int_equal (start (), 0);
  assert_int_equal (take_out (2), -ENOTEMPTY);
  assert_int_equal (nr_servers (), 3);
  fake_server_revive (servers[2]);
  await_state (2, FP_SERVER_UP);
  for (unsigned i = 0; i < 20; i++)
    expect (i, "text.");
}

/* The client before did not learn that its list was recorded. */
static void
test_newer_list (void **state)
{
  struct fp_members list = { .version = UINT64_C (1) << 28, .count = 1 };

  (void) state;
  attach (3);
  drain (2);
  fake_server_cut (servers[2]);
  await_state (2, FP_SERVER_DOWN);
  assert_int_equal (take_out (2), 0);
  fake_server_revive (servers[2]);
  list.members[0].current = true;
  fake_server_set_list (servers[2], &list);
  assert_int_equal (add (2), -EEXIST);
  assert_non_null (strstr (error.text, "newer list"));
  assert_false (fp_lease_is_fenced (&v->lease));
}

int
main (void)
{
  static char with_name[] = "named";
  const struct CMUnitTest tests[] = {
#define BOTH(t)                                                               \
  { #t, t, setup, teardown, NULL },                                           \
      { #t "_named", t, setup, teardown, with_name }
#define COUNTED(t)                                                            \
  {                                                                           \
#t, t, setup, teardown, NULL                                              \
  }
#define NAMED(t)                                                              \
  {                                                                           \
#t, t, setup, teardown, with_name                                         \
  }
    BOTH (test_add),
    BOTH (test_resume),
    BOTH (test_again),
    BOTH (test_refused),
    BOTH (test_last),
    BOTH (test_unreachable),
    BOTH (test_stale),
    BOTH (test_astray),
    BOTH (test_dies),
    BOTH (test_late),
    BOTH (test_while_draining),
    BOTH (test_too_many),
    NAMED (test_frozen),
    NAMED (test_takeover),
    NAMED (test_newer_list),
    NAMED (test_never_heard),
    NAMED (test_half_left),
    NAMED (test_last_leaves),
    COUNTED (test_counted_and_killed),
    COUNTED (test_not_removed),
    COUNTED (test_uncounted_and_killed),
    COUNTED (test_counted_later),
    COUNTED (test_link_has_ended),
  };

  if (getenv ("FARPAGE_TEST") != NULL)
    cmocka_set_test_filter (getenv ("FARPAGE_TEST"));
  return cmocka_run_group_tests (tests, NULL, NULL);
}
