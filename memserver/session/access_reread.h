/* SPDX-License-Identifier: BSD-3-Clause */
/* access_reread.h - read the access file (access.h) again while the server
 * runs.
 *
 * Threads:  the loop's.  A thread of its own reads the file.
 * Memory:   allocates.
 */

#ifndef MEMSERVER_ACCESS_REREAD_H
#define MEMSERVER_ACCESS_REREAD_H

struct access;
struct sessions;

/* Read the access file again, in a thread (SIGHUP).  The old rights hold until
 * that thread is done.  If the file is wrong, they stay, and the error is
 * logged.
 */
void access_reread (struct sessions *all);
/* Wait for the thread, as long as NSS takes.  Drop its result, and free
 * all->reread.
 */
void access_reread_end (struct sessions *all);
/* Replace all rights by a, and take it over.  End each session that may no
 * longer use the server, or may no longer use its volume as it does.
 */
void access_replace (struct sessions *all, struct access *a);

#endif /* MEMSERVER_ACCESS_REREAD_H */
