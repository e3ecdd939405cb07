/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_int.h - what a probe found out about a recorded volume.  probe_named.c
 * asks the servers.  probe_held.c checks whether another client has the
 * volume.  probe_change.c handles servers that join and leave.  probe.c does
 * the rest.
 */

#ifndef FP_PROBE_INT_H
#define FP_PROBE_INT_H

#include "base/error.h"
#include "extent/volume_params.h"

/* The answer of one address. */
struct look {
  struct fp_addr addr;
  char where[FP_ADDR_MAX + 1];
  bool named; /* named by the user */
  bool answers, knows;
  bool passed_over; /* treated as if it did not answer: pass_over */
  struct fp_uuid server;
  uint64_t slab_size;
  struct fp_lookup_reply said; /* valid if it knows the volume */
  struct fp_error error;       /* set if it does not answer */
};

struct looks {
  struct fp_volume_params *p;
  struct fp_volume_params was; /* *p, before it was filled in */
  bool again;                  /* on a resume: the volume must exist */
  struct fp_uuid uuid;         /* and must have this UUID, unless nil */
  char title[FP_NAME_MAX + 1]; /* for messages */
  unsigned nr;
  /* The base, plus the members of the lists that count beside it
   * (membership.h), which are not current.  NULL: none.
   */
  const struct fp_members *list;
  struct fp_members merged;
  int base;          /* index of the look that has the base */
  uint64_t believed; /* set of places in the list */
  bool sure, enough; /* membership.h */
  /* For each member of the list the index of its look, or -1. */
  int at[FP_MAX_MEMBERS];
  /* looks of the servers that join */
  unsigned joins[FP_MAX_MEMBERS];
  struct look look[2 * FP_MAX_SERVERS];
};

/* Return the index of the look at this address, or -1. */
int probe_find_addr (const struct looks *all, const char *text);

/* probe.c */

/* Return the client's UUID for HELLO; NULL: a random one.  A client with a
 * random one would have to wait for the lease of this one.  Servers would not
 * tell it of a volume whose lease is over.
 */
const struct fp_uuid *probe_client (const struct fp_volume_params *p);

/* Take over the striping of an existing volume.  Return -EINVAL if the user,
 * or another server, gave another striping.
 */
int probe_take_stripe (struct fp_volume_params *p,
                       const struct fp_volume_entry *e, const char *where,
                       struct fp_error *error);

/* probe_held.c */

/* Return -EBUSY if another client has the volume.  With takeover, note its
 * name in p instead.
 */
int probe_check_attached (const struct looks *all, struct fp_error *error);
/* Wait until the lease of the last client ends.  A server that was away when
 * that client left, or that restarted, gives the volume to no other client
 * before that.  A wait after the fork could fail unseen.  So wait here, after
 * p->waits has told the user.  Return -EAGAIN to ask the servers again, which
 * shows if the client comes back.  Return -EBUSY if the wait takes too long.
 */
int probe_await_fenced (const struct looks *all, uint64_t *deadline,
                        struct fp_error *error);

/* probe_change.c */

/* Check that k, which is no member, may become a member of that volume. */
int probe_check_joins (const struct looks *all, const struct look *volume,
                       const struct look *k, struct fp_error *error);
/* Fill p->leaves.  Then fill p->joins, and add members behind those of the
 * list.  Then check that the members that stay, without p->away, are enough.
 */
int probe_find_leaves (struct looks *all, struct fp_error *error);
int probe_add_joins (struct looks *all, struct fp_error *error);
int probe_check_left (const struct looks *all, struct fp_error *error);

#endif /* FP_PROBE_INT_H */
