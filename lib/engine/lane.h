/* SPDX-License-Identifier: BSD-3-Clause */
/* lane.h - what one connection of a front end, or healing, uses for its I/O.
 *
 * An io is cut into fragments: runs of bytes that lie in one extent and fit
 * one slot.  Each fragment is one transfer on the lane's connection to a
 * server that has a copy of the extent.  If a transport needs registered
 * memory, the bytes go through a slot, which all copies of a write share.
 * While one slot is on the wire, the next is filled.
 *
 *              issue                 last fragment back
 *    pending ---------> in flight -----------------------> done
 *      ^  |  no memory yet, server away     | a transfer must be repeated
 *      |  v                                 v
 *     parked <------------------------------+ (all of the io once more)
 *
 * A pending io that finds no free fragment stays pending: that is the
 * back-pressure.  So does a write whose range is locked, until the holder
 * raises fp_extents.changes.  So does a write behind many others, if the lane
 * also reads.  Reads pass it: a page fault must not wait for all swap-out.  A
 * parked io is retried after a change.  It fails if it cannot go on and its
 * deadline has passed.  An io in flight is not given up before its transfers
 * completed: its deadline breaks the connection.
 *
 * These end the wait of a parked io, by a raise of fp_extents.changes:
 *
 * - The extent is not BUSY or FROZEN any more: fp_extent_move.
 * - The extent is not OFFLINE any more: its peer is up, LOST, or lets it go.
 * - The extent has memory, or gets none: its peer, or the allocator.
 * - There is a connection to the server: fp_lane_connect.
 * - The lease holds again: fp_lease_renew.
 * - A copy has left the in-sync set: the metadata log.
 * - A region of the dirty log was cleared: the sweep.
 * The lane itself ends it when a mark of the dirty log is acknowledged, and
 * some time after an error or a refusal.
 *
 * Of the threads that wait on a lane, one polls for all.  If that has not paid
 * lately, it sleeps on the descriptors until the next scan, at most a second.
 *
 * Threads:  any; new and free belong to the one that starts the volume.
 * Memory:   only new, connect and touch_others allocate.
 */

#ifndef FP_LANE_H
#define FP_LANE_H

#include "extent/block.h"
#include "extent/volume_params.h"
#include "transport/transport.h"

struct fp_lane;
struct fp_engine;

int fp_lane_new (struct fp_lane **out, struct fp_engine *e, unsigned index,
                 unsigned slots);
void fp_lane_free (struct fp_lane *lane); /* no connections or io left */
struct fp_engine *fp_lane_engine (const struct fp_lane *lane);

/* Connect to server s with this transport, and use the connection from now on.
 * Called by the server's peer while the lane has no connection to s.  -EXDEV:
 * the server is reached over another device than the existing connections.
 */
int fp_lane_connect (struct fp_lane *lane, unsigned s,
                     const struct fp_transport_ops *ops,
                     struct fp_conn_params *cp, uint64_t deadline_ns);

/* Break the connection to server s, if there is one.  Wait until everything in
 * flight on it has completed, then free it.
 */
void fp_lane_disconnect (struct fp_lane *lane, unsigned s);

/* Return true if there is a connection to s over an RDMA device. */
bool fp_lane_has_queue_pair (struct fp_lane *lane, unsigned s);

/* Return true if there is no connection, or a broken one. */
bool fp_lane_broken (struct fp_lane *lane, unsigned s);
/* Return true if the last connection to s broke because a key was refused. */
bool fp_lane_revoked (struct fp_lane *lane, unsigned s);

/* Return an fd for poll(2) beside the control socket, or -1.  When it is
 * readable, call fp_lane_event.
 */
int fp_lane_event_fd (struct fp_lane *lane, unsigned s);
void fp_lane_event (struct fp_lane *lane, unsigned s);

/* Retry the parked ios, because something changed that they may wait for. */
void fp_lane_wake (struct fp_lane *lane);

/* Wait until no operation is inside extent p, which is in a state that lets
 * none in.  Make the progress that the lanes' own threads would make, as those
 * may wait elsewhere.  Return false at the deadline.
 */
bool fp_lanes_drain (struct fp_engine *e, struct fp_extent *p,
                     uint64_t deadline_ns);

/* Read length bytes of one extent, at a linear address (stripe.h).  The read
 * goes to the server, whatever the written bits say, and is not counted.  It
 * makes earlier writes of the same queue pair visible.  With several copies,
 * return -EIO once this copy does not count, or its server is known to be
 * away.
 */
int fp_lane_sync_read (struct fp_lane *lane, void *buf, uint32_t length,
                       uint64_t at);
/* Do the transfer that io describes, for a caller that must act at a deadline.
 * begin starts it.  await returns true once it is over; until then io belongs
 * to the lane.  await returns false at the deadline, and if seen is not NULL,
 * once the count of fp_extents.changes is not *seen.  The extent may be
 * FROZEN.
 */
void fp_lane_sync_begin (struct fp_lane *lane, struct fp_io *io);
bool fp_lane_sync_await (struct fp_lane *lane, const struct fp_io *io,
                         const uint32_t *seen, uint64_t deadline_ns);
/* Stop retrying io.  It ends with an error as soon as no transfer of it is in
 * flight.
 */
void fp_lane_sync_cancel (struct fp_lane *lane, struct fp_io *io);
/* Start io.  Unlike fp_lane_submit, this takes linear addresses, and ios of
 * the migration thread.
 */
void fp_lane_start (struct fp_lane *lane, struct fp_io *io);
/* Make progress, and return the completed ios.  If there is none, but some are
 * in flight, wait until one is done, or until the deadline.
 */
struct fp_io *fp_lane_collect (struct fp_lane *lane, uint64_t deadline_ns);

/* Write to a linear address. */
int fp_lane_write_at (struct fp_lane *lane, const void *buf, uint32_t length,
                      uint64_t at, uint64_t made_ns);

/* Return 0 if all writes of the lane to server s are placed: on the queue pair
 * a READ followed, and succeeded.  Else return a mark, and set *at to where
 * the lane wrote.  fp_lane_flushed returns true once the writes that the mark
 * is about are placed.
 */
uint64_t fp_lane_unflushed (struct fp_lane *lane, unsigned s, uint64_t *at);
bool fp_lane_flushed (struct fp_lane *lane, unsigned s, uint64_t mark);

/* Read one byte over each lane's queue pair to each other server, to find
 * broken ones.  Leave out servers without an extent to read.  End early
 * once *stop is set.  If it cannot allocate, it reads nothing.  lane_touch.c
 */
void fp_lanes_touch_others (struct fp_engine *e, unsigned server,
                            const _Atomic bool *stop);
/* Have the server place the lane's writes, by a READ of extent p, which is on
 * that server and is shut.  Return 1 if there were any, 0 if there were none,
 * or -ECONNRESET if the READ failed.  lane_touch.c
 */
int fp_lane_flush_server (struct fp_lane *lane, unsigned server,
                          struct fp_extent *p);

/* Return the most bytes that the slots and buffers of the lanes need. */
size_t fp_lane_slot_memory (const struct fp_volume_params *p);

unsigned fp_lane_users (const struct fp_lane *lane);
/* Add change to the number of users.  Return the new number. */
unsigned fp_lane_use (struct fp_lane *lane, int change);

#endif /* FP_LANE_H */
