/* SPDX-License-Identifier: BSD-3-Clause */
/* commands.c - see commands.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "memserver/setup/commands.h"
#include "transport/tls/psk_file.h"

extern char **environ;

void
command_hint (const char *command)
{
  fprintf (stderr, "Try 'farpage-memserver %s --help'.\n", command);
}

bool
command_common (int c, const char *command, const char *help, int *status)
{
  switch (c) {
  case 'h':
    fputs (help, stdout);
    break;
  case 'V':
    printf ("farpage-memserver %s\n", PACKAGE_VERSION);
    break;
  case '?':
    command_hint (command);
    *status = EXIT_USAGE;
    return true;
  default:
    return false;
  }
  *status = EXIT_SUCCESS;
  return true;
}

int
command_run (const char *const argv[], bool loud)
{
  posix_spawn_file_actions_t actions;
  int status, r;
  pid_t pid;

  r = posix_spawn_file_actions_init (&actions);
  if (r != 0)
    return -r;
  for (int fd = 1; r == 0 && !loud && fd <= 2; fd++)
    r = posix_spawn_file_actions_addopen (&actions, fd, "/dev/null", O_WRONLY,
                                          0);
  if (r == 0)
    r = posix_spawnp (&pid, argv[0], &actions, NULL,
                      (char *const *) (uintptr_t) argv, environ);
  posix_spawn_file_actions_destroy (&actions);
  if (r != 0)
    return -r;
  while (waitpid (pid, &status, 0) < 0)
    if (errno != EINTR)
      return -errno;
  return WIFEXITED (status) ? WEXITSTATUS (status) : 128;
}

int
command_make_token (struct fp_join_token *out, const char *psk,
                    const char *user, unsigned ttl_s, struct fp_error *error)
{
  uint8_t own[FP_PSK_KEY_MAX];
  struct fp_psk_file *f;
  int r = fp_join_make (out, user, (uint32_t) time (NULL) + ttl_s);

  if (r < 0)
    return fp_fail (error, r,
                    "'%s' is not the name of a user: use 1 to %d printable "
                    "ASCII characters, without blanks, ':', '/', '\"' and "
                    "'\\', and not beginning with '#' or 'join.'",
                    user, FP_JOIN_USER_MAX);
  r = fp_psk_file_read_tls (&f, psk, error);
  if (r < 0)
    return r;
  r = strcmp (user, FP_PSK_ALL) == 0 ? -ENOENT
                                     : fp_psk_file_key (f, user, own);
  explicit_bzero (own, sizeof own);
  if (r != -ENOENT) {
    fp_psk_file_free (f);
    return fp_fail (error, -EEXIST,
                    "%s: user %s has a line with a key: copy that line to the "
                    "client, or give another user",
                    psk, user);
  }
  r = fp_psk_file_derive (f, out->identity, out->key, sizeof out->key);
  fp_psk_file_free (f);
  if (r < 0)
    return fp_fail (error, r,
                    "%s: has no master key, which join tokens need: run "
                    "'farpage-memserver setup --size SIZE' with the size that "
                    "this server lends",
                    psk);
  return 0;
}

int
command_new_user (char out[FP_NAME_MAX + 1])
{
  uint32_t n;
  int r = fp_random (&n, sizeof n);

  snprintf (out, FP_NAME_MAX + 1, "client-%08x", n);
  return r;
}
