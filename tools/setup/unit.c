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

/* Run 'systemctl VERB UNIT'.  now: with --now.  unit may be NULL. */
static int
systemctl (const char *verb, bool now, const char *unit,
           struct fp_error *error)
{
  char line[LINE_MAX_];
  char *const argv[] = { (char *) "systemctl",
                         (char *) "--quiet",
                         now ? (char *) "--now" : (char *) "--no-ask-password",
                         (char *) (uintptr_t) verb,
                         (char *) (uintptr_t) unit,
                         NULL };
  int r = run_program (line, sizeof line, argv);

  if (r < 0)
    return fp_fail (error, r, "systemctl: %s", strerror (-r));
  if (r > 0)
    return fp_fail (error, -EIO,
                    "'systemctl %s%s%s' failed with exit status %d: see above",
                    verb, unit == NULL ? "" : " ", unit == NULL ? "" : unit,
                    r);
  return 0;
}

int
unit_start (const char *unit, bool always, struct fp_error *error)
{
  return systemctl (always ? "enable" : "start", always, unit, error);
}

/* Read a property of the unit, which need not exist. */
static int
property (char *value, int size, const char *option, const char *unit,
          struct fp_error *error)
{
  char *const argv[] = {
    (char *) "systemctl",        (char *) "show",           (char *) "--value",
    (char *) (uintptr_t) option, (char *) (uintptr_t) unit, NULL
  };
  int r = run_program (value, (size_t) size, argv);

  return r == 0 ? 0
                : fp_fail (error, r < 0 ? r : -EIO,
                           "'systemctl show %s' failed", unit);
}

int
unit_stop (const char *unit, struct fp_error *error)
{
  char loaded[LINE_MAX_], active[LINE_MAX_];
  int r =
      property (loaded, sizeof loaded, "--property=LoadState", unit, error);

  if (r == 0)
    r = property (active, sizeof active, "--property=ActiveState", unit,
                  error);
  /* A unit that systemd could not load cannot be stopped.  Stop all others,
   * also inactive ones: a start may be queued.
   */
  if (r == 0 &&
      (strcmp (loaded, "loaded") == 0 || strcmp (active, "inactive") != 0))
    r = systemctl ("stop", false, unit, error);
  if (r == 0)
    r = systemctl ("disable", false, unit, error);
  if (r == 0)
    r = property (active, sizeof active, "--property=ActiveState", unit,
                  error);
  if (r == 0 && strcmp (active, "failed") == 0)
    r = systemctl ("reset-failed", false, unit, error);
  return r;
}

int
unit_reload (struct fp_error *error)
{
  return systemctl ("daemon-reload", false, NULL, error);
}

int
unit_is_known (const char *unit, struct fp_error *error)
{
  char state[LINE_MAX_];
  int r = property (state, sizeof state, "--property=LoadState", unit, error);

  return r < 0 ? r : strcmp (state, "not-found") != 0;
}

int
unit_of_path (char unit[UNIT_NAME_MAX], const char *type, const char *path,
              struct fp_error *error)
{
  char suffix[32];
  char *const argv[] = { (char *) "systemd-escape",
                         (char *) "--path",
                         suffix,
                         (char *) "--",
                         (char *) (uintptr_t) path,
                         NULL };
  int r;

  snprintf (suffix, sizeof suffix, "--suffix=%s", type);
  r = run_program (unit, UNIT_NAME_MAX, argv);
  if (r != 0 || unit[0] == '\0')
    return fp_fail (error, r < 0 ? r : -EINVAL,
                    "%s cannot be the path of a %s unit", path, type);
  return 0;
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
