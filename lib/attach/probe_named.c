/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_named.c - find a recorded volume.  Ask the servers that the user
 * named, then those that these name.  A volume without a name is found by its
 * UUID, to be resumed.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/probe_int.h"
#include "attach/probe_named.h"
#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/size.h"
#include "meta/membership.h"
#include "peer/session.h"
#include "transport/tls/tls.h"

#define PROBE_MS 3000 /* least timeout for one server */
/* How long a server may need to notice that the last client was killed. */
#define ATTACHED_MS 2000
#define ATTACHED_STEP_MS 100

/* Return true if the volume may be attached although servers are missing.  If
 * the volume has no name, a resume has no other way, and there is no user who
 * could say degraded=true.
 */
static bool
may_do_without (const struct looks *all)
{
  return all->p->degraded || all->p->name[0] == '\0';
}

static void
look_at (struct looks *all, const struct fp_addr *addr, bool named,
         const struct fp_uuid *uuid)
{
  struct look *k = &all->look[all->nr++];
  char where[FP_ADDR_MAX + 1];
  unsigned ms = FP_MAX (all->p->timeout_ms, (unsigned) PROBE_MS);
  uint64_t deadline = fp_deadline_in_ms (ms);
  struct fp_lookup q = { .name = "" };
  struct fp_bye bye = { .discard = false };
  struct fp_session s;
  int r;

  memset (k, 0, sizeof *k);
  k->addr = *addr;
  k->named = named;
  fp_addr_format (addr, where);
  memcpy (k->where, where, sizeof where);
  r = fp_session_open (&s, all->p, addr, probe_client (all->p), deadline,
                       &k->error);
  if (r < 0)
    return;
  k->server = s.hello.server;
  k->slab_size = s.hello.slab_size;
  if (uuid != NULL)
    q.volume = *uuid;
  else
    memcpy (q.name, all->p->name, sizeof q.name);
  r = fp_ctl_lookup (s.ctl, &q, &k->said, deadline);
  k->knows = r == 0;
  k->answers = r == 0 || r == -ENOENT;
  if (!k->answers)
    fp_fail (&k->error, r, "%s: %s", where, fp_ctl_why (s.ctl));
  else
    /* If this fails, the server still notices that the connection ends. */
    (void) fp_ctl_bye (s.ctl, &bye, deadline);
  fp_session_close (&s);
}

static const struct look *
find_knows (const struct looks *all)
{
  for (unsigned i = 0; i < all->nr; i++)
    if (all->look[i].knows)
      return &all->look[i];
  return NULL;
}

/* ---- checks of the servers that were named ---- */

static int
check_twice (const struct looks *all, struct fp_error *error)
{
  for (unsigned i = 0; i < all->nr; i++)
    for (unsigned j = 0; j < i; j++)
      if (all->look[i].answers && all->look[j].answers &&
          fp_uuid_eq (&all->look[i].server, &all->look[j].server))
        return fp_fail (error, -EINVAL,
                        "server=%s and server=%s are the same server: name it "
                        "once",
                        all->look[j].where, all->look[i].where);
  return 0;
}

static int
check_same_volume (const struct looks *all, struct fp_error *error)
{
  const struct look *a = find_knows (all);
  char one[FP_UUID_STR_MAX], other[FP_UUID_STR_MAX];

  for (unsigned i = 0; i < all->nr; i++) {
    const struct look *b = &all->look[i];

    if (!b->knows || fp_uuid_eq (&a->said.volume.uuid, &b->said.volume.uuid))
      continue;
    fp_uuid_format (&a->said.volume.uuid, one);
    fp_uuid_format (&b->said.volume.uuid, other);
    return fp_fail (error, -EEXIST,
                    "the name %s is used by two volumes: %s on %s, %s on %s",
                    all->title, one, a->where, other, b->where);
  }
  return 0;
}

static const char *
size_text (uint64_t size, char out[FP_SIZE_STR_MAX])
{
  fp_format_size (size, out);
  return out;
}

static int
check_shape (const struct looks *all, struct fp_error *error)
{
  struct fp_volume_params *p = all->p;
  char a[FP_SIZE_STR_MAX], b[FP_SIZE_STR_MAX];
  int r;

  for (unsigned i = 0; i < all->nr; i++) {
    const struct fp_volume_entry *v = &all->look[i].said.volume;

    if (!all->look[i].knows)
      continue;
    if (v->ephemeral != (p->name[0] == '\0'))
      return fp_fail (error, -EEXIST,
                      v->ephemeral
                          ? "%s: its volume %s is ephemeral, and cannot "
                            "be attached by a name"
                          : "%s: its volume %s has a name: attach it by "
                            "its name",
                      all->look[i].where, all->title);
    if (p->size != 0 && v->size != p->size)
      return fp_fail (error, -EINVAL,
                      "size: volume %s has %" PRIu64
                      " bytes (%s, on %s), not %" PRIu64
                      " (%s): omit size= to attach it",
                      all->title, v->size, size_text (v->size, a),
                      all->look[i].where, p->size, size_text (p->size, b));
    if (p->slab_size != 0 && v->slab_size != p->slab_size)
      return fp_fail (error, -EINVAL,
                      "slab: volume %s has slabs of %s (on %s), not of %s",
                      all->title, size_text (v->slab_size, a),
                      all->look[i].where, size_text (p->slab_size, b));
    if (p->copies != 0 && v->copies != p->copies)
      return fp_fail (error, -EINVAL,
                      "copies: volume %s has %u of each extent (on %s), not "
                      "%u: omit copies= to attach it",
                      all->title, (unsigned) v->copies, all->look[i].where,
                      p->copies);
    if (v->copies > FP_MAX_COPIES)
      return fp_fail (error, -EPROTO, "%s: sent an invalid volume: %u copies",
                      all->look[i].where, (unsigned) v->copies);
    p->copies = v->copies;
    r = probe_take_stripe (p, v, all->look[i].where, error);
    if (r < 0)
      return r;
    if (v->size == 0 || v->size % 512 != 0)
      return fp_fail (error, -EPROTO,
                      "%s: sent an invalid volume: %" PRIu64 " bytes",
                      all->look[i].where, v->size);
  }
  return 0;
}

/* ---- the list of members ---- */

static void
see_lists (const struct looks *all, struct fp_seen seen[2 * FP_MAX_SERVERS])
{
  for (unsigned i = 0; i < all->nr; i++)
    seen[i] = (struct fp_seen) {
      .server = &all->look[i].server,
      .list = all->look[i].knows && !all->look[i].passed_over
                  ? &all->look[i].said.members
                  : NULL,
    };
}

/* Return the place of the list's member at this address, or count. */
static uint32_t
find_place (const struct fp_members *list, const char *addr)
{
  uint32_t m = 0;

  while (m < list->count && strcmp (list->members[m].addr, addr) != 0)
    m++;
  return m;
}

/* Add the members of another list, as not current.  They may know of a later
 * list, or have extents.  Skip a member whose address is in the list already:
 * that server came back empty.  If a complete list had named it, the base
 * would name it too.
 */
static void
merge (struct fp_members *list, const struct fp_members *other)
{
  for (uint32_t m = 0; m < other->count && list->count < FP_MAX_MEMBERS; m++)
    if (fp_membership_find (list, &other->members[m].server) < 0 &&
        find_place (list, other->members[m].addr) == list->count) {
      list->members[list->count] = other->members[m];
      list->members[list->count++].current = false;
    }
}

static void
choose_list (struct looks *all)
{
  struct fp_seen seen[2 * FP_MAX_SERVERS];
  unsigned base, copies;

  see_lists (all, seen);
  all->list = NULL;
  all->base = fp_membership_best (seen, all->nr);
  if (all->base < 0)
    return;
  base = (unsigned) all->base;
  copies = all->look[base].said.volume.copies;
  all->believed = fp_membership_believed (seen, all->nr, base, copies);
  all->enough = fp_membership_enough (seen, all->nr, base, copies);
  all->sure = fp_membership_is_sure (seen, all->nr, base, copies);
  all->merged = *seen[base].list;
  for (unsigned i = 0; i < all->nr && !all->sure; i++)
    if (seen[i].list != NULL &&
        fp_membership_counts (seen[base].list, seen[i].list))
      merge (&all->merged, seen[i].list);
  all->list = &all->merged;
  for (uint32_t m = 0; m < all->list->count; m++) {
    all->at[m] = -1;
    for (unsigned i = 0; i < all->nr; i++)
      if (all->look[i].answers &&
          fp_uuid_eq (&all->look[i].server, &all->list->members[m].server))
        all->at[m] = (int) i;
  }
}

int
probe_find_addr (const struct looks *all, const char *text)
{
  struct fp_addr addr;

  if (fp_addr_parse (&addr, text, NULL) < 0)
    return -1;
  for (unsigned i = 0; i < all->nr; i++)
    if (fp_addr_eq (&all->look[i].addr, &addr))
      return (int) i;
  return -1;
}

/* Ask members that were not named, at their last known address.  Return true
 * if any was asked, which may know of another list.
 */
static bool
ask_members (struct looks *all, const struct fp_uuid *uuid)
{
  bool any = false;

  for (uint32_t m = 0; m < all->list->count; m++) {
    const char *text = all->list->members[m].addr;
    struct fp_addr addr;

    if (all->at[m] >= 0 || probe_find_addr (all, text) >= 0 ||
        fp_addr_parse (&addr, text, NULL) < 0 || !fp_tls_may_ask (&addr) ||
        all->nr == 2 * FP_MAX_SERVERS)
      continue;
    look_at (all, &addr, false, uuid);
    any = true;
  }
  return any;
}

static void
names_of (const struct fp_members *list, char *buf, size_t size)
{
  size_t n = 0;

  buf[0] = '\0';
  for (uint32_t m = 0; m < list->count && n < size; m++)
    n += (size_t) snprintf (buf + n, size - n, "%s%s", m > 0 ? ", " : "",
                            list->members[m].addr);
}

/* Check that each server that was named is a member, or is at the address of a
 * member that is missing.
 */
static int
check_members (const struct looks *all, struct fp_error *error)
{
  char names[FP_ERROR_MAX / 2];

  for (unsigned i = 0; i < all->nr; i++) {
    const struct look *k = &all->look[i];
    bool known = false;

    if (!k->named || !k->answers ||
        fp_membership_find (all->list, &k->server) >= 0)
      continue;
    if (all->p->add) {
      int r = probe_check_joins (all, find_knows (all), k, error);

      if (r < 0)
        return r;
      continue;
    }
    for (uint32_t m = 0; m < all->list->count; m++)
      known |= all->at[m] < 0 &&
               probe_find_addr (all, all->list->members[m].addr) == (int) i;
    if (known)
      continue;
    names_of (all->list, names, sizeof names);
    return fp_fail (
        error, -EINVAL,
        "server=%s is not one of the servers of volume %s, which are %s: to "
        "add it, give add=true",
        k->where, all->title, names);
  }
  return 0;
}

static int
is_missing (const struct looks *all, uint32_t m, struct fp_error *error)
{
  const char *addr = all->list->members[m].addr;
  int i = all->at[m], there = probe_find_addr (all, addr);
  struct fp_addr listed;

  if (i < 0 && there < 0 && fp_addr_parse (&listed, addr, NULL) == 0 &&
      !fp_tls_may_ask (&listed))
    return fp_fail (
        error, -EACCES,
        "volume %s: its server %s was not asked: with tls=require a Unix "
        "socket is used only if it is given: give server=%s",
        all->title, addr, addr);
  if (i >= 0)
    return fp_fail (
        error, -ENOENT,
        "%s: no longer knows volume %s: what this server had is lost",
        all->look[i].where, all->title);
  if (there >= 0 && all->look[there].answers)
    return fp_fail (
        error, -ENOENT,
        "%s: restarted without volume %s, or is another server: what it had "
        "is lost, unless the right server is elsewhere (give server=ADDR): "
        "to add this one as new, give server=%s add=true",
        addr, all->title, addr);
  return fp_fail (
      error, -ENOTCONN,
      "volume %s: its server %s does not answer (%s): start it, or give "
      "server=ADDR if it has moved",
      all->title, addr,
      there >= 0 ? all->look[there].error.text
                 : "not an address to connect to");
}

/* Take the failure domains from the user, else from the list.  The servers
 * that were named are the first looks, in the order of the parameters.
 */
static void
take_domains (const struct looks *all, const struct fp_members *list,
              struct fp_volume_params *p)
{
  char given[FP_MAX_SERVERS][FP_NAME_MAX + 1];

  memcpy (given, p->domains, sizeof given);
  for (uint32_t m = 0; m < list->count; m++) {
    int at = all->at[m];
    bool says = at >= 0 && all->look[at].named && given[at][0] != '\0';

    memcpy (p->domains[m], says ? given[at] : list->members[m].domain,
            FP_NAME_MAX + 1);
  }
  for (uint32_t m = list->count; m < p->members.count; m++)
    memcpy (p->domains[m], given[all->joins[m - list->count]],
            FP_NAME_MAX + 1);
}

/* Return true if this server still has its part of the volume.  An unnamed
 * volume is deleted when its lease ends.  A server that got it again later
 * knows it, but has no list of members yet.
 */
static bool
has_all (const struct looks *all, const struct look *k)
{
  return k->knows && (all->p->name[0] != '\0' || k->said.members.version > 0);
}

static bool
is_here (const struct looks *all, uint32_t m)
{
  const struct look *k = all->at[m] >= 0 ? &all->look[all->at[m]] : NULL;

  return k != NULL && has_all (all, k) && !k->passed_over;
}

/* Return true if the servers that are here are enough to attach by the list.
 */
static bool
is_settled (const struct looks *all)
{
  unsigned current = 0, away = 0;
  bool any = false;

  for (uint32_t m = 0; m < all->list->count; m++) {
    current += all->list->members[m].current;
    away += all->list->members[m].current && !is_here (all, m);
    any |= is_here (all, m) && (all->believed >> m & 1);
  }
  return any && all->enough &&
         (away == 0 ||
          !fp_membership_may_shrink (current, away,
                                     all->look[all->base].said.volume.copies));
}

/* If contradictory lists do not allow an attach, treat one server as away if
 * that helps.  That is no less right, because the server could just as well be
 * away.  It gets its list when it comes later (outdo, in meta_log_list.c).
 */
static void
pass_over (struct looks *all)
{
  if (all->enough || all->p->add || all->p->nr_remove > 0)
    return;
  for (unsigned i = 0; i < all->nr; i++) {
    if (!all->look[i].knows)
      continue;
    all->look[i].passed_over = true;
    choose_list (all);
    if (all->list != NULL && is_settled (all))
      return;
    all->look[i].passed_over = false;
  }
  choose_list (all);
}

/* Return the highest version that any server has, whether its list counts or
 * not.
 */
static uint64_t
newest_version (const struct looks *all)
{
  uint64_t version = 0;

  for (unsigned i = 0; i < all->nr; i++)
    if (all->look[i].knows)
      version = FP_MAX (version, all->look[i].said.members.version);
  return version;
}

/* Note the version of the list that each member has now: meta_log_start.c. */
static void
note_versions (const struct looks *all, struct fp_volume_params *p)
{
  for (uint32_t m = 0; m < p->members.count; m++) {
    int at = m < all->list->count ? all->at[m]
                                  : (int) all->joins[m - all->list->count];

    p->had[m] = at >= 0 && all->look[at].knows
                    ? all->look[at].said.members.version
                    : 0;
  }
}

/* Fill p with all servers of an existing volume, and note which are missing.
 */
static int
take_members (struct looks *all, struct fp_error *error)
{
  struct fp_volume_params *p = all->p;
  const struct fp_members *list = all->list;
  bool any = false;
  int r;

  p->members = *list;
  p->believed = all->believed;
  p->sure = all->sure;
  p->enough = all->enough;
  p->newest = newest_version (all);
  r = probe_find_leaves (all, error);
  if (r == 0)
    r = probe_add_joins (all, error);
  if (r < 0)
    return r;
  note_versions (all, p);
  take_domains (all, list, p);
  p->nr_servers = p->members.count;
  p->away = 0;
  for (uint32_t m = 0; m < list->count; m++) {
    int there = probe_find_addr (all, list->members[m].addr);

    if (all->at[m] >= 0 && has_all (all, &all->look[all->at[m]])) {
      p->servers[m] = all->look[all->at[m]].addr;
      if (is_here (all, m))
        any |= all->believed >> m & 1;
      else
        p->away |= UINT64_C (1) << m;
      continue;
    }
    if (is_missing (all, m, error) == -EACCES)
      return -EACCES;
    if (!may_do_without (all) && !(p->leaves >> m & 1))
      return fp_fail (error, -ENOTCONN,
                      "%s; or attach without it with degraded=true: requests "
                      "for data that only it has fail (EIO)",
                      error->text);
    if (there >= 0)
      p->servers[m] = all->look[there].addr;
    else if (fp_addr_parse (&p->servers[m], list->members[m].addr, NULL) < 0)
      return -EPROTO;
    p->away |= UINT64_C (1) << m;
  }
  if (!any && all->enough)
    return fp_fail (
        error, -ENOTCONN,
        "volume %s: none of the servers that know which extents exist "
        "answers: start one of them",
        all->title);
  return probe_check_left (all, error);
}

static int
silent_server (const struct looks *all, struct fp_error *error)
{
  for (unsigned i = 0; i < all->nr; i++)
    if (all->look[i].named && !all->look[i].answers)
      return fp_fail (error, -ENOTCONN, "%s", all->look[i].error.text);
  return 0;
}

/* Begin a volume that does not exist, or was never used. */
static int
begin_volume (struct looks *all, const struct look *known,
              struct fp_error *error)
{
  struct fp_volume_params *p = all->p;
  int r = silent_server (all, error);

  if (r == 0 && (p->add || p->nr_remove > 0))
    return fp_fail (error, -ENOENT,
                    "none of the servers given has volume %s: add= and "
                    "remove= need one that has it",
                    all->title);
  if (r == 0 && p->read_only)
    return fp_fail (error, -ENOENT,
                    known == NULL
                        ? "volume %s not found, and readonly=true creates "
                          "none: is %s one of its servers?"
                        : "volume %s has no data yet (on %s): attach it "
                          "read-write first",
                    all->title, all->look[0].where);
  if (r == 0 && known == NULL && p->takeover)
    return fp_fail (error, -ENOENT,
                    "volume %s not found: is %s one of its servers? To "
                    "create it, omit takeover=",
                    all->title, all->look[0].where);
  if (r < 0)
    return r;
  for (unsigned i = 0; i < all->nr; i++)
    if (all->look[i].knows && all->look[i].said.volume.slabs > 0)
      return fp_fail (
          error, -EIO,
          "%s: has extents of volume %s, but no list of its servers",
          all->look[i].where, all->title);
  if (known == NULL && p->size == 0)
    return fp_fail (error, -ENOENT,
                    "volume %s not found: give size=SIZE to create it",
                    all->title);
  if (known != NULL) {
    p->uuid = known->said.volume.uuid;
    p->size = known->said.volume.size;
  }
  p->members.version = 0;
  p->members.count = 0;
  p->newest = 0;
  return 0;
}

static int
attach (struct looks *all, struct fp_error *error)
{
  struct fp_volume_params *p = all->p;
  const struct look *known;
  int r;

  all->nr = 0;
  for (unsigned i = 0; i < p->nr_servers; i++)
    look_at (all, &p->servers[i], true,
             p->name[0] == '\0' ? &all->uuid : NULL);
  r = check_twice (all, error);
  if (r < 0)
    return r;
  known = find_knows (all);
  if (known == NULL && all->again)
    return silent_server (all, error) < 0
               ? -ENOTCONN
               : fp_fail (
                     error, -ENOENT,
                     "volume %s is gone: it was deleted, or its servers were "
                     "restarted empty",
                     all->title);
  if (known == NULL)
    return begin_volume (all, NULL, error);
  if (all->again && !fp_uuid_is_nil (&all->uuid) &&
      !fp_uuid_eq (&all->uuid, &known->said.volume.uuid))
    return fp_fail (error, -ENOENT,
                    "volume %s is gone: another volume has its name now",
                    all->title);
  r = check_same_volume (all, error);
  if (r < 0)
    return r;
  do
    choose_list (all);
  while (all->list != NULL && ask_members (all, &known->said.volume.uuid));

  r = check_shape (all, error);
  /* On a resume, the attached client may be the one that died before this one.
   * Then OPEN decides.
   */
  if (r == 0 && !all->again)
    r = probe_check_attached (all, error);
  if (r < 0)
    return r;
  if (all->list == NULL)
    return begin_volume (all, known, error);
  pass_over (all);
  r = check_members (all, error);
  if (r == 0)
    r = take_members (all, error);
  if (r < 0)
    return r;
  p->uuid = known->said.volume.uuid;
  p->size = known->said.volume.size;
  p->slab_size = known->said.volume.slab_size;
  p->resume = true;
  return 0;
}

int
fp_probe_named (struct fp_volume_params *p, struct fp_error *error)
{
  FP_CLEANUP (fp_free) struct looks *all = calloc (1, sizeof *all);
  uint64_t deadline = fp_deadline_in_ms (ATTACHED_MS), fenced = 0;
  int r;

  if (all == NULL)
    return fp_fail (error, -ENOMEM, "%s", strerror (ENOMEM));
  all->p = p;
  all->again = p->resume;
  all->uuid = p->uuid;
  fp_volume_title (p, all->title);
  p->resume = false;
  p->away = 0;
  all->was = *p;
  for (;;) {
    r = attach (all, error);
    if (r == 0) {
      r = probe_await_fenced (all, &fenced, error);
      if (r != -EAGAIN)
        return r;
      *p = all->was;
      continue;
    }
    if (r != -EBUSY || fp_deadline_passed (deadline))
      return r;
    poll (NULL, 0, ATTACHED_STEP_MS);
  }
}
