/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_change.c - who joins a volume with a name, and who leaves it.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "attach/probe_int.h"
#include "base/size.h"
#include "meta/membership.h"
#include "volume/volume_int.h"

/* It is to be a member. */
int
probe_check_joins (const struct looks *all, const struct look *volume,
                   const struct look *k, char why[FP_WHY_MAX])
{
  uint64_t slab_size = volume->said.volume.slab_size;
  char theirs[FP_SIZE_STR_MAX], ours[FP_SIZE_STR_MAX];

  if (k->knows && k->said.volume.slabs > 0)
    return probe_say (
        -EEXIST, why,
        "server=%s has pieces of volume %s of a time when it was one "
        "of its servers: start it anew, without them",
        k->where, all->title);
  if (k->slab_size != slab_size) {
    fp_format_size (k->slab_size, theirs);
    fp_format_size (slab_size, ours);
    return probe_say (-EINVAL, why,
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
probe_add_joins (struct looks *all, char why[FP_WHY_MAX])
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
      return probe_say (-ENOTCONN, why, "%s", k->why);
    if (fp_membership_find (all->list, &k->server) >= 0)
      continue;
    if (n == FP_MAX_MEMBERS || n == FP_MAX_SERVERS)
      return probe_say (-EINVAL, why,
                        "volume %s has as many servers as it can", all->title);
    all->joins[n - all->list->count] = i;
    p->members.members[n] = (struct fp_member) { .server = k->server };
    p->servers[n] = k->addr;
    p->joins |= UINT64_C (1) << n++;
  }
  p->members.count = n;
  return 0;
}

static int
leave (struct looks *all, const struct fp_addr *addr, char why[FP_WHY_MAX])
{
  char where[FP_ADDR_MAX + 1];
  const struct look *k;
  uint32_t m = 0;

  fp_addr_format (addr, where);
  while (m < all->list->count && !is_at (all, m, addr))
    m++;
  if (m == all->list->count)
    return probe_say (-ENOENT, why,
                      "remove=%s: it is not one of the servers of volume %s",
                      where, all->title);
  k = all->at[m] >= 0 ? &all->look[all->at[m]] : NULL;
  if (k != NULL && k->knows && k->said.volume.slabs > 0)
    return probe_say (-ENOTEMPTY, why,
                      "remove=%s: it holds %" PRIu64
                      " pieces of volume %s: move "
                      "them to the others first (farpage drain)",
                      where, k->said.volume.slabs, all->title);
  if ((k == NULL || !k->knows) && !all->p->degraded && !all->p->force)
    return probe_say (
        -ENOTCONN, why,
        "remove=%s: it does not answer, and what only it has will be "
        "lost for good: with degraded=true that is meant",
        where);
  all->p->leaves |= UINT64_C (1) << m;
  return 0;
}

/* A server that came back with nothing joins as another one, and the one that
 * it was leaves.
 */
static bool
is_replaced (const struct looks *all, uint32_t m)
{
  int there = probe_find_addr (all, all->list->members[m].addr);

  return all->p->add && all->at[m] < 0 && there >= 0 &&
         all->look[there].named && all->look[there].answers;
}

int
probe_find_leaves (struct looks *all, char why[FP_WHY_MAX])
{
  struct fp_volume_params *p = all->p;
  int r = 0;

  p->leaves = 0;
  for (unsigned i = 0; r == 0 && i < p->nr_remove; i++)
    r = leave (all, &p->remove[i], why);
  for (uint32_t m = 0; r == 0 && m < all->list->count; m++)
    if (is_replaced (all, m))
      p->leaves |= UINT64_C (1) << m;
  return r;
}

/* So many current members are away that they could have gone on by themselves,
 * and those that are here are what was left behind.  Those that leave for good
 * are away, too, unless force=true says that they never come back.
 */
static int
check_newest (const struct looks *all, unsigned current, unsigned away,
              char why[FP_WHY_MAX])
{
  const struct fp_volume_params *p = all->p;
  bool few = away > 0 && fp_membership_may_shrink (current, away, p->copies);

  if ((!few && all->enough) || (p->force && (p->away & ~p->leaves) == 0))
    return 0;
  if (!all->enough)
    return probe_say (
        -EROFS, why, FP_TOO_FEW_LISTS_WHY "%s", all->title,
        p->name[0] == '\0'
            ? ""
            : ", or, if they are gone for good, remove= them with force=true");
  if (p->name[0] == '\0')
    return probe_say (-EROFS, why,
                      "volume %s: so many of its servers are away, or have "
                      "forgotten it, that the copies that are here may be "
                      "old: start one more of them, with what it had",
                      all->title);
  if (p->copies > 1)
    return probe_say (-EROFS, why,
                      "volume %s: so many of its servers are away that the "
                      "copies that are here may be old: start one more of "
                      "them, or, if they are gone for good, remove= them with "
                      "force=true",
                      all->title);
  if (p->leaves == 0)
    return 0; /* what can be read is: meta_log.h, 'frozen' */
  return probe_say (-EROFS, why,
                    "volume %s: too few of the servers that stay know which "
                    "pieces exist: copy what can be read (degraded=true) to "
                    "another volume, or say with force=true that those that "
                    "leave are dead for good",
                    all->title);
}

/* One that is gone for good may be the one that knows: who stays has to.  All
 * of them are here, so that nobody comes later with what is not so any more.
 */
int
probe_check_left (const struct looks *all, char why[FP_WHY_MAX])
{
  const struct fp_volume_params *p = all->p;
  unsigned current = 0, away = 0, stay = 0;

  for (uint32_t m = 0; m < all->list->count; m++) {
    if (p->leaves != 0 && ((p->away & ~p->leaves) >> m & 1))
      return probe_say (
          -ENOTCONN, why,
          "a server of volume %s can only be replaced or removed "
          "while all the others are there: %s does not answer",
          all->title, all->list->members[m].addr);
    if (!all->list->members[m].current)
      continue;
    current++;
    away += p->away >> m & 1;
    stay += (all->believed & ~p->leaves) >> m & 1;
  }
  if (stay == 0 && (all->enough || p->force))
    return probe_say (-EROFS, why,
                      "volume %s: none of the servers that stay knows which "
                      "pieces exist: copy what can be read%s to another "
                      "volume",
                      all->title, p->copies > 1 ? "" : " (degraded=true)");
  return check_newest (all, current, away, why);
}
