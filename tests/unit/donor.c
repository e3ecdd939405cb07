/* SPDX-License-Identifier: BSD-3-Clause */

#include "unit.h"

#include <stdio.h>
#include <string.h>

#include <event2/event.h>

#include "base/clock.h"
#include "donor.h"

#define WAIT_S 60

struct server donor;
static struct options options;
struct donor_call donor_call; /* too large for a stack */

static void
on_freed (void *ctx)
{
  (void) ctx;
}

void
donor_start_idle (uint32_t slabs, uint64_t slab_mib)
{
  struct pool_params p = {
    .slab = { .size = slab_mib * MIB, .hugepages = HUGEPAGES_OFF, .numa = -1 },
    .slabs = slabs,
    .freed = on_freed,
  };
  uint32_t made;

  memset (&donor, 0, sizeof donor);
  options = (struct options) { .slab = slab_mib * MIB };
  donor.options = &options;
  sessions_init (&donor.sessions, ctl_dispatch);
  records_init (&donor.records);
  donor.base = event_base_new ();
  assert_non_null (donor.base);
  assert_int_equal (mailbox_new (&donor.mailbox, donor.base), 0);
  p.mailbox = donor.mailbox;
  assert_int_equal (pool_new (&donor.pool, &p, &made), 0);
  assert_int_equal (made, slabs);
  donor.records.base = donor.base;
  donor.records.pool = donor.pool;
  donor.records.lease_s = 1;
  donor.sessions.base = donor.base;
  donor.sessions.mailbox = donor.mailbox;
  donor.sessions.pool = donor.pool;
  donor.sessions.records = &donor.records;
  donor.sessions.name = "donor";
}

void
donor_start (uint32_t slabs, uint64_t slab_mib)
{
  donor_start_idle (slabs, slab_mib);
  assert_int_equal (pool_start (donor.pool), 0);
  donor_wait (donor_all_free);
}

void
donor_stop (void)
{
  records_free (&donor.records);
  pool_free (donor.pool);
  mailbox_free (donor.mailbox);
  event_base_free (donor.base);
}

void
donor_wait (bool (*done) (void))
{
  const struct timeval tick = { .tv_usec = 2000 };
  uint64_t deadline = fp_deadline_in_ms (WAIT_S * 1000);

  while (!done ()) {
    assert_false (fp_deadline_passed (deadline));
    assert_int_equal (event_base_loopexit (donor.base, &tick), 0);
    assert_int_not_equal (event_base_dispatch (donor.base), -1);
  }
}

bool
donor_all_free (void)
{
  struct pool_counts c = pool_count (donor.pool);

  return c.in[SLAB_FREE] == c.total;
}

struct session *
donor_attach (uint8_t id, unsigned transport)
{
  return donor_attach_named (id, "", transport);
}

struct session *
donor_attach_named (uint8_t id, const char *name, unsigned transport)
{
  return donor_attach_copies (id, name, 1, transport);
}

struct session *
donor_attach_copies (uint8_t id, const char *name, uint32_t copies,
                     unsigned transport)
{
  struct fp_open q = { .flags = FP_OPEN_CREATE | FP_OPEN_RESUME,
                       .transport = transport,
                       .volume = { .bytes = { id } },
                       .size = 64 * options.slab,
                       .slab_size = options.slab,
                       .copies = copies,
                       .servers = 1,
                       .stripe = { .width = 1, .size = 4096 } };
  static struct session sessions[2];
  struct session *s = &sessions[id % 2];
  struct record *r = records_find (&donor.records, &q.volume);

  snprintf (q.name, sizeof q.name, "%s", name);
  memset (s, 0, sizeof *s);
  s->sessions = &donor.sessions;
  s->id = id;
  s->state = SESSION_OPEN;
  snprintf (s->name, sizeof s->name, "client%u", id);
  TAILQ_INIT (&s->data);
  if (r == NULL)
    assert_int_equal (record_new (&r, &donor.records, &q), 0);
  assert_int_equal (record_need_map (r), 0);
  record_attach (r,
                 &(struct record_holder) { .session = s,
                                           .client = &s->client,
                                           .name = s->name,
                                           .who = &s->who },
                 &q);
  s->record = r;
  return s;
}

void
donor_begin (struct session *s, struct fp_writer *w)
{
  memset (&donor_call.call, 0, sizeof donor_call.call);
  donor_call.call.session = s;
  donor_call.call.header = &donor_call.header;
  fp_writer_init (w, donor_call.in, sizeof donor_call.in);
  fp_writer_init (&donor_call.call.out, donor_call.out, sizeof donor_call.out);
}

int
donor_ask (ctl_handler *handler, const struct fp_writer *w)
{
  assert_true (fp_writer_ok (w));
  fp_reader_init (&donor_call.call.in, donor_call.in,
                  sizeof donor_call.in - w->left);
  return handler (&donor_call.call);
}

void
donor_reply (struct fp_reader *out)
{
  fp_reader_init (out, donor_call.out,
                  sizeof donor_call.out - donor_call.call.out.left);
}

static int
take_grants (int r, struct fp_grants *p)
{
  struct fp_reader in;

  if (r != 0)
    return r;
  donor_reply (&in);
  return fp_dec_grants (&in, p);
}

int
donor_list (struct session *s, struct fp_grants *p)
{
  const struct fp_list q = { .max = FP_MAX_GRANTS };
  struct fp_writer w;

  donor_begin (s, &w);
  fp_enc_list (&w, &q);
  return take_grants (donor_ask (ctl_list, &w), p);
}

static struct session *migrate;

static void
on_moved (struct note *note)
{
  assert_ptr_equal (note, &migrate->move.done);
  assert_int_equal (pool_moved (&migrate->move), 0);
  migrate->moving = false;
}

static bool
is_moved (void)
{
  return !migrate->moving;
}

void
donor_list_moves (struct session *s)
{
  static struct fp_grants unused;

  migrate = s;
  s->move.done.run = on_moved;
  assert_int_equal (donor_list (s, &unused), CTL_WAIT);
}

void
donor_wait_moved (void)
{
  donor_wait (is_moved);
}

void
donor_list_moved (struct session *s, struct fp_grants *p)
{
  donor_list_moves (s);
  donor_wait_moved ();
  assert_int_equal (donor_list (s, p), 0);
}

int
donor_grant (struct session *s, uint32_t count, struct fp_grants *p)
{
  const struct fp_grant_req q = { .count = count };
  struct fp_writer w;

  donor_begin (s, &w);
  fp_enc_grant_req (&w, &q);
  return take_grants (donor_ask (ctl_grant, &w), p);
}

int
donor_label (struct session *s, uint64_t slab, uint64_t extent)
{
  const struct fp_labels q = {
    .count = 1,
    .labels = { { .slab = slab, .extent = extent, .generation = 1 } }
  };
  struct fp_writer w;

  donor_begin (s, &w);
  fp_enc_labels (&w, &q);
  return donor_ask (ctl_label, &w);
}

int
donor_release (struct session *s, uint32_t count, const uint64_t *slabs)
{
  struct fp_release q = { .count = count };
  struct fp_writer w;

  memcpy (q.slabs, slabs, count * sizeof *slabs);
  donor_begin (s, &w);
  fp_enc_release (&w, &q);
  return donor_ask (ctl_release, &w);
}
