/* SPDX-License-Identifier: BSD-3-Clause */
/* test-backup.c - the ring and the disk of a backup, by itself: what is read
 * is what was put last, or an error.
 */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "volume/backup.h"

#define BLOCK FP_BACKUP_BLOCK
#define SIZE (4u << 20)
#define LAG (1u << 20)
#define TAIL 512 /* of a volume that ends in the middle of a block */
#define DATA_AT (1u << 20)

static char dir[] = "/var/tmp/farpage-backup-XXXXXX";
static char path[sizeof dir + 16];
static struct fp_backup_params params;
static unsigned char *shadow, *buf;
static uint64_t seed;
static char why[FP_WHY_MAX];

static uint64_t
rnd (uint64_t *x)
{
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x;
}

static void
fill (unsigned char *p, size_t n, uint64_t *x)
{
  for (size_t i = 0; i + 8 <= n; i += 8) {
    uint64_t r = rnd (x);

    memcpy (p + i, &r, 8);
  }
}

static struct rlimit file_limit; /* what it was at the start */

static int
setup (void **state)
{
  (void) state;
  if (getrlimit (RLIMIT_FSIZE, &file_limit) == -1)
    return 1;
  params = (struct fp_backup_params) {
    .path = path,
    .size = SIZE + TAIL,
    .lag = LAG,
    .stuck_ms = 60000,
  };
  assert_int_equal (fp_uuid_generate (&params.uuid), 0);
  shadow = calloc (1, SIZE + BLOCK);
  buf = malloc (SIZE + BLOCK);
  return shadow == NULL || buf == NULL;
}

static int
teardown (void **state)
{
  (void) state;
  /* A test that fails must not fail the others. */
  setrlimit (RLIMIT_FSIZE, &file_limit);
  unlink (path);
  free (shadow);
  free (buf);
  return 0;
}

static struct fp_backup *
make (void)
{
  struct fp_backup *b = NULL;
  int r = fp_backup_new (&b, &params, why);

  if (r < 0)
    print_message ("%s\n", why);
  assert_int_equal (r, 0);
  return b;
}

static void
check_all (struct fp_backup *b)
{
  memset (buf, 0x5a, SIZE + TAIL);
  assert_int_equal (fp_backup_get (b, buf, SIZE + TAIL, 0), 0);
  assert_memory_equal (buf, shadow, SIZE + TAIL);
}

/* The newest, whether it is in the ring, in flight, on the disk, or zeros. */
static void
test_random (void **state)
{
  struct fp_backup *b = make ();
  uint64_t x = seed;

  (void) state;
  for (unsigned i = 0; i < 4000; i++) {
    uint64_t at = rnd (&x) % (SIZE / BLOCK + 1);
    uint64_t n = 1 + rnd (&x) % (rnd (&x) % 16 == 0 ? SIZE / BLOCK : 8);
    uint64_t offset = at * BLOCK, length = n * BLOCK;

    if (offset + length > SIZE + TAIL)
      length = SIZE + TAIL - offset;
    switch (rnd (&x) % 8) {
    case 0:
      fp_backup_zero (b, length, offset, false);
      memset (shadow + offset, 0, length);
      break;
    case 1:
      if (i % 16 == 0)
        assert_int_equal (fp_backup_flush (b), 0);
      break;
    case 2:
    case 3:
      offset += rnd (&x) % BLOCK;
      if (offset >= SIZE + TAIL)
        break;
      if (length > SIZE + TAIL - offset)
        length = SIZE + TAIL - offset;
      assert_int_equal (fp_backup_get (b, buf, length, offset), 0);
      assert_memory_equal (buf, shadow + offset, length);
      break;
    default:
      fill (shadow + offset, length, &x);
      assert_int_equal (
          fp_backup_put (b, shadow + offset, length, offset, false), 0);
    }
  }
  check_all (b);
  fp_backup_free (b, true);
}

/* After a flush the file has it all: nothing of it was in memory alone. */
static void
test_flush (void **state)
{
  struct fp_backup_counts c;
  struct fp_backup *b = make ();
  uint64_t x = seed;
  int fd;

  (void) state;
  fill (shadow, SIZE, &x);
  for (unsigned n = 0; n < 3; n++) {
    fill (shadow + n * BLOCK, BLOCK, &x);
    assert_int_equal (fp_backup_put (b, shadow, SIZE, 0, false), 0);
  }
  assert_int_equal (fp_backup_flush (b), 0);
  fp_backup_counts (b, &c);
  assert_int_equal (c.behind, 0);
  assert_int_equal (c.missing, 0);
  fd = open (path, O_RDONLY | O_CLOEXEC);
  assert_true (fd >= 0);
  assert_int_equal (pread (fd, buf, SIZE, DATA_AT), SIZE);
  assert_memory_equal (buf, shadow, SIZE);
  close (fd);
  assert_int_equal (fp_backup_flush (b), 0); /* nothing to do */
  check_all (b);
  fp_backup_free (b, true);
}

/* Few blocks wait for others, but not for a flush. */
static void
test_few (void **state)
{
  uint64_t end = fp_deadline_in_ms (60000);
  struct fp_backup *b = make ();
  struct fp_backup_counts c;

  (void) state;
  memset (shadow, 3, 2 * BLOCK);
  assert_int_equal (fp_backup_put (b, shadow, 2 * BLOCK, 0, false), 0);
  do {
    assert_false (fp_deadline_passed (end));
    usleep (2000);
    fp_backup_counts (b, &c);
  } while (c.behind > 0);
  assert_int_equal (c.bytes_written, 2 * BLOCK);
  check_all (b);
  fp_backup_free (b, true);
}

/* What was there before is not what it has. */
static void
test_again (void **state)
{
  struct fp_backup *b = make ();
  uint64_t x = seed, run;

  (void) state;
  fill (buf, SIZE, &x);
  assert_int_equal (fp_backup_put (b, buf, SIZE, 0, false), 0);
  fp_backup_free (b, false);
  b = make ();
  check_all (b); /* zeros */
  fp_backup_free (b, false);

  params.resumed = true;
  b = make ();
  assert_int_equal (fp_backup_get (b, buf, BLOCK, 0), -EIO);
  assert_false (fp_backup_is_valid (b, 0, SIZE, &run));
  assert_int_equal (run, SIZE);
  memcpy (shadow, "new", 4);
  assert_int_equal (fp_backup_put (b, shadow, BLOCK, BLOCK, false), 0);
  assert_int_equal (fp_backup_get (b, buf, BLOCK, BLOCK), 0);
  assert_memory_equal (buf, shadow, BLOCK);
  assert_int_equal (fp_backup_get (b, buf, 2 * BLOCK, 0), -EIO);
  assert_false (fp_backup_is_valid (b, 0, SIZE, &run));
  assert_int_equal (run, BLOCK);
  /* Nor is what was forgotten, whether it has landed or not. */
  fp_backup_forget (b, BLOCK, BLOCK);
  assert_int_equal (fp_backup_get (b, buf, BLOCK, BLOCK), -EIO);
  assert_int_equal (fp_backup_flush (b), 0);
  assert_int_equal (fp_backup_get (b, buf, BLOCK, BLOCK), -EIO);
  fp_backup_free (b, true);
}

static void
test_local (void **state)
{
  struct fp_backup *b = make ();
  uint64_t run;

  (void) state;
  assert_false (fp_backup_any_local (b));
  assert_int_equal (fp_backup_alone (b), 0);
  memset (shadow, 7, 3 * BLOCK);
  assert_int_equal (fp_backup_put (b, shadow, 3 * BLOCK, 0, true), 0);
  assert_true (fp_backup_any_local (b));
  assert_true (fp_backup_is_local (b, BLOCK + 1, SIZE - BLOCK - 1, &run));
  assert_int_equal (run, 2 * BLOCK - 1);
  assert_false (fp_backup_is_local (b, 3 * BLOCK, BLOCK, &run));
  fp_backup_zero (b, BLOCK, BLOCK, false);
  memset (shadow + BLOCK, 0, BLOCK);
  assert_false (fp_backup_is_local (b, BLOCK, BLOCK, &run));
  check_all (b);
  /* Not to be discarded: then it is all on the disk. */
  fp_backup_free (b, false);
  {
    int fd = open (path, O_RDONLY | O_CLOEXEC);

    assert_true (fd >= 0);
    assert_int_equal (pread (fd, buf, BLOCK, DATA_AT), BLOCK);
    assert_memory_equal (buf, shadow, BLOCK);
    close (fd);
  }
  /* And nobody may go on with that volume; with a new one, yes. */
  params.resumed = true;
  assert_int_equal (fp_backup_check (&params, why), -EUCLEAN);
  assert_non_null (strstr (why, "cannot be taken up again"));
  params.resumed = false;
  assert_int_equal (fp_backup_check (&params, why), 0);
  b = make ();
  fp_backup_free (b, true);
}

static void
write_file (const char *text)
{
  FILE *fp = fopen (path, "w");

  assert_non_null (fp);
  assert_true (fputs (text, fp) >= 0);
  assert_int_equal (fclose (fp), 0);
}

static void
test_refused (void **state)
{
  struct fp_backup *b, *other = NULL;
  struct stat st;
  int fd;

  (void) state;
  /* A check leaves nothing. */
  assert_int_equal (fp_backup_check (&params, why), 0);
  assert_int_equal (stat (path, &st), -1);
  write_file ("somebody's letters\n");
  assert_int_equal (fp_backup_check (&params, why), -EEXIST);
  assert_int_equal (fp_backup_new (&other, &params, why), -EEXIST);
  assert_int_equal (stat (path, &st), 0);
  assert_int_equal (st.st_size, 19);
  unlink (path);
  assert_int_equal (mkdir (path, 0700), 0);
  assert_int_equal (fp_backup_check (&params, why), -EINVAL);
  assert_int_equal (rmdir (path), 0);
  params.path = "/nowhere/at/all";
  assert_int_equal (fp_backup_check (&params, why), -ENOENT);
  assert_non_null (strstr (why, "backup=/nowhere/at/all: "));
  params.path = path;

  b = make ();
  assert_int_equal (fp_backup_check (&params, why), -EBUSY);
  assert_int_equal (fp_backup_new (&other, &params, why), -EBUSY);
  fp_backup_free (b, true);
  fd = open (path, O_RDWR | O_CLOEXEC);
  assert_true (fd >= 0);
  assert_int_equal (flock (fd, LOCK_SH), 0);
  assert_int_equal (fp_backup_check (&params, why), -EBUSY);
  close (fd);
  params.size = UINT64_C (1) << 50;
  params.reserve = true;
  assert_int_equal (fp_backup_check (&params, why), -ENOSPC);
}

static void
check_failed (struct fp_backup *b, const char *reason)
{
  struct fp_backup_counts c;

  assert_true (fp_backup_failed (b));
  fp_backup_counts (b, &c);
  assert_true (c.failed);
  print_message ("%s\n", c.why);
  assert_non_null (strstr (c.why, reason));
  assert_int_equal (fp_backup_get (b, buf, BLOCK, 0), -EIO);
  assert_int_equal (fp_backup_put (b, shadow, BLOCK, 0, true), -EIO);
  assert_int_equal (fp_backup_flush (b), -EIO);
  assert_int_equal (fp_backup_alone (b), -EIO);
}

/* The disk takes no more. */
static void
test_write_error (void **state)
{
  struct rlimit limit = file_limit;
  struct fp_backup *b = make ();
  uint64_t run;
  int r;

  (void) state;
  assert_int_equal (fp_backup_alone (b), 0);
  assert_int_equal (fp_backup_put (b, shadow, 2 * BLOCK, 0, true), 0);
  assert_int_equal (fp_backup_flush (b), 0);
  signal (SIGXFSZ, SIG_IGN);
  limit.rlim_cur = DATA_AT + SIZE / 2 + 1000;
  assert_int_equal (setrlimit (RLIMIT_FSIZE, &limit), 0);
  /* The first blocks may have failed before the last are in the ring. */
  r = fp_backup_put (b, shadow, LAG / 2, SIZE / 2 - BLOCK, true);
  assert_true (r == 0 || r == -EIO);
  assert_int_equal (fp_backup_flush (b), -EIO);
  assert_int_equal (setrlimit (RLIMIT_FSIZE, &file_limit), 0);
  check_failed (b, "write: ");
  /* What the servers have again is not EIO any more. */
  assert_true (fp_backup_is_local (b, 0, 2 * BLOCK, &run));
  assert_int_equal (fp_backup_put (b, shadow, BLOCK, 0, false), -EIO);
  assert_false (fp_backup_is_local (b, 0, 2 * BLOCK, &run));
  assert_int_equal (run, BLOCK);
  fp_backup_free (b, true);
}

/* Somebody has cut the file. */
static void
test_read_error (void **state)
{
  struct fp_backup *b = make ();

  (void) state;
  memset (shadow, 9, SIZE);
  assert_int_equal (fp_backup_put (b, shadow, SIZE, 0, false), 0);
  assert_int_equal (fp_backup_flush (b), 0);
  assert_int_equal (truncate (path, DATA_AT + BLOCK / 2), 0);
  assert_int_equal (fp_backup_get (b, buf, 2 * BLOCK, 0), -EIO);
  check_failed (b, "read: ");
  fp_backup_free (b, true);
}

struct writer {
  struct fp_thread thread;
  struct fp_backup *b;
  uint64_t at, x;
};
#define WRITERS 4

static void
run_writer (void *arg)
{
  struct writer *w = arg;
  uint64_t span = SIZE / WRITERS;
  unsigned char *tmp = malloc (span);

  if (tmp == NULL)
    abort ();
  for (unsigned i = 0; i < 400; i++) {
    uint64_t n = (1 + rnd (&w->x) % 32) * BLOCK;
    uint64_t at = w->at + rnd (&w->x) % ((span - n) / BLOCK + 1) * BLOCK;

    fill (shadow + at, n, &w->x);
    if (fp_backup_put (w->b, shadow + at, n, at, false) < 0 ||
        (i % 64 == 0 && fp_backup_flush (w->b) < 0) ||
        fp_backup_get (w->b, tmp, n, at) < 0 ||
        memcmp (tmp, shadow + at, n) != 0)
      abort ();
  }
  free (tmp);
}

/* More than the ring holds, by several. */
static void
test_threads (void **state)
{
  struct writer w[WRITERS];
  struct fp_backup *b;

  (void) state;
  params.lag = LAG / 4;
  b = make ();
  for (unsigned i = 0; i < WRITERS; i++) {
    w[i] =
        (struct writer) { .b = b, .at = i * (SIZE / WRITERS), .x = seed + i };
    assert_int_equal (fp_thread_create (&w[i].thread, "w", run_writer, &w[i]),
                      0);
  }
  for (unsigned i = 0; i < WRITERS; i++)
    assert_int_equal (fp_thread_join (&w[i].thread), 0);
  check_all (b);
  fp_backup_free (b, true);
}

int
main (void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (test_random, setup, teardown),
    cmocka_unit_test_setup_teardown (test_flush, setup, teardown),
    cmocka_unit_test_setup_teardown (test_few, setup, teardown),
    cmocka_unit_test_setup_teardown (test_again, setup, teardown),
    cmocka_unit_test_setup_teardown (test_local, setup, teardown),
    cmocka_unit_test_setup_teardown (test_refused, setup, teardown),
    cmocka_unit_test_setup_teardown (test_write_error, setup, teardown),
    cmocka_unit_test_setup_teardown (test_read_error, setup, teardown),
    cmocka_unit_test_setup_teardown (test_threads, setup, teardown),
  };
  const char *s = getenv ("FARPAGE_TEST_SEED");
  int r;

  seed = s != NULL ? strtoull (s, NULL, 0) : 1;
  printf ("seed: FARPAGE_TEST_SEED=%llu\n", (unsigned long long) seed);
  if (mkdtemp (dir) == NULL)
    return 1;
  snprintf (path, sizeof path, "%s/disk", dir);
  r = cmocka_run_group_tests (tests, NULL, NULL);
  rmdir (dir);
  return r;
}
