/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_volumes.c - farpage volumes: list volumes, show one, delete one. */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/size.h"
#include "tools/common/commands.h"
#include "tools/common/json_out.h"
#include "tools/common/suggest.h"
#include "tools/pool_args.h"
#include "tools/common/volumes.h"

static const char help[] =
    "Usage: farpage volumes [list] [--json] ADDR...|pool=NAME\n"
    "       farpage volumes show [--json] VOLUME ADDR...|pool=NAME\n"
    "       farpage volumes delete [--yes] [--partial] VOLUME "
    "ADDR...|pool=NAME\n"
    "\n"
    "List the volumes that the memory servers at ADDR keep, and how much\n"
    "of each is there. 'show' finds all servers of one volume, by its name\n"
    "or UUID; any one of them is enough, because it knows the others. A\n"
    "pool is a file that names servers. 'delete' frees the memory of a\n"
    "volume for good. It asks first, and refuses while the volume is\n"
    "attached.\n"
    "\n"
    "      --json      print JSON\n"
    "      --yes       do not ask\n"
    "      --partial   delete it although some of its servers do not answer;\n"
    "                  what they hold stays there\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "json", no_argument, NULL, 'j' },
  { "yes", no_argument, NULL, 'y' },
  { "partial", no_argument, NULL, 'p' },
  { NULL, 0, NULL, 0 },
};

struct request {
  bool json, yes, partial;
  const char *volume;
  struct fp_addr addrs[FP_MAX_MEMBERS];
  unsigned nr_addrs;
};

static const char *
format_time (uint64_t seconds, char out[32])
{
  time_t t = (time_t) seconds;
  struct tm tm;

  if (!localtime_r (&t, &tm) || strftime (out, 32, "%F %T", &tm) == 0)
    out[0] = '\0';
  return out;
}

/* Return the volume's name, or its UUID if it has no name. */
static const char *
title (const struct fp_volume_entry *e, char uuid[FP_UUID_STR_MAX])
{
  fp_uuid_format (&e->uuid, uuid);
  return e->name[0] ? e->name : uuid;
}

static void
print_owner (const struct fp_volume_entry *e)
{
  char since[32];

  format_time (e->since, since);
  if (e->attached)
    printf ("attached to %s since %s", e->client, since);
  else if (e->client[0])
    printf ("last used by %s until %s", e->client, since);
  else
    printf ("never attached");
}

static void
print_volume (const struct volume_view *v)
{
  char uuid[FP_UUID_STR_MAX], size[FP_SIZE_STR_MAX];

  fp_format_size (v->entry.size, size);
  printf ("%s%s: %s, ", title (&v->entry, uuid),
          v->entry.ephemeral ? " (ephemeral)" : "", size);
}

/* Print how many extents are lost, or may be. */
static void
print_missing (const struct volume_view *v)
{
  if (v->missing == 0)
    return;
  printf ("; %" PRIu64 " of its %" PRIu64 " extents %s ", v->missing,
          v->extents, v->missing == 1 ? "is" : "are");
  printf (v->all_answered ? "lost: reading or writing %s is an I/O error"
                          : "on servers that do not answer, or lost",
          v->missing == 1 ? "it" : "one");
}

/* Print a volume all of whose servers were asked. */
static void
print_summary (const struct volume_view *v)
{
  char used[FP_SIZE_STR_MAX];

  print_volume (v);
  fp_format_size (v->slabs * v->entry.slab_size, used);
  printf ("%s allocated, ", used);
  print_owner (&v->entry);
  print_missing (v);
}

/* Print a volume by what the given servers have.  It may have other servers.
 */
static void
print_of_these (const struct volume_view *v)
{
  char used[FP_SIZE_STR_MAX];

  print_volume (v);
  print_owner (&v->entry);
  for (unsigned i = 0; i < v->nr_places; i++) {
    fp_format_size (v->places[i].slabs * v->entry.slab_size, used);
    printf ("%s%s of it on %s", i == 0 ? "; " : ", ", used, v->places[i].addr);
  }
  /* Otherwise, extents that are missing here may be elsewhere. */
  if (v->all_answered)
    print_missing (v);
  putchar ('\n');
}

static const char *
state_of (const struct volume_place *p)
{
  if (!p->answers)
    return "does not answer";
  if (!p->has_it)
    return "has lost it";
  if (p->left)
    return "has left it: what it has is of no use";
  return p->member && !p->current ? "behind" : "in step";
}

static void
print_places (const struct volume_view *v)
{
  char used[FP_SIZE_STR_MAX], uuid[FP_UUID_STR_MAX], text[32];

  fp_uuid_format (&v->entry.uuid, uuid);
  printf ("\n  UUID %s, created %s, slabs of %s", uuid,
          format_time (v->entry.created, text),
          (fp_format_size (v->entry.slab_size, used), used));
  if (v->entry.stripe.width > 1)
    printf (", striped over %u extents in units of %s", v->entry.stripe.width,
            (fp_format_size (v->entry.stripe.size, used), used));
  putchar ('\n');
  for (unsigned i = 0; i < v->nr_places; i++) {
    const struct volume_place *p = &v->places[i];

    if (!p->member && !p->has_it)
      continue;
    fp_format_size (p->slabs * v->entry.slab_size, used);
    printf ("  %s%s%s: %s%s%s", p->addr, p->domain[0] ? ", domain " : "",
            p->domain, state_of (p), p->error.text[0] ? ": " : "",
            p->error.text);
    if (p->has_it)
      printf (", %s", used);
    putchar ('\n');
  }
}

/* Return n, or NULL (in JSON null) if it is not known. */
static struct json_object *
number_if (bool known, uint64_t n)
{
  return known ? json_object_new_int64 ((int64_t) n) : NULL;
}

static struct json_object *
to_json (const struct volume_view *v, bool places_known)
{
  struct json_object *o = json_object_new_object ();
  struct json_object *list = json_object_new_array ();
  char uuid[FP_UUID_STR_MAX];

  fp_uuid_format (&v->entry.uuid, uuid);
  json_add_str (o, "name", v->entry.name);
  json_add_str (o, "uuid", uuid);
  json_add_num (o, "size", v->entry.size);
  json_add_num (o, "slab_size", v->entry.slab_size);
  json_add_num (o, "copies", v->entry.copies);
  json_add_num (o, "stripe_size", v->entry.stripe.size);
  json_add_num (o, "stripe_width", v->entry.stripe.width);
  json_add_num (o, "allocated", v->slabs * v->entry.slab_size);
  json_object_object_add (o, "extents", number_if (v->is_counted, v->extents));
  json_object_object_add (o, "extents_missing",
                          number_if (v->is_counted, v->missing));
  json_object_object_add (
      o, "extents_lost",
      number_if (v->is_counted && v->all_answered, v->missing));
  json_add_num (o, "created", v->entry.created);
  json_add_bool (o, "ephemeral", v->entry.ephemeral);
  json_add_bool (o, "attached", v->entry.attached);
  json_add_str (o, "client", v->entry.client);
  json_add_num (o, "since", v->entry.since);
  for (unsigned i = 0; i < v->nr_places; i++) {
    const struct volume_place *p = &v->places[i];
    struct json_object *e;

    if (!p->member && !p->has_it)
      continue;
    e = json_object_new_object ();
    fp_uuid_format (&p->server, uuid);
    json_add_str (e, "addr", p->addr);
    json_add_str (e, "uuid", uuid);
    json_add_num (e, "allocated", p->slabs * v->entry.slab_size);
    if (places_known) {
      json_add_str (e, "domain", p->domain);
      json_add_str (e, "state", state_of (p));
    }
    json_object_array_add (list, e);
  }
  json_object_object_add (o, "servers", list);
  return o;
}

static const char *const words[] = { "list", "show", "delete" };
static const char *first_word;

/* Report a server that failed.  A host may have any name, so the guess at a
 * mistyped command is only for when there is no such host.
 */
static void
failed (const char *addr, const struct fp_error *error)
{
  size_t n = first_word ? strlen (first_word) : 0;
  const char *meant = NULL;

  if (n > 0 && strncmp (addr, first_word, n) == 0 && addr[n] == ':')
    meant = suggest (first_word, words, sizeof words / sizeof words[0]);
  say_error ("volumes: %s: %s%s%s%s", addr, error->text,
             meant ? "; or did you mean 'farpage volumes " : "",
             meant ? meant : "", meant ? "'?" : "");
}

static int
list (const struct request *q)
{
  struct json_object *o = NULL, *all = NULL;
  struct volume_list l;
  int r = volumes_list (&l, q->addrs, q->nr_addrs, failed);

  if (q->json) {
    o = json_object_new_object ();
    all = json_object_new_array ();
    json_object_object_add (o, "version", json_object_new_int (2));
    json_object_object_add (o, "volumes", all);
  }
  for (unsigned i = 0; i < l.nr; i++) {
    if (q->json) {
      json_object_array_add (all, to_json (&l.views[i], false));
      continue;
    }
    print_of_these (&l.views[i]);
  }
  if (q->json)
    json_print (o);
  else if (l.nr == 0 && r == 0)
    printf ("no volumes\n");
  volumes_free (&l);
  return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int
show (const struct request *q)
{
  static struct volume_view v;
  struct fp_error error;

  if (volumes_find (&v, q->volume, q->addrs, q->nr_addrs, NULL, &error) < 0)
    return say_error ("volumes: %s", error.text);
  if (q->json) {
    struct json_object *o = to_json (&v, true);

    json_object_object_add (o, "version", json_object_new_int (2));
    json_add_num (o, "epoch", v.epoch);
    json_add_num (o, "members_version", v.version);
    json_print (o);
    return EXIT_SUCCESS;
  }
  print_summary (&v);
  print_places (&v);
  return EXIT_SUCCESS;
}

static bool
agreed (const struct volume_view *v)
{
  char answer[16];

  print_summary (v);
  printf ("\nDelete it and all its data? [y/N] ");
  fflush (stdout);
  return fgets (answer, sizeof answer, stdin) &&
         (answer[0] == 'y' || answer[0] == 'Y');
}

/* Refuse to delete an attached volume, or one that cannot be deleted
 * everywhere.  With partial, servers that do not answer do not matter.
 */
static int
check_deletable (const struct volume_view *v, bool partial)
{
  char since[32], uuid[FP_UUID_STR_MAX];
  const char *name = title (&v->entry, uuid);

  if (v->entry.attached)
    return say_error ("volumes: %s: attached to %s since %s: detach it first",
                      name, v->entry.client,
                      format_time (v->entry.since, since));
  for (unsigned i = 0; i < v->nr_places && !partial; i++)
    if (v->places[i].member && !v->places[i].answers)
      return say_error ("volumes: %s: its server %s does not answer: %s: "
                        "--partial deletes it from the others",
                        name, v->places[i].addr, v->places[i].error.text);
  return EXIT_SUCCESS;
}

/* Return true if the volume has left all servers that were named.  Then only
 * what they still have of it is deleted.  The volume is elsewhere, and stays.
 */
static bool
is_leftover (const struct volume_view *v)
{
  for (unsigned i = 0; i < v->nr_places; i++)
    if (v->places[i].named && v->places[i].has_it && !v->places[i].left)
      return false;
  return true;
}

static bool any_silent;

/* Report a named server that does not answer.  It may not be the volume's. */
static void
silent (const char *addr, const struct fp_error *error)
{
  any_silent = true;
  say_error ("volumes: %s: %s; it may still hold a part of the volume", addr,
             error->text);
}

static int
delete_one (const struct request *q)
{
  static struct volume_view v;
  bool leftover;
  int status;
  struct fp_error error;

  if (volumes_find (&v, q->volume, q->addrs, q->nr_addrs, silent, &error) < 0)
    return say_error ("volumes: %s", error.text);
  leftover = is_leftover (&v);
  status = leftover ? EXIT_SUCCESS : check_deletable (&v, q->partial);
  if (status != EXIT_SUCCESS)
    return status;
  if (!q->yes && isatty (STDIN_FILENO) != 1)
    return say_error ("volumes: %s: not deleted: cannot ask, as this is not a "
                      "terminal: use --yes",
                      q->volume);
  if (!q->yes && !agreed (&v))
    return say_error ("volumes: %s: not deleted", q->volume);
  for (unsigned i = 0; i < v.nr_places; i++) {
    if (v.places[i].has_it && (!leftover || v.places[i].named) &&
        volumes_delete (&v, &v.places[i], &error) < 0)
      status = say_error ("volumes: %s: %s", v.places[i].addr, error.text);
  }
  if (any_silent && !q->partial)
    status = EXIT_FAILURE;
  return status;
}

static int
parse_addrs (struct request *q, int n, char *argv[])
{
  const char *why;
  int status;

  if (n <= 0)
    return say_usage ("volumes", "no servers given: give their addresses");
  status = pool_args ("volumes", &n, &argv);
  if (status != EXIT_SUCCESS)
    return status;
  if (n > FP_MAX_MEMBERS)
    return say_usage ("volumes", "more than %d servers", FP_MAX_MEMBERS);
  for (int i = 0; i < n; i++)
    if (fp_addr_parse (&q->addrs[i], argv[i], &why) < 0)
      return say_usage ("volumes", "%s: %s", argv[i], why);
  q->nr_addrs = (unsigned) n;
  return EXIT_SUCCESS;
}

static bool
is_volume (const char *s)
{
  struct fp_uuid uuid;

  return fp_name_ok (s) || fp_uuid_parse (&uuid, s) == 0;
}

int
cmd_volumes (int argc, char *argv[])
{
  static struct request q;
  int (*run) (const struct request *) = list;
  int c, status;

  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "volumes", help, &status))
      return status;
    q.json |= c == 'j';
    q.yes |= c == 'y';
    q.partial |= c == 'p';
  }
  argv += optind;
  argc -= optind;
  first_word = argc > 0 ? argv[0] : NULL;
  if (argc > 0 && strcmp (argv[0], "show") == 0)
    run = show;
  else if (argc > 0 && strcmp (argv[0], "delete") == 0)
    run = delete_one;
  if (run != list || (argc > 0 && strcmp (argv[0], "list") == 0)) {
    argv++;
    argc--;
  }
  if ((q.yes || q.partial) && run != delete_one)
    return say_usage ("volumes",
                      "--yes and --partial are for 'farpage volumes delete'");
  if (q.json && run == delete_one)
    return say_usage ("volumes", "'delete' takes no --json");
  if (run != list) {
    if (argc == 0)
      return say_usage ("volumes", "no volume given: give its name or UUID");
    if (!is_volume (argv[0]))
      /* Do not repeat the argument: it may be unsafe to print. */
      return say_usage (
          "volumes",
          "not a volume name or UUID: a name is 1 to %d "
          "printable ASCII characters, without blanks, '/', '\"' "
          "and '\\'",
          FP_NAME_MAX);
    q.volume = argv[0];
    argv++;
    argc--;
  }
  status = parse_addrs (&q, argc, argv);
  return status != EXIT_SUCCESS ? status : run (&q);
}
