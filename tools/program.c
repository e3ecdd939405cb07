/* SPDX-License-Identifier: BSD-3-Clause */
/* program.c - programs of the system that a command runs. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

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

int
probe_signature (char *type, size_t size, char *device)
{
  char *argv[] = { "blkid", "-p", "-c",   "/dev/null", "-o",
                   "value", "-s", "TYPE", device,      NULL };
  char *table[] = { "blkid", "-p", "-c",     "/dev/null", "-o",
                    "value", "-s", "PTTYPE", device,      NULL };
  int r = run_program (type, size, argv);

  if ((r == 0 || r == 2) && !*type)
    r = run_program (type, size, table);
  /* 2: nothing was found. 8: several things were. */
  if (r == 8)
    snprintf (type, size, "more than one signature");
  return r == 0 || r == 2 || r == 8 ? 0 : -EIO;
}
