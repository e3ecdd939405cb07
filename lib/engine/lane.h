/* SPDX-License-Identifier: BSD-3-Clause */
/* lane.h - the I/O engine of one front-end connection.
 *
 * An io is cut into fragments: runs of bytes that lie in one extent and fit
 * one slot.  Each fragment is one transfer on the lane's connection to the
 * server that has the extent.  For transports that need registered memory
 * the bytes go through the fragment's slot, and while one slot is on the
 * wire the next is being filled.
 *
 *              issue                 last fragment back
 *    pending ---------> in flight -----------------------> done
 *      ^  |  no memory yet, server away     | a connection broke
 *      |  v                                 v
 *     parked <------------------------------+ (all of the io once more)
 *
 * A pending io that finds no free fragment stays where it is: that is the
 * back-pressure.  A parked io is tried again when something changed, and
 * fails when that is in vain and its deadline has passed.  One that was in
 * flight is never given up before its transfers completed; its deadline breaks
 * the connection.
 *
 * Of the threads that wait on a lane one polls for all; it sleeps on the
 * completion channels when polling has not paid.
 *
 * Threads:  any, on every function; the lane's lock is inside.
 * Memory:   only fp_lane_new, fp_lane_queue and fp_lane_connect allocate.
 */

#ifndef FP_LANE_H
#define FP_LANE_H

#include "transport/transport.h"
#include "volume/volume.h"

struct fp_lane_stats {
  uint64_t reads, writes, errors, bytes_read, bytes_written;
  uint64_t inflight, poll_hits, sleeps;
  struct fp_hedge_status hedges;
};

int fp_lane_new (struct fp_lane **out, struct fp_volume *v, unsigned index,
                 unsigned slots);
void fp_lane_free (struct fp_lane *lane); /* no connections, no io */
struct fp_volume *fp_lane_volume (const struct fp_lane *lane);

/* Connect to server s with this transport and use that from now on.  Called
 * by the server's peer, while the lane has no connection to it.  -EXDEV: it is
 * reached over another device than what is connected.
 */
int fp_lane_connect (struct fp_lane *lane, unsigned s,
                     const struct fp_transport_ops *ops,
                     struct fp_conn_params *cp, uint64_t deadline_ns);

/* Break the connection to server s, if there is one, collect everything
 * that is in flight on it, and free it.
 */
void fp_lane_disconnect (struct fp_lane *lane, unsigned s);

/* True if there is a connection, over a device. */
bool fp_lane_has_queue_pair (struct fp_lane *lane, unsigned s);

/* Return true if there is no connection, or a broken one. */
bool fp_lane_broken (struct fp_lane *lane, unsigned s);
/* Return true if its last connection to s broke as a key was refused. */
bool fp_lane_revoked (struct fp_lane *lane, unsigned s);

/* For poll(2) beside the control socket, or -1; and what to do then. */
int fp_lane_event_fd (struct fp_lane *lane, unsigned s);
void fp_lane_event (struct fp_lane *lane, unsigned s);

/* Something changed that parked ios may wait for. */
void fp_lane_wake (struct fp_lane *lane);

/* Make the progress that a waiting thread would make, for the threads that
 * change extents: the lane's own may be away.
 */
void fp_lane_help (struct fp_lane *lane);

/* A read of length bytes in one extent, at a linear address (stripe.h), that
 * goes to the server, whatever the written bits say, and is not counted: what
 * makes earlier writes of the same queue pair visible.  Where there are
 * several copies it is -EIO as soon as this one does not count any more, or
 * its server is known to be away.
 */
int fp_lane_sync_read (struct fp_lane *lane, void *buf, uint32_t length,
                       uint64_t at);
/* The same, for who has something else to do at a deadline: of what io says,
 * which may be of an extent that is FROZEN.  It is the lane's until it is
 * done; wait: until then.
 */
void fp_lane_sync_begin (struct fp_lane *lane, struct fp_io *io);
bool fp_lane_sync_done (struct fp_lane *lane, struct fp_io *io, bool wait);
/* It is not tried again: it is done, with an error, as soon as nothing of it
 * is in flight any more.
 */
void fp_lane_sync_cancel (struct fp_lane *lane, struct fp_io *io);
/* Read and write the volume as its servers have it: what is below sealed.h.
 * And a read that goes to one of several copies only: -EIO if it is not in
 * sync or its server is away; an error of it is not counted.
 */
int fp_lane_raw_read (struct fp_lane *lane, void *buf, uint32_t length,
                      uint64_t offset);
int fp_lane_raw_write (struct fp_lane *lane, const void *buf, uint32_t length,
                       uint64_t offset, uint64_t made_ns);
int fp_lane_read_copy (struct fp_lane *lane, unsigned copy, void *buf,
                       uint32_t length, uint64_t offset);
int fp_lane_raw_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
                      bool trim, uint64_t made_ns); /* zero.c */
int fp_lane_raw_flush (struct fp_lane *lane);       /* volume.c */
/* Write to a linear address, and count it. */
int fp_lane_write_at (struct fp_lane *lane, const void *buf, uint32_t length,
                      uint64_t at, uint64_t made_ns);

/* Did the lane write to server s since the last flush?  0: no; else a mark, to
 * be given to fp_lane_flushed when a READ was made at *at, where the lane
 * wrote.  Two flushes at once both make one: neither may answer for the other.
 */
uint64_t fp_lane_unflushed (struct fp_lane *lane, unsigned s, uint64_t *at);
void fp_lane_flushed (struct fp_lane *lane, unsigned s, uint64_t mark);

void fp_lane_stats (struct fp_lane *lane, struct fp_lane_stats *st,
                    struct fp_hist *reads, struct fp_hist *writes);
unsigned fp_lane_users (const struct fp_lane *lane);
/* Returns the new number. */
unsigned fp_lane_use (struct fp_lane *lane, int change);

#endif /* FP_LANE_H */
