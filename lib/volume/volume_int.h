/* SPDX-License-Identifier: BSD-3-Clause */
/* volume_int.h - the parts that a volume is made of.  Each is an object of its
 * own.  The engine has to be first (io.c).  Every other part knows only those
 * above it in this list, and the engine.
 *
 * Lock order: fp_migrate.lock, a lane's lock, fp_extents.lock. fp_migrate.lock
 * and fp_servers.count_lock come before fp_peer.lock.  fp_servers.count_lock
 * and fp_meta_log.lock come before fp_peers.lock.  fp_peer.lock is never held
 * together with a lane's or fp_extents.lock.  The locks inside fp_lease and
 * fp_notifier come last, in this order.  No lock is held while waiting for a
 * peer.
 */

#ifndef FP_VOLUME_INT_H
#define FP_VOLUME_INT_H

#include "attach/servers.h"
#include "engine/engine.h"
#include "extent/extent.h"
#include "extent/lease.h"
#include "extent/recorded.h"
#include "heal/restore.h"
#include "peer/peers.h"
#include "place/allocator.h"
#include "volume/volume.h"

struct fp_check;
struct fp_io_counts;
struct fp_meta_log;
struct fp_migrate;

struct fp_volume {
  struct fp_engine engine; /* first: io.c */
  struct fp_volume_params p;
  struct fp_extents *extents;
  struct fp_lease lease;
  struct fp_recorded recorded;
  struct fp_peers peers;
  struct fp_meta_log *meta_log; /* NULL = not recorded */
  struct fp_allocator allocator;
  struct fp_migrate *migrate;
  struct fp_restore restore;
  struct fp_check *check;
  struct fp_servers servers;
  struct fp_block *top;        /* the layer that front ends use */
  struct fp_io_counts *counts; /* one for each lane of front ends: io.c */
};

/* The calls of peers and of the metadata log.  wiring.c */
extern const struct fp_peer_ops fp_volume_peer_ops;
extern const struct fp_meta_log_ops fp_volume_meta_log_ops;

#endif /* FP_VOLUME_INT_H */
