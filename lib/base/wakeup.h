/* SPDX-License-Identifier: BSD-3-Clause */
/* wakeup.h - an eventfd that is read only if something was written to it.
 *
 * Else a thread would spend a system call before each sleep to find that
 * nothing was written.  A writer counts first and then writes.  A reader
 * subtracts what it has read.  If it reads between the two, it finds nothing,
 * and tries again next time.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  any may write; one at a time may empty it.
 * Memory:   none.  {0} has no descriptor.
 */

#ifndef FP_WAKEUP_H
#define FP_WAKEUP_H

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct fp_wakeup {
  int fd; /* 0: none */
  _Atomic uint64_t unread;
};

static inline int
fp_wakeup_open (struct fp_wakeup *w)
{
  int fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);

  if (fd == -1)
    return -errno;
  w->fd = fd;
  return 0;
}

static inline void
fp_wakeup_close (struct fp_wakeup *w)
{
  if (w->fd > 0)
    close (w->fd);
  w->fd = 0;
  atomic_store (&w->unread, 0);
}

/* Make the descriptor readable. */
static inline void
fp_wakeup_write (struct fp_wakeup *w)
{
  uint64_t one = 1;

  atomic_fetch_add (&w->unread, 1);
  if (write (w->fd, &one, sizeof one) == -1)
    assert (errno == EAGAIN); /* full, so it is readable already */
}

/* Make the descriptor unreadable again.  Return false if the read was
 * interrupted.
 */
static inline bool
fp_wakeup_empty (struct fp_wakeup *w)
{
  uint64_t n;

  if (atomic_load (&w->unread) == 0)
    return true;
  if (read (w->fd, &n, sizeof n) == -1)
    return errno == EAGAIN;
  atomic_fetch_sub (&w->unread, n);
  return true;
}

#endif /* FP_WAKEUP_H */
