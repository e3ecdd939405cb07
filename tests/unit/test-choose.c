/* SPDX-License-Identifier: BSD-3-Clause */
/* test-choose.c - the choice of donors out of a registry, and its balance in a
 * fleet that fills up.
 */

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pool/choose.h"

#define GIB (UINT64_C (1) << 30)
/* BENCH_: with FARPAGE_BENCH=yes. */
#define DONORS 400u
#define VOLUMES 4000u
#define BENCH_DONORS 5000u
#define BENCH_VOLUMES 50000u
#define RACK 40u
#define DONOR_SIZE (64 * GIB)
#define COPIES 2u

static struct fp_registry registry;
static uint64_t random_state;

/* splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t
draw (void *arg)
{
  uint64_t z = random_state += UINT64_C (0x9e3779b97f4a7c15);

  (void) arg;
  z = (z ^ (z >> 30)) * UINT64_C (0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C (0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static int
teardown (void **state)
{
  (void) state;
  fp_registry_free (&registry);
  return 0;
}

/* Make a fleet of n empty donors, with in_domain donors in each domain. */
static void
fleet (size_t n, unsigned in_domain)
{
  registry.nr = n;
  registry.donors = calloc (n, sizeof *registry.donors);
  assert_non_null (registry.donors);
  random_state = 1;
  for (size_t i = 0; i < n; i++) {
    struct fp_donor *d = &registry.donors[i];

    snprintf (d->addr, sizeof d->addr, "donor%zu", i);
    snprintf (d->domain, sizeof d->domain, "rack%zu", i / in_domain);
    d->total = d->free = DONOR_SIZE;
    d->slab = GIB / 4;
    d->protocol = FP_VERSION;
  }
}

static int
choose (unsigned n, uint64_t room, size_t *out)
{
  const struct fp_choose_rules rules = { .n = n, .room = room, .draw = draw };

  return fp_choose_donors (&registry, &rules, out);
}

static void
test_spread (void **state)
{
  size_t out[4];

  (void) state;
  fleet (8, 2);
  for (unsigned run = 0; run < 100; run++) {
    unsigned racks = 0;

    assert_int_equal (choose (4, GIB, out), 4);
    for (unsigned i = 0; i < 4; i++)
      racks |= 1u << out[i] / 2;
    assert_int_equal (racks, 0xf);
  }
}

/* A donor without a domain counts as a domain of its own. */
static void
test_no_domains (void **state)
{
  size_t out[4];

  (void) state;
  fleet (3, 1);
  for (size_t i = 0; i < 3; i++)
    registry.donors[i].domain[0] = '\0';
  assert_int_equal (choose (4, 0, out), 3);
  assert_int_equal (1u << out[0] | 1u << out[1] | 1u << out[2], 7);
}

static bool
is_third (void *arg, const struct fp_donor *d)
{
  (void) arg;
  return strcmp (d->addr, "donor3") == 0;
}

static void
test_left_out (void **state)
{
  const struct fp_choose_rules rules = {
    .n = 2, .room = GIB, .has = is_third, .draw = draw
  };
  size_t out[2];

  (void) state;
  fleet (6, 1);
  registry.donors[0].pressed = true;
  registry.donors[1].draining = true;
  registry.donors[2].cordoned = true;
  registry.donors[4].free = GIB - 1;
  for (unsigned run = 0; run < 20; run++) {
    assert_int_equal (fp_choose_donors (&registry, &rules, out), 1);
    assert_int_equal (out[0], 5);
  }
  registry.donors[5].protocol = FP_VERSION + 1;
  assert_int_equal (fp_choose_donors (&registry, &rules, out), 1);
  registry.donors[5].protocol = FP_VERSION + 2;
  assert_int_equal (fp_choose_donors (&registry, &rules, out), 0);
  registry.donors[5].protocol = FP_VERSION - 1;
  assert_int_equal (fp_choose_donors (&registry, &rules, out), 0);
  registry.donors[5].protocol = FP_VERSION;
  registry.donors[5].free = 0;
  assert_int_equal (choose (2, 0, out), 2);
  assert_int_equal (out[0] + out[1], 3 + 4);
  registry.nr = 0;
  assert_int_equal (choose (1, 0, out), 0);
}

/* If the volume has a donor, another domain comes first. */
static void
test_other_domain (void **state)
{
  const struct fp_choose_rules rules = { .n = 3,
                                         .has = is_third,
                                         .draw = draw };
  size_t out[3];

  (void) state;
  fleet (4, 2);
  for (unsigned run = 0; run < 20; run++) {
    assert_int_equal (fp_choose_donors (&registry, &rules, out), 3);
    assert_in_range (out[0], 0, 1);
  }
}

/* All donors have slabs of one size: that of the volume's, or else the one
 * with enough donors.
 */
static void
test_slabs (void **state)
{
  const struct fp_choose_rules rules = { .n = 4,
                                         .has = is_third,
                                         .draw = draw };
  size_t out[4];

  (void) state;
  fleet (4, 1);
  registry.donors[0].slab = GIB;
  registry.donors[0].free = 100 * DONOR_SIZE;
  registry.donors[3].slab = GIB;
  registry.donors[3].free = 0;
  assert_int_equal (choose (2, 0, out), 2);
  assert_int_equal (out[0] + out[1], 1 + 2);
  assert_int_equal (choose (1, 0, out), 1);
  assert_int_equal (out[0], 0);
  assert_int_equal (fp_choose_donors (&registry, &rules, out), 1);
  assert_int_equal (out[0], 0);
}

/* Let many clients choose.  The free memory that they see is updated after
 * each hundredth of the volumes.  The volumes together fill the fleet to 80 %.
 */
static void
test_balance (void **state)
{
  const char *bench = getenv ("FARPAGE_BENCH");
  bool large = bench != NULL && strcmp (bench, "yes") == 0;
  size_t donors = large ? BENCH_DONORS : DONORS;
  size_t volumes = large ? BENCH_VOLUMES : VOLUMES;
  uint64_t size = DONOR_SIZE / 10 * 8 * donors / volumes / COPIES;
  uint64_t *used = calloc (donors, sizeof *used), most = 0, began;
  size_t out[COPIES];

  (void) state;
  assert_non_null (used);
  fleet (donors, RACK);
  began = fp_now_ns ();
  for (size_t v = 0; v < volumes; v++) {
    if (v % (volumes / 100) == 0)
      for (size_t i = 0; i < donors; i++)
        registry.donors[i].free = DONOR_SIZE - used[i];
    /* Sizes from a half to one and a half. */
    uint64_t wanted = size / 2 + draw (NULL) % size;

    assert_int_equal (choose (COPIES, wanted, out), COPIES);
    for (unsigned c = 0; c < COPIES; c++)
      used[out[c]] += wanted;
    assert_int_not_equal (out[0] / RACK, out[1] / RACK);
  }
  for (size_t i = 0; i < donors; i++)
    most = used[i] > most ? used[i] : most;
  print_message ("%zu donors, %zu volumes: fullest donor %.3f of its memory, "
                 "%.0f us a choice\n",
                 donors, volumes, (double) most / (double) DONOR_SIZE,
                 (double) (fp_now_ns () - began) / 1e3 / (double) volumes);
  /* The mean is 0.8. */
  assert_true (most <= DONOR_SIZE);
  free (used);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_teardown (test_spread, teardown),
    cmocka_unit_test_teardown (test_no_domains, teardown),
    cmocka_unit_test_teardown (test_left_out, teardown),
    cmocka_unit_test_teardown (test_other_domain, teardown),
    cmocka_unit_test_teardown (test_slabs, teardown),
    cmocka_unit_test_teardown (test_balance, teardown),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
