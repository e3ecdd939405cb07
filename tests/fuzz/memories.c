/* SPDX-License-Identifier: BSD-3-Clause */
/* memories.c - see memories.h.  Linked with --wrap for the functions wrapped
 * here.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "memories.h"

#define FIRST_FD 5000 /* not real descriptors */
#define MAX_MEMORIES 64u

static struct memory {
  unsigned fds; /* open descriptors, apart from the mapping */
  bool mapped;
  size_t size;
  /* MEMORY_ROOM and a fence; all is fenced while it is not mapped */
  uint8_t *bytes;
  size_t fenced_from;
} memories[MAX_MEMORIES];

int __wrap_memfd_create (const char *name, unsigned flags);
int __wrap_ftruncate (int fd, off_t size);
int __wrap_fallocate (int fd, int mode, off_t from, off_t bytes);
int __wrap_fchmod (int fd, mode_t mode);
int __wrap_open (const char *path, int flags, ...);
void *__wrap_mmap (void *at, size_t n, int prot, int flags, int fd,
                   off_t from);
int __wrap_munmap (void *at, size_t n);
int __wrap_madvise (void *at, size_t n, int advice);
int __wrap_mlock (const void *at, size_t n);
ssize_t __wrap_pread (int fd, void *buf, size_t n, off_t from);
ssize_t __wrap___pread_chk (int fd, void *buf, size_t n, off_t from,
                            size_t room);
ssize_t __wrap_pwrite (int fd, const void *buf, size_t n, off_t from);
void *__real_mmap (void *at, size_t n, int prot, int flags, int fd,
                   off_t from);
int __real_memfd_create (const char *name, unsigned flags);
int __real_fchmod (int fd, mode_t mode);
int __real_open (const char *path, int flags, ...);
int __real_ftruncate (int fd, off_t size);
int __real_munmap (void *at, size_t n);
ssize_t __real_pread (int fd, void *buf, size_t n, off_t from);
ssize_t __real_pwrite (int fd, const void *buf, size_t n, off_t from);

/* Return the memory of fd, or NULL if it has none. */
static struct memory *
of_fd (int fd)
{
  if (fd < FIRST_FD || fd >= FIRST_FD + (int) MAX_MEMORIES)
    return NULL;
  FUZZ_CHECK (memories[fd - FIRST_FD].fds > 0);
  return &memories[fd - FIRST_FD];
}

/* Forbid access to the memory from here on; 0 = to all of it. */
static void
fence (struct memory *m, size_t from)
{
  size_t end = MEMORY_ROOM + FUZZ_FENCE;

  fuzz_unfence (m->bytes + m->fenced_from, end - m->fenced_from);
  fuzz_fence (m->bytes + from, end - from);
  m->fenced_from = from;
}

int
__wrap_memfd_create (const char *name, unsigned flags)
{
  struct memory *m = memories;

  if (strcmp (name, "farpage-slab") != 0)
    return __real_memfd_create (name, flags);
  while (m->fds > 0 || m->mapped)
    FUZZ_CHECK (++m < memories + MAX_MEMORIES);
  if (!m->bytes) {
    m->bytes = malloc (MEMORY_ROOM + FUZZ_FENCE);
    FUZZ_CHECK (m->bytes != NULL);
    fuzz_fence (m->bytes, MEMORY_ROOM + FUZZ_FENCE);
  }
  m->fds = 1;
  m->size = 0;
  return FIRST_FD + (int) (m - memories);
}

int
__wrap_ftruncate (int fd, off_t size)
{
  struct memory *m = of_fd (fd);

  if (!m)
    return __real_ftruncate (fd, size);
  FUZZ_CHECK (size > 0 && size <= (off_t) MEMORY_ROOM);
  m->size = (size_t) size;
  return 0;
}

/* Punch a hole. */
int
__wrap_fallocate (int fd, int mode, off_t from, off_t bytes)
{
  struct memory *m = of_fd (fd);

  FUZZ_CHECK (m && mode & FALLOC_FL_PUNCH_HOLE && from >= 0 && bytes > 0 &&
              (size_t) (from + bytes) <= m->size && m->mapped);
  memset (m->bytes + from, 0, (size_t) bytes);
  return 0;
}

int
__wrap_fchmod (int fd, mode_t mode)
{
  if (!of_fd (fd))
    return __real_fchmod (fd, mode);
  FUZZ_CHECK (mode == (S_IRUSR | S_IWUSR));
  return 0;
}

/* Open a memory again to pass it on: that is the same descriptor, twice. */
int
__wrap_open (const char *path, int flags, ...)
{
  struct memory *m;
  int fd;

  FUZZ_CHECK ((flags & O_CREAT) == 0); /* so no mode follows */
  if (sscanf (path, "/proc/self/fd/%d", &fd) != 1 || (m = of_fd (fd)) == NULL)
    return __real_open (path, flags);
  FUZZ_CHECK ((flags & O_ACCMODE) == O_RDONLY);
  m->fds++;
  return fd;
}

void *
__wrap_mmap (void *at, size_t n, int prot, int flags, int fd, off_t from)
{
  struct memory *m = of_fd (fd);

  if (!m)
    return __real_mmap (at, n, prot, flags, fd, from);
  FUZZ_CHECK (!m->mapped && n == m->size && from == 0);
  m->mapped = true;
  fence (m, n);
  memset (m->bytes, 0, n);
  return m->bytes;
}

int
__wrap_munmap (void *at, size_t n)
{
  for (unsigned i = 0; i < MAX_MEMORIES; i++)
    if (memories[i].bytes && at == memories[i].bytes) {
      FUZZ_CHECK (memories[i].mapped && n == memories[i].size);
      memories[i].mapped = false;
      fence (&memories[i], 0);
      return 0;
    }
  return __real_munmap (at, n);
}

int
__wrap_madvise (void *at, size_t n, int advice)
{
  (void) at;
  (void) n;
  (void) advice;
  return 0;
}

int
__wrap_mlock (const void *at, size_t n)
{
  (void) at;
  (void) n;
  return 0;
}

ssize_t
__wrap_pread (int fd, void *buf, size_t n, off_t from)
{
  const struct memory *m = of_fd (fd);

  if (!m)
    return __real_pread (fd, buf, n, from);
  FUZZ_CHECK (m->mapped && from >= 0 && n <= m->size &&
              (size_t) from <= m->size - n);
  memcpy (buf, m->bytes + from, n);
  return (ssize_t) n;
}

ssize_t
__wrap___pread_chk (int fd, void *buf, size_t n, off_t from, size_t room)
{
  FUZZ_CHECK (n <= room);
  return __wrap_pread (fd, buf, n, from);
}

ssize_t
__wrap_pwrite (int fd, const void *buf, size_t n, off_t from)
{
  struct memory *m = of_fd (fd);

  if (!m)
    return __real_pwrite (fd, buf, n, from);
  FUZZ_CHECK (m->mapped && from >= 0 && n <= m->size &&
              (size_t) from <= m->size - n);
  memcpy (m->bytes + from, buf, n);
  return (ssize_t) n;
}

bool
memories_work (void)
{
  int fd = memfd_create ("farpage-slab", MFD_CLOEXEC);
  bool works = fd == FIRST_FD && ftruncate (fd, 4096) == 0;

  close (fd);
  return works;
}

bool
memories_fcntl (int fd)
{
  return of_fd (fd) != NULL;
}

bool
memories_close (int fd)
{
  struct memory *m = of_fd (fd);

  if (m)
    m->fds--;
  return m != NULL;
}

unsigned
memories_count (void)
{
  unsigned n = 0;

  for (unsigned i = 0; i < MAX_MEMORIES; i++)
    n += memories[i].fds > 0;
  return n;
}
