/* SPDX-License-Identifier: BSD-3-Clause */
/* tsan.h - accesses that ThreadSanitizer must ignore, and a fence that it
 * knows.
 *
 * A client orders its own accesses to the memory that it was lent.  It asks
 * for zeros, or writes on another lane, only after the reply to the access
 * before.  ThreadSanitizer cannot see an order that goes through the client
 * and back.  A suppression would hide the reports, but each would still be
 * made, one per word.  A ZERO of some MiB then took longer than the session's
 * deadline.
 *
 * The migration thread reads mapped memory while others write to it.  Data
 * that it reads meanwhile is copied again (heal/migrate.h).
 *
 * Between the two calls of a pair, the writes (or reads) of the calling thread
 * are neither compared with others nor remembered.  Without ThreadSanitizer
 * the calls do nothing.  The names are those of the runtime's interface
 * (compiler-rt: lib/tsan/rtl/tsan_interface_ann.cpp).
 */

#ifndef BASE_TSAN_H
#define BASE_TSAN_H

#include <stdatomic.h>

#if defined __has_feature
#if __has_feature(thread_sanitizer)
#define FP_UNDER_TSAN 1
#endif
#endif
#if defined __SANITIZE_THREAD__
#define FP_UNDER_TSAN 1
#endif

#ifdef FP_UNDER_TSAN
void AnnotateIgnoreWritesBegin (const char *file, int line);
void AnnotateIgnoreWritesEnd (const char *file, int line);
void AnnotateIgnoreReadsBegin (const char *file, int line);
void AnnotateIgnoreReadsEnd (const char *file, int line);
#endif

static inline void
fp_tsan_client_orders_begin (void)
{
#ifdef FP_UNDER_TSAN
  AnnotateIgnoreWritesBegin (__FILE__, __LINE__);
#endif
}

static inline void
fp_tsan_client_orders_end (void)
{
#ifdef FP_UNDER_TSAN
  AnnotateIgnoreWritesEnd (__FILE__, __LINE__);
#endif
}

/* Do as atomic_thread_fence, which ThreadSanitizer does not know. */
static inline void
fp_fence (memory_order order)
{
#ifdef FP_UNDER_TSAN
  static _Atomic int none; /* each file has its own, which is enough */

  (void) atomic_fetch_add_explicit (&none, 0, order);
#else
  atomic_thread_fence (order);
#endif
}

static inline void
fp_tsan_read_while_written_begin (void)
{
#ifdef FP_UNDER_TSAN
  AnnotateIgnoreReadsBegin (__FILE__, __LINE__);
#endif
}

static inline void
fp_tsan_read_while_written_end (void)
{
#ifdef FP_UNDER_TSAN
  AnnotateIgnoreReadsEnd (__FILE__, __LINE__);
#endif
}

#endif
