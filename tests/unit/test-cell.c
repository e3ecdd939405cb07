/* SPDX-License-Identifier: BSD-3-Clause */
/* test-cell.c - a value that outlives its writer. */

#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memserver/store/cell.h"

#define LENGTH 64
#define BYTES CELL_SIZE (LENGTH)

static struct cell *cell;

static int
setup (void **state)
{
  (void) state;
  cell = mmap (NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
               -1, 0);
  return cell == MAP_FAILED ? -1 : 0;
}

static int
teardown (void **state)
{
  (void) state;
  return munmap (cell, BYTES);
}

static void
put (uint8_t byte)
{
  uint8_t value[LENGTH];

  memset (value, byte, sizeof value);
  cell_write (cell, value, sizeof value);
}

/* Return the byte that fills the value; -1: it cannot be read. */
static int
get (void)
{
  uint8_t value[LENGTH];
  int r = cell_read (cell, value, sizeof value);

  if (r < 0 && r != -ENOENT)
    return -1;
  for (unsigned i = 1; i < LENGTH; i++)
    assert_int_equal (value[i], value[0]);
  return value[0];
}

static void
test_round (void **state)
{
  uint8_t value[LENGTH];

  (void) state;
  assert_int_equal (cell_read (cell, value, sizeof value), -ENOENT);
  assert_int_equal (get (), 0);
  for (unsigned i = 1; i < 200; i++) {
    put ((uint8_t) i);
    assert_int_equal (get (), i);
  }
}

/* Flip each bit: those that count are noticed. */
static void
test_spoiled (void **state)
{
  uint8_t *raw = (uint8_t *) cell, before[BYTES];
  unsigned noticed = 0;

  (void) state;
  put (1);
  put (2);
  memcpy (before, raw, BYTES);
  for (unsigned i = 0; i < BYTES * 8; i++) {
    int now;

    raw[i / 8] ^= (uint8_t) (1u << i % 8);
    now = get ();
    /* A bit that is not looked at may have any value. */
    assert_true (now == -1 || now == 2);
    noticed += now == -1;
    memcpy (raw, before, BYTES);
  }
  /* The word, one checksum, one copy. */
  assert_int_equal (noticed, 8 * (8 + 8 + LENGTH));
}

/* Stop a writer after each of its instructions: the value is the old one or
 * the new one.
 */
static void
test_killed (void **state)
{
  unsigned seen[3] = { 0, 0, 0 }, steps = 0;
  pid_t child;
  int status;

  (void) state;
  if (getenv ("FARPAGE_VALGRIND"))
    skip ();
  put (1);
  child = fork ();
  assert_int_not_equal (child, -1);
  if (child == 0) {
    if (ptrace (PTRACE_TRACEME, 0, NULL, NULL) < 0)
      _exit (77);
    raise (SIGSTOP);
    put (2);
    _exit (0);
  }
  assert_int_equal (waitpid (child, &status, 0), child);
  if (WIFEXITED (status)) {
    assert_int_equal (WEXITSTATUS (status), 77);
    skip (); /* no permission to trace */
  }
  while (WIFSTOPPED (status)) {
    int now = get ();

    assert_true (now == 1 || now == 2);
    assert_true (now == 2 || seen[2] == 0);
    seen[now]++;
    assert_true (steps++ < 10000000);
    assert_int_equal (ptrace (PTRACE_SINGLESTEP, child, NULL, NULL), 0);
    assert_int_equal (waitpid (child, &status, 0), child);
  }
  assert_true (WIFEXITED (status) && WEXITSTATUS (status) == 0);
  assert_true (seen[1] > LENGTH && seen[2] > 0);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
    TEST (test_round),
    TEST (test_spoiled),
    TEST (test_killed),
  };

  return RUN_TESTS (tests);
}
