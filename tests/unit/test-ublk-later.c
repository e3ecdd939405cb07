/* SPDX-License-Identifier: BSD-3-Clause */
/* test-ublk-later.c - requests of a ublk queue that other threads do. */

#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>

#include "tools/ublk/later.h"

/* ---- a volume that says what it was asked ---- */

static char buffer[8];
static pthread_barrier_t at_once; /* two reads meet in it */

int
fp_lane_read (struct fp_lane *lane, void *buf, uint32_t len, uint64_t offset)
{
  (void) lane;
  (void) offset;
  assert_ptr_equal (buf, buffer);
  pthread_barrier_wait (&at_once);
  return len == 4096 ? 0 : -EINVAL;
}

int
fp_lane_write (struct fp_lane *lane, const void *buf, uint32_t len,
               uint64_t offset)
{
  (void) lane;
  assert_ptr_equal (buf, buffer);
  return len == 512 && offset == 1024 ? 0 : -EINVAL;
}

int
fp_lane_flush (struct fp_lane *lane)
{
  (void) lane;
  return -EIO;
}

int
fp_lane_zero (struct fp_lane *lane, uint64_t len, uint64_t offset, bool trim)
{
  (void) lane;
  assert_int_equal (len, UINT64_C (5) << 32);
  assert_int_equal (offset, 4096);
  return trim ? 0 : -ENOSPC;
}

/* ---- the tests ---- */

/* Wait for n items, and return them in a list. */
static struct later_item *
take (struct later *l, unsigned n)
{
  struct later_item *all = NULL, **tail = &all;

  while (n > 0) {
    struct pollfd pfd = { .fd = later_fd (l), .events = POLLIN };

    assert_int_equal (poll (&pfd, 1, -1), 1);
    *tail = later_take (l);
    for (; *tail != NULL; tail = &(*tail)->next)
      n--;
  }
  assert_null (later_take (l));
  return all;
}

static void
test_kinds (void **state)
{
  struct later_item items[] = {
    { .kind = LATER_WRITE, .buf = buffer, .length = 512, .offset = 1024 },
    { .kind = LATER_FLUSH },
    { .kind = LATER_ZERO, .length = UINT64_C (5) << 32, .offset = 4096 },
    { .kind = LATER_TRIM, .length = UINT64_C (5) << 32, .offset = 4096 },
  };
  const int status[] = { 0, -EIO, -ENOSPC, 0 };
  struct later_item *i;
  struct later *l;
  unsigned n = 0;

  (void) state;
  assert_int_equal (later_new (&l, NULL, 1, "test"), 0);
  assert_null (later_take (l));
  for (; n < 4; n++)
    later_push (l, &items[n]);
  /* One thread does them in order. */
  for (i = take (l, 4), n = 0; i != NULL; i = i->next, n++) {
    assert_ptr_equal (i, &items[n]);
    assert_int_equal (i->status, status[n]);
  }
  assert_int_equal (n, 4);
  later_free (l);
}

/* With several threads, requests do not wait for each other. */
static void
test_at_once (void **state)
{
  struct later_item items[] = {
    { .kind = LATER_READ, .buf = buffer, .length = 4096 },
    { .kind = LATER_READ, .buf = buffer, .length = 8192 },
  };
  struct later *l;

  (void) state;
  pthread_barrier_init (&at_once, NULL, 2);
  assert_int_equal (later_new (&l, NULL, 4, "test"), 0);
  later_push (l, &items[0]);
  later_push (l, &items[1]);
  (void) take (l, 2);
  assert_int_equal (items[0].status, 0);
  assert_int_equal (items[1].status, -EINVAL);
  later_free (l);
  pthread_barrier_destroy (&at_once);
}

/* Requests that were pushed are done before free returns. */
static void
test_free_drains (void **state)
{
  struct later_item items[2] = { { .kind = LATER_FLUSH },
                                 { .kind = LATER_FLUSH } };
  struct later *l;

  (void) state;
  assert_int_equal (later_new (&l, NULL, 1, "test"), 0);
  later_push (l, &items[0]);
  later_push (l, &items[1]);
  later_free (l);
  assert_int_equal (items[0].status, -EIO);
  assert_int_equal (items[1].status, -EIO);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_kinds),
    cmocka_unit_test (test_at_once),
    cmocka_unit_test (test_free_drains),
  };

  return RUN_TESTS (tests);
}
