/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve.c - see resolve.h. */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include <pthread.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "transport/control/resolve.h"
#include "base/thread.h"

struct lookup {
  struct lookup *next;
  struct fp_addr addr;
  struct fp_thread thread;
  pthread_cond_t cond;
  unsigned refs; /* waiting callers, and the thread */
  bool done;     /* true once the fields below are set */
  int result;
  const char *why;
  struct fp_sockaddrs list;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lookup *under_way;

/* The addresses of names that were looked up.  at_ns is the time of the last
 * success, asked_ns the time of the last try that counts.
 */
#define LOOK_AGAIN_S 30
static struct known {
  struct fp_addr addr;
  unsigned nr;
  uint64_t at_ns, asked_ns; /* at_ns is 0 if free */
  bool doubtful;
  struct {
    socklen_t len;
    struct sockaddr_storage addr;
  } list[FP_KNOWN_ADDRS];
} known[FP_KNOWN_NAMES];

/* Return the entry of addr, or NULL.  Call it with the lock held. */
static struct known *
find_known (const struct fp_addr *addr)
{
  for (unsigned i = 0; i < FP_KNOWN_NAMES; i++)
    if (known[i].at_ns != 0 && fp_addr_eq (&known[i].addr, addr))
      return &known[i];
  return NULL;
}

/* Keep the addresses of addr, in place of the oldest entry if none is free.
 * Call it with the lock held.
 */
static void
keep_known (const struct fp_addr *addr, const struct fp_sockaddrs *list)
{
  struct known *k = find_known (addr);

  if (k == NULL) {
    k = &known[0];
    for (unsigned i = 1; i < FP_KNOWN_NAMES; i++)
      if (known[i].at_ns < k->at_ns) /* 0: free, so it comes first */
        k = &known[i];
  }
  k->addr = *addr;
  k->at_ns = k->asked_ns = fp_now_ns ();
  k->doubtful = false;
  k->nr = FP_MIN (list->nr, (unsigned) FP_KNOWN_ADDRS);
  for (unsigned i = 0; i < k->nr; i++) {
    k->list[i].len = list->list[i].len;
    k->list[i].addr = list->list[i].addr;
  }
}

/* Call it with the lock held. */
static void
copy_known (struct fp_sockaddrs *out, const struct known *k)
{
  out->nr = k->nr;
  for (unsigned i = 0; i < k->nr; i++) {
    out->list[i].len = k->list[i].len;
    out->list[i].addr = k->list[i].addr;
  }
}

static bool
was_within (uint64_t ns)
{
  return fp_now_ns () - ns < LOOK_AGAIN_S * FP_NS_PER_S;
}

bool
fp_addr_known (const struct fp_addr *addr, struct fp_sockaddrs *out)
{
  const struct known *k;

  if (fp_addr_is_number (addr))
    return fp_addr_resolve (addr, out, NULL) == 0;
  FP_LOCK_SCOPE (&lock);
  k = find_known (addr);
  if (k == NULL || k->doubtful)
    return false;
  copy_known (out, k);
  return true;
}

bool
fp_addr_doubt (const struct fp_addr *addr)
{
  struct known *k;

  FP_LOCK_SCOPE (&lock);
  k = find_known (addr);
  if (k == NULL || was_within (k->at_ns))
    return false;
  if (!was_within (k->asked_ns))
    k->doubtful = true;
  return true;
}

void
fp_addr_forget (const struct fp_addr *addr)
{
  FP_LOCK_SCOPE (&lock);
  for (unsigned i = 0; i < FP_KNOWN_NAMES; i++)
    if (known[i].at_ns != 0 &&
        strcasecmp (known[i].addr.host, addr->host) == 0)
      known[i].at_ns = 0;
}

/* A child process has neither the threads of the look-ups nor the callers that
 * wait for them.  So it drops these look-ups.
 */
static void
before_fork (void)
{
  pthread_mutex_lock (&lock);
}

static void
after_fork (void)
{
  pthread_mutex_unlock (&lock);
}

static void
after_fork_child (void)
{
  while (under_way != NULL) {
    struct lookup *k = under_way;

    under_way = k->next;
    /* no pthread_cond_destroy: it would wait for waiters that are not here */
    free (k);
  }
  pthread_mutex_unlock (&lock);
}

static void __attribute__ ((__constructor__)) watch_forks (void)
{
  if (pthread_atfork (before_fork, after_fork, after_fork_child) != 0)
    abort (); /* out of memory, before anything has begun */
}

/* Drop a reference.  Call it with the lock held. */
static void
put (struct lookup *k)
{
  if (--k->refs > 0)
    return;
  pthread_cond_destroy (&k->cond);
  free (k);
}

static void
lookup_main (void *arg)
{
  struct lookup *k = arg, **kp;
  int r = fp_addr_resolve (&k->addr, &k->list, &k->why);

  FP_LOCK_SCOPE (&lock);
  for (kp = &under_way; *kp != k; kp = &(*kp)->next)
    ;
  *kp = k->next;
  k->result = r;
  if (r == 0)
    keep_known (&k->addr, &k->list);
  k->done = true;
  pthread_cond_broadcast (&k->cond);
  put (k);
}

/* Start a look-up.  Call it with the lock held. */
static int
start (struct lookup **out, const struct fp_addr *addr)
{
  struct lookup *k = calloc (1, sizeof *k);
  pthread_condattr_t attr;
  int r;

  if (k == NULL)
    return -ENOMEM;
  if (pthread_condattr_init (&attr) != 0 ||
      pthread_condattr_setclock (&attr, CLOCK_MONOTONIC) != 0 ||
      pthread_cond_init (&k->cond, &attr) != 0)
    abort (); /* cannot fail on Linux */
  pthread_condattr_destroy (&attr);
  k->addr = *addr;
  k->refs = 2;
  r = fp_thread_create_large (&k->thread, "fp-resolve", lookup_main, k);
  if (r < 0) {
    pthread_cond_destroy (&k->cond);
    free (k);
    return r;
  }
  k->next = under_way;
  under_way = k;
  *out = k;
  return 0;
}

/* Wait until the look-up is done.  Return 0 or -ETIMEDOUT.  Call it with the
 * lock held.
 */
static int
wait_for (struct lookup *k, uint64_t deadline_ns)
{
  while (!k->done) {
    uint64_t left = (uint64_t) fp_deadline_left_ms (deadline_ns), until_ns;
    struct timespec until;

    if (left == 0)
      return -ETIMEDOUT;
    until_ns = fp_mono_ns () + left * FP_NS_PER_MS;
    until = (struct timespec) { .tv_sec = (time_t) (until_ns / FP_NS_PER_S),
                                .tv_nsec = (long) (until_ns % FP_NS_PER_S) };
    /* After a timeout, the loop checks the deadline. */
    (void) pthread_cond_timedwait (&k->cond, &lock, &until);
  }
  return 0;
}

int
fp_addr_resolve_by (const struct fp_addr *addr, struct fp_sockaddrs *out,
                    uint64_t deadline_ns, const char **why)
{
  struct lookup *k;
  bool ours = false;
  pthread_t thread;
  int waited, r;

  if (fp_addr_is_number (addr))
    return fp_addr_resolve (addr, out, why);
  {
    FP_LOCK_SCOPE (&lock);
    for (k = under_way; k != NULL && !fp_addr_eq (&k->addr, addr); k = k->next)
      ;
    if (k != NULL) {
      k->refs++;
    }
    else {
      r = start (&k, addr);
      if (r < 0)
        return r;
      ours = true;
    }
    thread = k->thread.id;
    waited = wait_for (k, deadline_ns);
    if (waited == 0) {
      r = k->result;
      *out = k->list;
      if (r < 0 && why != NULL)
        *why = k->why;
    }
    else {
      r = waited;
      if (why != NULL)
        *why = "its name was not resolved in time";
    }
    put (k);
  }
  /* The thread has nothing left to do, or goes on without this caller. */
  if (ours && (waited == 0 ? pthread_join (thread, NULL)
                           : pthread_detach (thread)) != 0)
    abort (); /* a bug: no other thread joins or detaches it */
  return r;
}

int
fp_addr_find (const struct fp_addr *addr, struct fp_sockaddrs *out,
              uint64_t deadline_ns, const char **why)
{
  uint64_t now = fp_now_ns (), until = deadline_ns;
  struct known *k;
  int r;

  if (fp_addr_known (addr, out))
    return 0;
  {
    FP_LOCK_SCOPE (&lock);
    /* If there are known addresses, keep half of the time to connect to them.
     */
    if (find_known (addr) != NULL && deadline_ns > now)
      until = now + (deadline_ns - now) / 2;
  }
  r = fp_addr_resolve_by (addr, out, until, why);
  if (r == 0)
    return 0;
  FP_LOCK_SCOPE (&lock);
  k = find_known (addr);
  if (k == NULL)
    return r;
  k->asked_ns = fp_now_ns ();
  k->doubtful = false;
  copy_known (out, k);
  return 0;
}
