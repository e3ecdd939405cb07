/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl_session.c - the messages that begin and end sessions and connections:
 * HELLO, OPEN, PING, BYE, TOKEN, JOIN and DATA_HELLO.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/log.h"
#include "memserver/session/ctl.h"
#include "memserver/session/data.h"
#include "memserver/session/drain.h"
#include "memserver/session/guard.h"
#include "memserver/session/rdma.h"
#include "memserver/session/session.h"
#include "memserver/store/persist.h"
#include "memserver/store/record.h"
#include "memserver/store/records.h"
#include "transport/tls/join_token.h"
#include "transport/tls/psk_file.h"
#include "transport/tls/tls.h"

int
ctl_hello (struct call *call)
{
  struct session *s = call->session;
  struct sessions *all = s->sessions;
  struct fp_hello q;
  struct fp_hello_reply p = { .version = FP_VERSION };
  struct guard_room room;
  unsigned nr_data;
  int r = fp_dec_hello (&call->in, &q);

  if (r < 0)
    return r;
  if (q.version_min > FP_VERSION || q.version_max < FP_VERSION)
    return ctl_fail (call, -EPROTONOSUPPORT,
                     "this server speaks version %d of the protocol, not "
                     "%u to %u",
                     FP_VERSION, q.version_min, q.version_max);
  if (all->nr >= MAX_SESSIONS)
    return ctl_fail (call, -EBUSY, "%u sessions are open, which is the limit",
                     all->nr);
  if (sessions_of_origin (all, &s->origin, &nr_data) >= MAX_SESSIONS_ORIGIN)
    return ctl_fail (call, -EBUSY,
                     "%u sessions are open from this address, which is the "
                     "limit for one client host",
                     MAX_SESSIONS_ORIGIN);

  r = guard_hello (call);
  if (r < 0)
    return r;

  p.transports = FP_TRANSPORT_TCP;
  if (conn_is_unix (s->conn) &&
      (!all->records->persist ||
       store_is_sealed (persist_store (all->records->persist))))
    p.transports |= FP_TRANSPORT_SHM;
  rdma_addresses (all, conn_is_unix (s->conn), &p);
  if (p.nr_rdma > 0)
    p.transports |= FP_TRANSPORT_RDMA;

  r = session_begin (s, &q);
  if (r < 0)
    return r;
  s->transports = p.transports;
  p.features =
      q.features & (FP_FEATURE_AHEAD | FP_FEATURE_DRAIN | FP_FEATURE_LOST);
  p.server = all->uuid;
  snprintf (p.name, sizeof p.name, "%s", all->name);
  p.slab_size = pool_slab_size (all->pool);
  room = guard_room (s);
  p.slabs_total = FP_MIN ((uint64_t) pool_count (all->pool).total, room.total);
  p.slabs_free = guard_free (s);
  p.lease_ms = all->records->lease_s * 1000;
  p.session = s->id;
  fp_enc_hello_reply (&call->out, &p);
  return 0;
}

int
ctl_refuse_busy (struct call *call, const struct record *rec)
{
  char title[FP_NAME_MAX + 1], since[32] = "?";
  time_t t = (time_t) rec->since;
  struct tm tm;

  record_title (rec, title);
  if (gmtime_r (&t, &tm))
    strftime (since, sizeof since, "%Y-%m-%d %H:%M:%S UTC", &tm);
  return ctl_fail (call, -EBUSY, "volume %s: held by %s since %s", title,
                   rec->client, since);
}

static int
refuse_former (struct call *call, const struct record *rec)
{
  char title[FP_NAME_MAX + 1];

  record_title (rec, title);
  /* This client still is the holder on record, so the takeover is not complete
   * yet.
   */
  if (fp_uuid_eq (&rec->holder_uuid, &call->session->client))
    return ctl_fail (call, -EPERM,
                     "volume %s: another client is taking it over", title);
  return ctl_fail (call, -EPERM,
                   "volume %s: another client has attached it since (last: "
                   "%s)",
                   title, rec->client);
}

static int
check_open (struct call *call, const struct fp_open *q)
{
  const struct session *s = call->session;
  uint64_t slab_size = pool_slab_size (s->sessions->pool);
  const char *name = fp_transport_name (q->transport);

  if (!(q->flags & (FP_OPEN_CREATE | FP_OPEN_RESUME)))
    return ctl_fail (call, -EINVAL, "OPEN: neither CREATE nor RESUME");
  if (!(q->transport & s->transports))
    return ctl_fail (call, -EOPNOTSUPP,
                     "transport %s is not offered on this connection", name);
  if (q->slab_size != slab_size)
    return ctl_fail (call, -EINVAL,
                     "slabs of this server are %llu bytes, not %llu: all "
                     "servers of a volume need the same --slab",
                     (unsigned long long) slab_size,
                     (unsigned long long) q->slab_size);
  if (q->size == 0 || fp_uuid_is_nil (&q->volume))
    return ctl_fail (call, -EINVAL, "OPEN: a volume needs a size and a UUID");
  if ((q->size - 1) / slab_size >= MAX_EXTENTS)
    return ctl_fail (call, -EINVAL,
                     "a volume has at most %u extents: with slabs of %llu "
                     "bytes, %llu bytes are too many",
                     MAX_EXTENTS, (unsigned long long) slab_size,
                     (unsigned long long) q->size);
  return 0;
}

/* End the session that has the volume, if the same client asks for it again.
 * The client has lost that session, and this server has not noticed it.  The
 * session ends as when its lease is over.
 */
static void
end_former_session (struct session *s, const struct fp_uuid *volume)
{
  const struct record *rec = records_find (s->sessions->records, volume);

  if (rec && rec->holder && rec->holder->state != SESSION_ENDING &&
      !fp_uuid_is_nil (&s->client) &&
      fp_uuid_eq (&rec->holder->client, &s->client) &&
      (!s->sessions->access || who_eq (&rec->holder->who, &s->who)))
    session_end (rec->holder, "its client has reconnected");
}

/* Refuse, because another volume has the name. */
static int
refuse_name (struct call *call, const struct record *other)
{
  char uuid[FP_UUID_STR_MAX];

  fp_uuid_format (&other->uuid, uuid);
  return ctl_fail (call, -EEXIST,
                   "volume %s: this name has the UUID %s on this server",
                   other->name, uuid);
}

/* Check that the request fits the volume.  -EEXIST, -EINVAL, -EOPNOTSUPP: it
 * does not.
 */
static int
check_same (struct call *call, const struct fp_open *q,
            const struct record *rec)
{
  char title[FP_NAME_MAX + 1];

  record_title (rec, title);
  if (!(q->flags & FP_OPEN_RESUME))
    return ctl_fail (call, -EEXIST, "this volume exists already");
  if (strcmp (rec->name, q->name) != 0)
    return ctl_fail (call, -EINVAL,
                     "the volume with this UUID is %s on this server, not %s",
                     title, q->name[0] != '\0' ? q->name : "without a name");
  if (rec->kept && (q->flags & FP_OPEN_EPHEMERAL))
    return ctl_fail (call, -EINVAL,
                     "volume %s is kept until it is deleted: it cannot become "
                     "ephemeral",
                     title);
  if (rec->size != q->size)
    return ctl_fail (call, -EINVAL, "this volume has %llu bytes, not %llu",
                     (unsigned long long) rec->size,
                     (unsigned long long) q->size);
  if (rec->stripe.width != q->stripe.width ||
      rec->stripe.size != q->stripe.size)
    return ctl_fail (call, -EINVAL,
                     "this volume is striped over %u extents by %llu bytes, "
                     "not over %u by %llu",
                     rec->stripe.width, (unsigned long long) rec->stripe.size,
                     q->stripe.width, (unsigned long long) q->stripe.size);
  /* A client that does not know that would read old data, and its next client
   * would lose what it writes.
   */
  if (!call->session->lost_bits && record_has_lost (rec))
    return ctl_fail (call, -EOPNOTSUPP,
                     "extents of volume %s are lost for good, which this "
                     "client cannot tell: use farpage 0.2 or later",
                     title);
  /* Extents on servers that were not named would read as never written.  A
   * list of members tells the client which servers to ask.  Only the client
   * that had the volume last may count its servers again.
   */
  if ((q->flags & FP_OPEN_RECOUNT) && !guard_had_last (call->session, rec))
    return ctl_fail (call, -EINVAL,
                     "only the last client of this volume may change its "
                     "number of servers");
  if (q->servers < rec->servers && !rec->members &&
      !(q->flags & FP_OPEN_RECOUNT))
    return ctl_fail (call, -EINVAL,
                     "this volume is on %u servers, and %u were given: give "
                     "all of them",
                     rec->servers, q->servers);
  return 0;
}

/* Make room for the map now.  When the first extent needs recording, it is too
 * late to refuse.
 */
static int
need_map (struct call *call, struct record *rec)
{
  char title[FP_NAME_MAX + 1];
  int r = record_need_map (rec);

  if (r == 0)
    return 0;
  record_title (rec, title);
  return ctl_fail (call, r,
                   "volume %s: no room for the map of its %llu extents: the "
                   "maps of all volumes may take %u MiB on this server: "
                   "delete volumes, or use a larger --slab",
                   title, (unsigned long long) record_extents (rec),
                   MAX_MAP_WORDS >> 17);
}

static int
make (struct call *call, const struct fp_open *q, struct record **out)
{
  struct sessions *all = call->session->sessions;
  const struct record *other =
      q->name[0] != '\0' ? records_find_name (all->records, q->name) : NULL;
  int r;

  if (!(q->flags & FP_OPEN_CREATE))
    return ctl_fail (call, -ENOENT, "no such volume on this server");
  if (other && !record_is_orphan (other))
    return refuse_name (call, other);
  r = guard_make (call);
  if (r < 0)
    return r;
  record_forget_orphan (records_find (all->records, &q->volume));
  if (q->name[0] != '\0')
    record_forget_orphan (records_find_name (all->records, q->name));
  while (all->records->nr >= MAX_RECORDS &&
         records_reclaim (all->records, NULL, RECLAIM_ANY) >= 0)
    ;
  r = record_new (out, all->records, q);
  if (r < 0)
    return ctl_fail (call, r, "no room for another volume");
  r = guard_map (call, *out);
  if (r == 0)
    do
      r = need_map (call, *out);
    while (r == -ENOSPC &&
           records_map_would_fit (all->records, record_map_words (*out)) &&
           records_reclaim (all->records, NULL, RECLAIM_MAP) >= 0);
  if (r < 0)
    record_unmake (*out);
  return r;
}

/* End the session that has the volume, if this client can have it instead:
 * because of TAKEOVER, or because that session gives way.  find_or_make waits
 * for its end.
 */
static int
take_volume_over (struct call *call, const struct fp_open *q)
{
  struct session *s = call->session;
  struct record *rec = guard_find (s, &q->volume);
  bool first = rec && guard_comes_first (s, rec), news;
  char title[FP_NAME_MAX + 1];
  int r;

  if (!first &&
      (!rec || !(q->flags & FP_OPEN_TAKEOVER) || guard_had_last (s, rec)))
    return 0;
  if (record_is_former (rec, &s->client))
    return refuse_former (call, rec);
  r = check_same (call, q, rec);
  if (r < 0)
    return r;
  if (first) {
    session_end (rec->holder, "a client that may write its volume opens it");
    return 0;
  }
  news = record_shut_out (rec) && fp_now_ns () < rec->fenced_ns;
  if (news || (rec->holder && !session_is_leaving (rec->holder))) {
    record_title (rec, title);
    fp_log (FP_LOG_INFO, "volume %s: taken over by %s (%s) from %s", title,
            s->name, conn_address (s->conn), rec->client);
  }
  if (rec->holder)
    session_dismiss (rec->holder, "its volume was taken over");
  return 0;
}

/* Refuse, because the last client may not know yet that it has lost the
 * volume.
 */
static int
refuse_fenced (struct call *call, const struct record *rec)
{
  char title[FP_NAME_MAX + 1], when[32] = "";
  uint32_t ms = record_fenced_ms (rec);

  if (rec->holder && rec->holder->parting != PARTING_DISMISSED)
    return ctl_refuse_busy (call, rec);
  record_title (rec, title);
  if (ms > 0)
    snprintf (when, sizeof when, " in %u s", ms / 1000 + 1);
  return ctl_fail (call, -EBUSY,
                   "volume %s: %s may not know yet that it has lost it, until "
                   "its lease of %u s expires: try again%s",
                   title, rec->client, rec->records->lease_s, when);
}

/* Refuse, because the last client may be about to reconnect. */
static int
refuse_awaited (struct call *call, const struct record *rec)
{
  char title[FP_NAME_MAX + 1];

  record_title (rec, title);
  return ctl_fail (call, -EBUSY,
                   "volume %s: %s disconnected without detaching, and may "
                   "come back: try again in %u s, or use takeover=true",
                   title, rec->client, record_fenced_ms (rec) / 1000 + 1);
}

/* Find the record, or make it.  Return 0, CTL_WAIT, -EBUSY, -EPERM, -EEXIST,
 * -ENOENT or -EINVAL.
 */
static int
find_or_make (struct call *call, const struct fp_open *q, struct record **out,
              bool *resumed)
{
  struct session *s = call->session;
  struct record *rec = guard_find (s, &q->volume);
  int r;

  *resumed = rec != NULL;
  if (!rec)
    return make (call, q, out);
  *out = rec;
  if (record_is_former (rec, &s->client))
    return refuse_former (call, rec);
  if (rec->holder) {
    /* A session that is ending will be gone soon. */
    if (session_is_leaving (rec->holder) && s->patience != PATIENCE_OVER)
      return CTL_WAIT;
    return refuse_fenced (call, rec);
  }
  if (fp_now_ns () < rec->fenced_ns && !guard_had_last (s, rec))
    return refuse_fenced (call, rec);
  if (fp_now_ns () < rec->awaited_ns && !guard_had_last (s, rec) &&
      !(q->flags & FP_OPEN_TAKEOVER))
    return refuse_awaited (call, rec);
  r = check_same (call, q, rec);
  return r < 0 ? r : need_map (call, rec);
}

/* Handle OPEN for the open volume: it is on more or fewer servers now. */
static int
recount (struct call *call, const struct fp_open *q)
{
  struct record *rec = call->session->record;
  struct fp_open_reply p = { .resumed = true };
  int r;

  if (!(q->flags & FP_OPEN_RECOUNT) || !rec ||
      !fp_uuid_eq (&rec->uuid, &q->volume))
    return ctl_fail (call, -EPROTO, "OPEN is out of turn");
  r = guard_change (call);
  if (r < 0)
    return r;
  r = check_same (call, q, rec);
  if (r < 0)
    return r;
  record_recount (rec, q->servers);
  p.epoch = rec->epoch;
  p.labels = rec->nr_slabs;
  fp_enc_open_reply (&call->out, &p);
  return 0;
}

static void
attach (struct session *s, struct record *rec, const struct fp_open *q)
{
  const struct record_holder holder = { .session = s,
                                        .client = &s->client,
                                        .name = s->name,
                                        .who = &s->who,
                                        .read_only = s->read_only };

  s->stranger = guard_is_stranger (s, rec);
  record_attach (rec, &holder, q);
  s->record = rec;
}

int
ctl_open (struct call *call)
{
  struct session *s = call->session;
  struct fp_open q;
  struct fp_open_reply p = { .labels = 0 };
  struct record *rec = NULL;
  int r = fp_dec_open (&call->in, &q);

  if (r < 0)
    return r;
  if (s->sessions->stopping)
    return ctl_fail (call, -ESHUTDOWN, "this server is stopping");
  if (s->state == SESSION_OPEN)
    return recount (call, &q);
  r = check_open (call, &q);
  if (r == 0)
    r = guard_open (call, &q, &s->read_only);
  if (r == 0) {
    end_former_session (s, &q.volume);
    r = take_volume_over (call, &q);
  }
  if (r == 0)
    r = find_or_make (call, &q, &rec, &p.resumed);
  if (r != 0)
    return r;

  if ((q.flags & FP_OPEN_RECOUNT) && !s->read_only)
    rec->servers = q.servers;
  attach (s, rec, &q);
  if (q.flags & FP_OPEN_TAKEOVER)
    record_used (rec);
  session_move (s, SESSION_OPEN);
  s->discard = false;
  guard_opened (s);
  p.epoch = rec->epoch;
  p.labels = rec->nr_slabs; /* those without a label were not kept */
  fp_enc_open_reply (&call->out, &p);
  return 0;
}

int
ctl_ping (struct call *call)
{
  const struct sessions *all = call->session->sessions;
  const struct guard_room room = guard_room (call->session);
  struct fp_ping_reply p = {
    .slabs_total =
        FP_MIN ((uint64_t) pool_count (all->pool).total, room.total),
    .slabs_free = guard_free (call->session),
    .stopping = all->stopping || all->drain != DRAIN_NOT,
    .wanted = drain_share (all, call->session)
  };
  struct fp_ping q = { .stuck = false };

  /* A client without FP_FEATURE_DRAIN sends nothing. */
  if (call->header->length > 0 && fp_dec_ping (&call->in, &q) < 0)
    return -EPROTO;
  call->session->stuck = q.stuck;
  fp_enc_ping_reply (&call->out, &p);
  return 0;
}

int
ctl_bye (struct call *call)
{
  struct session *s = call->session;
  struct fp_bye q;
  int r = fp_dec_bye (&call->in, &q);

  if (r == 0 && q.discard && s->record)
    r = guard_discard (call);
  if (r < 0)
    return r;
  session_part (s, PARTING_ORDERLY);
  if (s->record)
    s->discard = (q.discard || s->record->ephemeral) && !s->read_only;
  if (!session_close_volume (s))
    return CTL_WAIT;
  /* BYE may also come without a volume: then the session is READY already. */
  if (s->state == SESSION_OPEN)
    session_move (s, SESSION_READY);
  call->after = CONN_CLOSE;
  return 0;
}

int
ctl_token (struct call *call)
{
  struct session *s = call->session;
  struct fp_token_req q;
  struct fp_token p;
  int r = fp_dec_token_req (&call->in, &q);

  if (r < 0)
    return r;
  r = tokens_make (&s->tokens, q.lane, fp_now_ns (), p.token);
  if (r == -EBUSY)
    return ctl_fail (call, r, "too many unused tokens: %u lanes have one",
                     s->tokens.nr);
  if (r == 0)
    fp_enc_token (&call->out, &p);
  return r;
}

int
ctl_join (struct call *call)
{
  /* Clients that join do not hide that the master key was handed out. */
  static struct fp_log_limit clients, servers;
  struct session *s = call->session;
  struct fp_join_token token = { .user = "" };
  struct fp_join_reply p = { .length = 0 };
  int r;

  if (!fp_reader_done (&call->in))
    return -EPROTO;
  r = fp_join_parse_identity (&token, conn_user (s->conn));
  if (r == 0)
    r = fp_tls_user_key (s->sessions->tls, token.user, p.key);
  if (r < 0)
    return ctl_fail (call, r, "this server has no key for user %s",
                     token.user);
  memcpy (p.user, token.user, sizeof p.user);
  p.length = (uint16_t) r;
  fp_enc_join_reply (&call->out, &p);
  explicit_bzero (&p, sizeof p);
  fp_log_limited (strcmp (token.user, FP_PSK_ALL) == 0 ? &servers : &clients,
                  FP_LOG_INFO, "%s: joined as user %s", conn_address (s->conn),
                  token.user);
  call->after = CONN_CLOSE;
  return 0;
}

/* Check the token and the user.  Call this once for each connection, even if
 * the request then waits.
 */
static int
prove (struct call *call, const struct fp_data_hello *q)
{
  struct session *s = call->session;
  struct session *owner = sessions_find (s->sessions, q->session);

  if (!owner || !tokens_take (&owner->tokens, q->lane, fp_now_ns (), q->token))
    return ctl_fail (call, -EPERM,
                     "no such session, or not the lane's token: each token is "
                     "good for one connection");
  if (!guard_is_same (s, owner))
    return ctl_fail (call, -EPERM,
                     "a data connection must have the same user as the "
                     "control connection of its session, and TLS only if that "
                     "has TLS");
  s->proved = true;
  s->data_for = owner->id;
  s->data_lane = q->lane;
  return 0;
}

int
ctl_data_hello (struct call *call)
{
  struct session *s = call->session, *owner;
  struct fp_data_hello q;
  unsigned nr_data;
  int r = fp_dec_data_hello (&call->in, &q);

  if (r == 0 && !s->proved)
    r = prove (call, &q);
  if (r < 0)
    return r;
  owner = sessions_find (s->sessions, s->data_for);
  if (!owner)
    return ctl_fail (call, -EPERM, "its session has ended");
  if (owner->state != SESSION_OPEN || owner->closing != CLOSING_NOT ||
      owner->record->transport != FP_TRANSPORT_TCP)
    return ctl_fail (call, -EINVAL,
                     "this session has no volume open over tcp");
  if (!data_replace (owner, q.lane)) {
    if (s->patience != PATIENCE_OVER)
      return CTL_WAIT;
    return ctl_fail (call, -EBUSY,
                     "lane %u: its previous connection has not ended yet",
                     q.lane);
  }
  (void) sessions_of_origin (s->sessions, &owner->origin, &nr_data);
  if (owner->nr_data >= MAX_DATA || nr_data >= MAX_DATA_ORIGIN ||
      s->sessions->nr_data >= MAX_DATA_ALL)
    return ctl_fail (call, -EBUSY, "too many data connections");
  call->after = CONN_GIVE_AWAY;
  return 0;
}
