/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_top.c - farpage top: show volumes and servers, live. */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/common/commands.h"
#include "tools/common/deadline.h"
#include "tools/common/device.h"
#include "tools/common/find_volume.h"
#include "tools/common/tls_args.h"
#include "tools/top/top.h"

static const char help[] =
    "Usage: farpage top [OPTION]... [DEVICE|SOCKET]... [tls-psk=FILE]\n"
    "\n"
    "Watch volumes and their servers: all that 'farpage attach' attached,\n"
    "or only these. SOCKET is the status=PATH of a plugin that farpage did\n"
    "not start. Keys: q quits, s changes the sort order, arrows scroll.\n"
    "Servers with TLS are asked with the key or the certificates that the\n"
    "devices were attached with. For a SOCKET, give tls-psk=FILE or\n"
    "tls-certificates=DIR.\n"
    "\n"
    "      --interval S   seconds between two updates, 0.1 to 3600 (1)\n"
    "      --batch        print text, one update after the other; no keys\n"
    "      --count N      end after N updates\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "interval", required_argument, NULL, 'i' },
  { "batch", no_argument, NULL, 'b' },
  { "count", required_argument, NULL, 'n' },
  { NULL, 0, NULL, 0 },
};

#define MAX_ARGS TOP_VOLUMES

/* Devices named on the command line; 0: watch all attached ones. */
static unsigned nr_named;

static int
renew (struct top *t)
{
  int r = nr_named == 0 ? top_watch_attached (t) : 0;

  return r == 0 ? top_watch_servers (t) : r;
}

/* Return true if every source has this many answers or is silent. */
static bool
all_known (struct top *t, unsigned answers)
{
  struct top_seen *seen = top_seen_new ();
  bool known = seen != NULL;

  for (unsigned i = 0; known && i < t->nr_volumes + t->nr_servers; i++) {
    top_look (i < t->nr_volumes ? t->volumes[i]
                                : t->servers[i - t->nr_volumes],
              seen);
    known = seen->nr_answers >= answers || seen->silent;
  }
  top_seen_free (seen);
  return known;
}

/* Wait for two answers from each source, because rates need two.  Do not wait
 * long for a source that does not answer.
 */
static int
get_going (struct top *t)
{
  /* A server is known only after a plugin has answered. */
  struct deadline d = deadline_in (3 * (int64_t) t->interval_ms + 2000, NULL);
  int r;

  do {
    r = renew (t);
    if (r == 0)
      sleep_ms (20);
  } while (r == 0 && deadline_left (&d, 1000) > 0 && !all_known (t, 2));
  return r;
}

static int
batch (struct top *t, unsigned count)
{
  static struct top_lines lines;
  int r = get_going (t);

  for (unsigned n = 0; r == 0; n++) {
    r = renew (t);
    if (r == 0)
      r = top_lines (t, TOP_BY_NAME, &lines);
    for (unsigned i = 0; r == 0 && i < lines.nr; i++)
      printf ("%s\n", lines.line[i].text);
    /* The reader is gone; main reports that. */
    if (r == 0 && (fflush (stdout) != 0 || ferror (stdout)))
      return EXIT_SUCCESS;
    if (count > 0 && n + 1 == count)
      break;
    putchar ('\n');
    sleep_ms ((int) t->interval_ms);
  }
  return r < 0 ? say_error ("top: out of memory or threads") : EXIT_SUCCESS;
}

static bool
parse_interval (const char *s, unsigned *ms)
{
  char *end;
  double seconds;

  errno = 0;
  seconds = strtod (s, &end);
  if (errno != 0 || end == s || *end || !(seconds >= 0.1 && seconds <= 3600))
    return false;
  *ms = (unsigned) (seconds * 1000);
  return true;
}

static int
watch_named (struct top *t, char *argv[], unsigned n)
{
  char path[STATE_PATH_MAX];
  const char *socket, *label;
  int status;

  for (unsigned i = 0; i < n; i++) {
    if (!find_volume ("top", argv[i], path, &socket, &status))
      return status;
    label = strrchr (argv[i], '/');
    if (strlen (socket) >= sizeof t->volumes[0]->path)
      return say_error ("top: %s: too long for a socket", socket);
    if (top_watch_plugin (t, socket == path && label ? label + 1 : argv[i],
                          socket) < 0)
      return say_error ("top: out of memory or threads");
  }
  return EXIT_SUCCESS;
}

/* Use the TLS parameters of the devices, unless the command line has some.  A
 * device whose parameters cannot be read is shown all the same.  Then its
 * servers show why they cannot be asked.
 */
static int
learn_tls (char *argv[], int n, bool said)
{
  struct fp_error error;

  for (int i = 0; !said && i < n; i++)
    if (device_index (argv[i]) >= 0)
      (void) tls_args_of_device (device_index (argv[i]), &error);
  if (!said && n == 0)
    for (int i = state_next (-1); i >= 0; i = state_next (i))
      (void) tls_args_of_device (i, &error);
  return tls_args_use ("top");
}

static int
screen (struct top *t, unsigned count)
{
  if (!isatty (STDIN_FILENO) || !isatty (STDOUT_FILENO))
    return say_error ("top: this is not a terminal: use --batch");
  return top_screen (t, renew, count);
}

int
cmd_top (int argc, char *argv[])
{
  /* Threads use it until the program ends. */
  static struct top t = { .interval_ms = 1000 };
  bool to_pipe = false;
  long count = 0;
  int c, n, status;

  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "top", help, &status))
      return status;
    if (c == 'i' && !parse_interval (optarg, &t.interval_ms))
      return say_usage ("top", "--interval: '%s' is not 0.1 to 3600", optarg);
    if (c == 'n' && !parse_number (optarg, 1, 1000000000, &count))
      return say_usage ("top", "--count: '%s' is not a valid number", optarg);
    to_pipe = to_pipe || c == 'b';
  }
  n = argc - optind;
  status = tls_args_take ("top", &n, argv + optind);
  if (status != EXIT_SUCCESS)
    return status;
  if (n > MAX_ARGS)
    return say_usage ("top", "more than %d devices", MAX_ARGS);
  status = learn_tls (argv + optind, n, n < argc - optind);
  if (status != EXIT_SUCCESS)
    return status;
  nr_named = (unsigned) n;
  status = watch_named (&t, argv + optind, nr_named);
  if (status != EXIT_SUCCESS)
    return status;
  return to_pipe ? batch (&t, (unsigned) count)
                 : screen (&t, (unsigned) count);
}
