/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/addr.h"
#include "base/error.h"
#include "base/size.h"
#include "tools/common/ask_server.h"
#include "tools/common/commands.h"
#include "tools/common/deadline.h"
#include "tools/common/json_out.h"
#include "tools/common/progress.h"
#include "tools/pool_args.h"
#include "tools/servers_drain.h"

#define COMMAND "servers drain"
#define DEADLINE_S 600
#define LOOK_MS 250
#define SETTLE_MS 8000 /* as STOP_SETTLE_MS of memserver/server_stop.h */

static const char help[] =
    "Usage: farpage servers drain [OPTION]... ADDR [tls-psk=FILE]\n"
    "\n"
    "Empty a memory server, as before its host is taken down: it lends\n"
    "nothing any more, and asks all clients to move what they have there to\n"
    "other servers. Wait until clients have nothing left there, or no room\n"
    "elsewhere. No command is needed on the clients. The server lends again\n"
    "after --cancel, or when it is started again. Ctrl-C cancels a drain\n"
    "that this command began: what was moved stays moved. With an access\n"
    "file this needs 'admin = yes'.\n"
    "\n"
    "      --deadline TIME  wait for at most this long (default 10min)\n"
    "      --cancel         let the server lend again\n"
    "      --json           print the result as JSON\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "cancel", no_argument, NULL, 'c' },
  { "deadline", required_argument, NULL, 'd' },
  { "json", no_argument, NULL, 'j' },
  { NULL, 0, NULL, 0 },
};

static volatile sig_atomic_t interrupted;

static void
on_signal (int sig)
{
  interrupted = sig;
}

struct job {
  const char *addr;
  struct fp_ctl *ctl;
  uint64_t slab_size;
  long deadline_s;
  int64_t begin_ms, settled_ms; /* as settled_ns of memserver/server_stop.h */
  bool began;                   /* the drain; no other command has */
  uint64_t slabs;               /* to be moved, at the beginning */
  struct fp_drain_reply now;
};

static int
ask (struct job *job, enum fp_drain_action action, struct fp_error *error)
{
  const struct fp_drain_req q = { .action = action };

  return ask_why (
      job->ctl,
      fp_ctl_drain (job->ctl, &q, &job->now, fp_deadline_in_ms (ASK_MS)),
      error);
}

static uint64_t
left (const struct job *job)
{
  return job->now.moving + job->now.stuck;
}

static uint64_t
moved (const struct job *job)
{
  return job->slabs > left (job) ? job->slabs - left (job) : 0;
}

static int
give_up (struct job *job, struct fp_error *error)
{
  uint64_t n = left (job);
  int r;

  if (interrupted && !job->began)
    return fp_fail (error, -EINTR,
                    "interrupted; the drain, which another command began, "
                    "goes on");
  if (interrupted) {
    r = ask (job, FP_DRAIN_CANCEL, error);
    return r < 0 ? r
                 : fp_fail (error, -EINTR,
                            "cancelled: %" PRIu64 " of %" PRIu64
                            " slabs were moved, and stay moved",
                            moved (job), job->slabs);
  }
  if (job->now.moving > 0)
    return fp_fail (error, -ETIMEDOUT,
                    "%" PRIu64 " slabs are left after %ld s; the drain goes "
                    "on until --cancel",
                    n, job->deadline_s);
  return fp_fail (error, -ENOSPC,
                  "%" PRIu64 " slabs have no room on other servers: run "
                  "'farpage servers add' on their clients; the drain goes on "
                  "until --cancel",
                  n);
}

/* Return true if no client could move anything for a while. */
static bool
is_settled (struct job *job)
{
  if (job->now.moving > 0)
    job->settled_ms = 0;
  else if (job->settled_ms == 0)
    job->settled_ms = now_ms ();
  return job->settled_ms != 0 && now_ms () - job->settled_ms >= SETTLE_MS;
}

static int
watch (struct job *job, struct fp_error *error)
{
  struct progress_bar bar = progress_begin (COMMAND);
  int64_t end = job->begin_ms + job->deadline_s * 1000;
  char stuck[64];
  int r = 0;

  while (r == 0 && left (job) + job->now.kept > 0) {
    stuck[0] = '\0';
    if (job->now.stuck > 0)
      snprintf (stuck, sizeof stuck, "; no room on other servers for %" PRIu64,
                job->now.stuck);
    progress_show (&bar, moved (job), job->slabs,
                   "%" PRIu64 " of %" PRIu64 " slabs%s", moved (job),
                   job->slabs, stuck);
    if (interrupted || now_ms () >= end || is_settled (job)) {
      progress_end (&bar);
      if (left (job) == 0 && !interrupted)
        return 0; /* report tells of what is kept */
      return give_up (job, error);
    }
    sleep_ms (LOOK_MS);
    r = ask (job, FP_DRAIN_LOOK, error);
    if (r == 0 && !job->now.drains)
      r = fp_fail (error, -ECANCELED, "another command cancelled the drain");
  }
  progress_end (&bar);
  return r;
}

static int
report (const struct job *job, bool json)
{
  double s = (double) (now_ms () - job->begin_ms) / 1000;
  char bytes[FP_SIZE_STR_MAX], kept[FP_SIZE_STR_MAX];

  fp_format_size (moved (job) * job->slab_size, bytes);
  fp_format_size (job->now.kept * job->slab_size, kept);
  if (json) {
    struct json_object *o = json_object_new_object ();

    json_object_object_add (o, "version", json_object_new_int (1));
    json_add_str (o, "server", job->addr);
    json_add_bool (o, "draining", job->now.drains);
    json_add_num (o, "slabs_moved", moved (job));
    json_add_num (o, "slabs_left", left (job));
    json_add_num (o, "slabs_not_attached", job->now.kept);
    json_print (o);
  }
  else if (!job->now.drains)
    printf ("%s: it lends again\n", job->addr);
  else
    printf ("%s: drained in %.1f s: %s moved away\n"
            "It lends nothing until it is started again, or until this "
            "command with --cancel.\n",
            job->addr, s, bytes);
  if (!job->now.drains || job->now.kept == 0)
    return EXIT_SUCCESS;
  return say_error (COMMAND ": %s: %s of volumes that no client has attached "
                            "to write stay there: attach or delete them "
                            "('farpage servers' lists them)",
                    job->addr, kept);
}

static int
run (struct job *job, bool cancel, bool json)
{
  struct sigaction sa = { .sa_handler = on_signal };
  struct fp_error error = { .text = "" };
  struct fp_hello_reply hello = { .features = 0 };
  struct fp_addr addr;
  const char *why;
  int r;

  if (fp_addr_parse (&addr, job->addr, &why) < 0)
    return say_usage (COMMAND, "%s: %s", job->addr, why);
  r = ask_begin (&job->ctl, &addr, &hello, &error);
  if (r == 0 && !(hello.features & FP_FEATURE_DRAIN))
    r = fp_fail (&error, -EOPNOTSUPP,
                 "this server is older than 0.2: upgrade it");
  sigaction (SIGINT, &sa, NULL);
  sigaction (SIGTERM, &sa, NULL);
  if (r == 0)
    r = ask (job, FP_DRAIN_LOOK, &error);
  job->began = r == 0 && !cancel && !job->now.drains;
  if (r == 0)
    r = ask (job, cancel ? FP_DRAIN_CANCEL : FP_DRAIN_BEGIN, &error);
  job->slab_size = hello.slab_size;
  job->slabs = left (job);
  job->begin_ms = now_ms ();
  if (r == 0 && !cancel)
    r = watch (job, &error);
  ask_end (job->ctl);
  return r < 0 ? say_error (COMMAND ": %s: %s", job->addr, error.text)
               : report (job, json);
}

int
servers_drain (int argc, char *argv[])
{
  struct job job = { .deadline_s = DEADLINE_S };
  bool json = false, cancel = false, limited = false;
  int c, status;

  optind = 0; /* start over, for a second command line */
  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, COMMAND, help, &status))
      return status;
    if (c == 'd' &&
        !parse_seconds (optarg, 1, SERVERS_DRAIN_MAX_S, &job.deadline_s))
      return say_usage (COMMAND, "--deadline: %s: not a time from 1s to 7d",
                        optarg);
    limited = limited || c == 'd';
    cancel = cancel || c == 'c';
    json = json || c == 'j';
  }
  if (cancel && limited)
    return say_usage (COMMAND, "--deadline or --cancel, not both");
  argv += optind;
  argc -= optind;
  status = pool_args (COMMAND, &argc, &argv);
  if (status != EXIT_SUCCESS)
    return status;
  if (argc != 1)
    return say_usage (COMMAND, "give the address of one memory server");
  job.addr = argv[0];
  return run (&job, cancel, json);
}
