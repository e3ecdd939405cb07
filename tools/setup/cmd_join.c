/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_join.c - farpage join: fetch this machine's key from a memory server. */

#include <config.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/common/commands.h"
#include "tools/setup/choice.h"
#include "tools/setup/client_key.h"

static const char help[] =
    "Usage: farpage join DONOR... --token TOKEN|--token-file FILE\n"
    "                    [--key FILE]\n"
    "\n"
    "Fetch this machine's key from a memory server, over TLS. Check that "
    "each\n"
    "DONOR accepts it, and store it. 'farpage-memserver token' on a memory\n"
    "server prints the join token. 'farpage swapon DONOR...' with a join "
    "token\n"
    "does the same.\n"
    "\n"
    "      --token TOKEN      join token; other users of this machine can "
    "see\n"
    "                         it while the command runs\n"
    "      --token-file FILE  read the join token from FILE; - is standard\n"
    "                         input\n"
    "      --key FILE         store the key in FILE (default\n"
    "                         " CLIENT_KEY ")\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "token", required_argument, NULL, 't' },
  { "token-file", required_argument, NULL, 'T' },
  { "key", required_argument, NULL, 'k' },
  { NULL, 0, NULL, 0 },
};

/* Fetch the key, check that all servers accept it, and save it. */
static int
join (struct client_key **key, const struct client_key_args *a,
      char *const servers[], int n, struct fp_error *error)
{
  static struct choice c;
  int r = client_key_get (key, a, servers, n, error);

  if (r == 0)
    r = client_key_use (*key, error);
  for (int i = 0; r == 0 && i < n; i++)
    r = choice_ask (&c, servers[i], error);
  return r == 0 ? client_key_save (*key, a->path, error) : r;
}

int
cmd_join (int argc, char *argv[])
{
  struct client_key_args a = { .path = CLIENT_KEY };
  struct client_key *key = NULL;
  char path[PATH_MAX];
  struct fp_error error;
  int c, r, status;

  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "join", help, &status))
      return status;
    if (c == 't')
      a.token = optarg;
    else if (c == 'T')
      a.token_file = optarg;
    else
      a.path = optarg;
  }
  if (optind == argc)
    return say_usage ("join", "give one or more memory servers");
  if ((a.token != NULL) == (a.token_file != NULL))
    return say_usage ("join", "give one of --token and --token-file");
  r = client_key_path (path, a.path, &error);
  a.path = path;
  if (r == 0)
    r = join (&key, &a, argv + optind, argc - optind, &error);
  if (r == 0)
    printf ("joined as user %s: the key is in %s\n", key->is.user, a.path);
  client_key_free (key);
  return r < 0 ? say_error ("join: %s", error.text) : EXIT_SUCCESS;
}
