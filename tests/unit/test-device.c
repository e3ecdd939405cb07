/* SPDX-License-Identifier: BSD-3-Clause */
/* test-device.c - the numbers and names of devices, and kernels whose ublk
 * driver must not be touched.
 */

#include "unit.h"

#include <errno.h>

#include "tools/attach/ublk_control.h"
#include "tools/common/device.h"

static void
test_names (void **state)
{
  (void) state;
  assert_string_equal (device_path (7).s, "/dev/nbd7");
  assert_string_equal (device_name (device_ublk (3)).s, "ublkb3");
  assert_int_equal (device_index ("/dev/nbd7"), 7);
  assert_int_equal (device_index ("/dev/ublkb3"), device_ublk (3));
  assert_int_equal (device_index ("ublkb3"), device_ublk (3));
  assert_int_equal (device_unit (device_ublk (3)), 3);
  assert_true (device_is_ublk (device_ublk (0)));
  assert_false (device_is_ublk (DEVICE_KIND_MAX - 1));
}

static void
test_bad_names (void **state)
{
  static const char *const bad[] = { "",
                                     "nbd",
                                     "nbd-1",
                                     "nbd7p1",
                                     "ublkb",
                                     "ublkb+3",
                                     "ublkc3",
                                     "ublkb4096",
                                     "nbd4096",
                                     "nbd 7",
                                     "/dev/sda",
                                     "ublkb3 ",
                                     "/dev/farpage/no-such-name" };

  (void) state;
  for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_int_equal (device_index (bad[i]), -EINVAL);
}

static void
test_kernels (void **state)
{
  (void) state;
  assert_non_null (ublk_kernel_defect ("6.18.4"));
  assert_non_null (ublk_kernel_defect ("6.18.5-arch1-1"));
  assert_non_null (ublk_kernel_defect ("6.17.0-1015-azure"));
  assert_null (ublk_kernel_defect ("6.18.40"));
  assert_null (ublk_kernel_defect ("6.18.6"));
  assert_null (ublk_kernel_defect ("6.17.0-1016-azure"));
  assert_null (ublk_kernel_defect ("6.12.117+deb12-amd64"));
  assert_null (ublk_kernel_defect (""));
  assert_true (ublk_kernel_is_tried ("6.12.117+deb12-amd64"));
  assert_true (ublk_kernel_is_tried ("7.0.1"));
  assert_false (ublk_kernel_is_tried ("6.1.0-41-amd64"));
  assert_false (ublk_kernel_is_tried ("5.15.0"));
  assert_false (ublk_kernel_is_tried ("6.18.5-arch1-1"));
  assert_false (ublk_kernel_is_tried (""));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_names),
    cmocka_unit_test (test_bad_names),
    cmocka_unit_test (test_kernels),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
