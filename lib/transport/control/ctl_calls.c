/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl_calls.c - send a client's requests, one function per request: encode,
 * exchange, decode.
 */

#include <config.h>

#include <errno.h>

#include "transport/control/ctl_int.h"

/* Encode a request's body, or decode a reply's. */
#define ENCODE(encode) (fp_ctl_begin (c, &w), encode (&w, q))
#define NOTHING_TO_SAY fp_ctl_begin (c, &w)
#define DECODE(decode) decode (&r, p)
#define NOTHING_TO_HEAR (fp_reader_done (&r) ? 0 : -EPROTO)

#define CALL(type, say, hear)                                                 \
  struct fp_writer w;                                                         \
  struct fp_reader r;                                                         \
  int ret;                                                                    \
                                                                              \
  say;                                                                        \
  ret = fp_ctl_exchange (c, type, &w, &r, deadline_ns);                       \
  return ret < 0 ? ret : fp_ctl_finish (c, hear, 0, NULL)

int
fp_ctl_label (struct fp_ctl *c, const struct fp_labels *q,
              uint64_t deadline_ns)
{
  CALL (FP_MSG_LABEL, ENCODE (fp_enc_labels), NOTHING_TO_HEAR);
}

int
fp_ctl_release (struct fp_ctl *c, const struct fp_release *q,
                uint64_t deadline_ns)
{
  CALL (FP_MSG_RELEASE, ENCODE (fp_enc_release), NOTHING_TO_HEAR);
}

int
fp_ctl_zero (struct fp_ctl *c, const struct fp_zero *q, uint64_t deadline_ns)
{
  CALL (FP_MSG_ZERO, ENCODE (fp_enc_zero), NOTHING_TO_HEAR);
}

int
fp_ctl_ping (struct fp_ctl *c, const struct fp_ping *q,
             struct fp_ping_reply *p, uint64_t deadline_ns)
{
  CALL (FP_MSG_PING, if (q != NULL) ENCODE (fp_enc_ping);
        else NOTHING_TO_SAY, DECODE (fp_dec_ping_reply));
}

int
fp_ctl_bye (struct fp_ctl *c, const struct fp_bye *q, uint64_t deadline_ns)
{
  CALL (FP_MSG_BYE, ENCODE (fp_enc_bye), NOTHING_TO_HEAR);
}

int
fp_ctl_stat (struct fp_ctl *c, struct fp_stat_reply *p, uint64_t deadline_ns)
{
  CALL (FP_MSG_STAT, NOTHING_TO_SAY, DECODE (fp_dec_stat_reply));
}

int
fp_ctl_drain (struct fp_ctl *c, const struct fp_drain_req *q,
              struct fp_drain_reply *p, uint64_t deadline_ns)
{
  CALL (FP_MSG_DRAIN, ENCODE (fp_enc_drain_req), DECODE (fp_dec_drain_reply));
}

int
fp_ctl_token (struct fp_ctl *c, const struct fp_token_req *q,
              struct fp_token *p, uint64_t deadline_ns)
{
  CALL (FP_MSG_TOKEN, ENCODE (fp_enc_token_req), DECODE (fp_dec_token));
}

int
fp_ctl_join (struct fp_ctl *c, struct fp_join_reply *p, uint64_t deadline_ns)
{
  CALL (FP_MSG_JOIN, NOTHING_TO_SAY, DECODE (fp_dec_join_reply));
}

int
fp_ctl_data_hello (struct fp_ctl *c, const struct fp_data_hello *q,
                   uint64_t deadline_ns)
{
  CALL (FP_MSG_DATA_HELLO, ENCODE (fp_enc_data_hello), NOTHING_TO_HEAR);
}

int
fp_ctl_lookup (struct fp_ctl *c, const struct fp_lookup *q,
               struct fp_lookup_reply *p, uint64_t deadline_ns)
{
  CALL (FP_MSG_LOOKUP, ENCODE (fp_enc_lookup), DECODE (fp_dec_lookup_reply));
}

int
fp_ctl_members (struct fp_ctl *c, const struct fp_members *q,
                uint64_t deadline_ns)
{
  CALL (FP_MSG_MEMBERS, ENCODE (fp_enc_members), NOTHING_TO_HEAR);
}

int
fp_ctl_map (struct fp_ctl *c, const struct fp_map_change *q,
            uint64_t deadline_ns)
{
  CALL (FP_MSG_MAP, ENCODE (fp_enc_map_change), NOTHING_TO_HEAR);
}

int
fp_ctl_map_write (struct fp_ctl *c, const struct fp_map_words *q,
                  uint64_t deadline_ns)
{
  CALL (FP_MSG_MAP_WRITE, ENCODE (fp_enc_map_words), NOTHING_TO_HEAR);
}

int
fp_ctl_delete (struct fp_ctl *c, const struct fp_delete *q,
               uint64_t deadline_ns)
{
  CALL (FP_MSG_DELETE, ENCODE (fp_enc_delete), NOTHING_TO_HEAR);
}

int
fp_ctl_volumes (struct fp_ctl *c, const struct fp_volumes_req *q,
                struct fp_volumes *p, uint64_t deadline_ns)
{
  CALL (FP_MSG_VOLUMES, ENCODE (fp_enc_volumes_req), DECODE (fp_dec_volumes));
}

/* ---- replies that need a check after decoding ---- */

static int
hello (struct fp_ctl *c, const struct fp_hello *q, struct fp_hello_reply *p,
       uint64_t deadline_ns)
{
  CALL (FP_MSG_HELLO, ENCODE (fp_enc_hello), DECODE (fp_dec_hello_reply));
}

int
fp_ctl_hello (struct fp_ctl *c, const struct fp_hello *q,
              struct fp_hello_reply *p, uint64_t deadline_ns)
{
  int ret = hello (c, q, p, deadline_ns);

  if (ret == 0 && (p->version < q->version_min || p->version > q->version_max))
    return fp_ctl_broken (c, -EPROTONOSUPPORT,
                          "chose version %u, which this client did not offer",
                          p->version);
  return ret;
}

static int
volume_open (struct fp_ctl *c, const struct fp_open *q,
             struct fp_open_reply *p, uint64_t deadline_ns)
{
  CALL (FP_MSG_OPEN, ENCODE (fp_enc_open), DECODE (fp_dec_open_reply));
}

int
fp_ctl_volume_open (struct fp_ctl *c, const struct fp_open *q,
                    struct fp_open_reply *p, uint64_t deadline_ns)
{
  int ret = volume_open (c, q, p, deadline_ns);

  if (ret == 0)
    c->passes_fds = q->transport == FP_TRANSPORT_SHM;
  return ret;
}

static int
map_read (struct fp_ctl *c, const struct fp_map_read *q,
          struct fp_map_words *p, uint64_t deadline_ns)
{
  CALL (FP_MSG_MAP_READ, ENCODE (fp_enc_map_read), DECODE (fp_dec_map_words));
}

int
fp_ctl_map_read (struct fp_ctl *c, const struct fp_map_read *q,
                 struct fp_map_words *p, uint64_t deadline_ns)
{
  int ret = map_read (c, q, p, deadline_ns);

  if (ret == 0 && (p->start != q->start || p->count != q->count))
    return fp_ctl_broken (c, -EPROTO,
                          "sent a part of the map that was not "
                          "requested");
  return ret;
}

/* ---- grants, whose replies carry file descriptors ---- */

static int
call_grants (struct fp_ctl *c, unsigned type, struct fp_writer *w,
             uint32_t min, uint32_t max, struct fp_grants *p,
             int fds[FP_MAX_GRANTS], uint64_t deadline_ns)
{
  int with_memory[FP_MAX_GRANTS];
  struct fp_reader r;
  unsigned live = 0, next = 0;
  int ret;

  for (unsigned i = 0; i < FP_MAX_GRANTS; i++)
    fds[i] = -1;
  ret = fp_ctl_exchange (c, type, w, &r, deadline_ns);
  if (ret < 0)
    return ret;
  ret = fp_dec_grants (&r, p);
  if (ret == 0 && (p->count < min || p->count > max))
    ret = -EPROTO;
  for (unsigned i = 0; ret == 0 && i < p->count; i++)
    live += !fp_grant_is_lost (&p->grants[i]);
  /* GRANT asks for memory, so its reply must not contain a lost grant. */
  if (ret == 0 && type == FP_MSG_GRANT && live < p->count)
    ret = -EPROTO;
  ret = fp_ctl_finish (c, ret, ret == 0 && c->passes_fds ? live : 0,
                       with_memory);
  if (ret < 0 || !c->passes_fds)
    return ret;
  for (unsigned i = 0; i < p->count; i++)
    if (!fp_grant_is_lost (&p->grants[i]))
      fds[i] = with_memory[next++];
  return 0;
}

int
fp_ctl_list (struct fp_ctl *c, const struct fp_list *q, struct fp_grants *p,
             int fds[FP_MAX_GRANTS], uint64_t deadline_ns)
{
  struct fp_writer w;

  ENCODE (fp_enc_list);
  return call_grants (c, FP_MSG_LIST, &w, 0, q->max, p, fds, deadline_ns);
}

int
fp_ctl_grant (struct fp_ctl *c, const struct fp_grant_req *q,
              struct fp_grants *p, int fds[FP_MAX_GRANTS],
              uint64_t deadline_ns)
{
  struct fp_writer w;

  ENCODE (fp_enc_grant_req);
  return call_grants (c, FP_MSG_GRANT, &w, 1, q->count, p, fds, deadline_ns);
}
