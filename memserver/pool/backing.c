/* SPDX-License-Identifier: BSD-3-Clause */
/* backing.c - the memory of one slab: a memfd or a file of its own, mapped. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <numa.h>
#include <numaif.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "memserver/pool/backing.h"
#include "proto/messages.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static const struct page_kind {
  enum hugepages asked;
  unsigned flags;
  uint64_t size; /* 0: the system's page size */
} page_kinds[] = {
  { HUGEPAGES_1G, MFD_HUGETLB | MFD_HUGE_1GB, UINT64_C (1) << 30 },
  { HUGEPAGES_2M, MFD_HUGETLB | MFD_HUGE_2MB, UINT64_C (2) << 20 },
  { HUGEPAGES_OFF, 0, 0 },
};

static int
bind_to_node (const struct backing *b, int node)
{
  if (node < 0)
    return 0;
  struct bitmask *mask = numa_allocate_nodemask ();
  int r;

  if (!mask)
    return -ENOMEM;
  numa_bitmask_setbit (mask, (unsigned) node);
  /* A policy on a shared mapping belongs to the memfd.  So it also holds for
   * pages that a client faults in.
   */
  r = mbind (b->addr, b->size, MPOL_BIND, mask->maskp, mask->size + 1, 0) < 0
          ? -errno
          : 0;
  numa_bitmask_free (mask);
  return r;
}

/* Map its file, and keep clients' data out of core dumps. */
static int
map (struct backing *b)
{
  void *addr =
      mmap (NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);

  if (addr == MAP_FAILED)
    return -errno;
  b->addr = addr;
  return madvise (addr, b->size, MADV_DONTDUMP) < 0 ? -errno : 0;
}

static uint64_t
size_of (const struct backing_params *p, uint64_t page)
{
  return p->size + (p->tail && page <= STORE_SMALL_PAGE ? page : 0);
}

static int
new_of_kind (struct backing *out, const struct backing_params *p,
             const struct page_kind *kind)
{
  struct backing b = { .fd = -1 };
  int r;

  b.page_size = kind->size ? kind->size : (uint64_t) sysconf (_SC_PAGESIZE);
  if (p->size % b.page_size != 0)
    return -EINVAL;
  b.size = size_of (p, b.page_size);
  b.fd = memfd_create ("farpage-slab",
                       MFD_CLOEXEC | MFD_ALLOW_SEALING | kind->flags);
  if (b.fd < 0)
    return -errno;
  if (ftruncate (b.fd, (off_t) b.size) < 0 ||
      fcntl (b.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
          0) {
    r = -errno;
    goto err;
  }
  /* With huge pages, mapping reserves them. */
  r = map (&b);
  if (r == 0)
    r = bind_to_node (&b, p->numa);
  if (r < 0)
    goto err;
  *out = b;
  return 0;

err:
  backing_drop (&b);
  return r;
}

/* ---- files of a store ---- */

void
backing_name (uint32_t slab, uint32_t serial, char out[STORE_NAME_MAX])
{
  if (serial == 0)
    snprintf (out, STORE_NAME_MAX, "slab-%u", slab);
  else
    snprintf (out, STORE_NAME_MAX, "slab-%u.%u", slab, serial);
}

int
backing_remove (const struct backing_params *p)
{
  char name[STORE_NAME_MAX];

  backing_name (p->index, p->serial, name);
  return store_remove (p->store, name);
}

static int
map_file (struct backing *out, const struct backing_params *p, int fd,
          uint64_t size)
{
  struct backing b = { .fd = fd, .size = size, .serial = p->serial };
  struct statfs fs;
  int r = fstatfs (fd, &fs) < 0 ? -errno : 0;

  b.page_size = r == 0 && fs.f_type == HUGETLBFS_MAGIC
                    ? (uint64_t) fs.f_bsize
                    : (uint64_t) sysconf (_SC_PAGESIZE);
  if (r == 0)
    r = map (&b);
  if (r == 0)
    r = bind_to_node (&b, p->numa);
  if (r == 0)
    *out = b;
  else
    backing_drop (&b);
  return r;
}

static int
new_file (struct backing *out, const struct backing_params *p)
{
  uint64_t size = size_of (p, store_page (p->store));
  int r = backing_remove (p), fd;
  char name[STORE_NAME_MAX];

  if (r < 0)
    return r;
  backing_name (p->index, p->serial, name);
  fd = store_make (p->store, name);
  if (fd < 0)
    return fd;
  r = ftruncate (fd, (off_t) size) < 0 ? -errno : 0;
  if (r < 0)
    close (fd);
  else
    r = map_file (out, p, fd, size);
  if (r < 0) {
    store_unmake (p->store, name);
    return r;
  }
  r = store_keep (p->store, name, fd);
  if (r < 0)
    backing_drop (out);
  return r;
}

/* Put the memfd into the store. */
static int
keep_memfd (struct backing *b, const struct backing_params *p)
{
  char name[STORE_NAME_MAX];
  int r;

  b->serial = p->serial;
  backing_name (p->index, p->serial, name);
  r = store_keep (p->store, name, b->fd);
  if (r < 0)
    backing_drop (b);
  return r;
}

/* Opened once and early: scrubbing must not fail because no descriptor is
 * left.
 */
static pthread_once_t zero_once = PTHREAD_ONCE_INIT;
static int zero_fd, zero_error;

static void
open_zero (void)
{
  zero_fd = open ("/dev/zero", O_RDONLY | O_CLOEXEC);
  if (zero_fd < 0)
    zero_error = -errno;
}

int
backing_new (struct backing *out, const struct backing_params *p)
{
  int r = pthread_once (&zero_once, open_zero);

  if (r != 0 || zero_error < 0)
    return r != 0 ? -r : zero_error;
  if (p->store && !store_is_sealed (p->store))
    return new_file (out, p);
  r = -EINVAL;
  for (size_t i = 0; i < sizeof page_kinds / sizeof page_kinds[0]; i++) {
    if (p->hugepages != HUGEPAGES_AUTO && p->hugepages != page_kinds[i].asked)
      continue;
    r = new_of_kind (out, p, &page_kinds[i]);
    if (r == 0)
      return p->store ? keep_memfd (out, p) : 0;
  }
  return r;
}

int
backing_again (struct backing *out, const struct backing_params *p)
{
  int r = pthread_once (&zero_once, open_zero), fd;
  char name[STORE_NAME_MAX];
  struct stat st;

  if (r != 0 || zero_error < 0)
    return r != 0 ? -r : zero_error;
  backing_name (p->index, p->serial, name);
  fd = store_get (p->store, name);
  if (fd < 0)
    return fd;
  if (fstat (fd, &st) < 0)
    r = -errno;
  else if (!S_ISREG (st.st_mode) ||
           !backing_fits ((uint64_t) st.st_size, p->size))
    r = -EINVAL;
  if (r < 0) {
    close (fd);
    return r;
  }
  return map_file (out, p, fd, (uint64_t) st.st_size);
}

/* Zero memory by reading from /dev/zero.  That faults pages in like a store,
 * but returns an error where a store would raise SIGBUS.
 */
static int
kernel_zero (uint8_t *addr, uint64_t length)
{
  while (length > 0) {
    ssize_t n = read (zero_fd, addr, FP_MIN (length, (uint64_t) BACKING_STEP));

    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n < 0 ? -errno : -EIO;
    addr += n;
    length -= (uint64_t) n;
  }
  return 0;
}

int
backing_populate (struct backing *b, uint64_t offset, uint64_t length,
                  bool *locked)
{
  if (madvise (b->addr + offset, length, MADV_POPULATE_WRITE) < 0) {
    int r = errno == EINVAL ? kernel_zero (b->addr + offset, length) : -errno;

    if (r < 0)
      return r;
  }
  if (mlock (b->addr + offset, length) < 0)
    *locked = false;
  return 0;
}

bool
backing_pin (struct backing *b, uint64_t offset, uint64_t length)
{
  /* This makes room for missing pages of a file, which mlock need not do.
   * Kernels before 5.14 cannot; there a page is faulted in when it is used.
   */
  (void) madvise (b->addr + offset, length, MADV_POPULATE_WRITE);
  return mlock (b->addr + offset, length) == 0;
}

int
backing_zero (struct backing *b, uint64_t offset, uint64_t length)
{
  return kernel_zero (b->addr + offset, length);
}

int
backing_copy (struct backing *to, const struct backing *from, uint64_t offset,
              uint64_t length)
{
  /* Not a memcpy: see backing.h.  Files in huge pages can be read, not
   * written.
   */
  while (length > 0) {
    ssize_t n = pread (from->fd, to->addr + offset, length, (off_t) offset);

    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n < 0 ? -errno : -EIO;
    offset += (uint64_t) n;
    length -= (uint64_t) n;
  }
  return 0;
}

int
backing_fill_tail (struct backing *b, uint64_t size, uint8_t byte)
{
  uint8_t bytes[FP_TAIL_SIZE];

  if (b->size < size + sizeof bytes)
    return 0;
  memset (bytes, byte, sizeof bytes);
  for (;;) {
    /* A tail means small pages, and their files can be written. */
    ssize_t n = pwrite (b->fd, bytes, sizeof bytes, (off_t) size);

    if (n == (ssize_t) sizeof bytes)
      return 0;
    if (n >= 0 || errno != EINTR)
      return n < 0 ? -errno : -EIO;
  }
}

void
backing_drop (struct backing *b)
{
  if (b->addr)
    munmap (b->addr, b->size);
  b->addr = NULL;
  if (b->fd >= 0)
    close (b->fd);
  b->fd = -1;
}

int
backing_take_back (struct backing *b, uint64_t offset, uint64_t length)
{
  while (fallocate (b->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t) offset, (off_t) length) < 0)
    if (errno != EINTR)
      return -errno;
  return 0;
}
