/* SPDX-License-Identifier: BSD-3-Clause */
/* faults.c - see faults.h. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

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
  MOVE,   /* drain, asked for by the client */
  REMOVE, /* as MOVE; then the next client leaves the donor out */
  STARVE, /* no memory for the RDMA card */
  DATE,   /* the time of day is set */
  /* faults of the client, and of all */
  CUT_ALL,
  WEATHER,
  CHECK,
  CLIENT_KILL,
  CLIENT_POWER,
  CLIENT_PAUSE,
  CLIENT_SUSPEND,
  CLIENT_STARVE,
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
  [POWER] = { "donor loses power", 3, 30000, true, true },
  [RESTART] = { "donor restarted", 4, 5000, false, true },
  [LEAVE] = { "donor leaves", 2, 30000, false, true },
  [PAUSE] = { "donor paused", 6, 15000, false, true },
  [CUT] = { "donor cut off", 10, 20000, false, true },
  [PRESS] = { "donor under memory pressure", 4, 20000, false, true },
  [DRAIN] = { "donor drained by admin", 3, 20000, false, true },
  [RESET] = { "connections reset", 6, 0, false, true },
  [RESET_DATA] = { "queue pairs reset", 6, 0, false, true },
  [RESET_CONTROL] = { "streams reset", 6, 0, false, true },
  [MOVE] = { "donor drained by client", 4, 20000, false, true },
  [REMOVE] = { "donor removed", 4, 15000, false, true },
  [STARVE] = { "donor out of RDMA memory", 3, 10000, false, true },
  [DATE] = { "donor clock jumps", 2, 0, false, true },
  [CUT_ALL] = { "clients cut off", 4, 4000, false, false },
  [WEATHER] = { "slow network", 6, 10000, false, false },
  [CHECK] = { "copies compared", 2, 0, false, false },
  [CLIENT_KILL] = { "client killed", 4, 0, false, false },
  [CLIENT_POWER] = { "client loses power", 2, 0, false, false },
  [CLIENT_PAUSE] = { "client paused", 5, 8000, false, false },
  [CLIENT_SUSPEND] = { "client suspended", 3, 20000, false, false },
  [CLIENT_STARVE] = { "client out of RDMA memory", 3, 10000, false, false },
  [CLIENT_STOP] = { "client detached", 2, 0, false, false },
  [TAKEOVER] = { "takeover", 2, 0, false, false },
};

#define MAX_ACTIVE 16u
/* Longest time without a client, if data may be lost. */
#define GIVE_UP_S 300u
#define DAY_S 86400
#define START_MS 2000u /* between two starts of a client */

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

/* Enter the host of the client that has the volume, and return the volume;
 * NULL if no client has it.  Call leave_volume in either case.
 */
static struct fp_volume *
enter_volume (void)
{
  unsigned i = holder ();

  /* The client may have ended meanwhile. */
  if (i == CLIENTS || client_volume (i) == NULL)
    return NULL;
  client_enter (i);
  return client_volume (i);
}

static void
leave_volume (void)
{
  sim_host_enter (0);
}

static bool
has_its_copies (struct fp_extents *t, uint64_t i, bool lossy)
{
  uint8_t in_sync = fp_copies_in_sync (t, i);

  if (in_sync == 0)
    return true; /* no such extent */
  if (fp_copies_are_lost (t, i, in_sync))
    return lossy;
  for (unsigned c = 0; c < t->copies; c++)
    if (!(in_sync >> c & 1) ||
        fp_extent_state (fp_copies_get (t, i, c)) != FP_EXTENT_READY)
      return false;
  return true;
}

/* Return true if a running donor has the UUID that v knows for server i.  v
 * may not have noticed yet that the donor lost its memory.
 */
static bool
is_there (struct fp_volume *v, unsigned i)
{
  struct fp_uuid uuid;

  return fp_peer_server (v->peers.at[i], &uuid) && donors_have (&uuid);
}

/* Return true if v is whole.  lossy: as faults_whole says. */
static bool
is_whole (struct fp_volume *v, bool lossy)
{
  struct fp_volume_status s;

  fp_volume_status (v, &s);
  if (s.fenced)
    return false;
  /* A frozen volume gets no copies. */
  if (s.frozen)
    return lossy;
  for (uint64_t i = 0; i < v->extents->nr; i++)
    if (!has_its_copies (v->extents, i, lossy))
      return false;
  for (unsigned i = 0; i < s.nr_servers; i++) {
    struct fp_server_status server;

    fp_volume_server_status (v, i, &server);
    if (server.gone || (lossy && server.state == FP_SERVER_LOST))
      continue;
    if (server.state != FP_SERVER_UP || !server.current || !is_there (v, i))
      return false;
  }
  return true;
}

bool
faults_whole (bool lossy)
{
  struct fp_volume *v = enter_volume ();
  bool whole = v != NULL && is_whole (v, lossy);

  leave_volume ();
  return whole;
}

/* Return the number of the member of v that the donor is now, or -1. */
static int
member_of (struct fp_volume *v, unsigned donor)
{
  const struct fp_addr addr = donor_addr (donor);
  char text[FP_ADDR_MAX + 1];
  struct fp_volume_status s;

  fp_addr_format (&addr, text);
  fp_volume_status (v, &s);
  for (unsigned i = 0; i < s.nr_servers; i++) {
    struct fp_server_status server;

    fp_volume_server_status (v, i, &server);
    /* One that lost its memory has joined as another member. */
    if (!server.gone && strcmp (server.addr, text) == 0)
      return (int) i;
  }
  return -1;
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

static void
trace_volume (struct fp_volume *v)
{
  struct fp_volume_status s;

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

void
faults_trace_state (void)
{
  struct fp_volume *v;

  for (unsigned i = 0; i < CLIENTS; i++)
    trace ("client %u: state %d%s", i, (int) client_state (i),
           client_is_paused (i) ? ", paused" : "");
  v = enter_volume ();
  if (v != NULL)
    trace_volume (v);
  leave_volume ();
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
cut_donor (unsigned donor, bool cut)
{
  for (unsigned i = 0; i < CLIENTS; i++)
    net_cut (client_machine (i), donor_machine (donor), cut);
}

/* Begin a check, or a drain by the client.  Return true if it began. */
static bool
request_from_holder (const struct active *a)
{
  struct fp_volume *v = enter_volume ();
  struct fp_error error;
  int member, r = -ENOENT;

  if (v != NULL && a->kind == CHECK)
    r = fp_volume_check (v, sim_dice (2), 0, &error);
  else if (v != NULL) {
    member = member_of (v, a->donor);
    if (member >= 0)
      r = fp_volume_drain (v, (unsigned) member, 0, &error);
  }
  leave_volume ();
  return r == 0;
}

static void
undrain (unsigned donor)
{
  struct fp_volume *v = enter_volume ();
  struct fp_error error;
  int member = v != NULL ? member_of (v, donor) : -1;

  if (member >= 0)
    (void) fp_volume_drain_cancel (v, (unsigned) member, &error);
  leave_volume ();
}

static void
cut_client (unsigned client, bool cut)
{
  for (unsigned i = 0; i < donors_nr (); i++)
    net_cut (client_machine (client), donor_machine (i), cut);
}

static bool
begin (const struct active *a)
{
  unsigned d = a->donor, c = a->client;

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
    cut_donor (d, true);
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
  case REMOVE:
  case CHECK:
    return request_from_holder (a);
  case STARVE:
    nic_starve (donor_machine (d), true);
    return true;
  case DATE:
    donor_date (d, (int64_t) sim_dice (2 * DAY_S) - DAY_S);
    return true;
  case CUT_ALL:
    for (unsigned i = 0; i < donors_nr (); i++)
      cut_donor (i, true);
    return true;
  case WEATHER:
    net_weather (1 + sim_dice (1000),
                 1 + sim_dice (mode == FAULTS_GENTLE ? 100 : 2000));
    return true;
  case CLIENT_KILL:
  case CLIENT_POWER:
    client_kill (c, a->kind == CLIENT_KILL);
    return true;
  case CLIENT_PAUSE:
    client_pause (c, true);
    return true;
  case CLIENT_SUSPEND:
    cut_client (c, true);
    client_suspend (c);
    return true;
  case CLIENT_STARVE:
    nic_starve (client_machine (c), true);
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

/* Let the next client do without the server, which should be empty by now. */
static void
remove_server (unsigned donor)
{
  unsigned i = holder ();

  /* A client that ends attaches again only if enough servers are there. */
  if (i == CLIENTS ||
      (mode == FAULTS_GENTLE && (nr_active > 1 || !faults_whole (false)))) {
    undrain (donor);
    return;
  }
  client_remove (donor);
  client_stop (i);
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
    cut_donor (a->donor, false);
    break;
  case PRESS:
    donor_press (a->donor, false);
    break;
  case DRAIN:
    donor_drain (a->donor, false);
    break;
  case MOVE:
    undrain (a->donor);
    break;
  case REMOVE:
    remove_server (a->donor);
    break;
  case STARVE:
    nic_starve (donor_machine (a->donor), false);
    break;
  case CUT_ALL:
    for (unsigned i = 0; i < donors_nr (); i++)
      cut_donor (i, false);
    break;
  case WEATHER:
    net_weather (0, 0);
    break;
  case CLIENT_SUSPEND:
    cut_client (a->client, false);
    client_pause (a->client, false);
    break;
  case CLIENT_PAUSE:
    client_pause (a->client, false);
    break;
  case CLIENT_STARVE:
    nic_starve (client_machine (a->client), false);
    break;
  default:
    break;
  }
}

/* ---- steps ---- */

static bool
may_draw (enum kind kind)
{
  if (kinds[kind].loses && mode == FAULTS_DURABLE)
    return false;
  /* A client that reaches no server, or was stopped, gives requests up. */
  return mode != FAULTS_GENTLE ||
         (kind != CUT_ALL && kind != CLIENT_PAUSE && kind != CLIENT_SUSPEND);
}

static enum kind
draw (void)
{
  unsigned all = 0, n;

  for (unsigned k = 0; k < KINDS; k++)
    all += may_draw (k) ? kinds[k].weight : 0;
  n = sim_dice (all);
  for (unsigned k = 0;; k++) {
    unsigned weight = may_draw (k) ? kinds[k].weight : 0;

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
            faults_whole (false));
  }
  /* The servers that are there do not always let a client attach: the others
   * could have gone on without them (docs/FAILURES.md).
   */
  if (mode == FAULTS_GENTLE && ends_client (a->kind) &&
      (affected > 0 || !faults_whole (false)))
    return false;
  switch (a->kind) {
  case CUT_ALL:
    return client_state (a->client) != CLIENT_NONE;
  case CLIENT_PAUSE:
  case CLIENT_SUSPEND:
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
faults_lossy (void)
{
  return mode == FAULTS_HARSH && lost_memory;
}

bool
faults_no_client (void)
{
  return faults_lossy () &&
         sim_now_ns () - attached_ns > GIVE_UP_S * FP_NS_PER_S;
}

void
faults_restart_patience (void)
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

/* Note in the trace when extents become lost, or are found again.  Look at
 * what checks have found.
 */
static void
watch (void)
{
  static uint64_t last;
  struct fp_volume *v = enter_volume ();
  struct fp_volume_status s;

  if (v != NULL) {
    client_fail_if_differ (v);
    fp_volume_status (v, &s);
    if (s.extents_lost != last)
      trace_volume (v);
    last = s.extents_lost;
  }
  leave_volume ();
}

void
faults_pass (void)
{
  end_those_over (false);
  keep_client ();
  watch ();
}

static unsigned
victim (void)
{
  unsigned i = holder ();

  return i < CLIENTS ? i : sim_dice (CLIENTS);
}

/* Begin a, which lasts for ms.  Return true if it could. */
static bool
begin_for (struct active *a, unsigned ms)
{
  if (nr_active == MAX_ACTIVE)
    return false;
  trace ("fault: %s %u", kinds[a->kind].name,
         kinds[a->kind].of_donor ? a->donor : a->client);
  if (!begin (a))
    return false;
  counts[a->kind]++;
  lost_memory |= kinds[a->kind].loses;
  if (kinds[a->kind].ms > 0) {
    a->ends_ns = sim_now_ns () + ms * FP_NS_PER_MS;
    active[nr_active++] = *a;
  }
  return true;
}

bool
faults_step (void)
{
  struct active a = { .kind = draw (), .donor = sim_dice (donors_nr ()) };

  faults_pass ();
  a.client = victim ();
  if (sim_dice (2) == 0 || !may_begin (&a))
    return false;
  return begin_for (&a, 1 + sim_dice (kinds[a.kind].ms + 1));
}

int
faults_find (const char *name, bool *of_donor)
{
  for (unsigned k = 0; k < KINDS; k++)
    if (strcmp (name, kinds[k].name) == 0) {
      *of_donor = kinds[k].of_donor;
      return (int) k;
    }
  return -1;
}

const char *
faults_name (int kind)
{
  return kinds[kind].name;
}

bool
faults_begin (int kind, unsigned donor, unsigned ms)
{
  struct active a = { .kind = (enum kind) kind, .donor = donor };

  a.client = victim ();
  /* A fault needs its donor up, or a client. */
  if (kinds[a.kind].of_donor ? !donor_is_up (donor)
                             : client_state (a.client) == CLIENT_NONE)
    return false;
  if (a.kind == TAKEOVER && client_state (!a.client) != CLIENT_NONE)
    return false;
  return begin_for (&a, ms);
}

unsigned
faults_active (void)
{
  return nr_active;
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
