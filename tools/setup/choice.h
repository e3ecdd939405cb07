/* SPDX-License-Identifier: BSD-3-Clause */
/* choice.h - choose size and copies of a new volume by the free memory of its
 * servers.
 *
 * Units:    bytes.
 * Errors:   0, or a negative errno value and the sentence in error.
 */

#ifndef FARPAGE_CHOICE_H
#define FARPAGE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "proto/messages.h"

/* Answer of one memory server. */
struct choice_server {
  const char *name; /* as the user gave it */
  struct fp_uuid uuid;
  uint64_t total, free, slab;
};

struct choice {
  unsigned nr;
  struct choice_server servers[FP_MAX_MEMBERS];
  uint64_t room; /* largest volume that fits with these copies */
  uint64_t size;
  unsigned copies;
};

/* Ask the server at name for its free memory, and add it to c.  -EEXIST: c has
 * this server already.
 */
int choice_ask (struct choice *c, const char *name, struct fp_error *error);

/* Choose the number of copies: 1 if single_copy, else 2.  -EINVAL: there is
 * one server, and single_copy is false.  Set the size to wanted.  If wanted is
 * 0, set it to half of the room, but at most most: the rest can replace lost
 * copies.  -ENOSPC: the size does not fit.
 */
int choice_make (struct choice *c, bool single_copy, uint64_t wanted,
                 uint64_t most, struct fp_error *error);

#endif /* FARPAGE_CHOICE_H */
