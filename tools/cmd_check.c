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
#include "volume/status_json.h"

static const char help[] =
    "Usage: farpage check [OPTION]... DEVICE|VOLUME|SOCKET\n"
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

/* Get the state of the check whose number is in *c; 0: the last one. */
static int
look (const char *socket, struct fp_check_status *c, struct fp_error *error)
{
  FP_CLEANUP (fp_free) struct fp_status_doc *doc = NULL;
  uint64_t number = c->number;
  int r = plugin_status_read (&doc, socket, error);

  if (r < 0)
    return r;
  *c = doc->volume.check;
  if (c->number == 0 || (number != 0 && c->number != number))
    return fp_fail (
        error, -ESRCH,
        "the check is gone: the front end was restarted, or another "
        "check was started: try again");
  return 0;
}

static void
show (struct progress_bar *bar, const struct fp_check_status *c)
{
  uint64_t done = c->compared + c->skipped;
  char more[48] = "";

  if (c->left_ns)
    snprintf (more, sizeof more, ", about %" PRIu64 " s more",
              c->left_ns / (uint64_t) FP_NS_PER_S + 1);
  progress_show (bar, done, c->blocks,
                 "%" PRIu64 " of %" PRIu64 " blocks, %" PRIu64 " differ%s",
                 done, c->blocks, c->differ, more);
}

/* Wait until the check is over.  A signal cancels it; c->state then says so.
 */
static int
watch (const char *socket, struct fp_check_status *c, struct fp_error *error)
{
  struct progress_bar bar = progress_begin ("check");
  bool cancelled = false;
  int r;

  for (;;) {
    r = look (socket, c, error);
    if (r < 0 || c->state != FP_CHECK_RUNNING)
      break;
    if (interrupted && !cancelled) {
      cancelled = true;
      /* This fails if the check has just ended. */
      (void) plugin_request (socket, "check-cancel\n", error);
    }
    show (&bar, c);
    sleep_ms (LOOK_MS);
  }
  progress_end (&bar);
  return r;
}

static void
report (const struct fp_check_status *c, bool json, bool repair)
{
  if (json) {
    struct json_object *o = json_object_new_object ();

    json_object_object_add (o, "version", json_object_new_int (2));
    json_object_object_add (o, "check",
                            fp_status_to_json (fp_check_fields, c));
    json_print (o);
    return;
  }
  printf ("%" PRIu64 " blocks compared, %" PRIu64 " differ", c->compared,
          c->differ);
  if (c->nr_offsets > 0)
    printf (" (first at %" PRIu64 ")", c->offsets[0]);
  if (repair && c->differ > 0)
    printf (", %" PRIu64 " repaired", c->repaired);
  putchar ('\n');
}

static int
judge (const struct fp_check_status *c)
{
  if (c->state == FP_CHECK_CANCELLED)
    return say_error ("check: cancelled: %" PRIu64 " of %" PRIu64
                      " blocks were checked",
                      c->compared + c->skipped, c->blocks);
  if (c->state != FP_CHECK_DONE)
    return say_error ("check: %s", c->why);
  if (c->degraded > 0 || c->skipped > 0)
    say_error ("check: not all could be compared: %" PRIu64
               " extents had fewer copies than they should, %" PRIu64
               " blocks were skipped: try again when 'farpage status' no "
               "longer shows DEGRADED",
               c->degraded, c->skipped);
  if (c->differ > c->repaired)
    return EXIT_DIFFER;
  return c->degraded > 0 || c->skipped > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int
check (const char *socket, bool repair, uint64_t rate, bool json)
{
  struct sigaction sa = { .sa_handler = on_signal };
  FP_CLEANUP (fp_free) struct fp_status_doc *doc = NULL;
  struct fp_check_status c = { .number = 0 };
  char line[64], bytes[32] = "";
  struct fp_error error;
  int status;

  if (rate)
    snprintf (bytes, sizeof bytes, " %" PRIu64, rate);
  snprintf (line, sizeof line, "check%s%s\n", repair ? " repair" : "", bytes);
  sigaction (SIGINT, &sa, NULL);
  sigaction (SIGTERM, &sa, NULL);
  /* Do not start what cannot be watched. */
  if (plugin_status_read (&doc, socket, &error) < 0 ||
      plugin_request (socket, line, &error) < 0)
    return say_error ("check: %s", error.text);
  if (watch (socket, &c, &error) < 0)
    status = say_error ("check: %s", error.text);
  else {
    report (&c, json, repair);
    status = judge (&c);
  }
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
