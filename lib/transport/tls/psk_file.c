/* SPDX-License-Identifier: BSD-3-Clause */
/* psk_file.c - a file of pre-shared keys.  Its text stays in locked memory as
 * it was read.  A look-up scans the text, which is short, so there is no
 * parsed copy of a key.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/memlock.h"
#include "transport/tls/hex.h"
#include "transport/tls/psk_file.h"

#define INFO "farpage-user:"

struct fp_psk_file {
  size_t length;
  char text[FP_PSK_FILE_MAX + 1];
};

struct line {
  const char *user, *key;
  size_t user_length, key_length; /* characters */
};

/* Fill in l from the line at *pos and move *pos to the next line.  Return 0 at
 * the end, else 1.  A line without ':' yields an empty key.
 */
static int
next_line (const struct fp_psk_file *f, size_t *pos, struct line *l)
{
  while (*pos < f->length) {
    const char *p = f->text + *pos, *colon;
    const char *end = memchr (p, '\n', f->length - *pos);
    size_t n;

    if (end == NULL)
      end = f->text + f->length;
    n = (size_t) (end - p);
    *pos += n + 1;
    if (n > 0 && p[n - 1] == '\r')
      n--;
    if (n == 0)
      continue;
    colon = memchr (p, ':', n);
    l->user = p;
    l->user_length = colon != NULL ? (size_t) (colon - p) : n;
    l->key = colon != NULL ? colon + 1 : p + n;
    l->key_length = (size_t) (p + n - l->key);
    return 1;
  }
  return 0;
}

bool
fp_psk_user_joins (const char *user)
{
  return strncmp (user, FP_PSK_JOIN, sizeof FP_PSK_JOIN - 1) == 0;
}

bool
fp_psk_user_ok (const char *user)
{
  /* GnuTLS takes a name that begins with '#' as hexadecimal. */
  return fp_name_ok (user) && user[0] != '#' && strchr (user, ':') == NULL &&
         !fp_psk_user_joins (user);
}

static bool
user_ok (const struct line *l)
{
  char name[FP_NAME_MAX + 1];

  if (l->user_length > FP_NAME_MAX || memchr (l->user, '\0', l->user_length))
    return false;
  memcpy (name, l->user, l->user_length);
  name[l->user_length] = '\0';
  return fp_psk_user_ok (name);
}

/* Copy the line's key to key.  Return its length in bytes, or -EINVAL. */
static int
take_key (const struct line *l, uint8_t key[FP_PSK_KEY_MAX])
{
  size_t n = l->key_length / 2;

  if (l->key_length % 2 != 0 || n < FP_PSK_KEY_MIN || n > FP_PSK_KEY_MAX ||
      fp_unhex (key, l->key, n) < 0)
    return -EINVAL;
  return (int) n;
}

static bool
key_ok (const struct line *l)
{
  uint8_t key[FP_PSK_KEY_MAX];
  int r = take_key (l, key);

  explicit_bzero (key, sizeof key);
  return r > 0;
}

static bool
is_user (const struct line *l, const char *user)
{
  return strlen (user) == l->user_length &&
         memcmp (l->user, user, l->user_length) == 0;
}

static int
check (const struct fp_psk_file *f, const char *path, struct fp_error *error)
{
  unsigned n = 0;
  size_t pos = 0, other;
  struct line l, o;

  while (next_line (f, &pos, &l)) {
    n++;
    if (!user_ok (&l) || !key_ok (&l))
      return fp_fail (
          error, -EINVAL,
          "%s: key %u: not USER:KEY, where USER is a name of up to %d "
          "characters and KEY has %d to %d bytes in hexadecimal",
          path, n, FP_NAME_MAX, FP_PSK_KEY_MIN, FP_PSK_KEY_MAX);
    if (is_user (&l, FP_PSK_ALL) && l.key_length < 2 * FP_PSK_DERIVED)
      return fp_fail (error, -EINVAL, "%s: the master key needs %d bytes",
                      path, FP_PSK_DERIVED);
    for (other = pos; next_line (f, &other, &o);)
      if (o.user_length == l.user_length &&
          memcmp (o.user, l.user, l.user_length) == 0)
        return fp_fail (error, -EINVAL, "%s: user %.*s is given twice", path,
                        (int) l.user_length, l.user);
  }
  if (n > 0)
    return 0;
  return fp_fail (error, -EINVAL,
                  "%s: contains no key: make one with 'farpage keygen'", path);
}

static int
read_all (struct fp_psk_file *f, int fd)
{
  while (f->length < sizeof f->text) {
    ssize_t r = read (fd, f->text + f->length, sizeof f->text - f->length);

    if (r == 0)
      return 0;
    if (r > 0)
      f->length += (size_t) r;
    else if (errno != EINTR)
      return -errno;
  }
  return -EFBIG;
}

/* Refuse anything but a regular file, and a file that everybody may access. */
static int
check_mode (int fd, const char *path, struct fp_error *error)
{
  struct stat st;

  if (fstat (fd, &st) < 0) {
    int err = -errno;

    return fp_fail (error, err, "%s: %s", path, strerror (-err));
  }
  if (!S_ISREG (st.st_mode))
    return fp_fail (error, -EINVAL, "%s: is not a regular file", path);
  if (st.st_mode & (S_IROTH | S_IWOTH))
    return fp_fail (
        error, -EACCES,
        "%s: all users may read or write it: run 'chmod 600 %s', and "
        "make new keys if this machine has other users",
        path, path);
  return 0;
}

int
fp_psk_file_read (struct fp_psk_file **out, const char *path,
                  struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  struct fp_psk_file *f;
  void *p = NULL;
  int r;

  error->text[0] = '\0';
  /* Opening a fifo would block: hence O_NONBLOCK. */
  fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd == -1) {
    r = -errno;
    return fp_fail (error, r, "%s: %s", path, strerror (-r));
  }
  r = check_mode (fd, path, error);
  if (r < 0)
    return r;
  r = fp_secret_new (&p, sizeof *f);
  if (r < 0)
    return fp_fail (error, r,
                    "%s: cannot lock memory for keys: %s (see RLIMIT_MEMLOCK)",
                    path, strerror (-r));
  f = p;
  r = read_all (f, fd);
  if (r < 0)
    fp_fail (error, r, "%s: %s", path, strerror (-r));
  else
    r = check (f, path, error);
  if (r < 0) {
    fp_psk_file_free (f);
    return r;
  }
  *out = f;
  return 0;
}

int
fp_psk_file_new (struct fp_psk_file **out, const char *user,
                 const uint8_t *key, size_t n)
{
  struct fp_psk_file *f;
  void *p;
  int r = fp_secret_new (&p, sizeof *f);

  if (r < 0)
    return r;
  f = p;
  f->length = (size_t) snprintf (f->text, sizeof f->text, "%s:", user);
  r = fp_hex (f->text + f->length, key, n);
  f->length += 2 * n;
  if (r < 0)
    fp_psk_file_free (f);
  else
    *out = f;
  return r;
}

void
fp_psk_file_free (struct fp_psk_file *f)
{
  fp_secret_free (f, sizeof *f);
}

int
fp_psk_file_lock (struct fp_psk_file *f)
{
  return fp_secret_lock (f, sizeof *f);
}

int
fp_psk_file_key (const struct fp_psk_file *f, const char *user,
                 uint8_t key[FP_PSK_KEY_MAX])
{
  size_t pos = 0;
  struct line l;

  while (next_line (f, &pos, &l))
    if (is_user (&l, user))
      return take_key (&l, key);
  return -ENOENT;
}

/* Derive with HKDF-Expand (RFC 5869, section 2.3). */
int
fp_psk_file_derive (const struct fp_psk_file *f, const char *user,
                    uint8_t *out, size_t n)
{
  uint8_t all[FP_PSK_KEY_MAX];
  char info[sizeof INFO + FP_NAME_MAX];
  gnutls_datum_t key = { all, 0 }, text = { (unsigned char *) info, 0 };
  int r = strlen (user) > FP_NAME_MAX ? -ENOENT
                                      : fp_psk_file_key (f, FP_PSK_ALL, all);

  if (r < 0)
    return r;
  key.size = (unsigned) r;
  text.size = (unsigned) snprintf (info, sizeof info, INFO "%s", user);
  r = gnutls_hkdf_expand (GNUTLS_MAC_SHA256, &key, &text, out, n);
  explicit_bzero (all, sizeof all);
  return r < 0 ? -EIO : 0;
}

int
fp_psk_file_user (const struct fp_psk_file *f, const char *user,
                  uint8_t key[FP_PSK_KEY_MAX])
{
  int r = fp_psk_file_key (f, user, key);

  if (r != -ENOENT)
    return r;
  r = fp_psk_file_derive (f, user, key, FP_PSK_DERIVED);
  return r < 0 ? r : FP_PSK_DERIVED;
}

int
fp_psk_file_read_tls (struct fp_psk_file **out, const char *path,
                      struct fp_error *error)
{
  struct fp_psk_file *f;
  size_t pos = 0;
  struct line l;
  int r = fp_psk_file_read (&f, path, error);

  if (r < 0)
    return r;
  while (next_line (f, &pos, &l))
    if (is_user (&l, FP_PSK_VOLUMES)) {
      fp_psk_file_free (f);
      return fp_fail (
          error, -EINVAL,
          "%s: holds a key for volumes (encrypt=FILE), which servers "
          "must not get: make a key for TLS with 'farpage keygen'",
          path);
    }
  *out = f;
  return 0;
}

int
fp_psk_file_only_user (const struct fp_psk_file *f, char user[FP_NAME_MAX + 1])
{
  size_t pos = 0;
  struct line l, second;

  if (!next_line (f, &pos, &l) || next_line (f, &pos, &second))
    return -EINVAL;
  memcpy (user, l.user, l.user_length);
  user[l.user_length] = '\0';
  return 0;
}
