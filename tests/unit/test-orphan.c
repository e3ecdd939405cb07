/* SPDX-License-Identifier: BSD-3-Clause */
/* test-orphan.c - volumes without a name whose client is away for longer than
 * the lease: which client may come back, and when they are forgotten.
 */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "donor.h"
#include "memserver/session/guard.h"

#define TCP FP_TRANSPORT_TCP

static struct fp_grants grants;

static int
setup (void **state)
{
  (void) state;
  donor_start (4, 1);
  /* The tests end leases themselves. */
  donor.records.lease_s = donor.records.orphan_s = 3600;
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  donor_stop ();
  return 0;
}

static struct fp_uuid
volume (uint8_t id)
{
  return (struct fp_uuid) { .bytes = { id } };
}

static struct record *
find (uint8_t id)
{
  const struct fp_uuid uuid = volume (id);

  return records_find (&donor.records, &uuid);
}

static uint32_t
in_state (enum slab_state s)
{
  return pool_count (donor.pool).in[s];
}

static void
leave (struct session *s)
{
  s->parting = PARTING_HUNG_UP;
  assert_true (session_close_volume (s));
}

/* Give client id this many slabs of volume id; then it vanishes. */
static struct record *
make_left (uint8_t id, uint32_t slabs, unsigned transport)
{
  struct session *s = donor_attach (id, transport);
  struct record *r = s->record;

  s->client = r->holder_uuid = volume (id);
  if (slabs > 0) {
    assert_int_equal (donor_grant (s, slabs, &grants), 0);
    assert_int_equal (grants.count, slabs);
  }
  for (uint32_t i = 0; i < slabs; i++)
    assert_int_equal (donor_label (s, grants.grants[i].slab, i), 0);
  leave (s);
  return r;
}

/* Make an orphan: do make_left, and end the lease.  The lower age is the older
 * orphan.
 */
static struct record *
make_orphan (uint8_t id, uint32_t slabs, uint64_t age)
{
  struct record *r = make_left (id, slabs, TCP);

  assert_false (record_is_orphan (r));
  r->orphan_ns = age;
  assert_true (record_is_orphan (r));
  return r;
}

static struct session *
client (uint8_t id)
{
  static struct session s;

  memset (&s, 0, sizeof s);
  s.sessions = &donor.sessions;
  s.state = SESSION_READY;
  s.transports = TCP;
  s.client = volume (id);
  TAILQ_INIT (&s.data);
  return &s;
}

static const char *name = "";

static int
open_volume (struct session *s, uint8_t id, uint32_t flags)
{
  struct fp_open q = { .flags = flags,
                       .transport = TCP,
                       .volume = volume (id),
                       .size = 64 * MIB,
                       .slab_size = MIB,
                       .copies = 1,
                       .servers = 1,
                       .stripe = { .width = 1, .size = 4096 } };
  struct fp_writer w;

  snprintf (q.name, sizeof q.name, "%s", name);
  donor_begin (s, &w);
  fp_enc_open (&w, &q);
  return donor_ask (ctl_open, &w);
}

static int
look_up (struct session *s, uint8_t id)
{
  const struct fp_lookup q = { .volume = volume (id) };
  struct fp_writer w;

  donor_begin (s, &w);
  fp_enc_lookup (&w, &q);
  return donor_ask (ctl_lookup, &w);
}

/* Only the orphan's client comes back.  Others cannot know if it is current.
 */
static void
test_comes_back (void **state)
{
  struct session *s = client (2);

  (void) state;
  make_orphan (1, 2, 1);
  assert_int_equal (look_up (s, 1), -ENOENT);
  assert_int_equal (open_volume (s, 1, FP_OPEN_RESUME), -ENOENT);
  assert_int_equal (open_volume (s, 1, FP_OPEN_RESUME | FP_OPEN_TAKEOVER),
                    -ENOENT);
  assert_int_equal (in_state (SLAB_LENT), 2);

  s = client (1);
  assert_int_equal (look_up (s, 1), 0);
  assert_int_equal (open_volume (s, 1, FP_OPEN_RESUME), 0);
  assert_false (record_is_orphan (s->record));
  assert_int_equal (donor_list (s, &grants), 0);
  assert_int_equal (grants.count, 2);
  leave (s);
  assert_false (record_is_orphan (find (1)));
}

/* The last client that had a key comes back, even if another client attached
 * the volume since and never had one.
 */
static void
test_looked_at (void **state)
{
  struct session *s;

  (void) state;
  make_left (1, 1, TCP);
  s = client (2);
  assert_int_equal (open_volume (s, 1, FP_OPEN_RESUME), 0);
  leave (s);
  find (1)->orphan_ns = 1;
  assert_int_equal (open_volume (client (3), 1, FP_OPEN_RESUME), -ENOENT);
  assert_int_equal (open_volume (client (1), 1, FP_OPEN_RESUME), 0);
}

/* A client whose volume was taken over gets an error.  It does not replace the
 * next client's orphan.
 */
static void
test_former (void **state)
{
  struct session *s;

  (void) state;
  make_left (1, 1, TCP);
  s = client (3);
  assert_int_equal (open_volume (s, 1, FP_OPEN_RESUME | FP_OPEN_TAKEOVER), 0);
  leave (s);
  find (1)->orphan_ns = 1;
  s = client (1);
  assert_int_equal (open_volume (s, 1, FP_OPEN_RESUME), -EPERM);
  assert_int_equal (open_volume (s, 1, FP_OPEN_RESUME | FP_OPEN_CREATE),
                    -EPERM);
  assert_int_equal (find (1)->nr_slabs, 1);
  assert_int_equal (open_volume (client (3), 1, FP_OPEN_RESUME), 0);
}

/* A client that may only read does not replace the volume. */
static void
test_read_only (void **state)
{
  const uint32_t flags = FP_OPEN_CREATE | FP_OPEN_RESUME | FP_OPEN_READ_ONLY;

  (void) state;
  make_orphan (1, 2, 1);
  assert_int_equal (open_volume (client (2), 1, flags), -EPERM);
  assert_int_equal (find (1)->nr_slabs, 2);
}

/* A new volume takes the name of an ephemeral volume that is an orphan. */
static void
test_name (void **state)
{
  struct fp_lookup q = { .name = "swap" };
  struct session *s = client (2);
  struct fp_writer w;
  struct record *r;

  (void) state;
  r = make_orphan (1, 2, 1);
  snprintf (r->name, sizeof r->name, "swap");
  donor_begin (s, &w);
  fp_enc_lookup (&w, &q);
  assert_int_equal (donor_ask (ctl_lookup, &w), -ENOENT);
  name = "swap";
  assert_int_equal (open_volume (s, 4, FP_OPEN_CREATE), 0);
  name = "";
  assert_null (find (1));
}

/* A client without a UUID cannot be told from another. */
static void
test_nobody (void **state)
{
  struct session *s = client (0);
  struct record *r;

  (void) state;
  r = make_orphan (1, 1, 1);
  r->holder_uuid = s->client;
  assert_int_equal (open_volume (s, 1, FP_OPEN_RESUME), -ENOENT);
}

static void
test_made_anew (void **state)
{
  struct session *s = client (2);

  (void) state;
  make_orphan (1, 2, 1);
  assert_int_equal (open_volume (s, 1, FP_OPEN_CREATE | FP_OPEN_RESUME), 0);
  assert_int_equal (s->record->nr_slabs, 0);
  assert_int_equal (donor.records.nr, 1);
  assert_int_equal (in_state (SLAB_LENT), 0);
  leave (s);
}

static bool
one_is_free (void)
{
  return in_state (SLAB_FREE) > 0;
}

static int
grant_ahead (struct session *s)
{
  const struct fp_grant_req q = { .count = 1, .ahead = true };
  struct fp_writer w;

  donor_begin (s, &w);
  fp_enc_grant_req (&w, &q);
  return donor_ask (ctl_grant, &w);
}

/* If no slab is free, the oldest orphan is forgotten, and no more orphans than
 * needed.
 */
static void
test_memory_needed (void **state)
{
  struct session *s;

  (void) state;
  make_orphan (1, 1, 7);
  make_orphan (3, 1, 5);
  make_left (5, 1, TCP);
  assert_int_equal (records_reclaimable (&donor.records, NULL), 2);
  s = donor_attach (2, TCP);
  assert_int_equal (guard_free (s), 3);
  assert_int_equal (donor_grant (s, 4, &grants), 0);
  assert_int_equal (grants.count, 1);
  assert_int_equal (donor.records.nr, 4);

  assert_int_equal (grant_ahead (s), -ENOSPC);
  assert_int_equal (donor.records.nr, 4);
  assert_int_equal (donor_grant (s, 4, &grants), CTL_WAIT);
  assert_null (find (3));
  assert_non_null (find (1));
  /* The slab of 3 is being scrubbed, or was: no other orphan is forgotten now.
   */
  donor_wait (one_is_free);
  assert_int_equal (donor_grant (s, 1, &grants), 0);
  assert_non_null (find (1));
  assert_int_equal (donor_grant (s, 1, &grants), CTL_WAIT);
  assert_null (find (1));
  donor_wait (one_is_free);
  assert_int_equal (donor_grant (s, 1, &grants), 0);
  /* The lease of 5 is not over. */
  assert_int_equal (donor_grant (s, 1, &grants), -ENOSPC);
  assert_non_null (find (5));
  leave (s);
}

/* Under pressure, freed slabs would go to this host, not to the client. */
static void
test_pressed (void **state)
{
  struct session *s;

  (void) state;
  make_orphan (1, 4, 1);
  s = donor_attach (2, TCP);
  pool_press (donor.pool, true, 0);
  assert_int_equal (records_reclaimable (&donor.records, NULL), 0);
  assert_int_equal (donor_grant (s, 1, &grants), -ENOSPC);
  assert_non_null (find (1));
  /* Huge pages are lent even under pressure. */
  find (1)->nr_sound_huge = 4;
  assert_int_equal (records_reclaimable (&donor.records, NULL), 4);
  assert_int_equal (donor_grant (s, 1, &grants), CTL_WAIT);
  assert_null (find (1));
  pool_press (donor.pool, false, 0);
  leave (s);
}

/* A slab that its client may still have mapped is no free memory yet, neither
 * for a client nor for this host.  So its orphan is forgotten last.
 */
static void
test_mapped (void **state)
{
  struct session *s;
  struct record *r;

  (void) state;
  r = make_left (1, 2, FP_TRANSPORT_SHM);
  r->orphan_ns = 1;
  make_orphan (3, 2, 9);
  assert_int_equal (records_reclaimable (&donor.records, NULL), 2);
  s = donor_attach (2, TCP);
  assert_int_equal (donor_grant (s, 1, &grants), CTL_WAIT);
  assert_null (find (3));
  donor_wait (one_is_free);
  assert_int_equal (records_reclaim (&donor.records, NULL, RECLAIM_ORDINARY),
                    -ENOENT);
  assert_int_equal (records_reclaim (&donor.records, NULL, RECLAIM_LENDABLE),
                    -ENOENT);
  assert_int_equal (records_reclaim (&donor.records, NULL, RECLAIM_SLABS), 2);
  leave (s);
}

/* A request forgets only one orphan with mapped slabs.  It forgets none if the
 * memory would not be free soon.
 */
static void
test_mapped_twice (void **state)
{
  struct session *s;

  (void) state;
  for (uint8_t id = 1; id <= 5; id += 2)
    make_left (id, 1, FP_TRANSPORT_SHM)->orphan_ns = id;
  s = donor_attach (2, TCP);
  assert_int_equal (donor_grant (s, 1, &grants), 0);
  pool_press (donor.pool, true, 0);
  assert_int_equal (donor_grant (s, 1, &grants), -ENOSPC);
  assert_int_equal (donor.records.nr, 4);
  pool_press (donor.pool, false, 0);
  assert_int_equal (donor_grant (s, 1, &grants), CTL_WAIT);
  assert_int_equal (donor.records.nr, 3);
  assert_int_equal (donor_grant (s, 1, &grants), CTL_WAIT);
  assert_int_equal (donor.records.nr, 3);
  leave (s);
}

/* To make room for a map, only orphans that have a map are forgotten. */
static void
test_maps_needed (void **state)
{
  struct session *s = client (2);
  uint64_t words;
  struct record *r;

  (void) state;
  make_orphan (1, 1, 1);
  name = "vol";
  donor.records.map_words = MAX_MAP_WORDS;
  assert_int_equal (open_volume (s, 4, FP_OPEN_CREATE), -ENOSPC);
  assert_int_equal (donor.records.nr, 1);

  donor.records.map_words = 0;
  r = donor_attach_copies (3, "", 2, TCP)->record;
  assert_non_null (r->map);
  words = record_map_words (r);
  leave (r->holder);
  r->orphan_ns = 1;
  donor.records.map_words = MAX_MAP_WORDS;
  assert_int_equal (open_volume (s, 4, FP_OPEN_CREATE), 0);
  assert_non_null (find (1));
  assert_null (find (3));
  donor.records.map_words = words;
  name = "";
  leave (s);
}

/* There are so many orphans that there is no place for another volume. */
static void
test_records_needed (void **state)
{
  struct session *s = client (2);

  (void) state;
  make_orphan (1, 1, 2);
  make_orphan (3, 0, 1);
  donor.records.nr += MAX_RECORDS - 2;
  assert_int_equal (open_volume (s, 4, FP_OPEN_CREATE), 0);
  donor.records.nr -= MAX_RECORDS - 2;
  assert_null (find (3));
  assert_non_null (find (1));
  leave (s);
}

#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_comes_back),     TEST (test_nobody),
    TEST (test_made_anew),      TEST (test_memory_needed),
    TEST (test_pressed),        TEST (test_mapped),
    TEST (test_records_needed), TEST (test_looked_at),
    TEST (test_former),         TEST (test_read_only),
    TEST (test_name),           TEST (test_mapped_twice),
    TEST (test_maps_needed),
  };

  return RUN_TESTS (tests);
}
