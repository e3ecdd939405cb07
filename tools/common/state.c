/* SPDX-License-Identifier: BSD-3-Clause */
/* state.c - the devices that this machine has attached, under /run/farpage. */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "tools/common/device.h"
#include "tools/common/state.h"

#define STATE_VERSION 1

static void
json_putp (struct json_object **op)
{
  json_object_put (*op);
}

void
state_path (char path[STATE_PATH_MAX], int index, const char *name)
{
  snprintf (path, STATE_PATH_MAX, STATE_DIR "/%s%s%s", device_name (index).s,
            *name ? "/" : "", name);
}

static int
make_dir (const char *path, mode_t mode, struct fp_error *error)
{
  if (mkdir (path, mode) == -1 && errno != EEXIST)
    return fp_fail (error, -errno, "cannot make %s: %s%s", path,
                    strerror (errno),
                    errno == EACCES ? " (are you root?)" : "");
  return 0;
}

int
state_lock (int *out, int index, struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  char path[STATE_PATH_MAX];
  int r = make_dir (STATE_DIR, 0755, error);

  if (r < 0)
    return r;
  snprintf (path, sizeof path, STATE_DIR "/%s.lock", device_name (index).s);
  fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd == -1)
    return fp_fail (error, -errno, "cannot open %s: %s%s", path,
                    strerror (errno),
                    errno == EACCES ? " (are you root?)" : "");
  if (flock (fd, LOCK_EX | LOCK_NB) == -1)
    return fp_fail (error, errno == EWOULDBLOCK ? -EBUSY : -errno,
                    "%s belongs to another farpage process",
                    device_path (index).s);
  *out = fd;
  fd = -1;
  return 0;
}

/* Only root may enter, because a process that can reach nbd.sock can read and
 * write the data.
 */
int
state_mkdir (int index, struct fp_error *error)
{
  char path[STATE_PATH_MAX];

  state_path (path, index, "");
  return make_dir (path, 0700, error);
}

bool
state_exists (int index)
{
  char path[STATE_PATH_MAX];

  state_path (path, index, "");
  return access (path, F_OK) == 0;
}

int
state_next (int index)
{
  DIR *dir = opendir (STATE_DIR);
  struct dirent *d;
  int next = -1;

  if (!dir)
    return -1;
  while ((d = readdir (dir))) {
    int i = device_index (d->d_name); /* not for nbd0.lock */

    if (i > index && (next == -1 || i < next))
      next = i;
  }
  closedir (dir);
  return next;
}

/* In the file for udev; see farpage.rules. */
#define LINK_KEY "FARPAGE_NAME="

int
state_load_link (char link[STATE_LINK_MAX], int index, struct fp_error *error)
{
  char path[STATE_PATH_MAX], line[STATE_LINK_MAX + 32];
  FP_CLEANUP (fp_fclosep) FILE *fp = NULL;
  size_t key = strlen (LINK_KEY);

  link[0] = '\0';
  state_path (path, index, "udev");
  fp = fopen (path, "re");
  if (!fp)
    return errno == ENOENT
               ? 0
               : fp_fail (error, -errno, "%s: %s%s", path, strerror (errno),
                          errno == EACCES ? " (are you root?)" : "");
  while (fgets (line, sizeof line, fp))
    if (strncmp (line, LINK_KEY, key) == 0)
      snprintf (link, STATE_LINK_MAX, "%.*s", (int) strcspn (line + key, "\n"),
                line + key);
  return ferror (fp) ? fp_fail (error, -EIO, "cannot read %s", path) : 0;
}

int
state_find_link (const char *link, int *index, struct fp_error *error)
{
  char found[STATE_LINK_MAX];

  *index = -1;
  for (int i = state_next (-1); i >= 0 && *index < 0; i = state_next (i)) {
    int r = state_load_link (found, i, error);

    if (r < 0)
      return r;
    if (strcmp (found, link) == 0)
      *index = i;
  }
  return 0;
}

int
state_remove (int index, struct fp_error *error)
{
  char path[STATE_PATH_MAX];
  struct dirent *d;
  DIR *dir;

  state_path (path, index, "");
  dir = opendir (path);
  if (!dir)
    return errno == ENOENT ? 0
                           : fp_fail (error, -errno, "cannot open %s: %s",
                                      path, strerror (errno));
  while ((d = readdir (dir)))
    if (strcmp (d->d_name, ".") && strcmp (d->d_name, ".."))
      unlinkat (dirfd (dir), d->d_name, 0);
  closedir (dir);
  if (rmdir (path) == -1 && errno != ENOENT)
    return fp_fail (error, -errno, "cannot remove %s: %s", path,
                    strerror (errno));
  return 0;
}

struct json_object *
state_to_json (const struct state *s)
{
  struct json_object *o = json_object_new_object ();
  struct json_object *args = json_object_new_array ();
  unsigned i;

  for (i = 0; i < s->nr_args; i++)
    json_object_array_add (args, json_object_new_string (s->args[i]));

#define INT(name)                                                             \
  json_object_object_add (o, #name, json_object_new_int64 ((int64_t) s->name))
  json_object_object_add (o, "version", json_object_new_int (STATE_VERSION));
  json_object_object_add (o, "device",
                          json_object_new_string (device_path (s->index).s));
  INT (index);
  INT (supervisor);
  INT (nbdkit);
  json_object_object_add (o, "uuid", json_object_new_string (s->uuid));
  json_object_object_add (o, "volume", json_object_new_string (s->volume));
  INT (size);
  INT (connections);
  INT (timeout);
  INT (dead_timeout);
  json_object_object_add (o, "swap", json_object_new_boolean (s->swap));
  INT (since);
  INT (restarts);
  INT (reconnects);
  json_object_object_add (o, "event", json_object_new_string (s->event));
  json_object_object_add (o, "args", args);
#undef INT
  return o;
}

int
state_save (const struct state *s, struct fp_error *error)
{
  FP_CLEANUP (json_putp) struct json_object *o = state_to_json (s);
  char path[STATE_PATH_MAX], tmp[STATE_PATH_MAX];

  state_path (path, s->index, "state.json");
  state_path (tmp, s->index, "state.json.new");
  if (json_object_to_file_ext (tmp, o,
                               JSON_C_TO_STRING_PRETTY |
                                   JSON_C_TO_STRING_NOSLASHESCAPE) == -1 ||
      rename (tmp, path) == -1)
    return fp_fail (error, -errno, "cannot write %s: %s", path,
                    strerror (errno));
  return 0;
}

bool
state_link_ok (const char *name)
{
  static const char ok[] = "abcdefghijklmnopqrstuvwxyz"
                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:=@+-";

  return *name && *name != '.' && strlen (name) < STATE_LINK_MAX &&
         name[strspn (name, ok)] == '\0';
}

int
state_save_link (const struct state *s, struct fp_error *error)
{
  char path[STATE_PATH_MAX];
  bool ok;
  FILE *fp;

  state_path (path, s->index, "udev");
  fp = fopen (path, "we");
  if (!fp)
    return fp_fail (error, -errno, "cannot make %s: %s", path,
                    strerror (errno));
  ok = fprintf (fp, "FARPAGE=1\n") > 0 &&
       (!*s->link || fprintf (fp, LINK_KEY "%s\n", s->link) > 0);
  if (fclose (fp) != 0 || !ok)
    return fp_fail (error, -EIO, "cannot write %s", path);
  return 0;
}

static int64_t
get_int (struct json_object *o, const char *name)
{
  return json_object_get_int64 (json_object_object_get (o, name));
}

static void
get_string (char *out, size_t size, struct json_object *o, const char *name)
{
  const char *s = json_object_get_string (json_object_object_get (o, name));

  snprintf (out, size, "%s", s ? s : "");
}

int
state_load (struct state *s, int index, struct fp_error *error)
{
  FP_CLEANUP (json_putp) struct json_object *o = NULL;
  struct json_object *args;
  char path[STATE_PATH_MAX];
  size_t i, n;

  memset (s, 0, sizeof *s);
  s->index = index;
  state_path (path, index, "state.json");
  if (access (path, R_OK) == -1)
    return errno == ENOENT
               ? fp_fail (error, -ENOENT, "%s is not attached by farpage",
                          device_path (index).s)
               : fp_fail (error, -errno, "cannot read %s: %s%s", path,
                          strerror (errno),
                          errno == EACCES ? " (are you root?)" : "");
  o = json_object_from_file (path);
  if (!o || get_int (o, "version") != STATE_VERSION)
    return fp_fail (error, -EINVAL,
                    "%s is damaged, or of another version of farpage", path);

  s->supervisor = (pid_t) get_int (o, "supervisor");
  s->nbdkit = (pid_t) get_int (o, "nbdkit");
  get_string (s->uuid, sizeof s->uuid, o, "uuid");
  get_string (s->volume, sizeof s->volume, o, "volume");
  s->size = (uint64_t) get_int (o, "size");
  s->connections = (unsigned) get_int (o, "connections");
  s->timeout = (unsigned) get_int (o, "timeout");
  s->dead_timeout = (unsigned) get_int (o, "dead_timeout");
  s->swap = json_object_get_boolean (json_object_object_get (o, "swap"));
  s->since = get_int (o, "since");
  s->restarts = (unsigned) get_int (o, "restarts");
  s->reconnects = (unsigned) get_int (o, "reconnects");
  get_string (s->event, sizeof s->event, o, "event");
  args = json_object_object_get (o, "args");
  n = args && json_object_is_type (args, json_type_array)
          ? json_object_array_length (args)
          : 0;
  s->args = calloc (n + 1, sizeof *s->args);
  for (i = 0; s->args && i < n; i++) {
    s->args[i] =
        strdup (json_object_get_string (json_object_array_get_idx (args, i)));
    if (s->args[i])
      s->nr_args++;
  }
  if (!s->args || s->nr_args != n) {
    state_clear (s);
    return fp_fail (error, -ENOMEM, "out of memory");
  }
  return 0;
}

void
state_clear (struct state *s)
{
  unsigned i;

  for (i = 0; s->args && i < s->nr_args; i++)
    free (s->args[i]);
  free (s->args);
  s->args = NULL;
  s->nr_args = 0;
}
