/* SPDX-License-Identifier: BSD-3-Clause */
/* volume_file.c - see volume_file.h. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "conf/conf.h"
#include "tools/common/commands.h"
#include "tools/common/state.h"
#include "tools/common/volume_file.h"

#define VOLUMES_DIR SYSCONFDIR "/farpage/volumes.d"
#define VOLUMES_RUN_DIR STATE_DIR "/volumes.d"
#define MAX_SETTINGS (VOLUME_FILE_WORDS - 3) /* --name, --swap, volume= */
#define PRIORITY_MAX 32767

/* Keys that are options of 'farpage attach'. */
static const char *const options[] = {
  "device", "front", "connections", "device-timeout", "dead-timeout", "wait",
};

/* Former names of keys. */
static const struct {
  const char *old, *key;
} renamed[] = {
  { "nbd-timeout", "device-timeout" },
  { "rebuild_delay", "rebuild-delay" },
};

enum kind {
  KIND_OPTION,    /* attach has it */
  KIND_PARAMETER, /* the plugin has it */
  KIND_VOLUME,
  KIND_SWAP,
  KIND_DISCARD,
  KIND_SINGLE_COPY,
  KIND_PRIORITY,
};

static const char *const own[] = {
  [KIND_VOLUME] = "volume",           [KIND_SWAP] = "swap",
  [KIND_DISCARD] = "discard",         [KIND_PRIORITY] = "priority",
  [KIND_SINGLE_COPY] = "single-copy",
};

/* A setting.  A drop-in replaces the same setting of earlier files. */
struct setting {
  enum kind kind;
  unsigned file;
  char *word; /* KEY=VALUE, or --KEY=VALUE */
  size_t key; /* length of the part before the equals sign */
};

struct settings {
  const char *name;
  unsigned nr;
  struct setting list[MAX_SETTINGS];
};

static bool
is_same_key (const struct setting *a, const struct setting *b)
{
  return a->key == b->key && strncmp (a->word, b->word, a->key) == 0;
}

static void
drop (struct settings *all, unsigned i)
{
  free (all->list[i].word);
  memmove (&all->list[i], &all->list[i + 1],
           (all->nr - i - 1) * sizeof all->list[0]);
  all->nr--;
}

/* Add a setting, and drop those that it replaces.  Leave it to the plugin
 * which of its parameters may be repeated.
 */
static int
add (struct settings *all, const struct setting *s, struct fp_error *error)
{
  for (unsigned i = all->nr; i-- > 0;) {
    const struct setting *old = &all->list[i];

    if (!is_same_key (old, s))
      continue;
    if (old->file == s->file && s->kind != KIND_PARAMETER)
      return fp_fail (error, -EINVAL, "given twice");
    if (old->file != s->file)
      drop (all, i);
  }
  if (all->nr == MAX_SETTINGS)
    return fp_fail (error, -E2BIG, "more than %d settings", MAX_SETTINGS);
  all->list[all->nr++] = *s;
  return 0;
}

/* Replace a former name by the present one. */
static const char *
present_key (const char *key)
{
  for (size_t i = 0; i < sizeof renamed / sizeof renamed[0]; i++)
    if (strcmp (key, renamed[i].old) == 0) {
      say_error ("warning: %s is a former name: use %s", key, renamed[i].key);
      return renamed[i].key;
    }
  return key;
}

static enum kind
kind_of (const char *key)
{
  for (enum kind k = KIND_VOLUME; k <= KIND_PRIORITY; k++)
    if (strcmp (key, own[k]) == 0)
      return k;
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
    if (strcmp (key, options[i]) == 0)
      return KIND_OPTION;
  return KIND_PARAMETER;
}

static int
parse_yes (const char *value, bool *out, struct fp_error *error)
{
  static const char *const words[2][4] = { { "no", "false", "off", "0" },
                                           { "yes", "true", "on", "1" } };

  for (unsigned b = 0; b < 2; b++)
    for (unsigned i = 0; i < 4; i++)
      if (strcasecmp (value, words[b][i]) == 0) {
        *out = b;
        return 0;
      }
  return fp_fail (error, -EINVAL, "'%s' is neither yes nor no", value);
}

/* Check the value while file and line are known. */
static int
check_value (enum kind kind, const char *value, struct fp_error *error)
{
  bool yes;
  long n;

  switch (kind) {
  case KIND_SWAP:
  case KIND_DISCARD:
  case KIND_SINGLE_COPY:
    return parse_yes (value, &yes, error);
  case KIND_PRIORITY:
    return parse_number (value, 0, PRIORITY_MAX, &n)
               ? 0
               : fp_fail (error, -EINVAL, "'%s': must be from 0 to %d", value,
                          PRIORITY_MAX);
  case KIND_OPTION:
  case KIND_PARAMETER:
  case KIND_VOLUME:
    break; /* attach and the plugin check these */
  }
  return 0;
}

/* Handle a setting.  In a drop-in an empty value only drops what earlier files
 * had, except that a volume without a name has `volume =`.
 */
static int
on_line (void *arg, const struct fp_conf_line *line, struct fp_error *error)
{
  struct settings *all = arg;
  const char *key = present_key (line->key);
  struct setting s = { .file = line->file, .kind = kind_of (key) };
  bool empty = line->value[0] == '\0' && s.kind != KIND_VOLUME;
  int n, r;

  if (line->section[0] != '\0')
    return fp_fail (error, -EINVAL,
                    "[%s]: remove it: volume files have no "
                    "sections",
                    line->section);
  if (key[0] == '-')
    return fp_fail (error, -EINVAL, "'%s': a key does not begin with '-'",
                    key);
  if (empty && line->file == 0 && s.kind != KIND_PRIORITY)
    return fp_fail (error, -EINVAL, "%s: a value is missing", key);
  n = asprintf (&s.word, "%s%s=%s", s.kind == KIND_OPTION ? "--" : "", key,
                line->value);
  if (n < 0)
    return fp_fail (error, -ENOMEM, "out of memory");
  s.key = (size_t) n - strlen (line->value) - 1;
  r = empty ? 0 : check_value (s.kind, line->value, error);
  if (r == 0)
    r = add (all, &s, error);
  if (r < 0)
    free (s.word);
  else if (empty)
    drop (all, all->nr - 1);
  return r < 0 ? fp_fail_in (error, r, "%s", key) : 0;
}

static int
add_word (struct volume_file *f, const char *format, const char *value,
          struct fp_error *error)
{
  if (asprintf (&f->words[f->nr_words], format, value) < 0)
    return fp_fail (error, -ENOMEM, "out of memory");
  f->nr_words++;
  return 0;
}

/* Apply a setting that check_value has accepted.  Set *volume to the name of
 * the volume, "" for none.
 */
static int
use_setting (struct volume_file *f, const struct setting *s,
             const char **volume, bool *swap, struct fp_error *error)
{
  const char *value = s->word + s->key + 1;

  switch (s->kind) {
  case KIND_OPTION:
    return add_word (f, "%s", s->word, error);
  case KIND_VOLUME:
    *volume = value;
    return 0;
  case KIND_SWAP:
    return parse_yes (value, swap, error);
  case KIND_DISCARD:
    return parse_yes (value, &f->discard, error);
  case KIND_SINGLE_COPY:
    return parse_yes (value, &f->single_copy, error);
  case KIND_PRIORITY:
    (void) parse_number (value, 0, PRIORITY_MAX, &f->priority);
    return 0;
  case KIND_PARAMETER:
    break; /* parameters follow all options */
  }
  return 0;
}

static int
use (struct volume_file *f, const struct settings *all, struct fp_error *error)
{
  const char *volume = all->name;
  bool swap = false;
  int r = add_word (f, "--name=%s", all->name, error);

  for (unsigned i = 0; r == 0 && i < all->nr; i++)
    r = use_setting (f, &all->list[i], &volume, &swap, error);
  if (r == 0 && swap)
    r = add_word (f, "%s", "--swap", error);
  f->nr_options = f->nr_words;
  for (unsigned i = 0; r == 0 && i < all->nr; i++)
    if (all->list[i].kind == KIND_PARAMETER)
      r = add_word (f, "%s", all->list[i].word, error);
  if (r == 0 && volume[0] != '\0')
    r = add_word (f, "volume=%s", volume, error);
  return r;
}

int
volume_file_path (char path[VOLUME_FILE_PATH_MAX], const char *name, bool once,
                  struct fp_error *error)
{
  const char *dir = getenv ("FARPAGE_VOLUMES_DIR");
  int n;

  if (!state_link_ok (name))
    return fp_fail (error, -EINVAL, "'%s' is not the name of a volume file",
                    name);
  if (dir == NULL)
    dir = once ? VOLUMES_RUN_DIR : VOLUMES_DIR;
  n = snprintf (path, VOLUME_FILE_PATH_MAX, "%s/%s.conf", dir, name);
  if (n < 0 || n >= VOLUME_FILE_PATH_MAX)
    return fp_fail (error, -ENAMETOOLONG, "%s: the path is too long", name);
  return 0;
}

int
volume_file_find (char path[VOLUME_FILE_PATH_MAX], const char *name,
                  struct fp_error *error)
{
  char other[VOLUME_FILE_PATH_MAX];
  int r = volume_file_path (path, name, false, error);

  if (r == 0)
    r = volume_file_path (other, name, true, error);
  if (r < 0 || access (path, F_OK) == 0)
    return r;
  if (access (other, F_OK) < 0)
    return fp_fail (error, -ENOENT, "%s: %s", path, strerror (ENOENT));
  strcpy (path, other);
  return 0;
}

int
volume_file_read (struct volume_file *f, const char *name,
                  struct fp_error *error)
{
  struct settings all = { .name = name };
  char path[VOLUME_FILE_PATH_MAX];
  int r;

  *f = (struct volume_file) { .priority = -1 };
  r = volume_file_find (path, name, error);
  if (r == 0)
    r = fp_conf_read (path, on_line, &all, error);
  if (r == 0)
    r = use (f, &all, error);
  while (all.nr > 0)
    drop (&all, all.nr - 1);
  return r;
}

void
volume_file_clear (struct volume_file *f)
{
  while (f->nr_words > 0)
    free (f->words[--f->nr_words]);
}

int
volume_file_status (int err)
{
  return err == -ENOMEM || err == -EIO || err == -EMFILE || err == -ENFILE
             ? EXIT_FAILURE
             : EXIT_USAGE;
}
