/* SPDX-License-Identifier: BSD-3-Clause */
/* etcdctl.c - see etcdctl.h. */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/etcdctl.h"

#define BYTES_MAX (64u << 20)
#define SAID_MAX 4096
/* Exit status of timeout(1) if the time limit expired, and of env(1) and
 * timeout(1) if there is no such program.
 */
#define STATUS_TIMEOUT 124
#define STATUS_KILLED 137 /* --kill-after was needed */
#define STATUS_NO_PROGRAM 127

extern char **environ;

/* The words before those of the caller.  etcdctl fails if an option is given
 * both as a word and in the environment.
 */
static const char *const before[] = {
  "env",
  "--unset=ETCDCTL_WRITE_OUT",
  "ETCDCTL_API=3",
  "timeout",
  "--kill-after=1",
  "10",
  "etcdctl",
  "--write-out=json",
};
#define NR_BEFORE (sizeof before / sizeof before[0])

/* Start etcdctl, with its output in out and its complaints in said. */
static int
start (pid_t *pid, const char *const *words, int out, int said)
{
  char *argv[NR_BEFORE + FP_ETCDCTL_WORDS + 1] = { NULL };
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attr;
  sigset_t none;
  int r;

  /* posix_spawnp does not change the words. */
  for (size_t i = 0; i < NR_BEFORE; i++)
    argv[i] = (char *) (uintptr_t) before[i];
  for (size_t i = 0; words[i] != NULL; i++) {
    assert (i < FP_ETCDCTL_WORDS);
    argv[NR_BEFORE + i] = (char *) (uintptr_t) words[i];
  }
  sigemptyset (&none); /* else SIGTERM of timeout(1) could stay blocked */
  r = -posix_spawnattr_init (&attr);
  if (r < 0)
    return r;
  r = -posix_spawn_file_actions_init (&files);
  if (r == 0) {
    r = -posix_spawnattr_setsigmask (&attr, &none);
    if (r == 0)
      r = -posix_spawnattr_setflags (&attr, POSIX_SPAWN_SETSIGMASK);
    if (r == 0)
      r = -posix_spawn_file_actions_addopen (&files, STDIN_FILENO, "/dev/null",
                                             O_RDONLY, 0);
    if (r == 0)
      r = -posix_spawn_file_actions_adddup2 (&files, out, STDOUT_FILENO);
    if (r == 0)
      r = -posix_spawn_file_actions_adddup2 (&files, said, STDERR_FILENO);
    if (r == 0)
      r = -posix_spawnp (pid, before[0], &files, &attr, argv, environ);
    posix_spawn_file_actions_destroy (&files);
  }
  posix_spawnattr_destroy (&attr);
  return r;
}

/* Read all that comes from fd, as a string.  -E2BIG: it is too much. */
static int
read_all (char **text, int fd)
{
  size_t room = 0, n = 0;
  char *more;
  ssize_t got;

  for (;;) {
    if (room - n < 2) {
      room = 2 * room + 4096;
      more = room <= 2 * BYTES_MAX ? realloc (*text, room) : NULL;
      if (more == NULL)
        return room <= 2 * BYTES_MAX ? -ENOMEM : -E2BIG;
      *text = more;
    }
    got = read (fd, *text + n, room - n - 1);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return -errno;
    n += (size_t) got;
    (*text)[n] = '\0';
    if (got == 0)
      return n <= BYTES_MAX ? 0 : -E2BIG;
  }
}

/* Return the last line of text, without "Error: " before it.  A log may come
 * first.
 */
static const char *
last_error (char *text)
{
  const char *line;

  for (size_t n = strlen (text); n > 0 && text[n - 1] == '\n';)
    text[--n] = '\0';
  line = strrchr (text, '\n');
  line = line != NULL ? line + 1 : text;
  return strncmp (line, "Error: ", 7) == 0 ? line + 7 : line;
}

/* Judge how etcdctl ended. */
static int
judge (int status, int said, struct fp_error *error)
{
  int code = WIFEXITED (status) ? WEXITSTATUS (status) : -1;
  const char *endpoints = getenv ("ETCDCTL_ENDPOINTS");
  char text[SAID_MAX];
  off_t size = lseek (said, 0, SEEK_END);
  ssize_t n;

  if (code == 0)
    return 0;
  if (code == STATUS_NO_PROGRAM)
    return fp_fail (
        error, -ENOENT,
        "no etcdctl: install it (Debian: apt install etcd-client)");
  if (code == STATUS_TIMEOUT || code == STATUS_KILLED)
    return fp_fail (error, -ETIMEDOUT, "etcdctl did not answer within 10 s");
  n = pread (said, text, sizeof text - 1,
             size < (off_t) sizeof text ? 0 : size - (off_t) sizeof text + 1);
  text[n > 0 ? n : 0] = '\0';
  return fp_fail (error, -EIO, "etcdctl: %s (%s%s)",
                  n > 0 ? last_error (text) : "failed",
                  endpoints != NULL ? "ETCDCTL_ENDPOINTS="
                                    : "ETCDCTL_ENDPOINTS is not set",
                  endpoints != NULL ? endpoints : "");
}

static int
run (char **text, const char *const *words, int said, struct fp_error *error)
{
  int fds[2], r, status = 0;
  pid_t pid;

  if (pipe2 (fds, O_CLOEXEC) == -1)
    return fp_fail (error, -errno, "etcdctl: %s", strerror (errno));
  r = start (&pid, words, fds[1], said);
  close (fds[1]);
  if (r < 0) {
    close (fds[0]);
    return fp_fail (error, r, "etcdctl: %s", strerror (-r));
  }
  r = read_all (text, fds[0]);
  close (fds[0]); /* if it prints more, that ends it */
  while (waitpid (pid, &status, 0) == -1)
    if (errno != EINTR)
      return fp_fail (error, -errno, "etcdctl: %s", strerror (errno));
  if (r < 0)
    return fp_fail (error, r, "etcdctl: %s",
                    r == -E2BIG ? "it prints more than 64 MiB"
                                : strerror (-r));
  return judge (status, said, error);
}

int
fp_etcdctl (struct json_object **out, const char *const *words,
            struct fp_error *error)
{
  FP_CLEANUP (fp_free) char *text = NULL;
  int said = memfd_create ("etcdctl", MFD_CLOEXEC), r;

  if (out != NULL)
    *out = NULL;
  if (said == -1)
    return fp_fail (error, -errno, "etcdctl: %s", strerror (errno));
  r = run (&text, words, said, error);
  close (said);
  if (r < 0 || out == NULL)
    return r;
  *out = json_tokener_parse (text);
  if (*out == NULL)
    return fp_fail (error, -EPROTO, "etcdctl: it prints no JSON");
  return 0;
}
