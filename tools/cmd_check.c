/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_check.c - farpage check: compare the copies of a volume. */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/size.h"
#include "tools/common/commands.h"
#include "tools/common/deadline.h"
#include "tools/common/find_volume.h"
#include "tools/common/json_out.h"
#include "tools/common/plugin_status.h"
#include "tools/common/progress.h"

static const char help[] =
    "Usage: farpage check [OPTION]... /dev/nbdX|VOLUME|SOCKET\n"
    "\n"
    "Compare all copies of everything that was written to a volume with\n"
    "copies=2 or more, while it is in use, and wait for the result. VOLUME\n"
    "is the name of a volume that is attached here, SOCKET the status=PATH\n"
    "of a plugin that farpage did not start. Ctrl-C cancels the check.\n"
    "Exit status: 0: all copies are the same (or were repaired); 3: some\n"
    "differ; 1: the check failed, or could not compare everything.\n"
    "\n"
    "      --repair       overwrite the other copies with the first one\n"
    "      --rate SIZE    read at most SIZE bytes of each copy per second\n"
    "      --json         print the result as JSON\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "repair", no_argument, NULL, 'm' },
  { "rate", required_argument, NULL, 'r' },
  { "json", no_argument, NULL, 'j' },
  { NULL, 0, NULL, 0 },
};

#define EXIT_DIFFER 3
#define LOOK_MS 100

static volatile sig_atomic_t interrupted;

static void
on_signal (int sig)
{
  interrupted = sig;
}

/* The state of the check, as the plugin reports it. */
struct found {
  char state[16], why[256];
  uint64_t number, blocks, compared, differ, repaired, skipped, degraded;
  uint64_t left_ns, first; /* first: offset of the first difference */
  struct json_object *o;   /* all of it; the caller drops the reference */
};

static uint64_t
num (struct json_object *o, const char *name)
{
  struct json_object *v = NULL;

  return json_object_object_get_ex (o, name, &v) ? json_object_get_uint64 (v)
                                                 : 0;
}

static void
text (struct json_object *o, const char *name, char *out, size_t size)
{
  struct json_object *v = NULL;
  const char *s = NULL;

  if (json_object_object_get_ex (o, name, &v))
    s = json_object_get_string (v);
  snprintf (out, size, "%s", s ? s : "");
}

static void
take (struct found *f, struct json_object *c)
{
  struct json_object *offsets = NULL;

  text (c, "state", f->state, sizeof f->state);
  text (c, "why", f->why, sizeof f->why);
  f->number = num (c, "number");
  f->blocks = num (c, "blocks");
  f->compared = num (c, "blocks_compared");
  f->differ = num (c, "blocks_differ");
  f->repaired = num (c, "blocks_repaired");
  f->skipped = num (c, "blocks_skipped");
  f->degraded = num (c, "pieces_degraded");
  f->left_ns = num (c, "left_ns");
  if (json_object_object_get_ex (c, "offsets", &offsets) &&
      json_object_is_type (offsets, json_type_array) &&
      json_object_array_length (offsets) > 0)
    f->first = json_object_get_uint64 (json_object_array_get_idx (offsets, 0));
}

static int
look (const char *socket, struct found *f, struct fp_error *error)
{
  struct json_object *doc = NULL, *c = NULL;
  uint64_t number = f->number;
  int r = plugin_status_read (&doc, socket, error);

  if (r < 0)
    return r;
  if (json_object_object_get_ex (doc, "check", &c) && c) {
    take (f, c);
    json_object_put (f->o);
    f->o = json_object_get (c);
  }
  json_object_put (doc);
  if (f->number == 0 || (number != 0 && f->number != number))
    return fp_fail (error, -ESRCH,
                    "the check is gone: nbdkit was restarted, or another "
                    "check was started: try again");
  return 0;
}

static void
show (struct progress_bar *bar, const struct found *f)
{
  uint64_t done = f->compared + f->skipped;
  char more[48] = "";

  if (f->left_ns)
    snprintf (more, sizeof more, ", about %" PRIu64 " s more",
              f->left_ns / (uint64_t) FP_NS_PER_S + 1);
  progress_show (bar, done, f->blocks,
                 "%" PRIu64 " of %" PRIu64 " blocks, %" PRIu64 " differ%s",
                 done, f->blocks, f->differ, more);
}

/* Wait until the check is over.  A signal cancels it; f->state then says so.
 */
static int
watch (const char *socket, struct found *f, struct fp_error *error)
{
  struct progress_bar bar = progress_begin ("check");
  bool cancelled = false;
  int r;

  for (;;) {
    r = look (socket, f, error);
    if (r < 0 || strcmp (f->state, "running") != 0)
      break;
    if (interrupted && !cancelled) {
      cancelled = true;
      /* This fails if the check has just ended. */
      (void) plugin_request (socket, "check-cancel\n", error);
    }
    show (&bar, f);
    sleep_ms (LOOK_MS);
  }
  progress_end (&bar);
  return r;
}

static void
report (const struct found *f, bool json, bool repair)
{
  if (json) {
    struct json_object *o = json_object_new_object ();

    json_object_object_add (o, "version", json_object_new_int (1));
    json_object_object_add (o, "check", json_object_get (f->o));
    json_print (o);
    return;
  }
  printf ("%" PRIu64 " blocks compared, %" PRIu64 " differ", f->compared,
          f->differ);
  if (f->differ > 0)
    printf (" (first at %" PRIu64 ")", f->first);
  if (repair && f->differ > 0)
    printf (", %" PRIu64 " repaired", f->repaired);
  putchar ('\n');
}

static int
judge (const struct found *f)
{
  if (strcmp (f->state, "cancelled") == 0)
    return say_error ("check: cancelled: %" PRIu64 " of %" PRIu64
                      " blocks were checked",
                      f->compared + f->skipped, f->blocks);
  if (strcmp (f->state, "done") != 0)
    return say_error ("check: %s", f->why);
  if (f->degraded > 0 || f->skipped > 0)
    say_error ("check: not all could be compared: %" PRIu64
               " extents had fewer copies than they should, %" PRIu64
               " blocks were skipped: try again when 'farpage status' no "
               "longer shows DEGRADED",
               f->degraded, f->skipped);
  if (f->differ > f->repaired)
    return EXIT_DIFFER;
  return f->degraded > 0 || f->skipped > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int
check (const char *socket, bool repair, uint64_t rate, bool json)
{
  struct sigaction sa = { .sa_handler = on_signal };
  struct found f = { .o = NULL };
  char line[64], bytes[32] = "";
  struct fp_error error;
  int status;

  if (rate)
    snprintf (bytes, sizeof bytes, " %" PRIu64, rate);
  snprintf (line, sizeof line, "check%s%s\n", repair ? " repair" : "", bytes);
  sigaction (SIGINT, &sa, NULL);
  sigaction (SIGTERM, &sa, NULL);
  if (plugin_request (socket, line, &error) < 0)
    return say_error ("check: %s", error.text);
  if (watch (socket, &f, &error) < 0)
    status = say_error ("check: %s", error.text);
  else {
    report (&f, json, repair);
    status = judge (&f);
  }
  json_object_put (f.o);
  return status;
}

int
cmd_check (int argc, char *argv[])
{
  bool repair = false, json = false;
  char path[STATE_PATH_MAX];
  const char *reason = "", *socket;
  uint64_t rate = 0;
  int c, status;

  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "check", help, &status))
      return status;
    if (c == 'r' && (fp_parse_size (optarg, &rate, &reason) < 0 || rate == 0))
      return say_usage ("check", "--rate: %s: not a number of bytes", optarg);
    repair = repair || c == 'm';
    json = json || c == 'j';
  }
  if (optind != argc - 1)
    return say_usage ("check", "give one device, volume or socket");
  if (!find_volume ("check", argv[optind], path, &socket, &status))
    return status;
  return check (socket, repair, rate, json);
}
