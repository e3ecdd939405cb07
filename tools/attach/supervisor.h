/* SPDX-License-Identifier: BSD-3-Clause */
/* supervisor.h - the process that stays with an attached device: it makes
 * the device, restarts nbdkit when that dies, replaces links that die, and
 * takes the device down when it is told to (SIGTERM).
 *
 * Swap may be waiting for it, so it is locked in memory, is never chosen by
 * the OOM killer, and does no I/O to get memory.
 */

#ifndef FARPAGE_SUPERVISOR_H
#define FARPAGE_SUPERVISOR_H

#include "tools/attach/attachment.h"

/* What the supervisor reports once: 0 when all works, or why not. Returns
 * false if nobody wants to know any more: then all is undone.
 */
typedef bool supervisor_report (void *opaque, int err, const char *why);

/* Runs until the device was taken down. Returns an exit status. */
int supervise (struct attachment *a, unsigned start_seconds,
               supervisor_report *report, void *opaque);

#endif /* FARPAGE_SUPERVISOR_H */
