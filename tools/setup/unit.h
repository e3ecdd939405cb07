/* SPDX-License-Identifier: BSD-3-Clause */
/* unit.h - start and stop systemd units, through systemctl(1).
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 */

#ifndef FARPAGE_UNIT_H
#define FARPAGE_UNIT_H

#include <stdbool.h>

#include "base/error.h"

/* Return true if systemd is this machine's init. */
bool unit_possible (void);

/* Start the unit, and wait until it has started.  If always, enable it for
 * each boot as well.
 */
int unit_start (const char *unit, bool always, struct fp_error *error);

/* Stop the unit, and wait until it has stopped.  Then disable it, and forget
 * that it has failed.
 */
int unit_stop (const char *unit, struct fp_error *error);

/* Let systemd read unit files that have changed. */
int unit_reload (struct fp_error *error);

/* Return 1 if systemd has a unit of this name, 0 if not. */
int unit_is_known (const char *unit, struct fp_error *error);

/* Get the name of the unit of this type, "mount" or "device", for an absolute
 * path.
 */
#define UNIT_NAME_MAX 256
int unit_of_path (char unit[UNIT_NAME_MAX], const char *type, const char *path,
                  struct fp_error *error);

/* Print the last lines of the unit's log to standard error. */
void unit_say_log (const char *unit);

#endif /* FARPAGE_UNIT_H */
