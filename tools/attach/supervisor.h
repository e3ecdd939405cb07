/* SPDX-License-Identifier: BSD-3-Clause */
/* supervisor.h - the process that stays with an attached device. It makes the
 * device, restarts nbdkit when that dies, and replaces connections that die.
 * On SIGTERM it takes the device down.
 *
 * Swap may wait for the supervisor. So it is locked in memory, spared by the
 * OOM killer, and does no I/O to get memory.
 */

#ifndef FARPAGE_SUPERVISOR_H
#define FARPAGE_SUPERVISOR_H

#include "tools/attach/attachment.h"

/* Called once. err is 0 when all works, else why says why not. Return false if
 * the report reaches no reader: then all is undone.
 */
typedef bool supervisor_report (void *opaque, int err, const char *why);

/* Run until the device was taken down. Return an exit status. */
int supervise (struct attachment *a, unsigned start_seconds,
               supervisor_report *report, void *opaque);

#endif /* FARPAGE_SUPERVISOR_H */
