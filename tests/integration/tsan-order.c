/* SPDX-License-Identifier: BSD-3-Clause */
/* tsan-order.c - preloaded into the memory server by a test that runs under
 * ThreadSanitizer, to show it the order that goes through the client.
 *
 * A client that reads on one lane, and writes the same bytes on another when
 * the answer has come, orders two threads of the server: what the first one
 * did before it sent comes before what the second does after it received.
 * ThreadSanitizer knows of no client and sees a race.  So each send is a
 * release here and each receive an acquire.  Its own interceptors are passed
 * by, as they look at the memory when the call is over: the client may have
 * gone on by then.
 */

#include <config.h>

#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __has_feature
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#if defined __SANITIZE_THREAD__
#define UNDER_TSAN 1
#endif

#ifdef UNDER_TSAN

/* Weak: the shell that starts the server has no such thing. */
#define WEAK __attribute__ ((__weak__))
void __tsan_acquire (void *addr) WEAK;
void __tsan_release (void *addr) WEAK;
void __tsan_read_range (void *addr, long size) WEAK;
void __tsan_write_range (void *addr, long size) WEAK;

static char order;

ssize_t
sendmsg (int fd, const struct msghdr *msg, int flags)
{
  for (size_t i = 0; __tsan_read_range && i < msg->msg_iovlen; i++)
    __tsan_read_range (msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len);
  if (__tsan_release)
    __tsan_release (&order);
  return syscall (SYS_sendmsg, fd, msg, flags);
}

static void
received (const struct iovec *iov, size_t nr, ssize_t bytes)
{
  if (__tsan_acquire)
    __tsan_acquire (&order);
  for (size_t i = 0; __tsan_write_range && i < nr && bytes > 0; i++) {
    size_t n =
        iov[i].iov_len < (size_t) bytes ? iov[i].iov_len : (size_t) bytes;

    __tsan_write_range (iov[i].iov_base, n);
    bytes -= (ssize_t) n;
  }
}

ssize_t
recvmsg (int fd, struct msghdr *msg, int flags)
{
  ssize_t r = syscall (SYS_recvmsg, fd, msg, flags);

  received (msg->msg_iov, msg->msg_iovlen, r);
  return r;
}

ssize_t
recv (int fd, void *buf, size_t length, int flags)
{
  const struct iovec iov = { buf, length };
  ssize_t r = syscall (SYS_recvfrom, fd, buf, length, flags, NULL, NULL);

  received (&iov, 1, r);
  return r;
}

#endif /* UNDER_TSAN */

/* A shared object has to have something in it. */
extern const char tsan_order_is_here;
const char tsan_order_is_here = 1;
