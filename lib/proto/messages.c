/* SPDX-License-Identifier: BSD-3-Clause */
/* messages.c - the bodies of the control messages: for each one an encoder and
 * a decoder, side by side.  A decoder reads every field, then checks all of
 * them once.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "proto/encoding.h"

/* Return true for visible ASCII, except for characters with a meaning in an
 * address, a path or a quoted string.
 */
static bool
is_name_char (unsigned char c)
{
  return c > 0x20 && c < 0x7f && c != '/' && c != '"' && c != '\\';
}

bool
fp_name_ok (const char *name)
{
  size_t n = strnlen (name, FP_NAME_MAX + 1);

  if (n < 1 || n > FP_NAME_MAX)
    return false;
  for (size_t i = 0; i < n; i++)
    if (!is_name_char ((unsigned char) name[i]))
      return false;
  return true;
}

bool
fp_addr_text_ok (const char *addr)
{
  if (addr[0] == '\0')
    return false;
  for (; *addr != '\0'; addr++)
    if (*addr <= 0x20 || *addr >= 0x7f)
      return false;
  return true;
}

bool
fp_stripe_ok (const struct fp_stripe *s, uint64_t slab_size)
{
  return s->width >= 1 && s->width <= FP_STRIPE_WIDTH_MAX &&
         s->size >= FP_STRIPE_SIZE_MIN && (s->size & (s->size - 1)) == 0 &&
         s->size <= slab_size && slab_size / s->size <= FP_STRIPE_ROWS_MAX;
}

/* Return true if [start, start + length) is not empty and does not overflow.
 */
static bool
range_ok (uint64_t start, uint64_t length)
{
  return length > 0 && length - 1 <= UINT64_MAX - start;
}

void
fp_enc_hello (struct fp_writer *w, const struct fp_hello *m)
{
  fp_put_u16 (w, m->version_min);
  fp_put_u16 (w, m->version_max);
  fp_put_u32 (w, m->transports);
  fp_put_u64 (w, m->features);
  put_uuid (w, &m->client);
  fp_put_string (w, m->name, FP_NAME_MAX);
}

int
fp_dec_hello (struct fp_reader *r, struct fp_hello *m)
{
  m->version_min = fp_get_u16 (r);
  m->version_max = fp_get_u16 (r);
  /* A newer client may offer transports that this version does not know. */
  m->transports = fp_get_u32 (r) & FP_TRANSPORT_WIRE_MASK;
  m->features = fp_get_u64 (r);
  get_uuid (r, &m->client);
  fp_get_string (r, m->name, FP_NAME_MAX);
  return verdict (r, m->version_min >= 1 && m->version_min <= m->version_max &&
                         fp_name_ok (m->name));
}

void
fp_enc_hello_reply (struct fp_writer *w, const struct fp_hello_reply *m)
{
  uint32_t n;

  fp_put_u16 (w, m->version);
  fp_put_u32 (w, m->transports);
  fp_put_u64 (w, m->features);
  put_uuid (w, &m->server);
  fp_put_string (w, m->name, FP_NAME_MAX);
  fp_put_u64 (w, m->slab_size);
  fp_put_u64 (w, m->slabs_total);
  fp_put_u64 (w, m->slabs_free);
  fp_put_u32 (w, m->lease_ms);
  fp_put_u64 (w, m->session);
  n = put_count (w, m->nr_rdma, FP_MAX_RDMA_ADDRS);
  for (uint32_t i = 0; i < n; i++)
    fp_put_string (w, m->rdma[i], FP_ADDR_MAX);
}

int
fp_dec_hello_reply (struct fp_reader *r, struct fp_hello_reply *m)
{
  const uint64_t reply_features =
      FP_FEATURE_AHEAD | FP_FEATURE_DRAIN | FP_FEATURE_LOST;
  bool ok = true;

  m->version = fp_get_u16 (r);
  m->transports = fp_get_u32 (r);
  m->features = fp_get_u64 (r);
  get_uuid (r, &m->server);
  fp_get_string (r, m->name, FP_NAME_MAX);
  m->slab_size = fp_get_u64 (r);
  m->slabs_total = fp_get_u64 (r);
  m->slabs_free = fp_get_u64 (r);
  m->lease_ms = fp_get_u32 (r);
  m->session = fp_get_u64 (r);
  m->nr_rdma = get_count (r, 0, FP_MAX_RDMA_ADDRS);
  for (uint32_t i = 0; i < m->nr_rdma; i++) {
    fp_get_string (r, m->rdma[i], FP_ADDR_MAX);
    ok = ok && fp_addr_text_ok (m->rdma[i]);
  }
  return verdict (r, ok && m->version >= 1 &&
                         (m->transports & ~FP_TRANSPORT_WIRE_MASK) == 0 &&
                         (m->features & ~reply_features) == 0 &&
                         fp_name_ok (m->name) && slab_size_ok (m->slab_size) &&
                         m->slabs_free <= m->slabs_total && m->lease_ms > 0);
}

void
fp_enc_open (struct fp_writer *w, const struct fp_open *m)
{
  fp_put_u32 (w, m->flags);
  fp_put_u32 (w, m->transport);
  put_uuid (w, &m->volume);
  fp_put_string (w, m->name, FP_NAME_MAX);
  fp_put_u64 (w, m->size);
  fp_put_u64 (w, m->slab_size);
  fp_put_u32 (w, m->copies);
  fp_put_u32 (w, m->servers);
  put_stripe (w, &m->stripe);
}

int
fp_dec_open (struct fp_reader *r, struct fp_open *m)
{
  /* A client that only reads must not shut out one that may write. */
  const uint32_t never = FP_OPEN_READ_ONLY | FP_OPEN_TAKEOVER;

  m->flags = fp_get_u32 (r);
  m->transport = fp_get_u32 (r);
  get_uuid (r, &m->volume);
  fp_get_string (r, m->name, FP_NAME_MAX);
  m->size = fp_get_u64 (r);
  m->slab_size = fp_get_u64 (r);
  m->copies = fp_get_u32 (r);
  m->servers = fp_get_u32 (r);
  get_stripe (r, &m->stripe);
  return verdict (
      r, (m->flags & ~FP_OPEN_FLAGS) == 0 && (m->flags & never) != never &&
             (m->flags & (FP_OPEN_CREATE | FP_OPEN_RESUME)) != 0 &&
             is_one_transport (m->transport) && name_ok_or_empty (m->name) &&
             m->size > 0 && m->size <= INT64_MAX &&
             slab_size_ok (m->slab_size) && m->copies >= 1 &&
             m->copies <= FP_WIRE_COPIES_MAX && m->servers >= 1 &&
             fp_stripe_ok (&m->stripe, m->slab_size));
}

void
fp_enc_open_reply (struct fp_writer *w, const struct fp_open_reply *m)
{
  fp_put_bool (w, m->resumed);
  fp_put_u64 (w, m->epoch);
  fp_put_u64 (w, m->labels);
}

int
fp_dec_open_reply (struct fp_reader *r, struct fp_open_reply *m)
{
  m->resumed = fp_get_bool (r);
  m->epoch = fp_get_u64 (r);
  m->labels = fp_get_u64 (r);
  return verdict (r, true);
}

void
fp_enc_list (struct fp_writer *w, const struct fp_list *m)
{
  fp_put_u64 (w, m->start);
  fp_put_u32 (w, m->max);
}

int
fp_dec_list (struct fp_reader *r, struct fp_list *m)
{
  m->start = fp_get_u64 (r);
  m->max = get_count (r, 1, FP_MAX_GRANTS);
  return verdict (r, true);
}

void
fp_enc_grant_req (struct fp_writer *w, const struct fp_grant_req *m)
{
  fp_put_u32 (w, m->count);
  if (m->ahead)
    fp_put_bool (w, true);
}

int
fp_dec_grant_req (struct fp_reader *r, struct fp_grant_req *m)
{
  m->count = get_count (r, 1, FP_MAX_GRANTS);
  m->ahead = r->left > 0;
  return verdict (r, !m->ahead || fp_get_bool (r));
}

void
fp_enc_grants (struct fp_writer *w, const struct fp_grants *m)
{
  uint32_t n = put_count (w, m->count, FP_MAX_GRANTS);

  for (uint32_t i = 0; i < n; i++) {
    const struct fp_grant *g = &m->grants[i];

    fp_put_u64 (w, g->slab);
    fp_put_u64 (w, g->extent);
    fp_put_u32 (w, g->copy);
    fp_put_u64 (w, g->generation);
    fp_put_u64 (w, g->raddr);
    fp_put_u64 (w, g->rkey);
    fp_put_u64 (w, g->length);
  }
}

/* Return true if g is valid.  A lost grant names its extent, and no memory. */
static bool
grant_ok (const struct fp_grant *g)
{
  if (g->copy >= FP_WIRE_COPIES_MAX)
    return false;
  if (fp_grant_is_lost (g))
    return g->extent != FP_EXTENT_NONE && g->raddr == 0 && g->rkey == 0;
  return range_ok (g->raddr, g->length);
}

int
fp_dec_grants (struct fp_reader *r, struct fp_grants *m)
{
  bool ok = true;

  m->count = get_count (r, 0, FP_MAX_GRANTS);
  for (uint32_t i = 0; i < m->count; i++) {
    struct fp_grant *g = &m->grants[i];

    g->slab = fp_get_u64 (r);
    g->extent = fp_get_u64 (r);
    g->copy = fp_get_u32 (r);
    g->generation = fp_get_u64 (r);
    g->raddr = fp_get_u64 (r);
    g->rkey = fp_get_u64 (r);
    g->length = fp_get_u64 (r);
    ok = ok && grant_ok (g);
  }
  return verdict (r, ok);
}

void
fp_enc_labels (struct fp_writer *w, const struct fp_labels *m)
{
  uint32_t n = put_count (w, m->count, FP_MAX_GRANTS);

  for (uint32_t i = 0; i < n; i++) {
    const struct fp_label *l = &m->labels[i];

    fp_put_u64 (w, l->slab);
    fp_put_u64 (w, l->extent);
    fp_put_u32 (w, l->copy);
    fp_put_u64 (w, l->generation);
  }
}

int
fp_dec_labels (struct fp_reader *r, struct fp_labels *m)
{
  bool ok = true;

  m->count = get_count (r, 1, FP_MAX_GRANTS);
  for (uint32_t i = 0; i < m->count; i++) {
    struct fp_label *l = &m->labels[i];

    l->slab = fp_get_u64 (r);
    l->extent = fp_get_u64 (r);
    l->copy = fp_get_u32 (r);
    l->generation = fp_get_u64 (r);
    ok = ok && l->extent != FP_EXTENT_NONE && l->copy < FP_WIRE_COPIES_MAX;
  }
  return verdict (r, ok);
}

void
fp_enc_release (struct fp_writer *w, const struct fp_release *m)
{
  uint32_t n = put_count (w, m->count, FP_MAX_GRANTS);

  for (uint32_t i = 0; i < n; i++)
    fp_put_u64 (w, m->slabs[i]);
}

int
fp_dec_release (struct fp_reader *r, struct fp_release *m)
{
  m->count = get_count (r, 1, FP_MAX_GRANTS);
  for (uint32_t i = 0; i < m->count; i++)
    m->slabs[i] = fp_get_u64 (r);
  return verdict (r, true);
}

void
fp_enc_zero (struct fp_writer *w, const struct fp_zero *m)
{
  fp_put_u64 (w, m->slab);
  fp_put_u64 (w, m->offset);
  fp_put_u64 (w, m->length);
}

int
fp_dec_zero (struct fp_reader *r, struct fp_zero *m)
{
  m->slab = fp_get_u64 (r);
  m->offset = fp_get_u64 (r);
  m->length = fp_get_u64 (r);
  return verdict (r, range_ok (m->offset, m->length));
}

void
fp_enc_ping (struct fp_writer *w, const struct fp_ping *m)
{
  fp_put_bool (w, m->stuck);
}

int
fp_dec_ping (struct fp_reader *r, struct fp_ping *m)
{
  m->stuck = fp_get_bool (r);
  return verdict (r, true);
}

void
fp_enc_ping_reply (struct fp_writer *w, const struct fp_ping_reply *m)
{
  fp_put_u64 (w, m->slabs_total);
  fp_put_u64 (w, m->slabs_free);
  fp_put_bool (w, m->stopping);
  fp_put_u64 (w, m->wanted);
}

int
fp_dec_ping_reply (struct fp_reader *r, struct fp_ping_reply *m)
{
  m->slabs_total = fp_get_u64 (r);
  m->slabs_free = fp_get_u64 (r);
  m->stopping = fp_get_bool (r);
  m->wanted = fp_get_u64 (r);
  return verdict (r, m->slabs_free <= m->slabs_total);
}

void
fp_enc_bye (struct fp_writer *w, const struct fp_bye *m)
{
  fp_put_bool (w, m->discard);
}

int
fp_dec_bye (struct fp_reader *r, struct fp_bye *m)
{
  m->discard = fp_get_bool (r);
  return verdict (r, true);
}

void
fp_enc_stat_reply (struct fp_writer *w, const struct fp_stat_reply *m)
{
  uint32_t n;

  fp_put_string (w, m->name, FP_NAME_MAX);
  put_uuid (w, &m->server);
  fp_put_u64 (w, m->slab_size);
  fp_put_u64 (w, m->total);
  fp_put_u64 (w, m->free);
  fp_put_u64 (w, m->lent);
  fp_put_u64 (w, m->scrubbing);
  fp_put_u64 (w, m->unpopulated);
  fp_put_u64 (w, m->uptime_s);
  fp_put_bool (w, m->stopping);
  fp_put_bool (w, m->pressed);
  fp_put_bool (w, m->insecure);
  fp_put_u64 (w, m->wanted);
  fp_put_u64 (w, m->returned);
  fp_put_u32 (w, m->nr_all);
  n = put_count (w, m->nr_sessions, FP_MAX_SESSIONS_LISTED);
  for (uint32_t i = 0; i < n; i++) {
    const struct fp_stat_session *s = &m->sessions[i];

    fp_put_string (w, s->client, FP_NAME_MAX);
    fp_put_string (w, s->volume, FP_NAME_MAX);
    fp_put_u32 (w, s->transport);
    fp_put_u64 (w, s->slabs);
    fp_put_u64 (w, s->since);
    fp_put_bool (w, s->attached);
  }
}

int
fp_dec_stat_reply (struct fp_reader *r, struct fp_stat_reply *m)
{
  bool ok = true;

  fp_get_string (r, m->name, FP_NAME_MAX);
  get_uuid (r, &m->server);
  m->slab_size = fp_get_u64 (r);
  m->total = fp_get_u64 (r);
  m->free = fp_get_u64 (r);
  m->lent = fp_get_u64 (r);
  m->scrubbing = fp_get_u64 (r);
  m->unpopulated = fp_get_u64 (r);
  m->uptime_s = fp_get_u64 (r);
  m->stopping = fp_get_bool (r);
  m->pressed = fp_get_bool (r);
  m->insecure = fp_get_bool (r);
  m->wanted = fp_get_u64 (r);
  m->returned = fp_get_u64 (r);
  m->nr_all = fp_get_u32 (r);
  m->nr_sessions = get_count (r, 0, FP_MAX_SESSIONS_LISTED);
  for (uint32_t i = 0; i < m->nr_sessions; i++) {
    struct fp_stat_session *s = &m->sessions[i];

    fp_get_string (r, s->client, FP_NAME_MAX);
    fp_get_string (r, s->volume, FP_NAME_MAX);
    s->transport = fp_get_u32 (r);
    s->slabs = fp_get_u64 (r);
    s->since = fp_get_u64 (r);
    s->attached = fp_get_bool (r);
    ok = ok && name_ok_or_empty (s->client) && name_ok_or_empty (s->volume) &&
         (s->transport == 0 || is_one_transport (s->transport));
  }
  return verdict (r, ok && fp_name_ok (m->name) &&
                         slab_size_ok (m->slab_size) &&
                         m->nr_all >= m->nr_sessions);
}

void
fp_enc_drain_req (struct fp_writer *w, const struct fp_drain_req *m)
{
  fp_put_u32 (w, m->action);
}

int
fp_dec_drain_req (struct fp_reader *r, struct fp_drain_req *m)
{
  m->action = fp_get_u32 (r);
  return verdict (r, m->action <= FP_DRAIN_CANCEL);
}

void
fp_enc_drain_reply (struct fp_writer *w, const struct fp_drain_reply *m)
{
  fp_put_bool (w, m->drains);
  fp_put_u64 (w, m->moving);
  fp_put_u64 (w, m->stuck);
  fp_put_u64 (w, m->kept);
}

int
fp_dec_drain_reply (struct fp_reader *r, struct fp_drain_reply *m)
{
  m->drains = fp_get_bool (r);
  m->moving = fp_get_u64 (r);
  m->stuck = fp_get_u64 (r);
  m->kept = fp_get_u64 (r);
  return verdict (r, true);
}

void
fp_enc_token_req (struct fp_writer *w, const struct fp_token_req *m)
{
  fp_put_u32 (w, m->lane);
}

int
fp_dec_token_req (struct fp_reader *r, struct fp_token_req *m)
{
  m->lane = fp_get_u32 (r);
  return verdict (r, true);
}

void
fp_enc_token (struct fp_writer *w, const struct fp_token *m)
{
  fp_put_bytes (w, m->token, sizeof m->token);
}

int
fp_dec_token (struct fp_reader *r, struct fp_token *m)
{
  fp_get_bytes (r, m->token, sizeof m->token);
  return verdict (r, true);
}

void
fp_enc_join_reply (struct fp_writer *w, const struct fp_join_reply *m)
{
  fp_put_string (w, m->user, FP_NAME_MAX);
  fp_put_u16 (w, m->length);
  fp_put_bytes (w, m->key, FP_MIN (m->length, sizeof m->key));
}

int
fp_dec_join_reply (struct fp_reader *r, struct fp_join_reply *m)
{
  fp_get_string (r, m->user, FP_NAME_MAX);
  m->length = fp_get_u16 (r);
  if (m->length < FP_JOIN_KEY_MIN || m->length > FP_JOIN_KEY_MAX)
    r->bad = true;
  else
    fp_get_bytes (r, m->key, m->length);
  return verdict (r, fp_name_ok (m->user));
}

void
fp_enc_data_hello (struct fp_writer *w, const struct fp_data_hello *m)
{
  fp_put_u64 (w, m->session);
  fp_put_bytes (w, m->token, sizeof m->token);
  fp_put_u32 (w, m->lane);
}

int
fp_dec_data_hello (struct fp_reader *r, struct fp_data_hello *m)
{
  m->session = fp_get_u64 (r);
  fp_get_bytes (r, m->token, sizeof m->token);
  m->lane = fp_get_u32 (r);
  return verdict (r, true);
}

void
fp_enc_reason (struct fp_writer *w, const char *reason)
{
  size_t n = strnlen (reason, FP_REASON_MAX);

  fp_put_u16 (w, (uint16_t) n);
  fp_put_bytes (w, reason, n);
}

int
fp_dec_reason (struct fp_reader *r, char out[FP_REASON_MAX + 1])
{
  fp_get_string (r, out, FP_REASON_MAX);
  /* Replace control characters, because the reason ends up on a terminal. */
  for (char *p = out; *p != '\0'; p++)
    if ((unsigned char) *p < 0x20 || *p == 0x7f)
      *p = '?';
  return verdict (r, true);
}
