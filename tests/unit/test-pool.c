/* SPDX-License-Identifier: BSD-3-Clause */
/* test-pool.c - slabs leave the pool clean, and its thread serves waiting
 * callers first.
 */

#include "unit.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "donor.h"
#include "memserver/pool/pool_int.h"

#define LARGE_MIB 128

static int
setup (void **state)
{
  (void) state;
  donor_start (3, 4);
  return 0;
}

static int
setup_large (void **state)
{
  (void) state;
  donor_start (1, LARGE_MIB);
  return 0;
}

static int
setup_idle (void **state)
{
  (void) state;
  donor_start_idle (3, 4);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  donor_stop ();
  return 0;
}

static bool
holds (const struct slab *s, uint64_t from, uint64_t to, uint8_t byte)
{
  for (uint64_t i = from; i < to; i++)
    if (s->backing.addr[i] != byte)
      return false;
  return true;
}

static ino_t
inode (const struct slab *s)
{
  struct stat st;

  assert_int_equal (fstat (s->backing.fd, &st), 0);
  return st.st_ino;
}

/* Take all slabs, each once; those that come back are clean. */
static void
test_clean (void **state)
{
  struct slab *s[4];

  (void) state;
  for (unsigned round = 0; round < 2; round++) {
    for (unsigned i = 0; i < 3; i++) {
      s[i] = pool_take (donor.pool);
      assert_non_null (s[i]);
      assert_int_equal (s[i]->state, SLAB_LENT);
      assert_true (holds (s[i], 0, 4 * MIB, 0));
      memset (s[i]->backing.addr, 7, 4 * MIB);
    }
    assert_null (pool_take (donor.pool));
    assert_int_equal (pool_lendable (donor.pool), 0);
    for (unsigned i = 0; i < 3; i++)
      pool_return (donor.pool, s[i]);
    assert_int_equal (pool_lendable (donor.pool), 3);
    donor_wait (donor_all_free);
  }
}

/* A slab whose memfd a client had gets another memfd.  The client's old
 * mapping no longer reaches the slab.
 */
static void
test_exposed (void **state)
{
  struct slab *s = pool_take (donor.pool);
  ino_t before = inode (s);
  uint8_t *map;

  (void) state;
  map = mmap (NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, s->backing.fd,
              0);
  assert_true (map != MAP_FAILED);
  for (unsigned abandoned = 0; abandoned < 2; abandoned++) {
    memset (map, 9, 4 * MIB);
    s->exposed = true;
    s->abandoned = abandoned;
    pool_return (donor.pool, s);
    donor_wait (donor_all_free);
    assert_false (s->exposed || s->abandoned);
    assert_int_not_equal (inode (s), before);
    map[5] = 1;
    assert_true (holds (s, 0, 4 * MIB, 0));
  }
  munmap (map, 4 * MIB);
}

/* A client cannot resize or seal the memfd of a slab. */
static void
test_sealed (void **state)
{
  struct slab *s = pool_take (donor.pool);

  (void) state;
  assert_int_equal (ftruncate (s->backing.fd, 0), -1);
  assert_int_equal (errno, EPERM);
  assert_int_equal (ftruncate (s->backing.fd, 8 * MIB), -1);
  assert_int_equal (errno, EPERM);
  assert_int_equal (fcntl (s->backing.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
  assert_int_equal (errno, EPERM);
  pool_return (donor.pool, s);
}

/* Memory that a client may still have mapped stays in use.  Its slab counts as
 * lendable once it has new memory.
 */
static void
test_doubtful (void **state)
{
  struct slab *s = pool_take (donor.pool);

  (void) state;
  s->exposed = true;
  pool_return (donor.pool, s);
  assert_int_equal (pool_lendable (donor.pool), 3);
  donor_wait (donor_all_free);
  s = pool_take (donor.pool);
  s->exposed = s->abandoned = true;
  pool_return (donor.pool, s);
  assert_int_equal (pool_lendable (donor.pool), 2);
  donor_wait (donor_all_free);
  assert_int_equal (pool_lendable (donor.pool), 3);
}

static bool old_kernel;

int __real_madvise (void *addr, size_t length, int advice);
int __wrap_madvise (void *addr, size_t length, int advice);

int
__wrap_madvise (void *addr, size_t length, int advice)
{
  if (old_kernel && advice == 23 /* MADV_POPULATE_WRITE */) {
    errno = EINVAL;
    return -1;
  }
  return __real_madvise (addr, length, advice);
}

static bool
are_unpopulated (void)
{
  return pool_count (donor.pool).in[SLAB_UNPOPULATED] == 2;
}

/* Two slabs wait for new memory and are not promised.  The third still is. */
static void
test_doubtful_and_short (void **state)
{
  struct slab *s[2];

  (void) state;
  pool_press (donor.pool, false, UINT64_MAX);
  for (unsigned i = 0; i < 2; i++) {
    s[i] = pool_take (donor.pool);
    s[i]->exposed = s[i]->abandoned = true;
  }
  for (unsigned i = 0; i < 2; i++)
    pool_return (donor.pool, s[i]);
  donor_wait (are_unpopulated);
  assert_int_equal (pool_lendable (donor.pool), 1);
  assert_non_null (pool_take (donor.pool));
  assert_int_equal (pool_lendable (donor.pool), 0);
}

/* Kernels before 5.14 cannot populate: backing_pin must keep the contents. */
static void
test_pin (void **state)
{
  struct slab *s = pool_take (donor.pool);

  (void) state;
  memset (s->backing.addr, 7, s->backing.size);
  old_kernel = true;
  (void) backing_pin (&s->backing, 0, s->backing.size);
  old_kernel = false;
  for (uint64_t i = 0; i < s->backing.size; i++)
    assert_int_equal (s->backing.addr[i], 7);
  pool_return (donor.pool, s);
}

static bool
waits_for_memory (void)
{
  assert_int_equal (pool_count (donor.pool).in[SLAB_LOST], 0);
  return pool_count (donor.pool).in[SLAB_UNPOPULATED] == 1 &&
         pool_lendable (donor.pool) == 2;
}

/* A lack of file descriptors for a while loses no slab, and none is promised.
 */
static void
test_no_descriptor (void **state)
{
  struct slab *s = pool_take (donor.pool), *other = pool_take (donor.pool);
  struct rlimit limit, none;

  (void) state;
  assert_int_equal (getrlimit (RLIMIT_NOFILE, &limit), 0);
  none = (struct rlimit) { .rlim_cur = 3, .rlim_max = limit.rlim_max };
  assert_int_equal (setrlimit (RLIMIT_NOFILE, &none), 0);
  s->exposed = true;
  pool_return (donor.pool, s);
  pool_return (donor.pool, other);
  donor_wait (waits_for_memory);
  assert_int_equal (setrlimit (RLIMIT_NOFILE, &limit), 0);
  donor_wait (donor_all_free);
  assert_int_equal (pool_lendable (donor.pool), 3);
}

static struct pool_move move;
static bool moved;

static void
on_moved (struct note *note)
{
  assert_ptr_equal (note, &move.done);
  assert_int_equal (pool_moved (&move), 0);
  moved = true;
}

static bool
is_moved (void)
{
  return moved;
}

/* A move keeps the bytes, and no client has the new memory mapped. */
static void
test_move (void **state)
{
  struct slab *s = pool_take (donor.pool);
  uint8_t *map;

  (void) state;
  map = mmap (NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, s->backing.fd,
              0);
  assert_true (map != MAP_FAILED);
  memset (map, 9, 4 * MIB - 1);
  map[4 * MIB - 1] = 8;
  s->exposed = s->abandoned = true;
  move.slab = s;
  move.done.run = on_moved;
  pool_move (donor.pool, &move);
  donor_wait (is_moved);
  memset (map, 1, 4 * MIB);
  munmap (map, 4 * MIB);
  assert_false (s->exposed || s->abandoned);
  assert_true (holds (s, 0, 4 * MIB - 1, 9));
  assert_int_equal (s->backing.addr[4 * MIB - 1], 8);
  assert_int_equal (s->state, SLAB_LENT);
  pool_return (donor.pool, s);
  donor_wait (donor_all_free);
}

static void
test_lost (void **state)
{
  struct slab *s = pool_take (donor.pool);

  (void) state;
  pool_lose (donor.pool, s);
  assert_int_equal (pool_lendable (donor.pool), 2);
  assert_non_null (pool_take (donor.pool));
  assert_non_null (pool_take (donor.pool));
  assert_null (pool_take (donor.pool));
  assert_int_equal (pool_count (donor.pool).in[SLAB_LOST], 1);
}

static void
test_index (void **state)
{
  (void) state;
  assert_int_equal (pool_slab (donor.pool, 2)->index, 2);
  assert_null (pool_slab (donor.pool, 3));
  assert_null (pool_slab (donor.pool, UINT64_MAX));
}

static struct pool_zero job;
static enum slab_state other; /* state of `watched` when the job was done */
static struct slab *watched;
static bool zeroed;

static void
on_zeroed (struct note *note)
{
  assert_ptr_equal (note, &job.done);
  other = watched->state;
  zeroed = true;
}

static bool
is_zeroed (void)
{
  return zeroed;
}

static void
start_zero (struct slab *s, uint64_t offset, uint64_t length)
{
  memset (&job, 0, sizeof job);
  job.done.run = on_zeroed;
  job.slab = s;
  job.offset = offset;
  job.length = length;
  zeroed = false;
  pool_zero (donor.pool, &job);
}

static void
test_zero (void **state)
{
  static const uint64_t ranges[][2] = { { 0, 1 },
                                        { 4095, 2 },
                                        { 1, 4 * MIB - 2 },
                                        { 2 * MIB - 1, MIB },
                                        { 0, 4 * MIB } };
  struct slab *s = watched = pool_take (donor.pool);

  (void) state;
  for (unsigned i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
    uint64_t from = ranges[i][0], to = from + ranges[i][1];

    memset (s->backing.addr, 7, 4 * MIB);
    start_zero (s, from, to - from);
    donor_wait (is_zeroed);
    assert_int_equal (job.status, 0);
    assert_true (holds (s, 0, from, 7) && holds (s, from, to, 0) &&
                 holds (s, to, 4 * MIB, 7));
  }
}

/* Return true if the thread has begun to scrub s.  Read through the memfd, as
 * the memory belongs to the thread now.
 */
static bool
begun (const struct slab *s)
{
  uint8_t byte;

  assert_int_equal (pread (s->backing.fd, &byte, 1, 0), 1);
  return byte == 0;
}

/* A large slab takes long to scrub.  To zero a page does not, even meanwhile.
 * The scheduler may stop this thread for a whole scrub, but not in every try.
 */
static void
test_zero_first (void **state)
{
  (void) state;
  other = SLAB_FREE;
  for (unsigned tries = 0; tries < 5 && other != SLAB_SCRUBBING; tries++) {
    struct slab *s = watched = pool_take (donor.pool);

    memset (s->backing.addr, 7, LARGE_MIB * MIB);
    pool_return (donor.pool, s);
    while (!begun (s))
      ;
    start_zero (s, 0, 4096);
    donor_wait (is_zeroed);
    assert_int_equal (job.status, 0);
    donor_wait (donor_all_free);
    assert_true (holds (s, 0, LARGE_MIB * MIB, 0));
  }
  assert_int_equal (other, SLAB_SCRUBBING);
}

static struct pool_zero again[2];
static bool stop_zeroing;

/* Act as a client that zeroes one slab again and again. */
static void
on_zeroed_again (struct note *note)
{
  for (unsigned i = 0; i < 2; i++)
    if (note == &again[i].done && !stop_zeroing)
      pool_zero (donor.pool, &again[i]);
}

/* Run one step of the worker, then the loop for its result. */
static bool
step (void)
{
  bool did = pool_step (donor.pool, false);

  assert_int_not_equal (event_base_loop (donor.base, EVLOOP_NONBLOCK), -1);
  return did;
}

/* A client that zeroes without end does not stop scrubbing. */
static void
test_zero_is_fair (void **state)
{
  struct slab *zeroed_slab, *returned;
  unsigned steps = 0;

  (void) state;
  while (step ())
    ;
  assert_true (donor_all_free ());
  zeroed_slab = pool_take (donor.pool);
  returned = pool_take (donor.pool);
  stop_zeroing = false;
  for (unsigned i = 0; i < 2; i++) {
    again[i] = (struct pool_zero) { .done.run = on_zeroed_again,
                                    .slab = zeroed_slab,
                                    .length = 4 * MIB };
    pool_zero (donor.pool, &again[i]);
  }
  pool_return (donor.pool, returned);
  while (returned->state != SLAB_FREE && steps < 200) {
    assert_true (step ());
    steps++;
  }
  stop_zeroing = true;
  while (step ())
    ;
  assert_in_range (steps, 2, 100);
}

/* Slabs are left out of core dumps. */
static void
test_not_dumped (void **state)
{
  const struct slab *s = pool_slab (donor.pool, 0);
  char line[512], *end;
  bool here = false;
  FILE *f = fopen ("/proc/self/smaps", "r");

  (void) state;
  if (!f)
    skip ();
  while (fgets (line, sizeof line, f)) {
    uintptr_t from = strtoull (line, &end, 16);

    if (*end == '-')
      here = from <= (uintptr_t) s->backing.addr &&
             strtoull (end + 1, NULL, 16) > (uintptr_t) s->backing.addr;
    else if (here && strncmp (line, "VmFlags:", 8) == 0)
      break;
  }
  fclose (f);
  assert_true (here);
  assert_non_null (strstr (line, " dd"));
}

/* pool_free does not wait for unfinished work. */
static void
test_stop (void **state)
{
  (void) state;
  pool_return (donor.pool, pool_take (donor.pool));
}

int
main (void)
{
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
#define TEST_IDLE(t) cmocka_unit_test_setup_teardown (t, setup_idle, teardown)
#define TEST_LARGE(t)                                                         \
  cmocka_unit_test_setup_teardown (t, setup_large, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_clean),         TEST (test_exposed),
    TEST (test_sealed),        TEST (test_doubtful),
    TEST (test_no_descriptor), TEST (test_move),
    TEST (test_lost),          TEST (test_index),
    TEST (test_zero),          TEST_LARGE (test_zero_first),
    TEST_LARGE (test_stop),    TEST_IDLE (test_zero_is_fair),
    TEST (test_not_dumped),    TEST (test_doubtful_and_short),
    TEST (test_pin),
  };

  return RUN_TESTS (tests);
}
