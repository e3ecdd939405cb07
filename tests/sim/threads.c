/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.c - a scheduler that runs the threads of a test on virtual time.
 *
 * A program linked with this file and $(sim_wrap) of Makefile.am runs one
 * thread at a time.  A thread gives up its turn only where it waits, locks,
 * polls or reads the clock.  The next thread is drawn from a seed:
 * FARPAGE_TEST_SEED, default 1.
 *
 * Time:     The clock advances by READ_NS at each read and by TURN_NS at each
 *           turn.  Computation takes no time.  If all threads wait, the clock
 *           jumps to the first deadline.  So no deadline passes because the
 *           machine is busy, and the same seed gives the same run.
 * Threads:  Each one is a kernel thread that waits for its turn on a futex.
 *           All state in this file belongs to the thread that has the turn.
 *           ThreadSanitizer does not see the turns (UNSEEN), so it still
 *           reports two threads that share data without a lock.
 *
 * Wrapped:  pthread_create, _join, _detach, _mutex_lock, _trylock, _unlock,
 *           _cond_wait, _timedwait, _signal, _broadcast; clock_gettime,
 *           nanosleep, usleep, poll, ppoll, sched_yield, getrandom.
 *
 * Limits:   A test may poll only descriptors that its own threads make ready,
 *           such as an eventfd.  No turn waits for another process.
 *
 * Errors:   A deadlock ends the program with abort, and so does a turn that
 *           has not ended after STUCK_S seconds of real time.  A line for each
 *           thread is printed first.
 */

#include <config.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/futex.h>

#include "base/checked.h"
#include "base/clock.h"
#include "sim/threads.h"

#define MAX_THREADS 512u
#define MAX_CALLS 65536u
#define MAX_FDS 256u
#define NEVER UINT64_MAX
/* CLOCK_REALTIME minus CLOCK_MONOTONIC. */
#define EPOCH_NS (UINT64_C (1700000000) * FP_NS_PER_S)
#define YIELD_ONCE_IN 16u
#define LOOK_ONCE_IN 8u
#define STUCK_S 60u
/* Virtual time taken by a read of the clock and by a turn. */
#define READ_NS 1000u
#define TURN_NS 10000u

/* Keep ThreadSanitizer out of this function. */
#define UNSEEN __attribute__ ((no_sanitize_thread))

enum wait { RUNS, ON_COND, ON_MUTEX, ON_FDS, ON_JOIN, SLEEPS, ENDED };

static const char *const wait_names[] = {
  [RUNS] = "runs",
  [ON_COND] = "waits for a condition",
  [ON_MUTEX] = "waits for a mutex",
  [ON_FDS] = "polls",
  [ON_JOIN] = "joins a thread",
  [SLEEPS] = "sleeps",
  [ENDED] = "has ended",
};

/* RUNNING -> STOPPED -> RUNNING, and any -> KILLED. */
enum host_state { RUNNING, STOPPED, KILLED };

struct host {
  enum host_state state;
  uint64_t since_ns;   /* STOPPED: since when */
  uint64_t stopped_ns; /* see sim_host_stopped_ns */
  bool suspended;      /* STOPPED, because its machine is suspended */
  uint64_t suspended_ns;
};

struct call {
  uint64_t at_ns, order;
  void (*run) (void *arg);
  void *arg;
};

struct thread {
  pthread_t id;
  unsigned host;
  unsigned statics; /* locks with static storage that it has */
  uint32_t turn;    /* futex: 1 while this thread has the turn */
  enum wait wait;
  const void *on; /* the condition, the mutex, or the thread */
  struct pollfd *fds;
  nfds_t nr_fds;
  uint64_t until_ns; /* end of the wait, or NEVER */
  bool timed_out, detached;
  unsigned long timeouts;
  void *(*run) (void *arg);
  void *arg;
};

static struct thread *threads[MAX_THREADS];
static unsigned nr_threads;
static struct thread *current;
static struct host hosts[SIM_HOSTS];
static struct call calls[MAX_CALLS]; /* a heap: the first one is at 0 */
static unsigned nr_calls;
static uint64_t next_order;
static bool in_call;
static uint64_t now_ns = 1000 * FP_NS_PER_S, seed;
static _Atomic unsigned long turns; /* read by the watchdog */
static _Atomic bool watched;        /* set by the watchdog */

int __real_pthread_create (pthread_t *id, const pthread_attr_t *attr,
                           void *(*run) (void *), void *arg);
int __wrap_pthread_create (pthread_t *id, const pthread_attr_t *attr,
                           void *(*run) (void *), void *arg);
int __real_pthread_join (pthread_t id, void **result);
int __wrap_pthread_join (pthread_t id, void **result);
int __real_pthread_detach (pthread_t id);
int __wrap_pthread_detach (pthread_t id);
int __wrap_pthread_mutex_lock (pthread_mutex_t *m);
int __real_pthread_mutex_trylock (pthread_mutex_t *m);
int __wrap_pthread_mutex_trylock (pthread_mutex_t *m);
int __real_pthread_mutex_unlock (pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock (pthread_mutex_t *m);
int __wrap_pthread_cond_wait (pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_timedwait (pthread_cond_t *c, pthread_mutex_t *m,
                                   const struct timespec *until);
int __wrap_pthread_cond_signal (pthread_cond_t *c);
int __wrap_pthread_cond_broadcast (pthread_cond_t *c);
int __wrap_clock_gettime (clockid_t clock, struct timespec *t);
ssize_t __wrap_getrandom (void *buf, size_t length, unsigned flags);
int __real_nanosleep (const struct timespec *t, struct timespec *left);
int __wrap_nanosleep (const struct timespec *t, struct timespec *left);
int __wrap_usleep (useconds_t us);
int __real_poll (struct pollfd *fds, nfds_t nr, int ms);
int __wrap_poll (struct pollfd *fds, nfds_t nr, int ms);
int __wrap___poll_chk (struct pollfd *fds, nfds_t nr, int ms, size_t size);
int __wrap_ppoll (struct pollfd *fds, nfds_t nr, const struct timespec *t,
                  const sigset_t *set);
int __wrap___ppoll_chk (struct pollfd *fds, nfds_t nr,
                        const struct timespec *t, const sigset_t *set,
                        size_t size);
int __wrap_sched_yield (void);

UNSEEN static unsigned
dice (unsigned n)
{
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (unsigned) (seed % n);
}

UNSEEN static _Noreturn void
give_up (const char *why)
{
  fprintf (stderr, "threads: %s, at %llu.%06llu s:\n", why,
           (unsigned long long) (now_ns / FP_NS_PER_S),
           (unsigned long long) (now_ns % FP_NS_PER_S / 1000));
  for (unsigned i = 0; i < nr_threads; i++) {
    const struct thread *t = threads[i];
    char name[16] = "";

    if (t->wait == ENDED)
      continue;
    (void) pthread_getname_np (t->id, name, sizeof name);
    fprintf (stderr, "  %u %s %s", i, name, wait_names[t->wait]);
    if (t->on != NULL)
      fprintf (stderr, " %p", t->on);
    if (t->until_ns != NEVER)
      fprintf (stderr, " until %llu.%06llu s",
               (unsigned long long) (t->until_ns / FP_NS_PER_S),
               (unsigned long long) (t->until_ns % FP_NS_PER_S / 1000));
    fprintf (stderr, "%s\n", t == current ? " (its turn)" : "");
  }
  abort ();
}

/* Return true if the thread gets no turn, whatever it waits for. */
UNSEEN static bool
is_held (const struct thread *t)
{
  return hosts[t->host].state != RUNNING && t->statics == 0;
}

/* Make each thread runnable whose poll has something to report.  One call
 * covers many threads, because usually nothing is ready.
 */
UNSEEN static bool
look_at_fds (void)
{
  static struct pollfd fds[MAX_FDS];
  bool found = false;

  for (unsigned i = 0, end; i < nr_threads; i = end) {
    struct timespec at_once = { 0 };
    unsigned long nr = 0;

    for (end = i; end < nr_threads; end++) {
      const struct thread *t = threads[end];

      if (t->wait != ON_FDS || is_held (t))
        continue;
      if (t->nr_fds > MAX_FDS)
        give_up ("too many descriptors in a poll");
      if (nr + t->nr_fds > MAX_FDS)
        break;
      for (unsigned long n = 0; n < t->nr_fds; n++)
        fds[nr++] = t->fds[n];
    }
    /* arm64 has no SYS_poll. */
    if (syscall (SYS_ppoll, fds, nr, &at_once, NULL, 0) <= 0)
      continue;
    nr = 0;
    for (unsigned k = i; k < end; k++) {
      struct thread *t = threads[k];

      if (t->wait != ON_FDS || is_held (t))
        continue;
      for (unsigned long n = 0; n < t->nr_fds; n++)
        if (fds[nr + n].revents != 0) {
          t->wait = RUNS;
          found = true;
        }
      nr += t->nr_fds;
    }
  }
  return found;
}

/* Make each thread runnable whose deadline has passed.  Return the first
 * deadline of the others.
 */
UNSEEN static uint64_t
look_at_deadlines (void)
{
  uint64_t first = NEVER;

  for (unsigned i = 0; i < nr_threads; i++) {
    struct thread *t = threads[i];

    if (t->wait == RUNS || t->wait == ENDED || is_held (t))
      continue;
    if (t->until_ns <= now_ns) {
      t->wait = RUNS;
      t->timed_out = true;
      t->timeouts++;
    }
    else
      first = FP_MIN (first, t->until_ns);
  }
  return first;
}

UNSEEN static struct thread *
draw (void)
{
  unsigned nr = 0, n;

  for (unsigned i = 0; i < nr_threads; i++)
    nr += threads[i]->wait == RUNS && !is_held (threads[i]);
  if (nr == 0)
    return NULL;
  n = nr > 1 ? dice (nr) : 0;
  for (unsigned i = 0;; i++)
    if (threads[i]->wait == RUNS && !is_held (threads[i]) && n-- == 0)
      return threads[i];
}

/* Forget the threads of hosts that were killed. */
UNSEEN static void
bury (void)
{
  unsigned kept = 0;

  for (unsigned i = 0; i < nr_threads; i++) {
    struct thread *t = threads[i];

    if (hosts[t->host].state != KILLED || !is_held (t) || t == current)
      threads[kept++] = t;
  }
  nr_threads = kept;
}

/* ---- calls at a time ---- */

UNSEEN static bool
is_before (const struct call *a, const struct call *b)
{
  return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

UNSEEN static void
swap_calls (unsigned i, unsigned j)
{
  struct call c = calls[i];

  calls[i] = calls[j];
  calls[j] = c;
}

UNSEEN void
sim_at (uint64_t at_ns, void (*run) (void *arg), void *arg)
{
  unsigned i = nr_calls;

  if (nr_calls == MAX_CALLS)
    give_up ("too many calls");
  calls[nr_calls++] = (struct call) {
    .at_ns = at_ns, .order = next_order++, .run = run, .arg = arg
  };
  for (; i > 0 && is_before (&calls[i], &calls[(i - 1) / 2]); i = (i - 1) / 2)
    swap_calls (i, (i - 1) / 2);
}

UNSEEN static struct call
first_call (void)
{
  struct call c = calls[0];

  calls[0] = calls[--nr_calls];
  for (unsigned i = 0;;) {
    unsigned least = i;

    for (unsigned child = 2 * i + 1; child <= 2 * i + 2; child++)
      if (child < nr_calls && is_before (&calls[child], &calls[least]))
        least = child;
    if (least == i)
      return c;
    swap_calls (i, least);
    i = least;
  }
}

/* Make the calls that are due. */
UNSEEN static void
make_calls (void)
{
  in_call = true;
  while (nr_calls > 0 && calls[0].at_ns <= now_ns) {
    struct call c = first_call ();

    c.run (c.arg);
  }
  in_call = false;
}

/* Return the next thread to run. */
UNSEEN static struct thread *
choose (void)
{
  struct thread *t;
  uint64_t first;

  turns++;
  now_ns += TURN_NS;
  make_calls ();
  bury ();
  first = look_at_deadlines ();
  if (dice (LOOK_ONCE_IN) == 0)
    (void) look_at_fds ();
  t = draw ();
  while (t == NULL) {
    if (look_at_fds ())
      return draw ();
    if (nr_calls > 0)
      first = FP_MIN (first, calls[0].at_ns);
    if (first == NEVER)
      give_up ("all threads wait for ever");
    now_ns = first;
    make_calls ();
    first = look_at_deadlines ();
    t = draw ();
  }
  return t;
}

UNSEEN static void
give_turn (struct thread *t)
{
  current = t;
  __atomic_store_n (&t->turn, 1, __ATOMIC_RELEASE);
  (void) syscall (SYS_futex, &t->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

UNSEEN static void
take_turn (struct thread *t)
{
  while (__atomic_exchange_n (&t->turn, 0, __ATOMIC_ACQUIRE) == 0)
    (void) syscall (SYS_futex, &t->turn, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

/* Give the turn away; return when the calling thread has it again. */
UNSEEN static void
switch_away (void)
{
  struct thread *me = current, *next;
  int err = errno;

  next = choose ();
  if (next != me) {
    give_turn (next);
    take_turn (me);
  }
  errno = err;
}

/* Wait; return false if until_ns came first. */
UNSEEN static bool
wait_for (enum wait what, const void *on, uint64_t until_ns)
{
  struct thread *me = current;

  if (in_call)
    give_up ("a call of sim_at waits");
  me->wait = what;
  me->on = on;
  me->until_ns = until_ns;
  me->timed_out = false;
  switch_away ();
  me->on = NULL;
  me->until_ns = NEVER;
  return !me->timed_out;
}

UNSEEN static void
yield (void)
{
  (void) wait_for (RUNS, NULL, NEVER);
}

UNSEEN static void
perhaps_yield (void)
{
  if (!in_call && (nr_threads > 1 || nr_calls > 0) &&
      dice (YIELD_ONCE_IN) == 0)
    yield ();
}

UNSEEN static uint64_t
to_ns (const struct timespec *t)
{
  return (uint64_t) t->tv_sec * FP_NS_PER_S + (uint64_t) t->tv_nsec;
}

UNSEEN unsigned long
sim_timeouts (void)
{
  return current->timeouts;
}

UNSEEN void
sim_seed (unsigned long n)
{
  seed = (n + 1) * UINT64_C (0x9e3779b97f4a7c15);
}

UNSEEN unsigned
sim_dice (unsigned n)
{
  return dice (n);
}

UNSEEN uint64_t
sim_now_ns (void)
{
  return now_ns;
}

/* ---- hosts ---- */

UNSEEN unsigned
sim_host_new (void)
{
  static unsigned last;

  if (++last == SIM_HOSTS)
    give_up ("too many hosts");
  return last;
}

UNSEEN void
sim_host_enter (unsigned host)
{
  current->host = host;
}

UNSEEN unsigned
sim_host (void)
{
  return current->host;
}

UNSEEN void
sim_host_stop (unsigned host)
{
  if (hosts[host].state != RUNNING)
    return;
  hosts[host].state = STOPPED;
  hosts[host].since_ns = now_ns;
}

UNSEEN void
sim_host_suspend (unsigned host)
{
  if (hosts[host].state != RUNNING)
    return;
  sim_host_stop (host);
  hosts[host].suspended = true;
}

UNSEEN void
sim_host_continue (unsigned host)
{
  if (hosts[host].state != STOPPED)
    return;
  hosts[host].state = RUNNING;
  if (hosts[host].suspended)
    hosts[host].suspended_ns += now_ns - hosts[host].since_ns;
  else if (now_ns - hosts[host].since_ns > SIM_GAP_NS)
    hosts[host].stopped_ns += now_ns - hosts[host].since_ns - SIM_GAP_NS;
  hosts[host].suspended = false;
}

UNSEEN void
sim_host_kill (unsigned host)
{
  hosts[host].state = KILLED;
}

UNSEEN uint64_t
sim_host_stopped_ns (unsigned host)
{
  return hosts[host].stopped_ns;
}

UNSEEN uint64_t
sim_host_suspended_ns (unsigned host)
{
  return hosts[host].suspended_ns;
}

/* ---- start ---- */

UNSEEN static struct thread *
thread_new (void)
{
  struct thread *t = NULL;

  /* Use the place of a thread that was joined. */
  for (unsigned i = 0; i < nr_threads && t == NULL; i++)
    if (threads[i]->wait == ENDED && threads[i]->run == NULL)
      t = threads[i];
  if (t == NULL) {
    if (nr_threads == MAX_THREADS)
      give_up ("too many threads");
    t = calloc (1, sizeof *t);
    if (t == NULL)
      abort ();
    threads[nr_threads++] = t;
  }
  t->host = current != NULL ? current->host : 0;
  t->statics = 0;
  t->detached = false;
  t->wait = RUNS;
  t->on = NULL;
  t->until_ns = NEVER;
  t->timeouts = 0;
  return t;
}

/* Abort if no turn ends for STUCK_S seconds of real time. */
UNSEEN static void *
watch (void *arg)
{
  unsigned long seen = 0;

  (void) arg;
  watched = true;
  for (unsigned s = 0; s < STUCK_S; s++) {
    const struct timespec second = { .tv_sec = 1 };

    (void) __real_nanosleep (&second, NULL);
    if (turns != seen)
      s = 0;
    seen = turns;
  }
  give_up ("a thread runs and does not end");
}

/* Return when the watchdog runs.  While a thread starts it has locks of the
 * sanitizer's runtime, and the child of a fork would have them for ever.
 */
UNSEEN static void
start_watch (void)
{
  const struct timespec ms = { .tv_nsec = 1000000 };
  pthread_t id;

  watched = false;
  if (__real_pthread_create (&id, NULL, watch, NULL) != 0)
    abort ();
  pthread_detach (id);
  while (!watched)
    (void) __real_nanosleep (&ms, NULL);
}

/* Keep only the calling thread: a child of fork has no other. */
UNSEEN static void
in_child (void)
{
  threads[0] = current;
  nr_threads = 1;
  start_watch ();
}

__attribute__ ((constructor)) UNSEEN static void
start (void)
{
  const char *s = getenv ("FARPAGE_TEST_SEED");
  cpu_set_t cpu;

  seed = s != NULL ? strtoull (s, NULL, 0) : 1;
  fprintf (stderr, "FARPAGE_TEST_SEED=%llu\n", (unsigned long long) seed);
  sim_seed (seed);
  current = thread_new ();
  current->id = pthread_self ();
  if (pthread_atfork (NULL, NULL, in_child) != 0)
    abort ();
  /* Run all threads on one processor: waking one on another takes ten times as
   * long.
   */
  CPU_ZERO (&cpu);
  CPU_SET ((unsigned) sched_getcpu (), &cpu);
  (void) sched_setaffinity (0, sizeof cpu, &cpu);
  start_watch ();
}

/* ---- threads ---- */

UNSEEN static void *
run_thread (void *arg)
{
  struct thread *me = arg;
  void *result;

  take_turn (me);
  result = me->run (me->arg);
  me->wait = ENDED;
  if (me->detached)
    me->run = NULL;
  for (unsigned i = 0; i < nr_threads; i++)
    if (threads[i]->wait == ON_JOIN && threads[i]->on == me)
      threads[i]->wait = RUNS;
  give_turn (choose ());
  return result;
}

UNSEEN int
__wrap_pthread_create (pthread_t *id, const pthread_attr_t *attr,
                       void *(*run) (void *), void *arg)
{
  struct thread *t;
  int r;

  t = thread_new ();
  t->run = run;
  t->arg = arg;
  r = __real_pthread_create (&t->id, attr, run_thread, t);
  if (r != 0) {
    t->wait = ENDED;
    t->run = NULL;
    return r;
  }
  *id = t->id;
  perhaps_yield ();
  return 0;
}

UNSEEN int
__wrap_pthread_join (pthread_t id, void **result)
{
  struct thread *t = NULL;
  int r;

  for (unsigned i = 0; i < nr_threads; i++)
    if (threads[i]->run != NULL && pthread_equal (threads[i]->id, id))
      t = threads[i];
  if (t == NULL)
    return ESRCH;
  if (t->wait != ENDED)
    (void) wait_for (ON_JOIN, t, NEVER);
  r = __real_pthread_join (id, result);
  t->run = NULL;
  return r;
}

/* A detached thread gives up its place when it ends. */
UNSEEN int
__wrap_pthread_detach (pthread_t id)
{
  for (unsigned i = 0; i < nr_threads; i++)
    if (threads[i]->run != NULL && pthread_equal (threads[i]->id, id))
      threads[i]->detached = true;
  return __real_pthread_detach (id);
}

UNSEEN int
__wrap_sched_yield (void)
{
  yield ();
  return 0;
}

/* ---- locks ---- */

/* The program's data, from its first byte to the end of bss (end(3)). */
extern char __data_start, end;

UNSEEN static bool
is_static (const pthread_mutex_t *m)
{
  return (const char *) m >= &__data_start && (const char *) m < &end;
}

UNSEEN int
__wrap_pthread_mutex_lock (pthread_mutex_t *m)
{
  int r;

  perhaps_yield ();
  while ((r = __real_pthread_mutex_trylock (m)) == EBUSY)
    (void) wait_for (ON_MUTEX, m, NEVER);
  current->statics += r == 0 && is_static (m);
  return r;
}

UNSEEN int
__wrap_pthread_mutex_trylock (pthread_mutex_t *m)
{
  int r = __real_pthread_mutex_trylock (m);

  if (r == EBUSY)
    yield (); /* the caller may try in a loop */
  current->statics += r == 0 && is_static (m);
  return r;
}

UNSEEN int
__wrap_pthread_mutex_unlock (pthread_mutex_t *m)
{
  int r = __real_pthread_mutex_unlock (m);

  current->statics -= r == 0 && is_static (m);
  for (unsigned i = 0; i < nr_threads; i++)
    if (threads[i]->wait == ON_MUTEX && threads[i]->on == m)
      threads[i]->wait = RUNS;
  return r;
}

UNSEEN static int
cond_wait (pthread_cond_t *c, pthread_mutex_t *m, uint64_t until_ns)
{
  bool woken;
  int r = __wrap_pthread_mutex_unlock (m);

  if (r != 0)
    return r;
  woken = wait_for (ON_COND, c, until_ns);
  r = __wrap_pthread_mutex_lock (m);
  return r != 0 ? r : woken ? 0 : ETIMEDOUT;
}

UNSEEN int
__wrap_pthread_cond_wait (pthread_cond_t *c, pthread_mutex_t *m)
{
  return cond_wait (c, m, NEVER);
}

/* A time of EPOCH_NS or later belongs to CLOCK_REALTIME, an earlier one to
 * CLOCK_MONOTONIC.
 */
UNSEEN int
__wrap_pthread_cond_timedwait (pthread_cond_t *c, pthread_mutex_t *m,
                               const struct timespec *until)
{
  uint64_t ns = to_ns (until);

  return cond_wait (c, m, ns >= EPOCH_NS ? ns - EPOCH_NS : ns);
}

/* Wake exactly one waiter: a program that needs a second wake-up is wrong. */
UNSEEN int
__wrap_pthread_cond_signal (pthread_cond_t *c)
{
  unsigned nr = 0, n;

  for (unsigned i = 0; i < nr_threads; i++)
    nr += threads[i]->wait == ON_COND && threads[i]->on == c;
  if (nr == 0)
    return 0;
  n = dice (nr);
  for (unsigned i = 0;; i++)
    if (threads[i]->wait == ON_COND && threads[i]->on == c && n-- == 0) {
      threads[i]->wait = RUNS;
      return 0;
    }
}

UNSEEN int
__wrap_pthread_cond_broadcast (pthread_cond_t *c)
{
  for (unsigned i = 0; i < nr_threads; i++)
    if (threads[i]->wait == ON_COND && threads[i]->on == c)
      threads[i]->wait = RUNS;
  return 0;
}

/* ---- time ---- */

UNSEEN int
__wrap_clock_gettime (clockid_t clock, struct timespec *t)
{
  uint64_t ns;

  now_ns += READ_NS;
  ns = clock == CLOCK_REALTIME ? now_ns + EPOCH_NS : now_ns;
  t->tv_sec = (time_t) (ns / FP_NS_PER_S);
  t->tv_nsec = (long) (ns % FP_NS_PER_S);
  perhaps_yield ();
  return 0;
}

UNSEEN int
__wrap_nanosleep (const struct timespec *t, struct timespec *left)
{
  (void) left;
  (void) wait_for (SLEEPS, NULL, now_ns + to_ns (t));
  return 0;
}

UNSEEN int
__wrap_usleep (useconds_t us)
{
  (void) wait_for (SLEEPS, NULL, now_ns + (uint64_t) us * 1000);
  return 0;
}

UNSEEN void
sim_stop_ms (unsigned ms)
{
  now_ns += ms * FP_NS_PER_MS;
}

/* ---- chance ---- */

UNSEEN ssize_t
__wrap_getrandom (void *buf, size_t length, unsigned flags)
{
  unsigned char *p = buf;

  (void) flags;
  for (size_t i = 0; i < length; i++)
    p[i] = (unsigned char) dice (256);
  return (ssize_t) length;
}

/* ---- descriptors ---- */

UNSEEN static int
poll_until (struct pollfd *fds, nfds_t nr, uint64_t until_ns)
{
  struct thread *me = current;

  perhaps_yield ();
  for (;;) {
    int r = __real_poll (fds, nr, 0);

    if (r != 0 || until_ns <= now_ns)
      return r;
    me->fds = fds;
    me->nr_fds = nr;
    (void) wait_for (ON_FDS, NULL, until_ns);
  }
}

UNSEEN int
__wrap_poll (struct pollfd *fds, nfds_t nr, int ms)
{
  return poll_until (fds, nr,
                     ms < 0 ? NEVER : now_ns + (uint64_t) ms * FP_NS_PER_MS);
}

UNSEEN int
__wrap___poll_chk (struct pollfd *fds, nfds_t nr, int ms, size_t size)
{
  (void) size;
  return __wrap_poll (fds, nr, ms);
}

UNSEEN int
__wrap_ppoll (struct pollfd *fds, nfds_t nr, const struct timespec *t,
              const sigset_t *set)
{
  (void) set;
  return poll_until (fds, nr, t == NULL ? NEVER : now_ns + to_ns (t));
}

UNSEEN int
__wrap___ppoll_chk (struct pollfd *fds, nfds_t nr, const struct timespec *t,
                    const sigset_t *set, size_t size)
{
  (void) size;
  return __wrap_ppoll (fds, nr, t, set);
}
