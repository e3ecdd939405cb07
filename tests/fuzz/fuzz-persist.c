/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-persist.c - a memory server with --backing starts with damaged files.
 * It refuses them and changes nothing, or its state is consistent.
 *
 * Input is a sequence of steps.  Each has a byte `what`:
 *   - bits 0-1: which file
 *   - bit 5: the file is missing
 *   - bit 6: the file is cut off or extended; its new size follows, in units
 *     of 256 bytes (1)
 *   - neither: a change follows, as offset (2), length (1), bytes
 *   - bit 7: after the change, the sums of its cells are made right
 */

#include <config.h>

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "files.h"
#include "fuzz.h"
#include "memserver/pool/mailbox.h"
#include "memserver/pool/pool.h"
#include "memserver/store/cell.h"
#include "memserver/store/persist_int.h"
#include "memserver/store/record.h"
#include "memserver/store/records.h"
#include "samples.h"

const char fuzz_name[] = "fuzz-persist";
const unsigned fuzz_runs = 20000;

#define SLABS 8u
#define STEPS 12u
#define FILES 3u
#define FILE_MAX (72u << 10)
#define PAGE 4096u
/* same as in persist.c and persist_volume.c */
#define SLABS_AT 4096u
#define SLAB_CELL 256u
#define OWNER_AT CELL_SIZE (sizeof (struct persist_record))
#define OWNER_SIZE 80u
#define MEMBERS_AT                                                            \
  ((CELL_SIZE (sizeof (struct persist_record)) + PAGE - 1) / PAGE * PAGE)
#define MAP_AT                                                                \
  (MEMBERS_AT + (CELL_SIZE (persist_members_size) + PAGE - 1) / PAGE * PAGE)

static struct fp_error error;
static struct mailbox *mailbox;
static struct records records = { .lease_s = 30 };

static struct file_tried {
  char name[STORE_NAME_MAX];
  uint64_t size, now; /* bytes of the template; of the tried file */
  uint64_t known;     /* bytes of `tried` that this input has set */
  bool there;
  _Alignas(8) uint8_t bytes[FILE_MAX];
  _Alignas(8) uint8_t tried[FILE_MAX];
} tries[FILES];

static const struct persist_params params = {
  .dir = "/fuzz", .slab_size = SAMPLE_SLAB, .slabs = SLABS, .lease_s = 30
};

/* Save time: the sum of the last long list that was right is not checked again
 * if the list is the same.
 */
int __real_cell_read (const struct cell *c, void *value, size_t length);
int __wrap_cell_read (const struct cell *c, void *value, size_t length);

int
__wrap_cell_read (const struct cell *c, void *value, size_t length)
{
  static struct {
    uint64_t turn, sum;
    uint8_t copy[FILE_MAX];
  } right;
  uint64_t turn = atomic_load (&c->turn);
  int r;

  if (length != persist_members_size)
    return __real_cell_read (c, value, length);
  if (turn != 0 && turn == right.turn && c->sum[turn % 2] == right.sum &&
      memcmp (c->copies + turn % 2 * length, right.copy, length) == 0) {
    memcpy (value, right.copy, length);
    return 0;
  }
  r = __real_cell_read (c, value, length);
  if (r == 0) {
    right.turn = turn;
    right.sum = c->sum[turn % 2];
    memcpy (right.copy, value, length);
  }
  return r;
}

static void
sink (enum fp_log_level level, const char *message, void *opaque)
{
  (void) level;
  (void) message;
  (void) opaque;
}

static void
on_freed (void *ctx)
{
  (void) ctx;
}

static enum pool_left
on_left (void *ctx, uint32_t slab, uint32_t *serial)
{
  (void) ctx;
  return records_left (&records, slab, serial);
}

static void
make_volume (struct persist *p, unsigned nr, const char *name, bool with_all)
{
  static const struct fp_members members = {
    .version = 3,
    .count = 2,
    .members = { { .server = { { 1 } }, .addr = "a:1", .current = true },
                 { .server = { { 2 } }, .addr = "b:1", .domain = "r" } }
  };
  struct persist_record r = { .uuid = { { (uint8_t) nr } },
                              .size = 99 * SAMPLE_SLAB + 1,
                              .epoch = 4,
                              .copies = 1,
                              .servers = 2,
                              .transport = FP_TRANSPORT_TCP,
                              .stripe_width = 3,
                              .stripe_shift = 14,
                              .flags =
                                  with_all ? PERSIST_KEPT : PERSIST_ATTACHED };
  struct persist_volume *v;
  uint64_t *map;

  snprintf (r.name, sizeof r.name, "%s", name);
  snprintf (r.client, sizeof r.client, "client");
  FUZZ_CHECK (persist_volume_new (&v, p, &r) == 0);
  if (with_all) {
    const struct who owner = { .kind = WHO_TLS, .name = "alice" };

    persist_volume_set_owner (v, &owner);
    FUZZ_CHECK (persist_volume_set_members (v, &members) == 0);
    FUZZ_CHECK (persist_volume_map (v, 2, &map) == 0);
    map[0] = 96;
  }
  persist_volume_close (v);
  for (unsigned i = 0; i < 2; i++) {
    const struct persist_label l = { .volume = r.uuid,
                                     .extent = 5 + i,
                                     .generation = 1,
                                     .state = i == 1 && with_all
                                                  ? PERSIST_LOST
                                                  : PERSIST_LABELLED };

    persist_label (p, 2 * nr + i, &l);
  }
}

static void
start (void)
{
  struct persist *p;
  struct fp_uuid uuid = { { 0 } };
  char text[FP_UUID_STR_MAX];

  if (mailbox)
    return;
  if (!files_work ()) {
    printf ("SKIP: this C library has other names for some calls\n");
    exit (77);
  }
  fp_log_set_sink (sink, NULL);
  records_init (&records);
  records.base = event_base_new ();
  FUZZ_CHECK (records.base != NULL);
  FUZZ_CHECK (mailbox_new (&mailbox, records.base) == 0);
  FUZZ_CHECK (persist_open (&p, &params, &error) == 0);
  make_volume (p, 1, "one", true);
  make_volume (p, 2, "", false);
  persist_close (p);
  snprintf (tries[0].name, STORE_NAME_MAX, "state");
  for (unsigned i = 1; i < FILES; i++) {
    uuid.bytes[0] = (uint8_t) i;
    fp_uuid_format (&uuid, text);
    snprintf (tries[i].name, STORE_NAME_MAX, "volume-%s", text);
  }
  for (unsigned i = 0; i < FILES; i++) {
    const uint8_t *bytes = files_get (tries[i].name, &tries[i].size);

    FUZZ_CHECK (bytes && tries[i].size < FILE_MAX);
    memcpy (tries[i].bytes, bytes, tries[i].size);
  }
}

/* ---- the files under test ---- */

static void
mend (struct file_tried *f, uint64_t at, size_t length)
{
  static _Alignas(8) uint8_t value[FILE_MAX];
  struct cell *c = (struct cell *) (f->tried + at);
  uint64_t turn;

  if (at + CELL_SIZE (length) > f->now ||
      (at + CELL_SIZE (length) <= f->size &&
       memcmp (f->tried + at, f->bytes + at, CELL_SIZE (length)) == 0))
    return;
  turn = atomic_load (&c->turn);
  if (turn == 0)
    return;
  memcpy (value, c->copies + turn % 2 * length, length);
  atomic_store (&c->turn, turn - 1);
  if (turn > 1)
    cell_write (c, value, length);
}

static void
mend_all (struct file_tried *f)
{
  if (f == &tries[0]) {
    mend (f, 0, sizeof (struct persist_header));
    for (uint64_t at = SLABS_AT; at < f->now; at += SLAB_CELL)
      mend (f, at, sizeof (struct persist_label));
  }
  else {
    mend (f, 0, sizeof (struct persist_record));
    mend (f, OWNER_AT, OWNER_SIZE);
    mend (f, MEMBERS_AT, persist_members_size);
  }
}

static void
change (struct fuzz_input *in)
{
  unsigned what = (unsigned) fuzz_take (in, 1);
  struct file_tried *f = &tries[(what & 3) % FILES];
  const uint8_t *p;
  uint64_t at;
  size_t n;

  if (what & 0x20) {
    f->there = false;
    return;
  }
  if (what & 0x40) {
    f->now = FP_MIN (fuzz_take (in, 1) * 256, (uint64_t) FILE_MAX - PAGE);
    if (f->known < f->now) {
      memset (f->tried + f->known, 0, f->now - f->known);
      f->known = f->now;
    }
    return;
  }
  at = fuzz_take (in, 2);
  n = (size_t) fuzz_take (in, 1);
  p = fuzz_take_bytes (in, &n);
  if (at + n <= f->now)
    memcpy (f->tried + at, p, n);
  if (what & 0x80)
    mend_all (f);
}

static void
check_unchanged (void)
{
  for (unsigned i = 0; i < FILES; i++) {
    const struct file_tried *f = &tries[i];
    uint64_t size;
    const uint8_t *bytes = files_get (f->name, &size);

    if (!f->there && i == 0)
      continue; /* maybe a new one */
    FUZZ_CHECK (f->there == (bytes != NULL));
    FUZZ_CHECK (size == (f->there ? f->now : 0));
    FUZZ_CHECK (size == 0 || memcmp (bytes, f->tried, size) == 0);
  }
}

/* Check that each volume can be encoded, and is within a server's limits. */
static void
check_records (void)
{
  static uint8_t bytes[FP_BODY_MAX];
  static struct fp_volumes p;
  static struct fp_lookup_reply l;
  const struct record *r;
  struct fp_reader in;
  struct fp_writer w;
  uint64_t words = 0;

  TAILQ_FOREACH (r, &records.list, entry)
  {
    FUZZ_CHECK (record_extents (r) <= MAX_EXTENTS);
    p = (struct fp_volumes) { .total = 1, .count = 1 };
    record_describe (r, &p.volumes[0]);
    fp_writer_init (&w, bytes, sizeof bytes);
    fp_enc_volumes (&w, &p);
    FUZZ_CHECK (fp_writer_ok (&w));
    fp_reader_init (&in, bytes, sizeof bytes - w.left);
    FUZZ_CHECK (fp_dec_volumes (&in, &p) == 0);

    l = (struct fp_lookup_reply) { .epoch = r->epoch };
    record_describe (r, &l.volume);
    if (r->members)
      l.members = *r->members;
    fp_writer_init (&w, bytes, sizeof bytes);
    fp_enc_lookup_reply (&w, &l);
    FUZZ_CHECK (fp_writer_ok (&w));
    fp_reader_init (&in, bytes, sizeof bytes - w.left);
    FUZZ_CHECK (fp_dec_lookup_reply (&in, &l) == 0);

    for (uint32_t i = 0; i < r->nr_slabs; i++) {
      FUZZ_CHECK (r->slabs[i]->label.extent < record_extents (r));
      FUZZ_CHECK (r->slabs[i]->label.copy < FP_WIRE_COPIES_MAX);
    }
    if (!r->map)
      continue;
    words += record_map_words (r);
    for (uint64_t n = 0; n < record_map_words (r); n++)
      FUZZ_CHECK (
          (r->map[n] & ~fp_map_valid (record_extents (r), r->copies, n)) == 0);
  }
  FUZZ_CHECK (words == records.map_words);
}

/* Start as server.c does, but without listeners and threads. */
static void
take_up (struct persist *p)
{
  struct pool_params q = { .slab = { .size = SAMPLE_SLAB,
                                     .hugepages = HUGEPAGES_OFF,
                                     .numa = -1,
                                     .store = persist_store (p) },
                           .slabs = SLABS,
                           .mailbox = mailbox,
                           .freed = on_freed,
                           .left = on_left,
                           .moved = record_moved };
  uint32_t made;
  int r;

  records.persist = p;
  r = pool_new (&records.pool, &q, &made);
  FUZZ_CHECK (r == 0);
  r = records_take_up (&records);
  FUZZ_CHECK (r <= 0);
  if (r == 0)
    check_records ();
  records_free (&records);
  pool_free (records.pool);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz_input in = { data, size };
  struct persist *p = NULL;
  int r;

  start ();
  for (unsigned i = 0; i < FILES; i++) {
    struct file_tried *f = &tries[i];

    f->there = true;
    f->now = f->known = f->size;
    memcpy (f->tried, f->bytes, f->size);
  }
  for (unsigned i = 0; in.left > 0 && i < STEPS; i++)
    change (&in);
  files_clear ();
  for (unsigned i = 0; i < SLABS; i++) {
    char name[STORE_NAME_MAX];

    backing_name (i, 0, name);
    files_put (name, NULL, SAMPLE_SLAB);
  }
  for (unsigned i = 0; i < FILES; i++)
    if (tries[i].there)
      files_put (tries[i].name, tries[i].tried, tries[i].now);

  r = persist_open (&p, &params, &error);
  FUZZ_CHECK (r <= 0);
  if (r < 0) {
    FUZZ_CHECK (error.text[0] != '\0' &&
                memchr (error.text, '\0', sizeof error.text) != NULL);
    check_unchanged ();
    return 0;
  }
  take_up (p);
  persist_close (p);
  return 0;
}

/* Set a field of `bytes` bytes, in both copies of its cell. */
static uint8_t *
field (uint8_t *p, unsigned file, uint64_t at, size_t length, size_t offset,
       unsigned bytes, uint64_t value)
{
  for (unsigned copy = 0; copy < 2; copy++) {
    uint64_t where = at + sizeof (struct cell) + copy * length + offset;

    *p++ = (uint8_t) (file | (copy == 1 ? 0x80 : 0));
    *p++ = (uint8_t) (where >> 8);
    *p++ = (uint8_t) where;
    *p++ = (uint8_t) bytes;
    for (unsigned i = 0; i < bytes; i++)
      *p++ = (uint8_t) (value >> (8 * i)); /* little-endian, mostly */
  }
  return p;
}
#define RECORD(name, value)                                                   \
  field (out, 1, 0, sizeof (struct persist_record),                           \
         offsetof (struct persist_record, name),                              \
         sizeof ((struct persist_record *) 0)->name > 8                       \
             ? 8                                                              \
             : sizeof ((struct persist_record *) 0)->name,                    \
         value)
#define HEADER(name, value)                                                   \
  field (out, 0, 0, sizeof (struct persist_header),                           \
         offsetof (struct persist_header, name),                              \
         sizeof ((struct persist_header *) 0)->name > 8                       \
             ? 8                                                              \
             : sizeof ((struct persist_header *) 0)->name,                    \
         value)
#define LABEL(name, value)                                                    \
  field (out, 0, SLABS_AT + 2 * SLAB_CELL, sizeof (struct persist_label),     \
         offsetof (struct persist_label, name),                               \
         sizeof ((struct persist_label *) 0)->name > 8                        \
             ? 8                                                              \
             : sizeof ((struct persist_label *) 0)->name,                     \
         value)

size_t
fuzz_seed (unsigned nr, uint8_t *out)
{
  uint8_t *p = out;

  switch (nr) {
  case 0: /* unchanged */
    *p++ = 3;
    break;
  case 1:
  case 2:
  case 3: /* a missing file */
    *p++ = (uint8_t) (0x20 | (nr - 1));
    break;
  case 4:
  case 5:
  case 6: /* a file that is cut off */
    *p++ = (uint8_t) (0x40 | (nr - 4));
    *p++ = 16;
    break;
  case 7:
    p = RECORD (size, UINT64_MAX);
    break;
  case 8:
    p = RECORD (name, 'o' | 'n' << 8 | '\n' << 16);
    break;
  case 9:
    p = RECORD (copies, 0);
    break;
  case 10:
    p = RECORD (nr_former, UINT32_MAX);
    break;
  case 11:
    p = RECORD (stripe_shift, 63);
    break;
  case 12:
    p = RECORD (flags, PERSIST_DELETING);
    break;
  case 13:
    p = LABEL (extent, 98);
    break;
  case 14:
    p = LABEL (copy, 99);
    break;
  case 15:
    p = LABEL (state, 3);
    break;
  case 16:
    p = HEADER (slab_size, 4096);
    break;
  case 17:
    p = HEADER (format, 2);
    break;
  case 18: /* the list of members: its count; an address */
    p = field (p, 1, MEMBERS_AT, persist_members_size, 8, 8, 65);
    break;
  case 19:
    p = field (p, 1, MEMBERS_AT, persist_members_size, 32, 8, 0x2020);
    break;
  case 20: /* one bit of a sum */
    memcpy (p, "\1\0\x0a\1\x55", 5);
    p += 5;
    break;
  case 21:
    p = RECORD (client, '"');
    break;
  case 22: /* the owner: its kind, and its name */
    p = field (p, 1, OWNER_AT, OWNER_SIZE, 0, 4, 3);
    break;
  case 23:
    p = field (p, 1, OWNER_AT, OWNER_SIZE, 8, 8, 0);
    break;
  case 24: /* the map */
    *p++ = 1;
    *p++ = (uint8_t) (MAP_AT >> 8);
    *p++ = (uint8_t) MAP_AT;
    *p++ = 16;
    memset (p, 0xff, 16);
    p += 16;
    break;
  default:
    break;
  }
  return (size_t) (p - out);
}
