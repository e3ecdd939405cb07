/* SPDX-License-Identifier: BSD-3-Clause */
/* system.c - what the simulated hosts ask the system, besides files:
 * their name, their process, the time of day, how much memory there is.
 *
 * Wrapped:  time, getpid, gethostname, fork, event_add.
 * Defined:  epoll_wait and clock_gettime, for libevent, a shared library that
 *           no linker option reaches; and memserver/pool/host.h.
 */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memserver/pool/host.h"
#include "sim/system.h"
#include "sim/threads.h"

#define FIRST_PID 1000

static uint64_t available[SIM_HOSTS];
static int64_t date_s[SIM_HOSTS]; /* how fast its clock is */

int __wrap_clock_gettime (clockid_t clock, struct timespec *t);
time_t __wrap_time (time_t *t);
pid_t __wrap_getpid (void);
int __wrap_gethostname (char *name, size_t length);
pid_t __real_fork (void);
pid_t __wrap_fork (void);
int __real_event_add (struct event *ev, const struct timeval *tv);
int __wrap_event_add (struct event *ev, const struct timeval *tv);

/* ---- libevent ---- */

int
epoll_wait (int fd, struct epoll_event *events, int max, int ms)
{
  struct pollfd pfd = { .fd = fd, .events = POLLIN };

  (void) poll (&pfd, 1, ms);
  return (int) syscall (SYS_epoll_pwait, fd, events, max, 0, NULL, 0);
}

int
clock_gettime (clockid_t clock, struct timespec *t)
{
  return __wrap_clock_gettime (clock, t);
}

/* A simulated host gets no signals; libevent has one handler for the process.
 */
int
__wrap_event_add (struct event *ev, const struct timeval *tv)
{
  return event_get_events (ev) & EV_SIGNAL ? 0 : __real_event_add (ev, tv);
}

/* ---- the process ---- */

time_t
__wrap_time (time_t *out)
{
  struct timespec t;

  (void) __wrap_clock_gettime (CLOCK_REALTIME, &t);
  t.tv_sec += date_s[sim_host ()];
  if (out != NULL)
    *out = t.tv_sec;
  return t.tv_sec;
}

pid_t
__wrap_getpid (void)
{
  return FIRST_PID + (pid_t) sim_host ();
}

int
__wrap_gethostname (char *name, size_t length)
{
  snprintf (name, length, "host%u", sim_host ());
  return 0;
}

/* Return in the parent when the child has ended, so that the child takes no
 * virtual time.
 */
pid_t
__wrap_fork (void)
{
  pid_t pid = __real_fork ();
  siginfo_t info;

  if (pid > 0)
    while (waitid (P_PID, (id_t) pid, &info, WEXITED | WNOWAIT) == -1 &&
           errno == EINTR)
      ;
  return pid;
}

void
system_date (unsigned host, int64_t seconds)
{
  date_s[host] = seconds;
}

/* ---- memory ---- */

void
system_memory (unsigned host, uint64_t bytes)
{
  available[host] = bytes;
}

int
host_memory (struct host_memory *out, int numa)
{
  (void) numa;
  out->total = SYSTEM_MEMORY;
  out->available = available[sim_host ()];
  return 0;
}

bool
host_spares (uint64_t bytes, uint64_t reserve, int numa, uint64_t *out)
{
  (void) numa;
  *out = available[sim_host ()];
  return *out >= bytes && *out - bytes >= reserve;
}

int
host_stalled_us (uint64_t *total)
{
  (void) total;
  return -ENOSYS;
}

int
host_stall_trigger (unsigned stall_us, unsigned window_us)
{
  (void) stall_us;
  (void) window_us;
  return -ENOSYS;
}

uint64_t
host_huge_free (uint64_t page_size)
{
  (void) page_size;
  return 0;
}

int
host_raise_nofile (uint64_t wanted, uint64_t *limit)
{
  *limit = wanted;
  return 0;
}

bool
host_may_lock (uint64_t wanted, uint64_t *limit)
{
  *limit = wanted;
  return false;
}
