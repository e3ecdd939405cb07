/* SPDX-License-Identifier: BSD-3-Clause */
/* meta_log.h - what the servers of a volume that has a name, or copies, keep
 * about it, and how it is kept in step with what the client does: which
 * extents exist (the map), and who the servers are (the list of members).
 * docs/PROTOCOL.md, 'Volumes with a name', has the rules; this is who follows
 * them.
 *
 * One thread, the metadata log, decides what all the servers are told next;
 * each peer's thread tells its own.  A change of the map is over when every
 * current member has it.  One that does not answer is left out of the list of
 * members (a new version, at all the others), and taken in again when it is
 * back and was given the whole map.  There is no failure: what cannot be
 * recorded waits, its extent is BUSY, and who waits for that has a deadline.
 *
 * A list may be recorded in part, when its answers were lost.  So that whoever
 * asks all current members of any list that some server has hears of the
 * newest:
 *
 *  - each list that is tried has a version of its own, in a range that is the
 *    client's (FP_MEMBERSHIP_ROUND);
 *  - a new list is recorded at one at least of the current members of each
 *    list that may be somewhere (`anchor`), at so many that no more than half
 *    of these could come back without them, and at half of those of the last
 *    one that all had, so that more than half of these know that it is old;
 *  - a list that takes members in, or has some that a list since the last
 *    complete one was without, has enough in common with each of these lists
 *    that no two clients can attach by different ones and miss each other;
 *  - after an attempt nothing that is recorded counts until one succeeded.
 *
 * The next client may find several lists, of which only the first may have
 * been complete: membership.h says whom it believes.  Until its own first list
 * is complete all of these may be somewhere, as if it had sent them.
 *
 * Each attachment begins with a list of a higher version, and the labels that
 * follow have generations above fp_membership_generation: so they are higher
 * than those of a server that was not there to be asked.
 *
 * A volume that was attached without more than half of its current members
 * (degraded=true) is `frozen`: there may be a newer list.  What is labelled
 * can be read and written, nothing else; nothing is recorded.
 *
 * Threads:  any, but for start and stop.
 * Memory:   only new allocates.
 */

#ifndef FP_META_LOG_H
#define FP_META_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/uuid.h"
#include "volume/volume.h"

struct fp_meta_log;

/* In v->meta_log, for a volume that is recorded (fp_volume_is_recorded); the
 * calls below do nothing for another one.
 */
int fp_meta_log_new (struct fp_volume *v);
void fp_meta_log_free (struct fp_volume *v);

/* The peers are up that have to be: find out what exists, write the list,
 * release what does not exist, and start the thread.
 */
int fp_meta_log_start (struct fp_volume *v, uint64_t deadline_ns,
                       char why[FP_WHY_MAX]);
/* Extents that wait go back to their peers. */
void fp_meta_log_stop (struct fp_volume *v);
/* It was stopped, and nothing is written any more: if all copies are alike,
 * that is recorded, so that whoever comes next can believe them all.
 */
void fp_meta_log_rest (struct fp_volume *v);

/* No server was told of any list yet.  Of the start's thread. */
bool fp_meta_log_untouched (struct fp_volume *v);

/* A peer came up, to a server of that name; or is down.  anew: it had
 * forgotten the volume, and was told of it again.
 */
void fp_meta_log_up (struct fp_volume *v, unsigned server,
                     const struct fp_uuid *uuid, bool anew);
void fp_meta_log_down (struct fp_volume *v, unsigned server);
/* A server that was away at the start has a list of this version.  Return true
 * if it may be that of a client that has the volume now: then the server may
 * not be opened.  That is decided as soon as it can be.
 */
bool fp_meta_log_is_behind (struct fp_volume *v, uint64_t version);
/* It was opened.  Wait until the current members have taken one more list:
 * then no other client has the volume, and what is left over at the server may
 * be released.  -ETIMEDOUT: not by then, or *stop is set.  Its thread.
 */
int fp_meta_log_confirm (struct fp_volume *v, unsigned server,
                         const _Atomic bool *stop, uint64_t deadline_ns);
/* A peer has done what it was asked to. */
void fp_meta_log_wake (struct fp_volume *v);

/* Extent i, which is BUSY and has its memory, is to be recorded; then its peer
 * makes it READY (fp_peer_settle).
 */
void fp_meta_log_exists (struct fp_volume *v, uint64_t i);
/* Record that extent i, which is BUSY and drained, does not exist any more:
 * then its memory may be released.  -EROFS: the volume is frozen, or so many
 * members are down that it would have to wait for them; no member was told of
 * it, and the extent is still the caller's.  -EIO: not by then; the extent is
 * the metadata log's now, and will be READY again some time.
 */
int fp_meta_log_gone (struct fp_volume *v, uint64_t i, uint64_t deadline_ns);
/* Return false if so many members are known to be down that a change would
 * have to wait for them.
 */
bool fp_meta_log_may_record (struct fp_volume *v);
/* An extent that has several copies: entry k shall be recorded as one that is
 * not in sync (then fp_mirror_dropped), or that is.  Nothing, if there is
 * something to be recorded of it already.
 */
void fp_meta_log_drop (struct fp_volume *v, uint64_t k);
void fp_meta_log_in_sync (struct fp_volume *v, uint64_t k);
/* Something is to be recorded of entry k. */
bool fp_meta_log_is_due (struct fp_volume *v, uint64_t k);
/* Of entry k, which is an in-sync copy: that is recorded, and stays so. */
bool fp_meta_log_has_in_sync (struct fp_volume *v, uint64_t k);
/* Nothing is to be recorded of entry k, which nobody else can get at;
 * -ETIMEDOUT.
 */
int fp_meta_log_settled (struct fp_volume *v, uint64_t k,
                         uint64_t deadline_ns);
/* The map has so many bits: one for each entry, and where there are several
 * copies one more, that a client is at work.
 */
uint64_t fp_meta_log_bits (const struct fp_volume *v);

/* Wait until nothing waits to be recorded. */
int fp_meta_log_sync (struct fp_volume *v, uint64_t deadline_ns);

/* Can a label of extent i, heard of late, be more than a leftover? */
bool fp_meta_log_may_exist (struct fp_volume *v, uint64_t i);

/* May what is left over at the servers be released?  Not before the first list
 * is complete: until then the next client may follow an older one, by which it
 * exists; nor if the volume is frozen.
 */
bool fp_meta_log_may_release (struct fp_volume *v);
/* Was it decided which of the labels count that were heard at the start? Under
 * fp_volume.lock.
 */
bool fp_meta_log_has_judged (struct fp_volume *v);

/* Server i has named all that it holds, for the first time.  Its thread. */
void fp_meta_log_heard (struct fp_volume *v, unsigned i);
/* Server i comes late: is a label there, which may be open, in doubt because
 * others were not heard yet?  (peer_learn.h.)  Under fp_volume.lock.
 */
bool fp_meta_log_doubts (struct fp_volume *v, unsigned i, bool open);

/* Server i, whose peer is not started yet, is this one. */
void fp_meta_log_expect (struct fp_volume *v, unsigned i,
                         const struct fp_uuid *server);
/* It is up: a member from now on, first not current.  -ETIMEDOUT: not by then,
 * but as soon as that can be; -EBUSY: that is so of another one still.  Its
 * place is not closed any more when it is.
 */
int fp_meta_log_join (struct fp_volume *v, unsigned i,
                      const struct fp_server_name *name, uint64_t deadline_ns);
/* It is none any more; at the deadline (-ETIMEDOUT) it still is. */
int fp_meta_log_leave (struct fp_volume *v, unsigned i, uint64_t deadline_ns);

struct fp_meta_log_status {
  uint64_t version; /* of the list */
  uint64_t current; /* a set of servers */
  bool frozen;
};
void fp_meta_log_status (struct fp_volume *v, struct fp_meta_log_status *s);

#endif /* FP_META_LOG_H */
