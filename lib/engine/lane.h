/* SPDX-License-Identifier: BSD-3-Clause */
/* lane.h - the I/O engine of one front-end connection.
 *
 * An io is cut into fragments: runs of bytes that lie in one extent and fit
 * one slot.  Each fragment is one transfer on the lane's connection to the
 * server that has the extent.  If a transport needs registered memory, the
 * bytes go through the fragment's slot.  While one slot is on the wire, the
 * next is filled.
 *
 *              issue                 last fragment back
 *    pending ---------> in flight -----------------------> done
 *      ^  |  no memory yet, server away     | a connection broke
 *      |  v                                 v
 *     parked <------------------------------+ (all of the io once more)
 *
 * A pending io that finds no free fragment stays pending: that is the
 * back-pressure.  A parked io is retried when something has changed.  It fails
 * if it cannot go on and its deadline has passed.  An io in flight is not
 * given up before its transfers completed: its deadline breaks the connection.
 *
 * Of the threads that wait on a lane, one polls for all.  If polling has not
 * paid lately, that thread sleeps on the completion channels.
 *
 * Threads:  any, on every function; the lane's lock is inside.
 * Memory:   only fp_lane_new and fp_lane_connect allocate.
 */

#ifndef FP_LANE_H
#define FP_LANE_H

#include "transport/transport.h"
#include "extent/block.h"

struct fp_lane;
struct fp_volume;

int fp_lane_new (struct fp_lane **out, struct fp_volume *v, unsigned index,
                 unsigned slots);
void fp_lane_free (struct fp_lane *lane); /* no connections or io left */
struct fp_volume *fp_lane_volume (const struct fp_lane *lane);

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

/* Make the progress that a waiting thread would make.  For threads that change
 * extents, because the lane's own threads may be away.
 */
void fp_lane_help (struct fp_lane *lane);

/* Read length bytes of one extent, at a linear address (stripe.h).  The read
 * goes to the server, whatever the written bits say, and is not counted.  It
 * makes earlier writes of the same queue pair visible.  With several copies,
 * return -EIO once this copy does not count, or its server is known to be
 * away.
 */
int fp_lane_sync_read (struct fp_lane *lane, void *buf, uint32_t length,
                       uint64_t at);
/* Do the transfer that io describes, for a caller that must act at a deadline.
 * begin starts it; done returns true if it is over, and waits for that if
 * `wait` is set.  Until then io belongs to the lane.  The extent may be
 * FROZEN.
 */
void fp_lane_sync_begin (struct fp_lane *lane, struct fp_io *io);
bool fp_lane_sync_done (struct fp_lane *lane, struct fp_io *io, bool wait);
/* Stop retrying io.  It ends with an error as soon as no transfer of it is in
 * flight.
 */
void fp_lane_sync_cancel (struct fp_lane *lane, struct fp_io *io);
/* Start io.  Unlike fp_lane_submit, this takes linear addresses, and ios of
 * the migration thread.
 */
void fp_lane_start (struct fp_lane *lane, struct fp_io *io);
/* Make progress, and return the completed ios.  wait: if there is none, but
 * some are in flight, sleep until one is done.
 */
struct fp_io *fp_lane_collect (struct fp_lane *lane, bool wait);

/* Write to a linear address. */
int fp_lane_write_at (struct fp_lane *lane, const void *buf, uint32_t length,
                      uint64_t at, uint64_t made_ns);

/* Return 0 if the lane has not written to server s since the last flush.  Else
 * return a mark, and set *at to where it wrote.  After a READ at *at, pass the
 * mark to fp_lane_flushed.  Each of two concurrent flushes must make its own
 * READ: neither may answer for the other.
 */
uint64_t fp_lane_unflushed (struct fp_lane *lane, unsigned s, uint64_t *at);
void fp_lane_flushed (struct fp_lane *lane, unsigned s, uint64_t mark);

unsigned fp_lane_users (const struct fp_lane *lane);
/* Add change to the number of users.  Return the new number. */
unsigned fp_lane_use (struct fp_lane *lane, int change);

#endif /* FP_LANE_H */
