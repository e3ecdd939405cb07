/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "attach/key_file.h"
#include "base/error.h"
#include "base/memlock.h"
#include "transport/tls/psk_file.h"

_Static_assert(FP_PSK_KEY_MAX == FP_SEAL_KEY_MAX, "a key fits");

/* Create the key from f, a file with one line, that of the volume key. */
static int
make_key (struct fp_seal_key **out, const struct fp_psk_file *f,
          const char *path, struct fp_error *error)
{
  char user[FP_NAME_MAX + 1];
  void *bytes;
  int r, size;

  if (fp_psk_file_only_user (f, user) < 0 ||
      strcmp (user, FP_PSK_VOLUMES) != 0)
    return fp_fail (
        error, -EINVAL,
        "%s: is not a file with the key of volumes, one line %s:KEY: "
        "make one with 'farpage keygen --encrypt'",
        path, FP_PSK_VOLUMES);
  r = fp_secret_new (&bytes, FP_PSK_KEY_MAX);
  if (r == 0) {
    size = fp_psk_file_key (f, user, bytes); /* the user is there */
    r = fp_seal_key_new (out, bytes, (size_t) size);
    fp_secret_free (bytes, FP_PSK_KEY_MAX);
  }
  if (r < 0)
    fp_fail (error, r,
             "%s: cannot lock memory for a key: %s (see RLIMIT_MEMLOCK)", path,
             strerror (-r));
  return r;
}

int
fp_seal_key_read (struct fp_seal_key **out, const char *path,
                  struct fp_error *error)
{
  struct fp_psk_file *f;
  int r = fp_psk_file_read (&f, path, error);

  if (r < 0)
    return r;
  r = make_key (out, f, path, error);
  fp_psk_file_free (f);
  return r;
}
