/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor_checks.c - the table of checks. */

#include <config.h>

#include <string.h>

#include "tools/doctor/doctor.h"

static const struct doctor_check checks[] = {
  { "kernel", "kernel", doctor_kernel },
  { "nbd", "NBD client of the kernel", doctor_nbd },
  { "nbd-devices", "NBD devices", doctor_nbd_devices },
  { "ublk", "ublk driver of the kernel", doctor_ublk },
  { "clock", "clock", doctor_clock },
  { "rdma-device", "RDMA devices", doctor_rdma_device },
  { "rdma-user", "RDMA for programs", doctor_rdma_user },
  { "rdma-gid", "RDMA addresses", doctor_rdma_gid },
  { "rdma-mtu", "RDMA packet size", doctor_rdma_mtu },
  { "memlock", "locked memory", doctor_memlock },
  { "memlock-units", "locked memory of services", doctor_memlock_units },
  { "hugepages", "huge pages", doctor_hugepages },
  { "page-cluster", "swap read-ahead", doctor_page_cluster },
  { "zswap", "zswap", doctor_zswap },
  { "nbdkit", "nbdkit", doctor_nbdkit },
  { "plugin", "plugin", doctor_plugin },
  { "tools", "programs", doctor_tools },
  { "volumes", "attached devices", doctor_volumes },
  { "timeouts", "timeouts", doctor_timeouts },
  { "swap", "swap", doctor_swap },
  { "swap-room", "room for swapped-out pages", doctor_swap_room },
  { "kill-order", "kill order", doctor_kill_order },
};
#define NR_CHECKS (sizeof checks / sizeof checks[0])

bool
doctor_examine (struct doctor *d, const char *only)
{
  bool found = false;
  size_t i;

  for (i = 0; i < NR_CHECKS; i++) {
    if (only && strcmp (checks[i].id, only) != 0)
      continue;
    d->now = &checks[i];
    checks[i].run (d);
    found = true;
  }
  return found;
}
