/* SPDX-License-Identifier: BSD-3-Clause */
/* conf.c - see conf.h. */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "conf/conf.h"

struct reader {
  FILE *fp;
  unsigned file;
  char *text; /* the current line, as getline has it */
  size_t size;
  int line; /* number of the current line, from 1 */
  fp_conf_set *set;
  void *arg;
  int status; /* 0 or a negative errno value for the current line */
  int failed; /* errno of the stream */
  struct fp_error *error;
};

/* Return true if there is only white space or a comment. */
static bool
is_blank (const char *s)
{
  s += strspn (s, " \t");
  return *s == '\0' || *s == '#' || *s == ';';
}

/* Check what inih would read in a way that users do not expect. */
static int
check_line (const char *s, size_t n, size_t max, struct fp_error *error)
{
  const char *end = *s == '[' ? strchr (s, ']') : NULL;

  for (size_t i = 0; i < n; i++)
    if (((unsigned char) s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f)
      return fp_fail (error, -EINVAL,
                      "control character: write a text file with one setting "
                      "on each line");
  if (end != NULL && !is_blank (end + 1))
    return fp_fail (error, -EINVAL,
                    "text behind [SECTION]: move it to the "
                    "next line");
  if (n > max && !is_blank (s))
    return fp_fail (error, -EINVAL,
                    "line too long: use at most %zu characters", max);
  return 0;
}

/* Give inih a line.  inih reports no line numbers, so count the lines.  Strip
 * leading blanks: otherwise inih takes the line as a continuation.  After an
 * error end the file.
 */
static char *
next_line (char *buf, int size, void *stream)
{
  struct reader *r = stream;
  ssize_t n;
  char *s;

  if (r->status < 0)
    return NULL;
  n = getline (&r->text, &r->size, r->fp);
  if (n == -1) {
    r->failed = feof (r->fp) ? 0 : errno;
    return NULL;
  }
  r->line++;
  if (n > 0 && r->text[n - 1] == '\n')
    n--;
  if (n > 0 && r->text[n - 1] == '\r')
    n--;
  r->text[n] = '\0';
  s = r->text;
  if (r->line == 1 && strncmp (s, "\xef\xbb\xbf", 3) == 0)
    s += 3; /* byte order mark */
  s += strspn (s, " \t");
  n -= s - r->text;
  r->status = check_line (s, (size_t) n, (size_t) size - 2, r->error);
  if (r->status < 0)
    return NULL;
  snprintf (buf, (size_t) size, "%s\n", is_blank (s) ? "" : s);
  return buf;
}

/* Handle one line for inih, which takes 0 for an error. */
static int
on_line (void *arg, const char *section, const char *key, const char *value)
{
  struct reader *r = arg;
  const struct fp_conf_line line = {
    .section = section, .key = key, .value = value, .file = r->file
  };

  /* inih took a colon for the equals sign. */
  if (strpbrk (key, " \t") != NULL)
    r->status = fp_fail (r->error, -EINVAL,
                         "'%.64s': not KEY = VALUE: a key has no blank", key);
  else
    r->status = r->set (r->arg, &line, r->error);
  return r->status == 0;
}

static int
read_stream (FILE *fp, const char *path, unsigned file, fp_conf_set *set,
             void *arg, struct fp_error *error)
{
  struct reader r = {
    .fp = fp, .file = file, .set = set, .arg = arg, .error = error
  };
  /* The first line with an error, or negative if out of memory. */
  int line = ini_parse_stream (next_line, &r, on_line, &r);

  free (r.text);
  if (line < 0 || r.failed != 0) {
    int err = line < 0 ? ENOMEM : r.failed;

    return fp_fail (error, -err, "%s: %s", path, strerror (err));
  }
  /* inih went on after a line that it did not understand. */
  if (line > 0 && (r.status == 0 || line < r.line))
    return fp_fail (error, -EINVAL,
                    "%s: line %d: not KEY = VALUE or [SECTION]", path, line);
  if (r.status < 0)
    return fp_fail_in (error, r.status, "%s: line %d", path, r.line);
  return 0;
}

int
fp_conf_read_stream (FILE *fp, const char *path, fp_conf_set *set, void *arg,
                     struct fp_error *error)
{
  return read_stream (fp, path, 0, set, arg, error);
}

static int
read_path (const char *path, unsigned file, fp_conf_set *set, void *arg,
           struct fp_error *error)
{
  FP_CLEANUP (fp_fclosep) FILE *fp = fopen (path, "re");

  if (fp == NULL)
    return fp_fail (error, -errno, "%s: %s", path, strerror (errno));
  return read_stream (fp, path, file, set, arg, error);
}

/* Select the drop-ins among the entries of a directory. */
static int
is_drop_in (const struct dirent *d)
{
  size_t n = strlen (d->d_name);

  return d->d_name[0] != '.' && n > 5 &&
         strcmp (d->d_name + n - 5, ".conf") == 0;
}

/* Return 1 if the directory for drop-ins exists, 0 if there is none. */
static int
check_dir (const char *dir, struct fp_error *error)
{
  struct stat st;

  if (stat (dir, &st) == -1)
    return errno == ENOENT || errno == ENAMETOOLONG
               ? 0
               : fp_fail (error, -errno, "%s: %s", dir, strerror (errno));
  if ((st.st_uid != 0 && st.st_uid != geteuid ()) || (st.st_mode & S_IWOTH))
    return fp_fail (error, -EPERM,
                    "%s: other users could add settings: run 'chown root' and "
                    "'chmod o-w' on it",
                    dir);
  return 1;
}

int
fp_conf_read (const char *path, fp_conf_set *set, void *arg,
              struct fp_error *error)
{
  struct dirent **list = NULL;
  char dir[4096], name[sizeof dir + 256 + 2];
  int n, r = read_path (path, 0, set, arg, error);

  if (r < 0)
    return r;
  n = snprintf (dir, sizeof dir, "%s.d", path);
  if (n < 0 || (size_t) n >= sizeof dir)
    return 0; /* no directory can have this name */
  r = check_dir (dir, error);
  if (r <= 0)
    return r;
  r = 0;
  n = scandir (dir, &list, is_drop_in, alphasort);
  if (n == -1)
    return fp_fail (error, -errno, "%s: %s", dir, strerror (errno));
  for (int i = 0; i < n; i++) {
    snprintf (name, sizeof name, "%s/%s", dir, list[i]->d_name);
    if (r == 0)
      r = read_path (name, (unsigned) i + 1, set, arg, error);
    free (list[i]);
  }
  free (list);
  return r;
}
