/* SPDX-License-Identifier: BSD-3-Clause */
/* access_reread.h - read the access file (access.h) again while sessions last.
 *
 * Threads:  the loop's.  The file is read in a thread of its own.
 * Memory:   allocates.
 */

#ifndef MEMSERVER_ACCESS_REREAD_H
#define MEMSERVER_ACCESS_REREAD_H

struct access;
struct sessions;

/* Read the access file again, in a thread (SIGHUP).  The old rights stay until
 * that is done, and if the file is wrong; an error is logged.
 */
void access_reread (struct sessions *all);
/* Stop rereading.  This waits for the thread: as long as NSS takes. */
void access_reread_end (struct sessions *all);
/* Replace all rights.  Takes a.  A session ends if it has no right any more to
 * be here, or to what it does with its volume.
 */
void access_replace (struct sessions *all, struct access *a);

#endif /* MEMSERVER_ACCESS_REREAD_H */
