/* SPDX-License-Identifier: BSD-3-Clause */
/* persist_volume.c - the file of a volume. */

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
#include "memserver/store/persist_int.h"

#define PAGE 4096u

/* The next three structures are in the file as they stand here: persist.h. */
struct kept_member {
  struct fp_uuid server;
  char addr[FP_ADDR_MAX + 1];
  char domain[FP_NAME_MAX + 1];
  uint8_t current;
};

struct kept_members {
  uint64_t version, count;
  struct kept_member members[FP_MAX_MEMBERS];
};

struct kept_owner {
  uint32_t kind, uid; /* kind: enum who_kind */
  char name[72];
};

#define OWNER_AT CELL_SIZE (sizeof (struct persist_record))
#define ROUND(n, to) (((n) + (to) -1) / (to) * (to))
#define MEMBERS_AT ROUND (CELL_SIZE (sizeof (struct persist_record)), PAGE)
_Static_assert(OWNER_AT + CELL_SIZE (sizeof (struct kept_owner)) <= MEMBERS_AT,
               "it is in the rest of the record's page");
#define MEMBERS_BYTES ROUND (CELL_SIZE (sizeof (struct kept_members)), PAGE)
#define MAP_AT (MEMBERS_AT + MEMBERS_BYTES)

_Static_assert(sizeof (struct persist_record) % 8 == 0 &&
                   sizeof (struct kept_members) % 8 == 0 &&
                   sizeof (struct kept_owner) % 8 == 0 && OWNER_AT % 8 == 0,
               "what is in a cell is a multiple of 8");

const uint32_t persist_members_size = sizeof (struct kept_members);

static void
file_name (const struct fp_uuid *uuid, char out[STORE_NAME_MAX])
{
  char text[FP_UUID_STR_MAX];

  fp_uuid_format (uuid, text);
  snprintf (out, STORE_NAME_MAX, "volume-%s", text);
}

static void
set_extents (struct persist_volume *v, const struct persist_record *r)
{
  v->extents = fp_div_round_up (r->size, v->persist->params.slab_size);
  v->map_bytes = ROUND (
      fp_div_round_up (fp_map_bits (v->extents, r->copies), 64) * 8, PAGE);
  v->bytes = ROUND (MAP_AT + v->map_bytes, store_page (v->persist->store));
}

void
persist_volume_close (struct persist_volume *v)
{
  if (v->file)
    munmap (v->file, v->bytes);
  if (v->fd >= 0)
    close (v->fd);
  free (v);
}

void
persist_volume_doom (struct persist_volume *v)
{
  struct persist_record r;

  if (cell_read (v->record, &r, sizeof r) < 0)
    abort (); /* was written when it was made */
  r.flags |= PERSIST_DELETING;
  persist_volume_save (v, &r);
}

void
persist_volume_delete (struct persist_volume *v)
{
  char name[STORE_NAME_MAX];

  file_name (&v->uuid, name);
  /* The file is there, and it is ours: nothing else can be wrong. */
  (void) store_remove (v->persist->store, name);
  persist_volume_close (v);
}

static int
map_volume (struct persist_volume *v)
{
  void *map;
  int r = persist_map_file (v->fd, v->bytes, &map);

  if (r < 0)
    return r;
  v->file = map;
  v->record = map;
  v->owner = (struct cell *) (v->file + OWNER_AT);
  return 0;
}

static int
make_members (struct persist_volume *v)
{
  int r = persist_make (v->fd, MEMBERS_AT, MEMBERS_BYTES);

  if (r == 0)
    v->members = (struct cell *) (v->file + MEMBERS_AT);
  return r;
}

static struct persist_volume *
new_volume (struct persist *p, const struct fp_uuid *uuid)
{
  struct persist_volume *v = calloc (1, sizeof *v);

  if (!v)
    return NULL;
  v->persist = p;
  v->uuid = *uuid;
  v->fd = -1;
  return v;
}

int
persist_volume_new (struct persist_volume **out, struct persist *p,
                    const struct persist_record *r)
{
  char name[STORE_NAME_MAX];
  struct persist_volume *v = new_volume (p, &r->uuid);
  int e = 0;

  if (!v)
    return -ENOMEM;
  file_name (&r->uuid, name);
  v->fd = store_make (p->store, name);
  if (v->fd < 0)
    e = v->fd;
  set_extents (v, r);
  /* The parts that are not used yet get their memory later. */
  if (e == 0 && ftruncate (v->fd, (off_t) v->bytes) < 0)
    e = -errno;
  if (e == 0)
    e = persist_make (v->fd, 0, MEMBERS_AT);
  if (e == 0)
    e = map_volume (v);
  if (e == 0) {
    persist_volume_save (v, r);
    e = store_keep (p->store, name, v->fd);
  }
  if (e == 0) {
    *out = v;
    return 0;
  }
  store_unmake (p->store, name);
  persist_volume_close (v);
  return e;
}

void
persist_volume_save (struct persist_volume *v, const struct persist_record *r)
{
  cell_write (v->record, r, sizeof *r);
}

int
persist_volume_set_members (struct persist_volume *v,
                            const struct fp_members *m)
{
  struct kept_members *k = calloc (1, sizeof *k);
  int r = k ? 0 : -ENOMEM;

  if (r == 0 && !v->members)
    r = make_members (v);
  if (r == 0) {
    k->version = m->version;
    k->count = m->count;
    for (uint32_t i = 0; i < m->count; i++) {
      struct kept_member *to = &k->members[i];

      to->server = m->members[i].server;
      to->current = m->members[i].current;
      snprintf (to->addr, sizeof to->addr, "%s", m->members[i].addr);
      snprintf (to->domain, sizeof to->domain, "%s", m->members[i].domain);
    }
    cell_write (v->members, k, sizeof *k);
  }
  free (k);
  return r;
}

void
persist_volume_set_owner (struct persist_volume *v, const struct who *owner)
{
  struct kept_owner k = { .kind = owner->kind, .uid = owner->uid };

  snprintf (k.name, sizeof k.name, "%s", owner->name);
  cell_write (v->owner, &k, sizeof k);
}

static bool
terminated (const char *s, size_t size)
{
  return memchr (s, '\0', size) != NULL;
}

/* Read the list of members.  -ENOENT: there is none. */
static int
read_members (const struct persist_volume *v, struct fp_members *out)
{
  struct kept_members *k = malloc (sizeof *k);
  int r = k ? cell_read (v->members, k, sizeof *k) : -ENOMEM;

  if (r == 0 && (k->count == 0 || k->count > FP_MAX_MEMBERS))
    r = -EBADMSG;
  if (r == 0) {
    memset (out, 0, sizeof *out);
    out->version = k->version;
    out->count = (uint32_t) k->count;
  }
  for (uint32_t i = 0; r == 0 && i < out->count; i++) {
    const struct kept_member *from = &k->members[i];
    struct fp_member *to = &out->members[i];

    if (!terminated (from->addr, sizeof from->addr) ||
        !terminated (from->domain, sizeof from->domain)) {
      r = -EBADMSG;
      break;
    }
    to->server = from->server;
    to->current = from->current != 0;
    memcpy (to->addr, from->addr, sizeof to->addr);
    memcpy (to->domain, from->domain, sizeof to->domain);
  }
  if (r == 0 && !fp_members_ok (out))
    r = -EBADMSG;
  free (k);
  return r;
}

int
persist_volume_map (struct persist_volume *v, uint64_t words, uint64_t **map)
{
  int r;

  if (words * 8 > v->map_bytes)
    return -EINVAL;
  if (!v->map) {
    r = persist_make (v->fd, MAP_AT, v->map_bytes);
    if (r < 0)
      return r;
    v->map = (uint64_t *) (v->file + MAP_AT);
  }
  *map = v->map;
  return 0;
}

/* ---- at the start ---- */

/* Return true if a client can decode what this server will send it of the
 * volume.
 */
static bool
record_ok (const struct persist_volume *v, const struct persist_record *r)
{
  uint64_t slab_size = v->persist->params.slab_size;
  struct fp_volume_entry e = { .uuid = r->uuid,
                               .size = r->size,
                               .slab_size = slab_size,
                               .copies = r->copies,
                               .stripe = persist_stripe (r) };

  if (!fp_uuid_eq (&r->uuid, &v->uuid) ||
      !terminated (r->name, FP_NAME_MAX + 1) ||
      !terminated (r->client, FP_NAME_MAX + 1))
    return false;
  memcpy (e.name, r->name, sizeof e.name);
  memcpy (e.client, r->client, sizeof e.client);
  return fp_volume_entry_ok (&e) && r->servers >= 1 &&
         (r->transport & ~FP_TRANSPORT_WIRE_MASK) == 0 &&
         (r->transport & (r->transport - 1)) == 0 &&
         (r->size - 1) / slab_size < MAX_EXTENTS;
}

static int
read_record (const struct persist_volume *v, struct persist_record *r)
{
  int e = cell_read (v->record, r, sizeof *r);

  if (e < 0)
    return e;
  return record_ok (v, r) ? 0 : -EBADMSG;
}

/* Read the owner.  If none was written, it is unknown. */
static int
read_owner (const struct persist_volume *v, struct who *out)
{
  struct kept_owner k;
  int e = cell_read (v->owner, &k, sizeof k);

  memset (out, 0, sizeof *out);
  if (e == -ENOENT)
    return 0;
  if (e < 0 || k.kind > WHO_USER || !terminated (k.name, sizeof out->name) ||
      (k.kind == WHO_TLS) != (fp_name_ok (k.name)))
    return -EBADMSG;
  out->kind = (enum who_kind) k.kind;
  out->uid = k.uid;
  memcpy (out->name, k.name, sizeof out->name);
  return 0;
}

/* Return true if this part of the file is a hole: no list, or no map. */
static bool
is_hole (int fd, off_t from, uint64_t bytes)
{
  off_t data = lseek (fd, from, SEEK_DATA);

  return data < 0 || data >= from + (off_t) bytes;
}

/* Return true if the map has an extent beyond the end of the volume.  The
 * other servers of the volume would refuse that map.
 */
static bool
beyond_end (const struct persist_volume *v, const struct persist_record *r)
{
  for (uint64_t i = 0; i < v->map_bytes / 8; i++)
    if ((v->map[i] & ~fp_map_valid (v->extents, r->copies, i)) != 0)
      return true;
  return false;
}

static int
look_at (struct persist_volume *v)
{
  struct fp_members *members;
  struct persist_record r;
  struct who owner;
  struct stat st;
  uint64_t *words;
  int e;

  if (fstat (v->fd, &st) < 0)
    return -errno;
  v->bytes = (uint64_t) st.st_size;
  if (v->bytes < MAP_AT || v->bytes % store_page (v->persist->store) != 0)
    return -EBADMSG;
  e = map_volume (v);
  if (e == 0)
    e = read_record (v, &r);
  if (e == 0)
    e = read_owner (v, &owner);
  if (e < 0)
    return e;
  v->doomed = (r.flags & PERSIST_DELETING) != 0;
  set_extents (v, &r);
  if ((uint64_t) st.st_size != v->bytes) {
    v->bytes = (uint64_t) st.st_size; /* the mapped size */
    return -EBADMSG;
  }
  if (!is_hole (v->fd, MEMBERS_AT, MEMBERS_BYTES)) {
    members = malloc (sizeof *members);
    e = members ? make_members (v) : -ENOMEM;
    if (e == 0)
      e = read_members (v, members);
    free (members);
    if (e < 0 && e != -ENOENT)
      return e;
  }
  if (is_hole (v->fd, MAP_AT, v->map_bytes))
    return 0;
  /* The map got its memory when it was made; make up for what is missing. */
  e = persist_volume_map (v, v->map_bytes / 8, &words);
  return e == 0 && beyond_end (v, &r) ? -EBADMSG : e;
}

int
persist_volume_find (struct persist *p, const char *name,
                     struct fp_error *error)
{
  struct persist_volume *v;
  struct fp_uuid uuid;
  int e;

  if (fp_uuid_parse (&uuid, name + 7) < 0)
    return fp_fail (error, -EBADMSG,
                    "backing: %s/%s: not a volume's file: move it away",
                    p->params.dir, name);
  v = new_volume (p, &uuid);
  if (!v)
    return -ENOMEM;
  TAILQ_INSERT_TAIL (&p->found, v, entry);
  v->fd = store_get (p->store, name);
  e = v->fd < 0 ? v->fd : look_at (v);
  if (e < 0)
    return fp_fail (
        error, e,
        "backing: %s/%s: it cannot be read: %s; nothing was changed (to start "
        "empty, remove the contents of this directory)",
        p->params.dir, name,
        e == -EBADMSG || e == -ENOENT ? "it is damaged" : strerror (-e));
  return 0;
}

const struct persist_volume *
persist_volume_of (const struct persist *p, const struct fp_uuid *uuid)
{
  const struct persist_volume *v;

  TAILQ_FOREACH (v, &p->found, entry)
  if (fp_uuid_eq (&v->uuid, uuid))
    return v;
  return NULL;
}

void
persist_volume_delete_doomed (struct persist *p)
{
  struct persist_volume *v = TAILQ_FIRST (&p->found);

  while (v) {
    struct persist_volume *next = TAILQ_NEXT (v, entry);

    if (v->doomed) {
      TAILQ_REMOVE (&p->found, v, entry);
      persist_volume_delete (v);
    }
    v = next;
  }
}

bool
persist_next_found (struct persist *p, struct persist_found *out)
{
  struct persist_volume *v = TAILQ_FIRST (&p->found);

  if (!v)
    return false;
  TAILQ_REMOVE (&p->found, v, entry);
  out->v = v;
  /* Both were read before, in persist_volume_find. */
  if (read_record (v, &out->record) < 0 || read_owner (v, &out->owner) < 0)
    abort ();
  if (!v->members || read_members (v, &out->members) < 0)
    out->members = (struct fp_members) { .version = 0 };
  out->map = v->map;
  return true;
}
