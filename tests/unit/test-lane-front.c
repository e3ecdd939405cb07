/* SPDX-License-Identifier: BSD-3-Clause */
/* test-lane-front.c - a front end with its own event loop: its buffers are
 * transferred without a copy, and a descriptor wakes it.
 */

#include "unit.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "engine/lane_int.h"
#include "sim/threads.h"
#include "volume-fixture.h"

#define BUFFERS 10u
#define BUFFER (32 * 1024u)
#define SLOTS 2u
#define SLOT (16 * 1024u)
#define AHEAD (WRITES_AHEAD / BUFFER) /* writes in flight at once */
#define TIMEOUT_MS 400u

static struct fp_lane *lane;
static struct fp_io ios[BUFFERS + 1];
static unsigned char shadow[COPIES_SIZE];
static bool sends_once;

static void
attach (unsigned copies, bool hedge)
{
  struct fp_volume_params p;

  nr_copies = copies;
  nr_named = 2;
  copies_params (&p);
  p.size = COPIES_SIZE;
  p.timeout_ms = TIMEOUT_MS;
  p.lanes = 1;
  p.slots = SLOTS;
  p.slot_size = SLOT;
  p.buffers = BUFFERS;
  p.buffer_size = BUFFER;
  p.hedge = hedge;
  p.sends_once = sends_once;
  must (fixture_start (&p));
  lane = fp_volume_lane_get (v);
}

static int
setup (void **state)
{
  return copies_setup (state);
}

static int
teardown (void **state)
{
  if (v != NULL)
    fp_volume_lane_put (lane);
  return fixture_down (state);
}

static void
hold (bool on)
{
  for (unsigned i = 0; i < 2; i++) {
    struct fp_fake_server *s = fake_server_data (servers[i]);

    fp_fake_server_hold (s, on);
    while (!on && fp_fake_server_release (s, 0, 0))
      ;
  }
}

static void
submit_from (unsigned i, enum fp_io_kind kind, uint64_t offset,
             uint32_t length, void *buf)
{
  ios[i] = (struct fp_io) {
    .kind = kind, .buf = buf, .offset = offset, .length = length
  };
  assert_int_equal (fp_lane_submit (lane, &ios[i]), 0);
}

/* Use buffer i of the lane, which a write sends. */
static void
submit (unsigned i, enum fp_io_kind kind, uint64_t offset, uint32_t length)
{
  submit_from (i, kind, offset, length, fp_lane_buffer (lane, i));
}

/* Return true if the front end is woken within ms. */
static bool
woken (int ms)
{
  struct pollfd p[FP_LANE_FDS];
  int fds[FP_LANE_FDS];

  fp_lane_fds (lane, fds);
  for (unsigned i = 0; i < FP_LANE_FDS; i++)
    p[i] = (struct pollfd) { .fd = fds[i], .events = POLLIN };
  return poll (p, FP_LANE_FDS, ms) > 0;
}

static bool
sleeps (void)
{
  uint64_t until;

  return fp_lane_sleep (lane, &until);
}

/* Poll and sleep as a front end does, until nr ios are done.  Return how many
 * failed.
 */
static unsigned
await (unsigned nr)
{
  unsigned failed = 0;

  while (nr > 0) {
    struct fp_io *io = fp_lane_poll (lane, false);
    uint64_t until, now;

    for (; io != NULL; io = io->next, nr--)
      failed += io->status < 0;
    if (nr > 0 && fp_lane_sleep (lane, &until)) {
      now = fp_now_ns ();
      assert_true (until != FP_NEVER);
      (void) woken (until > now ? (int) ((until - now) / FP_NS_PER_MS) + 1
                                : 0);
    }
  }
  return failed;
}

/* Check that nr transfers are in flight, each of a whole buffer. */
static void
none_is_copied (unsigned nr)
{
  unsigned seen = 0;

  LANE_LOCK_SCOPE (lane);
  for (const struct frag *f = lane->active_head; f != NULL; f = f->next) {
    if (f->tail != FP_TAIL_NONE)
      continue; /* a mark in the dirty log */
    assert_ptr_equal (f->op.local, f->io->buf);
    assert_int_equal (f->op.length, BUFFER);
    seen++;
  }
  assert_int_equal (seen, nr);
}

/* So many buffers are in flight at once, though there are only two slots. */
static void
move_all (unsigned copies)
{
  attach (copies, false);
  for (size_t i = 0; i < sizeof shadow; i++)
    shadow[i] = (unsigned char) (i * 7 + (i >> 12));
  /* The first writes also ask for memory, and mark the dirty log. */
  for (unsigned i = 0; i < BUFFERS; i++)
    submit (i, FP_IO_WRITE, i * BUFFER, BUFFER);
  assert_int_equal (await (BUFFERS), 0);

  hold (true);
  for (unsigned i = 0; i < BUFFERS; i++) {
    memcpy (fp_lane_buffer (lane, i), shadow + i * BUFFER, BUFFER);
    submit (i, FP_IO_WRITE, i * BUFFER, BUFFER);
  }
  assert_null (fp_lane_poll (lane, false));
  none_is_copied (BUFFERS * copies);
  hold (false);
  assert_int_equal (await (BUFFERS), 0);

  hold (true);
  for (unsigned i = 0; i < BUFFERS; i++) {
    memset (fp_lane_buffer (lane, i), 0x55, BUFFER);
    submit (i, FP_IO_READ, i * BUFFER, BUFFER);
  }
  assert_null (fp_lane_poll (lane, false));
  none_is_copied (BUFFERS);
  hold (false);
  assert_int_equal (await (BUFFERS), 0);
  for (unsigned i = 0; i < BUFFERS; i++)
    assert_memory_equal (fp_lane_buffer (lane, i), shadow + i * BUFFER,
                         BUFFER);
}

static void
test_buffers (void **state)
{
  (void) state;
  move_all (1);
}

static void
test_buffers_two_copies (void **state)
{
  (void) state;
  move_all (2);
}

/* A late answer to a hedged read must not land in a buffer, so all transfers
 * use slots.
 */
static void
test_buffers_hedged (void **state)
{
  (void) state;
  attach (2, true);
  memset (fp_lane_buffer (lane, 0), 'h', BUFFER);
  submit (0, FP_IO_WRITE, 0, BUFFER);
  assert_int_equal (await (1), 0);
  hold (true);
  submit (0, FP_IO_READ, 0, BUFFER);
  assert_null (fp_lane_poll (lane, false));
  {
    LANE_LOCK_SCOPE (lane);
    assert_non_null (lane->active_head);
    for (const struct frag *f = lane->active_head; f != NULL; f = f->next)
      assert_ptr_equal (f->op.local, f->slot);
  }
  hold (false);
  assert_int_equal (await (1), 0);
}

/* Return how many transfers of this kind are in flight. */
static unsigned
in_flight (enum fp_op_kind kind)
{
  unsigned n = 0;

  LANE_LOCK_SCOPE (lane);
  for (const struct frag *f = lane->active_head; f != NULL; f = f->next)
    n += f->op.kind == kind && f->tail == FP_TAIL_NONE;
  return n;
}

/* Put writes in flight, and a read.  Only expected ones are sent at once, but
 * the read is.
 */
static void
write_and_read (unsigned expected)
{
  unsigned last = BUFFERS - 1;

  hold (true);
  for (unsigned i = 0; i < last; i++) {
    memset (fp_lane_buffer (lane, i), 'a', BUFFER);
    submit (i, FP_IO_WRITE, i * BUFFER, BUFFER);
  }
  assert_null (fp_lane_poll (lane, false));
  assert_int_equal (in_flight (FP_OP_WRITE), expected);
  submit (last, FP_IO_READ, 0, BUFFER);
  assert_null (fp_lane_poll (lane, false));
  assert_int_equal (in_flight (FP_OP_READ), 1);
  hold (false);
  assert_int_equal (await (BUFFERS), 0);
}

/* A lane that also reads sends few writes at once. */
static void
overtake (unsigned copies)
{
  unsigned writes = BUFFERS - 1;

  attach (copies, false);
  /* The first writes also ask for memory, and mark the dirty log. */
  for (unsigned i = 0; i < writes; i++)
    submit (i, FP_IO_WRITE, i * BUFFER, BUFFER);
  assert_int_equal (await (writes), 0);

  assert_true (writes > AHEAD);
  write_and_read (writes * copies);
  {
    LANE_LOCK_SCOPE (lane);
    assert_true (lane->read_ns > 0);
    lane->read_ns = FP_NEVER - READS_NS - 1; /* on a slow machine, too */
  }
  write_and_read (AHEAD * copies);
  assert_memory_equal (fp_lane_buffer (lane, writes), fp_lane_buffer (lane, 0),
                       BUFFER);
}

static void
test_reads_overtake (void **state)
{
  (void) state;
  overtake (1);
}

static void
test_reads_overtake_two_copies (void **state)
{
  (void) state;
  overtake (2);
}

static uint32_t
below (unsigned *seed, uint32_t n)
{
  *seed = *seed * 1103515245u + 12345u;
  return (*seed >> 8) % n;
}

/* Read and write any place and length, with buffers and other memory, while a
 * server goes and comes back.  paced: write so much that writes wait.
 */
static void
any (bool paced)
{
  unsigned seed = fixture_seed ();
  unsigned char *mine = malloc (BUFFER);

  assert_non_null (mine);
  attach (2, false);
  memset (shadow, 0, sizeof shadow);
  for (unsigned round = 0; round < 200; round++) {
    uint32_t part = COPIES_SIZE / (BUFFERS + 1);

    if (round % 50 == 10)
      fake_server_cut (servers[round % 100 / 50]);
    if (round % 50 == 30) {
      fake_server_revive (servers[round % 100 / 50]);
      await_whole ();
    }
    for (unsigned i = 0; i <= BUFFERS; i++) {
      enum fp_io_kind kind =
          below (&seed, paced ? 16 : 2) ? FP_IO_WRITE : FP_IO_READ;
      uint32_t length =
          paced ? BUFFER - below (&seed, 512) : 1 + below (&seed, BUFFER);
      uint64_t offset = i * part + below (&seed, part - length + 1);

      memset (i < BUFFERS ? fp_lane_buffer (lane, i) : mine,
              (int) (round + i + 1), length);
      if (kind == FP_IO_WRITE)
        memset (shadow + offset, (int) (round + i + 1), length);
      if (i < BUFFERS)
        submit (i, kind, offset, length);
      else
        submit_from (i, kind, offset, length, mine);
    }
    assert_int_equal (await (BUFFERS + 1), 0);
    for (unsigned i = 0; i <= BUFFERS; i++)
      assert_memory_equal (ios[i].buf, shadow + ios[i].offset, ios[i].length);
  }
  {
    LANE_LOCK_SCOPE (lane);
    unsigned bare = 0;

    assert_null (lane->active_head);
    for (const struct frag *f = lane->free[FRAG_BARE]; f != NULL; f = f->next)
      bare++;
    assert_int_equal (bare, lane->nr_bare);
  }
  free (mine);
}

static void
test_any (void **state)
{
  (void) state;
  any (false);
}

static void
test_any_paced (void **state)
{
  (void) state;
  any (true);
}

/* Put a read in flight, and sleep.  Check that nothing wakes the front end. */
static void
fall_asleep (void)
{
  uint64_t until;

  /* Changes that follow the first write have been looked at. */
  do {
    assert_null (fp_lane_poll (lane, false));
    (void) sleeps ();
  } while (woken (500));
  hold (true);
  submit (0, FP_IO_READ, 0, 4096);
  assert_null (fp_lane_poll (lane, false));
  assert_true (fp_lane_sleep (lane, &until));
  /* The front end looks by itself before the transfer is overdue. */
  assert_true (until <= fp_now_ns () + TIMEOUT_MS * FP_NS_PER_MS);
  assert_false (woken (0));
}

static void
test_sleep (void **state)
{
  struct fp_fake_server *s;
  uint64_t until, start;

  (void) state;
  attach (1, false);
  submit (0, FP_IO_WRITE, 0, 4096);
  assert_int_equal (await (1), 0);

  /* The transport wakes the front end. */
  fall_asleep ();
  hold (false);
  assert_true (woken (0));
  assert_ptr_equal (fp_lane_poll (lane, false), &ios[0]);

  /* If another thread has collected, the front end does not sleep. */
  fall_asleep ();
  hold (false);
  {
    LANE_LOCK_SCOPE (lane);
    lane_progress (lane); /* as another thread does */
  }
  assert_false (fp_lane_sleep (lane, &until));
  assert_ptr_equal (fp_lane_poll (lane, false), &ios[0]);

  /* A change wakes the front end, once. */
  fall_asleep ();
  fp_lane_wake (lane);
  assert_true (woken (0));
  assert_null (fp_lane_poll (lane, false));
  assert_true (fp_lane_sleep (lane, &until));
  assert_false (woken (0));
  hold (false);
  assert_int_equal (await (1), 0);

  /* The front end does not sleep if an io was submitted, and is woken then. */
  submit (0, FP_IO_READ, 0, 4096);
  assert_false (sleeps ());
  assert_int_equal (await (1), 0);
  fall_asleep ();
  submit (1, FP_IO_READ, 4096, 4096);
  assert_true (woken (0));
  hold (false);
  assert_int_equal (await (2), 0);

  /* A transfer that is never answered ends at its deadline. */
  fall_asleep ();
  start = fp_now_ns ();
  s = fake_server_data (servers[0]);
  assert_int_equal (fp_fake_server_held (s) +
                        fp_fake_server_held (fake_server_data (servers[1])),
                    1);
  assert_int_equal (await (1), 1);
  assert_in_range (fp_now_ns () - start, TIMEOUT_MS * FP_NS_PER_MS,
                   3 * TIMEOUT_MS * FP_NS_PER_MS);
  hold (false);
}

/* ---- beside a thread that polls the lane ---- */

static _Atomic int reader_status;

static void
reader (void *buf)
{
  atomic_store (&reader_status,
                fp_lane_read (lane, buf, 4096, 4096) == 0 ? 1 : -1);
}

/* Release one held answer, of either server. */
static void
release_one (void)
{
  for (unsigned i = 0; i < 2; i++)
    if (fp_fake_server_release (fake_server_data (servers[i]), 0, 0))
      return;
  fail ();
}

/* The front end sleeps while another thread polls.  Check that both get their
 * answers, in either order, and that the front end never waits for its time.
 */
static void
beside_reader (bool front_first)
{
  static unsigned char buf[4096];
  struct fp_thread thread;
  unsigned long timeouts;

  hold (true);
  atomic_store (&reader_status, 0);
  if (front_first) {
    submit (0, FP_IO_READ, 0, 4096);
    assert_null (fp_lane_poll (lane, false));
  }
  assert_int_equal (fp_thread_create (&thread, "reader", reader, buf), 0);
  pause_ms (20); /* until the reader waits for its answer */
  if (!front_first) {
    submit (0, FP_IO_READ, 0, 4096);
    assert_null (fp_lane_poll (lane, false));
  }
  timeouts = sim_timeouts ();
  release_one ();
  if (front_first)
    assert_int_equal (await (1), 0);
  else
    fp_thread_join (&thread);
  release_one ();
  if (front_first)
    fp_thread_join (&thread);
  else
    assert_int_equal (await (1), 0);
  assert_int_equal (sim_timeouts (), timeouts);
  assert_int_equal (atomic_load (&reader_status), 1);
  hold (false);
}

/* The reader collects what the front end waits for, and goes on waiting. */
static void
reader_collects (void)
{
  static unsigned char buf[4096];
  struct fp_thread thread;

  hold (true);
  submit (0, FP_IO_READ, 0, 4096);
  assert_null (fp_lane_poll (lane, false));
  assert_int_equal (fp_thread_create (&thread, "reader", reader, buf), 0);
  pause_ms (20); /* until the reader waits for its answer */
  assert_true (sleeps ());
  release_one ();
  pause_ms (20); /* until the reader has collected it */
  assert_false (atomic_load (&lane->front_asleep));
  assert_true (woken (0));
  assert_ptr_equal (fp_lane_poll (lane, false), &ios[0]);
  hold (false);
  fp_thread_join (&thread);
}

static _Atomic int stage;

static void
leaver (void *buf)
{
  struct fp_io io = { .kind = FP_IO_READ, .buf = buf, .length = 4096 };

  fp_lane_sync_begin (lane, &io);
  (void) fp_lane_sync_await (lane, &io, NULL, fp_deadline_in_ms (40));
  atomic_store (&stage, 1);
  while (atomic_load (&stage) == 1)
    pause_ms (1);
  (void) fp_lane_sync_await (lane, &io, NULL, FP_NEVER);
}

/* The thread that polls leaves, and nothing has ended.  The front end must
 * poll now.
 */
static void
poller_leaves (void)
{
  static unsigned char buf[4096];
  struct fp_thread thread;

  hold (true);
  atomic_store (&stage, 0);
  assert_int_equal (fp_thread_create (&thread, "leaver", leaver, buf), 0);
  pause_ms (20); /* until it sleeps */
  submit (0, FP_IO_READ, 0, 4096);
  assert_null (fp_lane_poll (lane, false));
  assert_true (sleeps ());
  assert_false (woken (0));
  while (atomic_load (&stage) == 0)
    pause_ms (1);
  assert_true (woken (0));
  atomic_store (&stage, 2);
  hold (false);
  fp_thread_join (&thread);
  assert_int_equal (await (1), 0);
}

static void
watcher (void *changed)
{
  static unsigned char buf[4096];
  struct fp_io io = { .kind = FP_IO_READ, .buf = buf, .length = sizeof buf };
  uint32_t seen = fp_notifier_count (&v->extents->changes);

  fp_lane_sync_begin (lane, &io);
  atomic_store ((_Atomic bool *) changed,
                !fp_lane_sync_await (lane, &io, &seen, FP_NEVER));
  (void) fp_lane_sync_await (lane, &io, NULL, FP_NEVER);
}

/* A front end that falls asleep does not take the wake-up of the thread that
 * polls.
 */
static void
takes_no_wake_up (void)
{
  struct fp_thread thread;
  unsigned long timeouts;
  _Atomic bool changed = false;

  hold (true);
  assert_int_equal (fp_thread_create (&thread, "watcher", watcher, &changed),
                    0);
  pause_ms (20); /* until the watcher sleeps */
  timeouts = sim_timeouts ();
  fp_notifier_raise (&v->extents->changes);
  atomic_store (&lane->woken, false); /* as a round of the lane does */
  (void) sleeps ();
  pause_ms (20);
  assert_true (atomic_load (&changed));
  assert_int_equal (sim_timeouts (), timeouts + 1); /* the pause */
  hold (false);
  fp_thread_join (&thread);
}

static void
test_beside_reader (void **state)
{
  (void) state;
  attach (1, false);
  submit (0, FP_IO_WRITE, 0, 8192);
  assert_int_equal (await (1), 0);
  beside_reader (true);
  beside_reader (false);
  reader_collects ();
  poller_leaves ();
  takes_no_wake_up ();
}

/* NBD sends a write again if there is no answer in time, so a late one must
 * not go out.  Nothing repeats it for a front end that sends once.
 */
static void
test_late (void **state)
{
  (void) state;
  attach (1, false);
  submit (0, FP_IO_WRITE, 0, 8192);
  assert_int_equal (await (1), 0);
  submit (0, FP_IO_WRITE, 0, 8192);
  sim_stop_ms (3 * TIMEOUT_MS);
  assert_int_equal (await (1), sends_once ? 0 : 1);
}

static void
test_late_once (void **state)
{
  sends_once = true;
  test_late (state);
  sends_once = false;
}

static bool
is_readable (int fd)
{
  struct pollfd p = { .fd = fd, .events = POLLIN };

  return poll (&p, 1, 0) == 1;
}

/* Two wake-ups are read at once. */
static void
test_wake (void **state)
{
  struct fp_wakeup w = { 0 };

  (void) state;
  must (fp_wakeup_open (&w));
  assert_true (fp_wakeup_empty (&w));
  fp_wakeup_write (&w);
  fp_wakeup_write (&w);
  assert_true (is_readable (w.fd));
  assert_true (fp_wakeup_empty (&w));
  assert_false (is_readable (w.fd));
  assert_int_equal (atomic_load (&w.unread), 0);
  fp_wakeup_close (&w);
}

/* A thread has counted its wake-up, and writes it after the look. */
static void
test_wake_late (void **state)
{
  struct fp_wakeup w = { 0 };
  uint64_t one = 1;

  (void) state;
  must (fp_wakeup_open (&w));
  atomic_fetch_add (&w.unread, 1);
  assert_true (fp_wakeup_empty (&w));
  assert_int_equal (write (w.fd, &one, sizeof one), sizeof one);
  assert_true (is_readable (w.fd));
  assert_true (fp_wakeup_empty (&w));
  assert_false (is_readable (w.fd));
  assert_int_equal (atomic_load (&w.unread), 0);
  fp_wakeup_close (&w);
}

int
main (void)
{
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_buffers),
    TEST (test_buffers_two_copies),
    TEST (test_buffers_hedged),
    TEST (test_reads_overtake),
    TEST (test_reads_overtake_two_copies),
    TEST (test_any),
    TEST (test_any_paced),
    TEST (test_sleep),
    TEST (test_beside_reader),
    TEST (test_late),
    TEST (test_late_once),
    cmocka_unit_test (test_wake),
    cmocka_unit_test (test_wake_late),
  };

  cmocka_set_test_filter (getenv ("FARPAGE_TEST"));
  return cmocka_run_group_tests (tests, NULL, NULL);
}
