/* SPDX-License-Identifier: BSD-3-Clause */
/* test-record.c - what a memory server keeps of a volume between sessions. */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "donor.h"
#include "memserver/store/persist.h"

#define TCP FP_TRANSPORT_TCP

static struct fp_grants grants;

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

static uint32_t
in_state (enum slab_state s)
{
  return pool_count (donor.pool).in[s];
}

/* Labelled slabs are kept for the next session, others are not. */
static void
test_kept (void **state)
{
  struct session *s = donor_attach (1, TCP);
  uint64_t slab;

  (void) state;
  assert_int_equal (donor_grant (s, 3, &grants), 0);
  assert_int_equal (grants.count, 3);
  slab = grants.grants[1].slab;
  assert_int_equal (donor_label (s, slab, 5), 0);
  assert_int_equal (donor_label (s, slab, 64), -EINVAL);
  assert_true (session_close_volume (s));
  assert_int_equal (in_state (SLAB_LENT), 1);

  s = donor_attach (1, TCP);
  assert_int_equal (donor_list (s, &grants), 0);
  assert_int_equal (grants.count, 1);
  assert_int_equal (grants.grants[0].slab, slab);
  assert_int_equal (grants.grants[0].extent, 5);
  assert_int_equal (grants.grants[0].length, 1 * MIB);
  assert_int_equal (donor_release (s, 1, &slab), 0);
  assert_int_equal (donor_release (s, 1, &slab), -ENOENT);
  donor_wait (donor_all_free);
}

/* A client that had the memfd can punch holes into it at any time.  So the TCP
 * threads get a copy, even for the same client.
 */
static void
test_shm_then_tcp (void **state)
{
  struct session *s = donor_attach (1, FP_TRANSPORT_SHM);
  struct slab *slab;

  (void) state;
  assert_int_equal (donor_grant (s, 1, &grants), 0);
  slab = pool_slab (donor.pool, grants.grants[0].slab);
  assert_true (slab->exposed);
  memset (slab->backing.addr, 6, 1 * MIB);
  assert_int_equal (donor_label (s, slab->index, 3), 0);
  s->parting = PARTING_ORDERLY;
  assert_true (session_close_volume (s));

  s = donor_attach (1, FP_TRANSPORT_SHM);
  assert_int_equal (donor_list (s, &grants), 0);
  assert_true (slab->exposed);
  s->parting = PARTING_ORDERLY;
  assert_true (session_close_volume (s));

  s = donor_attach (1, TCP);
  donor_list_moved (s, &grants);
  assert_int_equal (grants.count, 1);
  assert_int_equal (grants.grants[0].slab, slab->index);
  assert_false (slab->exposed);
  assert_int_equal (slab->backing.addr[1 * MIB - 1], 6);
  s->discard = true;
  assert_true (session_close_volume (s));
}

/* A client may ask for its list again.  A slab that it has mapped stays
 * exposed, so that no other client is lent it with that mapping.
 */
static void
test_listed_twice (void **state)
{
  struct session *s = donor_attach (1, FP_TRANSPORT_SHM);
  struct slab *slab;
  int fd;

  (void) state;
  assert_int_equal (donor_grant (s, 1, &grants), 0);
  slab = pool_slab (donor.pool, grants.grants[0].slab);
  assert_int_equal (donor_label (s, slab->index, 3), 0);
  s->parting = PARTING_ORDERLY;
  assert_true (session_close_volume (s));

  s = donor_attach (1, FP_TRANSPORT_SHM);
  s->stranger = true; /* set by OPEN if there is --access */
  donor_list_moved (s, &grants);
  assert_true (slab->exposed);
  fd = slab->backing.fd;
  assert_int_equal (donor_list (s, &grants), 0);
  assert_int_equal (grants.count, 1);
  assert_false (s->moving);
  assert_true (slab->exposed);
  assert_int_equal (slab->backing.fd, fd);
  s->discard = true;
  assert_true (session_close_volume (s));
}

/* While a slab is being copied, nothing else touches it. */
static void
test_busy_while_copied (void **state)
{
  struct session *s = donor_attach (1, FP_TRANSPORT_SHM);
  struct fp_zero zero = { .length = 4096 };
  uint64_t slabs[2];
  struct fp_writer w;

  (void) state;
  assert_int_equal (donor_grant (s, 2, &grants), 0);
  for (unsigned i = 0; i < 2; i++) {
    slabs[i] = grants.grants[i].slab;
    memset (pool_slab (donor.pool, slabs[i])->backing.addr, 6, 1 * MIB);
    assert_int_equal (donor_label (s, slabs[i], i), 0);
  }
  s->parting = PARTING_ORDERLY;
  assert_true (session_close_volume (s));

  /* The loop does not run: the copy may be done, but pool_moved has not run.
   */
  s = donor_attach (1, TCP);
  donor_list_moves (s);
  assert_true (s->moving);
  assert_int_equal (donor_release (s, 2, slabs), CTL_WAIT);
  zero.slab = slabs[0];
  donor_begin (s, &w);
  fp_enc_zero (&w, &zero);
  assert_int_equal (donor_ask (ctl_zero, &w), CTL_WAIT);
  s->patience = PATIENCE_OVER;
  assert_int_equal (donor_release (s, 2, slabs), -EBUSY);
  donor_begin (s, &w);
  fp_enc_zero (&w, &zero);
  assert_int_equal (donor_ask (ctl_zero, &w), -EBUSY);
  assert_int_equal (in_state (SLAB_LENT), 2);

  s->patience = PATIENCE_NEW;
  donor_wait_moved ();
  assert_int_equal (donor_release (s, 1, slabs), 0);
  donor_list_moved (s, &grants);
  assert_int_equal (grants.count, 1);
  assert_int_equal (grants.grants[0].slab, slabs[1]);
  s->discard = true;
  assert_true (session_close_volume (s));
  donor_wait (donor_all_free);
}

static uint64_t
extents_told (const struct record *r)
{
  struct fp_volume_entry e;

  record_describe (r, &e);
  return e.extents;
}

/* An extent counts once, whichever of its copies exist. */
static void
test_existing (void **state)
{
  struct session *s = donor_attach_copies (1, "v", 3, TCP);
  struct record *r = s->record;
  struct fp_map_change q = { .exist = true,
                             .count = 4,
                             .extents = { 5, 64 + 5, 128 + 6, 5 } };
  struct fp_map_words words = { .start = 0, .count = 4 };
  uint64_t *map;

  (void) state;
  assert_int_equal (record_extents (r), 64);
  assert_int_equal (extents_told (r), 0);
  assert_int_equal (record_map (r, &q), 0);
  assert_int_equal (extents_told (r), 2);
  q = (struct fp_map_change) { .exist = false, .count = 1, .extents = { 5 } };
  assert_int_equal (record_map (r, &q), 0);
  assert_int_equal (extents_told (r), 2);
  q.extents[0] = 64 + 5;
  assert_int_equal (record_map (r, &q), 0);
  assert_int_equal (record_map (r, &q), 0);
  assert_int_equal (extents_told (r), 1);
  words.words[0] = 0xff;
  words.words[1] = 0xff00;
  words.words[2] = 0x81;
  words.words[3] = 1; /* beyond the last extent */
  assert_int_equal (record_map_write (r, &words), 0);
  assert_int_equal (extents_told (r), 16);

  /* A restarted server counts the same. */
  map = r->map;
  donor.records.map_words = 0;
  record_take_map (r, map);
  assert_int_equal (extents_told (r), 16);
  words.words[0] = words.words[1] = words.words[2] = 0;
  assert_int_equal (record_map_write (r, &words), 0);
  assert_int_equal (extents_told (r), 0);
  s->discard = true;
  assert_true (session_close_volume (s));
}

static bool
forgotten (void)
{
  return donor.records.nr == 0;
}

/* A record goes when its lease ends, or when its client discards it. */
static void
test_forgotten (void **state)
{
  struct session *s = donor_attach (1, TCP);

  (void) state;
  assert_int_equal (donor_grant (s, 2, &grants), 0);
  assert_int_equal (donor_label (s, grants.grants[0].slab, 0), 0);
  assert_true (session_close_volume (s));
  donor_wait (forgotten);
  donor_wait (donor_all_free);

  s = donor_attach (1, TCP);
  assert_int_equal (donor_grant (s, 2, &grants), 0);
  assert_int_equal (donor_label (s, grants.grants[0].slab, 0), 0);
  s->discard = true;
  assert_true (session_close_volume (s));
  assert_true (forgotten ());
  donor_wait (donor_all_free);
}

/* A slab that could not be taken back belongs to no session any more.  Every
 * later session is told that it is lost, until one releases it.
 */
static void
test_lost (void **state)
{
  struct session *s = donor_attach (1, TCP);
  uint64_t labelled, bare;

  (void) state;
  assert_int_equal (donor_grant (s, 2, &grants), 0);
  labelled = grants.grants[0].slab;
  bare = grants.grants[1].slab;
  assert_int_equal (donor_label (s, labelled, 7), 0);
  record_lose (s->record, pool_slab (donor.pool, labelled));
  record_lose (s->record, pool_slab (donor.pool, bare));
  assert_int_equal (in_state (SLAB_LOST), 2);

  for (unsigned i = 0; i < 2; i++) {
    assert_true (session_close_volume (s));
    s = donor_attach (1, TCP);
    assert_int_equal (s->record->nr_slabs, 1);
    assert_int_equal (donor_list (s, &grants), 0);
    assert_int_equal (grants.count, 1);
    assert_true (fp_grant_is_lost (&grants.grants[0]));
    assert_int_equal (grants.grants[0].extent, 7);
    assert_int_equal (grants.grants[0].slab, labelled);
  }

  /* A lost slab takes no other label, and is never lent or scrubbed. */
  assert_int_equal (donor_label (s, labelled, 8), -ENOENT);
  assert_int_equal (donor_release (s, 1, &bare), -ENOENT);
  assert_int_equal (donor_release (s, 1, &labelled), 0);
  assert_int_equal (donor_list (s, &grants), 0);
  assert_int_equal (grants.count, 0);
  assert_int_equal (in_state (SLAB_LOST), 2);
  assert_int_equal (in_state (SLAB_FREE), 2);
}

static const struct fp_uuid a = { .bytes = { 1 } }, b = { .bytes = { 2 } };

static struct session *
attach_as (const struct fp_uuid *client)
{
  struct session *s = donor_attach (1, TCP);

  s->client = *client;
  s->record->holder_uuid = *client;
  return s;
}

/* A client becomes former once another client has had a key, not when another
 * one only opens the volume.  It stays so until many others are former.
 */
static void
test_former (void **state)
{
  struct session *s = attach_as (&a);
  struct record *r = s->record;

  (void) state;
  assert_int_equal (donor_grant (s, 1, &grants), 0);
  assert_int_equal (donor_label (s, grants.grants[0].slab, 7), 0);
  assert_true (session_close_volume (s));
  s = attach_as (&b);
  assert_ptr_equal (s->record, r);
  assert_false (record_is_former (r, &a));
  assert_true (session_close_volume (s));

  s = attach_as (&a);
  assert_int_equal (donor_list (s, &grants), 0);
  assert_true (session_close_volume (s));
  assert_false (record_is_former (r, &a));
  s = attach_as (&b);
  assert_int_equal (donor_list (s, &grants), 0);
  assert_true (record_is_former (r, &a));
  assert_false (record_is_former (r, &b));
  assert_true (session_close_volume (s));

  for (unsigned i = 0; i < 2 * RECORD_FORMER; i++) {
    struct fp_uuid other = { .bytes = { 3, (uint8_t) i } };

    s = attach_as (&other);
    assert_int_equal (donor_list (s, &grants), 0);
    assert_true (session_close_volume (s));
  }
  assert_true (record_is_former (r, &r->former[RECORD_FORMER - 1]));
  assert_false (record_is_former (r, &r->user));
}

/* A takeover makes the previous client former at once, even if no client ever
 * had a key.
 */
static void
test_shut_out (void **state)
{
  struct session *s = attach_as (&a);
  struct record *r = s->record;
  static const struct fp_uuid nobody;

  (void) state;
  assert_true (record_shut_out (r));
  assert_true (record_is_former (r, &a));
  assert_false (record_shut_out (r));
  assert_int_equal (r->nr_former, 1);
  assert_int_equal (r->epoch, 2);
  assert_true (session_close_volume (s));
  s = attach_as (&b);
  record_used (r);
  assert_false (record_is_former (r, &b));
  assert_true (record_shut_out (r));
  assert_true (session_close_volume (s));
  s = attach_as (&nobody);
  assert_false (record_shut_out (r));
  record_used (r);
  assert_false (record_is_former (r, &nobody));
  assert_int_equal (r->nr_former, 2);
}

/* A volume without a name is not kept for its client: the next nbdkit of its
 * device is another client.
 */
static void
test_unnamed_returns (void **state)
{
  struct session *s = attach_as (&a);
  struct record *r = s->record;

  (void) state;
  s->parting = PARTING_HUNG_UP;
  assert_true (session_close_volume (s));
  assert_int_equal (record_fenced_ms (r), 0);
}

/* A lost slab's label goes with its record. */
static void
test_lost_forgotten (void **state)
{
  struct session *s = donor_attach (1, TCP);

  (void) state;
  assert_int_equal (donor_grant (s, 1, &grants), 0);
  assert_int_equal (donor_label (s, grants.grants[0].slab, 7), 0);
  record_lose (s->record, pool_slab (donor.pool, grants.grants[0].slab));
  assert_true (session_close_volume (s));
  donor_wait (forgotten);
  assert_int_equal (in_state (SLAB_LOST), 1);
  assert_int_equal (in_state (SLAB_FREE), 3);
}

/* With a store, the room for maps is given back, too. */
static void
test_persist (void **state)
{
  char top[] = "/dev/shm/farpage-test.XXXXXX";
  struct fp_error error;
  const struct persist_params p = {
    .dir = top, .slab_size = MIB, .slabs = 4, .lease_s = 1
  };
  struct fp_map_change q = { .exist = true, .count = 1, .extents = { 3 } };
  char lock[64], file[128];
  struct session *s;

  (void) state;
  if (!mkdtemp (top))
    skip ();
  if (persist_open (&donor.records.persist, &p, &error) < 0) {
    rmdir (top);
    skip (); /* not on tmpfs */
  }
  for (unsigned i = 0; i < 3; i++) {
    s = donor_attach_named (1, "vol", TCP);
    assert_int_equal (donor_grant (s, 1, &grants), 0);
    assert_int_equal (donor_label (s, grants.grants[0].slab, 3), 0);
    assert_int_equal (record_map (s->record, &q), 0);
    assert_int_equal (persist_labelled (donor.records.persist, 0).state +
                          persist_labelled (donor.records.persist, 1).state +
                          persist_labelled (donor.records.persist, 2).state +
                          persist_labelled (donor.records.persist, 3).state,
                      PERSIST_LABELLED);
    assert_int_equal (donor.records.map_words, 1);
    if (i == 0)
      s->discard = true;
    assert_true (session_close_volume (s));
    if (i == 1)
      record_delete (records_find_name (&donor.records, "vol"), "test");
    if (i == 2)
      records_free (&donor.records);
    assert_int_equal (donor.records.map_words, 0);
  }
  persist_close (donor.records.persist);
  donor.records.persist = NULL;
  snprintf (lock, sizeof lock, "%s/lock", top);
  snprintf (file, sizeof file, "%s/state", top);
  assert_int_equal (unlink (lock), 0);
  assert_int_equal (unlink (file), 0);
  snprintf (file, sizeof file,
            "%s/volume-01000000-0000-0000-0000-000000000000", top);
  assert_int_equal (unlink (file), 0);
  assert_int_equal (rmdir (top), 0);
}

/* A volume whose client had been attached for long counts as left when the
 * server was killed.  That holds after a second kill before the client is
 * back, too.
 */
static void
test_killed_twice (void **state)
{
  char top[] = "/dev/shm/farpage-test.XXXXXX", file[64];
  struct fp_error error;
  const struct persist_params p = {
    .dir = top, .slab_size = MIB, .slabs = 4, .lease_s = 1
  };
  const struct fp_uuid uuid = { .bytes = { 1 } };
  struct session *s;

  (void) state;
  if (!mkdtemp (top))
    skip ();
  if (persist_open (&donor.records.persist, &p, &error) < 0) {
    rmdir (top);
    skip (); /* not on tmpfs */
  }
  s = donor_attach (1, TCP);
  s->record->since = 1000;
  assert_int_equal (record_keep (s->record), 0);
  for (unsigned i = 0; i < 2; i++) {
    struct record *r;

    records_free (&donor.records);
    persist_close (donor.records.persist);
    assert_int_equal (persist_open (&donor.records.persist, &p, &error), 0);
    assert_int_equal (records_take_up (&donor.records), 0);
    r = records_find (&donor.records, &uuid);
    assert_non_null (r);
    assert_true (r->since > 1000);
    assert_false (record_is_orphan (r));
  }
  record_delete (records_find (&donor.records, &uuid), "test");
  persist_close (donor.records.persist);
  donor.records.persist = NULL;
  snprintf (file, sizeof file, "%s/lock", top);
  assert_int_equal (unlink (file), 0);
  snprintf (file, sizeof file, "%s/state", top);
  assert_int_equal (unlink (file), 0);
  assert_int_equal (rmdir (top), 0);
}

/* A request waits for a slab that is not ready, except a request ahead of
 * need.
 */
static void
test_ahead (void **state)
{
  const struct fp_grant_req q = { .count = 1, .ahead = true };
  struct fp_writer w;
  struct session *s;

  (void) state;
  donor_stop ();
  donor_start_idle (2, 1);
  s = donor_attach (1, TCP);
  assert_int_equal (donor_grant (s, 1, &grants), CTL_WAIT);
  donor_begin (s, &w);
  fp_enc_grant_req (&w, &q);
  assert_int_equal (donor_ask (ctl_grant, &w), -ENOSPC);
  assert_true (session_close_volume (s));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
    TEST (test_kept),         TEST (test_forgotten),
    TEST (test_lost),         TEST (test_lost_forgotten),
    TEST (test_former),       TEST (test_shut_out),
    TEST (test_shm_then_tcp), TEST (test_persist),
    TEST (test_listed_twice), TEST (test_busy_while_copied),
    TEST (test_existing),     TEST (test_unnamed_returns),
    TEST (test_ahead),        TEST (test_killed_twice),
  };

  return RUN_TESTS (tests);
}
