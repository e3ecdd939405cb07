/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_child.c - find, start and end the programs that the benchmark runs. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "tools/bench/bench.h"

#define END_MS 5000
#define NO_PROGRAM 127 /* exit status, as a shell has it */

void
bench_find (const char *in_build_tree, const char *installed, const char *name,
            char out[4096])
{
  char self[2048];
  ssize_t n = readlink ("/proc/self/exe", self, sizeof self - 1);
  char *slash;

  if (n > 0) {
    self[n] = '\0';
    slash = strrchr (self, '/');
    *slash = '\0';
    /* In the build tree, this program is in tools/. */
    snprintf (out, 4096, "%s/../%s", self, in_build_tree);
    if (access (out, R_OK) == 0)
      return;
  }
  snprintf (out, 4096, "%s", access (installed, R_OK) == 0 ? installed : name);
}

static void
log_path (const struct bench *b, const char *name, char out[256])
{
  snprintf (out, 256, "%s/%s.log", b->dir, name);
}

static void __attribute__ ((noreturn))
child (const char *log, char *const argv[], pid_t parent)
{
  int null = open ("/dev/null", O_RDONLY | O_CLOEXEC);
  int out = open (log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

  /* The parent may have died before prctl: then no signal would come. */
  if (null == -1 || out == -1 || dup2 (null, STDIN_FILENO) == -1 ||
      dup2 (out, STDOUT_FILENO) == -1 || dup2 (out, STDERR_FILENO) == -1 ||
      prctl (PR_SET_PDEATHSIG, SIGTERM) == -1 || getppid () != parent)
    _exit (NO_PROGRAM);
  /* Ctrl-C is for the parent, which ends this process when it is done. */
  if (setpgid (0, 0) == -1)
    _exit (NO_PROGRAM);
  execvp (argv[0], argv);
  dprintf (STDERR_FILENO, "%s: %s\n", argv[0], strerror (errno));
  _exit (NO_PROGRAM);
}

int
bench_spawn (struct bench *b, const char *name, char *const argv[], pid_t *pid,
             struct fp_error *error)
{
  pid_t parent = getpid ();
  char log[256];

  log_path (b, name, log);
  /* Otherwise the child would write buffered output a second time. */
  fflush (NULL);
  *pid = fork ();
  if (*pid == 0)
    child (log, argv, parent);
  if (*pid == -1) {
    int err = errno;

    *pid = 0;
    return fp_fail (error, -err, "%s: fork: %s", name, strerror (err));
  }
  return 0;
}

int
bench_alive (struct bench *b, const char *name, pid_t *pid,
             struct fp_error *error)
{
  char log[256], text[256];
  int status = 0;
  size_t n = 0;
  FILE *fp;

  if (*pid != 0 && waitpid (*pid, &status, WNOHANG) != *pid)
    return 0;
  *pid = 0;
  log_path (b, name, log);
  fp = fopen (log, "re");
  if (fp != NULL) {
    if (fseek (fp, -(long) (sizeof text - 1), SEEK_END) == -1)
      rewind (fp);
    n = fread (text, 1, sizeof text - 1, fp);
    fclose (fp);
  }
  while (n > 0 && text[n - 1] == '\n')
    n--;
  text[n] = '\0';
  return fp_fail (error,
                  WIFEXITED (status) && WEXITSTATUS (status) == NO_PROGRAM
                      ? -ENODEV
                      : -EIO,
                  "%s ended%s%s", name, n > 0 ? ": " : "", text);
}

int
bench_wait (struct bench *b, const char *name, pid_t *pid, unsigned ms,
            struct fp_error *error)
{
  uint64_t deadline = fp_deadline_in_ms (ms);
  struct timespec ms5 = { 0, 5000000 };

  for (;;) {
    siginfo_t info = { .si_pid = 0 };

    /* Do not reap it here, because bench_alive reads the status, too. */
    if (waitid (P_PID, (id_t) *pid, &info, WEXITED | WNOHANG | WNOWAIT) == -1)
      return -errno;
    if (info.si_pid == *pid) {
      if (info.si_code != CLD_EXITED || info.si_status != 0)
        return bench_alive (b, name, pid, error);
      waitpid (*pid, NULL, 0);
      *pid = 0;
      return 0;
    }
    if (bench_stop)
      return -EINTR;
    if (fp_deadline_passed (deadline))
      return fp_fail (error, -ETIMEDOUT, "%s: not done after %u s", name,
                      ms / 1000);
    nanosleep (&ms5, NULL);
  }
}

void
bench_end (pid_t *pid)
{
  uint64_t deadline = fp_deadline_in_ms (END_MS);
  struct timespec ms = { 0, 1000000 };

  if (*pid == 0)
    return;
  kill (*pid, SIGTERM);
  while (waitpid (*pid, NULL, WNOHANG) == 0) {
    if (fp_deadline_passed (deadline))
      kill (*pid, SIGKILL);
    nanosleep (&ms, NULL);
  }
  *pid = 0;
}

int
bench_cpu_ns (pid_t pid, uint64_t *ns)
{
  struct timespec ts;
  clockid_t clock;
  int r = clock_getcpuclockid (pid, &clock);

  if (r != 0)
    return -r;
  if (clock_gettime (clock, &ts) == -1)
    return -errno;
  *ns = (uint64_t) ts.tv_sec * FP_NS_PER_S + (uint64_t) ts.tv_nsec;
  return 0;
}
