/* SPDX-License-Identifier: BSD-3-Clause */
/* front_proc.c - see front_proc.h. */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "tools/attach/front_proc.h"
#include "tools/attach/privileges.h"
#include "tools/common/state.h"
#include "tools/common/sysfs.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

#define STACK_SIZE (1024 * 1024)
#define NICE -20
#define SWAP_PRIORITY 10

static const char *
path_of (const char *variable, const char *installed)
{
  const char *s = getenv (variable);

  return s && *s ? s : installed;
}

const char *
nbdkit_plugin_path (void)
{
  return path_of ("FARPAGE_PLUGIN", PLUGINDIR "/nbdkit-farpage-plugin.so");
}

const char *
ublk_program_path (void)
{
  return path_of ("FARPAGE_UBLK", SERVERDIR "/farpage-ublk");
}

const char *
front_proc_marker (char out[FRONT_PROC_MARKER_MAX], int index)
{
  char path[STATE_PATH_MAX];

  state_path (path, index, "status.sock");
  snprintf (out, FRONT_PROC_MARKER_MAX, "status=%s", path);
  return out;
}

static bool
has_key (const char *arg, const char *key)
{
  size_t n = strlen (key);

  return strncmp (arg, key, n) == 0 && arg[n] == '=';
}

/* Return true for a parameter that only the first process gets.  takeover: if
 * another client has taken the volume since, it keeps it.  remove and add:
 * they are done.  A second add=true could also do harm.  A server that answers
 * with nothing would take the place of a member that is only away, and still
 * has all data.
 */
static bool
is_for_once (const char *arg)
{
  return has_key (arg, "takeover") || has_key (arg, "add") ||
         has_key (arg, "remove") || has_key (arg, "force");
}

/* Prepare the child between fork and exec.  If something is not allowed (no
 * root), only the robustness under swap pressure suffers.
 */
static void
prepare_child (const struct front_proc_params *p, int output)
{
  struct rlimit stack = { STACK_SIZE, RLIM_INFINITY };
  struct sched_param fifo = { .sched_priority = SWAP_PRIORITY }, usual = { 0 };
  int null = open ("/dev/null", O_RDWR);
  sigset_t none;
  int sig, r;

  setsid ();
  dup2 (null, 0);
  dup2 (output, 1);
  dup2 (output, 2);
  for (sig = 1; sig < NSIG; sig++)
    signal (sig, SIG_DFL);
  sigemptyset (&none);
  sigprocmask (SIG_SETMASK, &none, NULL);
  setrlimit (RLIMIT_STACK, &stack);
  (void) sysfs_write ("-1000", "/proc/self/oom_score_adj");
  prctl (PR_SET_IO_FLUSHER, 1, 0, 0, 0);
  /* The kernel's receiver of replies has this priority (WQ_HIGHPRI in
   * drivers/block/nbd.c), and is woken on the processor that sends them.  It
   * would take that processor from a thread of lower priority three times per
   * read.
   */
  setpriority (PRIO_PROCESS, 0, NICE);
  /* Do not inherit SCHED_BATCH, which has a meaning: front_proc_set_swap. */
  sched_setscheduler (0, SCHED_OTHER, &usual);
  if (p->realtime)
    sched_setscheduler (0, SCHED_FIFO, &fifo);
  r = privileges_drop ();
  if (r < 0)
    dprintf (STDERR_FILENO,
             "%s: error: cannot drop all unneeded privileges: %s\n", p->name,
             strerror (-r));
}

int
front_proc_start (struct front_proc *p, const struct front_proc_params *params,
                  struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int theirs = -1;
  char uuid[64], client[64], status[128];
  char members[128];
  const char **argv;
  size_t n = 0;
  unsigned i;
  int pipefd[2];
  pid_t pid;

  *p = (struct front_proc) FRONT_PROC_INIT;
  p->name = params->name;
  argv = calloc (params->nr_lead + params->nr_args + 8, sizeof *argv);
  if (!argv)
    return fp_fail (error, -ENOMEM, "out of memory");
  snprintf (client, sizeof client, "client=%s", params->client);
  snprintf (uuid, sizeof uuid, "uuid=%s", params->volume);
  snprintf (status, sizeof status, "status=%s", params->status_socket);
  snprintf (members, sizeof members, "members=%s", params->members);
  for (i = 0; i < params->nr_lead; i++)
    argv[n++] = params->lead[i];
  argv[n++] = status; /* before all of any length: see front_proc_lives */
  for (i = 0; i < params->nr_args; i++) {
    if (params->resume && is_for_once (params->args[i]))
      continue;
    argv[n++] = params->args[i];
  }
  /* uuid= makes sure that it is the same volume, and client= that no other
   * client has used it since.  A server may not know that the last process is
   * dead.  Then it keeps other clients out until the lease is over.
   */
  argv[n++] = client;
  if (params->volume[0])
    argv[n++] = uuid;
  argv[n++] = members;
  argv[n++] = "keep=true"; /* unless front_proc_stop ends it */
  if (params->swap)
    argv[n++] = "swap=true";
  if (params->resume)
    argv[n++] = "resume=true";

  /* The child's side does not block: output must never stop its I/O. */
  if (pipe2 (pipefd, O_CLOEXEC) == -1 ||
      fcntl (pipefd[0], F_SETFL, O_NONBLOCK) == -1 ||
      fcntl (pipefd[1], F_SETFL, O_NONBLOCK) == -1) {
    free (argv);
    return fp_fail (error, -errno, "pipe: %s", strerror (errno));
  }
  p->output = pipefd[0];
  theirs = pipefd[1];

  /* Left by a predecessor that was killed. */
  unlink (params->status_socket);
  if (!params->resume)
    unlink (params->members);

  pid = fork ();
  if (pid == 0) {
    prepare_child (params, theirs);
    execvp (params->program, (char **) argv);
    fprintf (stderr, "cannot be run: %s\n", strerror (errno));
    _exit (127);
  }
  free (argv);
  if (pid == -1) {
    close (p->output);
    p->output = -1;
    return fp_fail (error, -errno, "fork: %s", strerror (errno));
  }
  p->pid = pid;
  p->pidfd = pidfd_open (pid, 0);
  return 0;
}

static void
keep_tail (struct front_proc *p, const char *s, size_t n)
{
  size_t max = sizeof p->tail - 1;

  if (n > max) {
    s += n - max;
    n = max;
  }
  if (p->tail_len + n > max) {
    size_t drop = p->tail_len + n - max;

    memmove (p->tail, p->tail + drop, p->tail_len - drop);
    p->tail_len -= drop;
  }
  memcpy (p->tail + p->tail_len, s, n);
  p->tail_len += n;
  p->tail[p->tail_len] = '\0';
}

/* Log the output by lines.  nbdkit writes a line in several parts. */
static void
log_lines (struct front_proc *p, const char *s, size_t n)
{
  size_t i;

  for (i = 0; i < n; i++) {
    if (s[i] != '\n' && p->line_len < sizeof p->line - 1) {
      p->line[p->line_len++] = s[i];
      continue;
    }
    p->line[p->line_len] = '\0';
    if (strcmp (p->line, "ready") == 0) {
      p->ready = true;
      p->line_len = 0;
    }
    if (p->line_len > 0)
      fp_log (FP_LOG_INFO, "%s", p->line);
    if (p->line_len > 0 && p->aloud)
      p->aloud (p->line);
    p->line_len = 0;
  }
}

void
front_proc_hear (struct front_proc *p)
{
  char buf[1024];
  ssize_t n;

  if (p->output == -1)
    return;
  while ((n = read (p->output, buf, sizeof buf)) > 0) {
    keep_tail (p, buf, (size_t) n);
    log_lines (p, buf, (size_t) n);
  }
  if (n == 0) {
    close (p->output);
    p->output = -1;
  }
}

void
front_proc_speak_up (struct front_proc *p, void (*aloud) (const char *line))
{
  char said[sizeof p->tail];
  char *line, *save;

  front_proc_hear (p);
  snprintf (said, sizeof said, "%s", p->tail);
  for (line = strtok_r (said, "\n", &save); line;
       line = strtok_r (NULL, "\n", &save))
    aloud (line);
  p->aloud = aloud;
}

bool
front_proc_ended (struct front_proc *p)
{
  if (p->pid == 0)
    return true;
  if (waitpid (p->pid, &p->status, WNOHANG) != p->pid)
    return false;
  front_proc_hear (p);
  p->pid = 0;
  if (p->pidfd != -1)
    close (p->pidfd);
  if (p->output != -1)
    close (p->output);
  p->pidfd = p->output = -1;
  return true;
}

/* Join the lines, without their prefixes. */
static void
readable (char *out, size_t size, const char *tail)
{
  char copy[sizeof ((struct front_proc *) 0)->tail];
  char *line, *save, *s;
  size_t used = 0;
  int n;

  snprintf (copy, sizeof copy, "%s", tail);
  out[0] = '\0';
  for (line = strtok_r (copy, "\n", &save); line && used < size;
       line = strtok_r (NULL, "\n", &save)) {
    s = strstr (line, "error: ");
    s = s ? s + strlen ("error: ") : line;
    n = snprintf (out + used, size - used, "%s%s", used ? "; " : "", s);
    used += n < 0 ? 0 : (size_t) n;
  }
}

int
front_proc_why (const struct front_proc *p, struct fp_error *error)
{
  char said[sizeof p->tail];

  if (WIFSIGNALED (p->status))
    return fp_fail (error, -EIO, "%s was killed by signal %d", p->name,
                    WTERMSIG (p->status));
  readable (said, sizeof said, p->tail);
  if (*said)
    return fp_fail (error, -EIO, "%s: %s", p->name, said);
  return fp_fail (error, -EIO, "%s ended with exit status %d", p->name,
                  WEXITSTATUS (p->status));
}

static void
end (struct front_proc *p, int signal, int ms)
{
  struct deadline d = deadline_in (ms, NULL);
  int left;

  if (front_proc_ended (p))
    return;
  kill (p->pid, signal);
  while (!front_proc_ended (p)) {
    struct pollfd pfd[] = { { .fd = p->pidfd, .events = POLLIN },
                            { .fd = p->output, .events = POLLIN } };

    left = deadline_left (&d, 200);
    if (left == 0) {
      fp_log (FP_LOG_INFO, "%s (pid %ld) did not end within %d s: killed",
              p->name, (long) p->pid, ms / 1000);
      kill (p->pid, SIGKILL);
      d = deadline_in (ms, NULL);
      left = 200;
    }
    poll (pfd, 2, left);
    front_proc_hear (p);
  }
}

/* With SIGUSR1 nbdkit does not keep its volume, because the device goes.  If
 * the signal comes before the plugin catches it, it kills nbdkit, which has no
 * volume then.
 */
void
front_proc_stop (struct front_proc *p, int ms)
{
  end (p, SIGUSR1, ms);
}

void
front_proc_kill (struct front_proc *p, int ms)
{
  end (p, SIGKILL, ms);
}

bool
front_proc_lives (pid_t pid, const char *marker)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  char path[64], buf[2048];
  ssize_t n, i;

  if (pid <= 0)
    return false;
  snprintf (path, sizeof path, "/proc/%ld/cmdline", (long) pid);
  fd = open (path, O_RDONLY | O_CLOEXEC);
  if (fd == -1)
    return false;
  n = read (fd, buf, sizeof buf - 1);
  if (n <= 0)
    return false;
  buf[n] = '\0';
  for (i = 0; i < n; i += (ssize_t) strlen (buf + i) + 1)
    if (!strcmp (buf + i, marker))
      return true;
  return false;
}

void
front_proc_stop_other (pid_t pid, const char *marker, int ms)
{
  FP_CLEANUP (fp_closep) int pidfd = pid > 0 ? pidfd_open (pid, 0) : -1;
  struct pollfd pfd = { .fd = pidfd, .events = POLLIN };

  /* Open the pidfd first, so that the process cannot change after the
   * look at its arguments. */
  if (pidfd == -1 || !front_proc_lives (pid, marker))
    return;
  pidfd_send_signal (pidfd, SIGUSR1, NULL, 0);
  if (poll (&pfd, 1, ms) == 0) {
    pidfd_send_signal (pidfd, SIGKILL, NULL, 0);
    poll (&pfd, 1, ms);
  }
}

int
front_proc_set_swap (pid_t pid, const char *marker, bool on)
{
  struct sched_param param = { .sched_priority = on ? SWAP_PRIORITY : 0 };
  int policy = on ? SCHED_FIFO : SCHED_OTHER;
  struct dirent *d;
  char path[64];
  DIR *tasks;
  int r = 0;

  if (!front_proc_lives (pid, marker))
    return -ESRCH;
  snprintf (path, sizeof path, "/proc/%ld/task", (long) pid);
  tasks = opendir (path);
  if (!tasks)
    return -errno;
  /* No I/O waits for a thread with SCHED_BATCH (base/thread.h).  At real-time
   * priority, one that finds no memory would take a processor from threads
   * that free some.
   */
  while ((d = readdir (tasks)))
    if (d->d_name[0] != '.' &&
        sched_getscheduler (atoi (d->d_name)) != SCHED_BATCH &&
        sched_setscheduler (atoi (d->d_name), policy, &param) == -1 &&
        errno != ESRCH)
      r = -errno;
  closedir (tasks);
  return r;
}
