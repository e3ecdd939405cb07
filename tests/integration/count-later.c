/* SPDX-License-Identifier: BSD-3-Clause */
/* count-later.c - preloaded into nbdkit: record its allocations while it
 * serves, with thread and call stack.
 *
 * COUNT_LATER=FILE: it counts while the first byte of FILE is 1.  Once that is
 * 2, the next allocation writes FILE.txt, which has for each place:
 *
 *   COUNT allocations, largest SIZE, THREAD
 *   MODULE(+OFFSET)[ADDRESS]        innermost first
 *
 * Allocations that the C library makes for itself are not seen.  Whether the
 * kernel was asked for memory shows in page faults, which the test counts.
 */

#include <config.h>

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define DEPTH 40
#define SKIP 2 /* the frames of note and of its caller */
#define PLACES 1024

void *__libc_malloc (size_t size);
void *__libc_calloc (size_t n, size_t size);
void *__libc_realloc (void *p, size_t size);
void *__libc_memalign (size_t alignment, size_t size);

static const volatile unsigned char *armed;
static __thread bool inside;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct place {
  void *pc[DEPTH];
  int nr;
  char thread[16];
  unsigned long count;
  size_t largest;
} places[PLACES];
static unsigned nr_places;
static bool said;

__attribute__ ((__constructor__)) static void
begin (void)
{
  const char *file = getenv ("COUNT_LATER");
  int fd = file == NULL ? -1 : open (file, O_RDONLY | O_CLOEXEC);
  void *pc[1], *p;

  if (fd == -1)
    return;
  (void) backtrace (pc, 1); /* the first call allocates */
  p = mmap (NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
  close (fd);
  if (p != MAP_FAILED)
    armed = p;
}

/* Write the report while all modules are loaded: at its end nbdkit unloads the
 * plugin.
 */
static void
say (void)
{
  char path[4096], line[128];
  const char *file = getenv ("COUNT_LATER");
  int fd;

  snprintf (path, sizeof path, "%s.txt", file);
  fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  for (unsigned i = 0; fd != -1 && i < nr_places; i++) {
    const struct place *p = &places[i];
    int n = snprintf (line, sizeof line, "%lu allocations, largest %zu, %s\n",
                      p->count, p->largest, p->thread);

    if (write (fd, line, (size_t) n) != n)
      break;
    backtrace_symbols_fd (p->pc + SKIP, p->nr - SKIP, fd);
  }
  if (fd != -1)
    close (fd);
}

static __attribute__ ((__noinline__)) void
note (size_t size)
{
  struct place here = { .count = 1, .largest = size };
  struct place *p;

  if (armed == NULL || *armed == 0 || inside)
    return;
  inside = true;
  if (*armed == 2) {
    pthread_mutex_lock (&lock);
    if (!said)
      say ();
    said = true;
    pthread_mutex_unlock (&lock);
    inside = false;
    return;
  }
  here.nr = backtrace (here.pc, DEPTH);
  prctl (PR_GET_NAME, here.thread);
  pthread_mutex_lock (&lock);
  for (p = places; p < places + nr_places; p++)
    if (p->nr == here.nr && strcmp (p->thread, here.thread) == 0 &&
        memcmp (p->pc, here.pc, (size_t) here.nr * sizeof *here.pc) == 0)
      break;
  if (p < places + nr_places) {
    p->count++;
    p->largest = size > p->largest ? size : p->largest;
  }
  else if (nr_places < PLACES)
    places[nr_places++] = here;
  pthread_mutex_unlock (&lock);
  inside = false;
}

void *
malloc (size_t size)
{
  note (size);
  return __libc_malloc (size);
}

void *
calloc (size_t n, size_t size)
{
  note (n * size);
  return __libc_calloc (n, size);
}

void *
realloc (void *p, size_t size)
{
  note (size);
  return __libc_realloc (p, size);
}

void *
memalign (size_t alignment, size_t size)
{
  note (size);
  return __libc_memalign (alignment, size);
}

void *
aligned_alloc (size_t alignment, size_t size)
{
  note (size);
  return __libc_memalign (alignment, size);
}

int
posix_memalign (void **out, size_t alignment, size_t size)
{
  note (size);
  *out = __libc_memalign (alignment, size);
  return *out == NULL ? ENOMEM : 0;
}

void *
mmap (void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
  note (length);
  return (void *) syscall (SYS_mmap, addr, length, prot, flags, fd, offset);
}
