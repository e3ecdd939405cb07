/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_keygen.c - farpage-memserver keygen: make a TLS key. */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memserver/setup/commands.h"
#include "memserver/setup/setup.h"
#include "transport/tls/psk_file.h"
#include "transport/tls/psk_write.h"

#define DEFAULT_USER "farpage"

static const char help[] =
    "Usage: farpage-memserver keygen [--user NAME] FILE\n"
    "Make a TLS key of 32 random bytes, and write it to FILE as USER:KEY.\n"
    "Only the owner of a new FILE can read it. If FILE exists, --user adds\n"
    "the user to it. Without --user the command then fails.\n"
    "\n"
    "  --user NAME  user that the key is for (default " DEFAULT_USER ")\n"
    "  --help, --version\n";

static const struct option long_options[] = {
  { "user", required_argument, NULL, 'u' },
  COMMON_OPTIONS,
  { NULL, 0, NULL, 0 },
};

int
keygen_main (int argc, char *argv[])
{
  const char *user = NULL;
  struct fp_error error;
  int c, status, r;

  while ((c = getopt_long (argc, argv, "", long_options, NULL)) != -1) {
    if (command_common (c, "keygen", help, &status))
      return status;
    user = optarg;
  }
  if (argc - optind != 1)
    return command_usage ("keygen", "give one FILE");
  if (user != NULL &&
      (!fp_psk_user_ok (user) || strcmp (user, FP_PSK_VOLUMES) == 0))
    return command_usage (
        "keygen",
        "--user: '%s' is not a valid name: use 1 to %d "
        "printable ASCII characters other than blanks, "
        "':', '/', '\"' and '\\'; a name must not be '" FP_PSK_VOLUMES
        "', or begin with '#' or 'join.'",
        user, FP_NAME_MAX);
  r = fp_psk_new (argv[optind], user != NULL ? user : DEFAULT_USER,
                  user != NULL, &error);
  if (r == -EEXIST && user == NULL)
    return command_failed ("keygen: %s: give another FILE, or add a user with "
                           "--user NAME",
                           error.text);
  return r < 0 ? command_failed ("keygen: %s", error.text) : EXIT_SUCCESS;
}
