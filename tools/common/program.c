/* SPDX-License-Identifier: BSD-3-Clause */
/* program.c - programs of the system that a command runs. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/deadline.h"
#include "tools/common/program.h"

int
run_program (char *line, size_t size, char *const argv[])
{
  FILE *fp;
  int pipefd[2], status;
  pid_t pid;

  line[0] = '\0';
  if (pipe (pipefd) == -1)
    return -errno;
  pid = fork ();
  if (pid == 0) {
    dup2 (pipefd[1], 1);
    close (pipefd[0]);
    close (pipefd[1]);
    execvp (argv[0], argv);
    fprintf (stderr, "farpage: cannot run %s: %s\n", argv[0],
             strerror (errno));
    _exit (127);
  }
  close (pipefd[1]);
  fp = fdopen (pipefd[0], "r");
  if (fp) {
    if (fgets (line, (int) size, fp))
      line[strcspn (line, "\n")] = '\0';
    while (fgetc (fp) != EOF)
      ;
    fclose (fp);
  }
  if (pid == -1 || waitpid (pid, &status, 0) == -1)
    return -errno;
  return WIFEXITED (status) ? WEXITSTATUS (status) : 128;
}

/* Read the program's output until it ends or the time is over. */
static int
hear (char *out, size_t size, int fd, int ms)
{
  struct deadline d = deadline_in (ms, NULL);
  size_t used = 0;
  char rest[512];

  for (;;) {
    struct pollfd pfd = { .fd = fd, .events = POLLIN };
    int left = deadline_left (&d, ms);
    bool full = used == size - 1;
    ssize_t n;
    int r = left == 0 ? 0 : poll (&pfd, 1, left);

    if (r == 0)
      return -ETIMEDOUT;
    if (r == -1)
      continue;
    n = read (fd, full ? rest : out + used,
              full ? sizeof rest : size - 1 - used);
    if (n == -1 && errno == EINTR)
      continue;
    if (n <= 0)
      return n == 0 ? 0 : -errno;
    if (!full)
      used += (size_t) n;
    out[used] = '\0';
  }
}

int
run_program_within (char *out, size_t size, char *const argv[], int ms)
{
  int pipefd[2], status, r;
  pid_t pid;

  out[0] = '\0';
  if (pipe2 (pipefd, O_CLOEXEC) == -1)
    return -errno;
  pid = fork ();
  if (pid == 0) {
    dup2 (pipefd[1], 1);
    dup2 (pipefd[1], 2);
    execvp (argv[0], argv);
    _exit (errno == ENOENT ? 127 : 126);
  }
  close (pipefd[1]);
  r = pid == -1 ? -errno : hear (out, size, pipefd[0], ms);
  close (pipefd[0]);
  if (pid == -1)
    return r;
  if (r < 0)
    kill (pid, SIGKILL);
  while (waitpid (pid, &status, 0) == -1)
    if (errno != EINTR)
      return -errno;
  if (r < 0)
    return r;
  if (!WIFEXITED (status))
    return 128;
  return WEXITSTATUS (status) == 127 ? -ENOENT : WEXITSTATUS (status);
}

/* Check that the part of the device where most signatures are can be read.
 * blkid(8) takes an error there for a device without signature.
 */
static int
check_readable (const char *device)
{
  char buffer[128 << 10];
  int fd = open (device, O_RDONLY | O_CLOEXEC);
  int r = fd >= 0 && read (fd, buffer, sizeof buffer) > 0 ? 0 : -EIO;

  if (fd >= 0)
    close (fd);
  return r;
}

int
probe_signature (char *type, size_t size, char *device)
{
  char *argv[] = { "blkid", "-p", "-c",   "/dev/null", "-o",
                   "value", "-s", "TYPE", device,      NULL };
  char *table[] = { "blkid", "-p", "-c",     "/dev/null", "-o",
                    "value", "-s", "PTTYPE", device,      NULL };
  int r;

  if (check_readable (device) < 0)
    return -EIO;
  r = run_program (type, size, argv);
  if ((r == 0 || r == 2) && !*type)
    r = run_program (type, size, table);
  /* 2: nothing was found. 8: several things were. */
  if (r == 8)
    snprintf (type, size, "more than one signature");
  return r == 0 || r == 2 || r == 8 ? 0 : -EIO;
}
