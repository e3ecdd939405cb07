/* SPDX-License-Identifier: BSD-3-Clause */
/* test-rooted.c - volumes with a name whose servers are not believed: what
 * they change or keep back is an error, while one is attached and when it is
 * attached again; and whenever its client dies, what is found is what a disk
 * could have after a power cut.
 */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/thread.h"
#include "volume-fixture.h"
#include "volume/lane.h"
#include "volume/rooted_int.h"

#define SLAB (256 * 1024)
#define SLABS 24
#define NR_SERVERS 2
#define B FP_BLOCK
#define BLOCKS (3 * FP_LEAF + 5)
#define SIZE ((uint64_t) BLOCKS * B)

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define OTHER_KEY                                                             \
  "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static char dir[32];
static char key_file[64], root_file[64], saved_file[64];
static struct fp_lane *lane;
static bool impatient; /* servers will be silent; else it is a busy machine */
static struct fp_volume_params p;
static unsigned char shadow[SIZE], buf[SIZE];

/* ---- what it is linked with instead ---- */

int __real_fp_cipher_encrypt (struct fp_cipher *c, void *out, const void *in,
                              size_t n, uint64_t number, uint64_t tag[2]);
int __wrap_fp_cipher_encrypt (struct fp_cipher *c, void *out, const void *in,
                              size_t n, uint64_t number, uint64_t tag[2]);
int __real_renameat (int a, const char *from, int b, const char *to);
int __wrap_renameat (int a, const char *from, int b, const char *to);
int __real_fsync (int fd);
int __wrap_fsync (int fd);
int __real_fp_lane_remote_flush (struct fp_lane *l);
int __wrap_fp_lane_remote_flush (struct fp_lane *l);

int __real_fp_ctl_lookup (struct fp_ctl *c, const struct fp_lookup *q,
                          struct fp_lookup_reply *a, uint64_t deadline);
int __wrap_fp_ctl_lookup (struct fp_ctl *c, const struct fp_lookup *q,
                          struct fp_lookup_reply *a, uint64_t deadline);
int __real_fp_lane_raw_read (struct fp_lane *l, void *out, uint32_t n,
                             uint64_t at);
int __wrap_fp_lane_raw_read (struct fp_lane *l, void *out, uint32_t n,
                             uint64_t at);
int __real_fp_lane_raw_zero (struct fp_lane *l, uint64_t n, uint64_t at,
                             bool trim, uint64_t made_ns);
int __wrap_fp_lane_raw_zero (struct fp_lane *l, uint64_t n, uint64_t at,
                             bool trim, uint64_t made_ns);
int __real_fp_thread_create_large (struct fp_thread *t, const char *name,
                                   void (*run) (void *), void *arg);
int __wrap_fp_thread_create_large (struct fp_thread *t, const char *name,
                                   void (*run) (void *), void *arg);

/* Servers that know a volume under that name, and have nothing of it. */
static bool lookups_lie;
static struct fp_uuid lie;

int
__wrap_fp_ctl_lookup (struct fp_ctl *c, const struct fp_lookup *q,
                      struct fp_lookup_reply *a, uint64_t deadline)
{
  if (!lookups_lie)
    return __real_fp_ctl_lookup (c, q, a, deadline);
  memset (a, 0, sizeof *a);
  a->volume.uuid = lie;
  strcpy (a->volume.name, q->name);
  a->volume.size = fp_rooted_whole (SIZE);
  a->volume.slab_size = SLAB;
  a->volume.copies = 1;
  a->volume.stripe.width = 1;
  return 0;
}

/* The next read fails, and meanwhile somebody else's finds a block that is
 * wrong.
 */
static _Atomic bool read_fails, zero_hangs, no_thread;
static _Atomic unsigned zeros_hang;
static _Atomic int reads_left = -1; /* then they fail */

int
__wrap_fp_lane_raw_read (struct fp_lane *l, void *out, uint32_t n, uint64_t at)
{
  int left = atomic_load (&reads_left);

  if (left == 0)
    return -EIO;
  if (left > 0)
    atomic_store (&reads_left, left - 1);
  if (!atomic_exchange (&read_fails, false))
    return __real_fp_lane_raw_read (l, out, n, at);
  atomic_fetch_add (&v->sealed->unreadable, 1);
  return -EIO;
}

int
__wrap_fp_lane_raw_zero (struct fp_lane *l, uint64_t n, uint64_t at, bool trim,
                         uint64_t made_ns)
{
  atomic_fetch_add (&zeros_hang, 1);
  while (atomic_load (&zero_hangs))
    usleep (1000);
  return __real_fp_lane_raw_zero (l, n, at, trim, made_ns);
}

int
__wrap_fp_thread_create_large (struct fp_thread *t, const char *name,
                               void (*run) (void *), void *arg)
{
  if (atomic_load (&no_thread) && strcmp (name, "root") == 0)
    return -EAGAIN;
  return __real_fp_thread_create_large (t, name, run, arg);
}

/* Nonces of one volume. */
#define SEEN (1u << 18)
static _Atomic uint64_t seen[SEEN];
static _Atomic unsigned nr_seen;

static void
forget_nonces (void)
{
  for (unsigned i = 0; i < SEEN; i++)
    atomic_store (&seen[i], 0);
  atomic_store (&nr_seen, 0);
}

int
__wrap_fp_cipher_encrypt (struct fp_cipher *c, void *out, const void *in,
                          size_t n, uint64_t number, uint64_t tag[2])
{
  unsigned i = (unsigned) (number * UINT64_C (0x9e3779b97f4a7c15) >> 46);

  for (;; i = (i + 1) % SEEN) {
    uint64_t none = 0;

    if (atomic_compare_exchange_strong (&seen[i], &none, number))
      break;
    if (none == number)
      fail_msg ("nonce %llu is used twice", (unsigned long long) number);
  }
  assert_true (atomic_fetch_add (&nr_seen, 1) < SEEN / 2);
  return __real_fp_cipher_encrypt (c, out, in, n, number, tag);
}

static _Atomic int rename_fails; /* so often; -1: it is done, and fails */
static _Atomic bool disk_hangs, servers_hang; /* before anything is hashed */

int
__wrap_renameat (int a, const char *from, int b, const char *to)
{
  int n = atomic_load (&rename_fails);

  if (n == 0)
    return __real_renameat (a, from, b, to);
  atomic_store (&rename_fails, n > 0 ? n - 1 : 0);
  if (n < 0)
    (void) __real_renameat (a, from, b, to);
  errno = EIO;
  return -1;
}

int
__wrap_fsync (int fd)
{
  while (atomic_load (&disk_hangs))
    usleep (1000);
  (void) fd;
  return 0;
}

int
__wrap_fp_lane_remote_flush (struct fp_lane *l)
{
  while (atomic_load (&servers_hang))
    usleep (1000);
  return __real_fp_lane_remote_flush (l);
}

/* ---- a volume ---- */

static uint64_t
rnd (uint64_t *x)
{
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x;
}

static void
write_key (const char *text)
{
  FILE *fp = fopen (key_file, "w");

  assert_non_null (fp);
  assert_true (fputs (text, fp) >= 0);
  assert_int_equal (fclose (fp), 0);
}

static void
set_params (bool make)
{
  fp_seal_key_free (p.key);
  fixture_params (&p, 0, NR_SERVERS);
  p.size = make ? SIZE : 0;
  p.lanes = 2;
  p.timeout_ms = impatient ? 150 : 2000;
  p.encrypt = FP_ENCRYPT_FILE;
  p.integrity = true;
  snprintf (p.root, sizeof p.root, "%s", root_file);
  p.key = NULL;
  assert_int_equal (fp_seal_key_read (&p.key, key_file, why), 0);
}

static int
start (void)
{
  int r = fixture_start (&p);

  lane = r == 0 ? fp_volume_lane_get (v) : NULL;
  return r;
}

static int
attach (bool make)
{
  set_params (make);
  return start ();
}

static void
end (void)
{
  if (lane != NULL)
    fp_volume_lane_put (lane);
  lane = NULL;
  detach ();
}

/* The client is gone, with all that it was doing. */
static void
die (void)
{
  atomic_store (&v->taken, true);
  fake_ctl_fault_at (1, FAKE_CTL_DIE);
  end ();
  fake_ctl_fault_at (0, FAKE_CTL_REFUSE);
  fp_fake_fault_at (0, FP_FAKE_ERROR);
}

static void
up (void)
{
  unlink (root_file);
  forget_nonces ();
  fixture_up (NR_SERVERS, SLAB, SLABS);
  must (attach (true));
  memset (shadow, 0, SIZE);
}

static void
down (void)
{
  if (v != NULL)
    end ();
  fp_seal_key_free (p.key);
  p.key = NULL;
  fixture_down (NULL);
  unlink (root_file);
}

/* After a test that failed, too. */
static int
clean (void **state)
{
  (void) state;
  atomic_store (&disk_hangs, false);
  atomic_store (&servers_hang, false);
  atomic_store (&rename_fails, 0);
  atomic_store (&read_fails, false);
  atomic_store (&zero_hangs, false);
  atomic_store (&no_thread, false);
  atomic_store (&reads_left, -1);
  lookups_lie = false;
  impatient = false;
  if (v != NULL)
    die ();
  write_key ("encrypt:" KEY "\n");
  down ();
  return 0;
}

static struct fp_seal_status
seal (void)
{
  struct fp_volume_status s;

  fp_volume_status (v, &s);
  return s.seal;
}

static int
try_put (uint64_t block, unsigned char byte)
{
  memset (buf, byte, B);
  return fp_lane_write (lane, buf, B, block * B);
}

static void
put_byte (uint64_t block, unsigned char byte)
{
  assert_int_equal (try_put (block, byte), 0);
}

static int
get_byte (uint64_t block)
{
  int r;

  memset (buf, 0xee, B);
  r = fp_lane_read (lane, buf, B, block * B);
  for (unsigned i = 1; r == 0 && i < B; i++)
    assert_int_equal (buf[i], buf[0]);
  return r < 0 ? r : buf[0];
}

static void
flip (uint64_t offset)
{
  unsigned char byte;

  assert_int_equal (fp_lane_raw_read (lane, &byte, 1, offset), 0);
  byte ^= 16;
  assert_int_equal (fp_lane_raw_write (lane, &byte, 1, offset, 0), 0);
}

/* All that the servers have, or had. */
static unsigned char *
snapshot (void)
{
  unsigned char *all = malloc ((size_t) NR_SERVERS * SLAB * SLABS);

  assert_non_null (all);
  for (unsigned i = 0; i < NR_SERVERS; i++)
    memcpy (all + (size_t) i * SLAB * SLABS,
            fp_fake_server_memory (fake_server_data (servers[i])),
            (size_t) SLAB * SLABS);
  return all;
}

static void
restore (const unsigned char *all)
{
  for (unsigned i = 0; i < NR_SERVERS; i++)
    memcpy (fp_fake_server_memory (fake_server_data (servers[i])),
            all + (size_t) i * SLAB * SLABS, (size_t) SLAB * SLABS);
}

static void
copy_file (const char *from, const char *to)
{
  char bytes[4096];
  FILE *in = fopen (from, "r"), *out = fopen (to, "w");
  size_t n;

  assert_non_null (in);
  assert_non_null (out);
  n = fread (bytes, 1, sizeof bytes, in);
  assert_int_equal (fwrite (bytes, 1, n, out), n);
  fclose (in);
  assert_int_equal (fclose (out), 0);
}

static void
same_as_shadow (void)
{
  memset (buf, 0xee, SIZE);
  assert_int_equal (fp_lane_read (lane, buf, SIZE, 0), 0);
  assert_memory_equal (buf, shadow, SIZE);
}

/* ---- which record may be used ---- */

static uint64_t
newest_up_to (const uint64_t slots[FP_RECORDS], uint64_t bound)
{
  uint64_t best = 0;

  for (unsigned i = 0; i < FP_RECORDS; i++)
    if (slots[i] <= bound && slots[i] > best)
      best = slots[i];
  return best;
}

static void
test_roles (void **state)
{
  uint64_t x = 1234567;

  (void) state;
  for (unsigned round = 0; round < 300; round++) {
    uint64_t slots[FP_RECORDS] = { 0 }, next = 1, version = 0;
    struct fp_bounds b = { 0, 0 };
    uint8_t roles = 0;
    bool trouble = false;

    for (unsigned i = 0; i < 300; i++) {
      unsigned what = (unsigned) (rnd (&x) % 5);
      uint8_t now = fp_roles_now (roles, version, &b);
      unsigned set = fp_roles_free (now);

      next += rnd (&x) % 3; /* others write */
      assert_int_not_equal (set, 0);
      if (what == 0 && b.closed == b.durable && !trouble) {
        b.closed = next - 1;
      }
      else if (what == 1) {
        b.durable = b.closed;
      }
      else if (what > 1) {
        unsigned slot;

        do
          slot = (unsigned) (rnd (&x) % FP_RECORDS);
        while (!(set >> slot & 1));
        /* It is none that is needed. */
        if (slots[slot] > 0) {
          assert_true (slots[slot] != version);
          assert_true (slots[slot] != newest_up_to (slots, b.durable));
          assert_true (slots[slot] != newest_up_to (slots, b.closed));
        }
        slots[slot] = next;
        if (rnd (&x) % 4 == 0) { /* it fails: what it was is not known */
          next++;
          trouble = true;
          continue;
        }
        trouble = false;
        version = next++;
        roles = fp_roles_wrote (now, slot);
      }
    }
  }
}

static void
test_record (void **state)
{
  const uint8_t key[FP_MAC_KEY] = { 1, 2, 3 };
  struct fp_record a = { .version = 77, .tag = { 5, 6 } }, b;
  uint8_t bytes[FP_RECORD], none[FP_RECORD] = { 0 };
  struct fp_mac *mac;

  (void) state;
  assert_int_equal (fp_mac_new (&mac, key), 0);
  assert_int_equal (fp_record_encode (mac, 9, &a, bytes), 0);
  b = fp_record_decode (bytes);
  assert_memory_equal (&a.tag, &b.tag, sizeof a.tag);
  assert_int_equal (b.version, 77);
  assert_false (b.zeros);
  assert_true (fp_record_is_genuine (mac, 9, bytes));
  assert_false (fp_record_is_genuine (mac, 10, bytes));
  for (unsigned i = 0; i < FP_RECORD * 8; i++) {
    bytes[i / 8] ^= (uint8_t) (1u << i % 8);
    assert_false (fp_record_is_genuine (mac, 9, bytes));
    bytes[i / 8] ^= (uint8_t) (1u << i % 8);
  }
  assert_true (fp_record_is_genuine (mac, 9, bytes));
  assert_true (fp_record_is_genuine (mac, 9, none));
  assert_int_equal (fp_record_decode (none).version, 0);
  a.zeros = true;
  assert_int_equal (fp_record_encode (mac, 9, &a, bytes), 0);
  assert_true (fp_record_decode (bytes).zeros);
  assert_int_equal (fp_record_decode (bytes).version, 77);
  fp_mac_free (mac);
}

static void
test_hashes (void **state)
{
  /* RFC 4231, 4.2, whose key has 20 bytes and then zeros, which change
   * nothing; FIPS 180-2, B.1.
   */
  static const uint8_t hmac[4] = { 0xb0, 0x34, 0x4c, 0x61 };
  static const uint8_t sha[4] = { 0xba, 0x78, 0x16, 0xbf };
  uint8_t key[FP_MAC_KEY] = { 0 }, out[FP_HASH];
  struct fp_digest *d;
  struct fp_mac *m;

  (void) state;
  memset (key, 0x0b, 20);
  assert_int_equal (fp_mac_new (&m, key), 0);
  assert_int_equal (fp_digest_new (&d), 0);
  for (unsigned i = 0; i < 3; i++) {
    assert_int_equal (fp_mac (m, "Hi There", 8, out), 0);
    assert_memory_equal (out, hmac, sizeof hmac);
    assert_int_equal (fp_digest (d, "abc", 3, out), 0);
    assert_memory_equal (out, sha, sizeof sha);
  }
  fp_mac_free (m);
  fp_digest_free (d);
}

static void
test_tree (void **state)
{
  static const uint64_t sizes[] = { 1, FP_LEAF, FP_LEAF + 1, FP_LEAF * FP_LEAF,
                                    FP_LEAF * FP_LEAF * 3 + 7 };

  (void) state;
  assert_true (fp_seal_tree_memory (0) < 100); /* what is not known yet */
  for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    uint8_t a[FP_HASH], b[FP_HASH], hash[FP_HASH];
    struct fp_seal_tree *t;
    struct fp_digest *d;
    uint64_t leaves, n = 0;

    assert_int_equal (fp_seal_tree_new (&t, sizes[s]), 0);
    assert_int_equal (fp_digest_new (&d), 0);
    leaves = fp_seal_tree_leaves (t);
    for (uint64_t i = fp_seal_tree_next (t, 0); i < leaves;
         i = fp_seal_tree_next (t, i + 1), n++) {
      memset (hash, (int) (i % 251), sizeof hash);
      fp_seal_tree_set (t, i, hash);
    }
    assert_int_equal (n, leaves);
    assert_int_equal (fp_seal_tree_root (t, d, a), 0);
    for (uint64_t i = 0; i < leaves; i += 1 + leaves / 7) {
      fp_seal_tree_touch (t, i);
      assert_false (fp_seal_tree_closing (t, i));
      fp_seal_tree_close (t);
      assert_true (fp_seal_tree_closing (t, i));
      assert_int_equal (fp_seal_tree_next (t, 0), i);
      memset (hash, 0xff, sizeof hash);
      fp_seal_tree_set (t, i, hash);
      assert_int_equal (fp_seal_tree_next (t, 0), leaves);
      assert_int_equal (fp_seal_tree_root (t, d, b), 0);
      assert_memory_not_equal (a, b, sizeof a);
      memset (hash, (int) (i % 251), sizeof hash);
      fp_seal_tree_set (t, i, hash);
      assert_int_equal (fp_seal_tree_root (t, d, b), 0);
      assert_memory_equal (a, b, sizeof a);
    }
    fp_seal_tree_free (t);
    fp_digest_free (d);
  }
}

static void
test_sizes (void **state)
{
  (void) state;
  for (uint64_t n = 1; n < 3000; n++)
    assert_int_equal (fp_rooted_size (fp_rooted_whole (n * B)), n * B);
  assert_int_equal (fp_rooted_whole (32 * B), 33 * B);
  assert_int_equal (fp_rooted_size (34 * B), 0);
  assert_int_equal (fp_rooted_size (B), 0);
  assert_int_equal (fp_rooted_size (33 * B + 512), 0);
}

/* ---- what is written is what is read ---- */

static void
some_op (uint64_t *x)
{
  uint64_t at = rnd (x) % SIZE, n = 1 + rnd (x) % 300000;
  unsigned what = (unsigned) (rnd (x) % 8);

  if (what < 3) {
    at -= at % B;
    n += B - n % B;
  }
  if (n > SIZE - at)
    n = SIZE - at;
  if (rnd (x) % 4 == 0) {
    memset (shadow + at, 0, n);
    assert_int_equal (fp_lane_zero (lane, n, at, rnd (x) % 2), 0);
  }
  else {
    for (uint64_t i = 0; i < n; i++)
      shadow[at + i] = (unsigned char) (rnd (x) >> 20);
    assert_int_equal (fp_lane_write (lane, shadow + at, (uint32_t) n, at), 0);
  }
  if (rnd (x) % 3 == 0)
    assert_int_equal (fp_lane_flush (lane), 0);
}

static void
test_model (void **state)
{
  uint64_t x = 88172645463325252u;

  (void) state;
  up ();
  assert_int_equal (fp_volume_size (v), SIZE);
  assert_int_equal (fp_lane_read (lane, buf, 1, SIZE), -EINVAL);
  assert_int_equal (fp_lane_write (lane, buf, B, SIZE), -EINVAL);
  assert_int_equal (fp_lane_zero (lane, B, SIZE, true), -EINVAL);
  for (unsigned round = 0; round < 8; round++) {
    for (unsigned i = 0; i < 20; i++) {
      some_op (&x);
      same_as_shadow ();
    }
    end ();
    must (attach (false));
    assert_int_equal (seal ().doubts, 0);
    same_as_shadow ();
    /* Who dies after a flush loses nothing either. */
    some_op (&x);
    assert_int_equal (fp_lane_flush (lane), 0);
    die ();
    must (attach (false));
    same_as_shadow ();
  }
  assert_int_equal (seal ().wrong, 0);
  assert_int_equal (seal ().torn, 0);
  down ();
}

/* ---- what servers change while it is attached ---- */

static void
test_changed (void **state)
{
  unsigned char one[B], two[B];

  (void) state;
  up ();
  for (uint64_t b = 0; b < 10; b++)
    put_byte (b, (unsigned char) (b + 1));
  flip (3 * B + 77);
  assert_int_equal (get_byte (3), -EIO);
  assert_int_equal (get_byte (4), 5);
  put_byte (3, 9);
  assert_int_equal (get_byte (3), 9);
  /* Older, and exchanged. */
  assert_int_equal (fp_lane_raw_read (lane, one, B, 5 * B), 0);
  put_byte (5, 100);
  assert_int_equal (fp_lane_raw_write (lane, one, B, 5 * B, 0), 0);
  assert_int_equal (get_byte (5), -EIO);
  assert_int_equal (fp_lane_raw_read (lane, one, B, 6 * B), 0);
  assert_int_equal (fp_lane_raw_read (lane, two, B, 7 * B), 0);
  assert_int_equal (fp_lane_raw_write (lane, two, B, 6 * B, 0), 0);
  assert_int_equal (fp_lane_raw_write (lane, one, B, 7 * B, 0), 0);
  assert_int_equal (get_byte (6), -EIO);
  assert_int_equal (get_byte (7), -EIO);
  assert_int_equal (seal ().unreadable, 4);
  /* What was flushed is so when it is attached again, also if its last client
   * has died; and it is not what is on the servers that was flushed.
   */
  assert_int_equal (fp_lane_flush (lane), 0);
  die ();
  must (attach (false));
  assert_int_equal (get_byte (5), -EIO);
  assert_int_equal (get_byte (6), -EIO);
  assert_int_equal (get_byte (8), 9);
  put_byte (6, 1);
  assert_int_equal (get_byte (6), 1);
  down ();
}

/* ---- what they change while it is not ---- */

static void
test_table_changed (void **state)
{
  unsigned char *whole;
  uint64_t at;

  (void) state;
  up ();
  for (uint64_t b = 0; b < BLOCKS; b++)
    put_byte (b, (unsigned char) b);
  assert_int_equal (fp_lane_flush (lane), 0);
  for (uint64_t b = 100; b < 110; b++)
    put_byte (b, 1);
  end ();
  whole = snapshot ();
  /* Of some records each byte. */
  for (unsigned i = 0; i < FP_RECORD; i += 3) {
    must (attach (false));
    at = rooted_at (v->sealed->rooted,
                    fp_roles_newest (v->sealed->rooted->roles[100 + i % 10]),
                    100 + i % 10);
    end ();
    free (whole);
    whole = snapshot ();
    must (attach (false));
    flip (at + i);
    die ();
    if (i < 24) {
      assert_int_equal (attach (false), -EUCLEAN);
      assert_non_null (strstr (why, "last flushed"));
    }
    else { /* its code says nothing that the root does not say */
      must (attach (false));
      end ();
    }
    restore (whole);
  }
  must (attach (false));
  assert_int_equal (get_byte (100), 1);
  assert_int_equal (get_byte (99), 99);
  free (whole);
  down ();
}

/* The servers go back to what they had at an earlier flush. */
static void
test_replayed (void **state)
{
  unsigned char *old;

  (void) state;
  up ();
  for (uint64_t b = 0; b < BLOCKS; b++)
    put_byte (b, 1);
  assert_int_equal (fp_lane_flush (lane), 0);
  old = snapshot ();
  copy_file (root_file, saved_file);
  put_byte (7, 2);
  assert_int_equal (fp_lane_flush (lane), 0);
  die ();
  restore (old);
  assert_int_equal (attach (false), -EUCLEAN);
  assert_non_null (strstr (why, "reroot=true"));
  assert_int_equal (attach (false), -EUCLEAN);
  /* They are believed if that is said, and then there is a root again. */
  set_params (false);
  p.reroot = true;
  must (start ());
  assert_int_equal (get_byte (7), 1);
  put_byte (8, 3);
  end ();
  must (attach (false));
  assert_int_equal (get_byte (8), 3);
  assert_int_equal (get_byte (7), 1);
  end ();
  free (old);

  /* A root file that is older than they are. */
  must (attach (false));
  copy_file (root_file, saved_file);
  end ();
  must (attach (false));
  put_byte (9, 1);
  end ();
  copy_file (saved_file, root_file);
  assert_int_equal (attach (false), -EUCLEAN);
  assert_non_null (strstr (why, "older"));
  down ();
}

/* reroot: what does not match is an error, and not what it was before. */
static void
test_reroot (void **state)
{
  (void) state;
  up ();
  for (uint64_t b = 0; b < 20; b++)
    put_byte (b, 1);
  assert_int_equal (fp_lane_zero (lane, B, 3 * B, false), 0);
  assert_int_equal (fp_lane_zero (lane, B, 4 * B, false), 0);
  put_byte (4, 2);
  flip (4 * B + 9);
  flip (5 * B + 9);
  end ();
  unlink (root_file);
  assert_int_equal (attach (false), -ENOENT);
  assert_non_null (strstr (why, "reroot=true"));
  set_params (false);
  p.reroot = true;
  must (start ());
  assert_int_equal (seal ().torn, 2);
  assert_int_equal (get_byte (2), 1);
  assert_int_equal (get_byte (3), 0);
  assert_int_equal (get_byte (4), -EIO);
  assert_int_equal (get_byte (5), -EIO);
  assert_int_equal (get_byte (6), 1);
  assert_int_equal (get_byte (100), 0);
  down ();
}

/* Of one that died, or could not go on, nothing is taken for zeros either. */
static void
test_reroot_again (void **state)
{
  (void) state;
  for (int reads = 5; reads < 9; reads++) {
    int r;

    up ();
    for (uint64_t b = 0; b < 20; b++)
      put_byte (b, 1);
    flip (5 * B + 9);
    end ();
    unlink (root_file);
    set_params (false);
    p.reroot = true;
    atomic_store (&reads_left, reads);
    r = start ();
    atomic_store (&reads_left, -1);
    if (r == 0)
      die ();
    must (attach (false));
    assert_int_equal (get_byte (2), 1);
    assert_int_equal (get_byte (5), -EIO);
    end ();
    must (attach (false));
    assert_int_equal (get_byte (2), 1);
    assert_int_equal (get_byte (5), -EIO);
    assert_int_equal (get_byte (100), 0);
    down ();
  }
}

/* Where nothing has to be believed it changes nothing. */
static void
test_reroot_needless (void **state)
{
  uint64_t before;
  int fd;

  (void) state;
  up ();
  for (uint64_t b = 0; b < 20; b++)
    put_byte (b, 1);
  assert_int_equal (fp_lane_flush (lane), 0);
  flip (5 * B + 9);
  before = atomic_load (&v->sealed->rooted->next);
  end ();
  for (unsigned i = 0; i < 30; i++) {
    set_params (false);
    p.reroot = true;
    must (start ());
    assert_int_equal (seal ().doubts, 0);
    assert_int_equal (get_byte (2), 1);
    end ();
  }
  must (attach (false));
  assert_true (atomic_load (&v->sealed->rooted->next) - before < UINT64_C (1)
                                                                     << 50);
  end ();
  /* Another process has it. */
  fd = open (root_file, O_RDONLY);
  assert_int_equal (flock (fd, LOCK_EX | LOCK_NB), 0);
  set_params (false);
  p.reroot = true;
  assert_int_equal (start (), -EBUSY);
  close (fd);
  down ();
}

/* ---- what servers say before there is a root ---- */

static void
test_lying_lookup (void **state)
{
  (void) state;
  up ();
  lie = *fp_volume_uuid (v);
  put_byte (1, 1);
  end ();
  unlink (root_file);
  /* A volume is to be made, and is said to be known as that one. */
  lookups_lie = true;
  assert_int_equal (attach (true), -EKEYREJECTED);
  assert_non_null (strstr (why, "drawn"));
  assert_int_equal (access (root_file, F_OK), -1);
  lookups_lie = false;
  down ();
  /* Not even the user's own memory goes on from the same version. */
  up ();
  assert_true (atomic_load (&v->sealed->rooted->next) > 1000000);
  down ();
}

/* The root of a volume that stays stays, too. */
static void
test_made_in_part (void **state)
{
  (void) state;
  for (unsigned full = 0; full < 2; full++) {
    bool known;

    forget_nonces ();
    fixture_up (NR_SERVERS, SLAB, SLABS);
    set_params (true);
    p.reserve_full = full;
    atomic_store (&no_thread, true);
    assert_int_equal (start (), -EAGAIN);
    atomic_store (&no_thread, false);
    known = fake_server_knows (servers[0]) || fake_server_knows (servers[1]);
    assert_int_equal (access (root_file, F_OK) == 0, known);
    must (attach (!known));
    put_byte (1, 1);
    end ();
    must (attach (false));
    assert_int_equal (get_byte (1), 1);
    down ();
  }
}

/* ---- its client dies ---- */

/* What a block was at the last flush that was over, and every byte that was
 * written to it since: any of that may be there.
 */
static unsigned char legal[BLOCKS][64];
static unsigned nr_legal[BLOCKS];

static void
now_legal (uint64_t block, unsigned char byte)
{
  assert_true (nr_legal[block] < 64);
  legal[block][nr_legal[block]++] = byte;
}

static void
flushed (void)
{
  for (unsigned b = 0; b < BLOCKS; b++) {
    legal[b][0] = legal[b][nr_legal[b] - 1];
    nr_legal[b] = 1;
  }
}

static void
all_legal (void)
{
  for (uint64_t b = 0; b < BLOCKS; b++) {
    int is = get_byte (b);
    bool ok = false;

    for (unsigned i = 0; i < nr_legal[b]; i++)
      ok |= is == legal[b][i];
    if (!ok)
      fail_msg ("block %u is %d", (unsigned) b, is);
  }
}

static int
do_put (uint64_t first, unsigned n, unsigned char byte)
{
  for (unsigned i = 0; i < n; i++)
    now_legal (first + i, byte);
  memset (buf, byte, (size_t) n * B);
  return fp_lane_write (lane, buf, n * B, first * B);
}

static int
do_zero (uint64_t first, unsigned n, bool trim)
{
  for (unsigned i = 0; i < n; i++)
    now_legal (first + i, 0);
  return fp_lane_zero (lane, (uint64_t) n * B, first * B, trim);
}

static int
do_flush (void)
{
  int r = fp_lane_flush (lane);

  if (r == 0)
    flushed ();
  return r;
}

/* Until something fails. */
static int
exercise (void)
{
  int r = 0;

  for (unsigned i = 0; i < 2; i++) {
    unsigned char c = (unsigned char) (10 * i + 1);

    r = r < 0 ? r : do_put (1, 2, c);
    r = r < 0 ? r : do_put (126, 4, c);
    r = r < 0 ? r : do_put (1, 1, (unsigned char) (c + 1));
    r = r < 0 ? r : do_zero (128, 1, true);
    r = r < 0 ? r : do_flush ();
    r = r < 0 ? r : do_put (127, 2, (unsigned char) (c + 2));
    r = r < 0 ? r : do_put (127, 2, (unsigned char) (c + 3));
    r = r < 0 ? r : do_zero (1, 1, false);
    r = r < 0 ? r : do_put (2, 1, (unsigned char) (c + 4));
    r = r < 0 ? r : do_put (300, 1, (unsigned char) (c + 5));
    r = r < 0 ? r : do_flush ();
    r = r < 0 ? r : do_put (2, 1, (unsigned char) (c + 6));
  }
  return r;
}

static void
begin_legal (void)
{
  for (unsigned b = 0; b < BLOCKS; b++) {
    legal[b][0] = 0;
    nr_legal[b] = 1;
  }
}

/* Each of four tests tries every fourth fault point. */
#define DIES 4u

static void
dies (unsigned first)
{
  bool fired = true;
  unsigned doubts = 0, n;

  for (n = first; fired; n += DIES) {
    impatient = true;
    up ();
    impatient = false;
    begin_legal ();
    fp_fake_fault_at (n, FP_FAKE_DIE);
    (void) exercise ();
    fired = fp_fake_died ();
    die ();
    must (attach (false));
    doubts += seal ().doubts > 0;
    assert_int_equal (seal ().torn, 0);
    all_legal ();
    flushed ();
    for (unsigned b = 0; b < BLOCKS; b++)
      legal[b][0] = (unsigned char) get_byte (b); /* it stays so */
    die ();
    must (attach (false));
    all_legal ();
    assert_true (exercise () == 0);
    end ();
    must (attach (false));
    all_legal ();
    down ();
  }
  print_message ("to point %u by %u, %u with blocks in doubt\n", n - DIES,
                 DIES, doubts);
  assert_true (n > 40);
  assert_true (doubts > 20 / DIES);
}

static void
test_dies (void **state)
{
  (void) state;
  dies (1);
}

static void
test_dies_2 (void **state)
{
  (void) state;
  dies (2);
}

static void
test_dies_3 (void **state)
{
  (void) state;
  dies (3);
}

static void
test_dies_4 (void **state)
{
  (void) state;
  dies (4);
}

/* And when whoever comes next dies while it finds out. */
static void
test_dies_again (void **state)
{
  (void) state;
  for (unsigned first = 20; first < 60; first += 19) {
    bool fired = true;

    /* When it has connected. */
    for (unsigned n = 8; fired && n < 200; n += 1 + n / 5) {
      impatient = true;
      up ();
      begin_legal ();
      fp_fake_fault_at (first, FP_FAKE_DIE);
      (void) exercise ();
      die ();
      fp_fake_fault_at (n, FP_FAKE_DIE);
      if (attach (false) == 0)
        die ();
      impatient = false;
      fired = fp_fake_died ();
      fp_fake_fault_at (0, FP_FAKE_ERROR);
      must (attach (false));
      all_legal ();
      assert_int_equal (seal ().torn, 0);
      down ();
    }
  }
}

/* What is written is not what is flushed if the servers change what was not:
 * but nobody else's, and no garbage.
 */
static void
test_doubt_changed (void **state)
{
  (void) state;
  up ();
  put_byte (1, 1);
  put_byte (2, 1);
  assert_int_equal (fp_lane_flush (lane), 0);
  put_byte (1, 2);
  put_byte (2, 2);
  put_byte (3, 2);
  flip (B + 5);
  die ();
  must (attach (false));
  assert_int_equal (seal ().doubts, 3);
  assert_int_equal (seal ().torn, 1);
  assert_int_equal (get_byte (1), -EIO);
  assert_int_equal (get_byte (2), 2);
  assert_int_equal (get_byte (3), 2);
  put_byte (1, 7);
  assert_int_equal (get_byte (1), 7);
  die ();
  must (attach (false));
  assert_true (get_byte (1) == 7 || get_byte (1) == -EIO);
  down ();
}

/* ---- writes that fail ---- */

static void
test_failed_writes (void **state)
{
  unsigned failed = 0, n;
  bool fired = true;

  (void) state;
  for (n = 1; fired; n++) {
    int r, is;

    up ();
    begin_legal ();
    assert_int_equal (do_put (0, 4, 1), 0);
    assert_int_equal (do_flush (), 0);
    fp_fake_fault_at (n, FP_FAKE_ERROR);
    r = do_put (1, 2, 2);
    if (r == 0)
      r = do_zero (2, 1, true);
    if (r == 0)
      r = do_put (300, 1, 9);
    fired = fp_fake_fault_fired ();
    fp_fake_fault_at (0, FP_FAKE_ERROR);
    failed += r < 0;
    is = get_byte (1);
    assert_true (is == 1 || is == 2);
    /* What it turned out to be is what it is. */
    assert_int_equal (fp_lane_flush (lane), 0);
    assert_int_equal (seal ().troubled, 0);
    all_legal ();
    is = get_byte (1);
    die ();
    must (attach (false));
    assert_int_equal (seal ().doubts, 0);
    assert_int_equal (get_byte (1), is);
    all_legal ();
    down ();
  }
  print_message ("%u points, %u failed\n", n - 1, failed);
}

/* A block that could not be read when it was to be mended is as it was. */
static void
test_mend_later (void **state)
{
  int is;

  (void) state;
  up ();
  put_byte (1, 1);
  assert_int_equal (fp_lane_flush (lane), 0);
  fp_fake_fault_at (2, FP_FAKE_ERROR); /* of the block, not of the record */
  assert_int_not_equal (try_put (1, 2), 0);
  fp_fake_fault_at (0, FP_FAKE_ERROR);
  assert_int_equal (seal ().troubled, 1);
  atomic_store (&read_fails, true);
  assert_int_equal (fp_lane_flush (lane), -EIO);
  assert_int_equal (seal ().torn, 0);
  assert_int_equal (fp_lane_flush (lane), 0);
  is = get_byte (1);
  assert_true (is == 1 || is == 2);
  down ();
}

/* ---- the root file ---- */

static void
test_root_file (void **state)
{
  FILE *fp;
  struct stat st;

  (void) state;
  up ();
  put_byte (1, 1);
  /* Another process has it. */
  assert_int_equal (stat (root_file, &st), 0);
  assert_int_equal (st.st_mode & 0777, 0600);
  end ();
  copy_file (root_file, saved_file);

  unlink (root_file);
  assert_int_equal (attach (false), -ENOENT);
  for (long at = 0; at < 120; at += 7) {
    int c;

    copy_file (saved_file, root_file);
    fp = fopen (root_file, "r+");
    assert_non_null (fp);
    fseek (fp, at, SEEK_SET);
    c = getc (fp);
    fseek (fp, at, SEEK_SET);
    putc (c ^ 1, fp);
    fclose (fp);
    assert_int_equal (attach (false), -EBADMSG);
    assert_non_null (strstr (why, "damaged"));
  }
  for (long length = 0; length < 120; length += 17) {
    copy_file (saved_file, root_file);
    assert_int_equal (truncate (root_file, length), 0);
    assert_int_equal (attach (false), -EBADMSG);
  }
  copy_file (saved_file, root_file);
  fp = fopen (root_file, "a");
  putc ('x', fp);
  fclose (fp);
  assert_int_equal (attach (false), -EBADMSG);
  /* A directory that is not there. */
  set_params (false);
  strcpy (p.root, "/nowhere/at/all");
  assert_int_equal (start (), -ENOENT);

  copy_file (saved_file, root_file);
  set_params (false);
  p.integrity = false;
  p.root[0] = '\0';
  assert_int_equal (start (), -EKEYREJECTED);
  assert_non_null (strstr (why, "made with integrity=on"));
  write_key ("encrypt:" OTHER_KEY "\n");
  assert_int_equal (attach (false), -EKEYREJECTED);
  write_key ("encrypt:" KEY "\n");
  assert_int_equal (attach (true), 0);
  assert_int_equal (get_byte (1), 1);
  end ();

  /* It is there, and the volume is not. */
  set_params (true);
  strcpy (p.name, "other");
  assert_int_equal (fp_volume_probe (&p, why), -EBADMSG);
  assert_non_null (strstr (why, "remove it"));
  set_params (true);
  p.size += 512;
  strcpy (p.name, "other");
  assert_int_equal (fp_volume_probe (&p, why), -EINVAL);
  /* Another process has it; and leftovers of one that died. */
  {
    int fd = open (root_file, O_RDONLY);
    char other[80];

    assert_int_equal (flock (fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal (attach (false), -EBUSY);
    snprintf (other, sizeof other, "process %ld ", (long) getpid ());
    assert_non_null (strstr (why, other));
    close (fd);
    snprintf (other, sizeof other, "%s.new", root_file);
    copy_file (key_file, other);
    must (attach (false));
    assert_int_equal (access (other, F_OK), -1);
    end ();
  }
  down ();
}

/* It is where the name leads to; and one that was replaced by another
 * process's is not replaced again.
 */
static void
test_root_name (void **state)
{
  char real[80];
  struct stat st;

  (void) state;
  up ();
  put_byte (1, 1);
  end ();
  snprintf (real, sizeof real, "%s.real", root_file);
  assert_int_equal (rename (root_file, real), 0);
  assert_int_equal (symlink (real, root_file), 0);
  must (attach (false));
  put_byte (1, 2);
  assert_int_equal (fp_lane_flush (lane), 0);
  assert_int_equal (lstat (root_file, &st), 0);
  assert_true (S_ISLNK (st.st_mode));
  end ();
  unlink (root_file);
  assert_int_equal (rename (real, root_file), 0);

  must (attach (false));
  copy_file (root_file, saved_file);
  assert_int_equal (unlink (root_file), 0);
  copy_file (saved_file, root_file);
  put_byte (1, 3);
  assert_int_equal (fp_lane_flush (lane), -EIO);
  assert_non_null (strstr (seal ().why, strerror (ESTALE)));
  die ();
  must (attach (false));
  assert_true (get_byte (1) == 3 || get_byte (1) == 2);
  down ();
}

/* One that is not encrypted with a root is not taken for one that is. */
static void
test_without (void **state)
{
  (void) state;
  unlink (root_file);
  fixture_up (NR_SERVERS, SLAB, SLABS);
  set_params (true);
  p.integrity = false;
  p.root[0] = '\0';
  must (start ());
  end ();
  assert_int_equal (attach (false), -EKEYREJECTED);
  assert_non_null (strstr (why, "without integrity=on"));
  assert_int_equal (access (root_file, F_OK), -1);
  down ();
}

/* A root that cannot be written: what is flushed next is in one that can. */
static void
test_root_fails (void **state)
{
  (void) state;
  for (int how = -1; how <= 2; how++) {
    if (how == 0)
      continue;
    for (unsigned later = 0; later < 3; later++) {
      up ();
      begin_legal ();
      assert_int_equal (do_put (1, 3, 1), 0);
      assert_int_equal (do_flush (), 0);
      assert_int_equal (do_put (1, 3, 2), 0);
      atomic_store (&rename_fails, how);
      assert_int_equal (do_flush (), -EIO);
      assert_true (seal ().why[0] != '\0');
      assert_int_equal (do_put (1, 2, 3), 0);
      assert_int_equal (do_put (1, 1, 4), 0);
      assert_int_equal (do_put (1, 1, 5), 0);
      assert_int_equal (do_put (1, 1, 6), 0);
      if (later == 1)
        (void) do_flush ();
      atomic_store (&rename_fails, 0);
      if (later == 2) {
        assert_int_equal (do_flush (), 0);
        assert_true (seal ().why[0] == '\0');
      }
      die ();
      must (attach (false));
      all_legal ();
      assert_int_equal (seal ().torn, 0);
      down ();
    }
  }
}

/* ---- a slow disk ---- */

static _Atomic int flush_result;

static void
flush_once (void *arg)
{
  atomic_store (&flush_result, fp_lane_flush (arg));
}

static void
test_slow_disk (void **state)
{
  struct fp_thread t;
  uint64_t deadline;

  (void) state;
  for (unsigned i = 0; i < 4; i++) {
    _Atomic bool *hangs = i / 2 ? &servers_hang : &disk_hangs;
    bool dies = i % 2;

    up ();
    begin_legal ();
    assert_int_equal (do_put (0, 200, 1), 0);
    assert_int_equal (do_flush (), 0);
    assert_int_equal (do_put (0, 200, 2), 0);
    atomic_store (hangs, true);
    atomic_store (&flush_result, 1);
    assert_int_equal (fp_thread_create_large (&t, "flush", flush_once, lane),
                      0);
    deadline = fp_deadline_in_ms (10000);
    while (atomic_load (&v->sealed->rooted->closed) ==
           atomic_load (&v->sealed->rooted->durable))
      assert_false (fp_deadline_passed (deadline));
    /* Nobody else waits for it. */
    for (unsigned k = 0; k < 8; k++) {
      assert_int_equal (do_put (k * 20, 100, (unsigned char) (k + 3)), 0);
      assert_int_equal (get_byte (k * 20), k + 3);
    }
    assert_int_equal (do_zero (10, 5, true), 0);
    assert_int_equal (atomic_load (&flush_result), 1);
    if (dies) { /* before it is there */
      copy_file (root_file, saved_file);
      atomic_store (hangs, false);
      assert_int_equal (fp_thread_join (&t), 0);
      die ();
      copy_file (saved_file, root_file);
    }
    else {
      atomic_store (hangs, false);
      assert_int_equal (fp_thread_join (&t), 0);
      assert_int_equal (atomic_load (&flush_result), 0);
      die ();
    }
    must (attach (false));
    assert_int_equal (seal ().torn, 0);
    all_legal ();
    down ();
  }
}

/* ---- the gate ---- */

static _Atomic int write_result;

static void
write_once (void *arg)
{
  unsigned char bytes[B];

  memset (bytes, 9, B);
  atomic_store (&write_result, fp_lane_write (arg, bytes, B, B));
}

static void
hold_servers (bool on)
{
  for (unsigned i = 0; i < NR_SERVERS; i++) {
    fp_fake_server_hold (fake_server_data (servers[i]), on);
    while (!on && fp_fake_server_release (fake_server_data (servers[i]), 0, 0))
      continue;
  }
}

/* A flush is of no write that is half done. */
static void
test_gate (void **state)
{
  struct fp_thread w, f;
  uint64_t closed;

  (void) state;
  up ();
  put_byte (1, 1);
  assert_int_equal (fp_lane_flush (lane), 0);
  put_byte (2, 2);
  closed = atomic_load (&v->sealed->rooted->closed);
  hold_servers (true);
  assert_int_equal (fp_thread_create_large (&w, "write", write_once, lane), 0);
  for (unsigned held = 0; held == 0; usleep (1000))
    for (unsigned i = 0; i < NR_SERVERS; i++)
      held += fp_fake_server_held (fake_server_data (servers[i]));
  assert_int_equal (fp_thread_create_large (&f, "flush", flush_once, lane), 0);
  usleep (100000);
  assert_int_equal (atomic_load (&v->sealed->rooted->closed), closed);
  hold_servers (false);
  assert_int_equal (fp_thread_join (&w), 0);
  assert_int_equal (fp_thread_join (&f), 0);
  assert_int_equal (atomic_load (&write_result), 0);
  assert_int_equal (atomic_load (&flush_result), 0);
  assert_true (atomic_load (&v->sealed->rooted->closed) > closed);
  die ();
  must (attach (false));
  assert_int_equal (get_byte (1), 9);
  assert_int_equal (get_byte (2), 2);
  assert_int_equal (seal ().doubts, 0);
  down ();
}

/* A server has lost what it had: that is EIO, and all else is as it was. */
static void
test_lost (void **state)
{
  (void) state;
  for (unsigned attached = 0; attached < 2; attached++) {
    struct fp_pieces *t;
    unsigned lost, n = 0;

    up ();
    for (uint64_t b = 0; b < BLOCKS; b++)
      put_byte (b, 1);
    assert_int_equal (fp_lane_flush (lane), 0);
    for (uint64_t b = 0; b < BLOCKS; b++)
      put_byte (b, 2);
    t = v->pieces;
    /* The records are behind the last block. */
    lost = 1 - atomic_load (&t->p[SIZE / SLAB].server);
    if (attached) {
      fake_server_cut (servers[lost]);
      fake_server_lose (servers[lost]);
      fake_server_revive (servers[lost]);
      for (uint64_t b = 0; b < BLOCKS; b++)
        (void) try_put (b, 3);
      assert_int_equal (fp_lane_flush (lane), 0);
      assert_int_equal (fp_lane_flush (lane), 0);
      end ();
    }
    else {
      die ();
      fake_server_lose (servers[lost]);
    }
    must (attach (false));
    for (uint64_t b = 0; b < BLOCKS; b++) {
      int is = get_byte (b);

      n += is == -EIO;
      if (is != -EIO)
        assert_int_equal (is, attached ? 3 : 2);
    }
    assert_true (n > 0 && n < BLOCKS);
    assert_int_equal (seal ().torn > 0, !attached);
    assert_int_equal (fp_lane_flush (lane), 0);
    down ();
  }
}

/* Nobody flushes: so much is not in doubt when it dies that it takes long. */
static void
test_unasked (void **state)
{
  uint64_t deadline, roots;

  (void) state;
  up ();
  roots = seal ().roots;
  v->sealed->rooted->behind = 50;
  for (uint64_t b = 0; b < 40; b++)
    put_byte (b, 1);
  usleep (1500000);
  assert_int_equal (seal ().roots, roots);
  for (uint64_t b = 40; b < 100; b++)
    put_byte (b, 1);
  deadline = fp_deadline_in_ms (20000);
  while (seal ().roots == roots)
    assert_false (fp_deadline_passed (deadline));
  usleep (2500000);
  assert_true (seal ().roots - roots <= 2);
  die ();
  must (attach (false));
  assert_true (seal ().doubts < 100);
  assert_int_equal (get_byte (99), 1);
  down ();
}

static void
zero_once (void *arg)
{
  atomic_store (&write_result, fp_lane_zero (arg, 100 * B, 0, false));
}

/* Nor does it wait for servers to zero what they have: the records say so. */
static void
test_gate_zero (void **state)
{
  struct fp_thread t;

  (void) state;
  impatient = true;
  up ();
  for (uint64_t b = 0; b < 100; b++)
    put_byte (b, 1);
  assert_int_equal (fp_lane_flush (lane), 0);
  atomic_store (&zeros_hang, 0);
  atomic_store (&zero_hangs, true);
  assert_int_equal (fp_thread_create_large (&t, "zero", zero_once, lane), 0);
  while (atomic_load (&zeros_hang) == 0)
    usleep (1000);
  assert_int_equal (fp_lane_flush (lane), 0);
  put_byte (200, 3);
  atomic_store (&zero_hangs, false);
  assert_int_equal (fp_thread_join (&t), 0);
  assert_int_equal (atomic_load (&write_result), 0);
  die ();
  must (attach (false));
  assert_int_equal (get_byte (1), 0);
  down ();
}

/* ---- everybody at once ---- */

#define WORKERS 3u
#define EACH 40u /* blocks */
#define ROUNDS 300u

static _Atomic unsigned char wrote[WORKERS * EACH], kept[WORKERS * EACH];
static _Atomic bool working;

static void
work (void *arg)
{
  unsigned number = *(unsigned *) arg;
  struct fp_lane *mine = fp_volume_lane_get (v);
  unsigned char *bytes = malloc (EACH * B);
  uint64_t x = 77u * (number + 1);

  assert_non_null (bytes);
  for (unsigned i = 0; i < ROUNDS; i++) {
    unsigned n = 1 + (unsigned) (rnd (&x) % 4);
    unsigned first = (unsigned) (rnd (&x) % (EACH - n));

    /* Blocks of the workers are side by side. */
    for (unsigned k = 0; k < n; k++) {
      unsigned b = (first + k) * WORKERS + number;
      unsigned char c = (unsigned char) (atomic_load (&wrote[b]) + 1);

      if (c == 200)
        continue;
      memset (bytes, c, B);
      assert_int_equal (fp_lane_write (mine, bytes, B, (uint64_t) b * B), 0);
      atomic_store (&wrote[b], c);
    }
    if (i % 8 == 0)
      usleep (200); /* for a flush to come in between */
  }
  free (bytes);
  fp_volume_lane_put (mine);
}

static void
flush_often (void *arg)
{
  struct fp_lane *mine = fp_volume_lane_get (v);

  (void) arg;
  while (atomic_load (&working)) {
    unsigned char was[WORKERS * EACH];

    for (unsigned i = 0; i < WORKERS * EACH; i++)
      was[i] = atomic_load (&wrote[i]);
    assert_int_equal (fp_lane_flush (mine), 0);
    for (unsigned i = 0; i < WORKERS * EACH; i++)
      atomic_store (&kept[i], was[i]);
  }
  fp_volume_lane_put (mine);
}

static void
test_all_at_once (void **state)
{
  unsigned numbers[WORKERS];
  struct fp_thread t[WORKERS], f;

  (void) state;
  up ();
  for (unsigned i = 0; i < WORKERS * EACH; i++) {
    atomic_store (&wrote[i], 0);
    atomic_store (&kept[i], 0);
  }
  atomic_store (&working, true);
  for (unsigned i = 0; i < WORKERS; i++) {
    numbers[i] = i;
    assert_int_equal (
        fp_thread_create_large (&t[i], "work", work, &numbers[i]), 0);
  }
  assert_int_equal (fp_thread_create_large (&f, "flush", flush_often, NULL),
                    0);
  for (unsigned i = 0; i < WORKERS; i++)
    assert_int_equal (fp_thread_join (&t[i]), 0);
  atomic_store (&working, false);
  assert_int_equal (fp_thread_join (&f), 0);
  print_message ("%u roots\n", (unsigned) seal ().roots);
  assert_true (seal ().roots > 0);
  die ();
  must (attach (false));
  for (unsigned i = 0; i < WORKERS * EACH; i++) {
    int is = get_byte (i);

    assert_true (is >= atomic_load (&kept[i]) &&
                 is <= atomic_load (&wrote[i]));
  }
  assert_int_equal (seal ().torn, 0);
  down ();
}

/* ---- holes ---- */

static void
test_extents (void **state)
{
  uint64_t length;
  bool hole;

  (void) state;
  up ();
  put_byte (5, 1);
  fp_volume_extent (v, 0, SIZE, &hole, &length);
  assert_true (hole);
  assert_int_equal (length, 5 * B);
  fp_volume_extent (v, 5 * B + 1, SIZE, &hole, &length);
  assert_false (hole);
  assert_int_equal (length, B - 1);
  fp_volume_extent (v, 6 * B, SIZE, &hole, &length);
  assert_true (hole);
  assert_int_equal (length, SIZE - 6 * B);
  down ();
}

static int
setup (void **state)
{
  (void) state;
  strcpy (dir, "/tmp/farpage-root-XXXXXX");
  if (mkdtemp (dir) == NULL)
    return 1;
  snprintf (key_file, sizeof key_file, "%s/key", dir);
  snprintf (root_file, sizeof root_file, "%s/root", dir);
  snprintf (saved_file, sizeof saved_file, "%s/saved", dir);
  write_key ("encrypt:" KEY "\n");
  return chmod (key_file, 0600);
}

static int
teardown (void **state)
{
  clean (state);
  unlink (key_file);
  unlink (saved_file);
  unlink (root_file);
  return rmdir (dir);
}

#define TEST(f) cmocka_unit_test_setup_teardown (f, setup, teardown)

int
main (int argc, char *argv[])
{
  const struct CMUnitTest tests[] = {
    TEST (test_hashes),        TEST (test_roles),
    TEST (test_record),        TEST (test_tree),
    TEST (test_sizes),         TEST (test_model),
    TEST (test_changed),       TEST (test_table_changed),
    TEST (test_replayed),      TEST (test_reroot),
    TEST (test_dies),          TEST (test_dies_2),
    TEST (test_dies_3),        TEST (test_dies_4),
    TEST (test_dies_again),    TEST (test_doubt_changed),
    TEST (test_failed_writes), TEST (test_root_file),
    TEST (test_without),       TEST (test_root_fails),
    TEST (test_slow_disk),     TEST (test_gate),
    TEST (test_all_at_once),   TEST (test_extents),
    TEST (test_reroot_again),  TEST (test_reroot_needless),
    TEST (test_lying_lookup),  TEST (test_made_in_part),
    TEST (test_mend_later),    TEST (test_gate_zero),
    TEST (test_root_name),     TEST (test_unasked),
    TEST (test_lost),
  };

  if (argc > 1) { /* some of them */
    cmocka_set_test_filter (argv[1]);
    return RUN_TESTS (tests);
  }
  return RUN_TESTS (tests);
}
