/* SPDX-License-Identifier: BSD-3-Clause */
/* test-pressure.c - when a memory server lends less and gives memory back to
 * its host, when it lends again, and what it asks of its clients.
 */

#include "unit.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "donor.h"
#include "memserver/pool/host.h"
#include "memserver/pressure.h"

#define N(a) (sizeof (a) / sizeof (a)[0])

/* 16 MiB slabs and a reserve of 256 MiB: the margin is 32 MiB. */
static const struct pressure_rules rules = { .reserve = 256 * MIB,
                                             .slab = 16 * MIB };

/* One sample, at its time, and the verdict expected. */
struct step {
  const char *what;
  unsigned ms;
  unsigned available; /* MiB */
  bool stalled;
  uint32_t free, going, lent;
  bool pressed;
  uint32_t shed, wanted;
};

static void
go (const struct step *steps, size_t n)
{
  struct pressure_state state = { .pressed = false };

  for (size_t i = 0; i < n; i++) {
    const struct step *s = &steps[i];
    const struct pressure_sample sample = { .now_ns = FP_NS_PER_S +
                                                      s->ms * FP_NS_PER_MS,
                                            .available = s->available * MIB,
                                            .stalled = s->stalled,
                                            .free = s->free,
                                            .going = s->going,
                                            .lent = s->lent };
    struct pressure_verdict v = pressure_decide (&state, &rules, &sample);

    if (state.pressed != s->pressed || v.shed != s->shed ||
        v.wanted != s->wanted)
      fail_msg ("%s: pressed %d shed %u wanted %u", s->what, state.pressed,
                v.shed, v.wanted);
  }
}

static void
test_give (void **state)
{
  static const struct step steps[] = {
    { "plenty", 0, 4096, false, 8, 0, 8, false, 0, 0 },
    { "less than the margin", 250, 257, false, 8, 0, 8, false, 0, 0 },
    { "just enough", 500, 256, false, 8, 0, 8, false, 0, 0 },
    { "a little short", 750, 255, false, 8, 0, 8, true, 3, 0 },
    { "on their way", 1000, 255, false, 5, 3, 8, true, 0, 0 },
    { "one arrived", 1250, 271, false, 5, 2, 8, true, 0, 0 },
    { "another hog", 1500, 200, false, 5, 2, 8, true, 4, 0 },
    { "free ones are not enough", 1750, 160, false, 1, 0, 8, true, 1, 5 },
    { "all went, and are on their way", 2000, 160, false, 0, 1, 8, true, 0,
      5 },
    { "clients give one", 2250, 176, false, 0, 1, 7, true, 0, 4 },
    { "no more than are lent", 2500, 176, false, 0, 0, 3, true, 0, 3 },
    { "the reserve is there, not the margin", 2750, 260, false, 0, 0, 3, true,
      0, 0 },
    { "so what is freed later goes, too", 3000, 260, false, 1, 0, 2, true, 1,
      0 },
    { "nothing to give", 3250, 0, false, 0, 0, 0, true, 0, 0 },
  };

  (void) state;
  assert_int_equal (pressure_margin (&rules), 32 * MIB);
  go (steps, N (steps));
}

static void
test_batch (void **state)
{
  static const struct step steps[] = {
    { "a batch at a time", 0, 0, false, 0, 0, 1000, true, 0, 16 },
    { "all that is free", 250, 0, false, 1000, 0, 0, true, 18, 0 },
  };

  (void) state;
  go (steps, N (steps));
}

static void
test_calm (void **state)
{
  static const struct step steps[] = {
    { "short", 0, 200, false, 0, 0, 4, true, 0, 4 },
    { "enough", 1000, 288, false, 0, 0, 4, true, 0, 0 },
    { "not for long enough", 5900, 288, false, 0, 0, 4, true, 0, 0 },
    { "less than the margin again", 5950, 287, false, 0, 0, 4, true, 0, 0 },
    { "it begins anew", 6000, 300, false, 0, 0, 4, true, 0, 0 },
    { "still", 10999, 300, false, 0, 0, 4, true, 0, 0 },
    { "for five seconds", 11000, 300, false, 0, 0, 4, false, 0, 0 },
    { "the margin is not the reserve", 12000, 260, false, 0, 0, 4, false, 0,
      0 },
    { "short", 13000, 255, false, 0, 0, 4, true, 0, 1 },
    { "enough", 14000, 288, false, 0, 0, 4, true, 0, 0 },
    { "short once more", 18900, 255, false, 0, 0, 4, true, 0, 1 },
    { "that counts", 19100, 288, false, 0, 0, 4, true, 0, 0 },
    { "it is over", 24100, 288, false, 0, 0, 4, false, 0, 0 },
  };

  (void) state;
  go (steps, N (steps));
}

static void
test_stalled (void **state)
{
  static const struct step steps[] = {
    { "not this host's memory", 0, 512, true, 2, 0, 4, false, 0, 0 },
    { "it may be", 250, 511, true, 2, 0, 4, true, 1, 0 },
    { "one at a time", 500, 511, true, 1, 1, 4, true, 0, 0 },
    { "the last", 750, 511, true, 1, 0, 4, true, 1, 0 },
    { "it goes on", 1000, 511, true, 0, 0, 4, true, 0, 1 },
    { "nobody waits", 1250, 511, false, 0, 0, 4, true, 0, 0 },
    { "short, too", 1500, 200, true, 0, 0, 9, true, 0, 4 },
    { "calm", 2000, 600, false, 0, 0, 4, true, 0, 0 },
    { "a cgroup's stall", 7000, 600, true, 0, 0, 4, false, 0, 0 },
  };

  (void) state;
  go (steps, N (steps));
}

/* With --reserve 0, nothing is watched. */
static void
test_no_reserve (void **state)
{
  const struct pressure_rules none = { .reserve = 0, .slab = 16 * MIB };
  const struct pressure_sample sample = {
    .now_ns = 1, .stalled = true, .free = 1, .lent = 1
  };
  struct pressure_state s = { .pressed = false };
  struct pressure_verdict v = pressure_decide (&s, &none, &sample);

  (void) state;
  assert_false (s.pressed);
  assert_int_equal (v.shed + v.wanted, 0);
}

/* ---- the pool follows the verdict ---- */

static int
setup (void **state)
{
  (void) state;
  donor_start (4, 4);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  donor_stop ();
  return 0;
}

static uint32_t want_unpopulated;

static bool
unpopulated (void)
{
  return pool_count (donor.pool).in[SLAB_UNPOPULATED] == want_unpopulated &&
         pool_count (donor.pool).in[SLAB_SCRUBBING] == 0;
}

static bool
is_zero (const struct slab *s)
{
  return s->backing.addr[0] == 0 &&
         memcmp (s->backing.addr, s->backing.addr + 1, 4 * MIB - 1) == 0;
}

/* Return the bytes of the slab's memfd that have memory. */
static uint64_t
present (const struct slab *s)
{
  struct stat st;

  assert_int_equal (fstat (s->backing.fd, &st), 0);
  return (uint64_t) st.st_blocks * 512;
}

static void
test_shed (void **state)
{
  struct slab *s = pool_take (donor.pool), *kept;

  (void) state;
  assert_int_equal (pool_lendable (donor.pool), 3);
  memset (s->backing.addr, 7, 4 * MIB);
  pool_press (donor.pool, true, 0);
  assert_int_equal (pool_lendable (donor.pool), 0);
  assert_null (pool_take (donor.pool));
  pool_shed (donor.pool, 2);
  want_unpopulated = 2;
  donor_wait (unpopulated);
  assert_int_equal (pool_count (donor.pool).ordinary[SLAB_FREE], 1);
  assert_int_equal (pool_count (donor.pool).ordinary[SLAB_LENT], 1);
  assert_int_equal (pool_count (donor.pool).given, 2);

  /* A returned slab goes to the host.  It is clean when it is lent again. */
  pool_return (donor.pool, s);
  want_unpopulated = 3;
  donor_wait (unpopulated);
  assert_int_equal (present (s), 0);
  assert_int_equal (pool_count (donor.pool).given, 3);
  pool_shed (donor.pool, 100);
  want_unpopulated = 4;
  donor_wait (unpopulated);
  for (unsigned i = 0; i < 4; i++)
    assert_int_equal (present (pool_slab (donor.pool, i)), 0);

  pool_press (donor.pool, false, 0);
  assert_int_equal (pool_lendable (donor.pool), 4);
  donor_wait (donor_all_free);
  for (unsigned i = 0; i < 4; i++) {
    kept = pool_take (donor.pool);
    assert_non_null (kept);
    assert_int_equal (present (kept), 4 * MIB);
    assert_true (is_zero (kept));
  }
  assert_int_equal (pool_count (donor.pool).given, 4);
  assert_int_equal (pool_count (donor.pool).ordinary[SLAB_LENT], 4);
}

/* Memory goes back to the host even if a client had the memfd. */
static void
test_shed_exposed (void **state)
{
  struct slab *s = pool_take (donor.pool);

  (void) state;
  s->exposed = true;
  pool_press (donor.pool, true, 0);
  pool_return (donor.pool, s);
  want_unpopulated = 1;
  donor_wait (unpopulated);
  assert_int_equal (pool_count (donor.pool).given, 1);
  pool_press (donor.pool, false, 0);
  donor_wait (donor_all_free);
}

static bool
short_of_memory (void)
{
  return pool_lendable (donor.pool) == 3;
}

/* A slab for which there is no memory is not promised. */
static void
test_floor (void **state)
{
  (void) state;
  pool_press (donor.pool, true, 0);
  pool_shed (donor.pool, 1);
  want_unpopulated = 1;
  donor_wait (unpopulated);
  pool_press (donor.pool, false, UINT64_MAX);
  donor_wait (short_of_memory);
  pool_press (donor.pool, false, 0);
  donor_wait (donor_all_free);
}

static struct pool_move move;
static bool moved;

static void
on_moved (struct note *note)
{
  (void) note;
  assert_int_equal (pool_moved (&move), 0);
  moved = true;
}

static bool
is_moved (void)
{
  return moved;
}

/* Pressure stops new grants.  The copy that gives a client its volume back
 * goes on as long as the reserve is available.
 */
static void
test_move (void **state)
{
  struct slab *s = pool_take (donor.pool);

  (void) state;
  memset (s->backing.addr, 7, 4 * MIB);
  s->exposed = s->abandoned = true;
  pool_press (donor.pool, true, UINT64_MAX);
  move.slab = s;
  move.done.run = on_moved;
  pool_move (donor.pool, &move);
  donor_wait (is_moved);
  assert_int_equal (s->backing.addr[4 * MIB - 1], 7);
  assert_int_equal (pool_count (donor.pool).ordinary[SLAB_LENT], 1);
}

/* Memory is watched even without free file descriptors. */
static void
test_no_descriptor (void **state)
{
  struct rlimit limit, none;
  struct host_memory memory;
  uint64_t us;
  int counts;

  (void) state;
  assert_int_equal (host_memory (&memory, -1), 0);
  counts = host_stalled_us (&us);
  assert_int_equal (getrlimit (RLIMIT_NOFILE, &limit), 0);
  none = (struct rlimit) { .rlim_cur = 3, .rlim_max = limit.rlim_max };
  assert_int_equal (setrlimit (RLIMIT_NOFILE, &none), 0);
  memset (&memory, 0, sizeof memory);
  assert_int_equal (host_memory (&memory, -1), 0);
  if (counts == 0) /* else this kernel has no such file */
    assert_int_equal (host_stalled_us (&us), 0);
  assert_int_equal (setrlimit (RLIMIT_NOFILE, &limit), 0);
  assert_true (memory.available > 0 && memory.available <= memory.total);
}

int
main (void)
{
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_give),
    cmocka_unit_test (test_batch),
    cmocka_unit_test (test_calm),
    cmocka_unit_test (test_stalled),
    cmocka_unit_test (test_no_reserve),
    cmocka_unit_test (test_no_descriptor),
    TEST (test_shed),
    TEST (test_shed_exposed),
    TEST (test_floor),
    TEST (test_move),
  };

  return RUN_TESTS (tests);
}
