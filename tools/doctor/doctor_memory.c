/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor_memory.c - limits of locked memory, huge pages, and how the kernel
 * swaps.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "tools/doctor/doctor.h"

#define CAP_IPC_LOCK_BIT 14
/* Bytes that the plugin locks, with room for large requests on many
 * connections.
 */
#define ENOUGH (64u << 20)

#define MEMSERVER_COMM "farpage-memserv" /* the kernel keeps 15 letters */

void
doctor_memlock (struct doctor *d)
{
  char line[128], size[FP_SIZE_STR_MAX];
  uint64_t caps = 0, soft;

  if (doctor_read_key (d, line, sizeof line, "/proc/self/status", "CapEff") ==
      0)
    caps = strtoull (line, NULL, 16);
  if (caps >> CAP_IPC_LOCK_BIT & 1) {
    doctor_say (d, DOCTOR_OK, "",
                "no limit applies to this user (CAP_IPC_LOCK)");
    return;
  }
  if (doctor_read_key (d, line, sizeof line, "/proc/self/limits",
                       "Max locked memory") < 0) {
    doctor_say (d, DOCTOR_UNKNOWN, "", "cannot read /proc/self/limits");
    return;
  }
  if (strncmp (line, "unlimited", 9) == 0) {
    doctor_say (d, DOCTOR_OK, "", "unlimited");
    return;
  }
  soft = strtoull (line, NULL, 10);
  fp_format_size (soft, size);
  if (soft < ENOUGH)
    doctor_say (d, DOCTOR_WARNING,
                "run as root, or raise the limit (ulimit -l, "
                "/etc/security/limits.conf, LimitMEMLOCK= of a unit)",
                "a process of this user may lock %s: too little for the "
                "plugin, and a memory server locks all that it lends",
                size);
  else
    doctor_say (d, DOCTOR_OK, "", "%s (a memory server locks all it lends)",
                size);
}

/* ---- units of systemd ---- */

/* Directories of units.  The first that has a unit of a name counts. */
static const char *const unit_dirs[] = { "/etc/systemd/system",
                                         "/run/systemd/system",
                                         "/usr/local/lib/systemd/system",
                                         "/usr/lib/systemd/system",
                                         "/lib/systemd/system" };
#define NR_UNIT_DIRS (sizeof unit_dirs / sizeof unit_dirs[0])

struct unit {
  char limit[64], user[64];
};

static void
parse_unit (struct doctor *d, struct unit *u, const char *name)
{
  FP_CLEANUP (fp_free) char *line = NULL;
  char path[PATH_MAX];
  size_t n = 0;
  FILE *fp;

  snprintf (path, sizeof path, "%s%s", d->root, name);
  fp = fopen (path, "re");
  if (!fp)
    return;
  while (getline (&line, &n, fp) != -1) {
    line[strcspn (line, "\n")] = '\0';
    if (strncmp (line, "LimitMEMLOCK=", 13) == 0)
      snprintf (u->limit, sizeof u->limit, "%s", line + 13);
    else if (strncmp (line, "User=", 5) == 0)
      snprintf (u->user, sizeof u->user, "%s", line + 5);
    else if (strcmp (line, "DynamicUser=yes") == 0)
      snprintf (u->user, sizeof u->user, "its own");
  }
  fclose (fp);
}

/* Read what an administrator has added to a unit. */
static void
parse_drop_ins (struct doctor *d, struct unit *u, const char *unit)
{
  char dir[PATH_MAX], path[PATH_MAX + 300], **names;
  size_t i;
  int k, n;

  for (i = NR_UNIT_DIRS; i-- > 0;) {
    snprintf (dir, sizeof dir, "%s/%s.d", unit_dirs[i], unit);
    n = doctor_names (d, &names, dir);
    for (k = 0; k < n; k++) {
      snprintf (path, sizeof path, "%s/%s", dir, names[k]);
      parse_unit (d, u, path);
    }
    doctor_free_names (names, n);
  }
}

static void
look_at_unit (struct doctor *d, const char *dir, const char *name)
{
  struct unit u = { .limit = "" };
  char path[PATH_MAX], *end;
  uint64_t limit = 0;

  snprintf (path, sizeof path, "%s/%s", dir, name);
  parse_unit (d, &u, path);
  parse_drop_ins (d, &u, name);
  if (strcmp (u.user, "") == 0 || strcmp (u.user, "root") == 0) {
    doctor_say (d, DOCTOR_OK, "", "%s runs as root: no limit applies", name);
    return;
  }
  if (*u.limit)
    limit = strtoull (u.limit, &end, 10);
  if (strcmp (u.limit, "infinity") == 0)
    doctor_say (d, DOCTOR_OK, "", "%s: no limit", name);
  else if (limit > 0)
    doctor_say (d, DOCTOR_WARNING, "set LimitMEMLOCK=infinity in its unit",
                "%s may lock %s at most: that must cover all it lends", name,
                u.limit);
  else
    doctor_say (d, DOCTOR_PROBLEM, "set LimitMEMLOCK=infinity in its unit",
                "%s does not run as root, and may lock almost nothing", name);
}

static bool
seen_before (const struct doctor *d, size_t dir, const char *name)
{
  size_t i;

  for (i = 0; i < dir; i++)
    if (doctor_exists (d, "%s/%s", unit_dirs[i], name))
      return true;
  return false;
}

void
doctor_memlock_units (struct doctor *d)
{
  unsigned before = d->nr;
  char **names;
  size_t i;
  int k, n;

  for (i = 0; i < NR_UNIT_DIRS; i++) {
    n = doctor_names (d, &names, unit_dirs[i]);
    for (k = 0; k < n; k++) {
      const char *dot = strrchr (names[k], '.');

      if ((strncmp (names[k], "farpage", 7) == 0 ||
           strncmp (names[k], "nbdkit", 6) == 0) &&
          dot && strcmp (dot, ".service") == 0 &&
          !seen_before (d, i, names[k]))
        look_at_unit (d, unit_dirs[i], names[k]);
    }
    doctor_free_names (names, n);
  }
  if (d->nr == before)
    doctor_say (d, DOCTOR_OK, "", "no service of farpage or nbdkit found");
}

/* ---- pages ---- */

void
doctor_hugepages (struct doctor *d)
{
  static const char dir[] = "/sys/kernel/mm/hugepages";
  char **names, all_str[FP_SIZE_STR_MAX], free_str[FP_SIZE_STR_MAX];
  bool lends = doctor_processes (d, MEMSERVER_COMM) > 0;
  uint64_t all = 0, left = 0, count, size;
  int i, n = doctor_names (d, &names, dir);

  for (i = 0; i < n; i++) {
    if (sscanf (names[i], "hugepages-%" SCNu64 "kB", &size) != 1)
      continue;
    if (doctor_read_number (d, &count, "%s/%s/nr_hugepages", dir, names[i]) ==
        0)
      all += count * size * 1024;
    if (doctor_read_number (d, &count, "%s/%s/free_hugepages", dir,
                            names[i]) == 0)
      left += count * size * 1024;
  }
  doctor_free_names (names, n);
  fp_format_size (all, all_str);
  fp_format_size (left, free_str);
  if (n < 0)
    doctor_say (d, DOCTOR_UNKNOWN, "", "not in this kernel, or no /sys");
  else if (all == 0 && lends)
    doctor_say (d, DOCTOR_WARNING,
                "run 'sysctl vm.nr_hugepages=N' (2 MiB each) before the "
                "memory server starts: it starts and registers faster",
                "none are reserved for the memory server that runs here");
  else if (all > 0 && lends && left == all)
    doctor_say (d, DOCTOR_WARNING,
                "start the memory server with --hugepages 2M, or give them "
                "back: 'sysctl vm.nr_hugepages=0'",
                "%s are reserved, but not used", all_str);
  else if (all == 0)
    doctor_say (d, DOCTOR_OK, "", "none; only a memory server uses them");
  else
    doctor_say (d, DOCTOR_OK, "", "%s, %s of it free", all_str, free_str);
}

void
doctor_page_cluster (struct doctor *d)
{
  uint64_t n;

  if (doctor_read_number (d, &n, "/proc/sys/vm/page-cluster") < 0)
    doctor_say (d, DOCTOR_UNKNOWN, "", "cannot read /proc/sys/vm");
  else if (n > 3)
    doctor_say (d, DOCTOR_WARNING, "run 'sysctl vm.page-cluster=3', or less",
                "vm.page-cluster is %" PRIu64 ": each page that is read "
                "from swap brings %u more, needed or not",
                n, n < 16 ? (1u << n) - 1 : 65535);
  else
    doctor_say (d, DOCTOR_OK, "",
                "vm.page-cluster is %" PRIu64 ": up to %u pages at a time", n,
                1u << n);
}

void
doctor_zswap (struct doctor *d)
{
  char on[8];
  uint64_t percent;

  if (doctor_read (d, on, sizeof on, "/sys/module/zswap/parameters/enabled") <
      0)
    doctor_say (d, DOCTOR_OK, "", "this kernel has none");
  else if (on[0] != 'Y')
    doctor_say (d, DOCTOR_OK, "", "off");
  else if (doctor_read_number (d, &percent,
                               "/sys/module/zswap/parameters/"
                               "max_pool_percent") == 0 &&
           percent > 50)
    doctor_say (d, DOCTOR_WARNING,
                "run 'echo 20 >/sys/module/zswap/parameters/"
                "max_pool_percent'",
                "may fill %" PRIu64 " %% of this host's memory before "
                "anything is written to the swap device",
                percent);
  else
    doctor_say (d, DOCTOR_OK, "",
                "on: pages are compressed here first, and only what does not "
                "fit goes to the swap device");
}
