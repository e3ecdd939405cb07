/* SPDX-License-Identifier: BSD-3-Clause */
/* seal_record.h - what the servers keep beside a block of 4 KiB of a volume
 * with a root (rooted.h): four records, so that what was there at the last
 * flush, what is to be there after the next one, and what was written since
 * are known at the same time.
 *
 *     8 version, little-endian; the highest bit: zeros
 *    16 tag of AES-256-GCM; of zeros: 0
 *     8 the first bytes of HMAC-SHA256 of {block 8, version 8, tag 16}
 *
 * 32 bytes that are all zeros are no record, and nor is anything else whose
 * code is not right: a record that was written in part, or is of another
 * block, or was made up, is as if it was not there.
 *
 * Versions are numbers of writes: from 1 on, and no two are the same.  They
 * are what is compared with the boundary of a root: what it vouches for is up
 * to `durable`; while the next one is made, that one's is `closed`.
 *
 * Which of the four a write may use:
 *
 *     roles: three of these numbers, 2 bits each
 *       newest   of the newest record; its version is known (the table's)
 *       closed   of the newest with version <= closed, as of the newest write
 *       durable  of the newest with version <= durable, likewise
 *
 * so at most three are in use and one is free.  The roles are as of the newest
 * write, of version n, when `closed` was c < n.  What they are later:
 *
 *     n <= durable              all are the newest
 *     durable < n <= closed     a root after c is being made, so that of c is
 *                               durable: `durable` is what `closed` was
 *     n > closed                closed is c still; durable is what it was, or
 *                               what `closed` is, as soon as c is durable
 *
 * which needs that roots are made one after the other, each of them until it
 * is durable.  (A `durable` that is older than it could be keeps a record too
 * many, and that is all.)
 *
 * Units:    numbers of blocks and of records (0..3).
 * Errors:   encode: 0 or -errno.
 * Threads:  pure; a mac is used by one at a time.
 * Memory:   the caller's.
 */

#ifndef FP_SEAL_RECORD_H
#define FP_SEAL_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "volume/seal_cipher.h"

#define FP_RECORD 32u
#define FP_RECORDS 4u /* of each block */
#define FP_RECORD_ZEROS (UINT64_C (1) << 63)
#define FP_VERSION_MAX (UINT64_C (1) << 62)

struct fp_record {
  uint64_t version; /* 0: there is none */
  uint64_t tag[2];
  bool zeros;
};

int fp_record_encode (struct fp_mac *mac, uint64_t block,
                      const struct fp_record *r, uint8_t out[FP_RECORD]);
/* As it claims to be; is it so?  None is genuine. */
struct fp_record fp_record_decode (const uint8_t in[FP_RECORD]);
bool fp_record_is_genuine (struct fp_mac *mac, uint64_t block,
                           const uint8_t in[FP_RECORD]);

struct fp_bounds {
  uint64_t durable, closed; /* durable <= closed */
};

/* A byte of roles; the rest of it is the caller's. */
#define FP_ROLES 0x3fu

static inline uint8_t
fp_roles (unsigned newest, unsigned closed, unsigned durable)
{
  return (uint8_t) (newest | closed << 2 | durable << 4);
}

static inline unsigned
fp_roles_newest (uint8_t roles)
{
  return roles & 3u;
}

/* What they are now; version: of the newest, 0 if there is none. */
static inline uint8_t
fp_roles_now (uint8_t roles, uint64_t version, const struct fp_bounds *b)
{
  unsigned newest = roles & 3u, closed = roles >> 2 & 3u;

  if (version <= b->durable)
    return fp_roles (newest, newest, newest);
  if (version <= b->closed)
    return fp_roles (newest, newest, closed);
  if (b->durable == b->closed)
    return fp_roles (newest, closed, closed);
  return roles & FP_ROLES;
}

/* A set; never empty.  now: as above. */
static inline unsigned
fp_roles_free (uint8_t now)
{
  return 0xfu &
         ~(1u << (now & 3u) | 1u << (now >> 2 & 3u) | 1u << (now >> 4 & 3u));
}

/* Record i was written, of a version > closed. */
static inline uint8_t
fp_roles_wrote (uint8_t now, unsigned i)
{
  return (uint8_t) ((now & FP_ROLES & ~3u) | i);
}

#endif /* FP_SEAL_RECORD_H */
