/* SPDX-License-Identifier: BSD-3-Clause */
/* borrow_mount.c - memory of servers as a file system. */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "tools/common/ask_server.h"
#include "tools/common/commands.h"
#include "tools/common/device.h"
#include "tools/common/program.h"
#include "tools/common/volumes.h"
#include "tools/setup/borrow.h"
#include "tools/setup/mount_unit.h"
#include "tools/setup/unit.h"

#define MOUNTED_AT "# Mounted at "
#define MKFS_MS 600000

struct mounting {
  const struct borrow_mount *b;
  struct plan plan;
  bool is_new; /* the volume did not exist before */
  struct mount_unit unit;
};

/* ---- volume ---- */

/* Find out whether a volume of this name exists, and check that it can be
 * used.
 */
static int
look (struct mounting *m, struct fp_error *error)
{
  static struct volume_view v;
  const struct plan_args *a = m->plan.args;
  char size[FP_SIZE_STR_MAX];
  struct fp_error reason;
  struct fp_addr addr;
  struct fp_uuid uuid;
  int r = -ENOENT, failed = 0;

  if (fp_uuid_parse (&uuid, m->plan.name) == 0)
    return fp_fail (error, -EINVAL, "%s: a name cannot be a UUID",
                    m->plan.name);
  for (int i = 0; i < a->nr_servers && r != 0; i++) {
    if (ask_parse (&addr, a->servers[i], error) < 0)
      return -EINVAL;
    r = volumes_find (&v, m->plan.name, &addr, 1, NULL, &reason);
    if (r < 0 && r != -ENOENT)
      failed = fp_fail (error, r, "%s", reason.text);
  }
  m->is_new = r < 0;
  if (r < 0)
    return failed;
  fp_format_size (v.entry.size, size);
  if (v.entry.attached)
    return fp_fail (error, -EBUSY,
                    "volume %s is in use on %s: run 'farpage umount %s' there "
                    "first",
                    m->plan.name, v.entry.client, m->plan.name);
  if (a->size != 0 && a->size != v.entry.size)
    return fp_fail (error, -EEXIST,
                    "volume %s exists, and its size is %s: leave --size out, "
                    "or choose another name",
                    m->plan.name, size);
  printf ("%s: existing volume of %s, mounted as it is\n", m->plan.name, size);
  return 0;
}

/* Check that the program that makes this file system is installed. */
static int
check_type (const char *type, struct fp_error *error)
{
  char line[PATH_MAX];
  char *const argv[] = { (char *) "sh",
                         (char *) "-c",
                         (char *) "command -v \"mkfs.$1\"",
                         (char *) "sh",
                         (char *) (uintptr_t) type,
                         NULL };

  return run_program (line, sizeof line, argv) == 0
             ? 0
             : fp_fail (error, -ENOENT,
                        "mkfs.%s is not installed: install it, or choose "
                        "another file system with --type",
                        type);
}

/* Compose the volume file.  With size and copies, the service creates the
 * volume.  Without, it fails if the volume is lost: an empty one would have no
 * file system.
 */
static int
compose (struct mounting *m, bool create, struct fp_error *error)
{
  struct plan *p = &m->plan;
  char size[FP_SIZE_STR_MAX];
  FILE *f;
  int r = plan_text (&f, p, error);

  if (r < 0)
    return r;
  fprintf (f, MOUNTED_AT "%s\n", m->unit.directory);
  if (create) {
    fp_format_size_exact (p->choice.size, size);
    fprintf (f, "size = %s\ncopies = %u\n", size, p->choice.copies);
  }
  return plan_text_end (f, p, error);
}

/* If the volume is new, make a file system on it.  If not, only check that it
 * has one.
 */
static int
format (struct mounting *m, struct fp_error *error)
{
  const char *name = m->plan.name, *type = m->b->type;
  char found[64], out[4096];
  struct device_name device;
  char *const argv[] = { (char *) "mkfs", (char *) "-t",
                         (char *) (uintptr_t) type, device.s, NULL };
  int index, r = state_find_link (name, &index, error);

  if (r < 0)
    return r;
  if (index < 0)
    return fp_fail (error, -ENODEV, "%s is not attached", name);
  device = device_path (index);
  if (probe_signature (found, sizeof found, device.s) < 0)
    return fp_fail (error, -EIO, "%s cannot be read", device.s);
  if (found[0] == '\0' && !m->is_new)
    return fp_fail (error, -EINVAL,
                    "volume %s exists, but blkid(8) finds no file system on "
                    "it: choose another name",
                    name);
  if (found[0] != '\0' && m->is_new) {
    m->is_new = false;
    return fp_fail (error, -EEXIST,
                    "another machine has just created volume %s, with %s on "
                    "it: choose another name, or repeat the command to mount "
                    "that one",
                    name, found);
  }
  if (!m->is_new)
    return 0;
  printf ("making a file system: mkfs -t %s %s\n", type, device.s);
  fflush (stdout);
  r = run_program_within (out, sizeof out, argv, MKFS_MS);
  if (r == 0)
    return 0;
  fputs (out, stderr);
  return fp_fail (error, r < 0 ? r : -EIO,
                  "mkfs -t %s failed%s%s: delete the volume before you repeat "
                  "the command",
                  type, r < 0 ? ": " : " (see above)",
                  r < 0 ? strerror (-r) : "");
}

/* ---- mount ---- */

/* Write the mount unit, and start it. */
static int
start_mount (const struct mounting *m, struct fp_error *error)
{
  char text[2 * PATH_MAX];
  int r = mount_unit_text (text, sizeof text, &m->unit, m->plan.name, error);

  if (r == 0)
    r = plan_write (m->unit.path, text, false, error);
  if (r == 0)
    r = unit_reload (error);
  if (r == 0)
    r = unit_start (m->unit.name, !m->b->plan.once, error);
  if (r < 0)
    unit_say_log (m->unit.name);
  return r;
}

static int
start (struct mounting *m, struct fp_error *error)
{
  char attach[PLAN_UNIT_MAX];
  int r;

  plan_unit (attach, "farpage", m->plan.name);
  r = unit_start (attach, !m->b->plan.once, error);
  if (r < 0) {
    unit_say_log (attach);
    return r;
  }
  r = format (m, error);
  if (r == 0)
    r = compose (m, false, error);
  if (r == 0)
    r = plan_write (m->plan.path, m->plan.text, true, error);
  return r < 0 ? r : start_mount (m, error);
}

/* Print the command that deletes the volume of this file. */
static void
say_how_to_delete (const struct volume_file *f, const char *name)
{
  static const char server[] = "server=";
  const size_t n = sizeof server - 1;

  printf (
      "To delete volume %s and its contents from the memory servers, run:\n"
      "  farpage volumes delete %s",
      name, name);
  for (unsigned i = f->nr_options; i < f->nr_words; i++)
    if (strncmp (f->words[i], server, n) == 0)
      printf (" %s", f->words[i] + n);
    else if (strncmp (f->words[i], "tls", 3) == 0)
      printf (" %s", f->words[i]);
  putchar ('\n');
}

/* Unmount, and stop the units.  Then remove their files: before, an error
 * leaves all of them, so that the command can be repeated.
 */
static int
undo_all (const struct mounting *m, struct fp_error *error)
{
  const struct plan *p = &m->plan;
  char name[STATE_LINK_MAX];
  /* Another volume may be mounted on the directory by now. */
  const bool ours =
      mount_unit_volume (name, &m->unit) && strcmp (name, p->name) == 0;
  int r = ours ? mount_unit_unmount (&m->unit, p->name, error) : 0;

  if (r == 0 && ours)
    r = unit_stop (m->unit.name, error);
  if (r == 0)
    r = plan_detach (p->name, "umount", error);
  if (r == 0 && ours && unlink (m->unit.path) < 0)
    r = fp_fail (error, -errno, "%s: %s", m->unit.path, strerror (errno));
  if (r == 0)
    r = unit_reload (error);
  return r < 0 ? r : plan_remove (p->path, p->name, error);
}

/* Undo all, and if may_delete, print how to delete the volume. */
static int
undo (const struct mounting *m, bool may_delete, struct fp_error *error)
{
  struct volume_file f;
  const bool read = volume_file_read (&f, m->plan.name, error) == 0;
  int r = undo_all (m, error);

  if (r == 0 && may_delete && read)
    say_how_to_delete (&f, m->plan.name);
  volume_file_clear (&f);
  return r;
}

/* Do what was prepared.  If a step fails, undo all of them: a volume that is
 * attached but not mounted is of no use.
 */
static int
apply (struct mounting *m, struct fp_error *error)
{
  struct plan *p = &m->plan;
  struct fp_error second;
  int r = plan_save (p, error);

  if (r < 0)
    return r;
  printf ("wrote %s ('farpage umount %s' undoes this)\n"
          "starting farpage@%s.service and %s%s\n",
          p->path, p->name, p->name, m->unit.name,
          p->args->once ? "" : ", now and at each boot");
  fflush (stdout);
  r = start (m, error);
  if (r < 0)
    return undo (m, m->is_new, &second) < 0
               ? fp_fail (error, r, "%s; %s", error->text, second.text)
               : r;
  printf ("mounted on %s\n", m->unit.directory);
  return 0;
}

static int
prepare (struct mounting *m, struct fp_error *error)
{
  int r = mount_unit_new (&m->unit, m->b->directory, m->b->plan.once, error);

  if (r == 0)
    r = look (m, error);
  if (r == 0 && m->is_new)
    r = check_type (m->b->type, error);
  if (r == 0 && m->is_new)
    r = plan_choose (&m->plan, UINT64_MAX, error);
  if (r == 0 && m->is_new)
    plan_print_choice (&m->plan, m->b->type);
  return r < 0 ? r : compose (m, m->is_new, error);
}

int
borrow_mount (const struct borrow_mount *b)
{
  static struct mounting m;
  char unit[2 * PATH_MAX];
  struct fp_error error;
  int r;

  m = (struct mounting) { .b = b };
  r = plan_begin (&m.plan, &b->plan, &error);
  if (r == 0)
    r = prepare (&m, &error);
  if (r == 0 && !b->plan.dry_run)
    r = apply (&m, &error);
  else if (r == 0) {
    r = mount_unit_text (unit, sizeof unit, &m.unit, m.plan.name, &error);
    if (r == 0)
      printf ("would write %s:\n%s\nwould write %s:\n%s", m.plan.path,
              m.plan.text, m.unit.path, unit);
  }
  plan_end (&m.plan);
  return r < 0 ? say_error ("%s: %s", b->plan.command, error.text)
               : EXIT_SUCCESS;
}

/* ---- unmount ---- */

static int
find (struct mounting *m, const char *what, struct fp_error *error)
{
  struct plan *p = &m->plan;
  int r = 0;

  if (what[0] == '/')
    r = mount_unit_find_mounted (&m->unit, p->name, what, error);
  else
    snprintf (p->name, sizeof p->name, "%s", what);
  if (r == 0)
    r = plan_find (p->path, p->name, "mount", error);
  if (r < 0)
    return r;
  if (!plan_line (m->unit.directory, sizeof m->unit.directory, p->path,
                  MOUNTED_AT))
    return fp_fail (error, -EINVAL,
                    "%s has been edited: add the line '" MOUNTED_AT
                    "DIRECTORY' again",
                    p->path);
  return mount_unit_find (&m->unit, strncmp (p->path, "/run/", 5) == 0, error);
}

int
borrow_umount (const char *command, const char *what)
{
  static struct mounting m;
  struct fp_error error;
  int r;

  if (geteuid () != 0)
    return say_error ("%s: this needs root: run it with sudo", command);
  m = (struct mounting) { .b = NULL };
  r = find (&m, what, &error);
  if (r == 0)
    r = undo (&m, true, &error);
  return r < 0 ? say_error ("%s: %s", command, error.text) : EXIT_SUCCESS;
}
