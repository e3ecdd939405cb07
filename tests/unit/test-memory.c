/* SPDX-License-Identifier: BSD-3-Clause */
/* test-memory.c - allocations after fp_memory_fill_heap need no page from the
 * kernel.
 */

#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "front/memory.h"

/* Below M_MMAP_THRESHOLD (mallopt(3)), so in the heap. */
#define HEAP_MAX (64u << 20) /* more than this program has */
#define PIECE ((size_t) 100 << 10)
#define PIECES 32

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Count the pages wholly inside the piece at this address that are not in
 * memory.
 */
static unsigned
absent_pages (uintptr_t piece)
{
  size_t page = (size_t) sysconf (_SC_PAGESIZE);
  unsigned absent = 0;

  for (uintptr_t p = (piece + page - 1) / page * page;
       p + page <= piece + PIECE; p += page) {
    unsigned char in;

    assert_int_equal (mincore ((void *) p, page, &in), 0);
    absent += (in & 1) == 0;
  }
  return absent;
}

static void
skip_where_impossible (void)
{
  void *one = malloc (PIECE);
  const uintptr_t at = (uintptr_t) one, end = (uintptr_t) sbrk (0);
  const bool outside = at > end || end - at > HEAP_MAX;
  size_t page = (size_t) sysconf (_SC_PAGESIZE);
  void *p = mmap (NULL, page, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int r;

  assert_non_null (one);
  free (one);
  assert_ptr_not_equal (p, MAP_FAILED);
  r = madvise (p, page, MADV_POPULATE_WRITE);
  assert_int_equal (munmap (p, page), 0);
  if (outside)
    skip (); /* a sanitizer's malloc */
  if (r == -1)
    skip (); /* a kernel before 5.14 */
}

/* Free pieces that were never touched are made present as well: malloc prefers
 * them to the new memory of the call.
 */
static void
test_free_pieces (void **state)
{
  void *pieces[PIECES];
  uintptr_t at[PIECES];
  unsigned absent = 0;

  (void) state;
  skip_where_impossible ();
  for (size_t i = 0; i < PIECES; i++) {
    assert_non_null (pieces[i] = malloc (PIECE));
    at[i] = (uintptr_t) pieces[i];
  }

  for (size_t i = 0; i < PIECES; i += 2) {
    free (pieces[i]);
    absent += absent_pages (at[i]);
  }
  assert_true (absent > 0);
  assert_int_equal (fp_memory_fill_heap (1 << 20), 0);
  for (size_t i = 0; i < PIECES; i += 2)
    assert_int_equal (absent_pages (at[i]), 0);

  for (size_t i = 1; i < PIECES; i += 2)
    free (pieces[i]);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_free_pieces),
  };

  return RUN_TESTS (tests);
}
