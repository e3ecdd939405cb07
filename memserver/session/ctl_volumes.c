/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl_volumes.c - the messages about the records of volumes: LOOKUP, MEMBERS,
 * MAP, MAP_READ, MAP_WRITE, DELETE, VOLUMES.
 */

#include <config.h>

#include <errno.h>

#include "memserver/session/ctl.h"
#include "memserver/session/guard.h"
#include "memserver/session/session.h"
#include "memserver/store/record.h"
#include "memserver/store/records.h"

int
ctl_lookup (struct call *call)
{
  struct sessions *all = call->session->sessions;
  struct fp_lookup_reply p = { .epoch = 0 };
  const struct record *rec;
  struct fp_lookup q;
  int r = fp_dec_lookup (&call->in, &q);

  if (r < 0)
    return r;
  rec = guard_hide_orphan (call->session,
                           q.name[0] != '\0'
                               ? records_find_name (all->records, q.name)
                               : records_find (all->records, &q.volume));
  if (!guard_sees (call->session, rec))
    return ctl_fail (call, -ENOENT, "no such volume on this server");
  record_describe (rec, &p.volume);
  p.epoch = rec->epoch;
  p.fenced_ms = record_fenced_ms (rec);
  if (guard_comes_first (call->session, rec))
    p.volume.attached = false;
  if (rec->members)
    p.members = *rec->members;
  fp_enc_lookup_reply (&call->out, &p);
  return 0;
}

static int
check_map (struct call *call)
{
  return record_has_map (call->session->record)
             ? 0
             : ctl_fail (call, -EINVAL,
                         "this volume has no name and one copy of each "
                         "extent, so it has no list of servers and no map");
}

int
ctl_members (struct call *call)
{
  struct record *rec = call->session->record;
  struct fp_members q;
  int r = fp_dec_members (&call->in, &q);

  if (r == 0)
    r = check_map (call);
  if (r < 0)
    return r;
  r = record_set_members (rec, &q);
  if (r == -EINVAL)
    return ctl_fail (call, r,
                     "MEMBERS: this server has version %llu of the list, and "
                     "version %llu of the request differs from it",
                     (unsigned long long) rec->members->version,
                     (unsigned long long) q.version);
  return r;
}

static int
map_refused (struct call *call, int err)
{
  const struct record *rec = call->session->record;

  if (err == -EINVAL)
    return ctl_fail (call, err,
                     "the range is not inside the %llu bits of this volume's "
                     "map",
                     (unsigned long long) record_bits (rec));
  return err;
}

int
ctl_map (struct call *call)
{
  struct fp_map_change q;
  int r = fp_dec_map_change (&call->in, &q);

  if (r == 0)
    r = check_map (call);
  if (r < 0)
    return r;
  return map_refused (call, record_map (call->session->record, &q));
}

int
ctl_map_read (struct call *call)
{
  struct fp_map_words p;
  struct fp_map_read q;
  int r = fp_dec_map_read (&call->in, &q);

  if (r == 0)
    r = check_map (call);
  if (r < 0)
    return r;
  record_map_read (call->session->record, &q, &p);
  fp_enc_map_words (&call->out, &p);
  return 0;
}

int
ctl_map_write (struct call *call)
{
  struct fp_map_words q;
  int r = fp_dec_map_words (&call->in, &q);

  if (r == 0)
    r = check_map (call);
  if (r < 0)
    return r;
  return map_refused (call, record_map_write (call->session->record, &q));
}

int
ctl_delete (struct call *call)
{
  struct session *s = call->session;
  struct fp_delete q;
  struct record *rec;
  int r = fp_dec_delete (&call->in, &q);

  if (r < 0)
    return r;
  rec = records_find (s->sessions->records, &q.volume);
  if (!guard_sees (s, rec))
    return ctl_fail (call, -ENOENT, "no such volume on this server");
  r = guard_delete (call, rec);
  if (r < 0)
    return r;
  if (guard_comes_first (s, rec)) {
    session_end (rec->holder, "a client that may write its volume deletes it");
    rec = records_find (s->sessions->records, &q.volume);
    if (!rec)
      return 0; /* the volume went with the session */
  }
  if (rec->holder) {
    if (session_is_leaving (rec->holder) && s->patience != PATIENCE_OVER)
      return CTL_WAIT;
    return ctl_refuse_busy (call, rec);
  }
  record_delete (rec, s->name);
  return 0;
}

int
ctl_volumes (struct call *call)
{
  const struct sessions *all = call->session->sessions;
  struct fp_volumes p = { .total = 0 };
  const struct record *rec;
  struct fp_volumes_req q;
  int r = fp_dec_volumes_req (&call->in, &q);

  if (r < 0)
    return r;
  TAILQ_FOREACH (rec, &all->records->list, entry)
  {
    if (!guard_lists (call->session, rec) || p.total++ < q.start ||
        p.count == FP_MAX_VOLUMES_LISTED)
      continue;
    record_describe (rec, &p.volumes[p.count++]);
  }
  fp_enc_volumes (&call->out, &p);
  return 0;
}
