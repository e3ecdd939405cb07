/* SPDX-License-Identifier: BSD-3-Clause */
/* access.c - the access file (--access). */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/size.h"
#include "conf/conf.h"
#include "memserver/auth/access.h"

struct access {
  unsigned nr, max;
  struct access_rights *rights;
};

/* ---- identities ---- */

bool
who_eq (const struct who *a, const struct who *b)
{
  if (a->kind != b->kind)
    return false;
  switch (a->kind) {
  case WHO_TLS:
    return strcmp (a->name, b->name) == 0;
  case WHO_USER:
    return a->uid == b->uid;
  case WHO_ANONYMOUS:
    return true;
  default:
    return false;
  }
}

void
who_format (const struct who *w, char out[WHO_STR_MAX])
{
  switch (w->kind) {
  case WHO_TLS:
    snprintf (out, WHO_STR_MAX, "tls:%s", w->name);
    break;
  case WHO_USER:
    snprintf (out, WHO_STR_MAX, "uid:%u", (unsigned) w->uid);
    break;
  case WHO_ANONYMOUS:
    snprintf (out, WHO_STR_MAX, "anonymous");
    break;
  default:
    snprintf (out, WHO_STR_MAX, "unknown user");
  }
}

/* ---- rights ---- */

/* Rights of all clients if there is no access file. */
static const struct access_rights everything = {
  .quota = UINT64_MAX,
  .may_delete = true,
  .may_take_over = true,
  .is_admin = true,
};

const struct access_rights access_nobody = { .read_only = true };

const struct access_rights *
access_find (const struct access *a, const struct who *who)
{
  if (!a)
    return &everything;
  for (unsigned i = 0; i < a->nr; i++)
    if (who_eq (&a->rights[i].who, who))
      return &a->rights[i];
  return NULL;
}

static enum access_level
level_of_name (const struct access_rights *r, const char *name)
{
  enum access_level level = ACCESS_NONE;

  for (unsigned i = 0; i < r->nr_patterns; i++) {
    if (fnmatch (r->patterns[i].text, name, 0) != 0)
      continue;
    if (r->patterns[i].read_only)
      return ACCESS_READ; /* read only wins over any other pattern */
    level = ACCESS_WRITE;
  }
  return level;
}

enum access_level
access_to (const struct access_rights *r, const char *name,
           const struct who *owner)
{
  enum access_level level = ACCESS_NONE;
  if (r == &everything)
    return ACCESS_WRITE;
  if (name[0] != '\0')
    level = level_of_name (r, name);
  else if (r->who.kind != WHO_NOBODY &&
           (owner->kind == WHO_NOBODY || who_eq (owner, &r->who)))
    level = ACCESS_WRITE;
  return r->read_only && level == ACCESS_WRITE ? ACCESS_READ : level;
}

bool
access_sees (const struct access_rights *r, const char *name,
             const struct who *owner)
{
  return r->is_admin || access_to (r, name, owner) != ACCESS_NONE;
}

bool
access_lists (const struct access_rights *r, const char *name,
              const struct who *owner)
{
  if (name[0] == '\0' && owner->kind == WHO_NOBODY)
    return r->is_admin;
  return access_sees (r, name, owner);
}

/* ---- the file ---- */

void
access_free (struct access *a)
{
  if (!a)
    return;
  for (unsigned i = 0; i < a->nr; i++)
    free (a->rights[i].patterns);
  free (a->rights);
  free (a);
}

unsigned
access_count (const struct access *a)
{
  return a->nr;
}

const struct access_rights *
access_at (const struct access *a, unsigned i)
{
  return &a->rights[i];
}

enum setting { QUOTA, VOLUMES, READ_ONLY, DELETE, TAKEOVER, ADMIN };

static const char *const settings[] = {
  [QUOTA] = "quota",   [VOLUMES] = "volumes",   [READ_ONLY] = "read-only",
  [DELETE] = "delete", [TAKEOVER] = "takeover", [ADMIN] = "admin",
};
#define NR_SETTINGS (sizeof settings / sizeof settings[0])

struct file {
  struct access *access;
  const char *path;
  const char *section, *key; /* in the current line */
  struct fp_error *error;
};

static int bad (struct file *f, const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 2, 3)));

static int
bad (struct file *f, const char *fmt, ...)
{
  va_list args;

  va_start (args, fmt);
  vsnprintf (f->error->text, sizeof f->error->text, fmt, args);
  va_end (args);
  return fp_fail_in (f->error, -EINVAL, "[%s] %s", f->section, f->key);
}

static int
parse_uid (struct file *f, const char *text, uint32_t *uid)
{
  uint64_t n = 0;

  for (const char *c = text; *c >= '0' && *c <= '9' && n < UINT32_MAX; c++)
    n = n * 10 + (uint64_t) (*c - '0');
  /* The largest uid means no user: setreuid(2). */
  if (text[0] == '\0' || text[strspn (text, "0123456789")] != '\0' ||
      n >= UINT32_MAX)
    return bad (f, "'%s' is not a user ID", text);
  *uid = (uint32_t) n;
  return 0;
}

static int
find_user (struct file *f, const char *name, uint32_t *uid)
{
  struct passwd entry, *found = NULL;
  char buf[16384];

  if (getpwnam_r (name, &entry, buf, sizeof buf, &found) != 0 || !found)
    return bad (f, "there is no user '%s' on this host", name);
  *uid = found->pw_uid;
  return 0;
}

static int
parse_who (struct file *f, struct who *w)
{
  const char *s = f->section;

  memset (w, 0, sizeof *w);
  if (s[0] == '\0')
    return bad (f, "it is before the first identity: move it below a line "
                   "[NAME]");
  /* A longer name may be cut off, and then be another identity's. */
  if (strlen (s) > ACCESS_NAME_MAX)
    return bad (f, "the name has more than %d characters", ACCESS_NAME_MAX);
  w->kind = WHO_ANONYMOUS;
  if (strcmp (s, "anonymous") == 0)
    return 0;
  w->kind = WHO_USER;
  if (strncmp (s, "uid:", 4) == 0)
    return parse_uid (f, s + 4, &w->uid);
  if (strncmp (s, "user:", 5) == 0)
    return find_user (f, s + 5, &w->uid);
  w->kind = WHO_TLS;
  if (!fp_name_ok (s) || strchr (s, ':'))
    return bad (f, "not an identity: use a name as in a key or a certificate, "
                   "uid:N, user:NAME, or anonymous");
  snprintf (w->name, sizeof w->name, "%s", s);
  return 0;
}

/* Find or add the rights of the section's identity.  Return 0 or -errno. */
static int
rights_of (struct file *f, struct access_rights **out)
{
  struct access *a = f->access;
  struct who w;
  int r = parse_who (f, &w);

  if (r < 0)
    return r;
  for (unsigned i = 0; i < a->nr; i++) {
    if (who_eq (&a->rights[i].who, &w)) {
      *out = &a->rights[i];
      return 0;
    }
  }
  if (a->nr == ACCESS_MAX)
    return bad (f, "more than %u identities", ACCESS_MAX);
  if (a->nr == a->max) {
    unsigned max = FP_MAX (16u, 2 * a->max);
    struct access_rights *more = realloc (a->rights, max * sizeof *more);

    if (!more)
      return bad (f, "out of memory");
    a->rights = more;
    a->max = max;
  }
  *out = &a->rights[a->nr++];
  **out = (struct access_rights) { .who = w, .quota = UINT64_MAX };
  return 0;
}

static int
parse_bool (struct file *f, const char *value, bool *out)
{
  if (strcmp (value, "yes") != 0 && strcmp (value, "no") != 0)
    return bad (f, "'%s' is neither yes nor no", value);
  *out = value[0] == 'y';
  return 0;
}

/* Add a pattern.  Refuse an equals sign, although a name may have one: mostly
 * it is a second setting on the line.
 */
static int
add_pattern (struct file *f, struct access_rights *r, const char *text,
             size_t length, bool read_only)
{
  struct access_pattern *more, p = { .read_only = read_only };

  if (length > FP_NAME_MAX)
    return bad (f, "a pattern is longer than %d characters", FP_NAME_MAX);
  memcpy (p.text, text, length);
  if (!fp_name_ok (p.text))
    return bad (f, "'%s' matches no name that a volume can have", p.text);
  if (strchr (p.text, '='))
    return bad (f,
                "'%s' in a pattern: give each setting its own line; to match "
                "'=', write '?'",
                p.text);
  if (r->nr_patterns == ACCESS_PATTERNS_MAX)
    return bad (f, "more than %u patterns", ACCESS_PATTERNS_MAX);
  more = realloc (r->patterns, (r->nr_patterns + 1) * sizeof *more);
  if (!more)
    return bad (f, "out of memory");
  r->patterns = more;
  r->patterns[r->nr_patterns++] = p;
  return 0;
}

static int
parse_patterns (struct file *f, struct access_rights *r, const char *value,
                bool read_only)
{
  static const char blanks[] = " \t\r\n";
  int e = 0;

  for (const char *s = value + strspn (value, blanks); *s && e == 0;) {
    size_t n = strcspn (s, blanks);

    e = add_pattern (f, r, s, n, read_only);
    s += n;
    s += strspn (s, blanks);
  }
  return e;
}

static int
set (struct file *f, struct access_rights *r, unsigned which,
     const char *value)
{
  const char *why;

  if (*value == '\0')
    return bad (f, "a value is missing");
  if ((r->seen & (1u << which)) && which != VOLUMES && which != READ_ONLY)
    return bad (f, "given twice");
  r->seen |= 1u << which;
  switch (which) {
  case QUOTA:
    if (fp_parse_size (value, &r->quota, &why) < 0)
      return bad (f, "'%s' is not a size: %s", value, why);
    return 0;
  case VOLUMES:
    return parse_patterns (f, r, value, false);
  case READ_ONLY:
    if (strcmp (value, "yes") == 0 || strcmp (value, "no") == 0)
      return parse_bool (f, value, &r->read_only);
    return parse_patterns (f, r, value, true);
  case DELETE:
    return parse_bool (f, value, &r->may_delete);
  case TAKEOVER:
    return parse_bool (f, value, &r->may_take_over);
  default:
    return parse_bool (f, value, &r->is_admin);
  }
}

static int
on_line (void *arg, const struct fp_conf_line *line, struct fp_error *error)
{
  struct access_rights *r = NULL;
  struct file *f = arg;
  unsigned which = 0;
  int e;

  f->error = error;
  f->section = line->section;
  f->key = line->key;
  if (strcmp (line->key, "read_only") == 0) {
    fp_log (FP_LOG_WARN,
            "access: %s: [%s]: read_only is a former name: use read-only",
            f->path, f->section);
    f->key = settings[READ_ONLY];
  }
  e = rights_of (f, &r);
  if (e < 0)
    return e;
  while (which < NR_SETTINGS && strcmp (settings[which], f->key) != 0)
    which++;
  return which == NR_SETTINGS
             ? bad (f, "is not one of quota, volumes, read-only, delete, "
                       "takeover, admin")
             : set (f, r, which, line->value);
}

/* Open the file.  Refuse one that every user may write: a user who can write
 * it has all rights there are.
 */
static int
open_file (FILE **out, const char *path, struct fp_error *error)
{
  FP_CLEANUP (fp_closep)
  int fd = open (path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat st;
  int r = 0;

  if (fd < 0 || fstat (fd, &st) < 0)
    r = -errno;
  else if (!S_ISREG (st.st_mode) || (st.st_mode & S_IWOTH))
    return fp_fail (error, -EINVAL, "access: %s: %s", path,
                    S_ISREG (st.st_mode)
                        ? "any user can write to it: run chmod o-w"
                        : "is not a regular file");
  else if (!(*out = fdopen (fd, "re")))
    r = -errno;
  if (r < 0)
    fp_fail (error, r, "access: %s: %s", path, strerror (-r));
  else
    fd = -1;
  return r;
}

int
access_read (struct access **out, const char *path, struct fp_error *error)
{
  FP_CLEANUP (fp_fclosep) FILE *fp = NULL;
  struct file f = { .path = path };
  int r;

  error->text[0] = '\0';
  r = open_file (&fp, path, error);
  if (r < 0)
    return r;
  f.access = calloc (1, sizeof *f.access);
  if (!f.access)
    return fp_fail (error, -ENOMEM, "access: %s: out of memory", path);
  r = fp_conf_read_stream (fp, path, on_line, &f, error);
  if (r < 0)
    fp_fail_in (error, r, "access");
  else if (f.access->nr == 0)
    r = fp_fail (
        error, -EINVAL,
        "access: %s: it has no identities, so no client could connect", path);
  if (r < 0) {
    access_free (f.access);
    return r;
  }
  *out = f.access;
  return 0;
}
