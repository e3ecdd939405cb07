/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-proto.c - decode each message, both ways, and headers, frames and the
 * private data of rdma_connect.  The result must encode to the same bytes, so
 * that nothing has two meanings.
 *
 * Input: byte 0 selects the kind, and the rest are the bytes.
 */

#include <config.h>

#include <string.h>

#include "fuzz.h"
#include "proto/messages.h"
#include "samples.h"

const char fuzz_name[] = "fuzz-proto";
const unsigned fuzz_runs = 100000;

static union {
  struct fp_hello hello;
  struct fp_hello_reply hello_reply;
  struct fp_stat_reply stat_reply;
  struct fp_lookup_reply lookup_reply;
  struct fp_map_words map_words;
  struct fp_volumes volumes;
  struct fp_grants grants;
  uint8_t bytes[1 << 16];
} message;

#define WRAP(name)                                                            \
  static void enc_##name (struct fp_writer *w)                                \
  {                                                                           \
    _Static_assert(sizeof (struct fp_##name) <= sizeof message, "it fits");   \
    fp_enc_##name (w, (const void *) &message);                               \
  }                                                                           \
  static int dec_##name (struct fp_reader *r)                                 \
  {                                                                           \
    return fp_dec_##name (r, (void *) &message);                              \
  }
WRAP (hello)
WRAP (hello_reply)
WRAP (open)
WRAP (open_reply)
WRAP (list)
WRAP (grant_req)
WRAP (grants)
WRAP (labels)
WRAP (release)
WRAP (zero)
WRAP (ping_reply)
WRAP (bye)
WRAP (stat_reply)
WRAP (data_hello)
WRAP (lookup)
WRAP (lookup_reply)
WRAP (members)
WRAP (map_change)
WRAP (map_read)
WRAP (map_words)
WRAP (delete)
WRAP (volumes_req)
WRAP (volumes)
WRAP (token_req)
WRAP (token)
WRAP (join_reply)

static const struct {
  void (*enc) (struct fp_writer *w);
  int (*dec) (struct fp_reader *r);
  unsigned type;
  bool reply;
} kinds[] = {
#define ASKS(name, type)                                                      \
  {                                                                           \
    enc_##name, dec_##name, FP_MSG_##type, false                              \
  }
#define ANSWERS(name, type)                                                   \
  {                                                                           \
    enc_##name, dec_##name, FP_MSG_##type, true                               \
  }
  ASKS (hello, HELLO),
  ANSWERS (hello_reply, HELLO),
  ASKS (open, OPEN),
  ANSWERS (open_reply, OPEN),
  ASKS (list, LIST),
  ASKS (grant_req, GRANT),
  ANSWERS (grants, LIST),
  ANSWERS (grants, GRANT),
  ASKS (labels, LABEL),
  ASKS (release, RELEASE),
  ASKS (zero, ZERO),
  ANSWERS (ping_reply, PING),
  ASKS (bye, BYE),
  ANSWERS (stat_reply, STAT),
  ASKS (data_hello, DATA_HELLO),
  ASKS (lookup, LOOKUP),
  ANSWERS (lookup_reply, LOOKUP),
  ASKS (members, MEMBERS),
  ASKS (map_change, MAP),
  ASKS (map_read, MAP_READ),
  ANSWERS (map_words, MAP_READ),
  ASKS (map_words, MAP_WRITE),
  ASKS (delete, DELETE),
  ASKS (volumes_req, VOLUMES),
  ANSWERS (volumes, VOLUMES),
  ASKS (token_req, TOKEN),
  ANSWERS (token, TOKEN),
  ANSWERS (join_reply, JOIN),
};
#define NR_KINDS (sizeof kinds / sizeof kinds[0])
enum { HEADER = NR_KINDS, REASON, DATA_REQ, DATA_REPLY, CM_PRIVATE, NR_ALL };

static void
body (size_t kind, const uint8_t *data, size_t size)
{
  static uint8_t once[FP_BODY_MAX], again[FP_BODY_MAX];
  struct fp_reader r;
  struct fp_writer w;
  size_t n;

  fp_reader_init (&r, data, size);
  if (kinds[kind].dec (&r) < 0)
    return;
  fp_writer_init (&w, once, sizeof once);
  kinds[kind].enc (&w);
  FUZZ_CHECK (fp_writer_ok (&w));
  n = sizeof once - w.left;
  FUZZ_CHECK (n == size);
  /* HELLO drops what this version does not know. */
  if (kinds[kind].type != FP_MSG_HELLO)
    FUZZ_CHECK (memcmp (once, data, n) == 0);

  fp_reader_init (&r, once, n);
  FUZZ_CHECK (kinds[kind].dec (&r) == 0);
  fp_writer_init (&w, again, sizeof again);
  kinds[kind].enc (&w);
  FUZZ_CHECK (sizeof again - w.left == n && memcmp (once, again, n) == 0);
}

static void
reason (const uint8_t *data, size_t size)
{
  uint8_t again[FP_REASON_MAX + 2];
  char text[FP_REASON_MAX + 1];
  struct fp_reader r;
  struct fp_writer w;

  fp_reader_init (&r, data, size);
  if (fp_dec_reason (&r, text) < 0)
    return;
  FUZZ_CHECK (strlen (text) <= FP_REASON_MAX);
  fp_writer_init (&w, again, sizeof again);
  fp_enc_reason (&w, text);
  FUZZ_CHECK (fp_writer_ok (&w));
}

static void
fixed (size_t kind, const uint8_t *data, size_t size)
{
  uint8_t again[FP_CM_PRIVATE_SIZE];
  struct fp_header h;
  struct fp_data_req q;
  struct fp_data_reply p;
  struct fp_data_hello d;

  if (kind == HEADER && size == FP_HEADER_SIZE &&
      fp_header_decode (&h, data) == 0) {
    FUZZ_CHECK (h.length <= FP_BODY_MAX);
    fp_header_encode (again, &h);
    /* The last four bytes are ignored. */
    FUZZ_CHECK (memcmp (again, data, FP_HEADER_SIZE - 4) == 0);
  }
  if (kind == DATA_REQ && size == FP_DATA_REQ_SIZE &&
      fp_data_req_decode (&q, data) == 0) {
    FUZZ_CHECK (q.length > 0 && q.length <= FP_DATA_MAX);
    fp_data_req_encode (again, &q);
    FUZZ_CHECK (memcmp (again, data, size) == 0);
  }
  if (kind == DATA_REPLY && size == FP_DATA_REPLY_SIZE &&
      fp_data_reply_decode (&p, data) == 0) {
    FUZZ_CHECK (p.length <= FP_DATA_MAX);
    fp_data_reply_encode (again, &p);
    FUZZ_CHECK (memcmp (again, data, size) == 0);
  }
  if (kind == CM_PRIVATE && fp_cm_private_decode (&d, data, size) == 0) {
    FUZZ_CHECK (size >= FP_CM_PRIVATE_SIZE);
    fp_cm_private_encode (again, &d);
    FUZZ_CHECK (memcmp (again, data, FP_CM_PRIVATE_SIZE) == 0);
  }
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  size_t kind;

  if (size == 0)
    return 0;
  kind = data[0] % NR_ALL;
  data++;
  size--;
  if (kind < NR_KINDS) {
    if (size <= FP_BODY_MAX)
      body (kind, data, size);
  }
  else if (kind == REASON)
    reason (data, size);
  else
    fixed (kind, data, size);
  return 0;
}

size_t
fuzz_seed (unsigned nr, uint8_t *out)
{
  const struct fp_header h = { .version = 1, .type = 2, .length = 3 };
  const struct fp_data_req q = { .op = FP_DATA_WRITE, .length = 4096 };
  const struct fp_data_reply p = { .cookie = 1, .length = 4096 };
  const struct fp_data_hello d = { .session = 1, .lane = 2 };
  struct fp_writer w;

  out[0] = (uint8_t) nr;
  switch (nr) {
  case HEADER:
    fp_header_encode (out + 1, &h);
    return 1 + FP_HEADER_SIZE;
  case REASON:
    fp_writer_init (&w, out + 1, FP_BODY_MAX);
    fp_enc_reason (&w, "all slabs are lent");
    return 1 + FP_BODY_MAX - w.left;
  case DATA_REQ:
    fp_data_req_encode (out + 1, &q);
    return 1 + FP_DATA_REQ_SIZE;
  case DATA_REPLY:
    fp_data_reply_encode (out + 1, &p);
    return 1 + FP_DATA_REPLY_SIZE;
  case CM_PRIVATE:
    fp_cm_private_encode (out + 1, &d);
    return 1 + FP_CM_PRIVATE_SIZE;
  default:
    if (nr >= NR_KINDS)
      return 0;
    return 1 + (kinds[nr].reply ? sample_reply (kinds[nr].type, out + 1)
                                : sample_request (kinds[nr].type,
                                                  FP_TRANSPORT_TCP, out + 1));
  }
}
