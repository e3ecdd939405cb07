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
#include "base/error.h"
#include "tools/attach/ublk_control.h"
#include "tools/doctor/doctor.h"

#define LOAD_IT                                                               \
  "run 'modprobe nbd max_part=0'; for every boot, put 'nbd' into "            \
  "/etc/modules-load.d/nbd.conf and 'options nbd max_part=0' into "           \
  "/etc/modprobe.d/nbd.conf (not needed on a pure memory server)"

void
doctor_kernel (struct doctor *d)
{
  unsigned major = 0, minor = 0;
  char release[128];

  if (doctor_read (d, release, sizeof release, "/proc/sys/kernel/osrelease") <
      0)
    doctor_say (d, DOCTOR_UNKNOWN, "", "cannot read /proc");
  else if (sscanf (release, "%u.%u", &major, &minor) != 2)
    doctor_say (d, DOCTOR_UNKNOWN, "", "Linux %s: unknown version", release);
  else if (major < 5 || (major == 5 && minor < 3))
    doctor_say (d, DOCTOR_PROBLEM, "use Linux 5.3 or later",
                "Linux %s: it has no pidfd_open(2), which attach and detach"
                " need",
                release);
  else
    doctor_say (d, DOCTOR_OK, "", "Linux %s", release);
}

/* Return 1 if the kernel's list of modules has nbd, 0 if not, or -errno if
 * there is no list.
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

/* Return how the kernel was built: 'y', 'm', 'n', or 0 if that is not known.
 */
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
                "use a kernel that has it (Debian: linux-image-amd64, not "
                "its cloud variant; Ubuntu: linux-modules-extra)",
                "Linux %s has no module nbd", release);
  else
    doctor_say (d, DOCTOR_UNKNOWN, "in a container: run this on the host",
                "module nbd is not loaded; whether there is one is unknown, "
                "as /lib/modules/%s is not here",
                release);
}

void
doctor_nbd (struct doctor *d)
{
  struct fp_error error = { .text = "" };
  int r;

  if (!doctor_exists (d, "/sys"))
    doctor_say (d, DOCTOR_UNKNOWN, "", "cannot read /sys");
  else if (!doctor_exists (d, "/sys/module/nbd"))
    not_loaded (d);
  else if ((r = d->netlink (&error)) == -ENODEV)
    doctor_say (d, DOCTOR_PROBLEM,
                "in a container: attach outside of it, or give it the host's "
                "network",
                "module nbd is loaded, but does not answer over netlink");
  else if (r < 0)
    doctor_say (d, DOCTOR_UNKNOWN, "", "cannot use netlink: %s", error.text);
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
                "run 'modprobe -r nbd', then 'modprobe nbd nbds_max=16 "
                "max_part=0'",
                "there is no /dev/nbdX: the module has nbds_max=0");
  else if (nodes == 0)
    doctor_say (d, DOCTOR_PROBLEM,
                "in a container: give it the devices; otherwise start udev",
                "the kernel has %u NBD devices, and /dev none", all);
  else if (used == all)
    doctor_say (d, DOCTOR_PROBLEM,
                "detach one; or detach all, and run 'modprobe -r nbd' and "
                "'modprobe nbd nbds_max=64 max_part=0'",
                "all %u are in use", all);
  else
    doctor_say (d, DOCTOR_OK, "", "%u of %u are free", all - used, all);
  if (doctor_read_number (d, &max_part,
                          "/sys/module/nbd/parameters/max_part") == 0 &&
      max_part > 0)
    doctor_say (d, DOCTOR_WARNING,
                "detach all, and run 'modprobe -r nbd', then 'modprobe nbd "
                "max_part=0'",
                "module nbd has max_part=%" PRIu64
                ": a device is read for partitions when it is attached",
                max_part);
}

/* Warn of a slow clock.  To read one costs a microsecond or more, several
 * times per request.
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
    doctor_say (d, DOCTOR_UNKNOWN, "", "the kernel does not name its clock");
    return;
  }
  for (i = 0; i < sizeof slow / sizeof slow[0]; i++)
    if (strcmp (name, slow[i]) == 0) {
      doctor_say (d, DOCTOR_WARNING,
                  "see the kernel's log for why it is not tsc (or the clock "
                  "of the hypervisor)",
                  "%s: slow to read, and each request reads it", name);
      return;
    }
  doctor_say (d, DOCTOR_OK, "", "%s", name);
}

void
doctor_ublk (struct doctor *d)
{
  char release[128] = "";
  const char *defect;

  (void) doctor_read (d, release, sizeof release,
                      "/proc/sys/kernel/osrelease");
  defect = ublk_kernel_defect (release);
  if (defect != NULL)
    doctor_say (d, DOCTOR_WARNING, "do not use --front ublk on it",
                "Linux %s: %s", release, defect);
  else if (!doctor_exists (d, "/dev/ublk-control"))
    doctor_say (
        d, DOCTOR_OK, "",
        "not loaded ('farpage attach --front ublk' loads it on Linux 6.5 "
        "or later)");
  else
    doctor_say (d, DOCTOR_OK, "", "loaded");
}
