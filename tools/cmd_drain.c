/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_drain.c - farpage drain: move everything that a memory server holds of a
 * volume to the others, while the volume is used.
 */

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

#include "base/addr.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/size.h"
#include "tools/common/commands.h"
#include "tools/common/deadline.h"
#include "tools/common/find_volume.h"
#include "tools/common/plugin_status.h"
#include "tools/common/progress.h"

static const char help[] =
    "Usage: farpage drain [OPTION]... DEVICE|SOCKET SERVER\n"
    "\n"
    "Move all that a memory server holds of a volume to the other servers\n"
    "of the volume, and wait until that is done. Reads and writes go on.\n"
    "The server gets no new extents until the front end (nbdkit or\n"
    "farpage-ublk) is restarted. To make that permanent, run 'farpage\n"
    "servers remove'; then the server can be stopped. SOCKET is the\n"
    "status=PATH of a plugin that farpage did not start. Ctrl-C cancels the\n"
    "drain: what was moved stays moved.\n"
    "\n"
    "      --rate SIZE    copy at most SIZE bytes per second\n"
    "      --cancel       cancel a drain: the server may be used again\n"
    "      --json         print the result as JSON\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "rate", required_argument, NULL, 'r' },
  { "cancel", no_argument, NULL, 'c' },
  { "json", no_argument, NULL, 'j' },
  { NULL, 0, NULL, 0 },
};

#define LOOK_MS 100
#define QUIET_MS 2000 /* before say_not_there */

static volatile sig_atomic_t interrupted;

static void
on_signal (int sig)
{
  interrupted = sig;
}

struct progress {
  struct fp_drain_status drain;
  bool there, named; /* server is up; volume has a name */
};

/* The drain that the user asked for. */
struct job {
  const char *volume, *socket;
  struct fp_addr server;
  bool json;
};

static void
json_putp (struct json_object **op)
{
  json_object_put (*op);
}

/* Get the progress of the drain.  -ENOENT: the server is not drained (any
 * more).
 */
static int
look (const char *socket, const struct fp_addr *server, struct progress *p,
      struct fp_error *error)
{
  FP_CLEANUP (fp_free) struct fp_status_doc *doc = NULL;
  int r = plugin_status_read (&doc, socket, error);

  if (r < 0)
    return r;
  p->named = doc->volume.name[0] != '\0';
  for (unsigned i = 0; i < doc->nr_servers; i++) {
    const struct fp_server_status *s = &doc->servers[i];
    struct fp_addr a;

    if (fp_addr_parse (&a, s->addr, NULL) < 0 || !fp_addr_eq (&a, server))
      continue;
    p->there = s->state == FP_SERVER_UP;
    p->drain = s->drain;
    if (s->drain.state != FP_DRAIN_NONE)
      return 0;
  }
  return fp_fail (error, -ENOENT,
                  "the drain is gone: the front end was restarted, or another "
                  "command cancelled"
                  " it: try again");
}

/* Return the number of extents that were moved. */
static uint64_t
moved (const struct fp_drain_status *d)
{
  return d->extents > d->left ? d->extents - d->left : 0;
}

static void
show (struct progress_bar *bar, const struct fp_drain_status *d)
{
  char bytes[FP_SIZE_STR_MAX], more[48] = "";

  fp_format_size (d->bytes, bytes);
  if (d->left_ns)
    snprintf (more, sizeof more, ", about %" PRIu64 " s more",
              d->left_ns / (uint64_t) FP_NS_PER_S + 1);
  progress_show (bar, moved (d), d->extents,
                 "%" PRIu64 " of %" PRIu64 " extents, %s%s%s%s", moved (d),
                 d->extents, bytes, more, *d->why ? ": " : "", d->why);
}

/* Tell the user that the server is away.  Said once per absence, because the
 * server may never return.
 */
static void
say_not_there (const char *addr, const struct progress *p)
{
  fprintf (stderr,
           "farpage: drain: %s is down: the drain goes on when it is back; "
           "Ctrl-C cancels it%s%s%s\n",
           addr,
           p->named
               ? "; if it is permanently gone, detach the volume, and attach "
                 "it with remove="
               : "",
           p->named ? addr : "",
           p->named ? " degraded=true: data that only it has is lost" : "");
}

static int
cancel (const char *socket, const char *addr, struct fp_error *error)
{
  char line[FP_ADDR_MAX + 32];

  snprintf (line, sizeof line, "drain-cancel %s\n", addr);
  return plugin_request (socket, line, error);
}

static void
report (const struct job *job, const char *addr,
        const struct fp_drain_status *d)
{
  FP_CLEANUP (json_putp) struct json_object *o = NULL;
  char bytes[FP_SIZE_STR_MAX];
  double s = (double) d->since_ns / FP_NS_PER_S;

  if (!job->json) {
    fp_format_size (d->bytes, bytes);
    printf ("%s: drained: %" PRIu64 " extents moved, %s copied in %.1f s\n"
            "This lasts until the front end is restarted. Before you stop the "
            "server, make it permanent:\n"
            "  farpage servers remove %s %s\n",
            addr, d->extents, bytes, s, job->volume, addr);
    return;
  }
  o = json_object_new_object ();
  json_object_object_add (o, "version", json_object_new_int (2));
  json_object_object_add (o, "server", json_object_new_string (addr));
  json_object_object_add (
      o, "state", json_object_new_string (fp_drain_state_name (d->state)));
  json_object_object_add (o, "extents", json_object_new_uint64 (d->extents));
  json_object_object_add (o, "bytes", json_object_new_uint64 (d->bytes));
  json_object_object_add (o, "ns", json_object_new_uint64 (d->since_ns));
  printf ("%s\n",
          json_object_to_json_string_ext (
              o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
}

/* Wait until everything is elsewhere, or the user cancels. */
static int
watch (const struct job *job, const char *addr)
{
  struct progress_bar bar = progress_begin ("drain");
  int64_t quiet = now_ms () + QUIET_MS;
  bool told = false;
  struct progress p;
  struct fp_error error;
  int r;

  for (;;) {
    r = look (job->socket, &job->server, &p, &error);
    if (r < 0 || p.drain.state == FP_DRAIN_DONE)
      break;
    if (interrupted) {
      r = cancel (job->socket, addr, &error);
      if (r == 0)
        r = fp_fail (&error, -EINTR,
                     "cancelled: %" PRIu64 " of %" PRIu64
                     " extents were moved, and stay moved",
                     moved (&p.drain), p.drain.extents);
      break;
    }
    if (p.there)
      told = false;
    else if (!told && now_ms () >= quiet) {
      progress_end (&bar);
      say_not_there (addr, &p);
      told = true;
    }
    show (&bar, &p.drain);
    sleep_ms (LOOK_MS);
  }
  progress_end (&bar);
  if (r < 0)
    return say_error ("drain: %s: %s", addr, error.text);
  report (job, addr, &p.drain);
  return EXIT_SUCCESS;
}

static int
drain (const struct job *job, uint64_t rate)
{
  struct sigaction sa = { .sa_handler = on_signal };
  FP_CLEANUP (fp_free) struct fp_status_doc *doc = NULL;
  char line[FP_ADDR_MAX + 64], addr[FP_ADDR_MAX + 1];
  struct fp_error error;

  fp_addr_format (&job->server, addr);
  if (rate)
    snprintf (line, sizeof line, "drain %s %" PRIu64 "\n", addr, rate);
  else
    snprintf (line, sizeof line, "drain %s\n", addr);
  sigaction (SIGINT, &sa, NULL);
  sigaction (SIGTERM, &sa, NULL);
  /* Do not start what cannot be watched. */
  if (plugin_status_read (&doc, job->socket, &error) < 0 ||
      plugin_request (job->socket, line, &error) < 0)
    return say_error ("drain: %s", error.text);
  return watch (job, addr);
}

int
cmd_drain (int argc, char *argv[])
{
  bool undo = false;
  char path[STATE_PATH_MAX], addr[FP_ADDR_MAX + 1];
  const char *reason = "";
  struct job job = { .json = false };
  uint64_t rate = 0;
  int c, status;
  struct fp_error error;

  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "drain", help, &status))
      return status;
    if (c == 'r' && (fp_parse_size (optarg, &rate, &reason) < 0 || rate == 0))
      return say_usage ("drain", "--rate: %s: not a number of bytes", optarg);
    job.json = job.json || c == 'j';
    undo = undo || c == 'c';
  }
  if (optind != argc - 2)
    return say_usage ("drain", "give one device or socket, and one server");
  if (undo && rate)
    return say_usage ("drain", "--rate or --cancel, not both");
  if (fp_addr_parse (&job.server, argv[optind + 1], &reason) < 0)
    return say_usage ("drain", "%s: %s", argv[optind + 1], reason);
  job.volume = argv[optind];
  if (!find_volume ("drain", job.volume, path, &job.socket, &status))
    return status;
  if (!undo)
    return drain (&job, rate);
  fp_addr_format (&job.server, addr);
  if (cancel (job.socket, addr, &error) < 0)
    return say_error ("drain: %s", error.text);
  if (!job.json)
    printf ("%s: drain cancelled: the server may be used again\n", addr);
  return EXIT_SUCCESS;
}
