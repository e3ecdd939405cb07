/* SPDX-License-Identifier: BSD-3-Clause */
/* pressure.c - watch how short of memory this host is, and act on it: the
 * donor comes first.
 */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "memserver/event_loop.h"
#include "memserver/options.h"
#include "memserver/pool/host.h"
#include "memserver/pool/pool.h"
#include "memserver/pressure.h"
#include "memserver/server.h"

#define TICK_MS 250
#define WINDOW_US 1000000 /* PSI window */
#define STALL_US 100000   /* stall in the window that counts as pressure */
#define UNPRIVILEGED_WINDOW_US 2000000
#define REMIND_S 60

struct pressure {
  struct server *server;
  struct pressure_rules rules;
  struct pressure_state state;
  uint64_t given;       /* pool_counts.given when the pressure began */
  uint64_t asked_ns;    /* start of asking clients; 0: none is asked */
  uint64_t reminder_ns; /* time of the next reminder in the log */

  struct event *tick;

  /* PSI: stall counter at the start of the window, and the last result. */
  bool counts;
  uint64_t window_ns, window_us;
  bool stalled;
  int trigger, epoll; /* -1: none */
  struct event *on_trigger;
};

/* ---- the decision ---- */

uint64_t
pressure_margin (const struct pressure_rules *rules)
{
  return FP_MAX (rules->slab, rules->reserve / 8);
}

/* Return how many slabs would fill up available memory to target, not counting
 * those that are on their way to the host already.
 */
static uint64_t
missing (uint64_t target, const struct pressure_sample *s, uint64_t slab)
{
  uint64_t n;

  if (s->available >= target)
    return 0;
  n = (target - s->available - 1) / slab + 1;
  return n > s->going ? n - s->going : 0;
}

struct pressure_verdict
pressure_decide (struct pressure_state *state,
                 const struct pressure_rules *rules,
                 const struct pressure_sample *s)
{
  uint64_t enough = rules->reserve + pressure_margin (rules);
  bool tight = s->stalled && s->available / 2 < rules->reserve;
  struct pressure_verdict v = { .shed = 0 };
  uint64_t shed, wanted;

  if (s->available < rules->reserve || tight) {
    state->pressed = true;
    state->calm_ns = 0;
  }
  else if (s->available < enough)
    state->calm_ns = 0;
  else if (state->pressed) {
    if (state->calm_ns == 0)
      state->calm_ns = s->now_ns;
    if (s->now_ns - state->calm_ns >= PRESSURE_CALM_S * FP_NS_PER_S)
      state->pressed = false;
  }
  if (!state->pressed)
    return v;

  shed = missing (enough, s, rules->slab);
  wanted = missing (rules->reserve, s, rules->slab);
  if (tight && s->going == 0) {
    /* Give back one slab at a time, as long as the stall lasts. */
    shed = FP_MAX (shed, UINT64_C (1));
    wanted = FP_MAX (wanted, UINT64_C (1));
  }
  v.shed = (uint32_t) FP_MIN (shed, (uint64_t) s->free);
  wanted -= FP_MIN (wanted, (uint64_t) v.shed);
  v.wanted = (uint32_t) FP_MIN (wanted, (uint64_t) s->lent);
  v.wanted = FP_MIN (v.wanted, (uint32_t) PRESSURE_BATCH);
  return v;
}

/* ---- log messages ---- */

static unsigned long long
mib (uint64_t bytes)
{
  return bytes >> 20;
}

static void
say_change (struct pressure *p, uint64_t available)
{
  static struct fp_log_limit begins, ends;
  struct pool_counts c = pool_count (p->server->pool);

  if (p->state.pressed)
    fp_log_limited (&begins, FP_LOG_WARN,
                    "this host is short of memory: %llu MiB available, and "
                    "%llu MiB are reserved for it%s: lending stops, and free "
                    "slabs go back to the host",
                    mib (available), mib (p->rules.reserve),
                    p->stalled ? ", and tasks wait for memory" : "");
  else
    fp_log_limited (&ends, FP_LOG_INFO,
                    "this host has memory again: %llu MiB available; %llu "
                    "slabs were given back to it; lending resumes",
                    mib (available),
                    (unsigned long long) (c.given - p->given));
}

/* Log that clients are asked for slabs.  Nothing is taken by force. */
static void
say_wanted (struct pressure *p, uint32_t wanted)
{
  static struct fp_log_limit limit;
  uint64_t now = fp_now_ns ();

  if (wanted == 0) {
    p->asked_ns = 0;
    return;
  }
  if (p->asked_ns == 0) {
    p->asked_ns = now;
    p->reminder_ns = now + REMIND_S * FP_NS_PER_S;
    fp_log_limited (&limit, FP_LOG_INFO,
                    "clients are asked to move %u slabs to other servers, "
                    "within %d s if they can",
                    wanted, REMIND_S);
  }
  else if (fp_deadline_passed (p->reminder_ns)) {
    /* Remind after 1, 2, 4, ...  minutes. */
    p->reminder_ns = now + (now - p->asked_ns);
    fp_log (FP_LOG_WARN,
            "clients were asked for memory %llu s ago, and this host still "
            "needs %u slabs: the clients have no room elsewhere, or did not "
            "get the request",
            (unsigned long long) ((now - p->asked_ns) / FP_NS_PER_S), wanted);
  }
}

/* ---- observation ---- */

static void
look_at_stalls (struct pressure *p)
{
  uint64_t now = fp_now_ns (), total;

  if (!p->counts || now - p->window_ns < WINDOW_US * UINT64_C (1000))
    return;
  if (host_stalled_us (&total) < 0)
    total = p->window_us;
  p->stalled = total > p->window_us &&
               total - p->window_us >=
                   (now - p->window_ns) / 1000 / (WINDOW_US / STALL_US);
  p->window_ns = now;
  p->window_us = total;
}

/* Forget orphans until at least `wanted` slabs went back.  Return their
 * number.
 */
static uint32_t
reclaim (struct pressure *p, uint32_t wanted)
{
  uint32_t back = 0;
  int r = 0;

  while (r >= 0 && back < wanted) {
    r = records_reclaim (&p->server->records, NULL, RECLAIM_ORDINARY);
    if (r > 0)
      back += (uint32_t) r;
  }
  return back;
}

static void
look (struct pressure *p)
{
  struct server *srv = p->server;
  struct pool_counts c = pool_count (srv->pool);
  struct pressure_sample sample = {
    .now_ns = fp_now_ns (),
    .stalled = p->stalled,
    .free = c.ordinary[SLAB_FREE],
    .going = p->state.pressed ? c.ordinary[SLAB_SCRUBBING] : 0,
    .lent = c.ordinary[SLAB_LENT],
  };
  struct host_memory memory;
  struct pressure_verdict v;
  bool before = p->state.pressed;

  if (host_memory (&memory, srv->options->numa) < 0)
    return; /* unknown: change nothing */
  sample.available = memory.available;
  v = pressure_decide (&p->state, &p->rules, &sample);
  if (p->state.pressed != before) {
    if (p->state.pressed)
      p->given = c.given;
    say_change (p, memory.available);
    pool_press (srv->pool, p->state.pressed,
                p->rules.reserve + pressure_margin (&p->rules));
    /* Waiting requests may succeed or fail now. */
    sessions_poke (&srv->sessions);
  }
  v.wanted -= FP_MIN (v.wanted, reclaim (p, v.wanted));
  srv->sessions.wanted = v.wanted;
  say_wanted (p, v.wanted);
  pool_shed (srv->pool, v.shed);
}

static void
on_tick (evutil_socket_t fd, short what, void *arg)
{
  (void) fd;
  (void) what;
  look_at_stalls (arg);
  look (arg);
}

/* Act at once on a stall that the kernel reports, not at the next tick. */
static void
on_trigger (evutil_socket_t fd, short what, void *arg)
{
  struct pressure *p = arg;
  struct epoll_event e;

  (void) what;
  if (epoll_wait (fd, &e, 1, 0) <= 0)
    return;
  if (e.events & EPOLLERR) {
    event_del (p->on_trigger);
    return;
  }
  p->stalled = true;
  p->window_ns = fp_now_ns ();
  (void) host_stalled_us (&p->window_us);
  look (p);
}

/* ---- start and end ---- */

/* Watch the PSI trigger through an epoll descriptor, because libevent does not
 * support POLLPRI.
 */
static void
watch_trigger (struct pressure *p)
{
  struct epoll_event e = { .events = EPOLLPRI };

  p->trigger = host_stall_trigger (STALL_US, WINDOW_US);
  if (p->trigger < 0)
    p->trigger =
        host_stall_trigger (STALL_US * (UNPRIVILEGED_WINDOW_US / WINDOW_US),
                            UNPRIVILEGED_WINDOW_US);
  if (p->trigger < 0)
    return;
  p->epoll = epoll_create1 (EPOLL_CLOEXEC);
  if (p->epoll < 0 || epoll_ctl (p->epoll, EPOLL_CTL_ADD, p->trigger, &e) < 0)
    return;
  p->on_trigger = event_new (p->server->base, p->epoll, EV_READ | EV_PERSIST,
                             on_trigger, p);
  if (!p->on_trigger)
    return;
  event_loop_urgent (p->on_trigger);
  (void) event_add (p->on_trigger, NULL);
}

int
pressure_start (struct pressure **out, struct server *srv)
{
  const struct timeval tick = { .tv_usec = TICK_MS * 1000 };
  struct pressure *p = calloc (1, sizeof *p);
  struct host_memory memory;

  if (!p)
    return -ENOMEM;
  p->server = srv;
  p->rules = (struct pressure_rules) { .reserve = srv->options->reserve,
                                       .slab = srv->options->slab };
  p->trigger = p->epoll = -1;
  p->tick = event_new (srv->base, -1, EV_PERSIST, on_tick, p);
  if (p->tick)
    event_loop_urgent (p->tick);
  if (!p->tick || event_add (p->tick, &tick) < 0) {
    pressure_free (p);
    return -ENOMEM;
  }
  p->window_ns = fp_now_ns ();
  p->counts = host_stalled_us (&p->window_us) == 0;
  (void) host_memory (&memory, srv->options->numa); /* opens its file */
  watch_trigger (p);
  if (!p->counts)
    fp_log (FP_LOG_INFO,
            "this kernel does not report when tasks wait for memory (no PSI): "
            "only available memory is watched");
  *out = p;
  return 0;
}

void
pressure_free (struct pressure *p)
{
  if (!p)
    return;
  if (p->tick)
    event_free (p->tick);
  if (p->on_trigger)
    event_free (p->on_trigger);
  if (p->epoll >= 0)
    close (p->epoll);
  if (p->trigger >= 0)
    close (p->trigger);
  free (p);
}
