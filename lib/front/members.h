/* SPDX-License-Identifier: BSD-3-Clause */
/* members.h - the file (members=PATH) that lists the present servers of the
 * volume.  nbdkit may end at any time.  The process that resumes the volume
 * (resume=true) was given the servers of the first attach, so it needs this
 * file.  Each line has the value of one server=: ADDR[,domain=NAME].  The file
 * is replaced as a whole, by rename.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 */

#ifndef FP_MEMBERS_H
#define FP_MEMBERS_H

#include "base/error.h"
#include "front/params.h"

/* If the volume is resumed, replace the servers in p by those in its file, if
 * that exists.  Call after the last parameter, before fp_params_complete.
 */
int fp_members_read (struct fp_params *p, struct fp_error *error);
/* Write the file.  Callback for fp_volume_params.keep_servers; path is a
 * string.
 */
int fp_members_write (void *path, const struct fp_server_names *servers,
                      struct fp_error *error);

#endif /* FP_MEMBERS_H */
