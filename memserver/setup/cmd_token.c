/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_token.c - farpage-memserver token: print a join token. */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/duration.h"
#include "memserver/options.h"
#include "memserver/setup/commands.h"
#include "memserver/setup/setup.h"
#include "transport/tls/psk_file.h"

static const char help[] =
    "Usage: farpage-memserver token [OPTION]...\n"
    "Print a join token. Until it expires, 'farpage join' on a client "
    "fetches\n"
    "the client's key from this server with it, over TLS. Make one for each\n"
    "client.\n"
    "\n"
    "  --user NAME     TLS user of the client (default: a new name)\n"
    "  --server        make one for 'farpage-memserver setup --join' on\n"
    "                  another memory server, which gets the master key\n"
    "  --ttl TIME      time until the token expires, 1s to 7d (default 1h)\n"
    "  --tls-psk FILE  key file with the master key (default: tls-psk of the\n"
    "                  configuration file)\n"
    "  --config FILE   configuration file (default\n"
    "                  " DEFAULT_CONFIG ")\n"
    "  --help, --version\n";

static const struct option long_options[] = {
  { "user", required_argument, NULL, 'u' },
  { "server", no_argument, NULL, 's' },
  { "ttl", required_argument, NULL, 't' },
  { "tls-psk", required_argument, NULL, 'k' },
  { "config", required_argument, NULL, 'c' },
  COMMON_OPTIONS,
  { NULL, 0, NULL, 0 },
};

struct args {
  const char *user, *psk, *config;
  bool server;
  unsigned ttl_s;
};

static int
set_ttl (struct args *a, const char *value)
{
  uint64_t us;

  if (fp_parse_duration (value, FP_S, &us) < 0 || us < FP_S ||
      us / FP_S > FP_JOIN_TTL_MAX)
    return command_usage ("token", "--ttl: '%s' is not a time from 1s to 7d",
                          value);
  a->ttl_s = (unsigned) (us / FP_S);
  return EXIT_SUCCESS;
}

/* Parse the command line.  Return -1 to go on, or an exit status. */
static int
parse (struct args *a, int argc, char *argv[])
{
  int c, status;

  while ((c = getopt_long (argc, argv, "", long_options, NULL)) != -1) {
    if (command_common (c, "token", help, &status))
      return status;
    switch (c) {
    case 'u':
      a->user = optarg;
      break;
    case 's':
      a->server = true;
      break;
    case 't':
      status = set_ttl (a, optarg);
      if (status != EXIT_SUCCESS)
        return status;
      break;
    case 'k':
      a->psk = optarg;
      break;
    case 'c':
      a->config = optarg;
      break;
    }
  }
  if (optind < argc)
    return command_usage ("token", "unexpected argument '%s'", argv[optind]);
  if (a->user != NULL && a->server)
    return command_usage ("token", "give only one of --user and --server");
  if (a->user != NULL && (strcmp (a->user, FP_PSK_ALL) == 0 ||
                          strcmp (a->user, FP_PSK_VOLUMES) == 0))
    return command_usage ("token", "--user: the name '%s' is reserved",
                          a->user);
  return -1;
}

int
token_main (int argc, char *argv[])
{
  struct args a = { .config = DEFAULT_CONFIG, .ttl_s = TOKEN_TTL_S };
  static struct options o;
  char user[FP_NAME_MAX + 1], text[FP_JOIN_TOKEN_MAX];
  struct fp_join_token token;
  struct fp_error error;
  int status = parse (&a, argc, argv), r;

  if (status != -1)
    return status;
  if ((a.psk == NULL || access (a.config, R_OK) == 0) &&
      options_read (&o, a.config) < 0)
    return EXIT_FAILURE;
  if (a.psk == NULL)
    a.psk = o.tls.psk;
  if (a.psk[0] == '\0')
    return command_failed ("token: %s does not set tls-psk: run "
                           "'farpage-memserver setup --size SIZE'",
                           a.config);
  if (o.access[0] != '\0' && a.user == NULL && !a.server)
    return command_failed ("token: %s says which users may be clients: give "
                           "one with --user NAME",
                           o.access);
  r = command_new_user (user);
  if (r < 0)
    return command_failed ("token: %s", strerror (-r));
  r = command_make_token (&token, a.psk,
                          a.server         ? FP_PSK_ALL
                          : a.user != NULL ? a.user
                                           : user,
                          a.ttl_s, &error);
  if (r < 0)
    return command_failed ("token: %s", error.text);
  if (fp_join_format (&token, text) < 0 || puts (text) < 0 ||
      fflush (stdout) != 0)
    return command_failed ("token: standard output: %s", strerror (errno));
  return EXIT_SUCCESS;
}
