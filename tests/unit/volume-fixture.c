/* SPDX-License-Identifier: BSD-3-Clause */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/lane.h"
#include "volume-fixture.h"

struct fake_server *servers[FIXTURE_SERVERS];
struct fp_volume *v;
struct fp_error last_error;
unsigned nr_copies, nr_named, copies_timeout_ms;

void
fixture_up (unsigned nr, uint64_t slab_size, unsigned slabs)
{
  static const char *const names[FIXTURE_SERVERS] = { "a", "b", "c", "d" };

  for (unsigned i = 0; i < nr; i++)
    servers[i] = fake_server_new (names[i], slab_size, slabs);
}

int
fixture_down (void **state)
{
  (void) state;
  fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
  fp_fake_fault_at (0, FP_FAKE_ERROR);
  fp_volume_stop (v, false);
  v = NULL;
  assert_int_equal (fp_fake_imports (), 0);
  for (unsigned i = 0; i < FIXTURE_SERVERS; i++) {
    if (servers[i] != NULL)
      fake_server_free (servers[i]);
    servers[i] = NULL;
  }
  return 0;
}

void
fixture_params (struct fp_volume_params *p, unsigned first, unsigned nr)
{
  fp_volume_params_init (p);
  p->nr_servers = nr;
  for (unsigned i = 0; i < nr; i++)
    p->servers[i] = *fake_server_addr (servers[first + i]);
  strcpy (p->name, "vol");
  p->stripe.width = 1;
  p->transports = FP_TRANSPORT_FAKE;
  p->timeout_ms = 400;
  p->slots = 4;
  p->slot_size = 32 * 1024;
}

int
fixture_start (struct fp_volume_params *p)
{
  int r = fp_volume_probe (p, &last_error);

  return r < 0 ? r : fp_volume_start (&v, p, &last_error);
}

void
detach (void)
{
  fp_volume_stop (v, true); /* ignored for a volume with a name */
  v = NULL;
  assert_int_equal (fp_fake_imports (), 0);
}

void
must (int r)
{
  if (r < 0)
    fprintf (stderr, "%d: %s\n", r, last_error.text);
  assert_int_equal (r, 0);
}

void
pause_ms (unsigned ms)
{
  struct timespec t = { .tv_sec = ms / 1000,
                        .tv_nsec = (long) (ms % 1000) * 1000000 };

  nanosleep (&t, NULL);
}

unsigned
fixture_seed (void)
{
  const char *s = getenv ("FARPAGE_TEST_SEED");
  unsigned seed = s != NULL ? (unsigned) strtoul (s, NULL, 10) : 1;

  printf ("FARPAGE_TEST_SEED=%u\n", seed);
  return seed;
}

/* ---- a volume with several copies ---- */

int
copies_setup (void **state)
{
  (void) state;
  nr_copies = 2;
  nr_named = 3;
  copies_timeout_ms = 400;
  fixture_up (FIXTURE_SERVERS, COPIES_SLAB, COPIES_SLABS);
  return 0;
}

void
copies_params (struct fp_volume_params *p)
{
  fixture_params (p, 0, nr_named);
  p->copies = nr_copies;
  p->timeout_ms = copies_timeout_ms;
  p->resync_delay_ms = 0;
}

int
copies_attach (uint64_t size, bool without)
{
  struct fp_volume_params p;

  copies_params (&p);
  p.size = size;
  p.degraded = without;
  if (size == 0)
    p.copies = 0;
  return fixture_start (&p);
}

void
copies_die (void)
{
  fake_ctl_fault_at (1, FAKE_CTL_DIE);
  detach ();
  fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
}

int
put (uint64_t i, unsigned char byte)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  unsigned char bytes[COPIES_IO];
  int r;

  memset (bytes, byte, sizeof bytes);
  r = fp_lane_write (lane, bytes, sizeof bytes, i * COPIES_SLAB + 4096);
  fp_volume_lane_put (lane);
  return r;
}

int
get (uint64_t i)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  unsigned char got[COPIES_IO];
  int r = fp_lane_read (lane, got, sizeof got, i * COPIES_SLAB + 4096);

  fp_volume_lane_put (lane);
  for (unsigned n = 1; r == 0 && n < sizeof got; n++)
    assert_int_equal (got[n], got[0]);
  return r < 0 ? r : got[0];
}

void
trim (uint64_t i, uint64_t length)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  assert_int_equal (fp_lane_zero (lane, length, i * COPIES_SLAB, true), 0);
  fp_volume_lane_put (lane);
}

uint64_t
degraded (void)
{
  struct fp_mirror_status s;

  fp_mirror_status (&v->engine, &s);
  return s.degraded;
}

/* Return true if a copy is known to be wrong, so that it must be resynced. */
static bool
any_wrong (void)
{
  const struct fp_extents *t = v->extents;

  for (uint64_t k = 0; k < t->all; k++)
    if (atomic_load (&t->p[k].diverged) || atomic_load (&t->p[k].bad))
      return true;
  return false;
}

void
await_whole (void)
{
  uint64_t end = fp_deadline_in_ms (20000);

  while (any_wrong () || degraded () > 0) {
    assert_false (fp_deadline_passed (end));
    pause_ms (5);
  }
}

void
all_have (uint64_t i, int byte)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  uint64_t end = fp_deadline_in_ms (20000);
  struct fp_extents *t = v->extents;
  unsigned char got[COPIES_IO];

  for (unsigned c = 0; c < t->copies; c++) {
    /* A copy that leaves the in-sync set meanwhile does not count. */
    while (fp_copies_in_sync (t, i) >> c & 1) {
      memset (got, byte + 1, sizeof got);
      if (fp_block_read_copy (&v->engine.block, 0, c, got, sizeof got,
                              i * COPIES_SLAB + 4096) == 0) {
        for (unsigned n = 0; n < sizeof got; n++)
          assert_int_equal (got[n], byte);
        break;
      }
      assert_false (fp_deadline_passed (end));
      pause_ms (2);
    }
  }
  fp_volume_lane_put (lane);
}

bool copies_may_fail;
unsigned copies_failed;

/* An extent has `byte`, or `perhaps` if the last write failed. */
struct content {
  unsigned char byte, perhaps;
};

static void
write_one (struct content *c, uint64_t i, unsigned char byte)
{
  int r = put (i, byte);

  c->perhaps = byte;
  if (r == 0)
    c->byte = byte;
  else if (copies_may_fail)
    copies_failed++;
  else
    assert_int_equal (r, 0);
}

static void
read_one (struct content *c, uint64_t i)
{
  int is = get (i);

  if (is < 0 && copies_may_fail) {
    copies_failed++;
    return;
  }
  if (is != c->perhaps)
    assert_int_equal (is, c->byte);
  c->byte = c->perhaps = (unsigned char) is;
}

static void
write_some (struct content has[COPIES_EXTENTS])
{
  for (unsigned k = 1; k < 3 * COPIES_EXTENTS; k++) {
    uint64_t i = k * 5 % COPIES_EXTENTS, other = (i + 1) % COPIES_EXTENTS;

    if (k % 9 == 8) {
      trim (i, COPIES_SLAB);
      has[i] = (struct content) { 0 };
    }
    else {
      write_one (&has[i], i, (unsigned char) k);
    }
    read_one (&has[other], other);
  }
}

void
copies_exercise (bool (*fired) (void), bool *any)
{
  struct content has[COPIES_EXTENTS] = { { 0 } };

  if (copies_attach (COPIES_SIZE, false) == 0) {
    write_some (has);
    await_whole ();
    *any = fired ();
    fp_fake_fault_at (0, FP_FAKE_ERROR);
    fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
    await_whole ();
    for (uint64_t i = 0; i < COPIES_EXTENTS; i++) {
      read_one (&has[i], i);
      all_have (i, has[i].byte);
    }
    detach ();
    must (copies_attach (0, false));
    for (uint64_t i = 0; i < COPIES_EXTENTS; i++)
      assert_int_equal (get (i), has[i].byte);
    detach ();
  }
  else {
    *any = fired ();
  }
  for (unsigned i = 0; i < FIXTURE_SERVERS; i++)
    fake_server_forget (servers[i]);
}
