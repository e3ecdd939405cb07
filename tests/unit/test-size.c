/* SPDX-License-Identifier: BSD-3-Clause */
/* test-size.c - a size means the same as to nbdkit. */

#include "unit.h"

#include <errno.h>

#include "base/size.h"

/* Results of nbdkit 1.32. */
static const struct {
  const char *s;
  int err;
  uint64_t size;
} table[] = {
  { "0", 0, 0 },
  { "1", 0, 1 },
  { "1b", 0, 1 },
  { "1B", 0, 1 },
  { "1k", 0, 1024 },
  { "1K", 0, 1024 },
  { "3m", 0, 3145728 },
  { "512M", 0, 536870912 },
  { "8G", 0, UINT64_C (8) << 30 },
  { "1T", 0, UINT64_C (1) << 40 },
  { "1P", 0, UINT64_C (1) << 50 },
  { "7E", 0, UINT64_C (7) << 60 },
  { "1e", 0, UINT64_C (1) << 60 },
  { "3s", 0, 1536 },
  { "3S", 0, 1536 },
  { "010", 0, 10 },
  { "+1M", 0, 1048576 },
  { " 1M", 0, 1048576 },
  { "9223372036854775807", 0, INT64_MAX },
  { "9223372036854775808", -ERANGE, 0 },
  { "18446744073709551616", -ERANGE, 0 },
  { "8E", -ERANGE, 0 },
  { "16E", -ERANGE, 0 },
  { "", -EINVAL, 0 },
  { " ", -EINVAL, 0 },
  { "M", -EINVAL, 0 },
  { "-1", -EINVAL, 0 },
  { "-0", -EINVAL, 0 },
  { "+-1", -EINVAL, 0 },
  { "1KB", -EINVAL, 0 },
  { "1KiB", -EINVAL, 0 },
  { "1 M", -EINVAL, 0 },
  { "1M ", -EINVAL, 0 },
  { "1.5G", -EINVAL, 0 },
  { "0x10", -EINVAL, 0 },
  { "1x", -EINVAL, 0 },
};

static void
test_parse (void **state)
{
  (void) state;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    uint64_t size = 7;
    const char *why = NULL;
    int r = fp_parse_size (table[i].s, &size, &why);

    if (r != table[i].err || size != (r ? 7 : table[i].size))
      fail_msg ("'%s': returned %d, size %llu", table[i].s, r,
                (unsigned long long) size);
    if ((r != 0) != (why != NULL))
      fail_msg ("'%s': why is %s", table[i].s, why ? why : "missing");
    assert_int_equal (fp_parse_size (table[i].s, &size, NULL), r);
  }
}

static void
test_format (void **state)
{
  static const struct {
    uint64_t size;
    const char *s;
  } out[] = {
    { 0, "0B" },
    { 1023, "1023B" },
    { 1024, "1K" },
    { 1536, "1.5K" },
    { 2047, "1.9K" },
    { 268435456, "256M" },
    { UINT64_C (8) << 30, "8G" },
    { (UINT64_C (8) << 30) + 1, "8G" },
    { INT64_MAX, "7.9E" },
    { UINT64_MAX, "15.9E" },
  };
  char s[FP_SIZE_STR_MAX];

  (void) state;
  for (size_t i = 0; i < sizeof out / sizeof out[0]; i++) {
    fp_format_size (out[i].size, s);
    assert_string_equal (s, out[i].s);
  }
}

/* A size that is written to a file is read back as it was. */
static void
test_exact (void **state)
{
  static const struct {
    uint64_t size;
    const char *text;
  } sizes[] = {
    { 0, "0B" },
    { 1, "1B" },
    { 1023, "1023B" },
    { 1536, "1536B" },
    { UINT64_C (8) << 30, "8G" },
    { UINT64_C (1536) << 20, "1536M" },
    { UINT64_C (7936) << 20, "7936M" },
    { (UINT64_C (10) << 30) + (UINT64_C (64) << 20), "10304M" },
    { UINT64_C (7) << 60, "7E" },
    { INT64_MAX, "9223372036854775807B" },
  };
  char text[FP_SIZE_STR_MAX];
  uint64_t size;

  (void) state;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    fp_format_size_exact (sizes[i].size, text);
    assert_string_equal (text, sizes[i].text);
    assert_int_equal (fp_parse_size (text, &size, NULL), 0);
    assert_true (size == sizes[i].size);
  }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_parse),
    cmocka_unit_test (test_exact),
    cmocka_unit_test (test_format),
  };

  return RUN_TESTS (tests);
}
