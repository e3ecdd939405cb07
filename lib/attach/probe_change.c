/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_change.c - servers that join a volume with a name, or leave it. */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "attach/probe_int.h"
#include "base/error.h"
#include "base/size.h"
#include "meta/membership.h"

/* Check that the server k can become a member. */
int
probe_check_joins (const struct looks *all, const struct look *volume,
                   const struct look *k, struct fp_error *error)
{
  uint64_t slab_size = volume->said.volume.slab_size;
  char theirs[FP_SIZE_STR_MAX], ours[FP_SIZE_STR_MAX];

  if (k->knows && k->said.volume.slabs > 0)
    return fp_fail (
        error, -EEXIST,
        "server=%s still has extents of volume %s, from when it was one of "
        "its servers: run 'farpage volumes delete' for it, then add it",
        k->where, all->title);
  if (k->slab_size != slab_size) {
    fp_format_size (k->slab_size, theirs);
    fp_format_size (slab_size, ours);
    return fp_fail (error, -EINVAL,
                    "server=%s lends slabs of %s, volume %s has slabs of %s",
                    k->where, theirs, all->title, ours);
  }
  return 0;
}

static bool
is_at (const struct looks *all, uint32_t m, const struct fp_addr *addr)
{
  struct fp_addr a;

  if (all->at[m] >= 0 && fp_addr_eq (&all->look[all->at[m]].addr, addr))
    return true;
  return fp_addr_parse (&a, all->list->members[m].addr, NULL) == 0 &&
         fp_addr_eq (&a, addr);
}

static bool
is_member_at (const struct looks *all, const struct fp_addr *addr)
{
  for (uint32_t m = 0; m < all->list->count; m++)
    if (is_at (all, m, addr))
      return true;
  return false;
}

int
probe_add_joins (struct looks *all, struct fp_error *error)
{
  struct fp_volume_params *p = all->p;
  uint32_t n = all->list->count;

  p->joins = 0;
  for (unsigned i = 0; p->add && i < all->nr; i++) {
    const struct look *k = &all->look[i];

    if (!k->named)
      continue;
    if (!k->answers && is_member_at (all, &k->addr))
      continue;
    if (!k->answers)
      return fp_fail (error, -ENOTCONN, "%s", k->error.text);
    if (fp_membership_find (all->list, &k->server) >= 0)
      continue;
    if (n == FP_MAX_MEMBERS || n == FP_MAX_SERVERS)
      return fp_fail (error, -EINVAL,
                      "volume %s has the maximum number of servers",
                      all->title);
    all->joins[n - all->list->count] = i;
    p->members.members[n] = (struct fp_member) { .server = k->server };
    p->servers[n] = k->addr;
    p->joins |= UINT64_C (1) << n++;
  }
  p->members.count = n;
  return 0;
}

static int
leave (struct looks *all, const struct fp_addr *addr, struct fp_error *error)
{
  char where[FP_ADDR_MAX + 1];
  const struct look *k;
  uint32_t m = 0;

  fp_addr_format (addr, where);
  while (m < all->list->count && !is_at (all, m, addr))
    m++;
  if (m == all->list->count)
    return fp_fail (error, -ENOENT,
                    "remove=%s: is not one of the servers of volume %s", where,
                    all->title);
  k = all->at[m] >= 0 ? &all->look[all->at[m]] : NULL;
  if (k != NULL && k->knows && k->said.volume.slabs > 0)
    return fp_fail (error, -ENOTEMPTY,
                    "remove=%s: holds %" PRIu64
                    " extents of volume %s: move them to the other servers "
                    "first (farpage drain)",
                    where, k->said.volume.slabs, all->title);
  if ((k == NULL || !k->knows) && !all->p->degraded && !all->p->force)
    return fp_fail (
        error, -ENOTCONN,
        "remove=%s: does not answer, or no longer knows the volume: data that "
        "only it has would be lost: give degraded=true to accept that",
        where);
  all->p->leaves |= UINT64_C (1) << m;
  return 0;
}

/* Return true if member m was replaced: its server came back empty.  The
 * server joins as another member, and member m leaves.
 */
static bool
is_replaced (const struct looks *all, uint32_t m)
{
  int there = probe_find_addr (all, all->list->members[m].addr);

  return all->p->add && all->at[m] < 0 && there >= 0 &&
         all->look[there].named && all->look[there].answers;
}

int
probe_find_leaves (struct looks *all, struct fp_error *error)
{
  struct fp_volume_params *p = all->p;
  int r = 0;

  p->leaves = 0;
  for (unsigned i = 0; r == 0 && i < p->nr_remove; i++)
    r = leave (all, &p->remove[i], error);
  for (uint32_t m = 0; r == 0 && m < all->list->count; m++)
    if (is_replaced (all, m))
      p->leaves |= UINT64_C (1) << m;
  return r;
}

/* Check that the servers here are not outdated: if too many current members
 * are away, the missing ones may have gone on by themselves.  A member that
 * leaves counts as away, unless force=true says that it never comes back.
 */
static int
check_newest (const struct looks *all, unsigned current, unsigned away,
              struct fp_error *error)
{
  const struct fp_volume_params *p = all->p;
  bool few = away > 0 && fp_membership_may_shrink (current, away, p->copies);

  if ((!few && all->enough) || (p->force && (p->away & ~p->leaves) == 0))
    return 0;
  if (!all->enough)
    return fp_fail (
        error, -EROFS, FP_TOO_FEW_LISTS_WHY "%s", all->title,
        p->name[0] == '\0'
            ? ""
            : ", or, if they are gone for good, give remove=ADDR force=true");
  if (p->name[0] == '\0')
    return fp_fail (error, -EROFS,
                    "volume %s: too many of its servers are down, or have "
                    "lost it, so the copies found may be old: start one "
                    "more of them, with its data",
                    all->title);
  if (p->copies > 1)
    return fp_fail (error, -EROFS,
                    "volume %s: too many of its servers are down, so the "
                    "copies found may be old: start one more of them, or, "
                    "if they are gone for good, give remove=ADDR "
                    "force=true",
                    all->title);
  if (p->leaves == 0)
    return 0; /* go on frozen: see meta_log.h */
  return fp_fail (error, -EROFS,
                  "volume %s: too few of the remaining servers know which "
                  "extents exist: copy what can be read (degraded=true) to "
                  "another volume, or give force=true if the removed "
                  "servers are gone for good",
                  all->title);
}

/* Check the members that stay, if others leave.  A staying member must know
 * which extents exist, because a leaving one may have known.  All staying
 * members must be here, so that none comes back later with outdated knowledge.
 */
int
probe_check_left (const struct looks *all, struct fp_error *error)
{
  const struct fp_volume_params *p = all->p;
  unsigned current = 0, away = 0, stay = 0;

  for (uint32_t m = 0; m < all->list->count; m++) {
    if (p->leaves != 0 && ((p->away & ~p->leaves) >> m & 1))
      return fp_fail (error, -ENOTCONN,
                      "a server of volume %s can only be replaced or removed "
                      "while all the others are up: %s does not answer",
                      all->title, all->list->members[m].addr);
    if (!all->list->members[m].current)
      continue;
    current++;
    away += p->away >> m & 1;
    stay += (all->believed & ~p->leaves) >> m & 1;
  }
  if (stay == 0 && (all->enough || p->force))
    return fp_fail (error, -EROFS,
                    "volume %s: none of the remaining servers knows which "
                    "extents exist: copy what can be read%s to another "
                    "volume",
                    all->title, p->copies > 1 ? "" : " (degraded=true)");
  return check_newest (all, current, away, error);
}
