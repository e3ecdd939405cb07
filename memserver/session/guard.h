/* SPDX-License-Identifier: BSD-3-Clause */
/* guard.h - what a session may do: the rights of its identity in the access
 * file (access.h).  Without a file it may do everything.
 *
 * A volume that the session may not know of is answered for like one that does
 * not exist, in the same words.
 *
 * Errors:   0 or a negative errno value.  If there is a call, its reason is
 *           set, too.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_GUARD_H
#define MEMSERVER_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "memserver/auth/access.h"

struct call;
struct record;
struct session;
struct sessions;

/* Set session.who at HELLO.  -EPERM: this identity may not use the server. */
int guard_hello (struct call *call);

/* Return true if s, a connection without HELLO, has the same user as session
 * owner.  TLS or the kernel says which.  Both must use TLS, or none.
 */
bool guard_is_same (const struct session *s, const struct session *owner);

/* Return the session's rights, never NULL. */
const struct access_rights *guard_rights (const struct session *s);

/* Return true if the session may know of this volume.  rec may be NULL: there
 * is no such volume.
 */
bool guard_sees (const struct session *s, const struct record *rec);
/* Return true if a list of volumes shows this one to the session. */
bool guard_lists (const struct session *s, const struct record *rec);

/* Return true if the session's client has the volume, or had it last.  With an
 * access file its UUID is not enough: TLS or the kernel must name the same
 * user, if that is known.
 */
bool guard_had_last (const struct session *s, const struct record *rec);

/* Return rec, or NULL if rec is the orphan of another client. */
struct record *guard_hide_orphan (const struct session *s, struct record *rec);
/* Return the record of a volume, or NULL; hide an orphan. */
struct record *guard_find (const struct session *s,
                           const struct fp_uuid *uuid);

/* Return true if the session must not share memory that earlier clients of the
 * volume have mapped.
 */
bool guard_is_stranger (const struct session *s, const struct record *rec);

/* Check OPEN before it does anything.  Return 0, -EPERM, or -ENOENT as if
 * there were no such volume.  *read_only: the session asked only to read.
 */
int guard_open (struct call *call, const struct fp_open *q, bool *read_only);

/* Return true if the session, which has a volume open, reads it and may not
 * write it.  Then it gives way to a session that may.
 */
bool guard_gives_way (const struct session *s);
/* Return true if a session that gives way has the volume, and s may write it.
 * Then OPEN and DELETE by s end that session first, and LOOKUP by s shows the
 * volume as free.
 */
bool guard_comes_first (const struct session *s, const struct record *rec);

/* Make the session's identity the owner of the volume that it has just opened,
 * if the present owner is not in the access file.
 */
void guard_opened (struct session *s);

/* Check a request that changes the open volume.  -EPERM: it is read only. */
int guard_change (struct call *call);

/* Check DELETE of a volume that the session sees, or BYE with discard.
 * -EPERM: it has no right to that.
 */
int guard_delete (struct call *call, const struct record *rec);
int guard_discard (struct call *call);

/* Return how many slabs the quota allows the owner of the session's volume, or
 * the session itself without one: how many more, and in all.  UINT64_MAX: no
 * limit.
 */
struct guard_room {
  uint64_t left, total;
};
struct guard_room guard_room (const struct session *s);

/* Return how many slabs the session could be granted: now, once they are
 * scrubbed, or in place of orphans.  A server that is being drained grants
 * none.
 */
uint64_t guard_free (const struct session *s);

/* Before it refuses, each of the next three functions forgets orphans of the
 * same owner, if that helps.
 */

/* Check that a new volume is allowed.  -ENOSPC: the owner has the most that
 * one may have.
 */
int guard_make (struct call *call);

/* Check that the map of a new volume fits its owner's part.  -ENOSPC: it does
 * not.
 */
int guard_map (struct call *call, const struct record *rec);

/* Return -ENOSPC if the quota is used up.  With ahead, forget no orphan. */
int guard_grant (struct call *call, bool ahead);

/* Return how many slabs are lent to the volumes of this owner.  Set *volumes
 * to the number of volumes.
 */
uint64_t guard_lent (const struct sessions *all, const struct who *owner,
                     unsigned *volumes);

/* Log how much each identity has of its quota. */
void guard_log (const struct sessions *all);

#endif /* MEMSERVER_GUARD_H */
