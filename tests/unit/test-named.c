/* SPDX-License-Identifier: BSD-3-Clause */
/* test-named.c - the state that a memory server keeps of a named volume. */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <event2/event.h>

#include "base/clock.h"
#include "donor.h"

#define TCP FP_TRANSPORT_TCP
#define EXTENTS 64 /* extents of donor_attach's volumes */

static struct fp_members members;
static struct fp_lookup_reply found;
static struct fp_map_words words;

static int
setup (void **state)
{
  (void) state;
  donor_start (4, 1);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  donor_stop ();
  return 0;
}

#define ASK(s, handler, enc, q)                                               \
  ({                                                                          \
    struct fp_writer w_;                                                      \
                                                                              \
    donor_begin (s, &w_);                                                     \
    enc (&w_, q);                                                             \
    donor_ask (handler, &w_);                                                 \
  })

static int
lookup (struct session *s, const char *name, uint8_t id)
{
  struct fp_lookup q = { .volume = { .bytes = { id } } };
  struct fp_reader in;
  int r;

  snprintf (q.name, sizeof q.name, "%s", name);
  r = ASK (s, ctl_lookup, fp_enc_lookup, &q);
  if (r < 0)
    return r;
  donor_reply (&in);
  assert_int_equal (fp_dec_lookup_reply (&in, &found), 0);
  return 0;
}

static int
set_members (struct session *s, uint64_t version, uint32_t count)
{
  memset (&members, 0, sizeof members);
  members.version = version;
  members.count = count;
  for (uint32_t i = 0; i < count; i++) {
    members.members[i].server.bytes[0] = (uint8_t) (i + 1);
    memset (members.members[i].addr, 'a', FP_ADDR_MAX);
    memset (members.members[i].domain, 'd', FP_NAME_MAX);
    members.members[i].current = true;
  }
  return ASK (s, ctl_members, fp_enc_members, &members);
}

static int
map (struct session *s, bool exist, uint64_t a, uint64_t b)
{
  const struct fp_map_change q = { .exist = exist,
                                   .count = 2,
                                   .extents = { a, b } };

  return ASK (s, ctl_map, fp_enc_map_change, &q);
}

static int
map_write (struct session *s, uint64_t start, uint32_t count, uint64_t first)
{
  memset (&words, 0, sizeof words);
  words.start = start;
  words.count = count;
  words.words[0] = first;
  return ASK (s, ctl_map_write, fp_enc_map_words, &words);
}

/* Return word n of the map from extent `start` on. */
static uint64_t
map_word (struct session *s, uint64_t start, uint32_t n)
{
  const struct fp_map_read q = { .start = start, .count = n + 1 };
  struct fp_reader in;

  assert_int_equal (ASK (s, ctl_map_read, fp_enc_map_read, &q), 0);
  donor_reply (&in);
  assert_int_equal (fp_dec_map_words (&in, &words), 0);
  assert_int_equal (words.count, n + 1);
  return words.words[n];
}

static uint64_t two_leases;

static bool
two_leases_passed (void)
{
  return fp_deadline_passed (two_leases);
}

/* After the lease, slabs with a label are still there, and so is all state of
 * the volume.  Slabs without a label went back.
 */
static void
test_kept (void **state)
{
  struct session *s = donor_attach_named (1, "v", TCP);
  struct fp_grants grants;

  (void) state;
  assert_int_equal (donor_grant (s, 3, &grants), 0);
  assert_int_equal (donor_label (s, grants.grants[0].slab, 5), 0);
  assert_int_equal (set_members (s, 1, 2), 0);
  assert_int_equal (map (s, true, 5, 5), 0);
  assert_true (session_close_volume (s));
  assert_int_equal (pool_count (donor.pool).in[SLAB_LENT], 1);
  two_leases = fp_deadline_in_ms (2000);
  donor_wait (two_leases_passed);

  assert_int_equal (lookup (s, "v", 0), 0);
  assert_false (found.volume.attached);
  s = donor_attach_named (1, "v", TCP);
  assert_int_equal (lookup (s, "v", 0), 0);
  assert_int_equal (found.volume.slabs, 1);
  assert_int_equal (found.volume.uuid.bytes[0], 1);
  assert_int_equal (found.volume.size, EXTENTS * MIB);
  assert_int_equal (found.volume.copies, 1);
  assert_true (found.volume.attached);
  assert_false (found.volume.ephemeral);
  assert_string_equal (found.volume.client, "client1");
  assert_int_equal (found.epoch, 2);
  assert_int_equal (found.members.version, 1);
  assert_int_equal (map_word (s, 0, 0), 1 << 5);
  assert_int_equal (donor_list (s, &grants), 0);
  assert_int_equal (grants.count, 1);

  /* If its client discards the volume, nothing is kept. */
  s->discard = true;
  assert_true (session_close_volume (s));
  assert_int_equal (donor.records.nr, 0);
  assert_int_equal (donor.records.map_words, 0);
  assert_int_equal (lookup (s, "v", 0), -ENOENT);
  donor_wait (donor_all_free);
}

static void
test_lookup (void **state)
{
  struct session *s = donor_attach_named (1, "v", TCP);

  (void) state;
  assert_int_equal (lookup (s, "", 1), 0);
  assert_string_equal (found.volume.name, "v");
  assert_int_equal (found.members.version, 0);
  assert_int_equal (found.members.count, 0);
  assert_int_equal (lookup (s, "w", 0), -ENOENT);
  assert_int_equal (lookup (s, "", 2), -ENOENT);
  s = donor_attach (2, TCP);
  assert_int_equal (lookup (s, "", 2), 0);
  assert_true (found.volume.ephemeral);
  /* The reply fits, even with the longest list. */
  s = donor_attach_named (4, "x", TCP);
  assert_int_equal (set_members (s, UINT64_MAX, FP_MAX_MEMBERS), 0);
  assert_int_equal (lookup (s, "x", 0), 0);
  assert_int_equal (found.members.count, FP_MAX_MEMBERS);
  assert_true (found.members.members[FP_MAX_MEMBERS - 1].current);
}

static void
test_members (void **state)
{
  struct session *s = donor_attach_named (1, "v", TCP);

  (void) state;
  assert_int_equal (set_members (s, 5, 3), 0);
  assert_int_equal (set_members (s, 5, 3), 0);
  assert_int_equal (set_members (s, 5, 2), -EINVAL);
  assert_int_equal (set_members (s, 4, 3), -EINVAL);
  members.version = 5;
  members.members[2].current = false;
  assert_int_equal (ASK (s, ctl_members, fp_enc_members, &members), -EINVAL);
  members.members[2].current = true;
  members.members[1].domain[0] = 'e';
  assert_int_equal (ASK (s, ctl_members, fp_enc_members, &members), -EINVAL);
  assert_int_equal (lookup (s, "v", 0), 0);
  assert_int_equal (found.members.version, 5);
  assert_int_equal (found.members.count, 3);
  assert_int_equal (set_members (s, 6, 1), 0);
  assert_int_equal (lookup (s, "v", 0), 0);
  assert_int_equal (found.members.count, 1);
}

static void
test_map (void **state)
{
  struct session *s = donor_attach_named (1, "v", TCP);

  (void) state;
  /* The map is there from the start. */
  assert_int_equal (donor.records.map_words, 1);
  assert_int_equal (map (s, false, 0, 63), 0);
  assert_int_equal (map_write (s, 0, 1, 0), 0);
  assert_int_equal (map_word (s, 0, 0), 0);

  assert_int_equal (map (s, true, 0, 63), 0);
  assert_int_equal (donor.records.map_words, 1);
  assert_true (map_word (s, 0, 0) == (UINT64_C (1) << 63 | 1));
  assert_int_equal (map_word (s, 0, FP_MAP_WORDS - 1), 0);
  assert_int_equal (map_word (s, UINT64_MAX - 63, 1), 0);
  /* A change is applied to all extents or to none. */
  assert_int_equal (map (s, true, 1, EXTENTS), -EINVAL);
  assert_int_equal (map (s, false, 0, UINT64_MAX), -EINVAL);
  assert_true (map_word (s, 0, 0) == (UINT64_C (1) << 63 | 1));
  assert_int_equal (map (s, false, 63, 63), 0);
  assert_int_equal (map_word (s, 0, 0), 1);

  assert_int_equal (map_write (s, 0, FP_MAP_WORDS, 0xff00), 0);
  assert_int_equal (map_word (s, 0, 0), 0xff00);
  assert_int_equal (map_write (s, 64, 1, 1), -EINVAL);
  assert_int_equal (map_write (s, UINT64_MAX - 63, 2, 1), -EINVAL);
  assert_int_equal (map_word (s, 0, 0), 0xff00);

  /* A volume whose last word is not full. */
  record_forget_volume (s->record);
  s->record->size = 65 * MIB - 1;
  assert_int_equal (map_write (s, 64, 1, 2), -EINVAL);
  assert_int_equal (map_write (s, 64, 1, 1), 0);
  assert_int_equal (donor.records.map_words, 2);
  assert_int_equal (map_word (s, 64, 0), 1);
}

static int
open_copies (uint8_t id, const char *name, uint32_t copies, bool lost_bits)
{
  static struct session s;
  struct fp_open q = { .flags = FP_OPEN_CREATE | FP_OPEN_RESUME,
                       .transport = TCP,
                       .volume = { .bytes = { id } },
                       .size = EXTENTS * MIB,
                       .slab_size = MIB,
                       .copies = copies,
                       .servers = 1,
                       .stripe = { .width = 1, .size = 4096 } };
  int r;

  s = (struct session) { .sessions = &donor.sessions,
                         .id = id,
                         .state = SESSION_READY,
                         .transports = TCP,
                         .lost_bits = lost_bits };
  TAILQ_INIT (&s.data);
  snprintf (q.name, sizeof q.name, "%s", name);
  r = ASK (&s, ctl_open, fp_enc_open, &q);
  assert_true (r != 0 || session_close_volume (&s));
  return r;
}

static int
open_volume (uint8_t id, const char *name)
{
  return open_copies (id, name, 1, false);
}

/* All maps together have a limit, however large the volumes are.  OPEN fails
 * if there is no room for a map, before there is any extent.
 */
static void
test_map_bounded (void **state)
{
  struct session *s;

  (void) state;
  donor.records.map_words = MAX_MAP_WORDS;
  assert_int_equal (open_volume (1, "v"), -ENOSPC);
  assert_non_null (strstr (donor_call.call.why, "64 MiB"));
  assert_int_equal (donor.records.nr, 0);
  assert_int_equal (donor.records.map_words, MAX_MAP_WORDS);
  assert_int_equal (open_volume (1, ""), 0); /* needs no map */
  donor.records.map_words = MAX_MAP_WORDS - 1;
  assert_int_equal (open_volume (2, "w"), 0);
  assert_int_equal (donor.records.map_words, MAX_MAP_WORDS);
  assert_int_equal (open_volume (3, "x"), -ENOSPC);
  assert_int_equal (open_volume (2, "w"), 0);
  /* A volume whose server was killed before it made the map. */
  record_forget_volume (records_find_name (&donor.records, "w"));
  donor.records.map_words = MAX_MAP_WORDS;
  assert_int_equal (open_volume (2, "w"), -ENOSPC);
  donor.records.map_words = 0;
  s = donor_attach_named (2, "w", TCP);
  assert_int_equal (map (s, true, 0, 0), 0);
}

static void
test_without_name (void **state)
{
  struct session *s = donor_attach (1, TCP);
  const struct fp_map_read q = { .count = 1 };

  (void) state;
  assert_int_equal (set_members (s, 1, 1), -EINVAL);
  assert_int_equal (map (s, true, 0, 1), -EINVAL);
  assert_int_equal (map_write (s, 0, 1, 1), -EINVAL);
  assert_int_equal (ASK (s, ctl_map_read, fp_enc_map_read, &q), -EINVAL);
}

static int delete (struct session *s, uint8_t id)
{
  const struct fp_delete q = { .volume = { .bytes = { id } } };

  return ASK (s, ctl_delete, fp_enc_delete, &q);
}

/* A volume cannot be deleted while a client has it or may still use its slabs.
 */
static void
test_delete (void **state)
{
  struct session *s = donor_attach_named (1, "v", TCP),
                 *other = donor_attach (2, TCP);
  struct fp_grants grants;

  (void) state;
  assert_int_equal (donor_grant (s, 2, &grants), 0);
  assert_int_equal (donor_label (s, grants.grants[0].slab, 5), 0);
  assert_int_equal (map (s, true, 5, 5), 0);
  assert_int_equal (delete (other, 1), -EBUSY);
  assert_non_null (strstr (donor_call.call.why, "client1"));
  s->state = SESSION_ENDING;
  assert_int_equal (delete (other, 1), CTL_WAIT);
  other->patience = PATIENCE_OVER;
  assert_int_equal (delete (other, 1), -EBUSY);
  assert_true (session_close_volume (s));
  assert_int_equal (delete (other, 1), 0);
  assert_int_equal (donor.records.nr, 1);
  assert_int_equal (donor.records.map_words, 0);
  assert_int_equal (delete (other, 1), -ENOENT);
  donor_wait (donor_all_free);
}

static uint32_t
list_from (struct session *s, uint32_t start, struct fp_volumes *p)
{
  const struct fp_volumes_req q = { .start = start };
  struct fp_reader in;

  assert_int_equal (ASK (s, ctl_volumes, fp_enc_volumes_req, &q), 0);
  donor_reply (&in);
  assert_int_equal (fp_dec_volumes (&in, p), 0);
  return p->count;
}

static void
test_volumes (void **state)
{
  static struct fp_volumes p;
  struct session *s = donor_attach (100, TCP);
  char name[FP_NAME_MAX + 1];

  (void) state;
  for (uint8_t i = 1; i <= 60; i++) {
    snprintf (name, sizeof name, "%064u", i);
    assert_true (session_close_volume (donor_attach_named (i, name, TCP)));
  }
  s = donor_attach_named (1, "", TCP);
  assert_int_equal (list_from (s, 0, &p), FP_MAX_VOLUMES_LISTED);
  assert_int_equal (p.total, 61);
  assert_true (p.volumes[0].ephemeral);
  assert_int_equal (p.volumes[1].uuid.bytes[0], 1);
  assert_true (p.volumes[1].attached);
  assert_int_equal (list_from (s, FP_MAX_VOLUMES_LISTED, &p), 13);
  assert_int_equal (p.volumes[12].uuid.bytes[0], 60);
  assert_false (p.volumes[12].attached);
  assert_int_equal (list_from (s, 61, &p), 0);
  assert_int_equal (list_from (s, UINT32_MAX, &p), 0);
}

static bool
nothing_is_lent (void)
{
  return pool_count (donor.pool).in[SLAB_LENT] == 0;
}

/* A volume without a name, but with several copies, also has members and a
 * map, until its lease is over.
 */
static void
test_copies_without_name (void **state)
{
  struct session *s = donor_attach_copies (1, "", 2, TCP);
  struct fp_grants grants;

  (void) state;
  assert_int_equal (donor_grant (s, 1, &grants), 0);
  assert_int_equal (donor_label (s, grants.grants[0].slab, 5), 0);
  assert_int_equal (set_members (s, 3, 2), 0);
  assert_int_equal (map (s, true, 5, 2 * EXTENTS), 0);
  assert_true (map (s, true, 5, 2 * EXTENTS + 1) < 0);
  /* Lost bits begin in the next word. */
  assert_int_equal (map (s, true, 192, 192 + EXTENTS - 1), 0);
  assert_true (map_word (s, 192, 0) == (UINT64_C (1) << (EXTENTS - 1) | 1));
  assert_true (map (s, true, 191, 192) < 0);
  assert_true (map (s, true, 192, 192 + EXTENTS) < 0);
  assert_int_equal (map_write (s, 192, 1, 0), 0);
  assert_int_equal (lookup (s, "", 1), 0);
  assert_true (found.volume.ephemeral);
  assert_int_equal (found.volume.copies, 2);
  assert_int_equal (found.members.version, 3);
  assert_true (session_close_volume (s));

  s = donor_attach_copies (1, "", 2, TCP);
  assert_int_equal (map_word (s, 0, 2), 1);
  assert_true (session_close_volume (s));
  donor_wait (nothing_is_lent);
  assert_int_equal (lookup (s, "", 1), -ENOENT);
  assert_int_equal (donor.records.map_words, 0);
}

/* A client of 0.1 does not know the lost bits. */
static void
test_lost_bits (void **state)
{
  struct session *s = donor_attach_copies (1, "v", 2, TCP);

  (void) state;
  assert_true (session_close_volume (s));
  assert_int_equal (open_copies (1, "v", 2, false), 0);
  s = donor_attach_copies (1, "v", 2, TCP);
  assert_int_equal (map (s, true, 5, 192 + 5), 0);
  assert_true (session_close_volume (s));
  assert_int_equal (open_copies (1, "v", 2, false), -EOPNOTSUPP);
  assert_non_null (strstr (donor_call.call.why, "lost for good"));
  assert_int_equal (open_copies (1, "v", 2, true), 0);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
    TEST (test_delete),       TEST (test_volumes),
    TEST (test_kept),         TEST (test_lookup),
    TEST (test_members),      TEST (test_map),
    TEST (test_map_bounded),  TEST (test_lost_bits),
    TEST (test_without_name), TEST (test_copies_without_name),
  };

  return RUN_TESTS (tests);
}
