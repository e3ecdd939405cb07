/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_int.h - what was found out about a volume that is recorded:
 * probe_named.c asks, probe_held.c says whether somebody has it,
 * probe_change.c who is to join and to leave; probe.c does the rest.
 */

#ifndef FP_PROBE_INT_H
#define FP_PROBE_INT_H

#include "volume/volume.h"

/* At one address. */
struct look {
  struct fp_addr addr;
  char where[FP_ADDR_MAX + 1];
  bool named; /* by the user */
  bool answers, knows;
  bool passed_over; /* as if it did not answer: pass_over */
  struct fp_uuid server;
  uint64_t slab_size;
  struct fp_lookup_reply said; /* if it knows the volume */
  char why[FP_WHY_MAX];        /* if it does not answer */
};

struct looks {
  struct fp_volume_params *p;
  struct fp_volume_params was; /* *p, before it was filled in */
  bool again;                  /* resume: it has to be there */
  struct fp_uuid uuid;         /* and be that one, unless nil */
  char title[FP_NAME_MAX + 1]; /* for who reads what is wrong */
  unsigned nr;
  /* The base, with the members of the lists that count beside it
   * (membership.h), which are not current; or NULL.
   */
  const struct fp_members *list;
  struct fp_members merged;
  int base;          /* which look has the base */
  uint64_t believed; /* places in the list */
  bool sure, enough; /* membership.h */
  /* Who of the list is which look, or -1. */
  int at[FP_MAX_MEMBERS];
  unsigned joins[FP_MAX_MEMBERS]; /* which look, behind the list */
  struct look look[2 * FP_MAX_SERVERS];
};

int __attribute__ ((__format__ (__printf__, 3, 4)))
probe_say (int e, char why[FP_WHY_MAX], const char *fmt, ...);
/* The look at this address, or -1. */
int probe_find_addr (const struct looks *all, const char *text);

/* probe.c */

/* It is striped as it was made: that is what has to be meant, if anything was
 * said, and on all servers the same.
 */
int probe_take_stripe (struct fp_volume_params *p,
                       const struct fp_volume_entry *e, const char *where,
                       char why[FP_WHY_MAX]);

/* probe_held.c */

/* -EBUSY: another client has it; with takeover it is noted who. */
int probe_check_attached (const struct looks *all, char why[FP_WHY_MAX]);
/* A server that was away when its client left, or went itself, lets nobody
 * else have the volume before the lease of that one is over.  To wait for that
 * after the fork would be to fail there, unseen: so it is waited for here, if
 * it was said that it is so, and seen if the client comes back.  -EAGAIN: look
 * again; -EBUSY: it takes too long.
 */
int probe_await_fenced (const struct looks *all, uint64_t *deadline,
                        char why[FP_WHY_MAX]);

/* probe_change.c */

/* May k, which is no member, be one of that volume? */
int probe_check_joins (const struct looks *all, const struct look *volume,
                       const struct look *k, char why[FP_WHY_MAX]);
/* Fill p->leaves; then p->joins, and members behind those of the list; then
 * see whether those that are left, without p->away, are enough.
 */
int probe_find_leaves (struct looks *all, char why[FP_WHY_MAX]);
int probe_add_joins (struct looks *all, char why[FP_WHY_MAX]);
int probe_check_left (const struct looks *all, char why[FP_WHY_MAX]);

#endif /* FP_PROBE_INT_H */
