/* SPDX-License-Identifier: BSD-3-Clause */
/* test-privileges.c - capabilities of the nbdkit that 'farpage attach'
 * executes, whatever a container or a unit had set before.
 */

#include "unit.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/attach/privileges.h"

#define KEPT 0x01804002u /* IPC_LOCK, SYS_NICE, SYS_RESOURCE, DAC_OVERRIDE */

static struct __user_cap_header_struct header = {
  .version = _LINUX_CAPABILITY_VERSION_3
};

/* Put all permitted capabilities into the inheritable and the ambient set, so
 * that they survive an exec.
 */
static void
inherit_all (void)
{
  struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3];

  if (syscall (SYS_capget, &header, d) == -1)
    _exit (125);
  for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
    d[i].inheritable = d[i].permitted;
  if (syscall (SYS_capset, &header, d) == -1)
    _exit (125);
  for (unsigned cap = 0; cap < 64; cap++)
    (void) prctl (PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0);
}

/* Read into text the /proc/self/status of a program started that way. */
static void
after_exec (char *text, size_t room)
{
  int fds[2], status;
  size_t n = 0;
  ssize_t r;
  pid_t pid;

  assert_int_equal (pipe (fds), 0);
  pid = fork ();
  assert_true (pid >= 0);
  if (pid == 0) {
    inherit_all ();
    if (privileges_drop () != 0)
      _exit (126);
    dup2 (fds[1], STDOUT_FILENO);
    execlp ("cat", "cat", "/proc/self/status", (char *) NULL);
    _exit (127);
  }
  close (fds[1]);
  while ((r = read (fds[0], text + n, room - 1 - n)) > 0)
    n += (size_t) r;
  text[n] = '\0';
  close (fds[0]);
  assert_int_equal (waitpid (pid, &status, 0), pid);
  assert_int_equal (status, 0);
}

static unsigned long long
value (const char *text, const char *key)
{
  const char *at = strstr (text, key);
  unsigned long long v;

  assert_non_null (at);
  assert_int_equal (sscanf (at + strlen (key), "%llx", &v), 1);
  return v;
}

/* Only capabilities that we have can be kept: a caller may lack some. */
static void
test_inherited (void **state)
{
  static const char *const sets[] = { "CapInh:", "CapPrm:", "CapEff:",
                                      "CapAmb:" };
  char text[8192];

  (void) state;
  after_exec (text, sizeof text);
  for (unsigned i = 0; i < sizeof sets / sizeof sets[0]; i++)
    assert_int_equal (value (text, sets[i]) & ~(unsigned long long) KEPT, 0);
  if (geteuid () == 0)
    assert_int_equal (value (text, "CapEff:"), value (text, "CapInh:"));
  assert_int_equal (value (text, "NoNewPrivs:"), 1);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_inherited),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
