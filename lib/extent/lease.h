/* SPDX-License-Identifier: BSD-3-Clause */
/* lease.h - does this client still hold the volume?
 *
 * A server lets another client open the volume only once this client's session
 * there is over.  It ends the session of a client that was silent for its
 * lease_ms.  So each answered message proves that this client holds the volume
 * at that server for lease_ms, counted from when it was sent.  One eighth of
 * that is a margin, for coarse clocks and for clocks of different rates.
 *
 * A lease runs while this process is stopped, by SIGSTOP or in a frozen
 * cgroup.  So its end is no time by fp_now_ns.  It covers two things:
 *
 *   mapped   Loads and stores to a server's memory (shm), which the server
 *            cannot refuse.  A client may be stopped in the middle of a store
 *            for longer than its lease.  By then another client may have taken
 *            the volume over, and uses another slab for the same data.  So a
 *            load or store counts only if the lease still held after it.  A
 *            later store goes to old memory that no other client gets.  The
 *            clock is fp_mono_ns: server and client are on one host, and the
 *            lease stops while that is suspended.
 *   zeros    Memory that was never written reads as zeros, and no server is
 *            asked.  That is right only while no other client can have written
 *            there.  The clock is fp_boot_ns, which also counts a suspended
 *            host.
 *
 * The lease of the volume holds if no other client can have held the volume
 * since this one attached it.  A client that takes the volume over ends our
 * session at every server first.  So one server is enough whose lease holds
 * and is unbroken.  With degraded=true, a takeover of a named volume may do
 * without some servers.  But it writes nothing new unless more than half of
 * the current members are there.  So then the leases of half of them are
 * needed.
 *
 * Once a server tells that another client has the volume, this one is fenced:
 * its requests fail.
 *
 * Threads:  any; open, renew, end and reset only for the peer of that server.
 *           ask is called with no lock of the lease held, and takes none that
 *           a caller holds.
 * Memory:   no allocation.
 */

#ifndef FP_LEASE_H
#define FP_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <pthread.h>

#include "extent/notifier.h"
#include "extent/volume_status.h"

struct fp_server_lease {
  /* The ends of the lease in ns: mapped by fp_mono_ns, zeros by fp_boot_ns; or
   * 0.
   */
  _Atomic uint64_t mapped_ns, zeros_ns;
  /* No other client has held the volume since this one attached it. */
  _Atomic bool unbroken;
};

struct fp_lease {
  struct fp_server_lease servers[FP_MAX_SERVERS];
  _Atomic bool fenced;
  /* Raised when a lease that was over is renewed, and by a fence. */
  struct fp_notifier *changes;
  /* Wake every peer: it asks its server if the lease is over, and looks at
   * `fenced`.
   */
  void (*ask) (void *arg);
  void *arg;

  pthread_mutex_t lock; /* protects what follows, and orders fp_lease_open */
  /* A server's description of the client that has the volume, or "". */
  char fenced_by[FP_STATUS_REASON_MAX];
};

/* Initialise s.  Set s->changes before the first server has a lease. */
void fp_lease_init (struct fp_lease *s, void (*ask) (void *arg), void *arg);
void fp_lease_destroy (struct fp_lease *s);

/* Note that a session at the server was opened by a message sent at asked_ns,
 * by fp_boot_ns.  others: set of the other servers that count.  unbroken: this
 * server tells that no other client has opened the volume since this one did.
 *
 * If `unbroken` is false, another client may have held the volume before this
 * session.  Another server with an unbroken lease that holds proves that none
 * has.  So do all servers together, if the leases of all others hold: a server
 * refuses a client whose volume another one has opened.  Then all leases
 * become unbroken.
 *
 * forgets: the server may have forgotten that it must refuse this client.
 * Return false, with nothing changed, if so and no lease is unbroken.
 */
bool fp_lease_open (struct fp_lease *s, unsigned server, uint64_t others,
                    bool unbroken, bool forgets, uint64_t asked_ns,
                    unsigned lease_ms);
/* Note that a message was answered that was sent at asked_ns, by fp_boot_ns.
 * Return that time by fp_mono_ns, or an earlier one.
 */
uint64_t fp_lease_renew (struct fp_lease *s, unsigned server,
                         uint64_t asked_ns, unsigned lease_ms);
/* End the lease of a server whose session is over. */
void fp_lease_end (struct fp_lease *s, unsigned server);
/* Forget the lease of a server: another one has its place now. */
void fp_lease_reset (struct fp_lease *s, unsigned server);

/* Return true if a load or store counts that was over at mono_ns, which may be
 * coarse.  Otherwise it is repeated once the server has answered.
 */
static inline bool
fp_lease_covers_mapped (struct fp_lease *s, unsigned server, uint64_t mono_ns)
{
  return mono_ns < atomic_load (&s->servers[server].mapped_ns);
}

/* Return true if unwritten memory of the server is zeros at boot_ns. */
static inline bool
fp_lease_covers_zeros (struct fp_lease *s, unsigned server, uint64_t boot_ns)
{
  return boot_ns < atomic_load (&s->servers[server].zeros_ns);
}

/* Return true if no other client can have held the volume since this one
 * attached it.  Only unbroken leases of the set `servers` count.  At least
 * half of the set `members` must hold, or any one if it is empty.  If too few
 * hold, call ask and return false.
 */
bool fp_lease_holds (struct fp_lease *s, uint64_t servers, uint64_t members);

/* Note that another client has the volume.  by: what a server says of that
 * client, or NULL.
 */
void fp_lease_fence (struct fp_lease *s, const char *by);

static inline bool
fp_lease_is_fenced (const struct fp_lease *s)
{
  return atomic_load (&s->fenced);
}

/* Copy what the first fence that named a client says of it, or "". */
void fp_lease_fenced_by (struct fp_lease *s, char by[FP_STATUS_REASON_MAX]);

#endif /* FP_LEASE_H */
