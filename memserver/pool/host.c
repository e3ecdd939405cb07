/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c - the memory and the limits of this machine. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <numa.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "memserver/pool/host.h"

#define PRESSURE "/proc/pressure/memory"
#define CAP_IPC_LOCK_BIT 14 /* linux/capability.h */

static int
read_file (const char *path, char *buf, size_t size)
{
  FP_CLEANUP (fp_closep) int fd = open (path, O_RDONLY | O_CLOEXEC);
  ssize_t n;

  if (fd < 0)
    return -errno;
  n = read (fd, buf, size - 1);
  if (n < 0)
    return -errno;
  buf[n] = '\0';
  return 0;
}

/* A file that is read repeatedly.  It stays open, because a host that is short
 * of memory may be out of descriptors, too.
 */
struct kept {
  _Atomic int fd; /* the descriptor + 1; 0: not opened yet */
};

static int
read_kept (struct kept *k, const char *path, char *buf, size_t size)
{
  int fd = k->fd - 1, none = 0;
  ssize_t n;

  if (fd < 0) {
    fd = open (path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      return -errno;
    if (!atomic_compare_exchange_strong (&k->fd, &none, fd + 1)) {
      close (fd); /* another thread was faster */
      fd = none - 1;
    }
  }
  n = pread (fd, buf, size - 1, 0);
  if (n < 0)
    return read_file (path, buf, size); /* the open file may be gone */
  buf[n] = '\0';
  return 0;
}

/* Find the number after "NAME:" at the start of a line. */
static int
find_number (const char *text, const char *name, int base, uint64_t *out)
{
  size_t len = strlen (name);

  for (const char *line = text; line; line = strchr (line, '\n')) {
    if (*line == '\n')
      line++;
    if (strncmp (line, name, len) == 0 && line[len] == ':') {
      *out = strtoull (line + len + 1, NULL, base);
      return 0;
    }
  }
  return -ENOENT;
}

static int
node_memory (struct host_memory *out, int node)
{
  static const char *const names[] = { "MemTotal", "MemFree", "Active(file)",
                                       "Inactive(file)", "SReclaimable" };
  static struct kept meminfo; /* a server asks about one node only */
  uint64_t kib[sizeof names / sizeof names[0]];
  char path[64], text[8192], name[48];
  int r;

  if (numa_available () < 0)
    return -EOPNOTSUPP;
  snprintf (path, sizeof path, "/sys/devices/system/node/node%d/meminfo",
            node);
  r = read_kept (&meminfo, path, text, sizeof text);
  if (r < 0)
    return r == -ENOENT ? -ENODEV : r;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    snprintf (name, sizeof name, "Node %d %s", node, names[i]);
    r = find_number (text, name, 10, &kib[i]);
    if (r < 0)
      return r;
  }
  out->total = kib[0] * 1024;
  out->available = (kib[1] + (kib[2] + kib[3] + kib[4]) / 2) * 1024;
  return 0;
}

int
host_memory (struct host_memory *out, int numa)
{
  static struct kept meminfo;
  char text[4096];
  uint64_t total, available;
  int r;

  if (numa >= 0)
    return node_memory (out, numa);

  r = read_kept (&meminfo, "/proc/meminfo", text, sizeof text);
  if (r == 0)
    r = find_number (text, "MemTotal", 10, &total);
  if (r == 0)
    r = find_number (text, "MemAvailable", 10, &available);
  if (r < 0)
    return r;
  out->total = total * 1024;
  out->available = available * 1024;
  return 0;
}

bool
host_spares (uint64_t bytes, uint64_t reserve, int numa, uint64_t *available)
{
  struct host_memory memory;

  if (host_memory (&memory, numa) < 0)
    return true;
  *available = memory.available;
  return memory.available >= reserve && memory.available - reserve >= bytes;
}

int
host_stalled_us (uint64_t *total)
{
  static struct kept pressure;
  char text[512];
  const char *field;
  int r = read_kept (&pressure, PRESSURE, text, sizeof text);

  if (r < 0)
    return r;
  /* some avg10=0.00 avg60=0.00 avg300=0.00 total=0 */
  field = strncmp (text, "some ", 5) == 0 ? strstr (text, " total=") : NULL;
  if (!field)
    return -EINVAL;
  *total = strtoull (field + strlen (" total="), NULL, 10);
  return 0;
}

int
host_stall_trigger (unsigned stall_us, unsigned window_us)
{
  FP_CLEANUP (fp_closep)
  int fd = open (PRESSURE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  char text[64];
  int n = snprintf (text, sizeof text, "some %u %u", stall_us, window_us);

  if (fd < 0)
    return -errno;
  if (write (fd, text, (size_t) n + 1) < 0)
    return -errno;
  n = fd;
  fd = -1;
  return n;
}

uint64_t
host_huge_free (uint64_t page_size)
{
  char path[96], text[32];

  snprintf (path, sizeof path,
            "/sys/kernel/mm/hugepages/hugepages-%llukB/free_hugepages",
            (unsigned long long) (page_size >> 10));
  if (read_file (path, text, sizeof text) < 0)
    return 0;
  return strtoull (text, NULL, 10) * page_size;
}

int
host_raise_nofile (uint64_t wanted, uint64_t *limit)
{
  struct rlimit rl;

  if (getrlimit (RLIMIT_NOFILE, &rl) < 0)
    return -errno;
  if (rl.rlim_cur < wanted) {
    struct rlimit more = { .rlim_cur = wanted,
                           .rlim_max = FP_MAX (rl.rlim_max, (rlim_t) wanted) };

    if (setrlimit (RLIMIT_NOFILE, &more) < 0) {
      *limit = rl.rlim_max;
      return -errno;
    }
    rl = more;
  }
  *limit = rl.rlim_cur;
  return 0;
}

bool
host_may_lock (uint64_t wanted, uint64_t *limit)
{
  char text[4096];
  uint64_t caps = 0;
  struct rlimit rl;

  if (read_file ("/proc/self/status", text, sizeof text) == 0 &&
      find_number (text, "CapEff", 16, &caps) == 0 &&
      (caps & (UINT64_C (1) << CAP_IPC_LOCK_BIT))) {
    *limit = UINT64_MAX;
    return true;
  }
  if (getrlimit (RLIMIT_MEMLOCK, &rl) < 0)
    rl.rlim_cur = 0;
  *limit = rl.rlim_cur;
  return rl.rlim_cur == RLIM_INFINITY || rl.rlim_cur >= wanted;
}
