/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - mlock, mapping by mapping.
 *
 * mlockall (MCL_CURRENT) would be one call, but nbdkit has three static
 * buffers of 64 MiB.  They are for things that this plugin never lets it do:
 * zeroing by writing, caching by reading, draining refused writes.  They would
 * add 192 MiB to VmLck, and to what RLIMIT_MEMLOCK must allow.  So each
 * mapping is locked by itself.  In the one that holds those buffers, only the
 * parts in use and their surroundings are locked, because nbdkit's variables
 * are there.
 */

#include <config.h>

#include "front/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/size.h"

/* Mappings of at least this size, made before the volume was started, are
 * nbdkit's static buffers.
 */
#define BIG (48u << 20)
/* The unit in which such mappings are locked. */
#define CHUNK (64u << 10)

/* For nbdkit's threads.  The default of pthreads, 8 MiB each, would count as
 * locked.  As in base/thread.h.
 */
#define STACK_SIZE (256u << 10)

/* Call fn on each mapping that should be locked.  total gets the size of those
 * smaller than BIG.
 */
static int
each_mapping (int (*fn) (void *addr, size_t length), size_t *total)
{
  FP_CLEANUP (fp_fclosep) FILE *fp = fopen ("/proc/self/maps", "re");
  char line[512];

  *total = 0;
  if (fp == NULL)
    return -errno;
  while (fgets (line, sizeof line, fp) != NULL) {
    uintptr_t start, end;
    char prot[5];

    if (strchr (line, '\n') == NULL) /* a very long path: skip the rest */
      for (int c = getc (fp); c != '\n' && c != EOF;)
        c = getc (fp);
    if (sscanf (line, "%" SCNxPTR "-%" SCNxPTR " %4s", &start, &end, prot) !=
        3)
      return -EPROTO;
    /* Guard pages have nothing to lock; [vvar] and [vsyscall] belong to the
     * kernel.
     */
    if (prot[0] != 'r' || strstr (line, "[v") != NULL)
      continue;
    if (end - start < BIG)
      *total += end - start;
    if (fn != NULL && fn ((void *) start, end - start) == -1)
      return -errno;
  }
  return 0;
}

static int
explain (int err, size_t need, struct fp_error *error)
{
  char need_str[FP_SIZE_STR_MAX], limit_str[FP_SIZE_STR_MAX] = "unlimited";
  struct rlimit limit;

  if (getrlimit (RLIMIT_MEMLOCK, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY)
    fp_format_size (limit.rlim_cur, limit_str);
  fp_format_size (need, need_str);
  return fp_fail (
      error, err,
      "cannot lock %s of memory: %s. RLIMIT_MEMLOCK is %s: raise it "
      "(ulimit -l, LimitMEMLOCK= of a systemd unit), start as root, or "
      "give mlock=false if this will never be swap",
      need_str, strerror (-err), limit_str);
}

int
fp_memory_check (size_t more, struct fp_error *error)
{
  size_t now, need;
  void *p;
  int r;

  r = each_mapping (NULL, &now);
  if (r < 0)
    return fp_fail (error, r, "/proc/self/maps: %s", strerror (-r));
  need = now + more;

  /* Only the kernel knows whether this is allowed (limit, capability, user
   * namespace), so try it.  No page of this mapping is ever touched.
   */
  p = mmap (NULL, need, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    return explain (-errno, need, error);
  r = mlock2 (p, need, MLOCK_ONFAULT) == -1 ? -errno : 0;
  munmap (p, need);
  return r < 0 ? explain (r, need, error) : 0;
}

static bool
any_resident (const unsigned char *vec, size_t nr, size_t page)
{
  for (size_t i = 0; i < CHUNK / page && i < nr; i++)
    if (vec[i] & 1)
      return true;
  return false;
}

/* Lock the chunks of a big mapping that are in use, their neighbours, and the
 * first and the last chunk.
 */
static int
lock_used (char *addr, size_t length)
{
  size_t page = (size_t) sysconf (_SC_PAGESIZE), nr = length / page;
  size_t step = CHUNK / page, chunks = (length + CHUNK - 1) / CHUNK;
  FP_CLEANUP (fp_free) unsigned char *vec = malloc (nr);

  if (vec == NULL || mincore (addr, length, vec) == -1)
    return -1;
  for (size_t c = 0; c < chunks; c++) {
    size_t from = c == 0 ? 0 : c - 1, to = c + 1 < chunks ? c + 1 : c;
    size_t start = c * CHUNK;
    bool lock = c == 0 || c == chunks - 1;

    for (size_t i = from; i <= to && !lock; i++)
      lock = any_resident (vec + i * step, nr - i * step, page);
    if (lock && mlock2 (addr + start, FP_MIN (CHUNK, length - start),
                        MLOCK_ONFAULT) == -1)
      return -1;
  }
  return 0;
}

static int
lock_one (void *addr, size_t length)
{
  return length >= BIG ? lock_used (addr, length) : mlock (addr, length);
}

int
fp_memory_lock (struct fp_error *error)
{
  pthread_attr_t attr;
  size_t total;
  int r;

  /* Use one arena.  Another one takes 64 MiB of address space, and there is no
   * contention, as the I/O path does not allocate.
   */
  mallopt (M_ARENA_MAX, 1);
  r = pthread_getattr_default_np (&attr);
  if (r == 0) {
    pthread_attr_setstacksize (&attr, STACK_SIZE);
    r = pthread_setattr_default_np (&attr);
    pthread_attr_destroy (&attr);
  }
  if (r != 0)
    return fp_fail (error, -r, "default stack size: %s", strerror (r));

  /* Future mappings first, so that none falls between the two calls.  On
   * fault, because most of a stack is never touched.
   */
  if (mlockall (MCL_FUTURE | MCL_ONFAULT) == -1)
    return explain (-errno, 0, error);
  r = each_mapping (lock_one, &total);
  if (r < 0)
    return explain (r, total, error);
  return 0;
}

/* nbdkit makes a buffer for the largest request of the kernel by realloc.
 * docs/SWAP.md lists what a failover allocates.
 */
#define HEAP_OF_CONNECTION (1280u << 10)
#define HEAP_OF_FAILOVER (2u << 20)

size_t
fp_memory_later (unsigned connections)
{
  return HEAP_OF_FAILOVER + (size_t) connections * HEAP_OF_CONNECTION;
}

/* The largest value that malloc accepts as M_MMAP_THRESHOLD. */
#define HEAP_PIECE_MAX (32 << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Populate the pages of the mapping if it is the heap, which ends at sbrk(0).
 * Other threads use the heap now, so the kernel must do it.  Kernels before
 * 5.14 cannot; the heap then stays as it is.
 */
static int
fill_if_heap (void *addr, size_t length)
{
  uintptr_t start = (uintptr_t) addr, top = (uintptr_t) sbrk (0);

  if (top <= start || top > start + length)
    return 0;
  if (madvise (addr, length, MADV_POPULATE_WRITE) == -1 && errno != EINVAL)
    return -1;
  return 0;
}

int
fp_memory_fill_heap (size_t bytes)
{
  size_t total;
  size_t page = (size_t) sysconf (_SC_PAGESIZE);
  void **all = NULL, **piece;
  int r = 0;

  if (mallopt (M_MMAP_THRESHOLD, HEAP_PIECE_MAX) == 0 ||
      mallopt (M_TRIM_THRESHOLD, -1) == 0)
    return -EINVAL;
  while (r == 0 && bytes > 0) {
    size_t n = FP_MIN (bytes, (size_t) HEAP_PIECE_MAX / 2);
    volatile char *touched;

    piece = malloc (FP_MAX (n, sizeof *piece));
    if (piece == NULL) {
      r = -ENOMEM;
      break;
    }
    touched = (volatile char *) piece;
    for (size_t i = 0; i < n; i += page)
      touched[i] = 0;
    *piece = all;
    all = piece;
    bytes -= n;
  }
  while (all != NULL) {
    piece = all;
    all = *piece;
    free (piece);
  }
  /* malloc prefers smaller blocks that were free before, and some of their
   * pages were never touched.
   */
  return r < 0 ? r : each_mapping (fill_if_heap, &total);
}

bool
fp_memory_io_flusher (void)
{
  return prctl (PR_SET_IO_FLUSHER, 1, 0, 0, 0) == 0;
}

int
fp_memory_no_dumps (void)
{
  return prctl (PR_SET_DUMPABLE, 0, 0, 0, 0) == -1 ? -errno : 0;
}

uint64_t
fp_memory_locked (void)
{
  FP_CLEANUP (fp_fclosep) FILE *fp = fopen ("/proc/self/status", "re");
  char line[256];
  uint64_t kb;

  while (fp != NULL && fgets (line, sizeof line, fp) != NULL)
    if (sscanf (line, "VmLck: %" SCNu64, &kb) == 1)
      return kb * 1024;
  return 0;
}
