/* SPDX-License-Identifier: BSD-3-Clause */
/* persist.c - what a server finds again: its UUID, and the labels of its
 * slabs.
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

#include "base/checked.h"
#include "base/error.h"
#include "base/size.h"
#include "memserver/pool/backing.h"
#include "memserver/store/persist_int.h"

#define FORMAT 3u
#define SLABS_AT 4096u /* offset in the state, after the header */
#define SLAB_CELL 256u
/* Bytes for volumes, in the file system. */
#define SPARE (UINT64_C (4) << 20)
#define HUGE_SPARE 2u /* pages for the state and a volume */

static const uint8_t magic[8] = "FPstate";

_Static_assert(sizeof (struct persist_label) % 8 == 0 &&
                   CELL_SIZE (sizeof (struct persist_label)) <= SLAB_CELL,
               "a label fits");
_Static_assert(sizeof (struct persist_header) % 8 == 0 &&
                   CELL_SIZE (sizeof (struct persist_header)) <= SLABS_AT,
               "the header fits");

int
persist_make (int fd, uint64_t offset, uint64_t bytes)
{
  /* Allocate now: a store to memory that cannot be had ends in SIGBUS. */
  while (fallocate (fd, 0, (off_t) offset, (off_t) bytes) < 0)
    if (errno != EINTR)
      return -errno;
  return 0;
}

int
persist_map_file (int fd, uint64_t bytes, void **out)
{
  void *map = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

  if (map == MAP_FAILED)
    return -errno;
  *out = map;
  return 0;
}

/* ---- labels ---- */

static struct cell *
slab_cell (const struct persist *p, uint32_t slab)
{
  return (struct cell *) (p->state + SLABS_AT + (uint64_t) slab * SLAB_CELL);
}

static uint32_t
nr_cells (const struct persist *p)
{
  return (uint32_t) ((p->state_bytes - SLABS_AT) / SLAB_CELL);
}

void
persist_label (struct persist *p, uint32_t slab, const struct persist_label *l)
{
  cell_write (slab_cell (p, slab), l, sizeof *l);
}

struct persist_label
persist_labelled (const struct persist *p, uint32_t slab)
{
  struct persist_label l;

  if (cell_read (slab_cell (p, slab), &l, sizeof l) < 0)
    l = (struct persist_label) { .state = PERSIST_FREE };
  return l;
}

void
persist_unlabel (struct persist *p, uint32_t slab)
{
  const struct persist_label none = { .state = PERSIST_FREE };

  if (persist_labelled (p, slab).state != PERSIST_FREE)
    persist_label (p, slab, &none);
}

struct store *
persist_store (const struct persist *p)
{
  return p->store;
}

struct fp_uuid
persist_server (const struct persist *p)
{
  return p->header.server;
}

unsigned
persist_lease_s (const struct persist *p)
{
  return p->lease_s;
}

/* ---- files ---- */

/* Parse a name of backing_name.  Return false if it is none. */
static bool
slab_number (const char *name, uint64_t *slab, uint64_t *serial)
{
  char *end;

  if (strncmp (name, "slab-", 5) != 0 || name[5] < '0' || name[5] > '9')
    return false;
  *slab = strtoull (name + 5, &end, 10);
  *serial = 0;
  if (*end == '.' && end[1] >= '0' && end[1] <= '9')
    *serial = strtoull (end + 1, &end, 10);
  return *end == '\0';
}

static bool
is_volume (const char *name)
{
  return strncmp (name, "volume-", 7) == 0;
}

static bool
is_new (const char *name)
{
  size_t n = strlen (name);

  return n > 4 && strcmp (name + n - 4, ".new") == 0;
}

/* Check that all slabs fit.  Call this only for a server that starts with
 * nothing.  Slabs that are lent are not withheld because the others have to
 * wait for memory.
 */
static int
check_room (const struct persist *p, struct fp_error *error)
{
  const struct persist_params *q = &p->params;
  const uint64_t page = store_page (p->store);
  char wanted[FP_SIZE_STR_MAX], left[FP_SIZE_STR_MAX];
  uint64_t need = q->slabs * q->slab_size, room;
  int r = store_room (p->store, &room);

  if (r < 0)
    return fp_fail (error, r, "backing: %s: %s", q->dir, strerror (-r));
  /* Each slab has a tail of one small page: see backing.h. */
  need +=
      page > STORE_SMALL_PAGE ? HUGE_SPARE * page : SPARE + q->slabs * page;
  if (need <= room)
    return 0;
  if (page > STORE_SMALL_PAGE) {
    fp_format_size (page, wanted);
    return fp_fail (
        error, -ENOSPC,
        "backing: %s: %llu pages of %s are free, and %llu are needed (one for "
        "the metadata of the slabs, and one for each volume): reserve more "
        "(/sys/kernel/mm/hugepages), or lend less",
        q->dir, (unsigned long long) (room / page), wanted,
        (unsigned long long) (need / page));
  }
  fp_format_size (q->slabs * q->slab_size, wanted);
  fp_format_size (room >> 20 << 20, left);
  return fp_fail (error, -ENOSPC,
                  "backing: %s has room for %s, but needs %s and a little "
                  "more: mount it with a larger size= (mount -o remount)",
                  q->dir, left, wanted);
}

static int
check_slab_size (const struct persist *p, struct fp_error *error)
{
  char slab[FP_SIZE_STR_MAX], page[FP_SIZE_STR_MAX];

  if (p->params.slab_size % store_page (p->store) == 0)
    return 0;
  fp_format_size (p->params.slab_size, slab);
  fp_format_size (store_page (p->store), page);
  return fp_fail (error, -EINVAL,
                  "backing: %s has pages of %s, and slabs of %s are not a "
                  "multiple of that: use a larger --slab",
                  p->params.dir, page, slab);
}

/* ---- the state ---- */

static int
bad_state (const struct persist *p, const char *what, struct fp_error *error)
{
  return fp_fail (error, -EBADMSG,
                  "backing: %s/state: %s; nothing was changed (to start "
                  "empty, remove the contents of this directory)",
                  p->params.dir, what);
}

static uint64_t
state_bytes (const struct persist *p)
{
  uint64_t bytes = SLABS_AT + (uint64_t) p->params.slabs * SLAB_CELL;
  uint64_t page = store_page (p->store);

  return fp_div_round_up (bytes, page) * page;
}

static int
no_leftovers (void *ctx, const char *name, struct fp_error *error)
{
  const struct persist *p = ctx;
  uint64_t n, serial;

  if (!slab_number (name, &n, &serial) &&
      !(is_volume (name) && !is_new (name)))
    return 0;
  return fp_fail (error, -EBADMSG,
                  "backing: %s has %s and no state file: to start empty, "
                  "remove the contents of this directory",
                  p->params.dir, name);
}

static int
make_state (struct persist *p, struct fp_error *error)
{
  struct persist_header *h = &p->header;
  void *map = NULL;
  int fd, r;

  r = store_each (p->store, no_leftovers, p, error);
  if (r == 0)
    r = check_room (p, error);
  if (r < 0)
    return r;
  *h = (struct persist_header) {
    .format = FORMAT,
    .lease_s = p->params.lease_s,
    .slab_size = p->params.slab_size,
    .record_size = sizeof (struct persist_record),
    .members_size = persist_members_size,
  };
  memcpy (h->magic, magic, sizeof magic);
  r = fp_uuid_generate (&h->server);
  if (r < 0)
    return r;
  fd = store_make (p->store, "state");
  if (fd < 0)
    return fd;
  p->state_bytes = state_bytes (p);
  r = persist_make (fd, 0, p->state_bytes);
  if (r == 0)
    r = persist_map_file (fd, p->state_bytes, &map);
  if (r == 0) {
    p->state = map;
    cell_write ((struct cell *) p->state, h, sizeof *h);
    r = store_keep (p->store, "state", fd);
  }
  close (fd);
  return r;
}

static int
check_header (struct persist *p, struct fp_error *error)
{
  struct persist_header *h = &p->header;
  char then[FP_SIZE_STR_MAX], now[FP_SIZE_STR_MAX];

  if (cell_read ((struct cell *) p->state, h, sizeof *h) < 0 ||
      memcmp (h->magic, magic, sizeof magic) != 0)
    return bad_state (p, "it cannot be read", error);
  if (h->format != FORMAT ||
      h->record_size != sizeof (struct persist_record) ||
      h->members_size != persist_members_size)
    return bad_state (p, "it was made by another version of this program",
                      error);
  if (h->slab_size == p->params.slab_size)
    return 0;
  fp_format_size (h->slab_size, then);
  fp_format_size (p->params.slab_size, now);
  return fp_fail (error, -EINVAL,
                  "backing: %s has slabs of %s, not of %s: use the same "
                  "--slab as before",
                  p->params.dir, then, now);
}

static int
check_file (struct persist *p, const char *name, struct fp_error *error)
{
  int fd = store_get (p->store, name), r = fd < 0 ? fd : 0;
  struct stat st;

  if (r == 0 && fstat (fd, &st) < 0)
    r = -errno;
  if (fd >= 0)
    close (fd);
  if (r < 0)
    return fp_fail (error, r,
                    "backing: %s/%s: it is in use, but cannot be opened: %s",
                    p->params.dir, name, strerror (-r));
  if (!S_ISREG (st.st_mode) ||
      !backing_fits ((uint64_t) st.st_size, p->params.slab_size))
    return fp_fail (error, -EBADMSG,
                    "backing: %s/%s: it is in use, but its size is wrong",
                    p->params.dir, name);
  return 0;
}

/* Refuse a label without its volume: a delete removes labels first. */
static int
no_volume (const struct persist *p, uint32_t slab, const struct fp_uuid *uuid,
           struct fp_error *error)
{
  char text[FP_UUID_STR_MAX];

  fp_uuid_format (uuid, text);
  return fp_fail (error, -ENOENT,
                  "backing: %s/volume-%s: it is missing, but slab %u holds "
                  "an extent of it; nothing was changed (%s)",
                  p->params.dir, text, slab,
                  store_is_sealed (p->store)
                      ? "systemd keeps at most FileDescriptorStoreMax= "
                        "files; to start empty, stop the service"
                      : "to start empty, remove the contents of this "
                        "directory");
}

/* Check the label of a slab, and the slab's memory.  Refuse a label beyond the
 * slabs of --size: that slab must not be given up.
 */
static int
check_label (struct persist *p, uint32_t slab, struct fp_error *error)
{
  struct persist_label l;
  const struct persist_volume *v;
  char name[STORE_NAME_MAX], text[64];
  int r = cell_read (slab_cell (p, slab), &l, sizeof l);

  snprintf (text, sizeof text, "the label of slab %u cannot be read", slab);
  if ((r < 0 && r != -ENOENT) || l.state > PERSIST_LOST)
    return bad_state (p, text, error);
  if (l.state == PERSIST_FREE)
    return 0;
  v = persist_volume_of (p, &l.volume);
  if (!v)
    return no_volume (p, slab, &l.volume, error);
  if (v->doomed)
    return 0;
  if (l.extent >= v->extents || l.copy >= FP_WIRE_COPIES_MAX)
    return bad_state (p, text, error);
  if (slab >= p->params.slabs)
    return fp_fail (error, -EINVAL,
                    "backing: %s: slab %u is in use, but --size is for %u "
                    "slabs: use a larger --size",
                    p->params.dir, slab, p->params.slabs);
  if (l.state == PERSIST_LOST)
    return 0;
  backing_name (slab, l.serial, name);
  return check_file (p, name, error);
}

static int
find_volume (void *ctx, const char *name, struct fp_error *error)
{
  return is_volume (name) && !is_new (name)
             ? persist_volume_find (ctx, name, error)
             : 0;
}

/* Return true if a file must be removed now.  In a sealed store these are all
 * that do not count.  In a directory the pool removes most of them later,
 * because that takes time (pool.h).
 */
static bool
is_leftover (const struct persist *p, const char *name)
{
  uint64_t slab, serial;
  struct persist_label l;

  if (!slab_number (name, &slab, &serial))
    return is_new (name);
  if (slab >= p->params.slabs || !store_is_sealed (p->store))
    return slab >= p->params.slabs;
  l = persist_labelled (p, (uint32_t) slab);
  return l.state != PERSIST_LABELLED || l.serial != serial;
}

static int
remove_leftover (void *ctx, const char *name, struct fp_error *error)
{
  struct persist *p = ctx;
  int r = is_leftover (p, name) ? store_remove (p->store, name) : 0;

  return r < 0 ? fp_fail (error, r, "backing: %s/%s: %s", p->params.dir, name,
                          strerror (-r))
               : 0;
}

/* Begin to change things: all checks have passed. */
static int
tidy_up (struct persist *p, struct fp_error *error)
{
  struct persist_header *h = &p->header;

  for (uint32_t i = 0; i < nr_cells (p); i++) {
    struct persist_label l = persist_labelled (p, i);

    if (l.state != PERSIST_FREE && persist_volume_of (p, &l.volume)->doomed)
      persist_unlabel (p, i);
  }
  persist_volume_delete_doomed (p);
  p->lease_s = FP_MAX (p->lease_s, h->lease_s);
  h->lease_s = p->params.lease_s;
  cell_write ((struct cell *) p->state, h, sizeof *h);
  return store_each (p->store, remove_leftover, p, error);
}

/* Map the state and check all of it.  It grows if there are more slabs now. */
static int
map_state (struct persist *p, int fd, struct fp_error *error)
{
  uint64_t wanted = state_bytes (p);
  struct stat st;
  void *map = NULL; /* gcc 12 warns that it may be used uninitialized */
  int r;

  if (fstat (fd, &st) < 0)
    return -errno;
  p->state_bytes = (uint64_t) st.st_size;
  if (p->state_bytes <= SLABS_AT ||
      p->state_bytes % store_page (p->store) != 0)
    return bad_state (p, "it is truncated", error);
  r = persist_map_file (fd, p->state_bytes, &map);
  if (r < 0)
    return r;
  p->state = map;
  r = check_header (p, error);
  if (r == 0)
    r = store_each (p->store, find_volume, p, error);
  for (uint32_t i = 0; r == 0 && i < nr_cells (p); i++)
    r = check_label (p, i, error);
  if (r < 0 || wanted <= p->state_bytes)
    return r;
  munmap (p->state, p->state_bytes);
  p->state = NULL;
  r = persist_make (fd, 0, wanted);
  if (r == 0)
    r = persist_map_file (fd, wanted, &map);
  if (r < 0)
    return r;
  p->state = map;
  p->state_bytes = wanted;
  return 0;
}

static int
find_state (struct persist *p, struct fp_error *error)
{
  int fd = store_get (p->store, "state"), r;

  if (fd == -ENOENT)
    return make_state (p, error);
  if (fd < 0)
    return fd;
  r = map_state (p, fd, error);
  close (fd);
  return r < 0 ? r : tidy_up (p, error);
}

int
persist_open (struct persist **out, const struct persist_params *params,
              struct fp_error *error)
{
  struct persist *p = calloc (1, sizeof *p);
  int r;

  error->text[0] = '\0';
  if (!p)
    return -ENOMEM;
  p->params = *params;
  p->lease_s = params->lease_s;
  TAILQ_INIT (&p->found);
  r = store_open (&p->store, params->dir, error);
  if (r == 0)
    r = check_slab_size (p, error);
  if (r == 0)
    r = find_state (p, error);
  if (r < 0) {
    if (error->text[0] == '\0')
      fp_fail (error, r, "backing: %s/state: %s", params->dir, strerror (-r));
    persist_close (p);
    return r;
  }
  *out = p;
  return 0;
}

void
persist_close (struct persist *p)
{
  if (!p)
    return;
  while (!TAILQ_EMPTY (&p->found)) {
    struct persist_volume *v = TAILQ_FIRST (&p->found);

    TAILQ_REMOVE (&p->found, v, entry);
    persist_volume_close (v);
  }
  if (p->state)
    munmap (p->state, p->state_bytes);
  store_close (p->store);
  free (p);
}
