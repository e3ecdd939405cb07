/* SPDX-License-Identifier: BSD-3-Clause */
/* pool_file.h - a file that names the servers of a pool, so that nobody types
 * eight addresses.  A line of it is NAME = VALUE: server (as often as there
 * are servers), slab, transport or timeout, as the plugin has them.
 *
 * Errors:   0 or -EINVAL, -EOPNOTSUPP or what open(2) says; why then has one
 *           sentence for people that names the file, and the line if there is
 *           one.
 */

#ifndef FP_POOL_FILE_H
#define FP_POOL_FILE_H

#include "volume/volume.h"

#define FP_POOLS_DIR "/etc/farpage/pools.d"
#define FP_POOL_PATH_MAX 256

/* Of pool NAME: NAME.conf in FP_POOLS_DIR, or in $FARPAGE_POOLS_DIR.  What has
 * a slash is a path already.
 */
int fp_pool_path (char out[FP_POOL_PATH_MAX], const char *name,
                  char why[FP_WHY_MAX]);

/* Call set for each line, until one is wrong: it returns 0, or -EINVAL and
 * why.
 */
int fp_pool_read (const char *path,
                  int (*set) (void *arg, const char *key, const char *value,
                              char why[FP_WHY_MAX]),
                  void *arg, char why[FP_WHY_MAX]);

#endif /* FP_POOL_FILE_H */
