/* SPDX-License-Identifier: BSD-3-Clause */
/* faults.c - see faults.h. */

#include <config.h>

#include <stdio.h>

#include "base/checked.h"
#include "base/clock.h"
#include "sim/client.h"
#include "sim/donors.h"
#include "sim/faults.h"
#include "sim/net.h"
#include "sim/nic.h"
#include "sim/simulate.h"
#include "sim/threads.h"
#include "extent/copies.h"
#include "extent/recorded.h"
#include "volume/volume_int.h"

const char *const faults_modes[] = {
  [FAULTS_GENTLE] = "gentle",
  [FAULTS_DURABLE] = "durable",
  [FAULTS_HARSH] = "harsh",
};

enum kind {
  /* faults of a donor */
  KILL,    /* the process; the next one takes up its memory */
  EMPTY,   /* the process, and its memory */
  POWER,   /* the machine, and its memory */
  RESTART, /* an orderly end */
  LEAVE,   /* an orderly end, after a drain */
  PAUSE,   /* SIGSTOP */
  CUT,     /* from the client */
  PRESS,   /* the host is short of memory */
  DRAIN,   /* asked for by its administrator */
  RESET,   /* all its connections */
  RESET_DATA,
  RESET_CONTROL,
  MOVE, /* drain, asked for by the client */
  /* faults of the client, and of all */
  CUT_ALL,
  WEATHER,
  CHECK,
  CLIENT_KILL,
  CLIENT_POWER,
  CLIENT_PAUSE,
  CLIENT_STOP,
  TAKEOVER,
  KINDS
};

static const struct {
  const char *name;
  unsigned weight;
  unsigned ms; /* longest; 0: it is over at once */
  bool loses;  /* memory */
  bool of_donor;
} kinds[KINDS] = {
  [KILL] = { "donor killed", 8, 20000, false, true },
  [EMPTY] = { "donor killed and emptied", 4, 20000, true, true },
  [POWER] = { "donor off", 3, 30000, true, true },
  [RESTART] = { "donor restarted", 4, 5000, false, true },
  [LEAVE] = { "donor stopped", 2, 30000, false, true },
  [PAUSE] = { "donor paused", 6, 15000, false, true },
  [CUT] = { "donor cut off", 10, 20000, false, true },
  [PRESS] = { "donor short of memory", 4, 20000, false, true },
  [DRAIN] = { "donor drained", 3, 20000, false, true },
  [RESET] = { "connections reset", 6, 0, false, true },
  [RESET_DATA] = { "queue pairs reset", 6, 0, false, true },
  [RESET_CONTROL] = { "streams reset", 6, 0, false, true },
  [MOVE] = { "server drained", 4, 20000, false, true },
  [CUT_ALL] = { "client cut off", 4, 4000, false, false },
  [WEATHER] = { "slow network", 6, 10000, false, false },
  [CHECK] = { "check", 2, 0, false, false },
  [CLIENT_KILL] = { "client killed", 4, 0, false, false },
  [CLIENT_POWER] = { "client off", 2, 0, false, false },
  [CLIENT_PAUSE] = { "client paused", 5, 8000, false, false },
  [CLIENT_STOP] = { "client detached", 2, 0, false, false },
  [TAKEOVER] = { "takeover", 2, 0, false, false },
};

#define MAX_ACTIVE 16u
/* Longest time without a client, if data may be lost. */
#define GIVE_UP_S 300u
#define START_MS 500u /* between two starts of a client */

static struct active {
  enum kind kind;
  unsigned donor, client;
  uint64_t ends_ns;
} active[MAX_ACTIVE];
static unsigned nr_active;

static enum faults_mode mode;
static unsigned copies, counts[KINDS];
static uint64_t start_ns;    /* no client is started before that */
static uint64_t attached_ns; /* when a client had the volume last */
static bool lost_memory;     /* some fault has lost memory */

void
faults_init (enum faults_mode m, unsigned nr_copies)
{
  mode = m;
  copies = nr_copies;
  attached_ns = sim_now_ns ();
}

/* ---- the state of the world ---- */

/* Return the client that has the volume, or CLIENTS. */
static unsigned
holder (void)
{
  for (unsigned i = 0; i < CLIENTS; i++)
    if (client_volume (i) != NULL && !client_is_paused (i) &&
        !client_is_fenced (i))
      return i;
  return CLIENTS;
}

static struct fp_volume *
volume (void)
{
  unsigned i = holder ();

  return i < CLIENTS ? client_volume (i) : NULL;
}

bool
faults_whole (void)
{
  struct fp_volume *v = volume ();
  struct fp_volume_status s;

  if (v == NULL)
    return false;
  fp_volume_status (v, &s);
  if (s.fenced || s.frozen || s.extents_degraded > 0 || s.extents_lost > 0)
    return false;
  for (unsigned i = 0; i < s.nr_servers; i++) {
    struct fp_server_status server;

    fp_volume_server_status (v, i, &server);
    if (!server.gone && (server.state != FP_SERVER_UP || !server.current))
      return false;
  }
  return true;
}

void
faults_trace_extents (struct fp_volume *v)
{
  struct fp_extents *t = v->extents;
  static const char states[] = "-RBFOL";

  for (uint64_t i = 0; i < t->nr; i++) {
    char text[256];
    int n = 0;

    for (unsigned c = 0; c < t->copies; c++) {
      struct fp_extent *p = fp_copies_get (t, i, c);

      n += snprintf (
          text + n, sizeof text - (size_t) n, " %c%s%s%s%s %u/%llu.%llu;",
          states[fp_extent_state (p)],
          fp_copies_in_sync (t, i) >> c & 1 ? "s" : "",
          fp_recorded_has (&v->recorded, fp_copies_entry (t, i, c)) ? "r" : "",
          atomic_load (&p->doubt) ? "d" : "", atomic_load (&p->bad) ? "b" : "",
          atomic_load (&p->server), (unsigned long long) p->copy.slab,
          (unsigned long long) p->copy.generation);
    }
    trace ("extent %llu:%s", (unsigned long long) i, text);
  }
}

void
faults_trace_state (void)
{
  struct fp_volume *v = volume ();
  struct fp_volume_status s;

  for (unsigned i = 0; i < CLIENTS; i++)
    trace ("client %u: state %d%s", i, (int) client_state (i),
           client_is_paused (i) ? ", paused" : "");
  if (v == NULL)
    return;
  fp_volume_status (v, &s);
  trace ("volume: %s%s%llu degraded, %llu lost, %llu to resync, list %llu",
         s.fenced ? "fenced, " : "", s.frozen ? "frozen, " : "",
         (unsigned long long) s.extents_degraded,
         (unsigned long long) s.extents_lost,
         (unsigned long long) s.bytes_to_resync,
         (unsigned long long) s.members_version);
  for (unsigned i = 0; i < s.nr_servers; i++) {
    struct fp_server_status server;

    fp_volume_server_status (v, i, &server);
    trace ("server %u: state %d%s%s%s, %llu extents, %llu free, drain %d: %s; "
           "%s; %s",
           i, (int) server.state, server.current ? ", current" : "",
           server.joining ? ", joining" : "", server.gone ? ", gone" : "",
           (unsigned long long) server.extents,
           (unsigned long long) server.slabs_free, (int) server.drain.state,
           server.drain.why, server.reclaim.why, server.why);
  }
  faults_trace_extents (v);
}

static bool
is_affected (unsigned donor)
{
  for (unsigned i = 0; i < nr_active; i++)
    if (kinds[active[i].kind].of_donor && active[i].donor == donor)
      return true;
  return false;
}

/* ---- begin and end ---- */

static void
cut_clients (unsigned donor, bool cut)
{
  for (unsigned i = 0; i < CLIENTS; i++)
    net_cut (client_machine (i), donor_machine (donor), cut);
}

static bool
begin (const struct active *a)
{
  unsigned d = a->donor, c = a->client;
  struct fp_volume *v = volume ();
  struct fp_error error;

  switch (a->kind) {
  case KILL:
  case EMPTY:
    donor_kill (d, true);
    return true;
  case POWER:
    donor_kill (d, false);
    return true;
  case RESTART:
  case LEAVE:
    donor_stop (d, a->kind == LEAVE);
    return true;
  case PAUSE:
    sim_host_stop (donor_host (d));
    return true;
  case CUT:
    cut_clients (d, true);
    return true;
  case PRESS:
    donor_press (d, true);
    return true;
  case DRAIN:
    donor_drain (d, true);
    return true;
  case RESET:
  case RESET_DATA:
  case RESET_CONTROL:
    for (unsigned i = 0; i < CLIENTS; i++) {
      if (a->kind != RESET_DATA)
        net_reset (client_machine (i), donor_machine (d));
      if (a->kind != RESET_CONTROL)
        nic_reset (client_machine (i), donor_machine (d));
    }
    return true;
  case MOVE:
    return v != NULL && fp_volume_drain (v, d, 0, &error) == 0;
  case CUT_ALL:
    for (unsigned i = 0; i < donors_nr (); i++)
      cut_clients (i, true);
    return true;
  case WEATHER:
    net_weather (1 + sim_dice (1000),
                 1 + sim_dice (mode == FAULTS_GENTLE ? 100 : 2000));
    return true;
  case CHECK:
    return v != NULL && fp_volume_check (v, sim_dice (2), 0, &error) == 0;
  case CLIENT_KILL:
  case CLIENT_POWER:
    client_kill (c, a->kind == CLIENT_KILL);
    return true;
  case CLIENT_PAUSE:
    client_pause (c, true);
    return true;
  case CLIENT_STOP:
    client_stop (c);
    return true;
  case TAKEOVER:
    client_start (!c, true);
    return true;
  case KINDS:
    break;
  }
  return false;
}

static void
start_donor (const struct active *a)
{
  if (!donor_is_up (a->donor))
    donor_start (a->donor, !kinds[a->kind].loses);
}

static void
end (const struct active *a)
{
  struct fp_volume *v = volume ();
  struct fp_error error;

  trace ("over: %s %u", kinds[a->kind].name,
         kinds[a->kind].of_donor ? a->donor : a->client);
  switch (a->kind) {
  case KILL:
  case EMPTY:
  case POWER:
    start_donor (a);
    break;
  case RESTART:
  case LEAVE:
    /* If it has not ended by now, it is killed. */
    donor_kill (a->donor, true);
    start_donor (a);
    break;
  case PAUSE:
    sim_host_continue (donor_host (a->donor));
    break;
  case CUT:
    cut_clients (a->donor, false);
    break;
  case PRESS:
    donor_press (a->donor, false);
    break;
  case DRAIN:
    donor_drain (a->donor, false);
    break;
  case MOVE:
    if (v != NULL)
      (void) fp_volume_drain_cancel (v, a->donor, &error);
    break;
  case CUT_ALL:
    for (unsigned i = 0; i < donors_nr (); i++)
      cut_clients (i, false);
    break;
  case WEATHER:
    net_weather (0, 0);
    break;
  case CLIENT_PAUSE:
    client_pause (a->client, false);
    break;
  default:
    break;
  }
}

/* ---- steps ---- */

static bool
has_weight (enum kind kind)
{
  if (kinds[kind].loses && mode == FAULTS_DURABLE)
    return false;
  /* A client that reaches no server, or was stopped, gives requests up.  So
   * does one whose trim a stopped memory server does not answer.
   */
  return mode != FAULTS_GENTLE ||
         (kind != CUT_ALL && kind != CLIENT_PAUSE && kind != PAUSE);
}

static enum kind
draw (void)
{
  unsigned all = 0, n;

  for (unsigned k = 0; k < KINDS; k++)
    all += has_weight (k) ? kinds[k].weight : 0;
  n = sim_dice (all);
  for (unsigned k = 0;; k++) {
    unsigned weight = has_weight (k) ? kinds[k].weight : 0;

    if (n < weight)
      return k;
    n -= weight;
  }
}

static bool
ends_client (enum kind kind)
{
  return kind == CLIENT_KILL || kind == CLIENT_POWER || kind == CLIENT_STOP ||
         kind == TAKEOVER;
}

/* Return true if a may begin in this mode and this state of the world. */
static bool
may_begin (const struct active *a)
{
  unsigned affected = 0;

  for (unsigned i = 0; i < nr_active; i++) {
    if (active[i].kind == a->kind && !kinds[a->kind].of_donor)
      return false;
    affected += kinds[active[i].kind].of_donor;
  }
  if (kinds[a->kind].of_donor) {
    if (!donor_is_up (a->donor) || is_affected (a->donor))
      return false;
    /* A client attaches while more than half of the servers are there. */
    return mode != FAULTS_GENTLE ||
           (affected + 1 < copies && affected < (donors_nr () - 1) / 2 &&
            faults_whole ());
  }
  /* The servers that are there do not always let a client attach: the others
   * could have gone on without them (docs/FAILURES.md).
   */
  if (mode == FAULTS_GENTLE && ends_client (a->kind) &&
      (affected > 0 || !faults_whole ()))
    return false;
  switch (a->kind) {
  case CUT_ALL:
  case CLIENT_PAUSE:
    return client_state (a->client) != CLIENT_NONE;
  case CLIENT_KILL:
  case CLIENT_POWER:
    return client_state (a->client) != CLIENT_NONE &&
           !client_is_paused (a->client);
  case CLIENT_STOP:
    return client_volume (a->client) != NULL && !client_is_paused (a->client);
  case TAKEOVER:
    return client_volume (a->client) != NULL &&
           client_state (!a->client) == CLIENT_NONE;
  default:
    return true;
  }
}

bool
faults_no_client (void)
{
  return mode == FAULTS_HARSH && lost_memory &&
         sim_now_ns () - attached_ns > GIVE_UP_S * FP_NS_PER_S;
}

void
faults_await_client (void)
{
  attached_ns = sim_now_ns ();
}

/* Start a client if there is none. */
static void
keep_client (void)
{
  uint64_t now = sim_now_ns ();

  for (unsigned i = 0; i < CLIENTS; i++)
    if (client_volume (i) != NULL)
      attached_ns = now;
  for (unsigned i = 0; i < CLIENTS; i++)
    if (client_state (i) != CLIENT_NONE) {
      start_ns = now + START_MS * FP_NS_PER_MS;
      return;
    }
  if (now >= start_ns)
    client_start (sim_dice (CLIENTS), sim_dice (4) == 0);
}

static void
end_those_over (bool all)
{
  uint64_t now = sim_now_ns ();
  unsigned kept = 0;

  for (unsigned i = 0; i < nr_active; i++)
    if (all || active[i].ends_ns <= now)
      end (&active[i]);
    else
      active[kept++] = active[i];
  nr_active = kept;
}

/* Note in the trace when extents become lost, or are found again. */
static void
watch_lost (void)
{
  static uint64_t last;
  struct fp_volume *v = volume ();
  struct fp_volume_status s;

  if (v == NULL)
    return;
  fp_volume_status (v, &s);
  if (s.extents_lost != last)
    faults_trace_state ();
  last = s.extents_lost;
}

bool
faults_step (void)
{
  struct active a = { .kind = draw (), .donor = sim_dice (donors_nr ()) };

  end_those_over (false);
  keep_client ();
  watch_lost ();
  a.client = holder ();
  if (a.client == CLIENTS)
    a.client = sim_dice (CLIENTS);
  if (sim_dice (2) == 0 || nr_active == MAX_ACTIVE || !may_begin (&a))
    return false;
  trace ("fault: %s %u", kinds[a.kind].name,
         kinds[a.kind].of_donor ? a.donor : a.client);
  if (!begin (&a))
    return false;
  counts[a.kind]++;
  lost_memory |= kinds[a.kind].loses;
  if (kinds[a.kind].ms > 0) {
    a.ends_ns =
        sim_now_ns () + (1 + sim_dice (kinds[a.kind].ms)) * FP_NS_PER_MS;
    active[nr_active++] = a;
  }
  return true;
}

void
faults_end (void)
{
  end_those_over (true);
  keep_client ();
  for (unsigned i = 0; i < donors_nr (); i++)
    if (!donor_is_up (i))
      donor_start (i, true);
}

void
faults_print (void)
{
  for (unsigned k = 0; k < KINDS; k++)
    if (counts[k] > 0)
      printf ("%8u %s\n", counts[k], kinds[k].name);
}
