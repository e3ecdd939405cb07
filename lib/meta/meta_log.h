/* SPDX-License-Identifier: BSD-3-Clause */
/* meta_log.h - the metadata log of a volume with a name, or with several
 * copies: which extents exist (the map), and the members (the list).  The
 * rules are in docs/PROTOCOL.md, 'Volumes with a name'.
 *
 * One thread decides what all servers are told next; each peer's thread tells
 * its own server.  A change of the map is over when every current member has
 * it.  A member that does not answer is left out: the others get a new version
 * of the list.  When it is back, it gets the whole map and is taken in again.
 * Recording does not fail: a change that cannot be recorded waits.  Its extent
 * is BUSY, and the waiting request has a deadline.
 *
 * If answers were lost, some members may have a list and others not.  A client
 * that asks all current members of any such list must hear of the newest.  So:
 *
 *  - Each list that is tried has a version of its own, in this client's range
 *    (FP_MEMBERSHIP_ROUND).
 *  - A new list goes to at least one server that is current in all lists that
 *    may be somewhere (`anchor`).  At most half of the members of each such
 *    list may be without the new one.  At least half of the last complete
 *    list's members get it, or all but copies - 1.  So any of them that
 *    suffice to attach include one that knows that theirs is old.
 *  - A list that takes members in must meet each of those lists: no two
 *    clients may attach by different ones without a common server.  So must a
 *    list with members that a list since the last complete one lacks.
 *  - Once a list was sent, no change counts until a list is complete.
 *
 * The server of an only copy hears first that it is gone, last that it exists.
 *
 * The next client may find several lists (membership.h).  Until its own first
 * list is complete, it treats all of these as if it had sent them.  Each
 * attachment raises the version, and with it the generation of its labels
 * (fp_membership_generation), above those at servers that could not be asked.
 *
 * A volume attached while half of its current members or more were missing
 * (degraded=true) is `frozen`: there may be a newer list.  Labelled extents
 * can be read and written.  Nothing is recorded.
 *
 * Threads:  any; only its starter calls new, free, and start to untouched.
 * Memory:   only new allocates.
 */

#ifndef FP_META_LOG_H
#define FP_META_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/uuid.h"
#include "extent/volume_params.h"

struct fp_meta_log;
struct fp_peers;
struct fp_volume;

/* Calls to the layers above, with fp_peers.v and no lock held.  dropped: on
 * the metadata log's thread.  differ: by fp_meta_log_start, if there are
 * several copies; it reads from servers.
 */
struct fp_meta_log_ops {
  /* All current members have recorded that entry k is out of sync. */
  void (*dropped) (struct fp_volume *v, uint64_t k);
  /* The last client died.  Copy c of extent i may differ from copy `believed`
   * where it was writing: mark these bytes as missed by c.  Return how many.
   */
  uint64_t (*differ) (struct fp_volume *v, uint64_t i, unsigned c,
                      unsigned believed);
};

/* Create the metadata log, if the volume is recorded (fp_volume_is_recorded).
 * Else *out is NULL.  The calls drop, in_sync, is_due, has_in_sync, settled,
 * wake, exists, join and leave need it; the others do nothing with NULL, and
 * succeed.
 */
int fp_meta_log_new (struct fp_meta_log **out, struct fp_peers *peers,
                     const struct fp_meta_log_ops *ops);
void fp_meta_log_free (struct fp_meta_log *log);

/* Find out what exists, write the list, release what does not exist, and start
 * the thread.  The peers that have to be up are up.
 */
int fp_meta_log_start (struct fp_meta_log *log, uint64_t deadline_ns,
                       struct fp_error *error);
/* End the thread.  Extents that wait to be recorded go back to their peers. */
void fp_meta_log_stop (struct fp_meta_log *log);
/* Record that all copies are equal, if they are, so that the next client can
 * believe them all.  Call after fp_meta_log_stop, when nothing is written any
 * more.
 */
void fp_meta_log_rest (struct fp_meta_log *log);

/* Return true if no server was told of any list yet.  Call on the thread that
 * starts the volume.
 */
bool fp_meta_log_untouched (struct fp_meta_log *log);

/* Note that the peer of `server` is up, at a server with this UUID, or that it
 * is down.  restarted: the server had forgotten the volume, and was told of it
 * again.
 */
void fp_meta_log_up (struct fp_meta_log *log, unsigned server,
                     const struct fp_uuid *uuid, bool restarted);
void fp_meta_log_down (struct fp_meta_log *log, unsigned server);
/* Return true if the list version at a server that was away at the start may
 * be of a client that has the volume now.  Then the server must not be opened.
 * The metadata log settles that as soon as it can.
 */
bool fp_meta_log_is_behind (struct fp_meta_log *log, uint64_t version);
/* Wait until the current members have taken one more list, after `server` was
 * opened.  Then no other client has the volume, and leftovers at the server
 * may be released.  -ETIMEDOUT: not by the deadline, or *stop is set.  Call on
 * the peer's thread.
 */
int fp_meta_log_confirm (struct fp_meta_log *log, unsigned server,
                         const _Atomic bool *stop, uint64_t deadline_ns);
/* Tell the metadata log that a peer has done what it was asked to. */
void fp_meta_log_wake (struct fp_meta_log *log);

/* Record that extent i, which is BUSY and has its memory, exists.  Then its
 * peer makes it READY (fp_peer_settle).
 */
void fp_meta_log_exists (struct fp_meta_log *log, uint64_t i);
/* Record that extent i, which is BUSY and drained, no longer exists.  Then its
 * memory may be released.  -EROFS: no member was told, and the extent is still
 * the caller's.  The volume is frozen, or recording would have to wait for
 * members that are down.  Or the server of an only copy is down, or not
 * current.  -EAGAIN: that server does not record it.  -EIO: the deadline
 * passed.  After these two the extent belongs to the metadata log, and will be
 * READY again some time.
 */
int fp_meta_log_gone (struct fp_meta_log *log, uint64_t i,
                      uint64_t deadline_ns);
/* Return false if the volume is frozen, or if a change would have to wait for
 * members that are known to be down.
 */
bool fp_meta_log_may_record (struct fp_meta_log *log);
/* Record that entry k, one of several copies, is out of sync (then
 * ops->dropped is called), or in sync.  Do nothing if a change of k is
 * due already, or if k is BUSY or not in the in-sync set.
 */
void fp_meta_log_drop (struct fp_meta_log *log, uint64_t k);
void fp_meta_log_in_sync (struct fp_meta_log *log, uint64_t k);
/* Return true if a change of entry k waits to be recorded. */
bool fp_meta_log_is_due (struct fp_meta_log *log, uint64_t k);
/* Return false if in-sync copy k is not recorded, or if a drop or in_sync of
 * it is due.  An entry that is new or being trimmed counts as recorded.
 */
bool fp_meta_log_has_in_sync (struct fp_meta_log *log, uint64_t k);
/* Wait until no change of entry k is due.  No other thread may have access to
 * k.  -ETIMEDOUT: not by the deadline.
 */
int fp_meta_log_settled (struct fp_meta_log *log, uint64_t k,
                         uint64_t deadline_ns);
/* Wait until all changes are recorded.  -ETIMEDOUT: not by the deadline. */
int fp_meta_log_sync (struct fp_meta_log *log, uint64_t deadline_ns);

/* Set the UUID of server i, whose peer is not started yet. */
void fp_meta_log_expect (struct fp_meta_log *log, unsigned i,
                         const struct fp_uuid *server);
/* Make server i, which is up, a member that is not current at first; then open
 * its place.  -ETIMEDOUT: not by the deadline, but as soon as it can be done.
 * -EBUSY: another server is still joining.
 */
int fp_meta_log_join (struct fp_meta_log *log, unsigned i,
                      const struct fp_server_name *name, uint64_t deadline_ns);
/* Make server i leave, and wait until it is no member any more.  -ETIMEDOUT:
 * it still is one.
 */
int fp_meta_log_leave (struct fp_meta_log *log, unsigned i,
                       uint64_t deadline_ns);

struct fp_meta_log_status { /* zeros without a metadata log */
  uint64_t version;         /* version of the member list */
  uint64_t current;         /* set of current members */
  bool frozen;
  /* Found at start-up: as in fp_volume_status. */
  bool unclean;
  uint64_t resync_bytes, resync_of;
};
void fp_meta_log_status (struct fp_meta_log *log,
                         struct fp_meta_log_status *s);

#endif /* FP_META_LOG_H */
