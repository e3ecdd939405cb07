/* SPDX-License-Identifier: BSD-3-Clause */
/* syslog_sink.h - where the supervisor's messages go (see base/log.h).
 *
 * It runs while the machine's swap may be waiting for it, so logging must
 * never wait: for a syslogd that is swapped out, say. What cannot be written
 * at once is lost.
 *
 * Threads:  one.
 */

#ifndef FARPAGE_SYSLOG_SINK_H
#define FARPAGE_SYSLOG_SINK_H

#include "base/log.h"

/* From now on messages go to syslog's socket, or, where nobody listens
 * there, to the kernel's log. name says what they are about; it must stay
 * valid.
 */
void syslog_sink_set (const char *name);

#endif /* FARPAGE_SYSLOG_SINK_H */
