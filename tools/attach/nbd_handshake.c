/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd_handshake.c - an NBD handshake for the kernel, by libnbd. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <libnbd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/nbd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "tools/attach/nbd_handshake.h"

/* Close a libnbd handle.  That closes its file descriptor without a word to
 * the server, so a duplicate of the socket lives on.
 */
static void
closep (struct nbd_handle **hp)
{
  nbd_close (*hp);
}

static int
failed (struct fp_error *error)
{
  int err = nbd_get_errno ();

  return fp_fail (error, err ? -err : -EIO, "%s", nbd_get_error ());
}

static uint64_t
server_flags (struct nbd_handle *h)
{
  uint64_t flags = NBD_FLAG_HAS_FLAGS;

  if (nbd_is_read_only (h) > 0)
    flags |= NBD_FLAG_READ_ONLY;
  if (nbd_can_flush (h) > 0)
    flags |= NBD_FLAG_SEND_FLUSH;
  if (nbd_can_fua (h) > 0)
    flags |= NBD_FLAG_SEND_FUA;
  if (nbd_can_trim (h) > 0)
    flags |= NBD_FLAG_SEND_TRIM;
  if (nbd_can_multi_conn (h) > 0)
    flags |= NBD_FLAG_CAN_MULTI_CONN;
  return flags;
}

/* Make room for the largest request (max_sectors_kb in sysfs.c), and as much
 * again for the kernel's own data.  With less, a process that swaps out sleeps
 * in the middle of a request, several times, until nbdkit has taken the first
 * part.  A failure costs only that.
 */
static void
widen (int fd)
{
  int room = 1024 * 1024; /* the kernel doubles it: socket(7) */

  if (setsockopt (fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) == -1)
    (void) setsockopt (fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
}

int
nbd_handshake (struct nbd_link *link, const char *socket_path,
               const struct deadline *d, struct fp_error *error)
{
  FP_CLEANUP (closep) struct nbd_handle *h = nbd_create ();
  int64_t size;
  int left, fd;

  if (!h)
    return failed (error);
  if (nbd_set_request_structured_replies (h, false) == -1 ||
      nbd_aio_connect_unix (h, socket_path) == -1)
    return failed (error);
  while (!nbd_aio_is_ready (h)) {
    if (nbd_aio_is_dead (h) || nbd_aio_is_closed (h))
      return failed (error);
    left = deadline_left (d, 200);
    if (left == 0)
      return fp_fail (error, -ETIMEDOUT, "%s did not answer in time",
                      socket_path);
    if (nbd_poll (h, left) == -1 && nbd_get_errno () != EINTR)
      return failed (error);
  }

  size = nbd_get_size (h);
  if (size == -1)
    return failed (error);
  link->size = (uint64_t) size;
  link->flags = server_flags (h);
  link->multi_conn = link->flags & NBD_FLAG_CAN_MULTI_CONN;

  fd = fcntl (nbd_aio_get_fd (h), F_DUPFD_CLOEXEC, 0);
  if (fd == -1)
    return fp_fail (error, -errno, "no file descriptor left");
  if (fcntl (fd, F_SETFL, fcntl (fd, F_GETFL) & ~O_NONBLOCK) == -1) {
    close (fd);
    return fp_fail (error, -EIO, "fcntl failed");
  }
  widen (fd);
  link->fd = fd;
  return 0;
}
