/* SPDX-License-Identifier: BSD-3-Clause */
/* syslog_sink.c - a log sink that does not wait.  syslog(3) waits when
 * syslogd's socket is full.
 */

#include <config.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include "tools/attach/syslog_sink.h"

static int syslog_fd = -1;
static int kmsg_fd = -1;

static void
sink (enum fp_log_level level, const char *message, void *opaque)
{
  static const int priorities[] = { [FP_LOG_ERROR] = LOG_ERR,
                                    [FP_LOG_WARN] = LOG_WARNING,
                                    [FP_LOG_INFO] = LOG_NOTICE,
                                    [FP_LOG_DEBUG] = LOG_DEBUG };
  char line[FP_LOG_MAX + 128];
  int n;

  n = snprintf (line, sizeof line, "<%d>farpage[%ld]: %.32s: %s",
                LOG_DAEMON | priorities[level], (long) getpid (),
                (const char *) opaque, message);
  if (n < 0)
    return;
  if (syslog_fd >= 0 &&
      send (syslog_fd, line, (size_t) n, MSG_DONTWAIT | MSG_NOSIGNAL) == n)
    return;
  /* If that fails, too, the message is lost. */
  if (kmsg_fd >= 0 && write (kmsg_fd, line, (size_t) n) == -1)
    return;
}

void
syslog_sink_set (const char *name)
{
  struct sockaddr_un sa = { .sun_family = AF_UNIX, .sun_path = "/dev/log" };

  kmsg_fd = open ("/dev/kmsg", O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  syslog_fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (syslog_fd >= 0 &&
      connect (syslog_fd, (struct sockaddr *) &sa, sizeof sa) == -1) {
    close (syslog_fd);
    syslog_fd = -1;
  }
  fp_log_set_sink (sink, (void *) (uintptr_t) name);
}
