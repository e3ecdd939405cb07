/* SPDX-License-Identifier: BSD-3-Clause */
/* test-record.c - what a memory server knows of a volume, from one session to
 * the next.
 */

#include "unit.h"

#include <errno.h>

#include "donor.h"

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

/* What has a label is kept for the next session, and nothing else. */
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
  assert_int_equal (grants.grants[0].piece, 5);
  assert_int_equal (grants.grants[0].length, 1 * MIB);
  assert_int_equal (donor_release (s, slab), 0);
  assert_int_equal (donor_release (s, slab), -ENOENT);
  donor_wait (donor_all_free);
}

static bool
forgotten (void)
{
  return donor.nr_records == 0;
}

/* The lease is over, or its client is done with it. */
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

/* A slab that could not be taken back is no one's any more, and what it held
 * is told to every later session as lost, until that lets go of it.
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
    assert_int_equal (grants.grants[0].piece, 7);
    assert_int_equal (grants.grants[0].slab, labelled);
  }

  /* It takes no other label, and is never lent or scrubbed. */
  assert_int_equal (donor_label (s, labelled, 8), -ENOENT);
  assert_int_equal (donor_release (s, bare), -ENOENT);
  assert_int_equal (donor_release (s, labelled), 0);
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

/* Once another client had a key the one before it is former, for good; not
 * before, whoever opened the volume.
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

/* And the mark goes with the volume. */
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

int
main (void)
{
  const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
    TEST (test_kept),           TEST (test_forgotten), TEST (test_lost),
    TEST (test_lost_forgotten), TEST (test_former),
  };

  return RUN_TESTS (tests);
}
