/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c - see plan.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "tools/common/commands.h"
#include "tools/common/device.h"
#include "tools/common/program.h"
#include "tools/setup/plan.h"
#include "tools/setup/unit.h"

#define WRITTEN_BY "# Written by 'farpage %s'."
#define UNDO "To undo it: "
#define NAMES_MAX 1000

int
plan_option (struct plan_args *a, int c, const char *value)
{
  const char *why;

  switch (c) {
  case PLAN_TOKEN:
    a->key.token = value;
    break;
  case PLAN_TOKEN_FILE:
    a->key.token_file = value;
    break;
  case PLAN_KEY:
    a->key.path = value;
    break;
  case PLAN_ONCE:
    a->once = true;
    break;
  case PLAN_DRY_RUN:
    a->dry_run = true;
    break;
  case PLAN_SIZE:
    if (fp_parse_size (value, &a->size, &why) == 0 && a->size > 0)
      break;
    return say_usage (
        a->command, "--size: '%s' is not a size: give one such as 16G", value);
  default:
    return -1;
  }
  return EXIT_SUCCESS;
}

/* ---- name and key ---- */

/* Check that the name is free: no volume file, drop-ins or device.  -EEXIST:
 * one exists.
 */
static int
check_free (struct plan *p, const char *name, struct fp_error *error)
{
  char there[VOLUME_FILE_PATH_MAX], drop_ins[VOLUME_FILE_PATH_MAX + 2];
  int index, r = volume_file_find (there, name, error);

  if (r == 0)
    return fp_fail (error, -EEXIST,
                    "%s exists: run 'farpage %s %s' first, or choose another "
                    "name",
                    there, p->args->undo, name);
  if (r == -ENOENT)
    r = state_find_link (name, &index, error);
  if (r < 0)
    return r;
  if (index >= 0)
    return fp_fail (error, -EEXIST,
                    "%s is attached as %s already: choose another name", name,
                    device_path (index).s);
  r = volume_file_path (p->path, name, p->args->once, error);
  if (r < 0)
    return r;
  snprintf (drop_ins, sizeof drop_ins, "%s.d", p->path);
  if (access (drop_ins, F_OK) == 0)
    return fp_fail (error, -EEXIST,
                    "%s would change the new volume: remove it, or choose "
                    "another name",
                    drop_ins);
  snprintf (p->name, sizeof p->name, "%s", name);
  return 0;
}

static int
choose_name (struct plan *p, struct fp_error *error)
{
  const char *name = p->args->name;
  char next[STATE_LINK_MAX];
  int r = -EEXIST;

  /* systemd would escape these characters, or split the name there, so that %i
   * differs from the name.
   */
  if (name != NULL && (strpbrk (name, "+=@") != NULL || name[0] == '-' ||
                       device_is_meant (name)))
    return fp_fail (error, -EINVAL,
                    "%s: use no '+', '=' or '@' in a name, no '-' at the "
                    "beginning, and no name of a device",
                    name);
  if (name != NULL)
    return check_free (p, name, error);
  for (unsigned i = 0; i < NAMES_MAX && r == -EEXIST; i++) {
    snprintf (next, sizeof next, "swap%u", i);
    r = check_free (p, next, error);
  }
  return r == -EEXIST ? fp_fail (error, r,
                                 "swap0 to swap%d are in use: give a name "
                                 "with --name",
                                 NAMES_MAX - 1)
                      : r;
}

/* Return true if a server is reached over TCP, which needs a key. */
static bool
needs_key (const struct plan_args *a)
{
  for (int i = 0; i < a->nr_servers; i++)
    if (strncmp (a->servers[i], "unix:", 5) != 0)
      return true;
  return false;
}

static int
get_key (struct plan *p, struct fp_error *error)
{
  const struct plan_args *a = p->args;
  struct client_key_args key = a->key;
  int r;

  key.path = p->key_path;
  r = client_key_get (&p->key, &key, a->servers, a->nr_servers, error);
  if (r == 0 && p->key != NULL)
    r = client_key_use (p->key, error);
  else if (r == 0 && needs_key (a))
    r = fp_fail (
        error, -ENOENT,
        "this machine has no key in %s: run 'farpage-memserver token' "
        "on a memory server, and give the join token with --token",
        a->key.path);
  return r;
}

int
plan_begin (struct plan *p, const struct plan_args *a, struct fp_error *error)
{
  int r;

  *p = (struct plan) { .args = a };
  if (!a->dry_run && geteuid () != 0)
    return fp_fail (error, -EPERM, "this needs root: run it with sudo");
  if (!a->dry_run && !unit_possible ())
    return fp_fail (error, -ENOSYS,
                    "this needs systemd: without it, run 'farpage attach', "
                    "and then 'farpage swapon DEVICE' or mkfs and mount");
  r = choose_name (p, error);
  if (r == 0)
    r = client_key_path (p->key_path, a->key.path, error);
  return r < 0 ? r : get_key (p, error);
}

void
plan_end (struct plan *p)
{
  client_key_free (p->key);
  free (p->text);
}

/* ---- size and copies ---- */

int
plan_choose (struct plan *p, uint64_t most, struct fp_error *error)
{
  const struct plan_args *a = p->args;
  int r = 0;

  for (int i = 0; r == 0 && i < a->nr_servers; i++)
    r = choice_ask (&p->choice, a->servers[i], error);
  return r < 0
             ? r
             : choice_make (&p->choice, a->single_copy, a->size, most, error);
}

void
plan_print_choice (const struct plan *p, const char *kind)
{
  const struct choice *c = &p->choice;
  char size[FP_SIZE_STR_MAX], room[FP_SIZE_STR_MAX];

  for (unsigned i = 0; i < c->nr; i++) {
    fp_format_size (c->servers[i].free, size);
    fp_format_size (c->servers[i].total, room);
    printf ("%s: %s of %s free\n", c->servers[i].name, size, room);
  }
  fp_format_size (c->size, size);
  fp_format_size (c->room, room);
  printf ("%s: %s of %s, %s of each page; there is room for %s%s\n", p->name,
          size, kind, c->copies == 1 ? "one copy" : "two copies", room,
          p->args->size == 0 ? " (choose with --size)" : "");
}

/* ---- volume file ---- */

int
plan_text (FILE **f, struct plan *p, struct fp_error *error)
{
  free (p->text);
  p->text = NULL;
  *f = open_memstream (&p->text, &p->length);
  if (*f == NULL)
    return fp_fail (error, -errno, "%s", strerror (errno));
  fprintf (*f, WRITTEN_BY " " UNDO "farpage %s %s\n", p->args->command,
           p->args->undo, p->name);
  for (int i = 0; i < p->args->nr_servers; i++)
    fprintf (*f, "server = %s\n", p->args->servers[i]);
  return 0;
}

int
plan_text_end (FILE *f, struct plan *p, struct fp_error *error)
{
  if (p->key != NULL)
    fprintf (f, "tls-psk = %s\n", p->key_path);
  return fclose (f) == 0 ? 0
                         : fp_fail (error, -ENOMEM, "%s", strerror (ENOMEM));
}

int
plan_write (const char *path, const char *text, bool replace,
            struct fp_error *error)
{
  const size_t length = strlen (text);
  FP_CLEANUP (fp_closep) int fd = -1;
  char new[PATH_MAX + 8];
  int r = 0;

  snprintf (new, sizeof new, "%s.XXXXXX", path);
  fd = mkostemp (new, O_CLOEXEC);
  if (fd < 0)
    return fp_fail (error, -errno, "%s: %s", path, strerror (errno));
  errno = 0;
  if (write (fd, text, length) != (ssize_t) length || fchmod (fd, 0644) < 0 ||
      fsync (fd) < 0 || (replace ? rename (new, path) : link (new, path)) < 0)
    r = errno != 0 ? -errno : -EIO;
  if (r < 0 || !replace)
    unlink (new);
  return r < 0 ? fp_fail (error, r, "%s: %s", path, strerror (-r)) : 0;
}

/* Make the directory of volume files. */
static int
make_dir (const struct plan *p, struct fp_error *error)
{
  char dir[VOLUME_FILE_PATH_MAX];

  snprintf (dir, sizeof dir, "%.*s", (int) (strrchr (p->path, '/') - p->path),
            p->path);
  if (p->args->once && mkdir (STATE_DIR, 0755) < 0 && errno != EEXIST)
    return fp_fail (error, -errno, STATE_DIR ": %s", strerror (errno));
  if (mkdir (dir, 0755) < 0 && errno != EEXIST)
    return fp_fail (error, -errno, "%s: %s", dir, strerror (errno));
  return 0;
}

int
plan_save (struct plan *p, struct fp_error *error)
{
  struct volume_file f;
  int r;

  if (p->key != NULL && p->key->fetched) {
    r = client_key_save (p->key, p->key_path, error);
    if (r < 0)
      return r;
    printf ("wrote %s: the key of TLS user %s\n", p->key_path,
            p->key->is.user);
  }
  r = make_dir (p, error);
  if (r == 0)
    r = plan_write (p->path, p->text, false, error);
  if (r < 0)
    return r;
  r = volume_file_read (&f, p->name, error);
  volume_file_clear (&f);
  if (r < 0)
    unlink (p->path);
  return r;
}

void
plan_unit (char unit[PLAN_UNIT_MAX], const char *kind, const char *name)
{
  snprintf (unit, PLAN_UNIT_MAX, "%s@%s.service", kind, name);
}

/* ---- undo ---- */

bool
plan_line (char *rest, size_t size, const char *path, const char *text)
{
  char line[PATH_MAX + 64];
  bool found = false;
  FILE *f = fopen (path, "re");

  while (f != NULL && !found && fgets (line, sizeof line, f) != NULL)
    found = strncmp (line, text, strlen (text)) == 0;
  if (f != NULL)
    fclose (f);
  if (found) {
    snprintf (rest, size, "%s", line + strlen (text));
    rest[strcspn (rest, "\n")] = '\0';
  }
  return found;
}

int
plan_find (char path[VOLUME_FILE_PATH_MAX], const char *name,
           const char *command, struct fp_error *error)
{
  char line[256] = "", ours[64];
  const char *undo;
  FILE *f;
  int r = volume_file_find (path, name, error);

  if (r == -ENOENT)
    return fp_fail (error, r,
                    "there is no volume file %s: give the NAME that 'farpage "
                    "%s' printed",
                    path, command);
  if (r < 0)
    return r;
  f = fopen (path, "re");
  if (f == NULL)
    return fp_fail (error, -errno, "%s: %s", path, strerror (errno));
  if (fgets (line, sizeof line, f) != NULL)
    line[strcspn (line, "\n")] = '\0';
  fclose (f);
  snprintf (ours, sizeof ours, WRITTEN_BY, command);
  if (strncmp (line, ours, strlen (ours)) == 0)
    return 0;
  undo = strstr (line, UNDO);
  if (undo != NULL)
    return fp_fail (error, -EPERM, "'farpage %s' did not write %s: run '%s'",
                    command, path, undo + strlen (UNDO));
  return fp_fail (error, -EPERM,
                  "'farpage %s' did not write %s: run 'systemctl disable "
                  "--now farpage-swap@%s farpage@%s'",
                  command, path, name, name);
}

/* Detach a device that its service has left attached, because the device was
 * in use or the service had failed before.
 */
static void
detach (const char *name)
{
  char line[256];
  char *const argv[] = { (char *) "/proc/self/exe", (char *) "detach",
                         (char *) "--config", (char *) (uintptr_t) name,
                         NULL };

  (void) run_program (line, sizeof line, argv); /* detach says why it fails */
}

int
plan_detach (const char *name, const char *undo, struct fp_error *error)
{
  char unit[PLAN_UNIT_MAX], timer[PLAN_UNIT_MAX];
  int index, r;

  plan_unit (unit, "farpage", name);
  snprintf (timer, sizeof timer, "farpage-check@%s.timer", name);
  r = unit_stop (timer, error);
  if (r == 0)
    r = unit_stop (unit, error);
  if (r == 0)
    r = state_find_link (name, &index, error);
  if (r == 0 && index >= 0) {
    detach (name);
    r = state_find_link (name, &index, error);
  }
  if (r == 0 && index >= 0)
    r = fp_fail (error, -EBUSY,
                 "%s is still attached as %s (see above): run 'farpage %s %s' "
                 "again when that is mended",
                 name, device_path (index).s, undo, name);
  return r;
}

int
plan_remove (const char *path, const char *name, struct fp_error *error)
{
  char drop_ins[VOLUME_FILE_PATH_MAX + 2];

  if (unlink (path) < 0)
    return fp_fail (error, -errno, "%s: %s", path, strerror (errno));
  printf ("%s is detached, and %s removed\n", name, path);
  snprintf (drop_ins, sizeof drop_ins, "%s.d", path);
  if (access (drop_ins, F_OK) == 0)
    printf ("its drop-ins stay: %s\n", drop_ins);
  return 0;
}
