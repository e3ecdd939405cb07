/* SPDX-License-Identifier: BSD-3-Clause */
/* test-proto.c - each message survives a round trip.  Any other input is
 * decoded or refused, and never read past its end.  Inputs are exact heap
 * copies, so that the address sanitizer sees one byte too many.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/messages.h"

/* Call any enc_ and dec_ through one type each. */
#define WRAP(name)                                                            \
  static void enc_##name (struct fp_writer *w, const void *m)                 \
  {                                                                           \
    fp_enc_##name (w, m);                                                     \
  }                                                                           \
  static int dec_##name (struct fp_reader *r, void *m)                        \
  {                                                                           \
    return fp_dec_##name (r, m);                                              \
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
WRAP (token_req)
WRAP (token)
WRAP (join_reply)
WRAP (ping)
WRAP (drain_req)
WRAP (drain_reply)
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

#define UUID                                                                  \
  {                                                                           \
    {                                                                         \
      1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16                   \
    }                                                                         \
  }

static struct fp_hello hello = { .version_min = 1,
                                 .version_max = 3,
                                 .transports = 7,
                                 .features = 0x8000000000000001,
                                 .client = UUID,
                                 .name = "host:4711" };
static struct fp_hello_reply hello_reply = {
  .version = 1,
  .transports = FP_TRANSPORT_TCP,
  .server = UUID,
  .name = "donor-1",
  .slab_size = 256 << 20,
  .slabs_total = 10,
  .slabs_free = 9,
  .lease_ms = 30000,
  .session = 0x123456789abcdef0,
  .nr_rdma = 2,
  .rdma = { ":7471", "[fe80::1]:18515" },
};
static struct fp_open open_ = { .flags = FP_OPEN_CREATE | FP_OPEN_EPHEMERAL,
                                .transport = FP_TRANSPORT_SHM,
                                .volume = UUID,
                                .name = "vol",
                                .size = UINT64_C (1) << 40,
                                .slab_size = 1 << 20,
                                .copies = 2,
                                .servers = 3,
                                .stripe = { .width = 3, .size = 65536 } };
static struct fp_open_reply open_reply = { .resumed = true,
                                           .epoch = 7,
                                           .labels = 8 };
static struct fp_list list = { .start = 64, .max = FP_MAX_GRANTS };
static struct fp_grant_req grant_req = { .count = 5 };
static struct fp_grants grants; /* full, see setup */
static struct fp_grants lost = {
  .count = 1,
  .grants = { { .slab = 3, .extent = 7, .copy = 1, .generation = 2 } }
};
static struct fp_labels labels;
static struct fp_release release_;
static struct fp_zero zero = { .slab = 1, .offset = 4096, .length = 512 };
static struct fp_ping_reply ping_reply = {
  .slabs_total = 4, .slabs_free = 4, .stopping = true, .wanted = 3
};
static struct fp_bye bye = { .discard = true };
static struct fp_stat_reply stat_reply = { .name = "donor-1",
                                           .server = UUID,
                                           .slab_size = 4096,
                                           .total = 1,
                                           .free = 2,
                                           .lent = 3,
                                           .scrubbing = 4,
                                           .unpopulated = 5,
                                           .uptime_s = 6,
                                           .stopping = true,
                                           .pressed = true,
                                           .insecure = true,
                                           .wanted = 7,
                                           .returned = 8,
                                           .nr_sessions =
                                               FP_MAX_SESSIONS_LISTED,
                                           .nr_all = 1000 };
static struct fp_token_req token_req = { .lane = 3 };
static struct fp_token token = { .token = "0123456789abcde" };
static struct fp_join_reply join_reply = { .user = "alice",
                                           .length = FP_JOIN_KEY_MAX,
                                           .key = "0123456789abcde" };
static struct fp_ping ping = { .stuck = true };
static struct fp_drain_req drain_req = { .action = FP_DRAIN_CANCEL };
static struct fp_drain_reply drain_reply = {
  .drains = true, .moving = 1, .stuck = UINT64_MAX, .kept = 3
};
static struct fp_data_hello data_hello = { .session = 99,
                                           .token = "0123456789abcde",
                                           .lane = 3 };

static struct fp_lookup lookup = { .name = "vol" };
static struct fp_lookup_reply lookup_reply = { .epoch = 3, .fenced_ms = 7000 };
static struct fp_members members = { .version = 9 };
static struct fp_map_change map_change = { .exist = true };
static struct fp_map_read map_read = { .start = 128, .count = FP_MAP_WORDS };
static struct fp_map_words map_words = { .start = 64, .count = FP_MAP_WORDS };
static struct fp_delete delete_ = { .volume = UUID };
static struct fp_volumes_req volumes_req = { .start = 48 };
static struct fp_volumes volumes = { .total = 1000 };

static const struct message {
  const char *name;
  void *sample;
  size_t size;
  void (*enc) (struct fp_writer *w, const void *m);
  int (*dec) (struct fp_reader *r, void *m);
} messages[] = {
#define MESSAGE(m, var)                                                       \
  {                                                                           \
#m, &var, sizeof var, enc_##m, dec_##m                                    \
  }
  MESSAGE (hello, hello),
  MESSAGE (hello_reply, hello_reply),
  MESSAGE (open, open_),
  MESSAGE (open_reply, open_reply),
  MESSAGE (list, list),
  MESSAGE (grant_req, grant_req),
  MESSAGE (grants, grants),
  MESSAGE (labels, labels),
  MESSAGE (release, release_),
  MESSAGE (zero, zero),
  MESSAGE (ping_reply, ping_reply),
  MESSAGE (bye, bye),
  MESSAGE (stat_reply, stat_reply),
  MESSAGE (data_hello, data_hello),
  MESSAGE (grants, lost),
  MESSAGE (lookup, lookup),
  MESSAGE (lookup_reply, lookup_reply),
  MESSAGE (members, members),
  MESSAGE (map_change, map_change),
  MESSAGE (map_read, map_read),
  MESSAGE (map_words, map_words),
  MESSAGE (delete, delete_),
  MESSAGE (volumes_req, volumes_req),
  MESSAGE (volumes, volumes),
  MESSAGE (token_req, token_req),
  MESSAGE (token, token),
  MESSAGE (join_reply, join_reply),
  MESSAGE (ping, ping),
  MESSAGE (drain_req, drain_req),
  MESSAGE (drain_reply, drain_reply),
};
#define NR_MESSAGES (sizeof messages / sizeof messages[0])

static const struct fp_volume_entry entry = { .uuid = UUID,
                                              .size = 1 << 30,
                                              .slab_size = 1 << 20,
                                              .copies = 2,
                                              .stripe = { .width = 64,
                                                          .size = 4096 },
                                              .slabs = 5,
                                              .extents = 1024,
                                              .members = FP_MAX_MEMBERS,
                                              .created = 1700000000,
                                              .attached = true,
                                              .since = 1700000001 };

/* The longest messages: even these must fit in a body. */
static void
setup_volumes (void)
{
  members.count = FP_MAX_MEMBERS;
  for (uint32_t i = 0; i < FP_MAX_MEMBERS; i++) {
    struct fp_member *m = &members.members[i];

    m->server.bytes[0] = (uint8_t) (i + 1);
    memset (m->addr, 'a', FP_ADDR_MAX);
    memset (m->domain, 'd', FP_NAME_MAX);
    m->current = i == 63;
  }
  lookup_reply.volume = entry;
  lookup_reply.members = members;
  map_change.count = FP_MAX_GRANTS;
  for (uint32_t i = 0; i < FP_MAX_GRANTS; i++)
    map_change.extents[i] = i << 10;
  for (uint32_t i = 0; i < FP_MAP_WORDS; i++)
    map_words.words[i] = ~(uint64_t) i;
  volumes.count = FP_MAX_VOLUMES_LISTED;
  for (uint32_t i = 0; i < FP_MAX_VOLUMES_LISTED; i++) {
    volumes.volumes[i] = entry;
    memset (volumes.volumes[i].name, 'n', FP_NAME_MAX);
    memset (volumes.volumes[i].client, 'c', FP_NAME_MAX);
  }
}

static int
setup (void **state)
{
  (void) state;
  setup_volumes ();
  grants.count = labels.count = release_.count = FP_MAX_GRANTS;
  for (uint32_t i = 0; i < FP_MAX_GRANTS; i++) {
    grants.grants[i] = (struct fp_grant) { .slab = i,
                                           .extent = FP_EXTENT_NONE,
                                           .copy = i % FP_WIRE_COPIES_MAX,
                                           .generation = i + 1,
                                           .raddr = UINT64_MAX - 4095,
                                           .rkey = ~(uint64_t) i,
                                           .length = 4096 };
    labels.labels[i] =
        (struct fp_label) { .slab = i, .extent = 100 + i, .generation = 2 };
    release_.slabs[i] = i << 20;
  }
  for (uint32_t i = 0; i < FP_MAX_SESSIONS_LISTED; i++) {
    struct fp_stat_session *s = &stat_reply.sessions[i];

    /* The longest names: the whole must still fit in a body. */
    memset (s->client, 'c', FP_NAME_MAX);
    memset (s->volume, 'v', FP_NAME_MAX);
    s->transport = i % 2 ? FP_TRANSPORT_RDMA : 0;
    s->slabs = i;
    s->since = 1700000000 + i;
    s->attached = i % 3 == 0;
  }
  return 0;
}

static size_t
encode (const struct message *m, const void *value, uint8_t *buf)
{
  struct fp_writer w;

  fp_writer_init (&w, buf, FP_BODY_MAX);
  m->enc (&w, value);
  assert_true (fp_writer_ok (&w));
  return FP_BODY_MAX - w.left;
}

/* Decode an exact heap copy. */
static int
decode (const struct message *m, const uint8_t *buf, size_t length, void *out)
{
  uint8_t *copy = malloc (length ? length : 1);
  struct fp_reader r;
  int ret;

  assert_non_null (copy);
  memcpy (copy, buf, length);
  /* Length 0: point behind the block. */
  fp_reader_init (&r, length ? copy : copy + 1, length);
  ret = m->dec (&r, out);
  free (copy);
  assert_true (ret == 0 || ret == -EPROTO);
  return ret;
}

static void
test_round_trip (void **state)
{
  uint8_t buf[FP_BODY_MAX], again[FP_BODY_MAX];

  (void) state;
  for (size_t i = 0; i < NR_MESSAGES; i++) {
    const struct message *m = &messages[i];
    size_t n = encode (m, m->sample, buf);
    void *out = calloc (1, m->size);

    assert_non_null (out);
    assert_int_equal (decode (m, buf, n, out), 0);
    assert_int_equal (encode (m, out, again), n);
    assert_memory_equal (buf, again, n);
    free (out);
  }
}

/* The order and the width of the fields are the protocol. */
static void
test_layout (void **state)
{
  static const uint8_t want_hello[] = {
    0,    1,  0, 3,                   /* versions */
    0,    0,  0, 7,                   /* transports */
    0x80, 0,  0, 0, 0,   0,   0,   1, /* features */
    1,    2,  3, 4, 5,   6,   7,   8,   9,   10,  11,  12,  13, 14,
    15,   16, 0, 9, 'h', 'o', 's', 't', ':', '4', '7', '1', '1'
  };
  static const uint8_t want_req[FP_DATA_REQ_SIZE] = {
    'F', 'P', 'g', 'D', 2, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0x10, 0,
    1,   2,   3,   4,   5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 3,    2
  };
  static const uint8_t want_header[FP_HEADER_SIZE] = {
    'F', 'P', 'g', 'C', 0, 1, 0x80, 2, 0, 0, 0, 5,
    0,   0,   0,   6,   0, 0, 0,    7, 0, 0, 0, 0
  };
  uint8_t buf[FP_BODY_MAX];
  const struct fp_data_req q = { .op = FP_DATA_WRITE,
                                 .cookie = 9,
                                 .length = 4096,
                                 .rkey = 0x0102030405060708,
                                 .raddr = 0x0908070605040302 };
  const struct fp_header h = {
    .version = 1, .type = 0x8002, .length = 5, .sequence = 6, .status = 7
  };

  (void) state;
  assert_int_equal (encode (&messages[0], &hello, buf), sizeof want_hello);
  assert_memory_equal (buf, want_hello, sizeof want_hello);
  fp_data_req_encode (buf, &q);
  assert_memory_equal (buf, want_req, sizeof want_req);
  fp_header_encode (buf, &h);
  assert_memory_equal (buf, want_header, sizeof want_header);
}

/* A version names one form of all messages.  If you change one, first read
 * docs/PROTOCOL.md, 'Versions', then change the sum here.
 */
static void
test_version (void **state)
{
  static const uint64_t known = UINT64_C (0x7016b02493c2a08a);
  uint64_t sum = UINT64_C (0xcbf29ce484222325); /* FNV-1a */
  uint8_t buf[FP_BODY_MAX];

  (void) state;
  assert_int_equal (FP_VERSION, 2);
  for (size_t i = 0; i < NR_MESSAGES; i++) {
    size_t n = encode (&messages[i], messages[i].sample, buf);

    for (size_t k = 0; k < n; k++)
      sum = (sum ^ buf[k]) * UINT64_C (0x100000001b3);
  }
  if (sum != known)
    print_message ("The messages have changed (%#llx): is it version %d?\n",
                   (unsigned long long) sum, FP_VERSION);
  assert_true (sum == known);
}

static void
test_cut_and_longer (void **state)
{
  uint8_t buf[FP_BODY_MAX + 1];

  (void) state;
  for (size_t i = 0; i < NR_MESSAGES; i++) {
    const struct message *m = &messages[i];
    size_t n = encode (m, m->sample, buf);
    void *out = calloc (1, m->size);

    assert_non_null (out);
    for (size_t cut = 0; cut < n; cut++)
      assert_int_equal (decode (m, buf, cut, out), -EPROTO);
    buf[n] = 0;
    assert_int_equal (decode (m, buf, n + 1, out), -EPROTO);
    free (out);
  }
}

/* Any byte may have any value.  If the result decodes, it must encode to the
 * same bytes, so that nothing has two meanings.  Exception: HELLO masks
 * offers.
 */
static void
test_corrupt (void **state)
{
  uint8_t buf[FP_BODY_MAX], again[FP_BODY_MAX];

  (void) state;
  for (size_t i = 0; i < NR_MESSAGES; i++) {
    const struct message *m = &messages[i];
    size_t n = encode (m, m->sample, buf);
    void *out = calloc (1, m->size);

    assert_non_null (out);
    for (size_t at = 0; at < n; at++) {
      static const uint8_t flips[] = { 0x01, 0x80, 0xff };

      for (size_t f = 0; f < sizeof flips; f++) {
        buf[at] ^= flips[f];
        if (decode (m, buf, n, out) == 0) {
          assert_int_equal (encode (m, out, again), n);
          if (m->sample != (void *) &hello)
            assert_memory_equal (buf, again, n);
        }
        buf[at] ^= flips[f];
      }
    }
    free (out);
  }
}

#define REFUSED(msg, var, change)                                             \
  do {                                                                        \
    __typeof__ (var) bad_ = (var), out_;                                      \
    struct fp_writer w_;                                                      \
    struct fp_reader r_;                                                      \
                                                                              \
    bad_.change;                                                              \
    fp_writer_init (&w_, buf, sizeof buf);                                    \
    fp_enc_##msg (&w_, &bad_);                                                \
    assert_true (fp_writer_ok (&w_));                                         \
    fp_reader_init (&r_, buf, sizeof buf - w_.left);                          \
    assert_int_equal (fp_dec_##msg (&r_, &out_), -EPROTO);                    \
  } while (0)

static void
test_ranges (void **state)
{
  uint8_t buf[FP_BODY_MAX];

  (void) state;
  REFUSED (hello, hello, version_min = 0);
  REFUSED (hello, hello, version_min = 4);
  REFUSED (hello, hello, name[0] = '\0');
  REFUSED (hello, hello, name[1] = ' ');
  REFUSED (hello, hello, name[1] = '\n');
  REFUSED (hello_reply, hello_reply, version = 0);
  REFUSED (hello_reply, hello_reply, transports = 8);
  REFUSED (hello_reply, hello_reply, features = 3);
  REFUSED (hello_reply, hello_reply, slab_size = 0);
  REFUSED (hello_reply, hello_reply, slab_size = 2048);
  REFUSED (hello_reply, hello_reply, slab_size = 4096 + 8192);
  REFUSED (hello_reply, hello_reply, slabs_free = 11);
  REFUSED (hello_reply, hello_reply, lease_ms = 0);
  REFUSED (hello_reply, hello_reply, rdma[1][0] = '\0');
  REFUSED (hello_reply, hello_reply, rdma[1][3] = ' ');
  REFUSED (open, open_, flags = 0);
  REFUSED (open, open_, flags = FP_OPEN_EPHEMERAL);
  REFUSED (open, open_, flags = FP_OPEN_CREATE | 64);
  /* A takeover fences the writer, so it must not be read-only. */
  REFUSED (open, open_,
           flags = FP_OPEN_RESUME | FP_OPEN_READ_ONLY | FP_OPEN_TAKEOVER);
  REFUSED (open, open_, transport = 0);
  REFUSED (open, open_, transport = 3);
  REFUSED (open, open_, transport = 8);
  REFUSED (open, open_, name[0] = '/');
  REFUSED (open, open_, size = 0);
  REFUSED (open, open_, size = UINT64_C (1) << 63);
  REFUSED (open, open_, slab_size = 3 << 20);
  REFUSED (open, open_, copies = 0);
  REFUSED (open, open_, copies = FP_WIRE_COPIES_MAX + 1);
  REFUSED (open, open_, servers = 0);
  REFUSED (open, open_, stripe.width = 0);
  REFUSED (open, open_, stripe.width = FP_STRIPE_WIDTH_MAX + 1);
  REFUSED (open, open_, stripe.size = 0);
  REFUSED (open, open_, stripe.size = 2048);
  REFUSED (open, open_, stripe.size = 3 << 14);
  REFUSED (open, open_, stripe.size = 2 << 20);
  REFUSED (open, open_, slab_size = UINT64_C (1) << 41);
  REFUSED (lookup, lookup, name[0] = '\0');
  REFUSED (lookup, lookup, volume.bytes[3] = 1);
  REFUSED (lookup_reply, lookup_reply, volume.size = 0);
  REFUSED (lookup_reply, lookup_reply, volume.slab_size = 3 << 20);
  REFUSED (lookup_reply, lookup_reply, volume.copies = 0);
  REFUSED (lookup_reply, lookup_reply, volume.extents = 1025);
  REFUSED (lookup_reply, lookup_reply, volume.members = FP_MAX_MEMBERS + 1);
  REFUSED (lookup_reply, lookup_reply, volume.stripe.width = 0);
  REFUSED (lookup_reply, lookup_reply, volume.stripe.size = 2 << 20);
  REFUSED (lookup_reply, lookup_reply, members.version = 0);
  REFUSED (lookup_reply, lookup_reply, members.count = 0);
  REFUSED (members, members, version = 0);
  REFUSED (members, members, members[63].current = false);
  REFUSED (members, members, members[5].server = members.members[9].server);
  REFUSED (members, members, members[5].server = (struct fp_uuid) { { 0 } });
  REFUSED (members, members, members[5].addr[0] = '\0');
  REFUSED (members, members, members[5].domain[3] = '/');
  REFUSED (map_read, map_read, start = 32);
  REFUSED (map_read, map_read, count = 0);
  REFUSED (map_read, map_read, count = FP_MAP_WORDS + 1);
  REFUSED (map_words, map_words, start = 1);
  REFUSED (delete, delete_, volume = (struct fp_uuid) { { 0 } });
  REFUSED (volumes, volumes, total = FP_MAX_VOLUMES_LISTED - 1);
  REFUSED (list, list, max = 0);
  REFUSED (list, list, max = FP_MAX_GRANTS + 1);
  REFUSED (grant_req, grant_req, count = 0);
  REFUSED (grant_req, grant_req, count = FP_MAX_GRANTS + 1);
  REFUSED (grants, grants, grants[63].copy = FP_WIRE_COPIES_MAX);
  /* A lost grant has no address and no key, but has its label. */
  REFUSED (grants, grants, grants[63].length = 0);
  REFUSED (grants, lost, grants[0].raddr = 1);
  REFUSED (grants, lost, grants[0].rkey = 1);
  REFUSED (grants, lost, grants[0].extent = FP_EXTENT_NONE);
  /* raddr + length wraps */
  REFUSED (grants, grants, grants[63].length = 4097);
  REFUSED (labels, labels, count = 0);
  REFUSED (labels, labels, labels[0].extent = FP_EXTENT_NONE);
  REFUSED (labels, labels, labels[0].copy = FP_WIRE_COPIES_MAX);
  REFUSED (release, release_, count = 0);
  REFUSED (zero, zero, length = 0);
  REFUSED (zero, zero, offset = UINT64_MAX - 510);
  REFUSED (ping_reply, ping_reply, slabs_free = 5);
  REFUSED (stat_reply, stat_reply, name[0] = '\0');
  REFUSED (stat_reply, stat_reply, slab_size = 1);
  REFUSED (stat_reply, stat_reply, nr_all = FP_MAX_SESSIONS_LISTED - 1);
  REFUSED (stat_reply, stat_reply, sessions[2].transport = 6);
  REFUSED (stat_reply, stat_reply, sessions[2].client[5] = '"');
}

/* The `ahead` byte: only peers that know it send and accept it. */
static void
test_ahead (void **state)
{
  static const uint8_t want[] = { 0, 0, 0, 2, 1 };
  const struct fp_grant_req q = { .count = 2, .ahead = true };
  const struct message *m = &messages[5];
  struct fp_grant_req back;
  uint8_t buf[FP_BODY_MAX];

  (void) state;
  assert_string_equal (m->name, "grant_req");
  assert_int_equal (encode (m, &q, buf), sizeof want);
  assert_memory_equal (buf, want, sizeof want);
  assert_int_equal (decode (m, buf, sizeof want, &back), 0);
  assert_int_equal (back.count, 2);
  assert_true (back.ahead);
  assert_int_equal (decode (m, buf, 4, &back), 0);
  assert_false (back.ahead);
  buf[4] = 0;
  assert_int_equal (decode (m, buf, sizeof want, &back), -EPROTO);
  buf[4] = 1;
  assert_int_equal (decode (m, buf, sizeof want + 1, &back), -EPROTO);
}

/* A count that is larger than the array is neither written nor read. */
static void
test_counts (void **state)
{
  const struct {
    const struct message *m;
    uint32_t max;
    size_t offset; /* offset of the count in the body */
  } counted[] = {
    { &messages[1], FP_MAX_RDMA_ADDRS,
      2 + 4 + 8 + 16 + 2 + strlen (hello_reply.name) + 3 * 8 + 4 + 8 },
    { &messages[6], FP_MAX_GRANTS, 0 },
    { &messages[7], FP_MAX_GRANTS, 0 },
    { &messages[8], FP_MAX_GRANTS, 0 },
    { &messages[12], FP_MAX_SESSIONS_LISTED,
      2 + strlen (stat_reply.name) + 16 + 9 * 8 + 3 + 4 },
  };
  uint8_t buf[FP_BODY_MAX];

  (void) state;
  for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++) {
    const struct message *m = counted[i].m;
    void *out = calloc (1, m->size);
    size_t n = encode (m, m->sample, buf), at = counted[i].offset;

    assert_non_null (out);
    assert_int_equal (buf[at] | buf[at + 1] | buf[at + 2], 0);
    assert_int_equal (decode (m, buf, n, out), 0);
    memset (buf + n, 1, sizeof buf - n);
    buf[at + 3] = (uint8_t) (counted[i].max + 1);
    assert_int_equal (decode (m, buf, sizeof buf, out), -EPROTO);
    memset (buf + at, 0xff, 4);
    assert_int_equal (decode (m, buf, sizeof buf, out), -EPROTO);
    free (out);
  }

  struct fp_grants *g = calloc (1, sizeof *g);
  struct fp_writer w;

  assert_non_null (g);
  g->count = FP_MAX_GRANTS + 1;
  fp_writer_init (&w, buf, sizeof buf);
  fp_enc_grants (&w, g);
  assert_false (fp_writer_ok (&w));
  free (g);
}

/* A key has 16 to 64 bytes, and its user a name. */
static void
test_join (void **state)
{
  static const uint16_t lengths[] = { 0, 15, 16, 64, 65, 0xffff };
  struct fp_join_reply p = { .user = "bob" }, back;
  uint8_t buf[128];

  (void) state;
  for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    const uint16_t n = lengths[i];
    struct fp_writer w;
    struct fp_reader r;

    fp_writer_init (&w, buf, sizeof buf);
    fp_put_string (&w, p.user, FP_NAME_MAX);
    fp_put_u16 (&w, n);
    memset (w.p, 7, w.left);
    fp_reader_init (&r, buf, sizeof buf - w.left + (n <= 65 ? n : 65));
    assert_int_equal (fp_dec_join_reply (&r, &back),
                      n >= 16 && n <= 64 ? 0 : -EPROTO);
  }
  p.length = 16;
  for (unsigned i = 0; i < 2; i++) {
    struct fp_writer w;
    struct fp_reader r;

    snprintf (p.user, sizeof p.user, "%s", i == 0 ? "" : "a b");
    fp_writer_init (&w, buf, sizeof buf);
    fp_enc_join_reply (&w, &p);
    fp_reader_init (&r, buf, sizeof buf - w.left);
    assert_int_equal (fp_dec_join_reply (&r, &back), -EPROTO);
  }
}

static void
test_strings (void **state)
{
  uint8_t buf[16];
  char out[5], name[FP_NAME_MAX + 2];
  struct fp_writer w;
  struct fp_reader r;

  (void) state;
  fp_writer_init (&w, buf, sizeof buf);
  fp_put_string (&w, "abcd", 4);
  assert_true (fp_writer_ok (&w));
  fp_reader_init (&r, buf, 6);
  fp_get_string (&r, out, 4);
  assert_true (fp_reader_done (&r));
  assert_string_equal (out, "abcd");

  fp_reader_init (&r, buf, 6); /* one too long */
  fp_get_string (&r, out, 3);
  assert_false (fp_reader_done (&r));
  assert_string_equal (out, "");

  buf[3] = 0; /* a NUL inside */
  fp_reader_init (&r, buf, 6);
  fp_get_string (&r, out, 4);
  assert_false (fp_reader_done (&r));
  assert_string_equal (out, "");

  fp_writer_init (&w, buf, sizeof buf);
  fp_put_string (&w, "abcde", 4);
  assert_false (fp_writer_ok (&w));

  memset (name, 'x', sizeof name);
  name[FP_NAME_MAX + 1] = '\0';
  assert_false (fp_name_ok (name));
  name[FP_NAME_MAX] = '\0';
  assert_true (fp_name_ok (name));
  assert_false (fp_name_ok (""));
  assert_false (fp_name_ok ("a\\b"));
  assert_false (fp_name_ok ("caf\xc3\xa9"));
}

static void
test_reason (void **state)
{
  uint8_t buf[512];
  char in[FP_REASON_MAX + 20], out[FP_REASON_MAX + 1];
  struct fp_writer w;
  struct fp_reader r;

  (void) state;
  memset (in, 'r', sizeof in);
  in[sizeof in - 1] = '\0';
  in[3] = '\033';
  fp_writer_init (&w, buf, sizeof buf);
  fp_enc_reason (&w, in); /* cut */
  assert_true (fp_writer_ok (&w));
  fp_reader_init (&r, buf, sizeof buf - w.left);
  assert_int_equal (fp_dec_reason (&r, out), 0);
  assert_int_equal (strlen (out), FP_REASON_MAX);
  assert_int_equal (out[3], '?');
}

static void
test_header (void **state)
{
  struct fp_header h = {
    .version = 7, .type = 2, .length = FP_BODY_MAX, .sequence = 3
  };
  struct fp_header out;
  uint8_t buf[FP_HEADER_SIZE];

  (void) state;
  fp_header_encode (buf, &h);
  assert_int_equal (fp_header_decode (&out, buf), 0);
  assert_memory_equal (&h, &out, sizeof h);
  h.length++;
  fp_header_encode (buf, &h);
  assert_int_equal (fp_header_decode (&out, buf), -EPROTO);
  h.length = 0;
  fp_header_encode (buf, &h);
  buf[0] = 'S';
  assert_int_equal (fp_header_decode (&out, buf), -EPROTO);
}

static void
test_frames (void **state)
{
  struct fp_data_req q = { .op = FP_DATA_READ, .length = FP_DATA_MAX }, q2;
  struct fp_data_reply p = { .cookie = 1, .length = FP_DATA_MAX }, p2;
  uint8_t req[FP_DATA_REQ_SIZE], rep[FP_DATA_REPLY_SIZE];

  (void) state;
  fp_data_req_encode (req, &q);
  assert_int_equal (fp_data_req_decode (&q2, req), 0);
  assert_int_equal (q2.length, FP_DATA_MAX);
  for (size_t at = 0; at < sizeof req; at++) {
    bool judged = at < 8 || (at >= 12 && at < 16); /* magic op pad length */

    req[at] ^= 0x40;
    assert_int_equal (fp_data_req_decode (&q2, req), judged ? -EPROTO : 0);
    req[at] ^= 0x40;
  }
  q.length = 0;
  fp_data_req_encode (req, &q);
  assert_int_equal (fp_data_req_decode (&q2, req), -EPROTO);
  q.length = FP_DATA_MAX + 1;
  fp_data_req_encode (req, &q);
  assert_int_equal (fp_data_req_decode (&q2, req), -EPROTO);

  fp_data_reply_encode (rep, &p);
  assert_int_equal (fp_data_reply_decode (&p2, rep), 0);
  p.status = FP_STATUS_PERM;
  fp_data_reply_encode (rep, &p);
  assert_int_equal (fp_data_reply_decode (&p2, rep), -EPROTO);
  p.length = 0;
  fp_data_reply_encode (rep, &p);
  assert_int_equal (fp_data_reply_decode (&p2, rep), 0);
  rep[0] ^= 1;
  assert_int_equal (fp_data_reply_decode (&p2, rep), -EPROTO);
}

static void
test_cm_private (void **state)
{
  uint8_t buf[56] = { 0 };
  struct fp_data_hello out;

  (void) state;
  fp_cm_private_encode (buf, &data_hello);
  assert_int_equal (fp_cm_private_decode (&out, buf, sizeof buf), 0);
  assert_int_equal (out.session, data_hello.session);
  assert_memory_equal (out.token, data_hello.token, FP_TOKEN_SIZE);
  assert_int_equal (out.lane, data_hello.lane);
  assert_int_equal (fp_cm_private_decode (&out, NULL, 0), -EPROTO);
  for (size_t n = 0; n < FP_CM_PRIVATE_SIZE; n++)
    assert_int_equal (fp_cm_private_decode (&out, buf, n), -EPROTO);
  buf[5]++; /* wrong version */
  assert_int_equal (fp_cm_private_decode (&out, buf, sizeof buf), -EPROTO);
}

static void
test_numbers (void **state)
{
  (void) state;
  for (uint32_t s = 0; s <= FP_STATUS_IO; s++)
    assert_int_equal (fp_status_from_errno (fp_status_to_errno (s)), s);
  assert_int_equal (fp_status_to_errno (1000), -EIO);
  assert_int_equal (fp_status_from_errno (-ENOTTY), FP_STATUS_IO);
  assert_string_equal (fp_msg_name (FP_MSG_GRANT), "GRANT");
  assert_string_equal (fp_msg_name (FP_MSG_GRANT | FP_MSG_REPLY),
                       "GRANT reply");
  assert_non_null (fp_msg_name (77));
  for (unsigned t = 1; t <= FP_TRANSPORT_FAKE; t <<= 1)
    assert_int_equal (fp_transport_by_name (fp_transport_name (t)), t);
  assert_int_equal (fp_transport_by_name ("verbs"), 0);
}

/* The lost bits of a map follow the other bits, on the same pages. */
static void
test_map_bits (void **state)
{
  static const uint64_t sizes[] = { 1,     63,    64,    10922, 10923,
                                    16383, 16384, 32768, 100000 };
  unsigned with = 0;

  (void) state;
  for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    for (uint32_t copies = 1; copies <= FP_WIRE_COPIES_MAX; copies++) {
      uint64_t bits = fp_map_bits_of_copies (sizes[i], copies), n = 0;
      uint64_t first = fp_map_lost (sizes[i], copies);
      uint64_t all = fp_map_bits (sizes[i], copies);

      for (uint64_t w = 0; w < all / 64 + 2; w++)
        n += (uint64_t) __builtin_popcountll (
            fp_map_valid (sizes[i], copies, w));
      assert_true (n == bits + (first > 0 ? sizes[i] : 0));
      assert_true ((all + FP_MAP_PAGE - 1) / FP_MAP_PAGE ==
                   (bits + FP_MAP_PAGE - 1) / FP_MAP_PAGE);
      assert_true (first == 0 || (first >= bits && first % 64 == 0));
      assert_true (copies > 1 || first == 0);
      with += first > 0;
    }
  assert_true (fp_map_lost (10000, 2) > 0 && fp_map_lost (10923, 2) == 0);
  assert_true (with > 20);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_round_trip), cmocka_unit_test (test_layout),
    cmocka_unit_test (test_join),       cmocka_unit_test (test_cut_and_longer),
    cmocka_unit_test (test_corrupt),    cmocka_unit_test (test_ranges),
    cmocka_unit_test (test_counts),     cmocka_unit_test (test_strings),
    cmocka_unit_test (test_reason),     cmocka_unit_test (test_header),
    cmocka_unit_test (test_frames),     cmocka_unit_test (test_cm_private),
    cmocka_unit_test (test_map_bits),   cmocka_unit_test (test_numbers),
    cmocka_unit_test (test_version),    cmocka_unit_test (test_ahead),
  };

  return cmocka_run_group_tests (tests, setup, NULL);
}
