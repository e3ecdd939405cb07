/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_doctor.c - farpage doctor: report what makes a set-up fail, and what to
 * do.
 */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/attach/nbd_genl.h"
#include "tools/attach/front_proc.h"
#include "tools/common/colour.h"
#include "tools/common/commands.h"
#include "tools/common/json_out.h"
#include "tools/common/plugin_status.h"
#include "tools/common/program.h"
#include "tools/doctor/doctor.h"

static const char help[] =
    "Usage: farpage doctor [OPTION]... [CHECK]...\n"
    "\n"
    "Check this machine for what makes borrowing and lending memory fail:\n"
    "kernel, NBD, RDMA, limits, programs, and attached devices. Change\n"
    "nothing. As root it sees more.\n"
    "\n"
    "      --json   print JSON\n"
    "      --help, --version\n"
    "\n"
    "Exit status 1 if there is a problem; a warning is not a problem.\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "json", no_argument, NULL, 'j' },
  { NULL, 0, NULL, 0 },
};

#define PROGRAM_MS 10000

static int
ask_netlink (struct fp_error *error)
{
  struct nbd_genl *g = NULL;
  int r = nbd_genl_open (&g, error);

  nbd_genl_free (g);
  return r;
}

static int
run (char *out, size_t size, char *const argv[])
{
  return run_program_within (out, size, argv, PROGRAM_MS);
}

static void
look_at (struct doctor_volume *v, int index)
{
  char path[STATE_PATH_MAX];
  struct fp_error error;
  int lock;

  if (state_load (&v->st, index, &v->state_error) < 0)
    return;
  v->state_error.text[0] = '\0';
  /* If the lock can be taken, no supervisor holds it. */
  if (state_lock (&lock, index, &error) == 0)
    close (lock);
  else
    v->supervised = true;
  state_path (path, index, "status.sock");
  if (plugin_status_read (&v->plugin, path, &v->plugin_error) < 0)
    v->plugin = NULL;
}

static int
gather (struct doctor *d)
{
  for (int i = state_next (-1); i >= 0; i = state_next (i)) {
    void *more =
        realloc (d->volumes, (d->nr_volumes + 1) * sizeof *d->volumes);

    if (!more)
      return -ENOMEM;
    d->volumes = more;
    memset (&d->volumes[d->nr_volumes], 0, sizeof *d->volumes);
    look_at (&d->volumes[d->nr_volumes++], i);
  }
  return 0;
}

static void
forget (struct doctor *d)
{
  unsigned i;

  for (i = 0; i < d->nr_volumes; i++) {
    state_clear (&d->volumes[i].st);
    free (d->volumes[i].plugin);
  }
  free (d->volumes);
}

static void
print_json (const struct doctor *d)
{
  struct json_object *o = json_object_new_object (), *e;
  struct json_object *list = json_object_new_array ();
  unsigned i, k, count;

  json_object_object_add (o, "version", json_object_new_int (1));
  json_add_str (o, "result", doctor_verdict_name (doctor_worst (d)));
  for (k = 0; k < DOCTOR_VERDICTS; k++) {
    for (i = count = 0; i < d->nr; i++)
      count += d->findings[i].verdict == k;
    json_add_num (o, doctor_verdict_name (k), count);
  }
  for (i = 0; i < d->nr; i++) {
    const struct finding *f = &d->findings[i];

    e = json_object_new_object ();
    json_add_str (e, "check", f->id);
    json_add_str (e, "title", f->title);
    json_add_str (e, "result", doctor_verdict_name (f->verdict));
    json_add_str (e, "what", f->what);
    json_add_str (e, "remedy", f->remedy);
    json_object_array_add (list, e);
  }
  json_object_object_add (o, "findings", list);
  json_print (o);
}

/* Print words in lines of a terminal's width. */
static void
print_wrapped (const char *text, int indent)
{
  int column = indent;

  while (*text) {
    int n = (int) strcspn (text, " ");

    if (column > indent && column + 1 + n > 79) {
      printf ("\n%*s", indent, "");
      column = indent;
    }
    else if (column > indent) {
      putchar (' ');
      column++;
    }
    printf ("%.*s", n, text);
    column += n;
    text += n + (text[n] == ' ');
  }
  putchar ('\n');
}

static void
print_text (const struct doctor *d)
{
  static const enum colour colours[] = { COLOUR_GREEN, COLOUR_NONE,
                                         COLOUR_YELLOW, COLOUR_RED };
  unsigned i, count[DOCTOR_VERDICTS] = { 0 };

  for (i = 0; i < d->nr; i++) {
    const struct finding *f = &d->findings[i];
    char what[sizeof f->what + 64];

    count[f->verdict]++;
    printf ("%s%-8s%s ", colour_on (stdout, colours[f->verdict]),
            doctor_verdict_name (f->verdict),
            colour_off (stdout, colours[f->verdict]));
    snprintf (what, sizeof what, "%s: %s", f->title, f->what);
    print_wrapped (what, 9);
    if (*f->remedy) {
      printf ("%*s-> ", 9, "");
      print_wrapped (f->remedy, 12);
    }
  }
  printf ("%u problems, %u warnings, %u unknown%s\n", count[DOCTOR_PROBLEM],
          count[DOCTOR_WARNING], count[DOCTOR_UNKNOWN],
          geteuid () != 0 ? " (run as root to see more)" : "");
}

static int
examine (struct doctor *d, char *argv[], int n)
{
  int i;

  if (n == 0)
    (void) doctor_examine (d, NULL);
  for (i = 0; i < n; i++)
    if (!doctor_examine (d, argv[i]))
      return say_usage ("doctor", "%s: no such check", argv[i]);
  return EXIT_SUCCESS;
}

int
cmd_doctor (int argc, char *argv[])
{
  static struct doctor d = { .root = "", .netlink = ask_netlink, .run = run };
  bool json = false;
  int c, status;

  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "doctor", help, &status))
      return status;
    json = json || c == 'j';
  }
  d.plugin_path = nbdkit_plugin_path ();
  if (gather (&d) < 0)
    return say_error ("doctor: out of memory");
  status = examine (&d, argv + optind, argc - optind);
  if (status == EXIT_SUCCESS) {
    if (json)
      print_json (&d);
    else
      print_text (&d);
    if (doctor_worst (&d) == DOCTOR_PROBLEM)
      status = EXIT_FAILURE;
  }
  forget (&d);
  return status;
}
