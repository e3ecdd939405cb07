/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h - what happened, for people.  The program chooses where it goes; a
 * library function never logs an error that it returns.
 *
 * Errors:   none.
 * Threads:  any; a sink is called from the thread that logs, so it must be
 *           safe for that.  Setting sink and level is for the start of the
 *           program, before there are threads.
 * Memory:   no allocation here; a message over FP_LOG_MAX is cut, and ends in
 *           "..." then.  Never between a request and its answer: a sink may
 *           wait.
 */

#ifndef FP_LOG_H
#define FP_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FP_LOG_MAX 1024 /* bytes of a message, with the final NUL */

enum fp_log_level { FP_LOG_ERROR, FP_LOG_WARN, FP_LOG_INFO, FP_LOG_DEBUG };

/* message is one line, without a newline. */
typedef void fp_log_sink (enum fp_log_level level, const char *message,
                          void *opaque);

/* NULL, as it is at first: nowhere. */
void fp_log_set_sink (fp_log_sink *sink, void *opaque);

/* Show this level and what is worse; FP_LOG_INFO at first. */
void fp_log_set_level (enum fp_log_level level);
bool fp_log_enabled (enum fp_log_level level);

/* "PROGRAM: MESSAGE\n" on stderr, in one write; opaque is the name.  If
 * stderr is the journal "<N>" comes first, the level (sd-daemon(3)).
 */
fp_log_sink fp_log_to_stderr;

void fp_log (enum fp_log_level level, const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 2, 3), __nonnull__ (2)));

/* At most one message per second and limit; the next one that is shown says
 * how many were not.  One static, zeroed object for each kind of message.
 */
struct fp_log_limit {
  _Atomic uint64_t next_ns;
  _Atomic uint64_t dropped;
};

void fp_log_limited (struct fp_log_limit *limit, enum fp_log_level level,
                     const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 3, 4), __nonnull__ (1, 3)));

#endif /* FP_LOG_H */
