/* SPDX-License-Identifier: BSD-3-Clause */
/* test-copies-orders.c - servers and clients of a volume with two copies die
 * and come back in every order.  A client that attaches the volume reads the
 * last write, or is refused.  It never reads older data or a mixture.
 *
 * An order is a word of these letters:
 *
 * a b  Server A, or B, is cut off.         A B  It is back, with its memory.
 * E    Server A is back, and empty.        x    The client dies; attach.
 * y z  The client dies while it writes.  Only server A, or B, has the data;
 *      attach.
 * w    Write.                              t    Trim.
 *
 * By default, the test tries all orders of up to two steps, and some longer
 * ones that it draws from FARPAGE_TEST_SEED.  FARPAGE_TEST_ALL=N tries all
 * orders of up to N steps: 3 take minutes and 5 the night.
 * FARPAGE_TEST_ORDER=abxAw tries that one alone.
 */

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/dirty_log.h" /* before the global v: -Wshadow */
#include "engine/lane.h"
#include "volume-fixture.h"

#define MAX_STEPS 5
/* Number of random orders, which follow all short ones. */
#define NR_RANDOM 20
#define PATIENCE_MS 20000

/* Each write to an extent lies in two chunks, so it takes two transfers. */
#define EXTENTS 2
#define BLOCK (32 * 1024)
#define BLOCKS (2 * EXTENTS)
#define START (64 * 1024 - BLOCK)

static const char letters[] = "abABExyzwt";

/* Values that block n may hold: the last one that was acknowledged or read,
 * and those of failed writes since then.
 */
static bool may[BLOCKS][256];
/* Values that it may hold again if the client dies before a failed write is
 * settled, whatever was read meanwhile.  An acknowledged write settles it.
 */
static bool vain[BLOCKS][256];
static unsigned char last, bytes[2 * BLOCK];
static char order[16]; /* the one being tried, or "" */
static unsigned step;
static unsigned orders, refused, lost, written, failed;

static void
has (unsigned n, unsigned char byte)
{
  memset (may[n], 0, sizeof may[n]);
  may[n][byte] = true;
}

static void
acknowledged (unsigned n, unsigned char byte)
{
  has (n, byte);
  memset (vain[n], 0, sizeof vain[n]);
}

static void
in_vain (unsigned n, unsigned char byte)
{
  may[n][byte] = true;
  for (unsigned b = 0; b < 256; b++)
    vain[n][b] = vain[n][b] || may[n][b];
}

static void
client_died (void)
{
  for (unsigned n = 0; n < BLOCKS; n++)
    for (unsigned b = 0; b < 256; b++)
      may[n][b] = may[n][b] || vain[n][b];
}

static void
write_all (void)
{
  last++;
  for (unsigned i = 0; v != NULL && i < EXTENTS; i++) {
    struct fp_lane *lane = fp_volume_lane_get (v);
    int r;

    memset (bytes, last, sizeof bytes);
    r = fp_lane_write (lane, bytes, sizeof bytes,
                       (uint64_t) i * COPIES_SLAB + START);
    fp_volume_lane_put (lane);
    written += r == 0;
    failed += r < 0;
    for (unsigned n = 2 * i; n < 2 * i + 2; n++)
      if (r == 0)
        acknowledged (n, last);
      else
        in_vain (n, last);
  }
}

static void
trim_all (void)
{
  for (unsigned i = 0; v != NULL && i < EXTENTS; i++) {
    struct fp_lane *lane = fp_volume_lane_get (v);
    int r = fp_lane_zero (lane, COPIES_SLAB, (uint64_t) i * COPIES_SLAB, true);

    fp_volume_lane_put (lane);
    for (unsigned n = 2 * i; n < 2 * i + 2; n++)
      if (r == 0)
        acknowledged (n, 0);
      else
        in_vain (n, 0);
  }
}

/* Read or write one copy, if it can be reached. */
static int
one_copy (enum fp_io_kind kind, uint64_t i, unsigned c, unsigned at,
          unsigned length)
{
  struct fp_extents *t = v->extents;
  struct fp_lane *lane = fp_volume_lane_get (v);
  struct fp_io io = {
    .kind = kind,
    .length = length,
    .offset = (fp_copies_entry (t, i, c) << t->shift) + at,
    .buf = bytes,
    .linear = true,
    .migrate = true,
    .target = fp_copies_get (t, i, c),
  };

  fp_lane_sync_begin (lane, &io);
  (void) fp_lane_sync_await (lane, &io, NULL, FP_NEVER);
  fp_volume_lane_put (lane);
  return io.status;
}

/* As a client does, mark the regions of a write at copy c of extent i before
 * it is sent (dirty_log.h).  The write is counted first, so that the sweep
 * does not clear them meanwhile.
 */
static int
mark (uint64_t i, unsigned c, struct fp_extent *p)
{
  uint64_t k = fp_copies_entry (v->extents, i, c);
  unsigned first, nr;

  fp_dirty_log_enter (&v->engine, i, START, sizeof bytes);
  for (;;)
    switch (fp_dirty_log_look (&v->engine, k, &p->copy, START, sizeof bytes,
                               &first, &nr)) {
    case FP_DIRTY_LOG_READY:
      return 0;
    case FP_DIRTY_LOG_WAIT:
      pause_ms (1);
      break;
    case FP_DIRTY_LOG_SAY:
    default:
      return fp_dirty_log_say_all (&v->engine, k, p);
    }
}

/* Write to this server alone.  The client dies now, and the next client does
 * not know of the write.
 */
static void
write_in_part (struct fake_server *server)
{
  const struct fp_addr *addr = fake_server_addr (server);

  last++;
  for (uint64_t i = 0; v != NULL && i < EXTENTS; i++)
    for (unsigned c = 0; c < v->extents->copies; c++) {
      struct fp_extent *p = fp_copies_get (v->extents, i, c);
      unsigned s = atomic_load (&p->server);

      if (!(fp_copies_in_sync (v->extents, i) >> c & 1) ||
          !fp_addr_eq (&v->p.servers[s], addr) ||
          fp_extent_state (p) != FP_EXTENT_READY)
        continue;
      if (mark (i, c, p) < 0)
        continue;
      memset (bytes, last, sizeof bytes);
      (void) one_copy (FP_IO_WRITE, i, c, START, sizeof bytes);
      may[2 * i][last] = may[2 * i + 1][last] = true;
    }
}

static void
wrong (const char *what, unsigned n, int is)
{
  fail_msg ("%s, step %u: %s %u: %d (last written: %u)", order, step, what, n,
            is, last);
}

static int
the_byte (unsigned n)
{
  for (unsigned at = 1; at < BLOCK; at++)
    if (bytes[at] != bytes[0])
      wrong ("parts in block", n, bytes[at]);
  return bytes[0];
}

static int
read_block (unsigned n)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  int r = fp_lane_read (lane, bytes, BLOCK,
                        (uint64_t) (n / 2) * COPIES_SLAB + START +
                            (uint64_t) (n % 2) * BLOCK);

  fp_volume_lane_put (lane);
  return r < 0 ? r : the_byte (n);
}

/* Read block n.  If sound, all servers are there and nothing was lost: only a
 * busy machine may delay the read.
 */
static int
read_one (unsigned n, bool sound)
{
  uint64_t end = fp_deadline_in_ms (PATIENCE_MS);
  int is;

  do
    is = read_block (n);
  while (is < 0 && sound && !fp_deadline_passed (end));
  return is;
}

static void
check (bool sound)
{
  for (unsigned n = 0; v != NULL && n < BLOCKS; n++) {
    int is = read_one (n, sound), again;

    if (is < 0 && !sound) {
      lost++;
      continue;
    }
    if (is < 0 || !may[n][is])
      wrong ("block", n, is);
    again = read_one (n, sound);
    if (again >= 0 && again != is)
      wrong ("another time block", n, again);
    has (n, (unsigned char) is);
    if (!atomic_load (&v->extents->p[n / 2].diverged))
      memset (vain[n], 0, sizeof vain[n]);
  }
  if (v == NULL && sound)
    fail_msg ("%s, step %u: %s", order, step, last_error.text);
}

static void
attach_again (bool sound)
{
  uint64_t end = fp_deadline_in_ms (PATIENCE_MS);

  if (v != NULL)
    copies_die ();
  client_died ();
  do {
    if (copies_attach (0, false) < 0 && !sound)
      (void) copies_attach (0, true);
  } while (v == NULL && sound && !fp_deadline_passed (end));
  refused += v == NULL;
}

static void
settle (void)
{
  uint64_t end = fp_deadline_in_ms (200);

  while (v != NULL && degraded () > 0 && !fp_deadline_passed (end))
    pause_ms (5);
}

/* Check a copy that is in sync, or wait until it is.  On a busy machine a
 * server may seem dead at any time.
 */
static void
check_copy (unsigned n, unsigned c, uint64_t end)
{
  unsigned at = START + n % 2 * BLOCK;

  for (;;) {
    bool in_sync = fp_copies_in_sync (v->extents, n / 2) >> c & 1;
    int r = one_copy (FP_IO_READ, n / 2, c, at, BLOCK);

    if (r == 0 && the_byte (n) == last)
      return;
    if (r == 0 && in_sync && (fp_copies_in_sync (v->extents, n / 2) >> c & 1))
      wrong ("a copy of block", n, bytes[0]);
    if (fp_deadline_passed (end))
      wrong ("cannot read copy", c, -1);
    pause_ms (1);
  }
}

static unsigned
count_slabs (unsigned (*what) (struct fake_server *s))
{
  unsigned n = 0;

  for (unsigned i = 0; i < FIXTURE_SERVERS; i++)
    n += what (servers[i]);
  return n;
}

/* Check the end if all servers are there and nothing was lost.  Writes
 * succeed, the copies become equal, and no server keeps more than them.
 */
static void
check_end (void)
{
  uint64_t end = fp_deadline_in_ms (PATIENCE_MS);
  unsigned before = written;

  do
    write_all ();
  while (written - before < EXTENTS && !fp_deadline_passed (end));
  await_whole ();
  check (true);
  for (unsigned n = 0; n < BLOCKS; n++)
    for (unsigned c = 0; c < v->extents->copies; c++)
      check_copy (n, c, end);
  while (count_slabs (fake_server_labelled) != 2 * EXTENTS)
    if (fp_deadline_passed (end))
      wrong ("slabs with a label", count_slabs (fake_server_labelled), -1);
    else
      pause_ms (5);
  detach ();
  assert_int_equal (count_slabs (fake_server_free_slabs),
                    FIXTURE_SERVERS * COPIES_SLABS - 2 * EXTENTS);
}

static void
begin (unsigned nr)
{
  copies_setup (NULL);
  nr_named = nr;
  copies_timeout_ms = 100;
  step = 0;
  last = 0;
  must (copies_attach (COPIES_SIZE, false));
  for (unsigned n = 0; n < BLOCKS; n++)
    acknowledged (n, 0);
  write_all ();
}

static void
run (const char *o, unsigned nr, bool patient)
{
  bool kept = strchr (o, 'E') == NULL, dead[2] = { false, false };

  snprintf (order, sizeof order, "%s", o);
  begin (nr);
  for (step = 0; order[step] != '\0'; step++) {
    char what = order[step];

    switch (what) {
    case 'a':
    case 'b':
      fake_server_cut (servers[what - 'a']);
      dead[what - 'a'] = true;
      break;
    case 'E':
      fake_server_forget (servers[0]);
      fake_server_revive (servers[0]);
      dead[0] = false;
      break;
    case 'A':
    case 'B':
      fake_server_revive (servers[what - 'A']);
      dead[what - 'A'] = false;
      break;
    case 'y':
    case 'z':
    case 'x':
      if (what != 'x')
        write_in_part (servers[what - 'y']);
      attach_again (kept && !dead[0] && !dead[1]);
      check (kept && !dead[0] && !dead[1]);
      break;
    case 't':
      trim_all ();
      break;
    case 'w':
    default:
      write_all ();
    }
    if (patient) {
      settle ();
      if (!dead[0] || !dead[1])
        check (false);
    }
  }
  /* Kill the client before the servers are back, as it would begin to resync.
   */
  if (v != NULL)
    copies_die ();
  for (unsigned i = 0; i < 2; i++)
    fake_server_revive (servers[i]);
  attach_again (kept);
  check (kept);
  if (kept)
    check_end ();
  orders++;
  order[0] = '\0';
  fixture_down (NULL);
}

/* Return false if o is impossible, or has a step that changes nothing. */
static bool
makes_sense (const char *o)
{
  bool dead[2] = { false, false };
  char before = 'w';

  for (const char *p = o; *p != '\0'; before = *p++) {
    unsigned s = *p == 'b' || *p == 'B' || *p == 'z';

    if (*p == 'x' || *p == 'w' || *p == 't') {
      if (*p == before)
        return false;
    }
    else if (*p == 'y' || *p == 'z') {
      if (dead[s])
        return false;
    }
    else {
      if (dead[s] == (*p == 'a' || *p == 'b'))
        return false;
      dead[s] = !dead[s];
    }
  }
  return true;
}

/* Make the n-th word of this length. */
static void
word_of (unsigned n, unsigned length, char word[MAX_STEPS + 1])
{
  for (unsigned k = 0; k < length; k++) {
    word[k] = letters[n % (sizeof letters - 1)];
    n /= sizeof letters - 1;
  }
  word[length] = '\0';
}

static unsigned
words (unsigned length)
{
  unsigned n = 1;

  while (length-- > 0)
    n *= sizeof letters - 1;
  return n;
}

static void
run_all (unsigned length, unsigned nr, bool patient)
{
  char word[MAX_STEPS + 1];

  for (unsigned n = 0; n < words (length); n++) {
    word_of (n, length, word);
    if (makes_sense (word))
      run (word, nr, patient);
  }
}

static void
run_some (unsigned nr, bool patient, unsigned seed)
{
  char word[MAX_STEPS + 1];

  for (unsigned n = 0; n < NR_RANDOM;) {
    unsigned length = 3 + (unsigned) rand_r (&seed) % (MAX_STEPS - 2);

    word_of ((unsigned) rand_r (&seed) % words (length), length, word);
    if (!makes_sense (word))
      continue;
    run (word, nr, patient);
    n++;
  }
}

static void
test_orders (unsigned nr, bool patient)
{
  const char *one = getenv ("FARPAGE_TEST_ORDER");
  const char *all = getenv ("FARPAGE_TEST_ALL");
  unsigned seed = fixture_seed (), most = 2;

  if (all != NULL)
    most = (unsigned) strtoul (all, NULL, 10);
  if (most > MAX_STEPS)
    most = MAX_STEPS;
  if (one != NULL) {
    run (one, nr, patient);
  }
  else {
    for (unsigned length = 1; length <= most; length++)
      run_all (length, nr, patient);
    if (all == NULL)
      run_some (nr, patient, seed);
  }
  printf ("%u servers%s: %u orders, %u writes done and %u failed, %u times "
          "refused, %u blocks not readable\n",
          nr, patient ? ", patient" : "", orders, written, failed, refused,
          lost);
  assert_true (written > 2 * orders);
}

static void
test_two_servers (void **state)
{
  (void) state;
  test_orders (2, false);
}

static void
test_two_patient (void **state)
{
  (void) state;
  test_orders (2, true);
}

static void
test_three_servers (void **state)
{
  (void) state;
  test_orders (3, false);
}

static void
test_three_patient (void **state)
{
  (void) state;
  test_orders (3, true);
}

/* Print the order that failed. */
static int
tell (void **state)
{
  (void) state;
  if (order[0] != '\0')
    printf ("order %s, step %u, %u servers\n", order, step, nr_named);
  return 0;
}

#define TEST(t) cmocka_unit_test_teardown (t, tell)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_two_servers),
    TEST (test_two_patient),
    TEST (test_three_servers),
    TEST (test_three_patient),
  };

  return RUN_TESTS (tests);
}
