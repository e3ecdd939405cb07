/* SPDX-License-Identifier: BSD-3-Clause */
/* test-keys.c - a memory server with many keys to revoke, each of them slowly,
 * as with rdma.  Other clients get their turn meanwhile.  Nothing is lent or
 * answered before all are revoked, and each is revoked once.
 */

#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "donor.h"
#include "memserver/session/keys.h"
#include "memserver/session/rdma.h"

#define SLABS 40
#define REVOKE_MS 10

static struct fp_grants grants;
static unsigned revoked;

/* Replaces rdma_unregister (-Wl,--wrap). */
int __wrap_rdma_unregister (struct slab *slab);

int
__wrap_rdma_unregister (struct slab *slab)
{
  assert_non_null (slab->region);
  assert_int_equal (slab->state, SLAB_LENT);
  slab->region = NULL;
  revoked++;
  assert_int_equal (poll (NULL, 0, REVOKE_MS), 0);
  return 0;
}

static int
setup (void **state)
{
  (void) state;
  donor_start (SLABS, 1);
  revoked = 0;
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  donor_stop ();
  return 0;
}

/* Return a session that holds all slabs, registered. */
static struct session *
attach (void)
{
  static int nothing;
  struct session *s = donor_attach (1, FP_TRANSPORT_TCP);

  assert_int_equal (donor_grant (s, SLABS, &grants), 0);
  assert_int_equal (grants.count, SLABS);
  for (uint32_t i = 0; i < SLABS; i++)
    pool_slab (donor.pool, grants.grants[i].slab)->region =
        (struct fp_verbs_region *) &nothing;
  return s;
}

static struct session *closing;
static unsigned rounds;

static bool
is_closed (void)
{
  unsigned before = revoked;
  bool closed = session_close_volume (closing);

  /* The limit of a turn, with room for a busy machine. */
  assert_true (revoked - before <= KEYS_NS / FP_NS_PER_MS / REVOKE_MS + 1);
  rounds++;
  if (!closed)
    assert_int_equal (pool_count (donor.pool).in[SLAB_LENT], SLABS);
  return closed;
}

static void
test_close (void **state)
{
  (void) state;
  closing = attach ();
  closing->discard = true;
  rounds = 0;
  donor_wait (is_closed);
  assert_true (rounds >= 5);
  assert_int_equal (revoked, SLABS);
  assert_null (closing->record);
  donor_wait (donor_all_free);
}

static void
test_release (void **state)
{
  struct session *s = attach ();
  uint64_t slabs[SLABS];
  unsigned turns = 1;
  int r;

  (void) state;
  for (uint32_t i = 0; i < SLABS; i++)
    slabs[i] = grants.grants[i].slab;
  while ((r = donor_release (s, SLABS, slabs)) == CTL_WAIT) {
    assert_int_equal (pool_count (donor.pool).in[SLAB_LENT], SLABS);
    turns++;
  }
  assert_int_equal (r, 0);
  assert_true (turns >= 5);
  assert_int_equal (revoked, SLABS);
  donor_wait (donor_all_free);
}

int
main (void)
{
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
  const struct CMUnitTest tests[] = {
    TEST (test_close),
    TEST (test_release),
  };

  return RUN_TESTS (tests);
}
