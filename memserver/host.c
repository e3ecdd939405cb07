/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c - what this machine can spare, and what it lets us do. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef HAVE_NUMA
#include <numa.h>
#endif

#include "base/checked.h"
#include "base/cleanup.h"
#include "host.h"

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

/* The number after "NAME:" at the start of a line. */
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

int
host_memory (struct host_memory *out, int numa)
{
  char text[4096];
  uint64_t total, available;
  int r;

  if (numa >= 0) {
#ifdef HAVE_NUMA
    long long node_free, node_total;

    if (numa_available () < 0)
      return -EOPNOTSUPP;
    node_total = numa_node_size64 (numa, &node_free);
    if (node_total < 0)
      return -ENODEV;
    out->total = (uint64_t) node_total;
    out->available = (uint64_t) node_free;
    return 0;
#else
    return -EOPNOTSUPP;
#endif
  }

  r = read_file ("/proc/meminfo", text, sizeof text);
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
