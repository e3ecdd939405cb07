/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl_session.c - the messages that begin and end things: HELLO, OPEN, PING,
 * BYE and DATA_HELLO.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "ctl.h"
#include "data.h"
#include "options.h"
#include "rdma.h"
#include "record.h"
#include "session.h"

int
ctl_hello (struct call *call)
{
  struct session *s = call->session;
  struct server *srv = s->server;
  struct fp_hello q;
  struct fp_hello_reply p = { .version = FP_VERSION };
  int r = fp_dec_hello (&call->in, &q);

  if (r < 0)
    return r;
  if (q.version_min > FP_VERSION || q.version_max < FP_VERSION)
    return ctl_fail (call, -EPROTONOSUPPORT,
                     "this server speaks version %d of the protocol, not "
                     "%u to %u",
                     FP_VERSION, q.version_min, q.version_max);
  if (srv->nr_sessions >= MAX_SESSIONS)
    return ctl_fail (call, -EBUSY, "there are %u sessions already",
                     srv->nr_sessions);

  p.transports = FP_TRANSPORT_TCP;
  if (conn_is_unix (s->conn))
    p.transports |= FP_TRANSPORT_SHM;
  rdma_addresses (srv, conn_is_unix (s->conn), &p);
  if (p.nr_rdma > 0)
    p.transports |= FP_TRANSPORT_RDMA;

  r = session_begin (s, &q);
  if (r < 0)
    return r;
  s->transports = p.transports;
  p.server = srv->uuid;
  snprintf (p.name, sizeof p.name, "%s", srv->options->name);
  p.slab_size = pool_slab_size (srv->pool);
  p.slabs_total = pool_count (srv->pool).total;
  p.slabs_free = pool_lendable (srv->pool);
  p.lease_ms = srv->options->lease_s * 1000;
  p.session = s->id;
  memcpy (p.token, s->token, sizeof p.token);
  fp_enc_hello_reply (&call->out, &p);
  return 0;
}

static int
refuse_busy (struct call *call, const struct record *rec)
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
  return ctl_fail (call, -EPERM,
                   "volume %s: another client has had it since, %s last",
                   title, rec->client);
}

static int
check_open (struct call *call, const struct fp_open *q)
{
  const struct session *s = call->session;
  uint64_t slab_size = pool_slab_size (s->server->pool);
  const char *name = fp_transport_name (q->transport);

  if (!(q->flags & (FP_OPEN_CREATE | FP_OPEN_RESUME)))
    return ctl_fail (call, -EINVAL, "OPEN: neither CREATE nor RESUME");
  if (!(q->transport & s->transports))
    return ctl_fail (call, -EOPNOTSUPP,
                     "transport %s is not offered on this connection", name);
  if (q->slab_size != slab_size)
    return ctl_fail (call, -EINVAL,
                     "slabs are %llu bytes here, not %llu: all servers of a "
                     "volume must have the same",
                     (unsigned long long) slab_size,
                     (unsigned long long) q->slab_size);
  if (q->size == 0 || fp_uuid_is_nil (&q->volume))
    return ctl_fail (call, -EINVAL, "OPEN: a volume has a size and a UUID");
  return 0;
}

/* The same client asks for a volume that it has open: it has lost its session,
 * and nobody has told this server.  End that one, as when its lease is over.
 */
static void
end_former_session (struct session *s, const struct fp_uuid *volume)
{
  const struct record *rec = record_find (s->server, volume);

  if (rec && rec->holder && rec->holder->state != SESSION_ENDING &&
      !fp_uuid_is_nil (&s->client) &&
      fp_uuid_eq (&rec->holder->client, &s->client))
    session_end (rec->holder, "its client has come again");
}

/* -EBUSY, -EPERM, -EEXIST, -ENOENT, CTL_WAIT, or 0 and the record. */
static int
find_or_make (struct call *call, const struct fp_open *q, struct record **out,
              bool *resumed)
{
  struct session *s = call->session;
  struct record *rec = record_find (s->server, &q->volume);
  int r;

  *resumed = rec != NULL;
  if (rec && record_is_former (rec, &s->client))
    return refuse_former (call, rec);
  if (rec && rec->holder) {
    /* One that is ending will be gone soon. */
    if (rec->holder->state == SESSION_ENDING && !s->wait_over)
      return CTL_WAIT;
    return refuse_busy (call, rec);
  }
  if (rec && fp_now_ns () < rec->fenced_ns &&
      !fp_uuid_eq (&rec->holder_uuid, &s->client))
    return refuse_busy (call, rec);
  if (rec && !(q->flags & FP_OPEN_RESUME))
    return ctl_fail (call, -EEXIST, "this volume exists already");
  if (!rec && !(q->flags & FP_OPEN_CREATE))
    return ctl_fail (call, -ENOENT, "no such volume here");
  if (rec && rec->size != q->size)
    return ctl_fail (call, -EINVAL, "this volume has %llu bytes, not %llu",
                     (unsigned long long) rec->size,
                     (unsigned long long) q->size);
  if (!rec) {
    r = record_new (&rec, s->server, q);
    if (r < 0)
      return ctl_fail (call, r, "no room for another volume");
  }
  *out = rec;
  return 0;
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
  if (s->server->stopping)
    return ctl_fail (call, -ESHUTDOWN, "this server is stopping");
  r = check_open (call, &q);
  if (r == 0) {
    end_former_session (s, &q.volume);
    r = find_or_make (call, &q, &rec, &p.resumed);
  }
  if (r != 0)
    return r;

  record_attach (rec, s, &q);
  s->record = rec;
  s->state = SESSION_OPEN;
  s->discard = false;
  p.epoch = rec->epoch;
  p.labels = rec->nr_slabs; /* what has no label was not kept */
  fp_enc_open_reply (&call->out, &p);
  return 0;
}

int
ctl_ping (struct call *call)
{
  const struct server *srv = call->session->server;
  struct fp_ping_reply p = { .slabs_total = pool_count (srv->pool).total,
                             .slabs_free = pool_lendable (srv->pool),
                             .stopping = srv->stopping };

  if (!fp_reader_done (&call->in))
    return -EPROTO;
  fp_enc_ping_reply (&call->out, &p);
  return 0;
}

int
ctl_bye (struct call *call)
{
  struct session *s = call->session;
  struct fp_bye q;
  int r = fp_dec_bye (&call->in, &q);

  if (r < 0)
    return r;
  s->orderly = true;
  if (s->record)
    s->discard = q.discard || s->record->ephemeral;
  if (!session_close_volume (s))
    return CTL_WAIT;
  s->state = SESSION_READY;
  call->after = CONN_CLOSE;
  return 0;
}

int
ctl_data_hello (struct call *call)
{
  struct session *s = call->session, *owner;
  struct fp_data_hello q;
  int r = fp_dec_data_hello (&call->in, &q);

  if (r < 0)
    return r;
  owner = server_find_session (s->server, q.session, q.token);
  if (!owner)
    return ctl_fail (call, -EPERM, "no such session, or not its token");
  if (owner->state != SESSION_OPEN || owner->closing ||
      owner->record->transport != FP_TRANSPORT_TCP)
    return ctl_fail (call, -EINVAL,
                     "this session has no volume open over tcp");
  if (!data_replace (owner, q.lane)) {
    if (!s->wait_over)
      return CTL_WAIT;
    return ctl_fail (call, -EBUSY, "lane %u: its last connection is not done",
                     q.lane);
  }
  if (owner->nr_data >= MAX_DATA || s->server->nr_data >= MAX_DATA_ALL)
    return ctl_fail (call, -EBUSY, "too many data connections");
  s->data_for = owner->id;
  s->data_lane = q.lane;
  call->after = CONN_GIVE_AWAY;
  return 0;
}
