/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sync.h"
#include "extent/lease.h"

void
fp_lease_init (struct fp_lease *s, void (*ask) (void *arg), void *arg)
{
  *s = (struct fp_lease) { .ask = ask, .arg = arg };
  fp_mutex_init (&s->lock);
}

void
fp_lease_destroy (struct fp_lease *s)
{
  pthread_mutex_destroy (&s->lock);
}

static bool
is_unbroken (struct fp_lease *s, unsigned server, uint64_t boot_ns)
{
  return fp_lease_covers_zeros (s, server, boot_ns) &&
         atomic_load (&s->servers[server].unbroken);
}

bool
fp_lease_open (struct fp_lease *s, unsigned server, uint64_t others,
               bool unbroken, bool forgets, uint64_t asked_ns,
               unsigned lease_ms)
{
  uint64_t now = fp_boot_ns ();
  bool all = true;

  FP_LOCK_SCOPE (&s->lock);
  for (unsigned i = 0; i < FP_MAX_SERVERS; i++) {
    if (!(others >> i & 1))
      continue;
    unbroken |= is_unbroken (s, i, now);
    all &= fp_lease_covers_zeros (s, i, now);
  }
  if (!unbroken && forgets)
    return false;
  /* Before the lease: the last session may have left it unbroken. */
  atomic_store (&s->servers[server].unbroken, unbroken);
  for (unsigned i = 0; all && i < FP_MAX_SERVERS; i++)
    atomic_store (&s->servers[i].unbroken, true);
  (void) fp_lease_renew (s, server, asked_ns, lease_ms);
  return true;
}

/* Store `to` if it is later: answers may come out of order.  Return the old
 * end.
 */
static uint64_t
raise_to (_Atomic uint64_t *ns, uint64_t to)
{
  uint64_t was = atomic_load (ns);

  if (to > was)
    atomic_store (ns, to);
  return was;
}

uint64_t
fp_lease_renew (struct fp_lease *s, unsigned server, uint64_t asked_ns,
                unsigned lease_ms)
{
  struct fp_server_lease *l = &s->servers[server];
  uint64_t ns = lease_ms * FP_NS_PER_MS;
  /* asked_ns by the other clock.  Read in this order, the result is never too
   * late.
   */
  uint64_t mono = fp_mono_ns (), took = fp_boot_ns () - asked_ns;
  uint64_t asked_mono = mono - FP_MIN (mono, took);
  uint64_t mapped, zeros;

  ns -= ns / 8;
  mapped = raise_to (&l->mapped_ns, asked_mono + ns);
  zeros = raise_to (&l->zeros_ns, asked_ns + ns);
  /* By the time after that: a thread may have found it over until then. */
  if (mapped <= fp_mono_ns () || zeros <= fp_boot_ns ())
    fp_notifier_raise (s->changes);
  return asked_mono;
}

void
fp_lease_end (struct fp_lease *s, unsigned server)
{
  atomic_store (&s->servers[server].mapped_ns, 0);
  atomic_store (&s->servers[server].zeros_ns, 0);
}

void
fp_lease_reset (struct fp_lease *s, unsigned server)
{
  fp_lease_end (s, server);
  atomic_store (&s->servers[server].unbroken, false);
}

bool
fp_lease_holds (struct fp_lease *s, uint64_t servers, uint64_t members)
{
  uint64_t now = fp_boot_ns ();
  int half = (__builtin_popcountll (members) + 1) / 2, held = 0;

  for (unsigned i = 0; i < FP_MAX_SERVERS; i++) {
    if (!(servers >> i & 1) || !is_unbroken (s, i, now))
      continue;
    held += (int) (members >> i & 1);
    if (held >= half)
      return true;
  }
  s->ask (s->arg);
  return false;
}

void
fp_lease_fence (struct fp_lease *s, const char *by)
{
  {
    FP_LOCK_SCOPE (&s->lock);
    if (by != NULL && s->fenced_by[0] == '\0')
      snprintf (s->fenced_by, sizeof s->fenced_by, "%s", by);
  }
  atomic_store (&s->fenced, true);
  s->ask (s->arg);
  fp_notifier_raise (s->changes);
}

void
fp_lease_fenced_by (struct fp_lease *s, char by[FP_STATUS_REASON_MAX])
{
  FP_LOCK_SCOPE (&s->lock);
  memcpy (by, s->fenced_by, FP_STATUS_REASON_MAX);
}
