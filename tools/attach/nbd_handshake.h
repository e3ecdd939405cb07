/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd_handshake.h - connect to an NBD server on a Unix socket, negotiate as
 * the kernel's client needs it, and hand over the bare socket.
 *
 * The kernel knows simple replies only, so structured replies and their
 * extensions are not negotiated.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 *           -ECONNREFUSED or -ENOENT if no server listens there (yet).
 * Memory:   the caller closes link->fd.
 */

#ifndef FARPAGE_NBD_HANDSHAKE_H
#define FARPAGE_NBD_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "tools/common/deadline.h"

struct nbd_link {
  int fd;         /* in transmission phase, nothing sent, nothing unread */
  uint64_t size;  /* bytes */
  uint64_t flags; /* NBD_FLAG_* as the kernel wants them */
  bool multi_conn;
};

int nbd_handshake (struct nbd_link *link, const char *socket_path,
                   const struct deadline *d, struct fp_error *error);

#endif /* FARPAGE_NBD_HANDSHAKE_H */
