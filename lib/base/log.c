/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c - log messages for people. */

#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static fp_log_sink *log_sink;
static void *log_opaque;
static enum fp_log_level log_level = FP_LOG_INFO;

void
fp_log_set_sink (fp_log_sink *sink, void *opaque)
{
  log_sink = sink;
  log_opaque = opaque;
}

void
fp_log_set_level (enum fp_log_level level)
{
  log_level = level;
}

bool
fp_log_enabled (enum fp_log_level level)
{
  return log_sink != NULL && level <= log_level;
}

/* Return true if stderr is still the journal.  $JOURNAL_STREAM
 * (systemd.exec(5)) has the device and inode of the journal.
 */
static bool
is_journal (void)
{
  const char *given = getenv ("JOURNAL_STREAM");
  char is[64];
  struct stat st;

  if (given == NULL || fstat (STDERR_FILENO, &st) < 0)
    return false;
  snprintf (is, sizeof is, "%ju:%ju", (uintmax_t) st.st_dev,
            (uintmax_t) st.st_ino);
  return strcmp (given, is) == 0;
}

void
fp_log_to_stderr (enum fp_log_level level, const char *message, void *opaque)
{
  static const int priorities[] = { [FP_LOG_ERROR] = LOG_ERR,
                                    [FP_LOG_WARN] = LOG_WARNING,
                                    [FP_LOG_INFO] = LOG_INFO,
                                    [FP_LOG_DEBUG] = LOG_DEBUG };
  char line[FP_LOG_MAX + 128], priority[8] = "";
  int n;

  if (is_journal ())
    snprintf (priority, sizeof priority, "<%d>", priorities[level]);
  n = snprintf (line, sizeof line, "%s%.100s: %s\n", priority,
                (const char *) opaque, message);
  /* If stderr is gone, there is no place to report it. */
  if (n > 0 && write (STDERR_FILENO, line, (size_t) n) < 0)
    return;
}

/* Format a message.  If it was cut, let it end in "...". */
__attribute__ ((__format__ (__printf__, 2, 0))) static void
format (char message[FP_LOG_MAX], const char *fmt, va_list args)
{
  if (vsnprintf (message, FP_LOG_MAX, fmt, args) >= FP_LOG_MAX)
    memcpy (message + FP_LOG_MAX - 4, "...", 4);
}

void
fp_log (enum fp_log_level level, const char *fmt, ...)
{
  char message[FP_LOG_MAX];
  va_list args;

  if (!fp_log_enabled (level))
    return;
  va_start (args, fmt);
  format (message, fmt, args);
  va_end (args);
  log_sink (level, message, log_opaque);
}

/* Return true if this message is the one that may be logged in this second.
 * Set *dropped to the number of messages suppressed before it.
 */
static bool
limit_passes (struct fp_log_limit *limit, uint64_t *dropped)
{
  uint64_t now = fp_now_ns ();
  uint64_t next = atomic_load_explicit (&limit->next_ns, memory_order_relaxed);

  if (now < next || !atomic_compare_exchange_strong (&limit->next_ns, &next,
                                                     now + FP_NS_PER_S)) {
    atomic_fetch_add_explicit (&limit->dropped, 1, memory_order_relaxed);
    return false;
  }
  *dropped = atomic_exchange (&limit->dropped, 0);
  return true;
}

void
fp_log_limited (struct fp_log_limit *limit, enum fp_log_level level,
                const char *fmt, ...)
{
  char message[FP_LOG_MAX];
  uint64_t dropped;
  va_list args;

  if (!fp_log_enabled (level) || !limit_passes (limit, &dropped))
    return;
  va_start (args, fmt);
  format (message, fmt, args);
  va_end (args);
  if (dropped == 0)
    log_sink (level, message, log_opaque);
  else
    fp_log (level, "%.900s (and %" PRIu64 " more like it)", message, dropped);
}
