/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "peer-fixture.h"

struct fake_server *servers[NR_SERVERS];
struct fp_volume *v;
unsigned char buf[SLAB];

void
link_params (struct fp_volume_params *p)
{
  fp_volume_params_init (p);
  p->nr_servers = NR_SERVERS;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    p->servers[i] = *fake_server_addr (servers[i]);
  p->size = SIZE;
  p->slab_size = SLAB;
  p->transports = FP_TRANSPORT_FAKE;
  p->timeout_ms = 1000;
  p->slots = 4;
  p->slot_size = 32 * 1024;
}

static int
start (unsigned nr_servers)
{
  static const char *const names[] = { "a", "b" };
  struct fp_volume_params p;
  struct fp_error error;

  for (unsigned i = 0; i < NR_SERVERS; i++)
    servers[i] = fake_server_new (names[i], SLAB, SLABS);
  link_params (&p);
  p.nr_servers = nr_servers;
  return fp_volume_start (&v, &p, &error) < 0;
}

int
link_setup (void **state)
{
  (void) state;
  return start (NR_SERVERS);
}

int
link_setup_one (void **state)
{
  (void) state;
  return start (1);
}

int
link_teardown (void **state)
{
  (void) state;
  fp_volume_stop (v, true);
  v = NULL;
  assert_int_equal (fp_fake_imports (), 0);
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    assert_int_equal (fake_server_free_slabs (servers[i]), SLABS);
    fake_server_free (servers[i]);
  }
  return 0;
}

void
pause_ms (unsigned ms)
{
  struct timespec t = { .tv_sec = ms / 1000,
                        .tv_nsec = (long) (ms % 1000) * 1000000 };

  nanosleep (&t, NULL);
}

int
write_extent (uint64_t i, const char *text)
{
  struct fp_lane *lane = fp_volume_lane_get (v);
  int r = fp_lane_write (lane, text, 5, i * SLAB);

  fp_volume_lane_put (lane);
  return r;
}

void
expect (uint64_t i, const char *text)
{
  struct fp_lane *lane = fp_volume_lane_get (v);

  assert_int_equal (fp_lane_read (lane, buf, 5, i * SLAB), 0);
  assert_memory_equal (buf, text, 5);
  fp_volume_lane_put (lane);
}

int
link_resume (struct fp_error *error)
{
  struct fp_volume_params p;

  link_params (&p);
  p.resume = true;
  p.uuid = *fp_volume_uuid (v);
  fp_volume_stop (v, false);
  v = NULL;
  for (unsigned i = 0; i < NR_SERVERS; i++)
    fake_server_revive (servers[i]);
  return fp_volume_start (&v, &p, error);
}

unsigned
holder (uint64_t i, uint64_t *generation)
{
  for (unsigned s = 0; s < NR_SERVERS; s++) {
    *generation = fake_server_generation (servers[s], i);
    if (*generation != 0)
      return s;
  }
  fail ();
  return 0;
}

void
await_state (unsigned server, enum fp_server_state state)
{
  uint64_t deadline = fp_deadline_in_ms (5000);
  struct fp_server_status s;

  for (;;) {
    fp_volume_server_status (v, server, &s);
    if (s.state == state)
      return;
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}

void
await_extent (uint64_t i, enum fp_extent_state state)
{
  uint64_t deadline = fp_deadline_in_ms (5000);

  while (fp_extent_state (&v->extents->p[i]) != state) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}

void
await_labelled (unsigned n)
{
  uint64_t deadline = fp_deadline_in_ms (5000);

  while (fake_server_labelled (servers[0]) +
             fake_server_labelled (servers[1]) !=
         n) {
    assert_false (fp_deadline_passed (deadline));
    pause_ms (5);
  }
}
