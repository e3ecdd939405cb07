/* SPDX-License-Identifier: BSD-3-Clause */
/* pool_file.h - a file that names the servers of a pool, so that users need
 * not type every address.  Each line is KEY = VALUE: server (once per
 * server), slab, transport, timeout or a tls parameter, as in the plugin.
 *
 * Errors:   0 or -EINVAL, -ENOMEM or an error of open(2) or read(2).  The
 *           sentence of fp_pool_read names the file, and the line if there is
 *           one.
 */

#ifndef FP_POOL_FILE_H
#define FP_POOL_FILE_H

#include "base/error.h"

#define FP_POOLS_DIR SYSCONFDIR "/farpage/pools.d"
#define FP_POOL_PATH_MAX 256

/* Make the path of pool NAME: NAME.conf in $FARPAGE_POOLS_DIR, or else in
 * FP_POOLS_DIR.  A NAME with a slash is a path already.
 */
int fp_pool_path (char out[FP_POOL_PATH_MAX], const char *name,
                  struct fp_error *error);

/* Call set for each line, until one is wrong.  set returns 0, or -EINVAL and
 * the sentence in error.
 */
int fp_pool_read (const char *path,
                  int (*set) (void *arg, const char *key, const char *value,
                              struct fp_error *error),
                  void *arg, struct fp_error *error);

#endif /* FP_POOL_FILE_H */
