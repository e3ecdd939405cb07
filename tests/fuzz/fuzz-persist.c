/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-persist.c - what a memory server with --backing finds when it starts:
 * spoiled, it is refused and nothing of it is changed, or what comes of it is
 * right.
 *
 *   steps of: what (1): bits 0-1: which file; bit 7: the sums of its cells are
 *             made right afterwards; bit 6: it is cut off, or gets longer;
 *             bit 5: it is not there
 *   a change: offset (2), length (1), bytes
 *   bit 6: its new size in units of 256 bytes (1)
 */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/log.h"
#include "cell.h"
#include "fuzz.h"
#include "persist_int.h"
#include "record.h"
#include "samples.h"
#include "server.h"

const char fuzz_name[] = "fuzz-persist";
const unsigned fuzz_runs = 2000;

#define SLABS 8u
#define STEPS 12u
#define FILES 3u
#define FILE_MAX (72u << 10)
#define PAGE 4096u
/* As persist.c and persist_volume.c have it. */
#define SLABS_AT 4096u
#define SLAB_CELL 256u
#define MEMBERS_AT                                                            \
  ((CELL_SIZE (sizeof (struct persist_record)) + PAGE - 1) / PAGE * PAGE)
#define MAP_AT                                                                \
  (MEMBERS_AT + (CELL_SIZE (persist_members_size) + PAGE - 1) / PAGE * PAGE)

static char dir[64], why[STORE_WHY_MAX];
static int dir_fd = -1;
static struct event_base *base;
static struct server srv;
static struct options options = { .lease_s = 30, .slab = SAMPLE_SLAB };

static struct file {
  char name[STORE_NAME_MAX];
  uint64_t size, now; /* of the template, and of the one that is tried */
  bool there;
  _Alignas(8) uint8_t bytes[FILE_MAX];
  _Alignas(8) uint8_t tried[FILE_MAX], after[FILE_MAX];
} files[FILES];

static const struct persist_params params = {
  .dir = dir, .slab_size = SAMPLE_SLAB, .slabs = SLABS, .lease_s = 30
};

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

static void
clean_up (void)
{
  char command[128];

  snprintf (command, sizeof command, "rm -rf '%s'", dir);
  if (system (command) != 0)
    perror (dir);
}

static void
slab_file (unsigned slab)
{
  char name[STORE_NAME_MAX];
  int fd;

  backing_name (slab, 0, name);
  fd = openat (dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  FUZZ_CHECK (fd >= 0 && ftruncate (fd, SAMPLE_SLAB) == 0);
  close (fd);
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
    FUZZ_CHECK (persist_volume_set_members (v, &members) == 0);
    FUZZ_CHECK (persist_volume_map (v, 2, &map) == 0);
    map[0] = 96;
  }
  persist_volume_close (v);
  for (unsigned i = 0; i < 2; i++) {
    const struct persist_label l = { .volume = r.uuid,
                                     .piece = 5 + i,
                                     .generation = 1,
                                     .state = i == 1 && with_all
                                                  ? PERSIST_LOST
                                                  : PERSIST_LABELLED };

    persist_label (p, 2 * nr + i, &l);
  }
}

static void
read_file (const struct file *f, uint8_t *to, uint64_t *size)
{
  int fd = openat (dir_fd, f->name, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read (fd, to, FILE_MAX);

  FUZZ_CHECK (n >= 0 && n < (ssize_t) FILE_MAX);
  *size = (uint64_t) n;
  if (fd >= 0)
    close (fd);
}

static void
start (void)
{
  struct persist *p;
  struct statfs fs;
  struct fp_uuid uuid = { { 0 } };
  char text[FP_UUID_STR_MAX];

  if (dir[0] != '\0')
    return;
  snprintf (dir, sizeof dir, "/dev/shm/farpage-fuzz.XXXXXX");
  if (statfs ("/dev/shm", &fs) < 0 || fs.f_type != TMPFS_MAGIC ||
      !mkdtemp (dir)) {
    printf ("SKIP: no tmpfs at /dev/shm\n");
    exit (77);
  }
  FUZZ_CHECK (atexit (clean_up) == 0);
  dir_fd = open (dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fp_log_set_sink (sink, NULL);
  base = event_base_new ();
  FUZZ_CHECK (dir_fd >= 0 && base);
  srv.base = base;
  FUZZ_CHECK (mailbox_new (&srv.mailbox, base) == 0);
  FUZZ_CHECK (persist_open (&p, &params, why) == 0);
  make_volume (p, 1, "one", true);
  make_volume (p, 2, "", false);
  persist_close (p);
  snprintf (files[0].name, STORE_NAME_MAX, "state");
  for (unsigned i = 1; i < FILES; i++) {
    uuid.bytes[0] = (uint8_t) i;
    fp_uuid_format (&uuid, text);
    snprintf (files[i].name, STORE_NAME_MAX, "volume-%s", text);
  }
  for (unsigned i = 0; i < FILES; i++)
    read_file (&files[i], files[i].bytes, &files[i].size);
}

/* ---- what is tried ---- */

static void
mend (struct file *f, uint64_t at, size_t length)
{
  static _Alignas(8) uint8_t value[FILE_MAX];
  struct cell *c = (struct cell *) (f->tried + at);
  uint64_t turn;

  if (at + CELL_SIZE (length) > f->now)
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
mend_all (struct file *f)
{
  if (f == &files[0]) {
    mend (f, 0, sizeof (struct persist_header));
    for (uint64_t at = SLABS_AT; at < f->now; at += SLAB_CELL)
      mend (f, at, sizeof (struct persist_label));
  }
  else {
    mend (f, 0, sizeof (struct persist_record));
    mend (f, MEMBERS_AT, persist_members_size);
  }
}

static void
change (struct fuzz_input *in)
{
  unsigned what = (unsigned) fuzz_take (in, 1);
  struct file *f = &files[(what & 3) % FILES];
  const uint8_t *p;
  uint64_t at;
  size_t n;

  if (what & 0x20) {
    f->there = false;
    return;
  }
  if (what & 0x40) {
    f->now = FP_MIN (fuzz_take (in, 1) * 256, (uint64_t) FILE_MAX - PAGE);
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

/* A page of zeros is none: a list or a map that was never made. */
static void
write_file (const struct file *f)
{
  static const uint8_t zeros[PAGE];
  int fd;

  if (!f->there) {
    FUZZ_CHECK (unlinkat (dir_fd, f->name, 0) == 0 || errno == ENOENT);
    return;
  }
  fd = openat (dir_fd, f->name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  FUZZ_CHECK (fd >= 0 && ftruncate (fd, (off_t) f->now) == 0);
  for (uint64_t at = 0; at < f->now; at += PAGE) {
    size_t n = FP_MIN ((size_t) PAGE, (size_t) (f->now - at));

    if (memcmp (f->tried + at, zeros, n) != 0)
      FUZZ_CHECK (pwrite (fd, f->tried + at, n, (off_t) at) == (ssize_t) n);
  }
  close (fd);
}

static void
check_unchanged (void)
{
  uint64_t size;

  for (unsigned i = 0; i < FILES; i++) {
    struct file *f = &files[i];

    read_file (f, f->after, &size);
    if (!f->there && i == 0)
      continue; /* a new one, perhaps */
    FUZZ_CHECK (size == (f->there ? f->now : 0));
    FUZZ_CHECK (memcmp (f->after, f->tried, size) == 0);
  }
}

/* Each volume can be told of, and is within what a server takes. */
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

  TAILQ_FOREACH (r, &srv.records, entry)
  {
    FUZZ_CHECK (record_pieces (r) <= MAX_PIECES);
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
      FUZZ_CHECK (r->slabs[i]->label.piece < record_pieces (r));
      FUZZ_CHECK (r->slabs[i]->label.copy < FP_WIRE_COPIES_MAX);
    }
    if (!r->map)
      continue;
    words += fp_div_round_up (record_bits (r), 64);
    FUZZ_CHECK (record_bits (r) % 64 == 0 ||
                r->map[record_bits (r) / 64] >> record_bits (r) % 64 == 0);
  }
  FUZZ_CHECK (words == srv.map_words);
}

/* As server.c does it; nothing listens, and no thread runs. */
static void
take_up (struct persist *p)
{
  struct pool_params q = { .slab = { .size = SAMPLE_SLAB,
                                     .hugepages = HUGEPAGES_OFF,
                                     .numa = -1,
                                     .store = persist_store (p) },
                           .slabs = SLABS,
                           .mailbox = srv.mailbox,
                           .freed = on_freed,
                           .ctx = &srv,
                           .left = record_left,
                           .moved = record_moved };
  uint32_t made;
  int r;

  srv.options = &options;
  srv.persist = p;
  srv.map_words = 0;
  srv.nr_records = 0;
  TAILQ_INIT (&srv.fresh);
  TAILQ_INIT (&srv.sessions);
  TAILQ_INIT (&srv.waiting);
  TAILQ_INIT (&srv.records);
  r = pool_new (&srv.pool, &q, &made);
  FUZZ_CHECK (r == 0);
  r = record_take_up_all (&srv);
  FUZZ_CHECK (r <= 0);
  if (r == 0)
    check_records ();
  record_free_all (&srv);
  pool_free (srv.pool);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz_input in = { data, size };
  struct persist *p = NULL;
  int r;

  start ();
  for (unsigned i = 0; i < FILES; i++) {
    struct file *f = &files[i];

    f->there = true;
    f->now = f->size;
    memset (f->tried, 0, sizeof f->tried);
    memcpy (f->tried, f->bytes, f->size);
  }
  for (unsigned i = 0; in.left > 0 && i < STEPS; i++)
    change (&in);
  for (unsigned i = 0; i < SLABS; i++)
    slab_file (i);
  for (unsigned i = 0; i < FILES; i++)
    write_file (&files[i]);

  r = persist_open (&p, &params, why);
  FUZZ_CHECK (r <= 0);
  if (r < 0) {
    FUZZ_CHECK (why[0] != '\0' && memchr (why, '\0', sizeof why) != NULL);
    check_unchanged ();
    return 0;
  }
  take_up (p);
  persist_close (p);
  return 0;
}

/* Set a field of so many bytes, in both copies of the cell that it is in. */
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
  case 0: /* as it was */
    *p++ = 3;
    break;
  case 1:
  case 2:
  case 3: /* one is missing */
    *p++ = (uint8_t) (0x20 | (nr - 1));
    break;
  case 4:
  case 5:
  case 6: /* one is cut off */
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
    p = LABEL (piece, 98);
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
  case 18: /* the list of members: how many there are; an address */
    p = field (p, 1, MEMBERS_AT, persist_members_size, 8, 8, 65);
    break;
  case 19:
    p = field (p, 1, MEMBERS_AT, persist_members_size, 32, 8, 0x2020);
    break;
  case 20: /* a bit of a sum */
    memcpy (p, "\1\0\x0a\1\x55", 5);
    p += 5;
    break;
  case 21:
    p = RECORD (client, '"');
    break;
  case 22: /* the map */
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
