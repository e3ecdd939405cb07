/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd_links.c - see nbd_links.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tools/attach/nbd_links.h"
#include "tools/common/deadline.h"
#include "tools/common/device.h"
#include "tools/common/sysfs.h"

#define MAX_QUEUES 64

/* Return a processor that uses the queue of this connection, or -1 if none
 * does.  Each connection has a queue of its own.
 */
static int
processor_of (int index, unsigned queue)
{
  char line[256], *end;
  long cpu;

  if (sysfs_read (line, sizeof line, "/sys/block/%s/mq/%u/cpu_list",
                  device_name (index).s, queue) < 0)
    return -1;
  cpu = strtol (line, &end, 10);
  return end == line || cpu < 0 || cpu >= CPU_SETSIZE ? -1 : (int) cpu;
}

/* Each reader writes one byte: the number of the queue that answered, or
 * NOT_ASKED if it could not read.
 */
#define NOT_ASKED 0xff

static void
tell (int out, unsigned what)
{
  unsigned char byte = (unsigned char) what;

  (void) !write (out, &byte, 1);
}

/* Read from the device on processor cpu, which uses this queue.  Any answer
 * will do, an error too.
 */
static void
read_there (int index, unsigned queue, int cpu, int out)
{
  cpu_set_t set;
  void *buf;
  int fd;

  CPU_ZERO (&set);
  CPU_SET (cpu, &set);
  fd = open (device_path (index).s, O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (fd == -1 || posix_memalign (&buf, 4096, 4096) != 0) {
    tell (out, NOT_ASKED);
    return;
  }
  /* Where that is not allowed, the read goes over another connection. */
  (void) sched_setaffinity (0, sizeof set, &set);
  (void) !pread (fd, buf, 4096, 0);
  tell (out, queue);
}

/* Close all file descriptors but out.  The reader may outlive the caller, so
 * it must not hold a lock or keep another program's output open.
 */
static int
keep_only (int out)
{
  int r;

  if (out > 0 && close_range (0, (unsigned) out - 1, 0) == -1)
    return -errno;
  r = close_range ((unsigned) out + 1, ~0U, 0);
  return r == -1 ? -errno : 0;
}

/* Start a reader.  A read cannot be interrupted, so the reader is a
 * grandchild, which need not be waited for.  It ends when the read is answered
 * or the device is disconnected.
 */
static int
begin_read (int index, unsigned queue, int cpu, int out)
{
  pid_t pid = fork (), reader;

  if (pid == -1)
    return -errno;
  if (pid == 0) {
    reader = fork ();
    if (reader == -1)
      tell (out, NOT_ASKED);
    if (reader == 0 && keep_only (out) == 0)
      read_there (index, queue, cpu, out);
    else if (reader == 0)
      tell (out, NOT_ASKED);
    _exit (0);
  }
  while (waitpid (pid, NULL, 0) == -1)
    if (errno != EINTR)
      return -errno;
  return 0;
}

int
nbd_links_silent (int index, const struct deadline *d, uint64_t *answered)
{
  FP_CLEANUP (fp_closep) int in = -1;
  int fds[2], left, r = 0, waiting = 0;

  *answered = 0;
  if (pipe2 (fds, O_CLOEXEC) == -1)
    return -errno;
  in = fds[0];
  for (unsigned i = 0; r == 0 && i < MAX_QUEUES; i++) {
    int cpu = processor_of (index, i);

    if (cpu < 0)
      continue;
    r = begin_read (index, i, cpu, fds[1]);
    waiting += r == 0;
  }
  close (fds[1]);
  while (r == 0 && waiting > 0 && (left = deadline_left (d, 200)) > 0) {
    struct pollfd pfd = { .fd = in, .events = POLLIN };
    unsigned char bytes[MAX_QUEUES];
    ssize_t n;

    if (poll (&pfd, 1, left) <= 0)
      continue;
    n = read (in, bytes, sizeof bytes);
    if (n <= 0)
      break; /* all readers have ended */
    waiting -= (int) n;
    for (ssize_t k = 0; k < n; k++)
      if (bytes[k] != NOT_ASKED)
        *answered |= UINT64_C (1) << bytes[k];
  }
  return r < 0 ? r : waiting;
}
