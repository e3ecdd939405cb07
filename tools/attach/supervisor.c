/* SPDX-License-Identifier: BSD-3-Clause */
/* supervisor.c - the process that stays with an attached device. */

#include <config.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "tools/attach/supervisor.h"
#include "tools/common/device.h"
#include "tools/common/sysfs.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS 5000
#define RESTART_MS 20000
#define RESTART_MAX_MS 3600000
#define RELINK_MS 5000
#define DEATH_MS 300

static volatile sig_atomic_t stop_wanted;

static void
on_stop (int sig)
{
  (void) sig;
  stop_wanted = 1;
}

static void
catch_signals (void)
{
  struct sigaction stop = { .sa_handler = on_stop };
  struct sigaction none = { .sa_handler = SIG_IGN };

  sigaction (SIGTERM, &stop, NULL);
  sigaction (SIGINT, &stop, NULL);
  sigaction (SIGHUP, &none, NULL);
  sigaction (SIGPIPE, &none, NULL);
}

/* Survive systemd's last killing: see set_params in front_nbd.c. */
static void
survive_shutdown (void)
{
  *program_invocation_name = '@';
}

static void
survive_pressure (void)
{
  /* Lock only what is touched. If that is not allowed, everything works, but
   * not under pressure.
   */
  if (mlockall (MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == -1)
    fp_log (FP_LOG_WARN, "cannot lock the supervisor's memory: %s",
            strerror (errno));
  (void) sysfs_write ("-1000", "/proc/self/oom_score_adj");
  prctl (PR_SET_IO_FLUSHER, 1, 0, 0, 0);
}

__attribute__ ((format (printf, 2, 3))) static void
event (struct attachment *a, const char *fmt, ...)
{
  struct fp_error error;
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (a->st.event, sizeof a->st.event, fmt, ap);
  va_end (ap);
  fp_log (FP_LOG_INFO, "%s", a->st.event);
  if (attachment_save (a, &error) < 0)
    fp_log (FP_LOG_WARN, "%s", error.text);
}

/* Start the process again after it died. The kernel keeps requests for
 * dead_timeout seconds, so until then users of the device see only a pause. A
 * later success helps, too, if a file system waits or the swap is not touched.
 * So try until told to stop. Return false if the kernel keeps requests without
 * limit, and dead_timeout has passed: then the device must be taken down.
 */
static bool
restart (struct attachment *a)
{
  int64_t start = now_ms ();
  int64_t give_up = start + (int64_t) a->st.dead_timeout * 1000;
  int64_t patience = RESTART_MS;
  int backoff = BACKOFF_FIRST_MS;
  struct deadline d;
  struct fp_error error;
  int r;

  front_proc_why (&a->process, &error);
  fp_log (FP_LOG_WARN, "%s: restarting it", error.text);
  while (!stop_wanted) {
    int64_t most = patience;

    if (a->front->waits_for_ever)
      most = FP_MIN (most, FP_MAX (give_up - now_ms (), BACKOFF_FIRST_MS));
    d = deadline_in (most, &stop_wanted);
    r = attachment_serve (a, true, &d, &error);
    if (r == 0) {
      (void) a->front->take_events (a); /* those of the dead one */
      r = attachment_reconnect (a, a->st.connections, &d, &error);
      if (r == 0) {
        a->st.restarts++;
        event (a, "%s was restarted; the pause was %.1f s", a->front->program,
               (double) (now_ms () - start) / 1000);
        return true;
      }
      /* An orderly stop would give back the memory that holds the data. */
      front_proc_kill (&a->process, RELINK_MS);
    }
    /* If the start timed out, allow the next one more time. */
    if (deadline_left (&d, 1) <= 0)
      patience = patience * 2 < RESTART_MAX_MS ? patience * 2 : RESTART_MAX_MS;
    if (a->front->waits_for_ever && now_ms () >= give_up) {
      fp_log (FP_LOG_ERROR,
              "%s: giving up after %u s: the device's requests "
              "fail",
              error.text, a->st.dead_timeout);
      return false;
    }
    fp_log (FP_LOG_WARN, "%s: next try in %.1f s", error.text,
            backoff / 1000.0);
    d = deadline_in (backoff, &stop_wanted);
    while (deadline_left (&d, 100) > 0)
      sleep_ms (50);
    backoff = backoff * 2 < BACKOFF_MAX_MS ? backoff * 2 : BACKOFF_MAX_MS;
  }
  return true;
}

/* Return true if the process ends soon. Its death shows in its connections
 * before it shows in the pidfd.
 */
static bool
ended_soon (struct front_proc *p)
{
  struct pollfd pfd = { .fd = p->pidfd, .events = POLLIN };

  poll (&pfd, 1, DEATH_MS);
  return front_proc_ended (p);
}

/* Replace connections that died while nbdkit lives. If nbdkit does not answer
 * a new one, it is stuck, and might carry out old requests after the kernel
 * has sent them again. So kill it.
 */
static void
relink (struct attachment *a, unsigned n)
{
  struct deadline d = deadline_in (RELINK_MS, &stop_wanted);
  struct fp_error error;

  if (attachment_reconnect (a, n, &d, &error) < 0) {
    fp_log (FP_LOG_WARN, "%u dead NBD connection%s, and %s", n,
            n == 1 ? "" : "s", error.text);
    if (!stop_wanted && a->process.pid)
      kill (a->process.pid, SIGKILL);
    return;
  }
  a->st.reconnects += n;
  event (a, "%u NBD connection%s died and %s replaced", n, n == 1 ? "" : "s",
         n == 1 ? "was" : "were");
}

/* Return true if the device was taken down.  With check it is not while it is
 * in use.
 */
static bool
take_down (struct attachment *a, bool check, int *status)
{
  struct fp_error error;
  int r = attachment_undo (a, check, &error);

  if (r == -EBUSY) {
    fp_log (FP_LOG_WARN, "not detached: %s", error.text);
    stop_wanted = 0;
    return false;
  }
  if (r < 0)
    fp_log (FP_LOG_WARN, "detached, but: %s", error.text);
  else
    fp_log (FP_LOG_INFO, "detached");
  *status = r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
  return true;
}

static int
stay (struct attachment *a)
{
  /* A disconnect by another program makes no event, so look for it. */
  static const struct timespec look = { .tv_sec = 5 };
  sigset_t blocked, open;
  unsigned dead;
  int status;

  sigemptyset (&blocked);
  sigaddset (&blocked, SIGTERM);
  sigaddset (&blocked, SIGINT);
  for (;;) {
    struct pollfd pfd[] = {
      { .fd = a->front->event_fd (a), .events = POLLIN },
      { .fd = a->process.pidfd, .events = POLLIN },
      { .fd = a->process.output, .events = POLLIN },
    };

    /* Otherwise a signal between the test and the wait would be lost. */
    sigprocmask (SIG_BLOCK, &blocked, &open);
    if (!stop_wanted)
      ppoll (pfd, 3, &look, &open);
    sigprocmask (SIG_SETMASK, &open, NULL);

    front_proc_hear (&a->process);
    if (stop_wanted) {
      if (take_down (a, true, &status))
        return status;
      continue;
    }
    /* Another program disconnected the device: nothing is left to serve. */
    if (!device_connected (a->st.index)) {
      fp_log (FP_LOG_WARN, "the device was disconnected by another program");
      if (take_down (a, true, &status))
        return status;
      continue;
    }
    if (a->front->is_stuck != NULL && a->front->is_stuck (a) &&
        a->process.pid != 0) {
      fp_log (FP_LOG_WARN, "%s has answered nothing for %u s: killing it",
              a->front->program, a->st.timeout);
      kill (a->process.pid, SIGKILL);
      (void) ended_soon (&a->process);
    }
    dead = a->front->take_events (a);
    if (front_proc_ended (&a->process) ||
        (dead > 0 && ended_soon (&a->process))) {
      if (!restart (a)) {
        (void) take_down (a, false, &status);
        return EXIT_FAILURE;
      }
    }
    else if (dead > 0)
      relink (a, dead < a->st.connections ? dead : a->st.connections);
  }
}

static int
start (struct attachment *a, unsigned seconds, struct fp_error *error)
{
  struct deadline d = deadline_in ((int64_t) seconds * 1000, &stop_wanted);
  int r = attachment_claim (a, error);

  if (r == 0)
    r = attachment_serve (a, false, &d, error);
  if (r == 0)
    r = attachment_connect (a, &d, error);
  if (r == 0) {
    a->st.supervisor = getpid ();
    snprintf (a->st.event, sizeof a->st.event, "attached");
    r = attachment_save (a, error);
  }
  if (r < 0 && stop_wanted)
    r = fp_fail (error, -EINTR, "interrupted");
  return r;
}

int
supervise (struct attachment *a, unsigned start_seconds,
           supervisor_report *report, void *opaque)
{
  struct fp_error error, undo;
  int status = EXIT_SUCCESS;
  int r;

  catch_signals ();
  survive_pressure ();
  survive_shutdown ();
  r = start (a, start_seconds, &error);
  if (r < 0) {
    if (attachment_undo (a, false, &undo) < 0)
      fp_fail_in (&error, r, "cannot undo: %s; the first error", undo.text);
    report (opaque, r, error.text);
    status = EXIT_FAILURE;
  }
  else if (!report (opaque, 0, "")) {
    attachment_undo (a, false, &undo);
    status = EXIT_FAILURE;
  }
  else
    status = stay (a);
  a->front->close (a);
  return status;
}
