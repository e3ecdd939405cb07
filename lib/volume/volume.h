/* SPDX-License-Identifier: BSD-3-Clause */
/* volume.h - a block device made of other machines' memory.
 *
 * A volume is an array of extents, each as large as a slab.  An extent has no
 * memory until it is first written.  With reserve_full, all extents have
 * memory from the start.  A volume knows no front end: nbdkit, the benchmark
 * and the tests call it the same way.
 *
 * A lane is what one connection of a front end uses for its I/O: data
 * connections to the servers, slots and buffers.  Lanes are made at start-up,
 * so that nothing has to be made later.  If there are more callers than lanes,
 * they share them.
 *
 * Units:    offset, length and sizes are bytes; times say theirs.
 * Errors:   0 or a negative errno value.  -EIO: the data is lost, or no server
 *           that has it came back within await_ms.  -EINVAL: outside the
 *           volume.  -ENOSPC: no server has room for an extent.  -ESHUTDOWN.
 * Threads:  all calls that take a lane or a started volume may be made from
 *           any thread at any time.  Those of an event loop say so.
 * Memory:   nothing below the line 'I/O' allocates, opens a file or logs.  It
 *           waits at most await_ms, plus the time for transfers in flight
 *           (timeout_ms) and for servers to list their slabs.
 */

#ifndef FP_VOLUME_H
#define FP_VOLUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach/key_file.h"
#include "attach/probe.h"
#include "base/error.h"
#include "extent/block.h"
#include "extent/volume_params.h"
#include "extent/volume_status.h"

struct fp_volume;
struct fp_lane;

/* Return the bytes of memory that checksums or encryption need; 0 if there are
 * none.
 */
uint64_t fp_volume_seal_memory (const struct fp_volume_params *p);

/* Return the most bytes that the slots and buffers of the lanes need. */
size_t fp_volume_slot_memory (const struct fp_volume_params *p);

/* Set defaults for all but servers, nr_servers and size. */
void fp_volume_params_init (struct fp_volume_params *p);

/* Connect, open the volume on every server, resume the extents that exist,
 * reserve the requested memory, and start the threads.
 */
int fp_volume_start (struct fp_volume **out, const struct fp_volume_params *p,
                     struct fp_error *error);

/* End the volume.  discard: the servers scrub and free an ephemeral volume
 * now; otherwise they keep it for its lease.  No I/O may be running.
 */
void fp_volume_stop (struct fp_volume *v, bool discard);

uint64_t fp_volume_size (const struct fp_volume *v);
const struct fp_uuid *fp_volume_uuid (const struct fp_volume *v);

/* Return the lane with the fewest users, for a new connection. */
struct fp_lane *fp_volume_lane_get (struct fp_volume *v);
void fp_volume_lane_put (struct fp_lane *lane);

/* ---- I/O ---- */

int fp_lane_read (struct fp_lane *lane, void *buf, uint32_t length,
                  uint64_t offset);
/* Write.  Return -EROFS, as fp_lane_zero does, if the volume is read-only. */
int fp_lane_write (struct fp_lane *lane, const void *buf, uint32_t length,
                   uint64_t offset);
/* Make the range, of any length, read as zeros.  trim: whole extents go back
 * to their servers.  Wait at most await_ms in all for servers that are away,
 * or up and silent.
 */
int fp_lane_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
                  bool trim);
/* Write or zero for a front end whose request may be older than this call.
 * made_ns, by fp_mono_ns: the earliest time at which it was made.
 */
int fp_lane_write_made (struct fp_lane *lane, const void *buf, uint32_t length,
                        uint64_t offset, uint64_t made_ns);
int fp_lane_zero_made (struct fp_lane *lane, uint64_t length, uint64_t offset,
                       bool trim, uint64_t made_ns);
/* Return the number of requests that waited at least FP_WAITED_MS for servers
 * that were away.
 */
uint64_t fp_volume_waits (const struct fp_volume *v);
/* Wait until every write that any lane completed is in the servers' memory. */
int fp_lane_flush (struct fp_lane *lane);

/* Return true if zeroing that range sends nothing, except to give whole
 * extents back.
 */
bool fp_volume_zero_is_fast (struct fp_volume *v, uint64_t length,
                             uint64_t offset, bool trim);

/* Say if there is a hole at offset, which has no data and reads as zeros.
 * *length: bytes from there that are alike.  At most limit bytes (> 0) are
 * looked at.
 */
void fp_volume_extent (struct fp_volume *v, uint64_t offset, uint64_t limit,
                       bool *hole, uint64_t *length);

/* I/O without waiting, for front ends with their own queue (benchmark, ublk).
 * An io stays in the caller's memory from submit until poll returns it, with
 * status set.  If submit fails, it does not take the io.  -EINVAL: also if
 * length is 0.  -EOPNOTSUPP: the volume is sealed.
 */
int fp_lane_submit (struct fp_lane *lane, struct fp_io *io);
/* Make progress, and return the completed ios, linked by next.  wait: if there
 * is none, but some are in flight, sleep until one is done.
 */
struct fp_io *fp_lane_poll (struct fp_lane *lane, bool wait);

/* Return buffer i of the lane, below fp_volume_params.buffers.  It has
 * buffer_size bytes, whole pages, and lives as long as the volume.  An io may
 * use any part of one buffer, but not cross its end.  Its bytes go through no
 * slot, unless reads are hedged.
 */
void *fp_lane_buffer (const struct fp_lane *lane, unsigned i);

/* For a front end with its own event loop.  Only the thread of this loop calls
 * fp_lane_poll and fp_lane_sleep of the lane.  Other threads may use all other
 * calls.
 *
 *   submit new ios
 *   handle the ios that fp_lane_poll (lane, false) returns
 *   if (fp_lane_sleep (lane, &until_ns))
 *     wait until an fd is readable, or fp_now_ns reaches until_ns
 *
 * fp_lane_submit only queues an io, and fp_lane_poll sends it.
 *
 * The descriptors of fp_lane_fds live as long as the volume.  Poll them for
 * reading, but do not read or close them.
 *
 * fp_lane_sleep returns false if the loop must go on at once.  fp_now_ns can
 * stand still: so turn until_ns into a relative timeout.  It may be past.
 */
#define FP_LANE_FDS 2
void fp_lane_fds (const struct fp_lane *lane, int fds[FP_LANE_FDS]);
bool fp_lane_sleep (struct fp_lane *lane, uint64_t *until_ns);
/* Return true if the loop may call fp_lane_poll again and again for a while,
 * before it sleeps.  false: this host's processors do the transfers
 * (soft-RoCE). The answer changes when a connection opens.
 */
bool fp_lane_may_poll (struct fp_lane *lane);

/* ---- moving extents while they are in use: migrate.h ---- */

/* Move all that server i holds to the others, in the background; it gets no
 * new extents.  The server is up, or will be.  fp_volume_server_status shows
 * the progress.  rate: bytes a second, from now on; 0 = move_rate.  Errors
 * come before anything is moved.
 *
 * -EBUSY    too few servers that are not drained would be left.
 * -ENOSPC   the others have no room for it.
 * -EROFS    the volume is read-only, or is frozen.
 */
int fp_volume_drain (struct fp_volume *v, unsigned i, uint64_t rate,
                     struct fp_error *error);
/* Use server i again.  Extents that were moved stay where they are.  -ENOENT:
 * it was not being drained.
 */
int fp_volume_drain_cancel (struct fp_volume *v, unsigned i,
                            struct fp_error *error);

/* ---- comparing copies: check.h ---- */

/* Compare all copies in the background, while they are in use.  repair: where
 * copies differ, the others get the data of the first in-sync one (on a sealed
 * volume, of the right one).  rate: bytes a second of each copy; 0 =
 * move_rate.  -EINVAL: there is one copy.  -EBUSY: a check is running.  Also
 * -EROFS and -ENOMEM.
 */
int fp_volume_check (struct fp_volume *v, bool repair, uint64_t rate,
                     struct fp_error *error);
/* Cancel the check, which is over when its status says so.  -ENOENT: none is
 * running.
 */
int fp_volume_check_cancel (struct fp_volume *v, struct fp_error *error);

/* ---- servers, while the volume is in use: servers.c ---- */

void fp_volume_servers (struct fp_volume *v, struct fp_server_names *out);

/* Add a server.  It is checked as by the probe, gets a peer, becomes a member
 * of a named volume, and only then gets extents.  After all errors but
 * -ETIMEDOUT nothing has changed.
 *
 * -EEXIST     it is one already, or has something of this volume.
 * -EBUSY      the last change is not recorded yet.
 * -EPERM      another client has taken the volume over.
 * -ENOSPC     there are FP_MAX_SERVERS already.
 * -EROFS      the volume is read-only, or is frozen.
 * -ETIMEDOUT  it is added as soon as the others have recorded that.
 */
int fp_volume_add_server (struct fp_volume *v,
                          const struct fp_server_name *name,
                          struct fp_error *error);
/* Remove server i, which holds nothing.  It forgets the volume if it can be
 * reached.  On success, a text in error that is not "" is a warning for the
 * user.
 *
 * -ENOTEMPTY  drain it first.
 * -EBUSY      it is the last server that is not drained, or the last change is
 *             not recorded yet.
 * -ENOTCONN   another server is down.
 * -EIO        it alone knows that extents are lost.
 * -ENOENT     it has left already.
 * -EPERM, -EROFS  as for adding.
 */
int fp_volume_remove_server (struct fp_volume *v, unsigned i,
                             struct fp_error *error);
/* Adding and removing may take about ten times timeout_ms.  Only one caller at
 * a time may make these changes, or call fp_volume_servers.
 */

/* ---- status ---- */

void fp_volume_status (struct fp_volume *v, struct fp_volume_status *s);
/* Fill in the status of server i < nr_servers, which may be gone. */
void fp_volume_server_status (struct fp_volume *v, unsigned i,
                              struct fp_server_status *s);

/* Fill in *out, which has 16 KiB: do not put it on a small stack.  Takes the
 * lock of each lane while it counts that lane's transfers.
 */
void fp_volume_census (struct fp_volume *v, struct fp_census *out);

#endif /* FP_VOLUME_H */
