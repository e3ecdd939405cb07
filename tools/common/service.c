/* SPDX-License-Identifier: BSD-3-Clause */
/* service.c - see service.h. */

#include <config.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/deadline.h"
#include "tools/common/program.h"
#include "tools/common/service.h"

#define TRIES 120
#define ASK_MS 30000
#define AGAIN_MS 1000

enum shutdown { SHUTDOWN_NO, SHUTDOWN_YES, SHUTDOWN_UNKNOWN };

/* See systemctl(1).  Other answers mean that it could not ask. */
static const struct {
  const char *text;
  enum shutdown means;
} answers[] = {
  { "stopping", SHUTDOWN_YES },    { "running", SHUTDOWN_NO },
  { "degraded", SHUTDOWN_NO },     { "starting", SHUTDOWN_NO },
  { "initializing", SHUTDOWN_NO }, { "maintenance", SHUTDOWN_NO },
  { "offline", SHUTDOWN_NO },
};

static enum shutdown
ask (void)
{
  char program[] = "systemctl", word[] = "is-system-running";
  char said[512], *rest = said, *line;
  char *const argv[] = { program, word, NULL };
  int r = run_program_within (said, sizeof said, argv, ASK_MS);

  if (r == -ENOENT)
    return SHUTDOWN_NO; /* a machine without systemd */
  if (r < 0)
    return SHUTDOWN_UNKNOWN;
  /* A warning may precede the answer.  The exit status tells nothing. */
  while ((line = strsep (&rest, "\n")) != NULL)
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
      if (strcmp (line, answers[i].text) == 0)
        return answers[i].means;
  return SHUTDOWN_UNKNOWN;
}

int
service_take_down (service_step *step, void *arg)
{
  enum shutdown now = SHUTDOWN_NO;
  int status;

  for (unsigned i = 1;; i++) {
    if (now != SHUTDOWN_YES)
      now = ask ();
    status = step (arg, now == SHUTDOWN_YES);
    if (status == EXIT_SUCCESS || now == SHUTDOWN_NO || i == TRIES)
      return status;
    sleep_ms (AGAIN_MS);
  }
}

bool
service_is_misconfigured (const char *unit)
{
  char said[512];
  char *const argv[] = { (char *) "systemctl",
                         (char *) "show",
                         (char *) "--property=ExecMainStatus",
                         (char *) "--value",
                         (char *) (uintptr_t) unit,
                         NULL };

  return run_program_within (said, sizeof said, argv, ASK_MS) == 0 &&
         strcmp (said, "2\n") == 0;
}
