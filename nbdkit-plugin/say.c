/* SPDX-License-Identifier: BSD-3-Clause */
/* say.c - the log sink of lib/: nbdkit, or the system log. */

#include <config.h>

#include "say.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <syslog.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

/* Log a message of the level that nbdkit lacks: less than an error, and shown
 * without -v.
 */
static void
note (const char *message)
{
  struct stat st;

  if (fstat (STDERR_FILENO, &st) == 0 && S_ISCHR (st.st_mode) &&
      st.st_rdev == makedev (1, 3)) /* /dev/null: in the background */
    syslog (LOG_DAEMON | LOG_INFO, "farpage: %s", message);
  else
    fprintf (stderr, "nbdkit: farpage: %s\n", message);
}

void
fp_say (enum fp_log_level level, const char *message, void *opaque)
{
  (void) opaque;
  switch (level) {
  case FP_LOG_ERROR:
  case FP_LOG_WARN:
    nbdkit_error ("%s", message);
    return;
  case FP_LOG_INFO:
    note (message);
    return;
  case FP_LOG_DEBUG:
    nbdkit_debug ("%s", message);
    return;
  }
}
