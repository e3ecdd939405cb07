/* SPDX-License-Identifier: BSD-3-Clause */
/* borrow.c - see borrow.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "tools/common/commands.h"
#include "tools/common/device.h"
#include "tools/common/state.h"
#include "tools/common/sysfs.h"
#include "tools/common/volume_file.h"
#include "tools/setup/borrow.h"
#include "tools/setup/choice.h"
#include "tools/setup/unit.h"

#define TEXT_MAX 16384
#define MADE_BY "# Written by 'farpage swapon'."
#define NAMES_MAX 1000
#define UNIT_MAX (STATE_LINK_MAX + 32)

struct plan {
  const struct borrow *b;
  struct client_key *key; /* NULL: there is none, and none is needed */
  struct choice choice;
  char name[STATE_LINK_MAX];
  char path[VOLUME_FILE_PATH_MAX];
  char key_path[PATH_MAX];
  char text[TEXT_MAX]; /* contents of the volume file */
  size_t length;
};

/* ---- choices ---- */

/* Choose the name of the volume file, which must not exist. */
static int
choose_name (struct plan *p, struct fp_error *error)
{
  const struct borrow *b = p->b;
  char there[VOLUME_FILE_PATH_MAX], drop_ins[VOLUME_FILE_PATH_MAX + 2];
  int index, r;

  /* Unit names have none of these, and %i would be another name. */
  if (b->name != NULL && (strpbrk (b->name, "+=@") != NULL ||
                          b->name[0] == '-' || device_is_meant (b->name)))
    return fp_fail (error, -EINVAL,
                    "--name %s: use no '+', '=' or '@', no '-' at the "
                    "beginning, and no name of a device",
                    b->name);
  for (unsigned i = 0; i < NAMES_MAX; i++) {
    if (b->name != NULL)
      snprintf (p->name, sizeof p->name, "%s", b->name);
    else
      snprintf (p->name, sizeof p->name, "swap%u", i);
    r = volume_file_find (there, p->name, error);
    if (r == -ENOENT)
      r = state_find_link (p->name, &index, error);
    else if (r == 0 && b->name != NULL)
      return fp_fail (error, -EEXIST,
                      "%s exists: give another --name, or run 'farpage "
                      "swapoff %s' first",
                      there, b->name);
    else if (r == 0)
      continue;
    if (r < 0)
      return r;
    if (index >= 0 && b->name != NULL)
      return fp_fail (error, -EEXIST, "%s is attached as %s already", b->name,
                      device_path (index).s);
    if (index >= 0)
      continue;
    r = volume_file_path (p->path, p->name, b->once, error);
    if (r < 0)
      return r;
    snprintf (drop_ins, sizeof drop_ins, "%s.d", p->path);
    if (access (drop_ins, F_OK) < 0)
      return 0;
    if (b->name != NULL)
      return fp_fail (error, -EEXIST,
                      "%s would change the new volume: remove it, or give "
                      "another --name",
                      drop_ins);
  }
  return fp_fail (error, -EEXIST,
                  "swap0 to swap%d are in use: give a name with --name",
                  NAMES_MAX - 1);
}

/* Return true if a server is reached over TCP, which needs a key. */
static bool
needs_key (const struct borrow *b)
{
  for (int i = 0; i < b->nr_servers; i++)
    if (strncmp (b->servers[i], "unix:", 5) != 0)
      return true;
  return false;
}

static int
get_key (struct plan *p, struct fp_error *error)
{
  const struct borrow *b = p->b;
  struct client_key_args a = b->key;
  int r;

  a.path = p->key_path;
  r = client_key_get (&p->key, &a, b->servers, b->nr_servers, error);

  if (r == 0 && p->key != NULL)
    r = client_key_use (p->key, error);
  else if (r == 0 && needs_key (b))
    r = fp_fail (
        error, -ENOENT,
        "this machine has no key in %s: run 'farpage-memserver token' "
        "on a memory server, and give the join token with --token",
        b->key.path);
  return r;
}

static int
choose (struct plan *p, struct fp_error *error)
{
  const struct borrow *b = p->b;
  uint64_t memory;
  int r = 0;

  for (int i = 0; r == 0 && i < b->nr_servers; i++)
    r = choice_ask (&p->choice, b->servers[i], error);
  if (r < 0)
    return r;
  if (meminfo ("MemTotal", &memory) < 0)
    return fp_fail (error, -EIO,
                    "/proc/meminfo: cannot read the size of memory");
  return choice_make (&p->choice, b->single_copy, b->size, memory, error);
}

static void say (struct plan *p, const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 2, 3)));

/* Append to the text of the volume file.  compose checks the length. */
static void
say (struct plan *p, const char *fmt, ...)
{
  const size_t room = sizeof p->text - p->length;
  va_list args;
  int n;

  va_start (args, fmt);
  n = vsnprintf (p->text + p->length, room, fmt, args);
  va_end (args);
  p->length += n > 0 && (size_t) n < room ? (size_t) n : room - 1;
}

static int
compose (struct plan *p, struct fp_error *error)
{
  const struct borrow *b = p->b;
  char size[FP_SIZE_STR_MAX];

  fp_format_size_exact (p->choice.size, size);
  say (p, MADE_BY " To undo it: farpage swapoff %s\n", p->name);
  for (int i = 0; i < b->nr_servers; i++)
    say (p, "server = %s\n", b->servers[i]);
  say (p, "size = %s\ncopies = %u\n", size, p->choice.copies);
  say (p, "volume =\nswap = yes\npriority = %ld\n", b->priority);
  if (b->single_copy)
    say (p, "single-copy = yes\n");
  if (b->discard)
    say (p, "discard = yes\n");
  if (p->key != NULL)
    say (p, "tls-psk = %s\n", p->key_path);
  return p->length < sizeof p->text - 1
             ? 0
             : fp_fail (error, -E2BIG, "too many memory servers");
}

static void
print_choice (const struct plan *p)
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
  printf ("%s: %s of swap, %s of each page; there is room for %s%s\n", p->name,
          size, c->copies == 1 ? "one copy" : "two copies", room,
          p->b->size == 0 ? " (choose with --size)" : "");
}

/* ---- start ---- */

static int
write_file (const struct plan *p, struct fp_error *error)
{
  char dir[VOLUME_FILE_PATH_MAX];
  FP_CLEANUP (fp_closep) int fd = -1;
  int r = 0;

  snprintf (dir, sizeof dir, "%.*s", (int) (strrchr (p->path, '/') - p->path),
            p->path);
  if (p->b->once && mkdir (STATE_DIR, 0755) < 0 && errno != EEXIST)
    return fp_fail (error, -errno, STATE_DIR ": %s", strerror (errno));
  if (mkdir (dir, 0755) < 0 && errno != EEXIST)
    return fp_fail (error, -errno, "%s: %s", dir, strerror (errno));
  fd = open (p->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0)
    return fp_fail (error, -errno, "%s: %s", p->path, strerror (errno));
  errno = 0;
  if (write (fd, p->text, p->length) != (ssize_t) p->length || fsync (fd) < 0)
    r = errno != 0 ? -errno : -EIO;
  if (r < 0) {
    unlink (p->path);
    return fp_fail (error, r, "%s: %s", p->path, strerror (-r));
  }
  return 0;
}

/* Write the name of the unit KIND@NAME.service to unit. */
static void
unit_of (char unit[UNIT_MAX], const char *kind, const char *name)
{
  snprintf (unit, UNIT_MAX, "%s@%s.service", kind, name);
}

/* Write the volume file and start swapping.  On failure undo both. */
static int
start (const struct plan *p, struct fp_error *error)
{
  char attach[UNIT_MAX], swap[UNIT_MAX];
  struct fp_error ignored;
  int index = -1, r = write_file (p, error);

  if (r < 0)
    return r;
  unit_of (attach, "farpage", p->name);
  unit_of (swap, "farpage-swap", p->name);
  r = unit_start (swap, !p->b->once, error);
  if (r == 0)
    return 0;
  unit_say_log (attach);
  unit_say_log (swap);
  (void) unit_stop (swap, &ignored);
  (void) unit_stop (attach, &ignored);
  /* The device may be swapped to all the same: then its file must stay. */
  if (state_find_link (p->name, &index, &ignored) < 0 || index >= 0)
    return fp_fail (error, r,
                    "%s did not start in order (see above), and %s is still "
                    "attached: run 'farpage swapoff %s'",
                    swap, p->name, p->name);
  unlink (p->path);
  return fp_fail (error, r,
                  "%s did not start (see above), and %s is removed again",
                  swap, p->path);
}

static int
do_it (struct plan *p, struct fp_error *error)
{
  const struct borrow *b = p->b;
  struct swap_area area;
  int index, r = 0;

  if (p->key != NULL && p->key->fetched) {
    r = client_key_save (p->key, p->key_path, error);
    if (r == 0)
      printf ("wrote %s: the key of TLS user %s\n", p->key_path,
              p->key->is.user);
  }
  if (r < 0)
    return r;
  printf ("writing %s ('farpage swapoff %s' undoes this)\n"
          "starting farpage-swap@%s.service%s\n",
          p->path, p->name, p->name, b->once ? "" : ", now and at each boot");
  fflush (stdout);
  r = start (p, error);
  if (r == 0)
    r = state_find_link (p->name, &index, error);
  if (r < 0)
    return r;
  if (index < 0 || device_swap (index, &area, NULL) < 0 || !area.active)
    return fp_fail (error, -EIO,
                    "the service has started, but this machine does not swap "
                    "to %s: see 'journalctl -u farpage@%s -u farpage-swap@%s'",
                    p->name, p->name, p->name);
  printf ("swapping to %s, priority %ld\n", device_path (index).s,
          area.priority);
  return 0;
}

int
borrow_swap (const struct borrow *b)
{
  static struct plan p;
  struct fp_error error;
  int r = 0;

  p = (struct plan) { .b = b };
  if (!b->dry_run && geteuid () != 0)
    return say_error ("%s: this needs root: run it with sudo", b->command);
  if (!b->dry_run && !unit_possible ())
    return say_error ("%s: systemd does not run here: run 'farpage attach "
                      "--swap', and then 'farpage swapon DEVICE'",
                      b->command);
  r = choose_name (&p, &error);
  if (r == 0)
    r = client_key_path (p.key_path, b->key.path, &error);
  if (r == 0)
    r = get_key (&p, &error);
  if (r == 0)
    r = choose (&p, &error);
  if (r == 0)
    r = compose (&p, &error);
  if (r == 0) {
    print_choice (&p);
    if (b->dry_run)
      printf ("would write %s:\n%s", p.path, p.text);
    else
      r = do_it (&p, &error);
  }
  client_key_free (p.key);
  return r < 0 ? say_error ("%s: %s", b->command, error.text) : EXIT_SUCCESS;
}

/* ---- undo ---- */

int
borrow_check (const char *command, const char *name)
{
  char path[VOLUME_FILE_PATH_MAX], line[sizeof MADE_BY] = "";
  struct fp_error error;
  bool ours;
  FILE *f;
  int r;

  r = volume_file_find (path, name, &error);
  if (r == -ENOENT)
    return say_error ("%s: '%s' is no device, and there is no volume file %s",
                      command, name, path);
  if (r < 0)
    return say_error ("%s: %s", command, error.text);
  f = fopen (path, "re");
  if (f == NULL)
    return say_error ("%s: %s: %s", command, path, strerror (errno));
  ours = fgets (line, sizeof line, f) != NULL && strcmp (line, MADE_BY) == 0;
  fclose (f);
  return ours ? EXIT_SUCCESS
              : say_error ("%s: 'farpage swapon' did not write %s: run "
                           "'systemctl disable --now farpage-swap@%s "
                           "farpage@%s'",
                           command, path, name, name);
}

int
borrow_undo (const char *command, const char *name)
{
  char path[VOLUME_FILE_PATH_MAX + 2], unit[UNIT_MAX]; /* and ".d" */
  struct fp_error error;
  int index, r = volume_file_find (path, name, &error);

  unit_of (unit, "farpage-swap", name);
  if (r == 0)
    r = unit_stop (unit, &error);
  unit_of (unit, "farpage", name);
  if (r == 0)
    r = unit_stop (unit, &error);
  if (r == 0)
    r = state_find_link (name, &index, &error);
  if (r < 0)
    return say_error ("%s: %s", command, error.text);
  if (index >= 0)
    return say_error ("%s: %s is still attached as %s: run 'farpage detach "
                      "%s', and this command again",
                      command, name, device_path (index).s,
                      device_path (index).s);
  if (unlink (path) < 0)
    return say_error ("%s: %s: %s", command, path, strerror (errno));
  printf ("%s is detached, and %s removed\n", name, path);
  strcat (path, ".d");
  if (access (path, F_OK) == 0)
    printf ("its drop-ins stay: %s\n", path);
  return EXIT_SUCCESS;
}
