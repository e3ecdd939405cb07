/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor_programs.c - nbdkit, our plugin, and other programs that are run. */

#include <config.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libnbd.h>

#include "base/cleanup.h"
#include "tools/doctor/doctor.h"

#define OUTPUT_MAX 16384

/* Cut the output after its first line. */
static void
first_line (char *out)
{
  out[strcspn (out, "\n")] = '\0';
}

void
doctor_nbdkit (struct doctor *d)
{
  char *argv[] = { "nbdkit", "--version", NULL };
  char out[OUTPUT_MAX];
  unsigned major, minor;
  int r = d->run (out, sizeof out, argv);

  first_line (out);
  if (r == -ENOENT)
    doctor_say (d, DOCTOR_PROBLEM,
                "install it (Debian, Ubuntu, Fedora: nbdkit); not needed on "
                "a pure memory server",
                "not found in PATH");
  else if (r != 0)
    doctor_say (d, DOCTOR_PROBLEM, "reinstall it",
                "'nbdkit --version' fails: %.200s",
                r < 0 ? strerror (-r) : out);
  else if (sscanf (out, "nbdkit %u.%u", &major, &minor) != 2)
    doctor_say (d, DOCTOR_UNKNOWN, "", "no version in '%.200s'", out);
  else if (major < 1 || (major == 1 && minor < 32))
    doctor_say (d, DOCTOR_PROBLEM, "use 1.32 or later", "%.200s", out);
  else
    doctor_say (d, DOCTOR_OK, "", "%.200s", out);
}

/* Get the value of a line KEY=VALUE of out. */
static bool
dumped (const char *out, const char *key, char *value, size_t size)
{
  size_t n = strlen (key);
  const char *p = out;

  while (p) {
    if (strncmp (p, key, n) == 0 && p[n] == '=') {
      snprintf (value, size, "%.*s", (int) strcspn (p + n + 1, "\n"),
                p + n + 1);
      return true;
    }
    p = strchr (p, '\n');
    p = p ? p + 1 : NULL;
  }
  return false;
}

void
doctor_plugin (struct doctor *d)
{
  char *argv[] = { "nbdkit", (char *) d->plugin_path, "--dump-plugin", NULL };
  char out[OUTPUT_MAX], version[64], transports[64];
  int r;

  if (access (d->plugin_path, R_OK) == -1) {
    doctor_say (d, DOCTOR_PROBLEM,
                "install it (nbdkit-plugin-farpage), or set "
                "FARPAGE_PLUGIN=PATH; not needed on a pure memory server",
                "%.200s: %s", d->plugin_path, strerror (errno));
    return;
  }
  r = d->run (out, sizeof out, argv);
  if (r != 0) {
    first_line (out);
    doctor_say (d, DOCTOR_PROBLEM, "run 'nbdkit PLUGIN --dump-plugin'",
                "nbdkit cannot load %.150s: %.150s", d->plugin_path,
                r < 0 ? strerror (-r) : out);
    return;
  }
  if (!dumped (out, "version", version, sizeof version))
    version[0] = '\0';
  if (!dumped (out, "farpage_transports", transports, sizeof transports))
    transports[0] = '\0';
  if (strcmp (version, PACKAGE_VERSION) != 0)
    doctor_say (d, DOCTOR_WARNING, "install both from the same packages",
                "%.150s has version %s, farpage has %s", d->plugin_path,
                *version ? version : "unknown", PACKAGE_VERSION);
  else
    doctor_say (d, DOCTOR_OK, "", "%.150s, version %s, over %s",
                d->plugin_path, version, transports);
}

static bool
on_path (const char *program)
{
  const char *search = getenv ("PATH");
  char path[PATH_MAX];
  size_t n;

  for (; search && *search; search += n + (search[n] == ':')) {
    n = strcspn (search, ":");
    snprintf (path, sizeof path, "%.*s/%s", (int) n, search, program);
    if (access (path, X_OK) == 0)
      return true;
  }
  return false;
}

void
doctor_tools (struct doctor *d)
{
  static const struct {
    const char *program, *what_for, *package;
  } all[] = {
    { "mkswap", "'farpage swapon' runs it", "util-linux" },
    { "blkid", "'farpage swapon' and 'farpage bench' run it", "util-linux" },
    { "modprobe", "it loads the module nbd", "kmod" },
    { "fio", "'farpage bench --device' runs it", "fio" },
  };
  struct nbd_handle *nbd = nbd_create ();
  char remedy[128];
  size_t i;

  doctor_say (d, DOCTOR_OK, "", "farpage %s, libnbd %s", PACKAGE_VERSION,
              nbd ? nbd_get_version (nbd) : "of an unknown version");
  nbd_close (nbd);
  for (i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (on_path (all[i].program))
      continue;
    snprintf (remedy, sizeof remedy,
              "install it (Debian: %s), or put /usr/sbin into PATH",
              all[i].package);
    doctor_say (d, DOCTOR_WARNING, remedy, "%s is not in PATH: %s",
                all[i].program, all[i].what_for);
  }
}
