/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_setup.c - farpage-memserver setup: make a memory server of this machine.
 */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "memserver/pool/host.h"
#include "memserver/setup/setup_int.h"
#include "transport/tls/psk_file.h"

static const char help[] =
    "Usage: farpage-memserver setup --size SIZE|PERCENT% [OPTION]...\n"
    "Make this machine a memory server: make a key, write the settings, open\n"
    "the firewall (firewalld or ufw), enable and start the service, and wait\n"
    "until it serves. Then print the commands for a client and another "
    "memory\n"
    "server. A second run repeats only missing steps, and prints new join\n"
    "tokens.\n"
    "\n"
    "  --size SIZE        memory to lend: 64G, or 50% of all memory\n"
    "  --join ADDR        use the master key of the memory server at ADDR, "
    "so\n"
    "                     that one key of a client is good for both\n"
    "  --token TOKEN      join token for --join; 'farpage-memserver token\n"
    "                     --server' prints it there\n"
    "  --token-file FILE  read the join token from FILE; - is standard input\n"
    "  --config FILE      configuration file (default\n"
    "                     " DEFAULT_CONFIG ")\n"
    "  --dry-run          print the steps, and change nothing\n"
    "  --help, --version\n";

static const struct option long_options[] = {
  { "size", required_argument, NULL, 's' },
  { "join", required_argument, NULL, 'j' },
  { "token", required_argument, NULL, 't' },
  { "token-file", required_argument, NULL, 'f' },
  { "config", required_argument, NULL, 'c' },
  { "dry-run", no_argument, NULL, 'n' },
  COMMON_OPTIONS,
  { NULL, 0, NULL, 0 },
};

/* Parse the command line.  Return -1 to go on, or an exit status. */
static int
parse (struct setup *s, int argc, char *argv[])
{
  int c, status;

  while ((c = getopt_long (argc, argv, "", long_options, NULL)) != -1) {
    if (command_common (c, "setup", help, &status))
      return status;
    switch (c) {
    case 's':
      s->size = optarg;
      break;
    case 'j':
      s->join = optarg;
      break;
    case 't':
      s->token = optarg;
      break;
    case 'f':
      s->token_file = optarg;
      break;
    case 'c':
      s->config = optarg;
      break;
    case 'n':
      s->dry_run = true;
      break;
    }
  }
  if (optind < argc)
    return command_usage ("setup", "unexpected argument '%s'", argv[optind]);
  if (s->config[0] != '/')
    return command_usage ("setup", "--config: give an absolute path");
  if (s->size == NULL)
    return command_usage ("setup", "give how much to lend: --size 64G, or "
                                   "--size 50%%");
  if ((s->join != NULL) != (s->token != NULL || s->token_file != NULL) ||
      (s->token != NULL && s->token_file != NULL))
    return command_usage ("setup", "--join needs either --token or "
                                   "--token-file, and they need --join");
  return -1;
}

/* Set s->bytes to the size to lend, a multiple of the slab size.  Return an
 * exit status.
 */
static int
choose_size (struct setup *s)
{
  char slab[FP_SIZE_STR_MAX];
  struct host_memory memory;
  const char *why;
  char *end;
  unsigned long percent;
  int r;

  fp_format_size_exact (s->options.slab, slab);
  if (strchr (s->size, '%') == NULL) {
    if (fp_parse_size (s->size, &s->bytes, &why) < 0)
      return command_usage ("setup", "--size: '%s' is not a size: %s", s->size,
                            why);
    if (s->bytes == 0 || s->bytes % s->options.slab != 0)
      return command_usage ("setup",
                            "--size: '%s' is not a multiple of the slab size, "
                            "%s",
                            s->size, slab);
    return EXIT_SUCCESS;
  }
  percent = strtoul (s->size, &end, 10);
  if (strcmp (end, "%") != 0 || percent < 1 || percent > 90)
    return command_usage (
        "setup", "--size: '%s' is not a percentage from 1%% to 90%%", s->size);
  /* A second run keeps the size, even if this host's memory has changed. */
  s->bytes = s->options.size;
  if (s->bytes != 0)
    return EXIT_SUCCESS;
  r = host_memory (&memory, s->options.numa);
  if (r < 0)
    return command_failed ("setup: cannot read the size of this machine's "
                           "memory: %s",
                           strerror (-r));
  s->bytes = memory.total / 100 * percent / s->options.slab * s->options.slab;
  if (s->bytes == 0)
    return command_failed ("setup: --size: %s is less than a slab of %s: give "
                           "a larger percentage, or set a smaller slab in %s",
                           s->size, slab, s->config);
  return EXIT_SUCCESS;
}

/* Choose the paths of the files that setup writes. */
static int
choose_paths (struct setup *s)
{
  const char *slash = strrchr (s->config, '/');
  int dir = slash != NULL ? (int) (slash - s->config) : 0, n, m;

  n = snprintf (s->dropin, sizeof s->dropin, "%s.d/10-setup.conf", s->config);
  m = s->options.tls.psk[0] != '\0'
          ? snprintf (s->key, sizeof s->key, "%s", s->options.tls.psk)
          : snprintf (s->key, sizeof s->key, "%.*s/key", dir, s->config);
  if (n < 0 || (size_t) n >= sizeof s->dropin || m < 0 ||
      (size_t) m >= sizeof s->key)
    return command_usage ("setup", "--config: the path is too long");
  return EXIT_SUCCESS;
}

/* Return what in the configuration file would let clients in without TLS, or
 * the master key out of use; NULL: nothing.
 */
static const char *
contradiction (const struct options *o)
{
  if (o->tls.certificates[0] != '\0')
    return "tls-certificates";
  if (o->insecure)
    return "insecure";
  return o->tls.mode_given && o->tls.mode != FP_TLS_REQUIRE ? "tls" : NULL;
}

/* Refuse settings that setup would have to change, and a size that does not
 * fit.
 */
static int
check (struct setup *s)
{
  const char *setting = contradiction (&s->options);
  struct options o = s->options;
  struct fp_error error;
  char size[FP_SIZE_STR_MAX];

  if (geteuid () != 0 && !s->dry_run)
    return command_failed ("setup: this needs root: run it with sudo");
  if (setting != NULL)
    return command_failed ("setup: %s sets %s, and setup makes a server with "
                           "keys, which requires TLS: remove that line, or "
                           "set the server up by hand",
                           s->config, setting);
  fp_format_size_exact (s->options.size, size);
  if (s->options.size != 0 && s->options.size != s->bytes)
    return command_failed (
        "setup: this machine is set up to lend %s: to "
        "change that, edit size in %s (or in %s, if that "
        "file is missing), and run 'systemctl restart " SERVICE "'",
        size, s->dropin, s->config);
  if (s->serving && !setup_is_configured (s))
    return command_failed ("setup: the server runs already, and has other "
                           "settings: its clients would lose their memory. "
                           "Detach them, and run 'systemctl stop " SERVICE
                           "' first");
  o.size = s->bytes;
  if (!s->serving && options_fit (&o, &error) < 0)
    return command_failed ("setup: %s", error.text);
  return EXIT_SUCCESS;
}

/* Set host to the address that setup prints for this machine.  It is the first
 * TCP address in listen.  If that is a wildcard or missing, it is the host
 * name.
 */
static void
own_name (const struct setup *s, char host[FP_ADDR_MAX + 1])
{
  struct fp_addr own = { .port = FP_DEFAULT_PORT };

  for (unsigned i = 0; i < s->options.nr_listen; i++) {
    const struct fp_addr *a = &s->options.listen[i];

    if (a->is_unix)
      continue;
    own.port = a->port;
    if (fp_addr_is_wildcard (a))
      break;
    fp_addr_format (a, host);
    return;
  }
  if (gethostname (own.host, sizeof own.host) < 0)
    own.host[0] = '\0';
  own.host[sizeof own.host - 1] = '\0';
  fp_addr_format (&own, host);
  if (own.port == FP_DEFAULT_PORT)
    snprintf (host, FP_ADDR_MAX + 1, "%s", own.host);
}

/* Print the command for a client. */
static int
say_client (const struct setup *s, const char *host, struct fp_error *error)
{
  char user[FP_NAME_MAX + 1], text[FP_JOIN_TOKEN_MAX];
  struct fp_join_token token;
  int r;

  if (s->options.access[0] != '\0') {
    printf ("%s says which users may be clients. For each, run:\n"
            "  sudo farpage-memserver token --user NAME\n",
            s->options.access);
    return 0;
  }
  r = command_new_user (user);
  if (r < 0)
    return fp_fail (error, r, "%s", strerror (-r));
  r = command_make_token (&token, s->key, user, TOKEN_TTL_S, error);
  if (r == 0)
    r = fp_join_format (&token, text);
  if (r < 0)
    return r;
  printf ("On a client, run within an hour:\n"
          "  echo %s | sudo farpage swapon %s%s%s --token-file -\n",
          text, s->join != NULL ? s->join : "", s->join != NULL ? " " : "",
          host);
  if (s->join == NULL)
    printf ("  (With one memory server it needs --single-copy. For two copies "
            "of each page, set\n"
            "  up another one first, and run the command that it prints.)\n");
  return 0;
}

/* Print the commands for a client and for another memory server.  In a pipe no
 * log of sudo and no list of processes shows the token.
 */
static int
say_next (const struct setup *s, struct fp_error *error)
{
  char host[FP_ADDR_MAX + 1], text[FP_JOIN_TOKEN_MAX], size[FP_SIZE_STR_MAX];
  struct fp_join_token token;
  int r;

  own_name (s, host);
  fp_format_size (s->bytes, size);
  printf ("%s is set up to lend %s.\n\n", host, size);
  r = say_client (s, host, error);
  if (r == 0)
    r = command_make_token (&token, s->key, FP_PSK_ALL, TOKEN_TTL_S, error);
  if (r == 0)
    r = fp_join_format (&token, text);
  if (r == 0)
    printf ("On another memory server, run within an hour:\n"
            "  echo %s | sudo farpage-memserver setup --size %s --join %s "
            "--token-file -\n",
            text, s->size, host);
  return r;
}

int
setup_main (int argc, char *argv[])
{
  static struct setup s = { .config = DEFAULT_CONFIG };
  struct fp_error error = { "" };
  int status = parse (&s, argc, argv), r;

  if (status != -1)
    return status;
  if (options_read (&s.options, s.config) < 0)
    return EXIT_FAILURE;
  s.serving = setup_is_serving (&s);
  status = choose_size (&s);
  if (status == EXIT_SUCCESS)
    status = choose_paths (&s);
  if (status == EXIT_SUCCESS)
    status = check (&s);
  if (status != EXIT_SUCCESS)
    return status;
  r = setup_key (&s, &error);
  if (r == 0)
    r = setup_config (&s, &error);
  if (r == 0)
    r = setup_firewall (&s, &error);
  if (r == 0)
    r = setup_service (&s, &error);
  if (r == 0 && !s.dry_run)
    r = say_next (&s, &error);
  if (r < 0)
    return command_failed ("setup: %s", error.text);
  return EXIT_SUCCESS;
}
