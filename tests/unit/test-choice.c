/* SPDX-License-Identifier: BSD-3-Clause */
/* test-choice.c - size and copies of a new volume, by what is free. */

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "tools/setup/choice.h"

#define GIB (UINT64_C (1) << 30)
#define MIB (UINT64_C (1) << 20)

static struct choice c;
static struct fp_error error;

/* Servers with so many MiB free, in slabs of 256 MiB.  0 ends the list. */
static void
servers (const uint64_t *mib)
{
  c = (struct choice) { .nr = 0 };
  for (; *mib != 0; mib++)
    c.servers[c.nr++] = (struct choice_server) { .name = "donor",
                                                 .slab = 256 * MIB,
                                                 .free = *mib * MIB };
}

#define SERVERS(...) servers ((const uint64_t[]) { __VA_ARGS__, 0 })

static void
chosen (bool single_copy, uint64_t wanted, uint64_t most, unsigned copies,
        uint64_t size)
{
  if (choice_make (&c, single_copy, wanted, most, &error) < 0)
    fail_msg ("%s", error.text);
  assert_int_equal (c.copies, copies);
  assert_int_equal (c.size, size);
}

static void
refused (bool single_copy, uint64_t wanted, int err, const char *says)
{
  assert_int_equal (choice_make (&c, single_copy, wanted, GIB, &error), err);
  assert_non_null (strstr (error.text, says));
}

static void
test_chosen (void **state)
{
  (void) state;
  SERVERS (8192, 8192);
  chosen (false, 0, 64 * GIB, 2, 4 * GIB);
  chosen (false, 0, 2 * GIB, 2, 2 * GIB); /* this machine has 2 GiB */
  chosen (false, 8 * GIB, GIB, 2, 8 * GIB);
  chosen (true, 0, 64 * GIB, 1, 8 * GIB);
  /* A large server cannot use more than the others have. */
  SERVERS (65536, 1024);
  chosen (false, 0, 64 * GIB, 2, 512 * MIB);
  SERVERS (65536, 1024, 1024);
  chosen (false, 0, 64 * GIB, 2, GIB);
  SERVERS (1024);
  chosen (true, 0, 64 * GIB, 1, 512 * MIB);
  /* Whole slabs, and at least one. */
  SERVERS (768, 768);
  chosen (false, 0, 64 * GIB, 2, 256 * MIB);
  SERVERS (256, 256);
  chosen (false, 0, 64 * GIB, 2, 256 * MIB);
}

static void
test_refused (void **state)
{
  (void) state;
  SERVERS (8192);
  refused (false, 0, -EINVAL, "--single-copy");
  refused (true, 9 * GIB, -ENOSPC, "room for 8G with one copy");
  SERVERS (8192, 1024);
  refused (false, 2 * GIB, -ENOSPC, "room for 1G with two copies");
  SERVERS (8192, 1);
  refused (false, 0, -ENOSPC, "no room for a slab with two copies");
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_chosen),
    cmocka_unit_test (test_refused),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
