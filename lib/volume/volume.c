/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sync.h"
#include "engine/lane.h"
#include "filter/sealed.h"
#include "heal/check.h"
#include "heal/migrate.h"
#include "meta/meta_log.h"
#include "peer/peer.h"
#include "volume/io.h"
#include "volume/volume_int.h"

void
fp_volume_params_init (struct fp_volume_params *p)
{
  *p = (struct fp_volume_params) {
    .copies = 1,
    .transports = FP_TRANSPORT_WIRE_MASK,
    .timeout_ms = 2000,
    .poll_us = 100,
    .lanes = 1,
    .slots = 16,
    .slot_size = 128 * 1024,
    .resync_delay_ms = 30000,
    .quiet_ms = 5000,
  };
}

/* ---- start and stop ---- */

static void
volume_free (struct fp_volume *v)
{
  if (v == NULL)
    return;
  for (unsigned i = 0; i < FP_MAX_SERVERS; i++)
    fp_peer_free (v->peers.at[i]);
  fp_engine_destroy (&v->engine);
  while (v->top != &v->engine.block) {
    struct fp_block *b = v->top;

    v->top = b->below;
    b->ops->free (b);
  }
  fp_check_free (v->check);
  fp_migrate_free (v->migrate);
  fp_meta_log_free (v->meta_log);
  fp_servers_destroy (&v->servers);
  fp_allocator_destroy (&v->allocator);
  fp_peers_destroy (&v->peers);
  fp_lease_destroy (&v->lease);
  fp_extents_free (v->extents);
  fp_io_free (v);
  free (v);
}

/* Return true if these parameters go together (volume.h). */
static bool
may_be_sealed (const struct fp_volume_params *p)
{
  bool ephemeral = p->encrypt == FP_ENCRYPT_EPHEMERAL;

  if (p->name[0] != '\0' && (ephemeral || p->checksum != FP_CHECKSUM_NONE))
    return false;
  return !(p->integrity && !ephemeral) && !(ephemeral && p->resume) &&
         (p->encrypt != FP_ENCRYPT_FILE || p->key != NULL);
}

static void
ask_servers (void *arg)
{
  struct fp_volume *v = arg;

  for (unsigned i = 0; i < v->peers.nr; i++)
    fp_peer_poke (v->peers.at[i]);
}

static bool
has_valid_buffers (const struct fp_volume_params *p)
{
  return p->buffers == 0 ||
         (p->buffers <= FP_MAX_BUFFERS && p->buffer_size > 0 &&
          p->buffer_size % 4096 == 0 &&
          p->buffer_size <= FP_MAX_BUFFER_MEMORY / p->buffers);
}

static bool
are_valid (const struct fp_volume_params *p)
{
  return p->nr_servers > 0 && p->nr_servers <= FP_MAX_SERVERS && p->size > 0 &&
         p->size % 512 == 0 && p->lanes > 0 && p->lanes <= FP_MAX_LANES &&
         p->slots > 0 && p->slot_size > 0 && p->slot_size % 4096 == 0 &&
         has_valid_buffers (p) && p->copies > 0 &&
         p->copies <= FP_MAX_COPIES && may_be_sealed (p) &&
         !(p->read_only &&
           (!p->resume || p->name[0] == '\0' || p->takeover ||
            p->reserve_full || p->joins != 0 || p->leaves != 0));
}

/* Initialise the parts, from below. */
static void
init_parts (struct fp_volume *v)
{
  const struct fp_volume_params *p = &v->p;

  fp_lease_init (&v->lease, ask_servers, v);
  v->lease.changes = &v->extents->changes;
  v->peers = (struct fp_peers) {
    .ops = &fp_volume_peer_ops,
    .v = v,
    .p = &v->p,
    .extents = v->extents,
    .lease = &v->lease,
    .recorded = &v->recorded,
    .nr = p->nr_servers,
    .servers = p->nr_servers,
  };
  fp_peers_init (&v->peers);
  for (unsigned i = 0; i < p->nr_servers; i++)
    (void) fp_peers_move (&v->peers, i, FP_PLACE_FREE,
                          p->leaves >> i & 1  ? FP_PLACE_LEAVING
                          : p->joins >> i & 1 ? FP_PLACE_NEW
                                              : FP_PLACE_MEMBER);
  fp_allocator_init (&v->allocator, &v->peers, fp_restore_look, &v->restore);
  fp_engine_init (&v->engine, &v->peers, &v->allocator);
  v->restore.e = &v->engine;
  fp_servers_init (&v->servers, &v->peers);
  v->top = &v->engine.block;
}

/* Allocate what the parts need. */
static int
fill_parts (struct fp_volume *v)
{
  int r = fp_meta_log_new (&v->meta_log, &v->peers, &fp_volume_meta_log_ops);

  v->engine.meta_log = v->servers.meta_log = v->meta_log;
  if (r == 0)
    r = fp_engine_alloc (&v->engine);
  for (unsigned i = 0; r == 0 && i < v->peers.nr; i++)
    r = fp_peer_new (&v->peers.at[i], &v->peers, i);
  if (r == 0)
    r = fp_migrate_new (&v->migrate, &v->engine);
  v->restore.migrate = v->servers.migrate = v->migrate;
  if (r == 0)
    r = fp_check_new (&v->check, &v->engine);
  return r == 0 ? fp_io_new (v) : r;
}

static int
make (struct fp_volume **out, const struct fp_volume_params *p)
{
  struct fp_volume *v;
  int r = 0;

  if (!are_valid (p))
    return -EINVAL;
  v = calloc (1, sizeof *v);
  if (v == NULL)
    return -ENOMEM;
  v->p = *p;
  v->p.stripe = fp_volume_stripe (p);
  if (fp_uuid_is_nil (&v->p.uuid))
    r = fp_uuid_generate (&v->p.uuid);
  if (r == 0)
    r = fp_extents_new (&v->extents, p->size, p->slab_size, &v->p.stripe,
                        p->copies);
  if (r < 0) {
    free (v);
    return r;
  }
  init_parts (v);
  r = fill_parts (v);
  if (r < 0) {
    volume_free (v);
    return r;
  }
  *out = v;
  return 0;
}

/* Wait until the peers are up.  Those that are away may come up later. */
static int
await_peers (struct fp_volume *v, uint64_t deadline, struct fp_error *error)
{
  bool told = false;
  int r = 0;

  for (unsigned i = 0; r == 0 && i < v->peers.nr; i++) {
    if (v->p.away >> i & 1)
      fp_peer_away (v->peers.at[i]);
    else
      r = fp_peer_wait_up (v->peers.at[i], deadline, &told, error);
  }
  return r;
}

int
fp_volume_start (struct fp_volume **out, const struct fp_volume_params *p,
                 struct fp_error *error)
{
  struct fp_volume *v = NULL;
  /* Each peer retries by itself until then.  A client that does not hear that
   * it lost the volume may use what it has mapped until its lease is over.
   */
  uint64_t deadline = fp_deadline_in_ms (fp_volume_start_ms (p) +
                                         (p->takeover ? p->lease_ms : 0));
  int r;

  error->text[0] = '\0';
  r = make (&v, p);
  if (r < 0)
    return fp_fail (error, r, "cannot set up the volume: %s", strerror (-r));
  r = fp_clock_start ();
  if (r < 0) {
    fp_fail (error, r, "cannot create a thread: %s", strerror (-r));
    volume_free (v);
    return r;
  }
  if (fp_sealed_wanted (p)) {
    r = fp_sealed_new (&v->top, &v->p, v->top, error);
    if (r < 0) {
      volume_free (v);
      fp_clock_stop ();
      return r;
    }
  }
  for (unsigned i = 0; r == 0 && i < v->peers.nr; i++)
    r = fp_peer_start (v->peers.at[i]);
  if (r < 0)
    fp_fail (error, r, "cannot create a thread: %s", strerror (-r));
  if (r == 0)
    r = await_peers (v, deadline, error);
  if (r == 0)
    r = fp_meta_log_start (v->meta_log, deadline, error);
  if (r == 0) {
    r = fp_allocator_start (&v->allocator);
    if (r < 0)
      fp_fail (error, r, "cannot create a thread: %s", strerror (-r));
  }
  if (r == 0 && !p->read_only) {
    r = fp_migrate_start (v->migrate);
    if (r < 0)
      fp_fail (error, r, "cannot create a thread: %s", strerror (-r));
  }
  if (r == 0)
    fp_servers_let_leave (&v->servers, p->leaves);
  if (r == 0 && p->reserve_full)
    r = fp_allocator_reserve_all (&v->allocator, error);
  if (r == 0 && p->reserve_full) {
    r = fp_meta_log_sync (v->meta_log,
                          fp_deadline_in_ms (fp_volume_start_ms (p)));
    if (r < 0)
      fp_fail (error, r,
               "reserve=full: the servers did not record the allocation in "
               "time");
  }
  if (r < 0) {
    /* Discard a volume that never came to exist.  A volume that was resumed
     * stays what it is.
     */
    fp_volume_stop (v, !p->resume && fp_meta_log_untouched (v->meta_log));
    return r;
  }
  atomic_store (&v->peers.started, true);
  *out = v;
  return 0;
}

void
fp_volume_stop (struct fp_volume *v, bool discard)
{
  if (v == NULL)
    return;
  fp_check_stop (v->check);
  fp_migrate_stop (v->migrate);
  fp_allocator_stop (&v->allocator);
  fp_meta_log_stop (v->meta_log);
  /* After a discard there is no next client. */
  if (!discard || v->p.name[0] != '\0')
    fp_meta_log_rest (v->meta_log);
  for (unsigned i = 0; i < v->peers.nr; i++)
    fp_peer_stop (v->peers.at[i], discard ? FP_PEER_DISCARD : FP_PEER_KEEP);
  for (unsigned i = 0; i < v->peers.nr; i++)
    fp_peer_join (v->peers.at[i]);
  volume_free (v);
  fp_clock_stop ();
}

uint64_t
fp_volume_seal_memory (const struct fp_volume_params *p)
{
  return fp_sealed_memory (p);
}

uint64_t
fp_volume_waits (const struct fp_volume *v)
{
  return atomic_load (&v->engine.waits);
}

uint64_t
fp_volume_size (const struct fp_volume *v)
{
  return v->p.size;
}

const struct fp_uuid *
fp_volume_uuid (const struct fp_volume *v)
{
  return &v->p.uuid;
}

struct fp_lane *
fp_volume_lane_get (struct fp_volume *v)
{
  struct fp_lane *best = v->engine.lanes[0];

  FP_LOCK_SCOPE (&v->extents->lock);
  for (unsigned i = 1; i < v->p.lanes; i++) {
    if (fp_lane_users (v->engine.lanes[i]) < fp_lane_users (best))
      best = v->engine.lanes[i];
  }
  fp_lane_use (best, 1);
  return best;
}

void
fp_volume_lane_put (struct fp_lane *lane)
{
  fp_lane_use (lane, -1);
}

size_t
fp_volume_slot_memory (const struct fp_volume_params *p)
{
  return fp_lane_slot_memory (p);
}

/* ---- servers, moving and checking ---- */

void
fp_volume_servers (struct fp_volume *v, struct fp_server_names *out)
{
  fp_servers_list (&v->servers, out);
}

int
fp_volume_add_server (struct fp_volume *v, const struct fp_server_name *name,
                      struct fp_error *error)
{
  return fp_servers_add (&v->servers, name, error);
}

int
fp_volume_remove_server (struct fp_volume *v, unsigned i,
                         struct fp_error *error)
{
  return fp_servers_remove (&v->servers, i, error);
}

int
fp_volume_drain (struct fp_volume *v, unsigned i, uint64_t rate,
                 struct fp_error *error)
{
  return fp_migrate_drain (v->migrate, i, rate, error);
}

int
fp_volume_drain_cancel (struct fp_volume *v, unsigned i,
                        struct fp_error *error)
{
  return fp_migrate_drain_cancel (v->migrate, i, error);
}

int
fp_volume_check (struct fp_volume *v, bool repair, uint64_t rate,
                 struct fp_error *error)
{
  return fp_check_start (v->check, v->top, repair, rate, error);
}

int
fp_volume_check_cancel (struct fp_volume *v, struct fp_error *error)
{
  return fp_check_cancel (v->check, error);
}

/* ---- status ---- */

void
fp_volume_status (struct fp_volume *v, struct fp_volume_status *s)
{
  struct fp_meta_log_status record;

  memset (s, 0, sizeof *s);
  s->uuid = v->p.uuid;
  memcpy (s->name, v->p.name, sizeof s->name);
  s->size = fp_volume_size (v);
  s->slab_size = v->p.slab_size;
  s->stripe = v->p.stripe;
  s->copies = v->p.copies;
  s->timeout_ms = v->p.timeout_ms;
  s->await_ms = v->engine.block.await_ms;
  s->lanes = v->p.lanes;
  s->nr_servers = v->peers.nr;
  for (struct fp_block *b = v->top; b != NULL; b = b->below)
    b->ops->status (b, s);
  s->fenced = fp_lease_is_fenced (&v->lease);
  fp_lease_fenced_by (&v->lease, s->fenced_by);
  fp_meta_log_status (v->meta_log, &record);
  s->members_version = record.version;
  s->frozen = record.frozen;
  s->unclean = record.unclean;
  s->resync_bytes = record.resync_bytes;
  s->resync_of = record.resync_of;
  s->read_only = v->p.read_only;
  fp_check_status (v->check, &s->check);
  fp_io_status (v, s);
}

void
fp_volume_server_status (struct fp_volume *v, unsigned i,
                         struct fp_server_status *s)
{
  struct fp_meta_log_status record;
  enum fp_place place;

  assert (i < v->peers.nr);
  fp_peer_status (v->peers.at[i], s);
  fp_meta_log_status (v->meta_log, &record);
  s->current = record.current >> i & 1;
  place = fp_peers_place (&v->peers, i);
  s->gone = place == FP_PLACE_FREE || place == FP_PLACE_CONNECTING;
  s->joining = place == FP_PLACE_JOINING || place == FP_PLACE_COUNTING ||
               place == FP_PLACE_NEW;
  fp_migrate_status (v->migrate, i, &s->drain);
  fp_migrate_reclaim_status (v->migrate, i, &s->reclaim);
}
