/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor_kernel.c - the kernel, its NBD client, and its clock. */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tools/doctor/doctor.h"

#define LOAD_IT                                                               \
  "run 'modprobe nbd max_part=0'; for every boot, 'nbd' into "                \
  "/etc/modules-load.d/nbd.conf and 'options nbd max_part=0' into "           \
  "/etc/modprobe.d/nbd.conf (who only lends memory needs none of it)"

void
doctor_kernel (struct doctor *d)
{
  unsigned major = 0, minor = 0;
  char release[128];

  if (doctor_read (d, release, sizeof release, "/proc/sys/kernel/osrelease") <
      0)
    doctor_say (d, DOCTOR_UNKNOWN, "", "/proc cannot be looked at");
  else if (sscanf (release, "%u.%u", &major, &minor) != 2)
    doctor_say (d, DOCTOR_UNKNOWN, "", "Linux %s, whatever that is", release);
  else if (major < 4 || (major == 4 && minor < 19))
    doctor_say (d, DOCTOR_PROBLEM, "take a kernel of at least 4.19",
                "Linux %s: its NBD client does not replace links that died",
                release);
  else
    doctor_say (d, DOCTOR_OK, "", "Linux %s", release);
}

/* Whether a list of modules has nbd: those of this kernel that are files, or
 * part of it.
 */
static int
listed (const struct doctor *d, const char *release, const char *list)
{
  FP_CLEANUP (fp_free) char *line = NULL;
  char path[PATH_MAX];
  size_t n = 0;
  int found = 0;
  FILE *fp;

  snprintf (path, sizeof path, "%s/lib/modules/%s/%s", d->root, release, list);
  fp = fopen (path, "re");
  if (!fp)
    return -errno;
  while (!found && getline (&line, &n, fp) != -1)
    found = strstr (line, "/block/nbd.ko") != NULL;
  fclose (fp);
  return found;
}

/* What the kernel was built with: 'y', 'm', 'n', or 0 if nobody says. */
static char
configured (const struct doctor *d, const char *release)
{
  static const char name[] = "CONFIG_BLK_DEV_NBD=";
  FP_CLEANUP (fp_free) char *line = NULL;
  char path[PATH_MAX], answer = 'n';
  size_t n = 0;
  FILE *fp;

  snprintf (path, sizeof path, "%s/boot/config-%s", d->root, release);
  fp = fopen (path, "re");
  if (!fp)
    return 0;
  while (getline (&line, &n, fp) != -1)
    if (strncmp (line, name, sizeof name - 1) == 0)
      answer = line[sizeof name - 1];
  fclose (fp);
  return answer;
}

static void
not_loaded (struct doctor *d)
{
  char release[128], config;
  int file;

  if (doctor_read (d, release, sizeof release, "/proc/sys/kernel/osrelease") <
      0)
    release[0] = '\0';
  file = listed (d, release, "modules.dep");
  config = configured (d, release);
  if (file > 0)
    doctor_say (d, DOCTOR_WARNING, LOAD_IT, "module nbd is not loaded");
  else if (config == 'n' || file == 0)
    doctor_say (d, DOCTOR_PROBLEM,
                "take a kernel that has it (Debian: linux-image-amd64, not "
                "its cloud variant; Ubuntu: linux-modules-extra)",
                "Linux %s has no module nbd", release);
  else
    doctor_say (d, DOCTOR_UNKNOWN,
                "in a container: run this where the kernel's modules are",
                "module nbd is not loaded, and /lib/modules/%s is not here, "
                "so it cannot be said if there is one",
                release);
}

void
doctor_nbd (struct doctor *d)
{
  struct why w = { .text = "" };
  int r;

  if (!doctor_exists (d, "/sys"))
    doctor_say (d, DOCTOR_UNKNOWN, "", "/sys cannot be looked at");
  else if (!doctor_exists (d, "/sys/module/nbd"))
    not_loaded (d);
  else if ((r = d->netlink (&w)) == -ENODEV)
    doctor_say (d, DOCTOR_PROBLEM,
                "in a container: attach outside of it, or give it the host's "
                "network",
                "module nbd is loaded, and does not answer over netlink");
  else if (r < 0)
    doctor_say (d, DOCTOR_UNKNOWN, "", "netlink cannot be asked: %s", w.text);
  else
    doctor_say (d, DOCTOR_OK, "", "loaded, answers over netlink");
}

void
doctor_nbd_devices (struct doctor *d)
{
  unsigned all = 0, nodes = 0, used = 0;
  uint64_t max_part, size;
  int i, n;
  char **names;

  if (!doctor_exists (d, "/sys/module/nbd")) {
    doctor_say (d, DOCTOR_UNKNOWN, "", "module nbd is not loaded");
    return;
  }
  n = doctor_names (d, &names, "/sys/block");
  for (i = 0; i < n; i++) {
    if (strncmp (names[i], "nbd", 3) != 0)
      continue;
    all++;
    nodes += doctor_exists (d, "/dev/%s", names[i]);
    used +=
        doctor_exists (d, "/sys/block/%s/pid", names[i]) ||
        (doctor_read_number (d, &size, "/sys/block/%s/size", names[i]) == 0 &&
         size > 0);
  }
  doctor_free_names (names, n);
  if (all == 0)
    doctor_say (d, DOCTOR_PROBLEM,
                "'modprobe -r nbd', then 'modprobe nbd nbds_max=16 "
                "max_part=0'",
                "there is no /dev/nbdX: the module has nbds_max=0");
  else if (nodes == 0)
    doctor_say (d, DOCTOR_PROBLEM,
                "in a container: give it the devices; else start udev",
                "the kernel has %u NBD devices, and /dev none", all);
  else if (used == all)
    doctor_say (d, DOCTOR_PROBLEM,
                "detach one; or, with all detached, 'modprobe -r nbd' and "
                "'modprobe nbd nbds_max=64 max_part=0'",
                "all %u are in use", all);
  else
    doctor_say (d, DOCTOR_OK, "", "%u of %u are free", all - used, all);
  if (doctor_read_number (d, &max_part,
                          "/sys/module/nbd/parameters/max_part") == 0 &&
      max_part > 0)
    doctor_say (d, DOCTOR_WARNING,
                "with all detached: 'modprobe -r nbd', then 'modprobe nbd "
                "max_part=0'",
                "module nbd has max_part=%" PRIu64
                ": a device is read for partitions when it is attached",
                max_part);
}

/* A look at one of these costs a microsecond and more, several times for each
 * request.
 */
void
doctor_clock (struct doctor *d)
{
  static const char *const slow[] = { "hpet", "acpi_pm", "pit", "jiffies",
                                      "refined-jiffies" };
  char name[64];
  size_t i;

  if (doctor_read (d, name, sizeof name,
                   "/sys/devices/system/clocksource/clocksource0/"
                   "current_clocksource") < 0) {
    doctor_say (d, DOCTOR_UNKNOWN, "", "the kernel does not say which");
    return;
  }
  for (i = 0; i < sizeof slow / sizeof slow[0]; i++)
    if (strcmp (name, slow[i]) == 0) {
      doctor_say (d, DOCTOR_WARNING,
                  "see the kernel's log for why it is not tsc (or the one of "
                  "the hypervisor)",
                  "%s: slow to look at, which is done for each request", name);
      return;
    }
  doctor_say (d, DOCTOR_OK, "", "%s", name);
}
