/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume.c - the engine over servers in this process: a read returns the
 * last acknowledged write or an error, whatever breaks meanwhile.
 */

#include "unit.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "fake-ctl.h"
#include "volume/volume_int.h"

#define SLAB (256 * 1024)
#define SLABS 24
#define NR_SERVERS 2
#define SIZE (20 * SLAB)

static struct fake_server *servers[NR_SERVERS];
static struct fp_volume *v;
static unsigned char *shadow, *buf;
static uint64_t seed;

static uint64_t
rnd (uint64_t *x)
{
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x;
}

static void
fill (unsigned char *p, size_t n, uint64_t *x)
{
  for (size_t i = 0; i < n; i += 8) {
    uint64_t r = rnd (x);

    memcpy (p + i, &r, n - i < 8 ? n - i : 8);
  }
}

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
  p->lanes = 2;
  p->slots = 4;
  p->slot_size = 32 * 1024;
}

static int
setup_servers (void **state)
{
  static const char *const names[] = { "a", "b" };

  (void) state;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    servers[i] = fake_server_new (names[i], SLAB, SLABS);
  shadow = calloc (1, SIZE);
  buf = malloc (SIZE);
  return shadow == NULL || buf == NULL;
}

static int
setup (void **state)
{
  struct fp_volume_params p;
  struct fp_error error;

  if (setup_servers (state) != 0)
    return 1;
  params (&p);
  if (fp_volume_start (&v, &p, &error) < 0) {
    fprintf (stderr, "start: %s\n", error.text);
    return 1;
  }
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  fp_volume_stop (v, true);
  v = NULL;
  /* All slabs are free again, and nothing is mapped. */
  assert_int_equal (fp_fake_imports (), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    assert_int_equal (fake_server_free_slabs (servers[i]), SLABS);
    fake_server_free (servers[i]);
  }
  free (shadow);
  free (buf);
  return 0;
}

/* Do one random operation in [from, from + span), which is the caller's alone.
 * Return its status.  After an error the range is undefined, so read it back
 * until the servers answer.
 */
static int
random_op (struct fp_lane *lane, uint64_t *x, uint64_t from, uint64_t span,
           unsigned char *tmp, unsigned *errors)
{
  uint64_t length = 1 + rnd (x) % (rnd (x) % 8 == 0 ? span : 20000);
  uint64_t offset;
  int r;

  if (length > span)
    length = span;
  if (rnd (x) % 4 == 0 && length > 512)
    length &= ~511ull;
  offset = from + rnd (x) % (span - length + 1);
  switch (rnd (x) % 8) {
  case 0:
  case 1:
  case 2:
    fill (tmp, length, x);
    r = fp_lane_write (lane, tmp, (uint32_t) length, offset);
    if (r == 0)
      memcpy (shadow + offset, tmp, length);
    break;
  case 3:
    r = fp_lane_zero (lane, length, offset, rnd (x) % 2);
    if (r == 0)
      memset (shadow + offset, 0, length);
    break;
  case 4:
    r = fp_lane_flush (lane);
    length = 0;
    break;
  default:
    memset (tmp, 0x5a, length);
    r = fp_lane_read (lane, tmp, (uint32_t) length, offset);
    if (r == 0)
      assert_memory_equal (tmp, shadow + offset, length);
    length = 0;
    break;
  }
  if (r < 0) {
    print_message ("operation at %llu: %s\n", (unsigned long long) offset,
                   strerror (-r));
    ++*errors;
    for (unsigned tries = 0; length > 0 && tries < 100; tries++) {
      if (fp_lane_read (lane, shadow + offset, (uint32_t) length, offset) == 0)
        return r;
    }
    assert_int_equal (length, 0);
  }
  return r;
}

static void
check_all (void)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  assert_int_equal (fp_lane_read (lane, buf, SIZE, 0), 0);
  assert_memory_equal (buf, shadow, SIZE);
  fp_volume_lane_put (lane);
}

static void
test_random (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  unsigned char *tmp = malloc (SIZE);
  uint64_t x = seed;
  unsigned errors = 0;

  (void) state;
  assert_non_null (tmp);
  for (unsigned i = 0; i < 3000; i++)
    random_op (lane, &x, 0, SIZE, tmp, &errors);
  assert_int_equal (errors, 0);
  check_all ();
  fp_volume_lane_put (lane);
  free (tmp);
}

static void
test_bounds (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  (void) state;
  assert_int_equal (fp_lane_read (lane, buf, 1, SIZE), -EINVAL);
  assert_int_equal (fp_lane_read (lane, buf, 2, SIZE - 1), -EINVAL);
  assert_int_equal (fp_lane_write (lane, buf, 1, UINT64_MAX), -EINVAL);
  assert_int_equal (fp_lane_zero (lane, 2, UINT64_MAX, true), -EINVAL);
  assert_int_equal (fp_lane_zero (lane, UINT64_MAX, 1, false), -EINVAL);
  assert_int_equal (fp_lane_read (lane, buf, 0, SIZE), 0);
  fp_volume_lane_put (lane);
}

/* Extents that were never written cost no memory and no message. */
static void
test_thin (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  unsigned labelled = 0;
  uint64_t length;
  bool hole;

  (void) state;
  assert_int_equal (fp_lane_read (lane, buf, SIZE, 0), 0);
  assert_memory_equal (buf, shadow, SIZE);
  assert_int_equal (fp_lane_zero (lane, SIZE, 0, false), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    labelled += fake_server_labelled (servers[i]);
  assert_int_equal (labelled, 0);

  assert_int_equal (fp_lane_write (lane, "x", 1, 5 * SLAB), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    labelled += fake_server_labelled (servers[i]);
  assert_int_equal (labelled, 1);
  fp_volume_extent (v, 0, UINT64_MAX, &hole, &length);
  assert_true (hole);
  assert_int_equal (length, 5 * SLAB);
  fp_volume_extent (v, 5 * SLAB, UINT64_MAX, &hole, &length);
  assert_false (hole);
  assert_int_equal (length, 65536);

  /* A trim of a whole extent releases it. */
  assert_int_equal (fp_lane_zero (lane, SLAB, 5 * SLAB, true), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    assert_int_equal (fake_server_labelled (servers[i]), 0);
  assert_int_equal (fp_lane_read (lane, buf, SIZE, 0), 0);
  assert_memory_equal (buf, shadow, SIZE);
  fp_volume_lane_put (lane);
}

static void
test_full (void **state)
{
  struct fp_volume_params p;
  struct fp_error error;
  struct fp_lane *lane;
  unsigned written = 0;
  int r = 0;

  (void) state;
  params (&p);
  p.size = (uint64_t) (2 * SLABS + 8) * SLAB;
  assert_int_equal (fp_volume_start (&v, &p, &error), 0);
  lane = fp_volume_lane_get (v);
  for (uint64_t i = 0; r == 0 && i < 2 * SLABS + 8; i++) {
    r = fp_lane_write (lane, "data", 4, i * SLAB);
    written += r == 0;
  }
  assert_int_equal (r, -ENOSPC);
  assert_int_equal (written, 2 * SLABS);
  /* The rest is still right, and freed room is used. */
  assert_int_equal (fp_lane_read (lane, buf, 4, 7 * SLAB), 0);
  assert_memory_equal (buf, "data", 4);
  assert_int_equal (fp_lane_zero (lane, SLAB, 0, true), 0);
  assert_int_equal (fp_lane_write (lane, "more", 4, written * SLAB), 0);
  fp_volume_lane_put (lane);
}

/* A server that is up but silent delays no request for longer than twice the
 * timeout, and is not given up.
 */
static void
test_trim_unanswered (void **state)
{
  struct fp_server_status s;
  struct fp_lane *lane = fp_volume_lane_get (v);
  uint64_t begun, deadline;

  (void) state;
  assert_int_equal (fp_lane_write (lane, "data", 4, 0), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_silence (servers[i], FAKE_DEAF, FP_MSG_RELEASE);
  begun = fp_now_ns ();
  assert_int_equal (fp_lane_zero (lane, SLAB, 0, true), -EIO);
  assert_in_range ((fp_now_ns () - begun) / FP_NS_PER_MS, 1500, 4000);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_silence (servers[i], FAKE_SPEAKS, 0);
  deadline = fp_deadline_in_ms (5000);
  while (fp_lane_read (lane, buf, 4, 0) < 0)
    assert_false (fp_deadline_passed (deadline));
  assert_memory_equal (buf, shadow, 4);
  assert_int_equal (fp_lane_write (lane, "data", 4, 0), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    fp_volume_server_status (v, i, &s);
    assert_int_equal (s.reconnects, 0);
  }
  fp_volume_lane_put (lane);
}

/* A zero of a hole does not need the server that has the extent. */
static void
test_zeros_while_away (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct fp_server_status s;
  uint64_t start;
  unsigned away;

  (void) state;
  assert_int_equal (fp_lane_write (lane, "data", 4, 0), 0);
  away = atomic_load (&v->extents->p[0].server);
  fake_server_cut (servers[away]);
  do {
    sched_yield ();
    fp_volume_server_status (v, away, &s);
  } while (s.state == FP_SERVER_UP);
  start = fp_now_ns ();
  assert_int_equal (fp_lane_zero (lane, SLAB / 2, SLAB / 2, false), 0);
  assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 0, 100);
  fake_server_revive (servers[away]);
  assert_int_equal (fp_lane_read (lane, buf, 4, 0), 0);
  assert_memory_equal (buf, "data", 4);
  fp_volume_lane_put (lane);
}

struct late_write {
  struct fp_thread thread;
  int result;
};

static void
write_late (void *arg)
{
  struct late_write *w = arg;
  struct fp_lane *lane = fp_volume_lane_get (v);

  w->result = fp_lane_write (lane, "data", 4, 0);
  fp_volume_lane_put (lane);
}

/* One server lends no more.  The other one is away for a moment, before it is
 * asked or after.
 */
static void
full_and_away (bool asked)
{
  const struct timespec moment = { .tv_nsec = 200000000 };
  struct late_write w = { .result = 1 };
  struct fp_server_status s;

  fake_server_want (servers[1], 1000);
  do
    fp_volume_server_status (v, 1, &s);
  while (s.reclaim.wanted == 0 || fake_server_free_slabs (servers[1]) < SLABS);
  if (asked)
    fake_server_silence (servers[0], FAKE_DEAF, FP_MSG_LABEL);
  else {
    fake_server_cut (servers[0]);
    do
      fp_volume_server_status (v, 0, &s);
    while (s.state == FP_SERVER_UP);
  }
  assert_int_equal (fp_thread_create (&w.thread, "write", write_late, &w), 0);
  nanosleep (&moment, NULL);
  if (asked) {
    fake_server_cut (servers[0]);
    fake_server_silence (servers[0], FAKE_SPEAKS, 0);
    nanosleep (&moment, NULL);
  }
  fake_server_revive (servers[0]);
  assert_int_equal (fp_thread_join (&w.thread), 0);
  fake_server_want (servers[1], 0);
  assert_int_equal (w.result, 0);
  assert_int_equal (fake_server_labelled (servers[0]), 1);
}

static void
test_full_and_away (void **state)
{
  (void) state;
  full_and_away (false);
}

static void
test_full_and_gone (void **state)
{
  (void) state;
  full_and_away (true);
}

static void
test_reserve (void **state)
{
  struct fp_volume_params p;
  struct fp_error error;

  (void) state;
  params (&p);
  p.reserve_full = true;
  p.size = (uint64_t) (2 * SLABS + 1) * SLAB;
  assert_int_equal (fp_volume_probe (&p, &error), -ENOSPC);
  assert_int_equal (fp_volume_start (&v, &p, &error), -ENOSPC);
  assert_non_null (strstr (error.text, "full"));
  for (unsigned i = 0; i < NR_SERVERS; i++)
    assert_int_equal (fake_server_free_slabs (servers[i]), SLABS);
  p.size = (uint64_t) 2 * SLABS * SLAB;
  assert_int_equal (fp_volume_probe (&p, &error), 0);
  assert_int_equal (fp_volume_start (&v, &p, &error), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    assert_int_equal (fake_server_labelled (servers[i]), SLABS);
}

/* A slab that cannot be imported is given back. */
static void
test_import_fails (void **state)
{
  struct fp_lane *lane;
  struct fp_volume_params p;
  struct fp_error error;
  unsigned lent = 0;

  (void) state;
  params (&p);
  p.size = SLAB; /* no grants ahead */
  fp_fake_import_fails_at (1);
  assert_int_equal (fp_volume_start (&v, &p, &error), 0);
  lane = fp_volume_lane_get (v);
  /* The allocator has asked ahead, or asks now: the second try works. */
  while (fp_lane_write (lane, "data", 4, 0) < 0)
    ;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    lent += SLABS - fake_server_free_slabs (servers[i]);
  assert_int_equal (lent, 1);
  fp_volume_lane_put (lane);
}

#define DEPTH 32

static void
test_async (void **state)
{
  static struct fp_io ios[DEPTH];
  struct fp_lane *lane = fp_volume_lane_get (v);
  uint64_t x = seed;
  unsigned done = 0;

  (void) state;
  fill (shadow, SIZE, &x);
  for (unsigned i = 0; i < DEPTH; i++) {
    ios[i] = (struct fp_io) {
      .kind = FP_IO_WRITE,
      .buf = shadow + i * (SIZE / DEPTH),
      .offset = i * (SIZE / DEPTH),
      .length = SIZE / DEPTH,
    };
    assert_int_equal (fp_lane_submit (lane, &ios[i]), 0);
  }
  while (done < DEPTH) {
    for (struct fp_io *io = fp_lane_poll (lane, true); io != NULL;
         io = io->next) {
      assert_int_equal (io->status, 0);
      done++;
    }
  }
  assert_null (fp_lane_poll (lane, true));
  check_all ();
  ios[0].offset = SIZE;
  assert_int_equal (fp_lane_submit (lane, &ios[0]), -EINVAL);
  assert_null (fp_lane_poll (lane, false));
  fp_volume_lane_put (lane);
}

/* A flush reads once from each queue pair that has written, and no other. */
static void
test_flush (void **state)
{
  struct fp_lane *a = fp_volume_lane_get (v), *b = fp_volume_lane_get (v);
  unsigned points;

  (void) state;
  assert_ptr_not_equal (a, b);
  assert_int_equal (fp_lane_write (a, "x", 1, 0), 0);
  assert_int_equal (fp_lane_flush (b), 0);
  fp_fake_fault_at (0, FP_FAKE_ERROR);
  assert_int_equal (fp_lane_flush (b), 0);
  assert_int_equal (fp_fake_fault_points (), 0);
  assert_int_equal (fp_lane_write (a, "x", 1, 0), 0);
  points = fp_fake_fault_points ();
  assert_int_equal (fp_lane_flush (b), 0);
  assert_int_equal (fp_fake_fault_points (), 2 * points);
  fp_volume_lane_put (a);
  fp_volume_lane_put (b);
}

/* A silent server leads to an error within the deadlines.  The buffer is not
 * touched after it was given back.
 */
static void
test_silent (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  unsigned char mine[4096];
  uint64_t start;

  (void) state;
  assert_int_equal (fp_lane_write (lane, "old", 4, 0), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fp_fake_server_hold (fake_server_data (servers[i]), true);
  start = fp_now_ns ();
  assert_int_equal (fp_lane_read (lane, mine, sizeof mine, 0), -EIO);
  assert_in_range ((fp_now_ns () - start) / 1000000, 900, 2600);
  memset (mine, 0x77, sizeof mine);
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    fp_fake_server_hold (fake_server_data (servers[i]), false);
    while (fp_fake_server_release (fake_server_data (servers[i]), 0, 0))
      ;
  }
  for (unsigned i = 0; i < sizeof mine; i++)
    assert_int_equal (mine[i], 0x77);
  assert_int_equal (fp_lane_read (lane, mine, 4, 0), 0);
  assert_memory_equal (mine, "old", 4);
  fp_volume_lane_put (lane);
}

static void
trim_first (void *arg)
{
  int *result = arg;
  struct fp_lane *lane = fp_volume_lane_get (v);

  *result = fp_lane_zero (lane, SLAB, 0, true);
  fp_volume_lane_put (lane);
}

static void
await_first (enum fp_extent_state s)
{
  while (fp_extent_state (&v->extents->p[0]) != s)
    sched_yield ();
}

/* An extent is shut while its server is away.  Its mapping is released (see
 * teardown), and the trim is done when the server is back.
 */
static void
test_trim_while_away (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct fp_io io = { .kind = FP_IO_WRITE, .length = 4, .buf = buf };
  struct fp_thread thread;
  int result = 1;

  (void) state;
  memcpy (buf, "data", 4);
  assert_int_equal (fp_lane_write (lane, buf, 4, 0), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fp_fake_server_hold (fake_server_data (servers[i]), true);
  assert_int_equal (fp_lane_submit (lane, &io), 0);
  assert_null (fp_lane_poll (lane, false));
  assert_int_equal (fp_thread_create (&thread, "trim", trim_first, &result),
                    0);
  await_first (FP_EXTENT_BUSY);
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    fp_fake_server_hold (fake_server_data (servers[i]), false);
    fake_server_cut (servers[i]);
  }
  await_first (FP_EXTENT_OFFLINE);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_revive (servers[i]);
  assert_int_equal (fp_thread_join (&thread), 0);
  assert_int_equal (result, 0);
  assert_ptr_equal (fp_lane_poll (lane, true), &io);
  assert_int_equal (io.status, 0);
  fp_volume_lane_put (lane);
}

/* Until the server is back, each request that needs it fails after await_ms,
 * here twice the timeout.
 */
static void
test_away (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  uint64_t start, end;

  (void) state;
  assert_int_equal (fp_lane_write (lane, "old", 4, 0), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_cut (servers[i]);
  for (unsigned i = 0; i < 6; i++) {
    start = fp_now_ns ();
    assert_int_equal (i % 2 == 0 ? fp_lane_read (lane, buf, 4, 0)
                                 : fp_lane_write (lane, "new", 4, 0),
                      -EIO);
    assert_in_range ((fp_now_ns () - start) / FP_NS_PER_MS, 1500, 2600);
  }
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_revive (servers[i]);
  end = fp_deadline_in_ms (5000);
  while (fp_lane_read (lane, buf, 4, 0) < 0)
    assert_false (fp_deadline_passed (end));
  assert_memory_equal (buf, "old", 4);
  fp_volume_lane_put (lane);
}

/* A server comes back empty: EIO, and never zeros.  The other server's data is
 * still right.
 */
static void
test_lost (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct fp_volume_status s;
  unsigned lost = 0, good = 0, on_a;

  (void) state;
  for (unsigned i = 0; i < 20; i++)
    assert_int_equal (fp_lane_write (lane, "data", 4, i * SLAB), 0);
  on_a = fake_server_labelled (servers[0]);
  assert_in_range (on_a, 1, 19);
  fake_server_cut (servers[0]);
  fake_server_forget (servers[0]);
  fake_server_revive (servers[0]);
  for (unsigned i = 0; i < 20; i++) {
    int r = fp_lane_read (lane, buf, 4, i * SLAB);

    if (r == 0) {
      assert_memory_equal (buf, "data", 4);
      good++;
    }
    else {
      assert_int_equal (r, -EIO);
      assert_int_equal (fp_lane_write (lane, "new", 4, i * SLAB), -EIO);
      assert_int_equal (fp_lane_zero (lane, SLAB, i * SLAB, true), -EIO);
      lost++;
    }
  }
  assert_int_equal (lost, on_a);
  assert_int_equal (good, 20 - on_a);
  fp_volume_status (v, &s);
  assert_int_equal (s.extents_lost, on_a);
  fp_volume_lane_put (lane);
}

/* Another process resumes the volume of one that died. */
static void
test_resume (void **state)
{
  struct fp_volume_params p;
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct fp_error error;
  uint64_t x = seed;

  (void) state;
  fill (shadow, SIZE / 2, &x);
  assert_int_equal (fp_lane_write (lane, shadow, SIZE / 2, 0), 0);
  params (&p);
  p.uuid = *fp_volume_uuid (v);
  fp_volume_lane_put (lane);
  fp_volume_stop (v, false);

  p.resume = true;
  assert_int_equal (fp_volume_start (&v, &p, &error), 0);
  check_all ();
  fp_volume_stop (v, false);

  /* If one server does not know the volume, its extents would be zeros. */
  fake_server_forget (servers[1]);
  assert_true (fp_volume_start (&v, &p, &error) < 0);
  v = NULL;
  fake_server_forget (servers[0]);
}

/* Slabs that a server had to give up are lost for the next process, too.  They
 * do not read as never written.
 */
static void
test_resume_lost (void **state)
{
  struct fp_volume_params p;
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct fp_volume_status st;
  struct fp_error error;
  uint64_t x = seed;

  (void) state;
  fill (shadow, SIZE / 2, &x);
  assert_int_equal (fp_lane_write (lane, shadow, SIZE / 2, 0), 0);
  params (&p);
  p.uuid = *fp_volume_uuid (v);
  fp_volume_lane_put (lane);
  fp_volume_stop (v, false);

  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_lose (servers[i]);
  p.resume = true;
  assert_int_equal (fp_volume_start (&v, &p, &error), 0);
  lane = fp_volume_lane_get (v);
  for (uint64_t at = 0; at < SIZE; at += SLAB)
    assert_int_equal (fp_lane_read (lane, buf, 4096, at),
                      at < SIZE / 2 ? -EIO : 0);
  assert_int_equal (fp_lane_write (lane, buf, 4096, 0), -EIO);
  assert_int_equal (fp_lane_write (lane, buf, 4096, SIZE / 2), 0);
  fp_volume_status (v, &st);
  assert_int_equal (st.extents_lost, SIZE / 2 / SLAB);
  fp_volume_lane_put (lane);
}

/* Each thread has a part of the volume, while the network is cut and comes
 * back.  No operation fails, and no byte is wrong.
 */
struct worker {
  struct fp_thread thread;
  unsigned index, errors;
};

static _Atomic bool stop;

static void
work (void *arg)
{
  struct worker *w = arg;
  struct fp_lane *lane = fp_volume_lane_get (v);
  unsigned char *tmp = malloc (SIZE / 4);
  uint64_t x = seed + w->index * 7919;

  while (tmp != NULL && !atomic_load (&stop))
    random_op (lane, &x, w->index * (SIZE / 4), SIZE / 4, tmp, &w->errors);
  fp_volume_lane_put (lane);
  free (tmp);
}

static void
test_cuts (void **state)
{
  struct worker w[4];
  uint64_t x = seed;

  (void) state;
  atomic_store (&stop, false);
  for (unsigned i = 0; i < 4; i++) {
    w[i] = (struct worker) { .index = i };
    assert_int_equal (fp_thread_create (&w[i].thread, "worker", work, &w[i]),
                      0);
  }
  for (unsigned i = 0; i < 30; i++) {
    struct fake_server *s = servers[rnd (&x) % NR_SERVERS];
    struct timespec pause = { .tv_nsec = (long) (rnd (&x) % 30000000) };

    nanosleep (&pause, NULL);
    fake_server_cut (s);
    pause.tv_nsec /= 2;
    nanosleep (&pause, NULL);
    fake_server_revive (s);
  }
  atomic_store (&stop, true);
  for (unsigned i = 0; i < 4; i++) {
    assert_int_equal (fp_thread_join (&w[i].thread), 0);
    assert_int_equal (w[i].errors, 0);
  }
  check_all ();
}

/* Visit each fault point: one operation may fail, no byte is wrong, and the
 * volume works afterwards.
 */
static void
script (unsigned *errors)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  static unsigned char tmp[SIZE];
  uint64_t x = seed;

  for (unsigned i = 0; i < 30; i++)
    random_op (lane, &x, 0, 4 * SLAB, tmp, errors);
  fp_volume_lane_put (lane);
}

static void
walk (bool control, int kind)
{
  unsigned n = 1, errors;
  bool fired = true;

  for (; fired; n++) {
    struct fp_volume_params p;
    struct fp_error error;
    int r;

    memset (shadow, 0, SIZE);
    errors = 0;
    params (&p);
    fp_fake_fault_at (control ? 0 : n, (enum fp_fake_fault) kind);
    fake_ctl_fault_at (control ? n : 0, (enum fake_ctl_fault) kind);
    r = fp_volume_start (&v, &p, &error);
    if (r == 0) {
      script (&errors);
      if (!control) {
        fired = fp_fake_fault_fired ();
        fp_fake_fault_at (0, FP_FAKE_ERROR);
      }
      check_all ();
      fp_volume_stop (v, true);
      v = NULL;
    }
    else if (!control) {
      fired = fp_fake_fault_fired ();
    }
    if (control)
      fired = fake_ctl_fault_fired ();
    assert_true (errors <= (kind == 0 && !control ? 1u : 0u));
    for (unsigned i = 0; i < NR_SERVERS; i++) {
      /* After a lost BYE, a server keeps the volume for its lease. */
      if (fired && control)
        fake_server_forget (servers[i]);
      assert_int_equal (fake_server_free_slabs (servers[i]), SLABS);
    }
  }
  printf ("walked %u %s fault points of kind %d\n", n - 2,
          control ? "control" : "data", kind);
  assert_true (n > 10);
}

static void
test_walk_data_errors (void **state)
{
  (void) state;
  walk (false, FP_FAKE_ERROR);
}

static void
test_walk_data_breaks (void **state)
{
  (void) state;
  walk (false, FP_FAKE_BREAK);
}

static void
test_walk_control_refused (void **state)
{
  (void) state;
  walk (true, FAKE_CTL_REFUSE);
}

static void
test_walk_control_answers (void **state)
{
  (void) state;
  walk (true, FAKE_CTL_LOSE_ANSWER);
}

int
main (void)
{
  const char *s = getenv ("FARPAGE_TEST_SEED");
  const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
#define TEST_ALONE(t)                                                         \
  cmocka_unit_test_setup_teardown (t, setup_servers, teardown)
    TEST (test_random),
    TEST (test_bounds),
    TEST (test_thin),
    TEST_ALONE (test_full),
    TEST (test_zeros_while_away),
    TEST (test_trim_unanswered),
    TEST (test_full_and_away),
    TEST (test_full_and_gone),
    TEST_ALONE (test_reserve),
    TEST_ALONE (test_import_fails),
    TEST (test_async),
    TEST (test_flush),
    TEST (test_silent),
    TEST (test_trim_while_away),
    TEST (test_away),
    TEST (test_lost),
    TEST (test_resume),
    TEST (test_resume_lost),
    TEST (test_cuts),
    TEST_ALONE (test_walk_data_errors),
    TEST_ALONE (test_walk_data_breaks),
    TEST_ALONE (test_walk_control_refused),
    TEST_ALONE (test_walk_control_answers),
  };

  seed = s != NULL ? strtoull (s, NULL, 0) : 1;
  printf ("FARPAGE_TEST_SEED=%llu\n", (unsigned long long) seed);
  if (getenv ("FARPAGE_TEST") != NULL)
    cmocka_set_test_filter (getenv ("FARPAGE_TEST"));
  return cmocka_run_group_tests (tests, NULL, NULL);
}
