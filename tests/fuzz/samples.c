/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include "fuzz.h"
#include "proto/messages.h"
#include "samples.h"

#define UUID                                                                  \
  {                                                                           \
    {                                                                         \
      1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16                   \
    }                                                                         \
  }

static const struct fp_hello hello = { .version_min = FP_VERSION,
                                       .version_max = FP_VERSION,
                                       .transports = FP_TRANSPORT_WIRE_MASK,
                                       .client = UUID,
                                       .name = "host:4711" };
static const struct fp_hello_reply hello_reply = {
  .version = FP_VERSION,
  .transports = FP_TRANSPORT_WIRE_MASK,
  .server = UUID,
  .name = "donor-1",
  .slab_size = SAMPLE_SLAB,
  .slabs_total = 10,
  .slabs_free = 9,
  .lease_ms = 30000,
  .session = 7,
  .nr_rdma = 1,
  .rdma = { "[::1]:7471" },
};
static const struct fp_open open_ = { .flags = FP_OPEN_CREATE | FP_OPEN_RESUME,
                                      .volume = UUID,
                                      .name = "vol",
                                      .size = 100 * SAMPLE_SLAB,
                                      .slab_size = SAMPLE_SLAB,
                                      .copies = 1,
                                      .servers = 1,
                                      .stripe = { .width = 1, .size = 4096 } };
static const struct fp_open_reply open_reply = { .epoch = 7, .labels = 2 };
static const struct fp_join_reply join_reply = { .user = "alice",
                                                 .length = 32,
                                                 .key = { 1, 2, 3 } };
static const struct fp_list list = { .max = FP_MAX_GRANTS };
static const struct fp_grant_req grant_req = { .count = 2 };
static const struct fp_grants grants = { .count = 2,
                                         .grants = {
                                             { .slab = 0,
                                               .extent = FP_EXTENT_NONE,
                                               .generation = 1,
                                               .rkey = 1,
                                               .length = SAMPLE_SLAB },
                                             { .slab = 1,
                                               .extent = FP_EXTENT_NONE,
                                               .generation = 1,
                                               .rkey = 2,
                                               .length = SAMPLE_SLAB } } };
static const struct fp_grants listed = {
  .count = 2,
  .grants = { { .slab = 0,
                .extent = 5,
                .generation = 1,
                .length = SAMPLE_SLAB },
              { .slab = 3, .extent = 7, .generation = 2 } /* lost */ }
};
static const struct fp_labels labels = {
  .count = 2,
  .labels = { { .slab = 0, .extent = 5, .generation = 1 },
              { .slab = 1, .extent = 6, .copy = 1, .generation = 2 } }
};
static const struct fp_release release_ = { .count = 1, .slabs = { 1 } };
static const struct fp_zero zero = { .slab = 0,
                                     .offset = 4096,
                                     .length = 512 };
static const struct fp_ping_reply ping_reply = { .slabs_total = 4,
                                                 .slabs_free = 3,
                                                 .wanted = 1 };
static const struct fp_ping ping = { .stuck = true };
static const struct fp_drain_req drain_req = { .action = FP_DRAIN_BEGIN };
static const struct fp_drain_reply drain_reply = { .drains = true,
                                                   .moving = 1 };
static const struct fp_bye bye = { .discard = true };
static const struct fp_stat_reply stat_reply = {
  .name = "donor-1",
  .server = UUID,
  .slab_size = SAMPLE_SLAB,
  .total = 1,
  .nr_sessions = 1,
  .nr_all = 2,
  .sessions = { { .client = "c", .volume = "v", .transport = 1 } }
};
static const struct fp_token_req token_req = { .lane = 1 };
static const struct fp_token token = { .token = "0123456789abcde" };
static const struct fp_data_hello data_hello = { .session = 7, .lane = 3 };
static const struct fp_lookup lookup = { .name = "vol" };
static const struct fp_members members = { .version = 9,
                                           .count = 2,
                                           .members = { { .server = UUID,
                                                          .addr = "a:1",
                                                          .domain = "d",
                                                          .current = true },
                                                        { .server = { { 9 } },
                                                          .addr = "b:1" } } };
static const struct fp_volume_entry entry = { .uuid = UUID,
                                              .name = "vol",
                                              .size = 100 * SAMPLE_SLAB,
                                              .slab_size = SAMPLE_SLAB,
                                              .copies = 1,
                                              .stripe = { .width = 1,
                                                          .size = 4096 },
                                              .attached = true,
                                              .client = "c" };
static const struct fp_map_change map_change = { .exist = true,
                                                 .count = 2,
                                                 .extents = { 5, 6 } };
static const struct fp_map_read map_read = { .start = 0, .count = 2 };
static const struct fp_map_words map_words = { .start = 0,
                                               .count = 2,
                                               .words = { 96, 1 } };
static const struct fp_delete delete_ = { .volume = UUID };
static const struct fp_volumes_req volumes_req = { .start = 0 };

size_t
sample_request (unsigned type, unsigned transport, uint8_t *out)
{
  struct fp_open o = open_;
  struct fp_writer w;

  o.transport = transport;
  fp_writer_init (&w, out, FP_BODY_MAX);
  switch (type) {
  case FP_MSG_HELLO:
    fp_enc_hello (&w, &hello);
    break;
  case FP_MSG_OPEN:
    fp_enc_open (&w, &o);
    break;
  case FP_MSG_LIST:
    fp_enc_list (&w, &list);
    break;
  case FP_MSG_GRANT:
    fp_enc_grant_req (&w, &grant_req);
    break;
  case FP_MSG_LABEL:
    fp_enc_labels (&w, &labels);
    break;
  case FP_MSG_RELEASE:
    fp_enc_release (&w, &release_);
    break;
  case FP_MSG_ZERO:
    fp_enc_zero (&w, &zero);
    break;
  case FP_MSG_PING:
    fp_enc_ping (&w, &ping);
    break;
  case FP_MSG_DRAIN:
    fp_enc_drain_req (&w, &drain_req);
    break;
  case FP_MSG_BYE:
    fp_enc_bye (&w, &bye);
    break;
  case FP_MSG_TOKEN:
    fp_enc_token_req (&w, &token_req);
    break;
  case FP_MSG_DATA_HELLO:
    fp_enc_data_hello (&w, &data_hello);
    break;
  case FP_MSG_LOOKUP:
    fp_enc_lookup (&w, &lookup);
    break;
  case FP_MSG_MEMBERS:
    fp_enc_members (&w, &members);
    break;
  case FP_MSG_MAP:
    fp_enc_map_change (&w, &map_change);
    break;
  case FP_MSG_MAP_READ:
    fp_enc_map_read (&w, &map_read);
    break;
  case FP_MSG_MAP_WRITE:
    fp_enc_map_words (&w, &map_words);
    break;
  case FP_MSG_DELETE:
    fp_enc_delete (&w, &delete_);
    break;
  case FP_MSG_VOLUMES:
    fp_enc_volumes_req (&w, &volumes_req);
    break;
  default: /* STAT: empty */
    break;
  }
  FUZZ_CHECK (fp_writer_ok (&w));
  return FP_BODY_MAX - w.left;
}

size_t
sample_reply (unsigned type, uint8_t *out)
{
  static struct fp_lookup_reply lookup_reply = { .epoch = 3 };
  static struct fp_volumes volumes = { .total = 1, .count = 1 };
  struct fp_writer w;

  lookup_reply.volume = volumes.volumes[0] = entry;
  lookup_reply.members = members;
  fp_writer_init (&w, out, FP_BODY_MAX);
  switch (type) {
  case FP_MSG_HELLO:
    fp_enc_hello_reply (&w, &hello_reply);
    break;
  case FP_MSG_OPEN:
    fp_enc_open_reply (&w, &open_reply);
    break;
  case FP_MSG_LIST:
    fp_enc_grants (&w, &listed);
    break;
  case FP_MSG_GRANT:
    fp_enc_grants (&w, &grants);
    break;
  case FP_MSG_PING:
    fp_enc_ping_reply (&w, &ping_reply);
    break;
  case FP_MSG_STAT:
    fp_enc_stat_reply (&w, &stat_reply);
    break;
  case FP_MSG_LOOKUP:
    fp_enc_lookup_reply (&w, &lookup_reply);
    break;
  case FP_MSG_MAP_READ:
    fp_enc_map_words (&w, &map_words);
    break;
  case FP_MSG_VOLUMES:
    fp_enc_volumes (&w, &volumes);
    break;
  case FP_MSG_TOKEN:
    fp_enc_token (&w, &token);
    break;
  case FP_MSG_JOIN:
    fp_enc_join_reply (&w, &join_reply);
    break;
  case FP_MSG_DRAIN:
    fp_enc_drain_reply (&w, &drain_reply);
    break;
  default: /* the others are empty */
    break;
  }
  FUZZ_CHECK (fp_writer_ok (&w));
  return FP_BODY_MAX - w.left;
}
