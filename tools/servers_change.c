/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/error.h"
#include "proto/messages.h"
#include "tools/common/commands.h"
#include "tools/common/find_volume.h"
#include "tools/common/json_out.h"
#include "tools/common/plugin_status.h"
#include "tools/servers_change.h"

static const char add_help[] =
    "Usage: farpage servers add [OPTION]... "
    "DEVICE|SOCKET ADDR[,domain=NAME]...\n"
    "\n"
    "Add memory servers to a volume in use. New extents may get memory\n"
    "there; existing ones stay where they are (farpage drain moves them).\n"
    "SOCKET is the status=PATH of a plugin that farpage did not start.\n"
    "ADDR is HOST, HOST:PORT, [V6]:PORT or unix:PATH, and NAME its failure\n"
    "domain.\n"
    "\n"
    "      --json   print the result as JSON\n"
    "      --help, --version\n";

static const char remove_help[] =
    "Usage: farpage servers remove [OPTION]... DEVICE|SOCKET ADDR...\n"
    "\n"
    "Remove memory servers from a volume in use. They must hold nothing of\n"
    "it: farpage drain moves that to the others. All other servers must be\n"
    "up. SOCKET is the status=PATH of a plugin that farpage did not start.\n"
    "\n"
    "      --json   print the result as JSON\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "json", no_argument, NULL, 'j' },
  { NULL, 0, NULL, 0 },
};

#define DOMAIN_MARK ",domain="
/* Room for "remove", an address, a domain, a newline. */
#define REQUEST_LINE_MAX (FP_ADDR_MAX + FP_NAME_MAX + 32)

bool
servers_is_change (const char *word)
{
  return strcmp (word, "add") == 0 || strcmp (word, "remove") == 0;
}

/* Make the request from ADDR[,domain=NAME].  The plugin is in another
 * directory, so the path of a socket becomes absolute.
 */
static int
make_request (char line[REQUEST_LINE_MAX], const char *word, const char *arg)
{
  const char *domain = strstr (arg, DOMAIN_MARK), *why;
  char addr[FP_ADDR_MAX + 1], path[FP_ADDR_MAX + PATH_MAX + 8], cwd[PATH_MAX];
  size_t n = domain ? (size_t) (domain - arg) : strlen (arg);
  struct fp_addr a;
  char command[32];

  snprintf (command, sizeof command, "servers %s", word);
  if (n >= sizeof addr)
    return say_usage (command, "%s: too long for an address", arg);
  if (domain && (strcmp (word, "add") != 0 ||
                 !fp_name_ok (domain + strlen (DOMAIN_MARK))))
    return say_usage (
        command, "%s: domain= is only for 'add', and needs a valid name", arg);
  snprintf (addr, sizeof addr, "%.*s", (int) n, arg);
  if (fp_addr_parse (&a, addr, &why) < 0)
    return say_usage (command, "%s: %s", addr, why);
  if (a.is_unix && a.host[0] != '/' && getcwd (cwd, sizeof cwd)) {
    snprintf (path, sizeof path, "unix:%s/%s", cwd, a.host);
    if (fp_addr_parse (&a, path, &why) < 0)
      return say_usage (command, "%s: %s", path, why);
  }
  fp_addr_format (&a, addr);
  snprintf (line, REQUEST_LINE_MAX, "%s %s%.*s\n", word, addr,
            FP_NAME_MAX + (int) strlen (DOMAIN_MARK), domain ? domain : "");
  return EXIT_SUCCESS;
}

static bool
change (const char *word, const char *socket, const char *arg,
        struct json_object *list)
{
  struct json_object *o;
  char line[REQUEST_LINE_MAX];
  struct fp_error error = { .text = "" };
  int r;

  if (make_request (line, word, arg) != EXIT_SUCCESS)
    return false; /* impossible: checked before */
  r = plugin_request (socket, line, &error);
  if (r < 0)
    say_error ("servers %s: %s", word, error.text);
  if (!list) {
    if (r == 0)
      printf ("%s: %s%s%s\n", arg,
              strcmp (word, "add") == 0 ? "added" : "removed",
              *error.text ? "; " : "", error.text);
    return r == 0;
  }
  o = json_object_new_object ();
  json_add_str (o, "addr", arg);
  json_add_bool (o, "done", r == 0);
  json_add_str (o, r == 0 ? "note" : "error", error.text);
  json_object_array_add (list, o);
  return r == 0;
}

int
servers_change (int argc, char *argv[])
{
  const char *word = argv[0], *socket;
  bool adds = strcmp (word, "add") == 0, json = false;
  struct json_object *o = NULL, *list = NULL;
  char path[STATE_PATH_MAX], line[REQUEST_LINE_MAX], command[32];
  int c, status, i;

  snprintf (command, sizeof command, "servers %s", word);
  optind = 0; /* start over, for a second command line */
  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, command, adds ? add_help : remove_help, &status))
      return status;
    json = json || c == 'j';
  }
  if (optind >= argc - 1)
    return say_usage (command, "give one device or socket, and servers");
  for (i = optind + 1; i < argc; i++) {
    status = make_request (line, word, argv[i]);
    if (status != EXIT_SUCCESS)
      return status;
  }
  if (!find_volume (command, argv[optind], path, &socket, &status))
    return status;
  if (json) {
    o = json_object_new_object ();
    list = json_object_new_array ();
    json_object_object_add (o, "version", json_object_new_int (1));
    json_object_object_add (o, "servers", list);
  }
  status = EXIT_SUCCESS;
  for (i = optind + 1; i < argc; i++)
    if (!change (word, socket, argv[i], list))
      status = EXIT_FAILURE;
  if (json)
    json_print (o);
  return status;
}
