/* SPDX-License-Identifier: BSD-3-Clause */
/* test-stripe.c - each byte of a striped volume has its own place in the
 * extents, for any width, unit and size.  Users of the volume do not notice
 * the striping.
 */

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "extent/stripe.h"
#include "fake-ctl.h"
#include "heal/migrate.h"
#include "place/placement.h"
#include "volume/volume_int.h"

static uint64_t seed;

static uint64_t
rnd (uint64_t *x)
{
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x;
}

/* ---- the mapping ---- */

#define EXTENT 65536u
#define MAX_NR 40u

/* At each linear address: 1 if a byte of the volume lies there, else 0. */
static unsigned char place[MAX_NR * EXTENT];

static struct fp_extents *
any_extents (uint64_t *x)
{
  struct fp_stripe stripe = { .width = 1 + (uint32_t) (rnd (x) % 9),
                              .size = UINT64_C (4096) << rnd (x) % 5 };
  uint64_t size = 1 + rnd (x) % (MAX_NR * EXTENT);
  struct fp_extents *t = NULL;

  if (rnd (x) % 4 == 0)
    size = (1 + rnd (x) % MAX_NR) * EXTENT;
  if (rnd (x) % 8 == 0)
    stripe.width = FP_STRIPE_WIDTH_MAX;
  assert_int_equal (fp_extents_new (&t, size, EXTENT, &stripe, 1), 0);
  return t;
}

/* Mark the places of all runs of [from, to), which must be unmarked before. */
static void
mark_runs (struct fp_extents *t, uint64_t from, uint64_t to)
{
  while (from < to) {
    uint64_t run, at = fp_stripe_at (t, from, &run);

    assert_true (run > 0);
    run = FP_MIN (run, to - from);
    assert_true (at + run <= t->nr * EXTENT);
    assert_int_equal (at / EXTENT, (at + run - 1) / EXTENT);
    assert_null (memchr (place + at, 1, run));
    memset (place + at, 1, run);
    /* Each byte of the run is where the run says. */
    for (unsigned i = 0; i < 4; i++) {
      uint64_t k = i * (run - 1) / 3, left;

      assert_int_equal (fp_stripe_at (t, from + k, &left), at + k);
      assert_true (left >= run - k);
    }
    from += run;
  }
}

static uint64_t
count (uint64_t from, uint64_t length)
{
  uint64_t n = 0;

  for (uint64_t i = 0; i < length; i++)
    n += place[from + i];
  return n;
}

/* Each byte has a place of its own, and an extent is filled from its start. */
static void
test_bijective (void **state)
{
  uint64_t x = seed;

  (void) state;
  for (unsigned n = 0; n < 200; n++) {
    struct fp_extents *t = any_extents (&x);
    uint64_t sum = 0;

    memset (place, 0, sizeof place);
    mark_runs (t, 0, t->size);
    for (uint64_t i = 0; i < t->nr; i++) {
      uint64_t length = fp_extent_length (t, i);

      assert_in_range (length, 1, EXTENT);
      assert_int_equal (count (i * EXTENT, length), length);
      sum += length;
    }
    assert_int_equal (sum, t->size);
    fp_extents_free (t);
  }
}

/* fp_stripe_part returns one range for each extent, which is where the runs
 * lie.
 */
static void
test_parts (void **state)
{
  uint64_t x = seed;

  (void) state;
  for (unsigned n = 0; n < 1000; n++) {
    struct fp_extents *t = any_extents (&x);
    uint64_t offset = rnd (&x) % t->size, in, m, sum = 0;
    uint64_t length = 1 + rnd (&x) % (t->size - offset);

    if (rnd (&x) % 2)
      length = 1 + length % 9000;
    length = FP_MIN (length, t->size - offset);
    memset (place, 0, sizeof place);
    mark_runs (t, offset, offset + length);
    for (uint64_t i = 0; i < t->nr; i++) {
      if (!fp_stripe_part (t, i, offset, length, &in, &m))
        continue;
      assert_true (m > 0 && in + m <= fp_extent_length (t, i));
      assert_int_equal (count (i * EXTENT + in, m), m);
      sum += m;
    }
    assert_int_equal (sum, length);
    fp_extents_free (t);
  }
}

/* A request of usual size goes to one server, the next one to another. */
static void
test_turns (void **state)
{
  const struct fp_stripe stripe = { .width = 4, .size = 128 << 10 };
  struct fp_extents *t = NULL;
  uint64_t run;

  (void) state;
  assert_int_equal (
      fp_extents_new (&t, UINT64_C (8) << 28, UINT64_C (1) << 28, &stripe, 1),
      0);
  for (uint64_t i = 0; i < 9; i++) {
    assert_int_equal (fp_stripe_at (t, i << 17, &run) >> 28, i % 4);
    assert_int_equal (run, 128 << 10);
  }
  assert_int_equal (fp_stripe_at (t, UINT64_C (4) << 28, &run) >> 28, 4);
  fp_extents_free (t);
}

static void
test_apart (void **state)
{
  const unsigned has[4] = { 1, 0, 2, 1 };
  uint64_t a[4] = { 9, 9, 9, 9 }, b[4] = { 9, 0, 9, 1 }, c[4] = { 0, 0, 3, 0 };

  (void) state;
  fp_placement_spread (a, has, 4);
  assert_true (a[0] == 0 && a[1] == 9 && a[2] == 0 && a[3] == 0);
  fp_placement_spread (b, has, 4);
  assert_true (b[0] == 9 && b[1] == 0 && b[2] == 0 && b[3] == 1);
  fp_placement_spread (c, has, 4);
  assert_true (c[2] == 3);
}

/* ---- a volume ---- */

#define SLAB (128 * 1024)
#define SLABS 24u
#define NR_SERVERS 4u
#define WIDTH 3u
#define UNIT (16 * 1024)
#define NR_EXTENTS 20u /* the last group has two */
#define SIZE (19 * SLAB + 512)

static struct fake_server *servers[NR_SERVERS];
static struct fp_volume *v;
static unsigned char *shadow, *buf;

static void
params (struct fp_volume_params *p)
{
  fp_volume_params_init (p);
  p->nr_servers = NR_SERVERS;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    p->servers[i] = *fake_server_addr (servers[i]);
  p->size = SIZE;
  p->slab_size = SLAB;
  p->stripe.width = WIDTH;
  p->stripe.size = UNIT;
  p->transports = FP_TRANSPORT_FAKE;
  p->timeout_ms = 1000;
  p->lanes = 2;
  p->slots = 4;
  p->slot_size = 32 * 1024;
}

static int
setup_servers (void **state)
{
  static const char *const names[] = { "a", "b", "c", "d" };

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
  return fp_volume_start (&v, &p, &error) < 0;
}

static int
teardown (void **state)
{
  (void) state;
  fp_volume_stop (v, true);
  v = NULL;
  assert_int_equal (fp_fake_imports (), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    assert_int_equal (fake_server_free_slabs (servers[i]), SLABS);
    fake_server_free (servers[i]);
  }
  free (shadow);
  free (buf);
  return 0;
}

static void
fill (unsigned char *p, size_t n, uint64_t *x)
{
  for (size_t i = 0; i < n; i++)
    p[i] = (unsigned char) (rnd (x) | 1);
}

static void
write_shadow (uint64_t length, uint64_t offset, uint64_t *x)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  fill (shadow + offset, length, x);
  assert_int_equal (
      fp_lane_write (lane, shadow + offset, (uint32_t) length, offset), 0);
  fp_volume_lane_put (lane);
}

static void
check (void)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  uint64_t n, sum = 0;
  bool hole;

  memset (buf, 0x5a, SIZE);
  assert_int_equal (fp_lane_read (lane, buf, SIZE, 0), 0);
  assert_memory_equal (buf, shadow, SIZE);
  fp_volume_lane_put (lane);
  /* Holes have only zeros, and all ranges together are the volume. */
  for (uint64_t at = 0; at < SIZE; at += n, sum += n) {
    fp_volume_extent (v, at, at % 3 ? UINT64_MAX : 100000, &hole, &n);
    assert_true (n > 0);
    for (uint64_t k = at; hole && k < at + n; k++)
      assert_int_equal (shadow[k], 0);
  }
  assert_int_equal (sum, SIZE);
}

static void
operate (uint64_t *x, unsigned ops)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  for (unsigned i = 0; i < ops; i++) {
    uint64_t length = 1 + rnd (x) % (rnd (x) % 8 == 0 ? SIZE : 40000);
    uint64_t offset = rnd (x) % (SIZE - length + 1);
    bool trim = rnd (x) % 2;

    switch (rnd (x) % 4) {
    case 0:
      fill (shadow + offset, length, x);
      assert_int_equal (
          fp_lane_write (lane, shadow + offset, (uint32_t) length, offset), 0);
      break;
    case 1:
      assert_int_equal (fp_lane_zero (lane, length, offset, trim), 0);
      memset (shadow + offset, 0, length);
      break;
    case 2:
      assert_int_equal (fp_lane_flush (lane), 0);
      break;
    default:
      assert_int_equal (fp_lane_read (lane, buf, (uint32_t) length, offset),
                        0);
      assert_memory_equal (buf, shadow + offset, length);
      break;
    }
  }
  fp_volume_lane_put (lane);
}

static void
test_random (void **state)
{
  uint64_t x = seed;

  (void) state;
  for (unsigned i = 0; i < 10; i++) {
    operate (&x, 100);
    check ();
  }
}

/* Check that the extents of a group are on min (w, width) servers or more. */
static void
check_apart (unsigned width)
{
  for (uint64_t i = 0; i < NR_EXTENTS; i++) {
    uint32_t w;
    uint64_t first = fp_stripe_group (v->extents, i, &w);
    uint64_t seen = 0;

    for (uint64_t k = first; k < first + w; k++) {
      assert_int_equal (fp_extent_state (&v->extents->p[k]), FP_EXTENT_READY);
      seen |= UINT64_C (1) << v->extents->p[k].copy.server;
    }
    assert_true (__builtin_popcountll (seen) >= (int) FP_MIN (w, width));
  }
}

static void
test_placement (void **state)
{
  uint64_t x = seed;

  (void) state;
  assert_int_equal (v->extents->nr, NR_EXTENTS);
  write_shadow (SIZE, 0, &x);
  check_apart (WIDTH);
  check ();
}

static unsigned
labelled (void)
{
  unsigned n = 0;

  for (unsigned i = 0; i < NR_SERVERS; i++)
    n += fake_server_labelled (servers[i]);
  return n;
}

/* A trim releases the extents of whole groups, and none of partial ones. */
static void
test_trim (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  uint64_t x = seed, n;
  bool hole;

  (void) state;
  write_shadow (SIZE, 0, &x);
  assert_int_equal (labelled (), NR_EXTENTS);
  assert_false (fp_volume_zero_is_fast (v, SLAB, 0, true));
  assert_int_equal (fp_lane_zero (lane, SLAB, 0, true), 0);
  memset (shadow, 0, SLAB);
  assert_int_equal (labelled (), NR_EXTENTS);
  assert_true (fp_volume_zero_is_fast (v, WIDTH * SLAB, WIDTH * SLAB, true));
  assert_int_equal (fp_lane_zero (lane, WIDTH * SLAB, WIDTH * SLAB, true), 0);
  memset (shadow + WIDTH * SLAB, 0, WIDTH * SLAB);
  assert_int_equal (labelled (), NR_EXTENTS - WIDTH);
  fp_volume_extent (v, WIDTH * SLAB, UINT64_MAX, &hole, &n);
  assert_true (hole);
  assert_int_equal (n, WIDTH * SLAB);
  assert_true (fp_volume_zero_is_fast (v, WIDTH * SLAB, WIDTH * SLAB, false));
  /* The last group, to the end of the volume. */
  assert_int_equal (fp_lane_zero (lane, SIZE - 18 * SLAB, 18 * SLAB, true), 0);
  memset (shadow + 18 * SLAB, 0, SIZE - 18 * SLAB);
  assert_int_equal (labelled (), NR_EXTENTS - WIDTH - 2);
  check ();
  assert_int_equal (fp_lane_zero (lane, SIZE, 0, true), 0);
  memset (shadow, 0, SIZE);
  assert_int_equal (labelled (), 0);
  check ();
  fp_volume_lane_put (lane);
}

/* No chunk of a zeroed range counts as written.  At the end of an extent that
 * includes a shorter last chunk.
 */
static void
test_zero (void **state)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  uint64_t x = seed, n;
  bool hole;

  (void) state;
  write_shadow (SIZE - 18 * SLAB, 18 * SLAB, &x);
  assert_int_equal (fp_lane_zero (lane, SIZE, 0, false), 0);
  memset (shadow, 0, SIZE);
  check ();
  fp_volume_extent (v, 0, UINT64_MAX, &hole, &n);
  /* The small rest is zeroed by a write, and is not a hole. */
  assert_true (hole);
  assert_true (n >= 18 * SLAB);
  fp_volume_lane_put (lane);
}

/* End the process without detaching: the next one resumes its volume. */
static int
resume (const struct fp_stripe *stripe, bool probe, struct fp_error *error)
{
  struct fp_volume_params p;
  int r;

  params (&p);
  p.resume = true;
  p.uuid = *fp_volume_uuid (v);
  p.stripe = *stripe;
  fp_volume_stop (v, false);
  v = NULL;
  r = probe ? fp_volume_probe (&p, error) : 0;
  if (r == 0)
    r = fp_volume_start (&v, &p, error);
  return r;
}

static void
test_resume (void **state)
{
  const struct fp_stripe as_it_was = { .width = WIDTH, .size = UNIT };
  const struct fp_stripe none = { .width = 0, .size = 0 };
  struct fp_error error;
  uint64_t x = seed;

  (void) state;
  write_shadow (SIZE, 0, &x);
  assert_int_equal (resume (&as_it_was, false, &error), 0);
  check ();
  /* Without stripe parameters, the volume keeps its own. */
  assert_int_equal (resume (&none, true, &error), 0);
  check ();
  operate (&x, 200);
  check ();
}

/* Another geometry is refused, and the message names both. */
static void
test_resume_other (void **state)
{
  static const struct {
    struct fp_stripe stripe;
    const char *why;
  } others[] = {
    { { .width = 4, .size = UNIT },
      "is striped over 3 extents (on a:7471), not over 4" },
    { { .width = 1 }, "is striped over 3 extents (on a:7471), not over 1" },
    { { .width = WIDTH, .size = 2 * UNIT },
      "has stripes of 16K (on a:7471), not of 32K" },
  };
  const struct fp_stripe as_it_was = { .width = WIDTH, .size = UNIT };
  struct fp_uuid uuid = *fp_volume_uuid (v);
  struct fp_error error;
  uint64_t x = seed;

  (void) state;
  write_shadow (SIZE, 0, &x);
  fp_volume_stop (v, false);
  v = NULL;
  for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
    struct fp_volume_params p;

    params (&p);
    p.resume = true;
    p.uuid = uuid;
    p.stripe = others[i].stripe;
    assert_true (fp_volume_probe (&p, &error) < 0);
    if (strstr (error.text, others[i].why) == NULL)
      fail_msg ("'%s'", error.text);
  }
  {
    struct fp_volume_params p;

    params (&p);
    p.resume = true;
    p.uuid = uuid;
    p.stripe = as_it_was;
    assert_int_equal (fp_volume_start (&v, &p, &error), 0);
  }
  check ();
}

/* A volume with a name keeps its geometry, whatever the attaching client says.
 */
static void
test_named (void **state)
{
  const struct fp_stripe none = { .width = 0 };
  const struct fp_stripe all[] = { { .width = WIDTH },
                                   { .size = UNIT },
                                   none };
  struct fp_volume_params p;
  struct fp_error error;
  uint64_t x = seed;

  (void) state;
  for (unsigned i = 0; i < 4; i++) {
    params (&p);
    strcpy (p.name, "vol");
    if (i > 0)
      p.stripe = all[i - 1];
    assert_int_equal (fp_volume_probe (&p, &error), 0);
    assert_int_equal (p.stripe.width, WIDTH);
    assert_int_equal (p.stripe.size, UNIT);
    assert_int_equal (fp_volume_start (&v, &p, &error), 0);
    if (i > 0)
      check ();
    operate (&x, 50);
    write_shadow (SLAB, 5 * SLAB, &x);
    if (i < 3)
      fp_volume_stop (v, false);
  }
  fp_volume_stop (v, false);
  v = NULL;
  params (&p);
  strcpy (p.name, "vol");
  p.stripe.width = 1;
  assert_true (fp_volume_probe (&p, &error) < 0);
  assert_non_null (strstr (error.text,
                           "volume vol is striped over 3 extents (on "
                           "a:7471), not over 1"));
  p.stripe = none;
  assert_int_equal (fp_volume_probe (&p, &error), 0);
  assert_int_equal (fp_volume_start (&v, &p, &error), 0);
  check ();
  assert_int_equal (fp_lane_zero (v->engine.lanes[0], SIZE, 0, true), 0);
}

/* Migrated extents of one group stay apart, too.  After a resume, all of the
 * last extent counts as written, but nothing beyond its end is copied.
 */
static void
test_moves (void **state)
{
  const struct fp_stripe as_it_was = { .width = WIDTH, .size = UNIT };
  struct fp_drain_status d = { .state = FP_DRAIN_NONE };
  struct fp_server_status s;
  struct fp_error error;
  uint64_t x = seed, deadline;

  (void) state;
  write_shadow (SIZE, 0, &x);
  assert_int_equal (resume (&as_it_was, false, &error), 0);
  for (uint64_t i = 0; i < NR_EXTENTS; i++) {
    unsigned to = (v->extents->p[i].copy.server + 1) % NR_SERVERS;

    assert_int_equal (fp_migrate_move (v->migrate, i, to), 0);
    assert_int_equal (v->extents->p[i].copy.server, to);
  }
  check ();
  operate (&x, 50);
  write_shadow (SIZE, 0, &x);
  assert_int_equal (fp_volume_drain (v, 2, 0, &error), 0);
  for (deadline = fp_deadline_in_ms (20000); d.state != FP_DRAIN_DONE;) {
    assert_false (fp_deadline_passed (deadline));
    operate (&x, 1);
    fp_volume_server_status (v, 2, &s);
    d = s.drain;
  }
  check ();
  write_shadow (SIZE, 0, &x);
  check_apart (2);
  check ();
}

/* By default stripes go over all servers, but not over more than there are
 * extents.
 */
static void
test_default (void **state)
{
  struct fp_volume_params p;
  struct fp_error error;

  (void) state;
  params (&p);
  p.stripe = (struct fp_stripe) { .width = 0 };
  assert_int_equal (fp_volume_probe (&p, &error), 0);
  assert_int_equal (p.stripe.width, NR_SERVERS);
  assert_int_equal (p.stripe.size, SLAB);
  params (&p);
  p.stripe = (struct fp_stripe) { .size = 4096 };
  p.size = 2 * SLAB;
  assert_int_equal (fp_volume_probe (&p, &error), 0);
  assert_int_equal (p.stripe.width, 2);
  assert_int_equal (p.stripe.size, 4096);
  p.stripe.size = 2 * SLAB;
  assert_true (fp_volume_probe (&p, &error) < 0);
  assert_non_null (
      strstr (error.text, "stripe=256K: must be a part of a slab"));
  assert_true (fp_volume_start (&v, &p, &error) < 0);
}

int
main (void)
{
  const char *s = getenv ("FARPAGE_TEST_SEED");
  const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
    cmocka_unit_test (test_bijective),
    cmocka_unit_test (test_parts),
    cmocka_unit_test (test_turns),
    cmocka_unit_test (test_apart),
    TEST (test_random),
    TEST (test_placement),
    TEST (test_trim),
    TEST (test_zero),
    TEST (test_resume),
    TEST (test_resume_other),
    TEST (test_moves),
    cmocka_unit_test_setup_teardown (test_named, setup_servers, teardown),
    cmocka_unit_test_setup_teardown (test_default, setup_servers, teardown),
  };

  seed = s != NULL ? strtoull (s, NULL, 0) : 1;
  printf ("FARPAGE_TEST_SEED=%llu\n", (unsigned long long) seed);
  if (getenv ("FARPAGE_TEST") != NULL)
    cmocka_set_test_filter (getenv ("FARPAGE_TEST"));
  return cmocka_run_group_tests (tests, NULL, NULL);
}
