/* SPDX-License-Identifier: BSD-3-Clause */
/* members.h - the file (members=PATH) that says who the servers of the volume
 * are now: nbdkit may end any time, and whoever takes the volume up again
 * (resume=true) was told of those that there were when it was attached.  A
 * line of it is what server= says, ADDR[,domain=NAME].  It is replaced as a
 * whole, by renaming.
 *
 * Errors:   0 or a negative errno value; why then has one sentence.
 */

#ifndef FP_MEMBERS_H
#define FP_MEMBERS_H

#include "front/params.h"

/* These instead of those that were given, if there is such a file. */
int fp_members_read (struct fp_params *p, const char *path,
                     char why[FP_WHY_MAX]);
/* fp_volume_params.keep_servers; path: a string. */
int fp_members_write (void *path, const struct fp_server_names *servers,
                      char why[FP_WHY_MAX]);

#endif /* FP_MEMBERS_H */
