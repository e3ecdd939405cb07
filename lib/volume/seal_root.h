/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_root.h - the root file of a volume (root=FILE): what its client knows
 * of it when nothing else is known.
 *
 *    15 "farpage root 1", zero
 *     1 0; or 1: what the servers have is believed, and that is not over
 *    16 UUID of the volume
 *     8 size of the device, bytes     } little-endian
 *     8 durable                       }
 *     8 limit                         }
 *    32 root: seal_tree.h
 *    32 HMAC-SHA256 of all this
 *
 * The root is of all blocks as their newest record of a version <= durable has
 * them.  No version >= limit was ever used: whoever comes next begins there.
 *
 * It is replaced by another file, which is complete and on stable storage
 * before it has the name, and after it has the name is, too, when a write is
 * over.  Who has it open has a lock on it (flock(2)), so that of two clients
 * on this host that believe that they have the volume one does not get it.  If
 * its name is that of a symbolic link, what that leads to is replaced.
 *
 * Errors:   0 or -errno, and why.
 * Threads:  one at a time.  A write waits for a disk: nobody who answers
 *           requests calls it.
 */

#ifndef FP_SEAL_ROOT_H
#define FP_SEAL_ROOT_H

#include "volume/seal_cipher.h"
#include "volume/volume.h"

struct fp_root {
  struct fp_uuid uuid;
  uint64_t size, durable, limit;
  uint8_t hash[FP_HASH];
  bool believes; /* reroot=true is not over */
};

struct fp_root_file;

/* Without the lock.  -ENOENT: there is none; -EBADMSG: it is not what anybody
 * with the key has written.
 */
int fp_root_read (const char *path, struct fp_mac *mac, struct fp_root *out,
                  char why[FP_WHY_MAX]);
/* Can a file be made there? */
int fp_root_may_write (const char *path, char why[FP_WHY_MAX]);

/* Have it, and what it says; that of another process is waited for until the
 * deadline: -EBUSY.
 */
int fp_root_open (struct fp_root_file **out, const char *path,
                  struct fp_mac *mac, struct fp_root *root,
                  uint64_t deadline_ns, char why[FP_WHY_MAX]);
/* Make it.  -EEXIST, unless it may be replaced; -EBUSY: another process has
 * the one that is there.
 */
int fp_root_create (struct fp_root_file **out, const char *path,
                    struct fp_mac *mac, const struct fp_root *root,
                    bool replace, char why[FP_WHY_MAX]);
/* -ESTALE: another file has its name now, which is left alone. */
int fp_root_write (struct fp_root_file *f, struct fp_mac *mac,
                   const struct fp_root *root);
/* f may be NULL.  It stays as it is. */
void fp_root_close (struct fp_root_file *f);
/* What was made for a volume that did not come to be. */
void fp_root_remove (struct fp_root_file *f);

#endif /* FP_SEAL_ROOT_H */
