/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-access.c - parse the file of farpage-memserver --access. */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "memserver/auth/access.h"

const char fuzz_name[] = "fuzz-access";
const unsigned fuzz_runs = 20000;

/* Check that the rights are consistent, whatever the file says. */
static void
check_rights (const struct access *a, const struct access_rights *r)
{
  static const char *const names[] = { "", "a", "data", "golden" };
  const struct who nobody = { .kind = WHO_NOBODY },
                   other = { .kind = WHO_TLS, .name = "other" };

  FUZZ_CHECK (access_find (a, &r->who) == r);
  FUZZ_CHECK (r->who.kind != WHO_NOBODY);
  FUZZ_CHECK (r->nr_patterns <= ACCESS_PATTERNS_MAX);
  for (unsigned i = 0; i < r->nr_patterns; i++)
    FUZZ_CHECK (fp_name_ok (r->patterns[i].text));
  for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
    enum access_level l = access_to (r, names[i], &nobody);

    FUZZ_CHECK (l != ACCESS_WRITE || !r->read_only);
    FUZZ_CHECK (access_sees (r, names[i], &nobody) ==
                (l != ACCESS_NONE || r->is_admin));
    FUZZ_CHECK (access_lists (r, names[i], &nobody) ==
                (names[i][0] == '\0' ? r->is_admin
                                     : access_sees (r, names[i], &nobody)));
  }
  FUZZ_CHECK (access_to (r, "", &other) == ACCESS_NONE ||
              who_eq (&r->who, &other));
}

/* Check that a correct file is accepted: else nothing here is tested. */
static void
check_taken (void)
{
  static const char right[] = "[alice]\nvolumes = *\n";
  static bool looked;
  struct fp_error error;
  struct access *a = NULL;

  if (looked)
    return;
  looked = true;
  FUZZ_CHECK (access_read (&a,
                           fuzz_file ((const uint8_t *) right, strlen (right)),
                           &error) == 0);
  access_free (a);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  const struct who nobody = { .kind = WHO_NOBODY };
  struct fp_error error = { .text = "" };
  struct access *a = NULL;
  int r;

  check_taken ();
  r = access_read (&a, fuzz_file (data, size), &error);
  if (r < 0) {
    FUZZ_CHECK (r == -EINVAL && a == NULL);
    FUZZ_CHECK (error.text[0] != '\0' &&
                memchr (error.text, '\0', sizeof error.text) != NULL);
    return 0;
  }
  FUZZ_CHECK (access_count (a) > 0 && access_count (a) <= ACCESS_MAX);
  FUZZ_CHECK (access_find (a, &nobody) == NULL);
  for (unsigned i = 0; i < access_count (a); i++)
    check_rights (a, access_at (a, i));
  access_free (a);
  return 0;
}

size_t
fuzz_seed (unsigned nr, uint8_t *out)
{
  static const char *const files[] = {
    ("# who\n[alice]\nquota = 8G\nvolumes = alice-* shared data\n"
     "read-only = golden-?\ndelete = yes\ntakeover = no\n[bob]\n"
     "volumes = [a-m]*\nread-only = yes\n"),
    "[uid:1000]\nvolumes=*\n[anonymous]\nquota=0\n[user:root]\nadmin=yes\n",
    "[other]\nvolumes = a ; not\n  b\n",
    "\xef\xbb\xbf[x]\nadmin = yes\n[x]\nquota = 1\n",
    "[alice]\nnonsense\n[\nquota\n",
  };

  if (nr >= sizeof files / sizeof files[0])
    return 0;
  memcpy (out, files[nr], strlen (files[nr]));
  return strlen (files[nr]);
}
