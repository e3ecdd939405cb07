/* SPDX-License-Identifier: BSD-3-Clause */
/* guard.h - what a session may do, as the access file (access.h) says of who
 * is at its other end.  Without a file: everything.
 *
 * A volume that it may not know of is answered for like one that does not
 * exist, in the same words.
 *
 * Errors:   0 or a negative errno value; where there is a call, with its
 *           reason.
 * Threads:  the loop's.
 */

#ifndef MEMSERVER_GUARD_H
#define MEMSERVER_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "memserver/auth/access.h"

struct call;
struct record;
struct server;
struct session;

/* SIGHUP: read the file again, in a thread; until that is done all is as it
 * was, and if the file is wrong afterwards, too, and that is logged.
 */
void guard_reread (struct server *srv);
/* Waits for that thread: as long as NSS takes. */
void guard_reread_end (struct server *srv);
/* This is what they may do from here on; a is srv's now.  Whose right to what
 * it has ends loses its session.
 */
void guard_replace (struct server *srv, struct access *a);

/* HELLO: who is it (session.who)?  -EPERM: nobody who may come. */
int guard_hello (struct call *call);

/* Has this connection, which says no HELLO, the same user as that session, as
 * TLS or the kernel says, and TLS if that has it?
 */
bool guard_is_same (const struct session *s, const struct session *owner);

/* Never NULL. */
const struct access_rights *guard_rights (const struct session *s);

/* May it know of this volume?  rec may be NULL: there is none. */
bool guard_sees (const struct session *s, const struct record *rec);
/* Is it told of this one when it asks for all? */
bool guard_lists (const struct session *s, const struct record *rec);

/* Before OPEN does anything.  -ENOENT, as if there were no such volume;
 * -EPERM.  *read_only: it asked for no more than to read it.
 */
int guard_open (struct call *call, const struct fp_open *q, bool *read_only);

/* Return true if the session, which has a volume open, reads it and may not
 * write it.  Then it gives way to a session that may.
 */
bool guard_gives_way (const struct session *s);
/* Return true if such a session has the volume, and s may write it: then OPEN
 * and DELETE by s end that session first, and LOOKUP does not show it.
 */
bool guard_comes_first (const struct session *s, const struct record *rec);

/* It has the volume open now: it is its, if it is nobody's. */
void guard_opened (struct session *s);

/* A request that changes the volume it has open.  -EPERM. */
int guard_change (struct call *call);

/* DELETE of a volume that it sees, BYE with discard.  -EPERM. */
int guard_delete (struct call *call, const struct record *rec);
int guard_discard (struct call *call);

/* So many slabs may its volume, or one that it would make, still be lent; and
 * be lent in all.
 */
struct guard_room {
  uint64_t left, total;
};
struct guard_room guard_room (const struct session *s);

/* Return how many slabs it could be granted: now, once they are scrubbed, or
 * in place of orphans.
 */
uint64_t guard_free (const struct session *s);

/* Each of the next three functions forgets orphans of the same owner before it
 * refuses, if that helps.
 */

/* -ENOSPC: it has as many volumes as one may have. */
int guard_make (struct call *call);

/* Check that the map of a new volume fits the share of who makes it.  -ENOSPC:
 * it does not.
 */
int guard_map (struct call *call, const struct record *rec);

/* Return -ENOSPC if no slab is left.  With ahead no orphan is forgotten. */
int guard_grant (struct call *call, bool ahead);

/* Lent to the volumes of this one, in slabs. */
uint64_t guard_lent (const struct server *srv, const struct who *owner,
                     unsigned *volumes);

/* Who has how much of its quota, into the log. */
void guard_log (const struct server *srv);

#endif /* MEMSERVER_GUARD_H */
