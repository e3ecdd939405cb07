/* SPDX-License-Identifier: BSD-3-Clause */
/* syslog_sink.h - the supervisor's log sink (see base/log.h).
 *
 * The machine's swap may wait for the supervisor, so logging must never wait,
 * for example for a syslogd that is swapped out. A message that cannot be
 * written at once is lost.
 *
 * Threads:  one.
 */

#ifndef FARPAGE_SYSLOG_SINK_H
#define FARPAGE_SYSLOG_SINK_H

#include "base/log.h"

/* Send messages to syslog's socket from now on, or to the kernel's log if no
 * process listens there. name says what they are about; it must stay valid.
 */
void syslog_sink_set (const char *name);

#endif /* FARPAGE_SYSLOG_SINK_H */
