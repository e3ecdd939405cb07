/* SPDX-License-Identifier: BSD-3-Clause */
/* unit.c - see unit.h. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "tools/common/program.h"
#include "tools/setup/unit.h"

#define LINE_MAX_ 256

bool
unit_possible (void)
{
  return sd_booted () > 0;
}

static int
systemctl (const char *unit, const char *verb, bool now,
           struct fp_error *error)
{
  char line[LINE_MAX_];
  char *const argv[] = { (char *) "systemctl",
                         (char *) "--quiet",
                         (char *) (uintptr_t) verb,
                         now ? (char *) "--now" : (char *) "--no-ask-password",
                         (char *) (uintptr_t) unit,
                         NULL };
  int r = run_program (line, sizeof line, argv);

  if (r < 0)
    return fp_fail (error, r, "systemctl: %s", strerror (-r));
  if (r > 0)
    return fp_fail (error, -EIO,
                    "'systemctl %s %s' failed with exit status %d: see above",
                    verb, unit, r);
  return 0;
}

int
unit_start (const char *unit, bool always, struct fp_error *error)
{
  return systemctl (unit, always ? "enable" : "start", always, error);
}

int
unit_stop (const char *unit, struct fp_error *error)
{
  return systemctl (unit, "disable", true, error);
}

void
unit_say_log (const char *unit)
{
  char out[2048];
  char *const argv[] = { (char *) "journalctl",     (char *) "--no-pager",
                         (char *) "--quiet",        (char *) "--output=cat",
                         (char *) "--lines=8",      (char *) "--unit",
                         (char *) (uintptr_t) unit, NULL };

  fflush (stdout);
  if (run_program_within (out, sizeof out, argv, 10000) == 0)
    fputs (out, stderr);
}
