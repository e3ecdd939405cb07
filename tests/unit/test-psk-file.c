/* SPDX-License-Identifier: BSD-3-Clause */
/* test-psk-file.c - which files of pre-shared keys are valid.  Messages about
 * invalid ones must not contain their contents.
 */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/tls/psk_file.h"
#include "transport/tls/psk_write.h"

#define KEY "00112233445566778899aabbccddeeff"
#define KEY2 "FF112233445566778899aabbccddee00FF112233445566778899aabbccddee00"

static char dir[] = "/tmp/farpage-psk-XXXXXX";
static char path[64];
static struct fp_error error;

static int
setup (void **state)
{
  (void) state;
  if (mkdtemp (dir) == NULL)
    return -1;
  snprintf (path, sizeof path, "%s/psk", dir);
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  unlink (path);
  return rmdir (dir);
}

static int
read_text (struct fp_psk_file **f, const char *text, size_t n, mode_t mode)
{
  int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

  assert_true (fd >= 0);
  assert_int_equal (write (fd, text, n), n);
  assert_int_equal (fchmod (fd, mode), 0);
  close (fd);
  return fp_psk_file_read (f, path, &error);
}

static void
refused (int err, const char *text, const char *says)
{
  struct fp_psk_file *f = NULL;

  assert_int_equal (read_text (&f, text, strlen (text), 0600), err);
  assert_null (f);
  assert_int_equal (strncmp (error.text, path, strlen (path)), 0);
  assert_non_null (strstr (error.text, says));
  assert_null (strstr (error.text, "00112233"));
}

static void
test_good (void **state)
{
  static const char text[] = "alice:" KEY "\n\nbob:" KEY2 "\r\ncarol.x:" KEY;
  static const uint8_t bob[] = { 0xff, 0x11, 0x22 };
  uint8_t key[FP_PSK_KEY_MAX];
  char user[FP_NAME_MAX + 1];
  struct fp_psk_file *f;

  (void) state;
  assert_int_equal (read_text (&f, text, sizeof text - 1, 0640), 0);
  assert_int_equal (fp_psk_file_key (f, "alice", key), 16);
  assert_int_equal (key[15], 0xff);
  assert_int_equal (fp_psk_file_key (f, "bob", key), 32);
  assert_memory_equal (key, bob, sizeof bob);
  assert_int_equal (fp_psk_file_key (f, "carol.x", key), 16);
  assert_int_equal (fp_psk_file_key (f, "carol", key), -ENOENT);
  assert_int_equal (fp_psk_file_key (f, "", key), -ENOENT);
  assert_int_equal (fp_psk_file_only_user (f, user), -EINVAL);
  fp_psk_file_free (f);

  assert_int_equal (read_text (&f, text, strlen ("alice:" KEY), 0400), 0);
  assert_int_equal (fp_psk_file_only_user (f, user), 0);
  assert_string_equal (user, "alice");
  assert_int_equal (fp_psk_file_lock (f), 0);
  fp_psk_file_free (f);
}

static void
test_bad (void **state)
{
  static char large[FP_PSK_FILE_MAX + 2];
  struct fp_psk_file *f;

  (void) state;
  refused (-EINVAL, "", "contains no key");
  refused (-EINVAL, "\n\n", "contains no key");
  refused (-EINVAL, "alice", "key 1: not USER:KEY");
  refused (-EINVAL, KEY "\n", "key 1: not USER:KEY");
  refused (-EINVAL, ":" KEY "\n", "key 1: not USER:KEY");
  refused (-EINVAL, "a b:" KEY "\n", "key 1: not USER:KEY");
  refused (-EINVAL, "#6162:" KEY "\n", "key 1: not USER:KEY");
  refused (-EINVAL, "a:" KEY "\nb:" KEY "0\n", "key 2: not USER:KEY");
  refused (-EINVAL, "a:0011223344556677\n", "key 1: not USER:KEY");
  refused (-EINVAL, "a:" KEY2 KEY2 "00\n", "key 1: not USER:KEY");
  refused (-EINVAL, "a:" KEY "\nb:00112233445566778899aabbccddeefx\n",
           "key 2: not USER:KEY");
  refused (-EINVAL, "a:" KEY "\nb:" KEY "\na:" KEY2 "\n",
           "user a is given twice");
  memset (large, '\n', sizeof large);
  assert_int_equal (read_text (&f, large, sizeof large - 1, 0600), -EFBIG);
  assert_int_equal (read_text (&f, "a:" KEY "\n\0", 36, 0600), -EINVAL);
  assert_int_equal (read_text (&f, "a\0b:" KEY, 36, 0600), -EINVAL);
  /* A key file that all users may read is refused. */
  assert_int_equal (read_text (&f, "a:" KEY, 34, 0644), -EACCES);
  assert_non_null (strstr (error.text, "chmod 600"));
  assert_int_equal (fp_psk_file_read (&f, dir, &error), -EINVAL);
  assert_int_equal (fp_psk_file_read (&f, "/nowhere/at/all", &error), -ENOENT);
}

/* The key of volumes must not get to a server. */
static void
test_volumes (void **state)
{
  static const char text[] = "alice:" KEY "\nencrypt:" KEY2 "\n";
  struct fp_psk_file *f = NULL;

  (void) state;
  assert_int_equal (read_text (&f, text, strlen (text), 0600), 0);
  fp_psk_file_free (f);
  f = NULL;
  assert_int_equal (fp_psk_file_read_tls (&f, path, &error), -EINVAL);
  assert_null (f);
  assert_non_null (strstr (error.text, "holds a key for volumes"));
  assert_int_equal (read_text (&f, text, 6 + strlen (KEY), 0600), 0);
  fp_psk_file_free (f);
  assert_int_equal (fp_psk_file_read_tls (&f, path, &error), 0);
  fp_psk_file_free (f);
}

/* The key of a user without a line is derived from the master key.  Python's
 * hmac computed the expected bytes: HMAC-SHA256 of "farpage-user:zoe" and a
 * byte 1.
 */
static void
test_all (void **state)
{
  static const char text[] = "alice:" KEY2 "\n@all:" KEY KEY "\n";
  static const uint8_t zoe[] = { 0x5b, 0x57, 0x53, 0x61, 0xbc, 0x7b };
  static const uint8_t join[] = { 0x69, 0x8d, 0x1c, 0x6b, 0x8b, 0xf6 };
  uint8_t key[FP_PSK_KEY_MAX], again[FP_PSK_KEY_MAX];
  struct fp_psk_file *f;

  (void) state;
  assert_int_equal (read_text (&f, text, strlen (text), 0600), 0);
  assert_int_equal (fp_psk_file_user (f, "zoe", key), FP_PSK_DERIVED);
  assert_memory_equal (key, zoe, sizeof zoe);
  assert_int_equal (fp_psk_file_key (f, "zoe", key), -ENOENT);
  assert_int_equal (fp_psk_file_derive (f, "join.zoe.7fffffff", key, 16), 0);
  assert_memory_equal (key, join, sizeof join);
  /* A line of its own revokes the derived key. */
  assert_int_equal (fp_psk_file_derive (f, "alice", again, 32), 0);
  assert_int_equal (fp_psk_file_user (f, "alice", key), 32);
  assert_int_equal (key[0], 0xff);
  assert_memory_not_equal (key, again, 32);
  fp_psk_file_free (f);

  assert_int_equal (read_text (&f, text, strlen ("alice:" KEY2), 0600), 0);
  assert_int_equal (fp_psk_file_user (f, "zoe", key), -ENOENT);
  fp_psk_file_free (f);
  refused (-EINVAL, "@all:" KEY "\n", "the master key needs 32 bytes");
  refused (-EINVAL, "join.zoe.7fffffff:" KEY "\n", "key 1: not USER:KEY");
}

/* Lines that fp_psk_append writes can be read back, and older lines stay. */
static void
test_written (void **state)
{
  uint8_t key[FP_PSK_KEY_MAX], again[FP_PSK_KEY_MAX];
  struct fp_psk_file *f;
  struct stat st;
  int fd;

  (void) state;
  for (unsigned i = 0; i < sizeof key; i++)
    key[i] = (uint8_t) (i * 37);
  unlink (path);
  assert_int_equal (fp_psk_create (path, "alice", key, 64), 0);
  assert_int_equal (fp_psk_create (path, "alice", key, 64), -EEXIST);
  assert_int_equal (stat (path, &st), 0);
  assert_int_equal (st.st_mode & 07777, 0600);
  fd = open (path, O_RDWR | O_APPEND | O_CLOEXEC);
  assert_true (fd >= 0);
  assert_int_equal (ftruncate (fd, st.st_size - 1), 0); /* the newline */
  assert_int_equal (fp_psk_append (fd, "bob", key, 16), 0);
  assert_int_equal (fp_psk_append_new (fd, FP_PSK_ALL), 0);
  close (fd);
  assert_int_equal (fp_psk_file_read (&f, path, &error), 0);
  assert_int_equal (fp_psk_file_key (f, "alice", again), 64);
  assert_memory_equal (again, key, 64);
  assert_int_equal (fp_psk_file_key (f, "bob", again), 16);
  assert_int_equal (fp_psk_file_key (f, FP_PSK_ALL, again), FP_PSK_NEW);
  fp_psk_file_free (f);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_good),    cmocka_unit_test (test_bad),
    cmocka_unit_test (test_volumes), cmocka_unit_test (test_all),
    cmocka_unit_test (test_written),
  };

  return cmocka_run_group_tests (tests, setup, teardown);
}
