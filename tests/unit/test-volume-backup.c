/* SPDX-License-Identifier: BSD-3-Clause */
/* test-volume-backup.c - a volume with a backup: its servers die, come back
 * with what they had or with nothing, and no request fails, nor reads anything
 * older than what was acknowledged.
 */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake-ctl.h"
#include "volume/volume_int.h"

#define SLAB (256 * 1024)
#define SLABS 24
#define NR_SERVERS 2
#define SIZE (10 * SLAB + 512) /* it ends in the middle of a block */
#define DATA_AT (1u << 20)

static char dir[] = "/var/tmp/farpage-backed-XXXXXX";
static struct fake_server *servers[NR_SERVERS];
static struct fp_volume *v;
static struct fp_lane *lane;
static struct fp_volume_params p;
static struct fp_volume_status s;
static unsigned char *shadow, *buf;
static uint64_t seed;
static char why[FP_WHY_MAX];

static uint64_t
rnd (uint64_t *x)
{
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x;
}

static void
fill (unsigned char *to, size_t n, uint64_t *x)
{
  for (size_t i = 0; i < n; i += 8) {
    uint64_t r = rnd (x);

    memcpy (to + i, &r, n - i < 8 ? n - i : 8);
  }
}

static void
start (void)
{
  int r = fp_volume_start (&v, &p, why);

  if (r < 0)
    print_message ("start: %s\n", why);
  assert_int_equal (r, 0);
  lane = fp_volume_lane_get (v);
}

static void
stop (bool discard)
{
  fp_volume_lane_put (lane);
  fp_volume_stop (v, discard);
  v = NULL;
}

static int
setup (void **state)
{
  static const char *const names[] = { "a", "b" };

  (void) state;
  fp_volume_params_init (&p);
  p.nr_servers = NR_SERVERS;
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    servers[i] = fake_server_new (names[i], SLAB, SLABS);
    p.servers[i] = *fake_server_addr (servers[i]);
  }
  p.size = SIZE;
  p.slab_size = SLAB;
  p.transports = FP_TRANSPORT_FAKE;
  p.timeout_ms = 1500;
  p.lanes = 2;
  p.slots = 4;
  p.slot_size = 32 * 1024;
  p.backup_lag = FP_BACKUP_LAG_MIN;
  snprintf (p.backup, sizeof p.backup, "%s/disk", dir);
  shadow = calloc (1, SIZE);
  buf = malloc (SIZE);
  if (shadow == NULL || buf == NULL)
    return 1;
  start ();
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  if (v != NULL)
    stop (true);
  unlink (p.backup);
  assert_int_equal (fp_fake_imports (), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_free (servers[i]);
  free (shadow);
  free (buf);
  return 0;
}

static void
cut_all (void)
{
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_cut (servers[i]);
}

static void
revive_all (void)
{
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_revive (servers[i]);
}

static void
await_up (void)
{
  uint64_t end = fp_deadline_in_ms (60000);

  for (unsigned i = 0; i < NR_SERVERS; i++) {
    struct fp_server_status st;

    for (;;) {
      fp_volume_server_status (v, i, &st);
      if (st.state == FP_SERVER_UP)
        break;
      assert_false (fp_deadline_passed (end));
      usleep (2000);
    }
  }
}

static void
check_all (void)
{
  memset (buf, 0x5a, SIZE);
  assert_int_equal (fp_lane_read (lane, buf, SIZE, 0), 0);
  assert_memory_equal (buf, shadow, SIZE);
}

/* None of them may fail. */
static void
random_ops (uint64_t *x, unsigned n)
{
  while (n-- > 0) {
    uint64_t length = 1 + rnd (x) % (rnd (x) % 8 == 0 ? SIZE : 20000);
    uint64_t offset;

    if (rnd (x) % 4 == 0 && length > 4096)
      length &= ~UINT64_C (4095);
    offset = rnd (x) % (SIZE - length + 1);
    if (rnd (x) % 2 == 0)
      offset &= ~UINT64_C (4095);
    switch (rnd (x) % 8) {
    case 0:
    case 1:
    case 2:
      fill (shadow + offset, length, x);
      assert_int_equal (
          fp_lane_write (lane, shadow + offset, (uint32_t) length, offset), 0);
      break;
    case 3:
      memset (shadow + offset, 0, length);
      assert_int_equal (fp_lane_zero (lane, length, offset, rnd (x) % 2), 0);
      break;
    case 4:
      if (n % 8 == 0)
        assert_int_equal (fp_lane_flush (lane), 0);
      break;
    default:
      memset (buf, 0x5a, length);
      assert_int_equal (fp_lane_read (lane, buf, (uint32_t) length, offset),
                        0);
      assert_memory_equal (buf, shadow + offset, length);
    }
  }
}

static void
status (void)
{
  fp_volume_status (v, &s);
  assert_true (s.backup.on);
  assert_int_equal (s.errors, 0);
}

/* The servers have all of it again, by themselves. */
static void
await_home (void)
{
  uint64_t end = fp_deadline_in_ms (60000), reads;

  do {
    usleep (5000);
    status ();
    if (fp_deadline_passed (end))
      print_message ("local %llu, lost %llu\n",
                     (unsigned long long) s.backup.local,
                     (unsigned long long) s.pieces_lost);
    assert_false (fp_deadline_passed (end));
  } while (s.backup.local > 0 || s.backup.serving);
  assert_int_equal (s.pieces_lost, 0);
  reads = s.backup.reads;
  check_all ();
  status ();
  assert_int_equal (s.backup.reads, reads);
}

/* All servers are gone for good, one after the other, while it is used. */
static void
test_die (void **state)
{
  uint64_t x = seed;

  (void) state;
  random_ops (&x, 300);
  status ();
  assert_false (s.backup.serving);
  assert_int_equal (s.backup.local, 0);
  assert_int_equal (s.backup.missing, 0);
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    fake_server_cut (servers[i]);
    check_all ();
    random_ops (&x, 300);
    check_all ();
    status ();
    assert_false (s.backup.failed);
    if (p.copies > 1 && i == 0)
      continue; /* the other one has it all */
    assert_true (s.backup.serving);
    assert_true (s.backup.local > 0);
    assert_true (s.backup.writes > 0);
    assert_true (s.backup.reads > 0);
  }
}

/* The same, where each piece has two copies. */
static void
test_die_copies (void **state)
{
  stop (true);
  p.copies = 2;
  start ();
  test_die (state);
}

/* What only the ring had when the server died: nothing was flushed. */
static void
test_not_flushed (void **state)
{
  uint64_t x = seed;

  (void) state;
  fill (shadow, SIZE, &x);
  assert_int_equal (fp_lane_write (lane, shadow, SIZE, 0), 0);
  cut_all ();
  check_all ();
  assert_int_equal (fp_lane_flush (lane), 0);
  check_all ();
}

/* What was written while they were away they have not: it is not read there,
 * until it was written again.
 */
static void
test_back (void **state)
{
  uint64_t x = seed, local, length;
  bool hole;

  (void) state;
  random_ops (&x, 100);
  cut_all ();
  random_ops (&x, 100);
  memcpy (shadow + 5000, "local", 6);
  assert_int_equal (fp_lane_write (lane, shadow + 5000, 6, 5000), 0);
  status ();
  local = s.backup.local;
  assert_true (local > 0);
  revive_all ();
  await_up ();
  check_all ();
  fp_volume_extent (v, 0, SIZE, &hole, &length);
  assert_false (hole);
  random_ops (&x, 200);
  status ();
  assert_true (s.backup.local < local);
  /* A part of a block that is local: the rest of it is older there. */
  cut_all ();
  memset (shadow, 1, 4096);
  assert_int_equal (fp_lane_write (lane, shadow, 4096, 0), 0);
  revive_all ();
  await_up ();
  memset (shadow + 100, 2, 50);
  assert_int_equal (fp_lane_write (lane, shadow + 100, 50, 100), 0);
  check_all ();
  await_home ();
  fill (shadow, SIZE, &x);
  assert_int_equal (fp_lane_write (lane, shadow, SIZE, 0), 0);
  status ();
  assert_int_equal (s.backup.local, 0);
  assert_false (s.backup.serving);
  check_all ();
}

/* A read does not wait for a server that is known to be away; a write does, as
 * what goes to the backup alone has one copy.
 */
static void
test_at_once (void **state)
{
  uint64_t x = seed, end;

  stop (true);
  p.timeout_ms = 5000;
  p.copies = *state != NULL ? 2 : 1;
  start ();
  fill (shadow, SIZE, &x);
  assert_int_equal (fp_lane_write (lane, shadow, SIZE, 0), 0);
  cut_all ();
  end = fp_deadline_in_ms (p.timeout_ms / 2);
  check_all ();
  assert_false (fp_deadline_passed (end));
  revive_all ();
  memset (shadow, 1, 4096);
  assert_int_equal (fp_lane_write (lane, shadow, 4096, 0), 0);
  status ();
  assert_int_equal (s.backup.local, 0);
  check_all ();
}

static void
test_at_once_copies (void **state)
{
  bool copies = true;

  *state = &copies;
  test_at_once (state);
}

/* One of two copies comes back with nothing, and is made anew from the other
 * one: the backup is not needed.
 */
static void
test_made_anew (void **state)
{
  uint64_t x = seed, end;

  (void) state;
  stop (true);
  p.copies = 2;
  start ();
  fill (shadow, SIZE, &x);
  assert_int_equal (fp_lane_write (lane, shadow, SIZE, 0), 0);
  fake_server_cut (servers[0]);
  random_ops (&x, 20);
  fake_server_forget (servers[0]);
  fake_server_revive (servers[0]);
  end = fp_deadline_in_ms (60000);
  do {
    assert_false (fp_deadline_passed (end));
    usleep (5000);
    status ();
  } while (s.pieces_degraded > 0);
  fake_server_cut (servers[1]);
  check_all ();
  status ();
  assert_int_equal (s.backup.reads, 0);
}

/* They come back with nothing, or with what they had, as often as they like.
 */
static void
test_churn (void **state)
{
  uint64_t x = seed;

  (void) state;
  for (unsigned n = 0; n < 12; n++) {
    struct fake_server *one = servers[rnd (&x) % NR_SERVERS];

    random_ops (&x, 30);
    switch (rnd (&x) % 4) {
    case 0:
      fake_server_cut (one);
      random_ops (&x, 10);
      fake_server_forget (one);
      fake_server_revive (one);
      break;
    case 1:
      fake_server_cut (one);
      random_ops (&x, 10);
      fake_server_revive (one);
      break;
    case 2:
      fake_server_cut (one);
      fake_server_expire (one);
      fake_server_revive (one);
      break;
    default:
      fake_server_cut (one);
      fake_server_lose (one);
      fake_server_revive (one);
    }
    if (rnd (&x) % 2 == 0)
      check_all ();
  }
  await_up ();
  await_home ();
}

/* The file says that nothing is in it that no server has. */
static void
await_used (void)
{
  uint64_t end = fp_deadline_in_ms (60000), state = 0;
  int fd = open (p.backup, O_RDONLY | O_CLOEXEC);

  assert_true (fd >= 0);
  while (state != 1) {
    usleep (5000);
    assert_false (fp_deadline_passed (end));
    assert_int_equal (pread (fd, &state, sizeof state, 24), sizeof state);
  }
  close (fd);
}

/* They come back with nothing. */
static void
test_empty (void **state)
{
  uint64_t x = seed;

  (void) state;
  random_ops (&x, 200);
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    fake_server_cut (servers[i]);
    fake_server_forget (servers[i]);
    fake_server_revive (servers[i]);
  }
  check_all ();
  random_ops (&x, 200);
  check_all ();
  status ();
  assert_true (s.backup.reads > 0);
  await_up ();
  await_home ();
  random_ops (&x, 200);
  /* So nbdkit may die now: what it had is not the backup's alone. */
  await_used ();
  p.uuid = *fp_volume_uuid (v);
  stop (false);
  p.resume = true;
  start ();
  check_all ();
}

/* The disk fails first: it is a volume without a backup.  Then the servers
 * die: EIO, and nothing older.
 */
static void
test_disk_fails (void **state)
{
  uint64_t x = seed;

  (void) state;
  fill (shadow, SIZE, &x);
  assert_int_equal (fp_lane_write (lane, shadow, SIZE, 0), 0);
  assert_int_equal (fp_lane_flush (lane), 0);
  cut_all ();
  memset (shadow, 1, 8192);
  assert_int_equal (fp_lane_write (lane, shadow, 8192, 0), 0);
  assert_int_equal (fp_lane_flush (lane), 0);
  status ();
  assert_int_equal (s.backup.local, 8192);
  assert_int_equal (truncate (p.backup, DATA_AT), 0);
  assert_int_equal (fp_lane_read (lane, buf, 4096, 0), -EIO);
  fp_volume_status (v, &s);
  assert_true (s.backup.failed);
  assert_non_null (strstr (s.backup.why, "read: "));
  assert_false (s.backup.serving);
  assert_int_equal (fp_lane_read (lane, buf, 4096, 65536), -EIO);
  assert_int_equal (fp_lane_write (lane, buf, 4096, 65536), -EIO);
  revive_all ();
  await_up ();
  /* They have something older of these two blocks. */
  assert_int_equal (fp_lane_read (lane, buf, 4096, 0), -EIO);
  assert_int_equal (fp_lane_read (lane, buf, SIZE - 69632, 69632), 0);
  assert_memory_equal (buf, shadow + 69632, SIZE - 69632);
  assert_int_equal (fp_lane_write (lane, shadow, 10, 20), -EIO);
  assert_int_equal (fp_lane_flush (lane), -EIO);
  assert_int_equal (fp_lane_write (lane, shadow, 8192, 0), 0);
  assert_int_equal (fp_lane_read (lane, buf, 8192, 0), 0);
  assert_memory_equal (buf, shadow, 8192);
  assert_int_equal (fp_lane_write (lane, shadow, 10, 20), 0);
  assert_int_equal (fp_lane_flush (lane), 0);
}

/* nbdkit dies and starts again: what the servers have is copied, and then it
 * is as before.
 */
static void
test_resume (void **state)
{
  uint64_t x = seed, end;

  (void) state;
  random_ops (&x, 200);
  p.uuid = *fp_volume_uuid (v);
  stop (false);
  p.resume = true;
  start ();
  random_ops (&x, 20);
  end = fp_deadline_in_ms (60000);
  do {
    usleep (5000);
    fp_volume_status (v, &s);
    assert_false (fp_deadline_passed (end));
  } while (s.backup.missing > 0);
  cut_all ();
  check_all ();
  random_ops (&x, 50);
  check_all ();
  status ();
  assert_true (s.backup.serving);
  /* And not, if the servers have older data by now. */
  stop (false);
  revive_all ();
  assert_int_equal (fp_volume_start (&v, &p, why), -EUCLEAN);
  v = NULL;
}

/* Not of one with a name: who attaches it elsewhere would have older data. */
static void
test_refused (void **state)
{
  struct fp_volume *other = NULL;

  (void) state;
  snprintf (p.name, sizeof p.name, "name");
  assert_int_equal (fp_volume_start (&other, &p, why), -EINVAL);
}

int
main (void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_die, setup, teardown),
    cmocka_unit_test_setup_teardown (test_die_copies, setup, teardown),
    cmocka_unit_test_setup_teardown (test_not_flushed, setup, teardown),
    cmocka_unit_test_setup_teardown (test_back, setup, teardown),
    cmocka_unit_test_setup_teardown (test_at_once, setup, teardown),
    cmocka_unit_test_setup_teardown (test_at_once_copies, setup, teardown),
    cmocka_unit_test_setup_teardown (test_made_anew, setup, teardown),
    cmocka_unit_test_setup_teardown (test_empty, setup, teardown),
    cmocka_unit_test_setup_teardown (test_churn, setup, teardown),
    cmocka_unit_test_setup_teardown (test_disk_fails, setup, teardown),
    cmocka_unit_test_setup_teardown (test_resume, setup, teardown),
    cmocka_unit_test_setup_teardown (test_refused, setup, teardown),
  };
  const char *e = getenv ("FARPAGE_TEST_SEED");
  int r;

  seed = e != NULL ? strtoull (e, NULL, 0) : 1;
  print_message ("seed: FARPAGE_TEST_SEED=%llu\n", (unsigned long long) seed);
  if (mkdtemp (dir) == NULL)
    return 1;
  r = RUN_TESTS (tests);
  rmdir (dir);
  return r;
}
