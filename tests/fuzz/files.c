/* SPDX-License-Identifier: BSD-3-Clause */
/* files.c - see files.h.  Linked with --wrap for the functions wrapped here.
 */

#include <config.h>

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "files.h"
#include "fuzz.h"
#include "memserver/pool/store.h"

#define FIRST_FD 4000 /* not real descriptors */
#define PAGES (FILES_ROOM / FILES_PAGE)

static struct file {
  char name[STORE_NAME_MAX];
  bool there, coming; /* has this name; is being made for it */
  bool is_blank;      /* a size, but no bytes */
  uint64_t size;
  bool present[PAGES];
  uint8_t *bytes, *fence; /* FILES_ROOM bytes, then the fence */
} files[FILES_MAX];

/* Memory for the files of slabs, whose contents do not matter. */
static uint8_t blank[FILES_ROOM];
static char where[64];

bool __wrap_store_will_seal (const char *path);
int __wrap_store_open (struct store **out, const char *path,
                       struct fp_error *error);
void __wrap_store_close (struct store *s);
const char *__wrap_store_where (const struct store *s);
uint64_t __wrap_store_page (const struct store *s);
bool __wrap_store_is_sealed (const struct store *s);
int __wrap_store_room (const struct store *s, uint64_t *room);
int __wrap_store_get (struct store *s, const char *name);
int __wrap_store_make (struct store *s, const char *name);
void __wrap_store_unmake (struct store *s, const char *name);
int __wrap_store_keep (struct store *s, const char *name, int fd);
int __wrap_store_remove (struct store *s, const char *name);
int __wrap_store_each (struct store *s, store_each_fn *each, void *ctx,
                       struct fp_error *error);
int __wrap_fstat (int fd, struct stat *st);
int __wrap_fstatfs (int fd, struct statfs *fs);
int __wrap_ftruncate (int fd, off_t size);
int __wrap_fallocate (int fd, int mode, off_t from, off_t bytes);
off_t __wrap_lseek (int fd, off_t from, int whence);
void *__wrap_mmap (void *at, size_t n, int prot, int flags, int fd,
                   off_t from);
int __wrap_munmap (void *at, size_t n);
int __wrap_madvise (void *at, size_t n, int advice);
int __wrap_close (int fd);
int __real_fstat (int fd, struct stat *st);
int __real_fstatfs (int fd, struct statfs *fs);
int __real_ftruncate (int fd, off_t size);
int __real_fallocate (int fd, int mode, off_t from, off_t bytes);
off_t __real_lseek (int fd, off_t from, int whence);
void *__real_mmap (void *at, size_t n, int prot, int flags, int fd,
                   off_t from);
int __real_munmap (void *at, size_t n);
int __real_madvise (void *at, size_t n, int advice);
int __real_close (int fd);

/* Return the file of fd, or NULL if fd is the kernel's. */
static struct file *
of_fd (int fd)
{
  if (fd < FIRST_FD || fd >= FIRST_FD + (int) FILES_MAX)
    return NULL;
  return &files[fd - FIRST_FD];
}

static int
fd_of (const struct file *f)
{
  return f ? FIRST_FD + (int) (f - files) : -ENOENT;
}

static struct file *
find (const char *name, bool coming)
{
  for (unsigned i = 0; i < FILES_MAX; i++)
    if ((coming ? files[i].coming : files[i].there) &&
        strcmp (files[i].name, name) == 0)
      return &files[i];
  return NULL;
}

/* Return the number of bytes from `at` to the end of the file's memory. */
static size_t
behind (const struct file *f, const uint8_t *at)
{
  return (size_t) (f->bytes + FILES_ROOM + FUZZ_FENCE - at);
}

static uint64_t
pages_of (uint64_t size)
{
  return fp_div_round_up (size, FILES_PAGE);
}

static void
unfence (struct file *f)
{
  if (f->fence)
    fuzz_unfence (f->fence, behind (f, f->fence));
  f->fence = NULL;
}

static void
resize (struct file *f, uint64_t size)
{
  uint64_t end = pages_of (size) * FILES_PAGE;

  FUZZ_CHECK (end <= FILES_ROOM);
  if (f->is_blank) {
    f->size = size;
    return;
  }
  unfence (f);
  if (size < f->size) {
    memset (f->bytes + size, 0, f->size - size);
    for (uint64_t i = pages_of (size); i < pages_of (f->size); i++)
      f->present[i] = false;
  }
  if (end > pages_of (f->size) * FILES_PAGE)
    memset (f->bytes + pages_of (f->size) * FILES_PAGE, 0,
            end - pages_of (f->size) * FILES_PAGE);
  f->size = size;
  f->fence = f->bytes + end;
  fuzz_fence (f->fence, behind (f, f->fence));
}

static struct file *
new_file (const char *name, bool is_blank)
{
  struct file *f = files;

  while (f->there || f->coming)
    FUZZ_CHECK (++f < files + FILES_MAX);
  snprintf (f->name, sizeof f->name, "%s", name);
  f->is_blank = is_blank;
  f->size = 0;
  if (is_blank)
    return f;
  if (!f->bytes)
    f->bytes = aligned_alloc (FILES_PAGE, FILES_ROOM + FILES_PAGE);
  FUZZ_CHECK (f->bytes != NULL);
  unfence (f);
  memset (f->present, 0, sizeof f->present);
  return f;
}

bool
files_work (void)
{
  struct stat st;

  return fstat (FIRST_FD, &st) == 0 || errno == ENOENT;
}

void
files_clear (void)
{
  for (unsigned i = 0; i < FILES_MAX; i++)
    files[i].there = files[i].coming = false;
}

void
files_put (const char *name, const uint8_t *bytes, uint64_t size)
{
  struct file *f = new_file (name, !bytes);
  static const uint8_t zeros[FILES_PAGE];

  f->there = true;
  if (!bytes) {
    f->size = size;
    return;
  }
  FUZZ_CHECK (size <= FILES_ROOM);
  resize (f, size);
  memcpy (f->bytes, bytes, size);
  for (uint64_t i = 0; i < pages_of (size); i++)
    f->present[i] =
        memcmp (f->bytes + i * FILES_PAGE, zeros, sizeof zeros) != 0;
}

const uint8_t *
files_get (const char *name, uint64_t *size)
{
  const struct file *f = find (name, false);

  *size = f ? f->size : 0;
  return f ? f->bytes : NULL;
}

/* ---- calls of a store ---- */

bool
__wrap_store_will_seal (const char *path)
{
  (void) path;
  return false;
}

int
__wrap_store_open (struct store **out, const char *path,
                   struct fp_error *error)
{
  (void) error;
  snprintf (where, sizeof where, "%s", path);
  *out = (struct store *) files;
  return 0;
}

void
__wrap_store_close (struct store *s)
{
  FUZZ_CHECK (s == NULL || s == (struct store *) files);
}

const char *
__wrap_store_where (const struct store *s)
{
  (void) s;
  return where;
}

uint64_t
__wrap_store_page (const struct store *s)
{
  (void) s;
  return FILES_PAGE;
}

bool
__wrap_store_is_sealed (const struct store *s)
{
  (void) s;
  return false;
}

int
__wrap_store_room (const struct store *s, uint64_t *room)
{
  (void) s;
  *room = UINT64_MAX;
  return 0;
}

int
__wrap_store_get (struct store *s, const char *name)
{
  (void) s;
  return fd_of (find (name, false));
}

int
__wrap_store_make (struct store *s, const char *name)
{
  struct file *f = find (name, true);

  (void) s;
  if (f)
    f->coming = false;
  f = new_file (name, false);
  resize (f, 0);
  f->coming = true;
  return fd_of (f);
}

void
__wrap_store_unmake (struct store *s, const char *name)
{
  struct file *f = find (name, true);

  (void) s;
  if (f)
    f->coming = false;
}

int
__wrap_store_keep (struct store *s, const char *name, int fd)
{
  struct file *f = find (name, true), *old = find (name, false);

  (void) s;
  FUZZ_CHECK (f && fd == fd_of (f));
  if (old)
    old->there = false;
  f->coming = false;
  f->there = true;
  return 0;
}

int
__wrap_store_remove (struct store *s, const char *name)
{
  struct file *f = find (name, false);

  (void) s;
  if (f)
    f->there = false;
  return 0;
}

int
__wrap_store_each (struct store *s, store_each_fn *each, void *ctx,
                   struct fp_error *error)
{
  int r = 0;

  (void) s;
  for (unsigned i = 0; i < FILES_MAX && r == 0; i++)
    if (files[i].there)
      r = each (ctx, files[i].name, error);
  return r;
}

/* ---- calls on its descriptors ---- */

int
__wrap_fstat (int fd, struct stat *st)
{
  const struct file *f = of_fd (fd);

  if (!f)
    return __real_fstat (fd, st);
  memset (st, 0, sizeof *st);
  st->st_mode = S_IFREG | S_IRUSR | S_IWUSR;
  st->st_size = (off_t) f->size;
  return 0;
}

int
__wrap_fstatfs (int fd, struct statfs *fs)
{
  if (!of_fd (fd))
    return __real_fstatfs (fd, fs);
  memset (fs, 0, sizeof *fs);
  fs->f_type = TMPFS_MAGIC;
  fs->f_bsize = FILES_PAGE;
  return 0;
}

int
__wrap_ftruncate (int fd, off_t size)
{
  struct file *f = of_fd (fd);

  if (!f)
    return __real_ftruncate (fd, size);
  if (size < 0 || size > (off_t) FILES_ROOM) {
    errno = EFBIG;
    return -1;
  }
  resize (f, (uint64_t) size);
  return 0;
}

int
__wrap_fallocate (int fd, int mode, off_t from, off_t bytes)
{
  struct file *f = of_fd (fd);

  if (!f)
    return __real_fallocate (fd, mode, from, bytes);
  FUZZ_CHECK (mode == 0 && !f->is_blank);
  if (from < 0 || bytes <= 0 || from + bytes > (off_t) FILES_ROOM) {
    errno = EFBIG;
    return -1;
  }
  if ((uint64_t) (from + bytes) > f->size)
    resize (f, (uint64_t) (from + bytes));
  for (uint64_t i = (uint64_t) from / FILES_PAGE;
       i < pages_of ((uint64_t) (from + bytes)); i++)
    f->present[i] = true;
  return 0;
}

off_t
__wrap_lseek (int fd, off_t from, int whence)
{
  const struct file *f = of_fd (fd);

  if (!f)
    return __real_lseek (fd, from, whence);
  FUZZ_CHECK (whence == SEEK_DATA && from >= 0);
  for (uint64_t i = (uint64_t) from / FILES_PAGE; i < pages_of (f->size); i++)
    if (f->present[i] && (uint64_t) from < f->size)
      return FP_MAX (from, (off_t) (i * FILES_PAGE));
  errno = ENXIO;
  return -1;
}

void *
__wrap_mmap (void *at, size_t n, int prot, int flags, int fd, off_t from)
{
  const struct file *f = of_fd (fd);

  if (!f)
    return __real_mmap (at, n, prot, flags, fd, from);
  FUZZ_CHECK (flags == MAP_SHARED && from == 0 && n > 0 && n <= FILES_ROOM);
  return f->is_blank ? blank : f->bytes;
}

/* The kernel refuses MADV_DONTDUMP for ordinary memory. */
int
__wrap_madvise (void *at, size_t n, int advice)
{
  return advice == MADV_DONTDUMP ? 0 : __real_madvise (at, n, advice);
}

int
__wrap_munmap (void *at, size_t n)
{
  if (at == blank)
    return 0;
  for (unsigned i = 0; i < FILES_MAX; i++)
    if (files[i].bytes && at == files[i].bytes)
      return 0;
  return __real_munmap (at, n);
}

int
__wrap_close (int fd)
{
  return of_fd (fd) ? 0 : __real_close (fd);
}
