/* SPDX-License-Identifier: BSD-3-Clause */
/* guard.c - what a session may do. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/checked.h"
#include "base/log.h"
#include "base/size.h"
#include "memserver/session/call.h"
#include "memserver/session/guard.h"
#include "memserver/session/session.h"
#include "memserver/store/record.h"
#include "memserver/store/records.h"

/* ---- identity ---- */

static struct who
who_is (const struct session *s)
{
  struct who w = { .kind = WHO_ANONYMOUS };

  if (conn_is_unix (s->conn)) {
    /* The kernel did not name the user: the file has no such identity. */
    w.kind = s->origin.family == AF_UNIX ? WHO_USER : WHO_NOBODY;
    memcpy (&w.uid, s->origin.addr, sizeof w.uid);
  }
  else if (conn_user (s->conn)[0] != '\0') {
    w.kind = WHO_TLS;
    snprintf (w.name, sizeof w.name, "%s", conn_user (s->conn));
  }
  return w;
}

int
guard_hello (struct call *call)
{
  struct session *s = call->session;
  char who[WHO_STR_MAX];

  s->who = who_is (s);
  if (access_find (s->sessions->access, &s->who))
    return 0;
  who_format (&s->who, who);
  return ctl_fail (call, -EPERM, "%s may not use this server (--access)", who);
}

bool
guard_is_same (const struct session *s, const struct session *owner)
{
  const struct who who = who_is (s);

  /* who_eq never matches WHO_NOBODY, but here two of them are alike. */
  if (owner->conn && conn_is_tls (owner->conn) != conn_is_tls (s->conn))
    return false;
  return who_eq (&who, &owner->who) ||
         (who.kind == WHO_NOBODY && owner->who.kind == WHO_NOBODY);
}

const struct access_rights *
guard_rights (const struct session *s)
{
  const struct access_rights *r = access_find (s->sessions->access, &s->who);

  return r ? r : &access_nobody;
}

/* ---- volumes ---- */

static enum access_level
level (const struct session *s, const struct record *rec)
{
  return access_to (guard_rights (s), rec->name, &rec->owner);
}

bool
guard_sees (const struct session *s, const struct record *rec)
{
  return rec && access_sees (guard_rights (s), rec->name, &rec->owner);
}

bool
guard_lists (const struct session *s, const struct record *rec)
{
  return access_lists (guard_rights (s), rec->name, &rec->owner);
}

static int
refuse (struct call *call, const char *name, const char *what)
{
  char who[WHO_STR_MAX];

  who_format (&call->session->who, who);
  return ctl_fail (call, -EPERM, "volume %s: %s %s", name, who, what);
}

bool
guard_had_last (const struct session *s, const struct record *rec)
{
  return fp_uuid_eq (&rec->holder_uuid, &s->client) &&
         (!s->sessions->access || rec->holder_who.kind == WHO_NOBODY ||
          who_eq (&rec->holder_who, &s->who));
}

struct record *
guard_hide_orphan (const struct session *s, struct record *rec)
{
  bool known;

  if (!rec || !record_is_orphan (rec))
    return rec;
  /* A session that got no key does not change which client may come back. */
  known = guard_had_last (s, rec) || fp_uuid_eq (&rec->user, &s->client) ||
          record_is_former (rec, &s->client); /* told that it is one */
  return known && !fp_uuid_is_nil (&s->client) ? rec : NULL;
}

struct record *
guard_find (const struct session *s, const struct fp_uuid *uuid)
{
  return guard_hide_orphan (s, records_find (s->sessions->records, uuid));
}

bool
guard_is_stranger (const struct session *s, const struct record *rec)
{
  return s->sessions->access &&
         (s->read_only || (rec->holder_who.kind != WHO_NOBODY &&
                           !who_eq (&rec->holder_who, &s->who)));
}

int
guard_open (struct call *call, const struct fp_open *q, bool *read_only)
{
  const struct session *s = call->session;
  const struct access_rights *rights = guard_rights (s);
  const struct record *rec = records_find (s->sessions->records, &q->volume);
  bool is_there = guard_find (s, &q->volume) != NULL;
  enum access_level l = access_to (rights, q->name, &s->who), of_record;
  char title[FP_NAME_MAX + 1];

  if (q->name[0] != '\0')
    snprintf (title, sizeof title, "%s", q->name);
  else
    fp_uuid_format (&q->volume, title);
  if (rec && l != ACCESS_NONE) {
    of_record = level (s, rec);
    /* A new volume replaces another client's orphan: check the rights to both.
     */
    l = is_there ? of_record : FP_MIN (l, of_record);
  }
  if (l == ACCESS_NONE)
    return q->flags & FP_OPEN_CREATE
               ? refuse (call, title, "may not use it")
               : ctl_fail (call, -ENOENT, "no such volume on this server");
  *read_only = (q->flags & FP_OPEN_READ_ONLY) != 0;
  if (!is_there && (q->flags & FP_OPEN_CREATE) &&
      (l == ACCESS_READ || *read_only))
    return refuse (call, title, "may not create it, only read it");
  if (l == ACCESS_READ && !*read_only)
    return refuse (call, title, "may only read it");
  if ((q->flags & FP_OPEN_TAKEOVER) && !rights->may_take_over)
    return refuse (call, title, "may not take it over");
  return 0;
}

bool
guard_gives_way (const struct session *s)
{
  return s->read_only && level (s, s->record) != ACCESS_WRITE;
}

bool
guard_comes_first (const struct session *s, const struct record *rec)
{
  return rec->holder && guard_gives_way (rec->holder) &&
         level (s, rec) == ACCESS_WRITE;
}

void
guard_opened (struct session *s)
{
  const struct access *a = s->sessions->access;

  if (a && !s->read_only && !access_find (a, &s->record->owner))
    record_own (s->record, &s->who);
}

int
guard_change (struct call *call)
{
  char title[FP_NAME_MAX + 1];

  if (!call->session->read_only)
    return 0;
  record_title (call->session->record, title);
  return refuse (call, title, "may only read it");
}

int
guard_delete (struct call *call, const struct record *rec)
{
  char title[FP_NAME_MAX + 1];

  if (guard_rights (call->session)->may_delete &&
      level (call->session, rec) != ACCESS_READ)
    return 0;
  record_title (rec, title);
  return refuse (call, title, "may not delete it");
}

/* Check BYE with discard.  A volume that holds nothing here may go without the
 * right to delete: a client does that at a server that it leaves.
 */
int
guard_discard (struct call *call)
{
  const struct record *rec = call->session->record;
  int r = guard_change (call);

  if (r < 0 || !rec->kept)
    return r;
  for (uint32_t i = 0; i < rec->nr_slabs; i++)
    if (rec->slabs[i]->label.extent != FP_EXTENT_NONE)
      return guard_delete (call, rec);
  return 0;
}

/* ---- quotas ---- */

uint64_t
guard_lent (const struct sessions *all, const struct who *owner,
            unsigned *volumes)
{
  const struct record *rec;
  uint64_t slabs = 0;

  *volumes = 0;
  TAILQ_FOREACH (rec, &all->records->list, entry)
  {
    if (!who_eq (&rec->owner, owner))
      continue;
    slabs += rec->nr_slabs;
    ++*volumes;
  }
  return slabs;
}

/* Limit the number of volumes: an empty one costs no quota. */
int
guard_make (struct call *call)
{
  const struct session *s = call->session;
  char who[WHO_STR_MAX];
  unsigned volumes;

  if (!s->sessions->access)
    return 0;
  do {
    (void) guard_lent (s->sessions, &s->who, &volumes);
    if (volumes < MAX_RECORDS_OWNER)
      return 0;
  } while (records_reclaim (s->sessions->records, &s->who, RECLAIM_ANY) >= 0);
  who_format (&s->who, who);
  return ctl_fail (call, -ENOSPC,
                   "%s has %u volumes on this server, which is the limit: "
                   "delete some",
                   who, volumes);
}

/* Return the identity whose quota counts. */
static const struct who *
payer (const struct session *s)
{
  return s->record && s->record->owner.kind != WHO_NOBODY ? &s->record->owner
                                                          : &s->who;
}

int
guard_map (struct call *call, const struct record *rec)
{
  const struct session *s = call->session;
  const struct record *other;
  char who[WHO_STR_MAX];
  uint64_t words, fixed;

  if (!s->sessions->access || !record_has_map (rec))
    return 0;
  do {
    words = fixed = record_map_words (rec);
    TAILQ_FOREACH (other, &s->sessions->records->list, entry)
    if (other->map && who_eq (&other->owner, &s->who)) {
      words += record_map_words (other);
      fixed += record_is_orphan (other) ? 0 : record_map_words (other);
    }
    if (words <= MAX_MAP_WORDS_OWNER)
      return 0;
  } while (fixed <= MAX_MAP_WORDS_OWNER &&
           records_reclaim (s->sessions->records, &s->who, RECLAIM_MAP) >= 0);
  who_format (&s->who, who);
  return ctl_fail (call, -ENOSPC,
                   "no room for its map: the maps of %s may take %u MiB on "
                   "this server: delete volumes",
                   who, MAX_MAP_WORDS_OWNER >> 17);
}

struct guard_room
guard_room (const struct session *s)
{
  const struct who *owner = payer (s);
  const struct access_rights *r = access_find (s->sessions->access, owner);
  struct guard_room room = { UINT64_MAX, UINT64_MAX };
  unsigned volumes;
  uint64_t lent;

  if (!r)
    return (struct guard_room) { 0, 0 };
  if (r->quota == UINT64_MAX)
    return room;
  lent = guard_lent (s->sessions, owner, &volumes);
  room.total = r->quota / pool_slab_size (s->sessions->pool);
  room.left = room.total > lent ? room.total - lent : 0;
  return room;
}

uint64_t
guard_free (const struct session *s)
{
  const struct sessions *all = s->sessions;
  const struct guard_room room = guard_room (s);
  uint64_t left = room.left, ready = pool_lendable (all->pool);

  if (all->drain != DRAIN_NOT)
    return 0;
  if (left != UINT64_MAX)
    left = FP_MIN (left + records_reclaimable (all->records, payer (s)),
                   room.total);
  return FP_MIN (left, ready + records_reclaimable (all->records, NULL));
}

/* Forget an orphan of the identity that pays, if a slab can be granted then.
 * Return false if that does not help.
 */
static bool
free_quota (const struct session *s, uint64_t quota)
{
  struct sessions *all = s->sessions;
  enum reclaim what =
      pool_lendable (all->pool) > 0 ? RECLAIM_SLABS : RECLAIM_LENDABLE;
  const struct record *rec;
  uint64_t in_use = 0;

  TAILQ_FOREACH (rec, &all->records->list, entry)
  if (who_eq (&rec->owner, payer (s)) && !record_is_orphan (rec))
    in_use += rec->nr_slabs;
  if (in_use >= quota)
    return false;
  return records_reclaim (all->records, payer (s), what) >= 0;
}

int
guard_grant (struct call *call, bool ahead)
{
  const struct session *s = call->session;
  struct guard_room room;
  const struct access_rights *r;
  char who[WHO_STR_MAX], quota[FP_SIZE_STR_MAX], has[FP_SIZE_STR_MAX];
  unsigned volumes;
  uint64_t lent;

  do {
    room = guard_room (s);
    if (room.left > 0)
      return 0;
  } while (!ahead && free_quota (s, room.total));
  r = access_find (s->sessions->access, payer (s));
  lent = guard_lent (s->sessions, payer (s), &volumes);
  who_format (payer (s), who);
  fp_format_size (r ? r->quota : 0, quota);
  fp_format_size (lent * pool_slab_size (s->sessions->pool), has);
  return ctl_fail (call, -ENOSPC,
                   "the quota of %s is %s here, and %s of it is lent, to %u "
                   "volumes",
                   who, quota, has, volumes);
}

void
guard_log (const struct sessions *all)
{
  uint64_t size = pool_slab_size (all->pool);

  for (unsigned i = 0; all->access && i < access_count (all->access); i++) {
    const struct access_rights *r = access_at (all->access, i);
    char who[WHO_STR_MAX], lent[FP_SIZE_STR_MAX], quota[FP_SIZE_STR_MAX];
    unsigned volumes;

    fp_format_size (guard_lent (all, &r->who, &volumes) * size, lent);
    fp_format_size (r->quota, quota);
    who_format (&r->who, who);
    fp_log (FP_LOG_INFO, "%s: %s lent to %u volumes%s%s", who, lent, volumes,
            r->quota == UINT64_MAX ? "" : ", quota ",
            r->quota == UINT64_MAX ? "" : quota);
  }
}
