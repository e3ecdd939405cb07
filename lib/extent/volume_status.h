/* SPDX-License-Identifier: BSD-3-Clause */
/* volume_status.h - the status of a started volume.  Each layer fills in its
 * part (block.h), and volume.c the rest.
 *
 * Units:    bytes and numbers, unless a name says ns or ms.
 */

#ifndef FP_VOLUME_STATUS_H
#define FP_VOLUME_STATUS_H

#include "base/hist.h"
#include "extent/volume_params.h"

#define FP_STATUS_REASON_MAX 512 /* bytes of a reason, with its NUL */

enum fp_check_state {
  FP_CHECK_NONE, /* no check yet */
  FP_CHECK_RUNNING,
  FP_CHECK_DONE,
  FP_CHECK_CANCELLED,
  FP_CHECK_FAILED, /* see `why` */
};
#define FP_CHECK_OFFSETS 16 /* offsets kept */

/* Status of the last check.  The last three fields count all checks. */
struct fp_check_status {
  enum fp_check_state state;
  uint64_t number; /* sequence number of this check, from 1 */
  bool repair;
  uint64_t block_size; /* bytes; the last block of an extent may have fewer */
  /* Blocks to compare; approximate, as others write. */
  uint64_t blocks;
  uint64_t compared, differ;
  uint64_t repaired; /* differing blocks that were repaired */
  uint64_t skipped;  /* blocks whose copies could not be compared */
  uint64_t degraded; /* extents with too few in-sync copies */
  /* Offset in the volume of the first byte that differs, for the lowest
   * differing blocks, in order.
   */
  unsigned nr_offsets;
  uint64_t offsets[FP_CHECK_OFFSETS];
  uint64_t since_ns; /* time that it has taken, or took */
  uint64_t left_ns;  /* approximate; 0 = not known */
  char why[FP_STATUS_REASON_MAX];
  uint64_t all_compared, all_differ, all_repaired;
};

enum fp_server_state {
  FP_SERVER_DOWN,
  FP_SERVER_CONNECTING,
  FP_SERVER_UP,
  FP_SERVER_CLOSING, /* transfers end, then DOWN */
  FP_SERVER_LOST,    /* came back without what it held */
};

enum fp_drain_state {
  FP_DRAIN_NONE,
  FP_DRAIN_MOVING,
  FP_DRAIN_DONE, /* the server holds nothing */
};
struct fp_drain_status {
  enum fp_drain_state state;
  uint64_t extents, left;         /* extents to move, at the start and now */
  uint64_t bytes;                 /* bytes copied */
  uint64_t since_ns;              /* time that it has taken, or took */
  uint64_t left_ns;               /* approximate; 0 = not known */
  char why[FP_STATUS_REASON_MAX]; /* reason for no progress, or "" */
};

/* Reclaim: a server whose host is short of memory, or that is being drained,
 * asks for slabs back.  The least recently used extents go to other servers,
 * if they have room.
 */
struct fp_reclaim_status {
  bool draining;                  /* the server as a whole */
  uint64_t wanted;                /* slabs that it still asks for */
  uint64_t reclaimed;             /* extents moved because of that, ever */
  char why[FP_STATUS_REASON_MAX]; /* reason for no progress, or "" */
};

struct fp_server_status {
  char addr[FP_ADDR_MAX + 1];
  char name[FP_NAME_MAX + 1];
  enum fp_server_state state;
  unsigned transport; /* one bit; 0 = never connected */
  char control[16];   /* see fp_ctl_secured; "" = never connected */
  uint64_t slabs_total, slabs_free; /* as the server last said */
  uint64_t extents;                 /* number of this volume's there */
  uint64_t reconnects;
  uint64_t bytes_read, bytes_written, ops, errors;
  bool current; /* knows which extents of a named volume exist */
  bool joining; /* joins, and was never current yet */
  bool gone;    /* no server (any more): ignore the other fields */
  char why[FP_STATUS_REASON_MAX]; /* reason for not being up */
  struct fp_drain_status drain;
  struct fp_reclaim_status reclaim;
};

/* See sealed.h. */
struct fp_seal_status {
  bool on; /* else the other fields have no meaning */
  enum fp_checksum checksum;
  enum fp_encrypt encrypt;
  bool integrity;
  /* Blocks: those that a server did not return as they were written; those
   * repaired from another copy; those that no copy had right (-EIO).
   */
  uint64_t wrong, repaired, unreadable;
  /* Bytes that were written before this client attached. */
  uint64_t unchecked;
  uint64_t memory; /* bytes used */
};

/* Hedges: reads that were sent to another copy, too. */
struct fp_hedge_status {
  bool on;
  uint64_t sent;
  uint64_t won, lost; /* those that were first, and those that were not */
  uint64_t refused;   /* not sent, as there were too many */
};

struct fp_volume_status {
  struct fp_uuid uuid;
  char name[FP_NAME_MAX + 1];
  uint64_t size, slab_size;
  struct fp_stripe stripe;
  unsigned copies, lanes, nr_servers, timeout_ms, await_ms;
  uint64_t extents, extents_allocated, extents_lost;
  /* Extents with fewer copies than they should have, and bytes to copy for
   * them.
   */
  uint64_t extents_degraded, bytes_to_resync;
  /* With several copies.  unclean: the last client had died when the volume
   * was attached.  Copies could differ in resync_bytes bytes, of resync_of.
   * bytes_marked: bytes that could differ if this client died, as of some
   * seconds ago.
   */
  bool unclean;
  uint64_t resync_bytes, resync_of, bytes_marked;
  uint64_t reads, writes, zeros, trims, flushes, errors;
  uint64_t bytes_read, bytes_written;
  uint64_t inflight;
  bool fenced; /* another client has the volume: all I/O fails */
  char fenced_by[FP_STATUS_REASON_MAX]; /* what a server says of that, or "" */
  uint64_t members_version; /* version of the member list; 0 = not recorded */
  /* Too many servers were away at attach.  Extents that the others do not have
   * fail with EIO, and no extent is made.
   */
  bool frozen;
  bool read_only;
  struct fp_seal_status seal;
  uint64_t poll_hits, sleeps; /* waits that ended while polling, and others */
  struct fp_hedge_status hedges;
  struct fp_hist_summary read_ns, write_ns;
  struct fp_check_status check;
};

/* States of an entry: extent.h. */
enum fp_extent_state {
  FP_EXTENT_EMPTY,
  FP_EXTENT_READY,
  FP_EXTENT_BUSY,
  FP_EXTENT_FROZEN,
  FP_EXTENT_OFFLINE,
  FP_EXTENT_LOST,
};

/* Counts that are taken only on request, for metrics. */
struct fp_census {
  uint64_t extents[FP_EXTENT_LOST + 1]; /* entries in each fp_extent_state */
  bool moving; /* an entry is being moved to another server */
  uint64_t inflight[FP_MAX_SERVERS]; /* transfers to each server */
  struct fp_hist read_ns, write_ns;
};

#endif /* FP_VOLUME_STATUS_H */
