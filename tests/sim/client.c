/* SPDX-License-Identifier: BSD-3-Clause */
/* client.c - see client.h. */

#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/log.h"
#include "sim/checker.h"
#include "sim/client.h"
#include "sim/donors.h"
#include "sim/faults.h"
#include "sim/net.h"
#include "sim/nic.h"
#include "sim/simulate.h"
#include "sim/threads.h"

#define FIRST_MACHINE 100u
#define MAX_THREADS 8u
#define MAX_LENGTH (96u << 10)
#define QUIET_MS 50u
#define FINAL_READ UINT64_C (64) /* blocks */
#define BURST 8u                 /* one pause in so many requests */

/* One process. */
struct process {
  unsigned index, host;
  bool takeover, stop, paused;
  enum client_state state;
  struct fp_volume *volume;
  struct fp_volume_params params;
};

static struct client_options options;
static struct process *processes[CLIENTS];
static bool quiet, made;
static int removes = -1; /* client_remove */
static uint64_t done, failed;
static unsigned under_way;

static void
must (bool ok, const char *what)
{
  if (ok)
    return;
  fprintf (stderr, "client: %s: %s\n", what, strerror (errno));
  abort ();
}

static void
pause_ms (unsigned ms)
{
  const struct timespec t = { .tv_sec = ms / 1000,
                              .tv_nsec = (long) (ms % 1000) * 1000000 };

  nanosleep (&t, NULL);
}

/* ---- requests ---- */

static const char *const kinds[] = { "read", "write", "zero", "trim" };

struct request {
  struct checked check;
  unsigned kind; /* index of `kinds` */
  uint64_t buf[MAX_LENGTH / sizeof (uint64_t)];
};

static int
do_request (struct fp_lane *lane, struct request *q)
{
  uint64_t offset = q->check.first * CHECKER_BLOCK;
  uint32_t length = (uint32_t) (q->check.nr * CHECKER_BLOCK);

  switch (q->kind) {
  case 0:
    return fp_lane_read (lane, q->buf, length, offset);
  case 1:
    return fp_lane_write (lane, q->buf, length, offset);
  default:
    return fp_lane_zero (lane, length, offset, q->kind == 3);
  }
}

/* Return true if another client has taken the volume over. */
static bool
is_fenced (const struct process *p)
{
  struct fp_volume_status s;

  fp_volume_status (p->volume, &s);
  return s.fenced;
}

/* Begin, do and check a request.  Return its status. */
static int
checked_request (const struct process *p, struct fp_lane *lane,
                 struct request *q, uint64_t first, uint64_t nr)
{
  uint64_t began_ns = sim_now_ns ();
  const char *why;
  int r;

  if (q->kind == 0)
    checker_begin_read (&q->check, first, nr);
  else if (q->kind == 1)
    checker_begin_write (&q->check, first, nr, q->buf);
  else
    checker_begin_zero (&q->check, first, nr);
  under_way++;
  trace ("%s %llu+%llu #%llu", kinds[q->kind], (unsigned long long) first,
         (unsigned long long) nr, (unsigned long long) q->check.number);
  r = do_request (lane, q);
  under_way--;
  trace ("%s %llu+%llu #%llu = %d", kinds[q->kind], (unsigned long long) first,
         (unsigned long long) nr, (unsigned long long) q->check.number, r);
  why = checker_end (&q->check, q->buf, r);
  done += r == 0;
  failed += r < 0;
  if (why != NULL)
    simulation_failed ("%s", why);
  if (r == 0 || !is_fenced (p))
    simulation_request_ended (kinds[q->kind], first, nr, r, began_ns);
  return r;
}

static void
choose (struct request *q, uint64_t *first, uint64_t *nr)
{
  uint64_t blocks = options.size / CHECKER_BLOCK;
  unsigned n = sim_dice (100);

  q->kind = n < 45 ? 0 : n < 93 ? 1 : n < 96 ? 2 : 3;
  *nr = 1 + sim_dice (sim_dice (8) == 0 ? MAX_LENGTH / CHECKER_BLOCK : 16);
  if (q->kind == 3 && sim_dice (2) == 0) {
    /* A whole extent goes back to its server. */
    *nr = DONORS_SLAB / CHECKER_BLOCK;
    *first = sim_dice ((unsigned) (blocks / *nr)) * *nr;
    return;
  }
  /* Half of the requests go to an eighth of the volume. */
  *first = sim_dice ((unsigned) (sim_dice (2) == 0 ? blocks / 8 : blocks));
  *nr = FP_MIN (*nr, blocks - *first);
}

static void
flush (const struct process *p, struct fp_lane *lane)
{
  uint64_t began_ns = sim_now_ns ();
  int r = fp_lane_flush (lane);

  if (r == 0 || !is_fenced (p))
    simulation_request_ended ("flush", 0, 0, r, began_ns);
}

static void *
work (void *arg)
{
  struct process *p = arg;
  struct fp_lane *lane = fp_volume_lane_get (p->volume);
  struct request *q = malloc (sizeof *q);

  must (q != NULL, "memory");
  while (!p->stop) {
    uint64_t first, nr;

    if (quiet) {
      pause_ms (QUIET_MS);
      p->stop |= is_fenced (p);
      continue;
    }
    choose (q, &first, &nr);
    if (checked_request (p, lane, q, first, nr) < 0 && is_fenced (p))
      p->stop = true; /* detach */
    if (sim_dice (64) == 0)
      flush (p, lane);
    if (sim_dice (BURST) == 0)
      pause_ms (sim_dice (options.pause_ms + 1));
  }
  free (q);
  fp_volume_lane_put (lane);
  return NULL;
}

uint64_t
client_read_all (unsigned i)
{
  struct process *p = processes[i];
  struct fp_lane *lane = fp_volume_lane_get (p->volume);
  struct request *q = malloc (sizeof *q);
  uint64_t blocks = options.size / CHECKER_BLOCK, lost = 0;

  must (q != NULL, "memory");
  q->kind = 0;
  client_enter (i);
  for (uint64_t at = 0; at < blocks; at += FINAL_READ)
    if (checked_request (p, lane, q, at, FP_MIN (FINAL_READ, blocks - at)) < 0)
      lost += FP_MIN (FINAL_READ, blocks - at);
  sim_host_enter (0);
  free (q);
  fp_volume_lane_put (lane);
  return lost;
}

void
client_fail_if_differ (struct fp_volume *v)
{
  struct fp_volume_status s;

  fp_volume_status (v, &s);
  if (s.check.all_differ > 0)
    simulation_failed ("%llu blocks of 64 KiB differ between copies, the "
                       "first at byte %llu",
                       (unsigned long long) s.check.all_differ,
                       (unsigned long long) (s.check.nr_offsets > 0
                                                 ? s.check.offsets[0]
                                                 : 0));
}

uint64_t
client_compare_all (unsigned i)
{
  struct fp_volume *v = processes[i]->volume;
  struct fp_volume_status s;
  struct fp_error error;
  int r;

  if (options.copies == 1)
    return 0;
  client_enter (i);
  /* One that is running may have begun before the copies were rebuilt. */
  (void) fp_volume_check_cancel (v, &error);
  while ((r = fp_volume_check (v, false, 0, &error)) == -EBUSY)
    pause_ms (QUIET_MS);
  if (r < 0)
    simulation_failed ("the last check does not begin: %s", error.text);
  do {
    pause_ms (QUIET_MS);
    fp_volume_status (v, &s);
  } while (s.check.state == FP_CHECK_RUNNING);
  if (s.check.state != FP_CHECK_DONE)
    simulation_failed ("the last check did not finish: %s", s.check.why);
  client_fail_if_differ (v);
  sim_host_enter (0);
  return s.check.skipped;
}

/* ---- a process ---- */

static void
set_params (struct process *p)
{
  struct fp_volume_params *v = &p->params;

  fp_volume_params_init (v);
  for (unsigned i = 0; i < donors_nr (); i++)
    if ((int) i == removes)
      v->remove[v->nr_remove++] = donor_addr (i);
    else
      v->servers[v->nr_servers++] = donor_addr (i);
  removes = -1;
  v->size = made ? 0 : options.size;
  v->copies = options.copies;
  snprintf (v->name, sizeof v->name, "vol");
  v->stripe.width = 1;
  v->transports = FP_TRANSPORT_RDMA;
  v->timeout_ms = CLIENT_TIMEOUT_MS;
  v->resync_delay_ms = 2000;
  v->poll_us = 0;
  v->lanes = 2;
  v->slots = 4;
  v->slot_size = 16 << 10;
  v->takeover = p->takeover;
  /* As an operator would, to get the volume back. */
  v->add = made;
  /* With degraded=true a server could be removed that does not answer. */
  v->degraded = made && options.degraded && v->nr_remove == 0;
}

static void
run_threads (struct process *p)
{
  pthread_t threads[MAX_THREADS];

  for (unsigned i = 0; i < options.threads; i++)
    must (pthread_create (&threads[i], NULL, work, p) == 0, "thread");
  for (unsigned i = 0; i < options.threads; i++)
    pthread_join (threads[i], NULL);
}

static void *
run (void *arg)
{
  struct process *p = arg;
  struct fp_error error = { "" };
  int r;

  set_params (p);
  r = fp_volume_probe (&p->params, &error);
  if (r == 0)
    r = fp_volume_start (&p->volume, &p->params, &error);
  trace ("attach = %d%s%s", r, r < 0 ? ": " : "", error.text);
  if (r == 0) {
    made = true;
    checker_attached (p->host);
    faults_trace_extents (p->volume);
    p->state = CLIENT_RUNNING;
    run_threads (p);
    p->state = CLIENT_ENDING;
    client_fail_if_differ (p->volume);
    fp_volume_stop (p->volume, false);
    trace ("detached");
  }
  net_kill (p->host, true);
  nic_kill (p->host, true);
  p->state = CLIENT_NONE;
  if (processes[p->index] == p)
    processes[p->index] = NULL;
  return NULL;
}

void
clients_init (const struct client_options *o)
{
  options = *o;
  checker_new (o->size / CHECKER_BLOCK);
}

void
client_start (unsigned i, bool takeover)
{
  struct process *p = calloc (1, sizeof *p);
  pthread_t thread;

  must (p != NULL && processes[i] == NULL, "start");
  p->index = i;
  p->host = sim_host_new ();
  p->takeover = takeover && made;
  p->state = CLIENT_ATTACHING;
  processes[i] = p;
  net_join (p->host, client_machine (i));
  /* A thread begins on the host of the one that creates it. */
  sim_host_enter (p->host);
  must (pthread_create (&thread, NULL, run, p) == 0 &&
            pthread_detach (thread) == 0,
        "thread");
  sim_host_enter (0);
}

void
client_remove (unsigned donor)
{
  removes = (int) donor;
}

void
client_stop (unsigned i)
{
  if (processes[i] != NULL)
    processes[i]->stop = true;
}

void
client_kill (unsigned i, bool power)
{
  struct process *p = processes[i];

  if (p == NULL)
    return;
  processes[i] = NULL;
  sim_host_kill (p->host);
  net_kill (p->host, power);
  nic_kill (p->host, power);
  under_way -= checker_abandon (p->host);
}

void
client_pause (unsigned i, bool pause)
{
  struct process *p = processes[i];

  if (p == NULL || p->paused == pause)
    return;
  p->paused = pause;
  if (pause)
    sim_host_stop (p->host);
  else
    sim_host_continue (p->host);
}

void
client_suspend (unsigned i)
{
  struct process *p = processes[i];

  if (p == NULL || p->paused)
    return;
  p->paused = true;
  sim_host_suspend (p->host);
}

void
clients_quiet (bool on)
{
  quiet = on;
}

enum client_state
client_state (unsigned i)
{
  const struct process *p = processes[i];

  if (p == NULL)
    return CLIENT_NONE;
  return p->state == CLIENT_RUNNING && p->stop ? CLIENT_ENDING : p->state;
}

bool
client_is_paused (unsigned i)
{
  return processes[i] != NULL && processes[i]->paused;
}

bool
client_is_fenced (unsigned i)
{
  return client_volume (i) != NULL && is_fenced (processes[i]);
}

unsigned
client_machine (unsigned i)
{
  return FIRST_MACHINE + i;
}

struct fp_volume *
client_volume (unsigned i)
{
  return client_state (i) == CLIENT_RUNNING ? processes[i]->volume : NULL;
}

void
client_enter (unsigned i)
{
  sim_host_enter (processes[i]->host);
}

uint64_t
clients_done (void)
{
  return done;
}

uint64_t
clients_failed (void)
{
  return failed;
}

unsigned
clients_under_way (void)
{
  return under_way;
}
