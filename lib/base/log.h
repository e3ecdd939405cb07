/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h - log messages for people.  The program chooses where they go.  A
 * library function never logs an error that it returns.
 *
 * Errors:   none.
 * Threads:  any.  The thread that logs calls the sink, so the sink must be
 *           safe for that.  Set sink and level at the start of the program,
 *           before there are threads.
 * Memory:   no allocation here.  A message longer than FP_LOG_MAX is cut and
 *           ends in "...".  Never log between a request and its reply, because
 *           a sink may wait.
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

/* Set the sink.  With NULL, the default, messages are dropped. */
void fp_log_set_sink (fp_log_sink *sink, void *opaque);

/* Show this level and the more severe ones.  The default is FP_LOG_INFO. */
void fp_log_set_level (enum fp_log_level level);
bool fp_log_enabled (enum fp_log_level level);

/* Write "PROGRAM: MESSAGE\n" to stderr in one write; opaque is the program's
 * name.  If stderr is the journal, the level comes first as "<N>"
 * (sd-daemon(3)).
 */
fp_log_sink fp_log_to_stderr;

void fp_log (enum fp_log_level level, const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 2, 3), __nonnull__ (2)));

/* Log at most one message per second and limit.  The next message that is
 * shown tells how many were suppressed.  Each kind of message needs a static,
 * zeroed limit.
 */
struct fp_log_limit {
  _Atomic uint64_t next_ns;
  _Atomic uint64_t dropped;
};

void fp_log_limited (struct fp_log_limit *limit, enum fp_log_level level,
                     const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 3, 4), __nonnull__ (1, 3)));

#endif /* FP_LOG_H */
