/* SPDX-License-Identifier: BSD-3-Clause */
/* test-persist.c - the state that a memory server finds after a restart. */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/magic.h>
#include <sys/vfs.h>

#include "base/error.h"
#include "base/uuid.h"
#include "memserver/store/persist.h"

#define SLABS 8u
#define SLAB (UINT64_C (1) << 20)
#define WORDS 2u /* words of a map of 100 extents */

static char top[64], dir[80];
static struct fp_error error;
static const struct fp_uuid u1 = { .bytes = { 1 } }, u2 = { .bytes = { 2 } };

static int
run (const char *command)
{
  char text[256];

  snprintf (text, sizeof text, "cd '%s' && %s", top, command);
  return system (text);
}

static int
setup (void **state)
{
  struct statfs fs;

  (void) state;
  snprintf (top, sizeof top, "/dev/shm/farpage-test.XXXXXX");
  if (statfs ("/dev/shm", &fs) < 0 || fs.f_type != TMPFS_MAGIC ||
      !mkdtemp (top)) {
    top[0] = '\0';
    return 0;
  }
  snprintf (dir, sizeof dir, "%s/b", top);
  return 0;
}

static int
teardown (void **state)
{
  char text[128];

  (void) state;
  if (top[0] == '\0')
    return 0;
  snprintf (text, sizeof text, "rm -rf '%s'", top);
  return system (text);
}

static int
open_with (struct persist **out, uint64_t slab_size, uint32_t slabs)
{
  const struct persist_params p = {
    .dir = dir, .slab_size = slab_size, .slabs = slabs, .lease_s = 30
  };

  return persist_open (out, &p, &error);
}

static struct persist *
open_it (void)
{
  struct persist *p;
  int r = open_with (&p, SLAB, SLABS);

  if (r < 0)
    fail_msg ("%s", error.text);
  return p;
}

/* Make the slabs' files, as the pool does. */
static void
make_slabs (void)
{
  assert_int_equal (run ("for i in 0 1 2 3 4 5 6 7; do truncate -s 1M "
                         "b/slab-$i; done"),
                    0);
}

/* ---- a sequence of changes, and the state after each ---- */

static struct persist_volume *v1, *v2;

static struct persist_record
record (const struct fp_uuid *uuid, const char *name, uint64_t epoch)
{
  struct persist_record r = { .uuid = *uuid,
                              .size = 99 * SLAB + 1,
                              .epoch = epoch,
                              .copies = 1,
                              .servers = 2,
                              .stripe_width = 3,
                              .stripe_shift = 16,
                              .flags = PERSIST_KEPT };

  snprintf (r.name, sizeof r.name, "%s", name);
  return r;
}

static void
make_1 (struct persist *p)
{
  struct persist_record r = record (&u1, "one", 0);

  assert_int_equal (persist_volume_new (&v1, p, &r), 0);
}

static void
make_2 (struct persist *p)
{
  struct persist_record r = record (&u2, "", 0);

  assert_int_equal (persist_volume_new (&v2, p, &r), 0);
}

static void
attach_1 (struct persist *p)
{
  struct persist_record r = record (&u1, "one", 1);

  (void) p;
  r.flags |= PERSIST_ATTACHED;
  persist_volume_save (v1, &r);
}

static void
label (struct persist *p, uint32_t slab, const struct fp_uuid *uuid,
       uint64_t extent, uint64_t generation)
{
  struct persist_label l = { .volume = *uuid,
                             .extent = extent,
                             .generation = generation,
                             .state = PERSIST_LABELLED };

  persist_label (p, slab, &l);
}

static void
label_3 (struct persist *p)
{
  label (p, 3, &u1, 5, 1);
}

static void
label_4 (struct persist *p)
{
  label (p, 4, &u2, 99, 7);
}

static void
relabel_3 (struct persist *p)
{
  label (p, 3, &u1, 6, 2);
}

static void
members_1 (struct persist *p)
{
  struct fp_members m = { .version = 9, .count = 2 };

  (void) p;
  m.members[0].server = u1;
  m.members[1].server = u2;
  snprintf (m.members[0].addr, sizeof m.members[0].addr, "host:0");
  m.members[1].current = true;
  snprintf (m.members[1].addr, sizeof m.members[1].addr, "host:1");
  snprintf (m.members[0].domain, sizeof m.members[0].domain, "rack");
  assert_int_equal (persist_volume_set_members (v1, &m), 0);
}

static void
map_1 (struct persist *p)
{
  uint64_t *map;

  (void) p;
  assert_int_equal (persist_volume_map (v1, WORDS, &map), 0);
  map[1] = 0x10;
}

static void
unlabel_3 (struct persist *p)
{
  persist_unlabel (p, 3);
}

static void
doom_1 (struct persist *p)
{
  (void) p;
  persist_volume_doom (v1);
}

static void
doom_2 (struct persist *p)
{
  (void) p;
  persist_volume_doom (v2);
}

static void
unlabel_4 (struct persist *p)
{
  persist_unlabel (p, 4);
}

static void
delete_2 (struct persist *p)
{
  (void) p;
  persist_volume_delete (v2);
}

static void
delete_1 (struct persist *p)
{
  (void) p;
  persist_volume_delete (v1);
}

static const struct step {
  void (*change) (struct persist *p);
  unsigned volumes; /* bits: u1, u2 */
  uint64_t epoch_1, generation_3, generation_4, members_1, map_1;
} steps[] = {
  { NULL, 0, 0, 0, 0, 0, 0 },         { make_1, 1, 0, 0, 0, 0, 0 },
  { attach_1, 1, 1, 0, 0, 0, 0 },     { label_3, 1, 1, 1, 0, 0, 0 },
  { make_2, 3, 1, 1, 0, 0, 0 },       { label_4, 3, 1, 1, 7, 0, 0 },
  { members_1, 3, 1, 1, 7, 9, 0 },    { relabel_3, 3, 1, 2, 7, 9, 0 },
  { map_1, 3, 1, 2, 7, 9, 0x10 },     { doom_2, 1, 1, 2, 0, 9, 0x10 },
  { unlabel_4, 1, 1, 2, 0, 9, 0x10 }, { delete_2, 1, 1, 2, 0, 9, 0x10 },
  { doom_1, 0, 0, 0, 0, 0, 0 },       { unlabel_3, 0, 0, 0, 0, 0, 0 },
  { delete_1, 0, 0, 0, 0, 0, 0 },
};
#define STEPS (sizeof steps / sizeof steps[0])

static void
expect_label (struct persist *p, uint32_t slab, uint64_t generation)
{
  struct persist_label l = persist_labelled (p, slab);

  assert_int_equal (l.state, generation > 0 ? PERSIST_LABELLED : PERSIST_FREE);
  assert_int_equal (l.generation, generation);
}

static void
expect (const struct step *s)
{
  static struct persist_found f;
  struct persist *p = open_it ();
  unsigned volumes = 0;

  for (uint32_t i = 0; i < SLABS; i++)
    expect_label (p, i,
                  i == 3   ? s->generation_3
                  : i == 4 ? s->generation_4
                           : 0);
  while (persist_next_found (p, &f)) {
    bool one = fp_uuid_eq (&f.record.uuid, &u1);

    volumes |= one ? 1 : 2;
    assert_int_equal (f.record.size, 99 * SLAB + 1);
    if (one) {
      assert_string_equal (f.record.name, "one");
      assert_int_equal (f.record.epoch, s->epoch_1);
      assert_int_equal (f.members.version, s->members_1);
      assert_int_equal (f.map ? f.map[1] : 0, s->map_1);
      assert_int_equal (f.map ? f.map[0] : 0, 0);
    }
    if (one && s->members_1 > 0) {
      assert_int_equal (f.members.count, 2);
      assert_string_equal (f.members.members[1].addr, "host:1");
      assert_string_equal (f.members.members[0].domain, "rack");
      assert_true (f.members.members[1].current);
      assert_false (f.members.members[0].current);
    }
    persist_volume_close (f.v);
  }
  assert_int_equal (volumes, s->volumes);
  persist_close (p);
}

/* The process makes the first n changes and dies without closing anything. */
static void
test_prefixes (void **state)
{
  (void) state;
  if (top[0] == '\0')
    skip ();
  for (unsigned n = 0; n < STEPS; n++) {
    pid_t child;
    int status;

    assert_int_equal (run ("rm -rf b"), 0);
    child = fork ();
    assert_int_not_equal (child, -1);
    if (child == 0) {
      struct persist *p = open_it ();

      make_slabs ();
      for (unsigned i = 1; i <= n; i++)
        steps[i].change (p);
      _exit (0);
    }
    assert_int_equal (waitpid (child, &status, 0), child);
    assert_int_equal (status, 0);
    expect (&steps[n]);
    expect (&steps[n]); /* opening it changed nothing */
  }
}

static struct persist *
with_all (void)
{
  struct persist *p = open_it ();

  make_slabs ();
  for (unsigned i = 1; i <= 8; i++)
    steps[i].change (p);
  return p;
}

static void
close_all (struct persist *p)
{
  persist_volume_close (v1);
  persist_volume_close (v2);
  persist_close (p);
}

static void
test_same_server (void **state)
{
  struct persist *p;
  struct fp_uuid a, b;

  (void) state;
  if (top[0] == '\0')
    skip ();
  p = open_it ();
  a = persist_server (p);
  assert_false (fp_uuid_is_nil (&a));
  persist_close (p);
  p = open_it ();
  b = persist_server (p);
  assert_true (fp_uuid_eq (&a, &b));
  persist_close (p);
  assert_int_equal (run ("rm -r b"), 0);
  p = open_it ();
  b = persist_server (p);
  assert_false (fp_uuid_eq (&a, &b));
  assert_int_equal (store_holds (dir, "slab-"), 0);
  persist_close (p);
}

/* Labels of a volume that was being deleted, unfinished files, and slabs
 * beyond the number are removed.
 */
static void
test_tidy (void **state)
{
  struct stat st;
  struct persist *p;
  char name[128];

  (void) state;
  if (top[0] == '\0')
    skip ();
  p = with_all ();
  persist_volume_doom (v2);
  close_all (p);
  assert_int_equal (run (": >b/volume-x.new; : >b/state.new; : >b/slab-8"), 0);
  p = open_it ();
  expect_label (p, 3, 2);
  expect_label (p, 4, 0);
  persist_close (p);
  assert_int_equal (run ("! ls b/*.new b/slab-8 b/volume-02* 2>/dev/null"), 0);
  snprintf (name, sizeof name, "%s/slab-4", dir);
  assert_int_equal (stat (name, &st), 0); /* the pool removes it */
  /* More slabs; then fewer. */
  assert_int_equal (open_with (&p, SLAB, 5000), 0);
  expect_label (p, 3, 2);
  expect_label (p, 4999, 0);
  label (p, 4999, &u1, 1, 1);
  assert_int_equal (run ("truncate -s 1M b/slab-4999"), 0);
  persist_close (p);
  assert_int_equal (open_with (&p, SLAB, SLABS), -EINVAL);
  assert_non_null (strstr (error.text, "slab 4999 is in use"));
  assert_int_equal (open_with (&p, SLAB, 5000), 0);
  persist_unlabel (p, 4999);
  persist_close (p);
  persist_close (open_it ());
}

static void
refused (const char *spoil, int err, const char *text)
{
  struct persist *p;

  assert_int_equal (run ("rm -rf c && cp -a --sparse=always b c"), 0);
  assert_int_equal (run (spoil), 0);
  assert_int_equal (run ("cp -a b d"), 0);
  assert_int_equal (open_with (&p, SLAB, SLABS), err);
  if (!strstr (error.text, text))
    fail_msg ("%s", error.text);
  assert_int_equal (run ("diff -r b d && rm -rf b d && mv c b"), 0);
}

/* Refuse a record with a right checksum and impossible values. */
static void
refused_record (void (*spoil) (struct persist_record *r))
{
  struct persist_found f;
  struct persist *p, *q;

  assert_int_equal (run ("rm -rf c && cp -a --sparse=always b c"), 0);
  p = open_it ();
  while (persist_next_found (p, &f)) {
    if (fp_uuid_eq (&f.record.uuid, &u1)) {
      spoil (&f.record);
      persist_volume_save (f.v, &f.record);
    }
    persist_volume_close (f.v);
  }
  persist_close (p);
  assert_int_equal (open_with (&q, SLAB, SLABS), -EBADMSG);
  assert_non_null (strstr (error.text, "damaged"));
  assert_int_equal (run ("rm -rf b && mv c b"), 0);
}

static void
no_copies (struct persist_record *r)
{
  r->copies = 0;
}

static void
no_servers (struct persist_record *r)
{
  r->servers = 0;
}

static void
no_such_transport (struct persist_record *r)
{
  r->transport = 3;
}

static void
not_a_name (struct persist_record *r)
{
  snprintf (r->client, sizeof r->client, "a b");
}

static void
too_large (struct persist_record *r)
{
  r->size = UINT64_MAX;
}

/* A client could not decode a reply with these values, not even the rest of
 * it.
 */
static void
test_refused_records (void **state)
{
  (void) state;
  if (top[0] == '\0')
    skip ();
  close_all (with_all ());
  refused_record (no_copies);
  refused_record (no_servers);
  refused_record (no_such_transport);
  refused_record (not_a_name);
  refused_record (too_large);
}

static struct who
owner_of_1 (void)
{
  struct who owner = { .kind = WHO_USER, .uid = 77 };
  struct persist *p = open_it ();
  struct persist_found f;

  while (persist_next_found (p, &f)) {
    if (fp_uuid_eq (&f.record.uuid, &u1))
      owner = f.owner;
    persist_volume_close (f.v);
  }
  persist_close (p);
  return owner;
}

static void
own_1 (struct who owner)
{
  struct persist *p = open_it ();
  struct persist_found f;

  while (persist_next_found (p, &f)) {
    if (fp_uuid_eq (&f.record.uuid, &u1))
      persist_volume_set_owner (f.v, &owner);
    persist_volume_close (f.v);
  }
  persist_close (p);
}

/* A volume of an older server has no owner.  An impossible owner is refused.
 */
static void
test_owner (void **state)
{
  const struct who alice = { .kind = WHO_TLS, .name = "alice" },
                   user = { .kind = WHO_USER, .uid = 1000 };
  const struct who bad[] = { { .kind = (enum who_kind) 9 },
                             { .kind = WHO_TLS },
                             { .kind = WHO_TLS, .name = "a b" },
                             { .kind = WHO_USER, .name = "alice" } };
  struct persist *p;
  struct who found;

  (void) state;
  if (top[0] == '\0')
    skip ();
  close_all (with_all ());
  found = owner_of_1 ();
  assert_true (found.kind == WHO_NOBODY);
  own_1 (alice);
  found = owner_of_1 ();
  assert_true (who_eq (&found, &alice));
  own_1 (user);
  found = owner_of_1 ();
  assert_true (who_eq (&found, &user));
  for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_int_equal (run ("rm -rf c && cp -a --sparse=always b c"), 0);
    own_1 (bad[i]);
    assert_int_equal (open_with (&p, SLAB, SLABS), -EBADMSG);
    assert_non_null (strstr (error.text, "damaged"));
    assert_int_equal (run ("rm -rf b && mv c b"), 0);
  }
}

static void
test_refused_lists (void **state)
{
  static const struct fp_members bad[] = {
    { .version = 9, .count = 0 },
    { .version = 9, /* none is current */
      .count = 1,
      .members = { { .server = { { 1 } }, .addr = "a:1" } } },
    { .version = 9,
      .count = 1,
      .members = { { .server = { { 1 } }, .current = true } } }
  };
  struct persist_record r = record (&u1, "one", 0);
  struct persist *p;

  (void) state;
  if (top[0] == '\0')
    skip ();
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    p = open_it ();
    assert_int_equal (persist_volume_new (&v1, p, &r), 0);
    assert_int_equal (persist_volume_set_members (v1, &bad[i]), 0);
    persist_volume_close (v1);
    persist_close (p);
    assert_int_equal (open_with (&p, SLAB, SLABS), -EBADMSG);
    assert_non_null (strstr (error.text, "damaged"));
    assert_int_equal (run ("rm -rf b"), 0);
  }
}

/* Bits of extents that do not exist: 100 is the first. */
static void
test_refused_maps (void **state)
{
  static const unsigned bits[] = { 100, 127, 128, 4095 };
  struct persist_record r = record (&u1, "one", 0);
  struct persist *p;
  uint64_t *map;

  (void) state;
  if (top[0] == '\0')
    skip ();
  for (size_t i = 0; i <= sizeof bits / sizeof bits[0]; i++) {
    unsigned bit = i == 0 ? 99 : bits[i - 1];

    p = open_it ();
    assert_int_equal (persist_volume_new (&v1, p, &r), 0);
    assert_int_equal (persist_volume_map (v1, WORDS, &map), 0);
    map[bit / 64] = UINT64_C (1) << (bit % 64);
    persist_volume_close (v1);
    persist_close (p);
    assert_int_equal (open_with (&p, SLAB, SLABS), i == 0 ? 0 : -EBADMSG);
    if (i == 0)
      persist_close (p);
    else
      assert_non_null (strstr (error.text, "damaged"));
    assert_int_equal (run ("rm -rf b"), 0);
  }
}

static void
test_refused_label (void **state)
{
  struct persist_record r = record (&u1, "one", 0);
  const struct persist_label l = { .volume = u1,
                                   .copy = FP_WIRE_COPIES_MAX,
                                   .state = PERSIST_LABELLED };
  struct persist *p;

  (void) state;
  if (top[0] == '\0')
    skip ();
  p = open_it ();
  assert_int_equal (persist_volume_new (&v1, p, &r), 0);
  persist_volume_close (v1);
  persist_label (p, 0, &l);
  persist_close (p);
  make_slabs ();
  assert_int_equal (open_with (&p, SLAB, SLABS), -EBADMSG);
  assert_non_null (strstr (error.text, "label of slab 0"));
}

static void
test_refused (void **state)
{
  struct persist *p, *q;

  (void) state;
  if (top[0] == '\0')
    skip ();
  assert_int_equal (open_with (&q, UINT64_C (1) << 50, SLABS), -ENOSPC);
  assert_non_null (strstr (error.text, "has room for"));
  p = with_all ();
  assert_int_equal (open_with (&q, SLAB, SLABS), -EBUSY);
  assert_non_null (strstr (error.text, "another server"));
  close_all (p);
  assert_int_equal (open_with (&q, 2 * SLAB, SLABS), -EINVAL);
  assert_non_null (strstr (error.text, "slabs of 1M, not of 2M"));
  refused ("truncate -s 0 b/state", -EBADMSG, "truncated");
  refused ("truncate -s 4095 b/state", -EBADMSG, "truncated");
  refused ("truncate -s 0 b/state && truncate -s 8192 b/state", -EBADMSG,
           "cannot be read");
  refused ("rm b/state", -EBADMSG, "no state");
  refused ("printf X | dd of=b/state bs=1 seek=4864 conv=notrunc status=none",
           -EBADMSG, "label of slab 3");
  refused ("truncate -s 4095 b/volume-01000000-*", -EBADMSG, "damaged");
  refused ("truncate -s +1 b/volume-01000000-*", -EBADMSG, "damaged");
  refused ("cp b/volume-01000000-* b/volume-z", -EBADMSG,
           "not a volume's file");
  refused ("cp b/volume-01000000-* "
           "b/volume-01234567-89ab-cdef-0123-456789abcdef",
           -EBADMSG, "damaged");
  refused ("rm b/slab-4", -ENOENT, "slab-4: it is in use");
  refused ("rm b/volume-02000000-*", -ENOENT, "slab 4 holds an extent of it");
  refused ("truncate -s 2M b/slab-4", -EBADMSG, "its size is wrong");
  refused ("rm b/slab-4; ln -s slab-5 b/slab-4", -ELOOP, "cannot be opened");
  refused ("rm b/slab-4; mkdir b/slab-4", -EISDIR, "cannot be opened");
  /* The refusals changed nothing. */
  expect (&steps[8]);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)
    TEST (test_prefixes),
    TEST (test_same_server),
    TEST (test_tidy),
    TEST (test_refused),
    TEST (test_refused_records),
    TEST (test_owner),
    TEST (test_refused_lists),
    TEST (test_refused_maps),
    TEST (test_refused_label),
  };

  return RUN_TESTS (tests);
}
