/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_cluster.c - farpage cluster: the donors that announce themselves in
 * etcd.
 */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "pool/choose.h"
#include "pool/etcdctl.h"
#include "pool/registry.h"
#include "tools/cluster/cluster.h"
#include "tools/common/commands.h"
#include "tools/common/json_out.h"
#include "tools/common/suggest.h"
#include "tools/common/tls_args.h"
#include "tools/pool_args.h"
#include "tools/servers_drain.h"

static const char help[] =
    "Usage: farpage cluster list|df [--json] etcd:PREFIX\n"
    "       farpage cluster choose [OPTION]... etcd:PREFIX N\n"
    "       farpage cluster cordon|uncordon etcd:PREFIX DONOR\n"
    "       farpage cluster drain [OPTION]... etcd:PREFIX DONOR "
    "[tls-psk=FILE]\n"
    "       farpage cluster announce [OPTION]... etcd:PREFIX ADDR "
    "[tls-psk=FILE]\n"
    "\n"
    "Manage the donors that announce themselves in etcd below PREFIX. 'list'\n"
    "shows them, 'df' the memory of each failure domain. 'choose' prints N\n"
    "donors for a volume. 'cordon' keeps new volumes away from a donor, and\n"
    "'uncordon' ends that. 'drain' cordons a donor and then empties it, as\n"
    "'farpage servers drain' does. 'announce' runs beside the donor whose\n"
    "address for clients is ADDR. DONOR is an address, a name or a UUID.\n"
    "etcdctl is needed. Its ETCDCTL_ variables say how to reach etcd.\n"
    "\n"
    "      --json           list, df, drain: print JSON\n"
    "      --size SIZE      choose: each donor must have SIZE free\n"
    "      --except DONOR   choose: the volume has this one; may be repeated\n"
    "      --deadline TIME  drain: wait for at most this long (default "
    "10min)\n"
    "      --cancel         drain: let the donor lend again, and uncordon it\n"
    "      --domain NAME    announce: the failure domain of the donor\n"
    "      --ttl TIME       announce: etcd deletes a donor that was silent "
    "for\n"
    "                       TIME (default 30s)\n"
    "      --help, --version\n";

#define EXCEPT_MAX 64
#define TTL_S 30
#define TTL_MIN_S 10 /* a round may take some seconds */
#define TTL_MAX_S 3600

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "json", no_argument, NULL, 'j' },
  { "size", required_argument, NULL, 's' },
  { "except", required_argument, NULL, 'x' },
  { "deadline", required_argument, NULL, 'w' },
  { "cancel", no_argument, NULL, 'c' },
  { "domain", required_argument, NULL, 'd' },
  { "ttl", required_argument, NULL, 't' },
  { NULL, 0, NULL, 0 },
};

enum { LIST, DF, CHOOSE, CORDON, UNCORDON, DRAIN, ANNOUNCE };
static const char *const words[] = { "list",     "df",    "choose",  "cordon",
                                     "uncordon", "drain", "announce" };

struct command {
  int which;
  const char *prefix;
  bool json, cancel;
  char *deadline; /* NULL: not given */
  uint64_t size;
  long count;
  unsigned nr_except;
  const char *except[EXCEPT_MAX];
  fp_donor_addr_t excepted[EXCEPT_MAX];
  struct announcement announcement;
  struct fp_registry registry;
};

/* ---- one donor ---- */

/* Return true if donor is the UUID or the address of d, with or without the
 * port.
 */
static bool
is_at (const struct fp_donor *d, const char *donor)
{
  char uuid[FP_UUID_STR_MAX];
  fp_donor_addr_t addr = "";
  struct fp_error error;

  fp_uuid_format (&d->uuid, uuid);
  (void) fp_donor_addr (addr, donor, &error); /* else it is no address */
  return strcmp (d->addr, addr) == 0 || strcasecmp (uuid, donor) == 0;
}

/* Return true if donor is an address with a port, and put it into addr. */
static bool
has_port (fp_donor_addr_t addr, const char *donor)
{
  struct fp_error error;

  return fp_donor_addr (addr, donor, &error) == 0 &&
         strcasecmp (addr, donor) == 0;
}

/* Find the donor with that address or UUID, or else with that name.  Return
 * how many there are.
 */
static unsigned
find_announced (const struct command *q, const char *donor,
                const struct fp_donor **out)
{
  const struct fp_registry *r = &q->registry;
  fp_donor_addr_t addr;
  struct fp_uuid uuid;
  unsigned found = 0;

  for (size_t i = 0; i < r->nr; i++)
    if (is_at (&r->donors[i], donor)) {
      *out = &r->donors[i];
      return 1;
    }
  /* A donor may have a name that looks like the address of another. */
  if (has_port (addr, donor) || fp_uuid_parse (&uuid, donor) == 0)
    return 0;
  for (size_t i = 0; i < r->nr; i++)
    if (strcmp (r->donors[i].name, donor) == 0) {
      *out = &r->donors[i];
      found++;
    }
  return found;
}

/* Get the address of a donor, and *d, which is NULL if it is not announced.
 * One that is down has to be named by its address with the port.  If the port
 * were optional, a mistyped name would pass as a host.
 */
static int
find (fp_donor_addr_t addr, const struct fp_donor **d, const struct command *q,
      const char *donor)
{
  unsigned found = find_announced (q, donor, d);

  if (found == 1) {
    snprintf (addr, sizeof (fp_donor_addr_t), "%s", (*d)->addr);
    return EXIT_SUCCESS;
  }
  *d = NULL;
  if (found > 1)
    return say_error ("cluster: several donors are called '%s': give an "
                      "address, as 'farpage cluster list etcd:%s' prints it",
                      donor, q->prefix);
  if (has_port (addr, donor))
    return EXIT_SUCCESS;
  return say_error ("cluster: etcd:%s has no donor '%s': see 'farpage cluster "
                    "list etcd:%s', or give HOST:PORT of one that is down",
                    q->prefix, donor, q->prefix);
}

/* ---- list ---- */

static int
max (int a, size_t b)
{
  return a > (int) b ? a : (int) b;
}

static bool
is_announced (const struct fp_registry *r, const char *addr)
{
  for (size_t i = 0; i < r->nr; i++)
    if (strcmp (r->donors[i].addr, addr) == 0)
      return true;
  return false;
}

/* Print a line for each donor, and for each cordon without a donor.  Return
 * how many lines these are.
 */
static size_t
print_list (const struct fp_registry *r)
{
  char total[FP_SIZE_STR_MAX], free_size[FP_SIZE_STR_MAX];
  char slab[FP_SIZE_STR_MAX];
  int addr = 7, name = 4, domain = 6; /* widths, of the titles at least */
  size_t n = r->nr;

  for (size_t i = 0; i < r->nr; i++) {
    addr = max (addr, strlen (r->donors[i].addr));
    name = max (name, strlen (r->donors[i].name));
    domain = max (domain, strlen (r->donors[i].domain));
  }
  for (size_t i = 0; i < r->nr_cordons; i++)
    addr = max (addr, strlen (r->cordons[i]));
  printf ("%-*s  %-*s  %-*s %7s %9s %9s  %s\n", addr, "ADDRESS", name, "NAME",
          domain, "DOMAIN", "SLAB", "SIZE", "FREE", "STATE");
  for (size_t i = 0; i < r->nr; i++) {
    const struct fp_donor *d = &r->donors[i];
    fp_format_size (d->slab, slab);
    fp_format_size (d->total, total);
    fp_format_size (d->free, free_size);
    printf ("%-*s  %-*s  %-*s %7s %9s %9s %s%s%s%s", addr, d->addr, name,
            d->name, domain, d->domain[0] != '\0' ? d->domain : "-", slab,
            total, free_size, fp_donor_lends (d) ? " lends" : "",
            d->cordoned ? " cordoned" : "", d->draining ? " draining" : "",
            d->pressed ? " pressed" : "");
    if (d->protocol != FP_VERSION)
      printf (" protocol %" PRIu64, d->protocol);
    putchar ('\n');
  }
  for (size_t i = 0; i < r->nr_cordons; i++)
    if (!is_announced (r, r->cordons[i])) {
      printf ("%-*s  %-*s  %-*s %7s %9s %9s  cordoned, not announced\n", addr,
              r->cordons[i], name, "-", domain, "-", "-", "-", "-");
      n++;
    }
  return n;
}

/* Print a document with an array donors, and with the addresses of cordons
 * without a donor.
 */
static void
print_list_json (const struct fp_registry *r)
{
  struct json_object *o = json_object_new_object ();
  struct json_object *donors = json_object_new_array ();
  struct json_object *absent = json_object_new_array ();

  json_object_object_add (o, "version", json_object_new_int (1));
  json_object_object_add (o, "donors", donors);
  json_object_object_add (o, "cordoned_not_announced", absent);
  for (size_t i = 0; i < r->nr; i++) {
    struct json_object *e = fp_donor_to_json (&r->donors[i]);

    json_add_bool (e, "cordoned", r->donors[i].cordoned);
    json_object_array_add (donors, e);
  }
  for (size_t i = 0; i < r->nr_cordons; i++)
    if (!is_announced (r, r->cordons[i]))
      json_object_array_add (absent, json_object_new_string (r->cordons[i]));
  json_print (o);
}

static int
list (const struct command *q)
{
  if (q->json)
    print_list_json (&q->registry);
  else if (print_list (&q->registry) == 0)
    fprintf (stderr, "no donor is announced below etcd:%s\n", q->prefix);
  return EXIT_SUCCESS;
}

/* ---- df ---- */

struct sum {
  const char *domain;
  unsigned donors;
  uint64_t total, free, usable; /* usable: at donors that lend now */
};

static void
add_to (struct sum *s, const struct fp_donor *d)
{
  s->donors++;
  s->total += d->total;
  s->free += d->free;
  if (fp_donor_lends (d))
    s->usable += d->free;
}

static void
print_sum (const struct sum *s)
{
  char total[FP_SIZE_STR_MAX], free_size[FP_SIZE_STR_MAX];
  char usable[FP_SIZE_STR_MAX];

  fp_format_size (s->total, total);
  fp_format_size (s->free, free_size);
  fp_format_size (s->usable, usable);
  printf ("%-20s %7u %10s %10s %10s\n", s->domain[0] != '\0' ? s->domain : "-",
          s->donors, total, free_size, usable);
}

static struct json_object *
sum_to_json (const struct sum *s)
{
  struct json_object *o = json_object_new_object ();

  json_add_str (o, "domain", s->domain);
  json_add_num (o, "donors", s->donors);
  json_add_num (o, "total", s->total);
  json_add_num (o, "free", s->free);
  json_add_num (o, "usable", s->usable);
  return o;
}

/* Show the sum of each domain, and of all.  The donors are sorted by domain.
 */
static int
df (const struct command *q)
{
  const struct fp_registry *r = &q->registry;
  struct json_object *array = json_object_new_array ();
  struct json_object *o = json_object_new_object ();
  struct sum all = { .domain = "(all)" }, s = { .domain = "" };

  if (!q->json)
    printf ("%-20s %7s %10s %10s %10s\n", "DOMAIN", "DONORS", "SIZE", "FREE",
            "USABLE");
  for (size_t i = 0; i < r->nr; i++) {
    add_to (&all, &r->donors[i]);
    if (i == 0 || strcmp (r->donors[i].domain, r->donors[i - 1].domain) != 0)
      s = (struct sum) { .domain = r->donors[i].domain };
    add_to (&s, &r->donors[i]);
    if (i + 1 < r->nr &&
        strcmp (r->donors[i].domain, r->donors[i + 1].domain) == 0)
      continue;
    json_object_array_add (array, sum_to_json (&s));
    if (!q->json)
      print_sum (&s);
  }
  json_object_object_add (o, "version", json_object_new_int (1));
  json_object_object_add (o, "domains", array);
  json_object_object_add (o, "all", sum_to_json (&all));
  if (q->json)
    json_print (o);
  else {
    print_sum (&all);
    json_object_put (o);
  }
  return EXIT_SUCCESS;
}

/* ---- choose ---- */

static bool
is_excepted (void *arg, const struct fp_donor *d)
{
  const struct command *q = arg;

  for (unsigned i = 0; i < q->nr_except; i++)
    if (strcmp (d->addr, q->excepted[i]) == 0)
      return true;
  return false;
}

/* Look up the donors of --except.  Each may have the ',domain=NAME' that
 * choose prints.
 */
static int
find_excepted (struct command *q)
{
  for (unsigned i = 0; i < q->nr_except; i++) {
    size_t n = strcspn (q->except[i], ",");
    const struct fp_donor *d;
    char text[FP_ADDR_MAX + FP_NAME_MAX];
    int status;

    snprintf (text, sizeof text, "%.*s", (int) n, q->except[i]);
    status = find (q->excepted[i], &d, q, text);
    if (status != EXIT_SUCCESS)
      return status;
  }
  return EXIT_SUCCESS;
}

/* Warn if two of the chosen donors are in one domain. */
static void
warn_of_domains (const struct command *q, const size_t *out)
{
  for (long i = 0; i < q->count; i++)
    for (long k = 0; k < i; k++) {
      const struct fp_donor *a = &q->registry.donors[out[i]];
      const struct fp_donor *b = &q->registry.donors[out[k]];

      if (a->domain[0] == '\0' || strcmp (a->domain, b->domain) != 0)
        continue;
      fprintf (stderr,
               "%s and %s are both in domain %s: no unused domain has a "
               "suitable donor\n",
               a->addr, b->addr, a->domain);
      return;
    }
}

/* Print the chosen donors as arguments of swapon, mount or servers add. */
static int
choose (struct command *q)
{
  struct fp_choose_rules rules = {
    .n = (unsigned) q->count, .room = q->size, .has = is_excepted, .arg = q
  };
  size_t out[FP_MAX_MEMBERS];
  int r = find_excepted (q);

  if (r != EXIT_SUCCESS)
    return r;
  r = fp_choose_donors (&q->registry, &rules, out);
  if (r < 0)
    return say_error ("cluster choose: %s", strerror (-r));
  if (r < q->count)
    return say_error ("cluster choose: found only %d of %ld donors that lend, "
                      "have room and have the same slab size: see 'farpage "
                      "cluster list etcd:%s', or ask for fewer donors or a "
                      "smaller --size",
                      r, q->count, q->prefix);
  for (long i = 0; i < q->count; i++) {
    const struct fp_donor *d = &q->registry.donors[out[i]];

    printf ("%s%s%s\n", d->addr, d->domain[0] != '\0' ? ",domain=" : "",
            d->domain);
  }
  warn_of_domains (q, out);
  return EXIT_SUCCESS;
}

/* ---- cordon, drain ---- */

/* Set or clear the cordon of the donor at addr. */
static int
set_cordon (const struct command *q, const char *addr, bool on)
{
  char key[256 + FP_ADDR_MAX];
  const char *const put[] = { "put", key, "cordoned", NULL };
  const char *const del[] = { "del", key, NULL };
  struct fp_error error;

  snprintf (key, sizeof key, "%s/cordon/%s", q->prefix, addr);
  if (fp_etcdctl (NULL, on ? put : del, &error) < 0)
    return say_error ("cluster: etcd:%s: %s", q->prefix, error.text);
  return EXIT_SUCCESS;
}

/* d is NULL if no donor is announced at addr. */
static int
cordon (const struct command *q, const char *addr, const struct fp_donor *d,
        bool on)
{
  int status = set_cordon (q, addr, on);

  if (status != EXIT_SUCCESS)
    return status;
  fprintf (stderr, "%s: %s%s\n", addr,
           on ? "no new volume goes there" : "new volumes may go there",
           d == NULL ? "; no donor is announced at this address now" : "");
  if (!on && d != NULL && d->draining)
    fprintf (stderr,
             "%s: the donor is still draining: run 'farpage cluster drain "
             "--cancel etcd:%s %s', or restart the donor\n",
             addr, q->prefix, addr);
  return EXIT_SUCCESS;
}

/* Cordon a donor and run 'farpage servers drain'.  With --cancel, run that
 * first, and uncordon the donor if it succeeds.  rest holds TLS parameters.
 */
static int
drain (const struct command *q, char *addr, int argc, char *rest[])
{
  static char word[] = "drain", cancel[] = "--cancel", json[] = "--json";
  static char deadline[] = "--deadline";
  FP_CLEANUP (fp_free) char **argv = calloc ((size_t) argc + 7, sizeof *argv);
  int n = 0, status;

  if (argv == NULL)
    return say_error ("cluster: out of memory");
  argv[n++] = word;
  if (q->cancel)
    argv[n++] = cancel;
  if (q->json)
    argv[n++] = json;
  if (q->deadline != NULL) {
    argv[n++] = deadline;
    argv[n++] = q->deadline;
  }
  argv[n++] = addr;
  for (int i = 0; i < argc; i++)
    argv[n++] = rest[i];
  if (!q->cancel) {
    status = set_cordon (q, addr, true);
    if (status != EXIT_SUCCESS)
      return status;
  }
  status = servers_drain (n, argv);
  if (q->cancel)
    return status == EXIT_SUCCESS ? set_cordon (q, addr, false) : status;
  fprintf (stderr,
           "%s stays cordoned, even after a restart: to use it again, run "
           "'farpage cluster uncordon etcd:%s %s'\n",
           addr, q->prefix, addr);
  return status;
}

/* ---- the command line ---- */

static int
bad_word (const char *word)
{
  const char *meant = suggest (word, words, sizeof words / sizeof words[0]);

  return say_usage ("cluster", "unknown command '%s'%s%s%s", word,
                    meant != NULL ? ": did you mean '" : "",
                    meant != NULL ? meant : "", meant != NULL ? "'?" : "");
}

static int
take_option (struct command *q, int c)
{
  struct fp_donor *d = &q->announcement.donor;
  const char *why;
  long ignored;

  if (c == 'j')
    q->json = true;
  else if (c == 'c')
    q->cancel = true;
  else if (c == 'w' &&
           !parse_seconds (optarg, 1, SERVERS_DRAIN_MAX_S, &ignored))
    return say_usage ("cluster", "--deadline %s: not a time from 1s to 7d",
                      optarg);
  else if (c == 'w')
    q->deadline = optarg;
  else if (c == 's' && fp_parse_size (optarg, &q->size, &why) < 0)
    return say_usage ("cluster", "--size %s: %s", optarg, why);
  else if (c == 'x' && q->nr_except == EXCEPT_MAX)
    return say_usage ("cluster", "--except: at most %d", EXCEPT_MAX);
  else if (c == 'x')
    q->except[q->nr_except++] = optarg;
  else if (c == 'd' && !fp_donor_domain_ok (optarg))
    return say_usage ("cluster", "--domain %s: use letters, digits and ._:-",
                      optarg);
  else if (c == 'd')
    snprintf (d->domain, sizeof d->domain, "%s", optarg);
  else if (c == 't' && !parse_seconds (optarg, TTL_MIN_S, TTL_MAX_S,
                                       &q->announcement.ttl_s))
    return say_usage ("cluster", "--ttl %s: not a time from %ds to %ds",
                      optarg, TTL_MIN_S, TTL_MAX_S);
  return EXIT_SUCCESS;
}

/* The options of each command. */
static const char *const options_of[] = {
  [LIST] = "j",    [DF] = "j",      [CHOOSE] = "sx",   [CORDON] = "",
  [UNCORDON] = "", [DRAIN] = "cjw", [ANNOUNCE] = "dt",
};

static int
parse_options (struct command *q, int argc, char *argv[], bool *ends)
{
  int c, status = EXIT_SUCCESS;

  *ends = false;
  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    *ends = common_option (c, "cluster", help, &status);
    if (*ends)
      return status;
    if (q->which < 0)
      status = say_usage ("cluster", "give the command before its options");
    else if (strchr (options_of[q->which], c) == NULL)
      status = say_usage ("cluster", "'%s' does not take this option",
                          words[q->which]);
    else
      status = take_option (q, c);
    *ends = status != EXIT_SUCCESS;
    if (*ends)
      return status;
  }
  return EXIT_SUCCESS;
}

/* Check the arguments after etcd:PREFIX. */
static int
check_words (struct command *q, int n, char *argv[])
{
  if ((q->which == LIST || q->which == DF) && n != 0)
    return say_usage ("cluster", "unexpected argument '%s'", argv[0]);
  if (q->which == CHOOSE &&
      (n != 1 || !parse_number (argv[0], 1, FP_MAX_MEMBERS, &q->count)))
    return say_usage ("cluster",
                      "choose: give the number of donors, from 1 to %d",
                      FP_MAX_MEMBERS);
  if ((q->which == CORDON || q->which == UNCORDON) && n != 1)
    return say_usage ("cluster", "%s: give one donor", words[q->which]);
  if (q->which == DRAIN && n < 1)
    return say_usage ("cluster", "drain: give one donor");
  if (q->cancel && q->deadline != NULL)
    return say_usage ("cluster",
                      "--cancel and --deadline contradict each other");
  for (int i = 1; q->which == DRAIN && i < n; i++)
    if (!tls_args_is (argv[i]))
      return say_usage ("cluster", "drain: unexpected argument '%s'", argv[i]);
  return EXIT_SUCCESS;
}

static int
run_announce (struct command *q, int n, char *argv[])
{
  struct announcement *a = &q->announcement;
  struct fp_error error;
  int status = pool_args ("cluster", &n, &argv);

  if (status != EXIT_SUCCESS)
    return status;
  if (n != 1)
    return say_usage ("cluster",
                      "announce: give the address of one donor for clients");
  if (fp_donor_addr (a->donor.addr, argv[0], &error) < 0)
    return say_usage ("cluster", "announce: %s", error.text);
  a->prefix = q->prefix;
  return announce (a);
}

static int
run (struct command *q, int n, char *argv[])
{
  const struct fp_donor *d;
  fp_donor_addr_t addr;
  struct fp_error error;
  int status;

  if (fp_registry_read (&q->registry, q->prefix, FP_REGISTRY_NEWEST, &error) <
      0)
    return say_error ("cluster: etcd:%s: %s", q->prefix, error.text);
  if (q->which == LIST)
    return list (q);
  if (q->which == DF)
    return df (q);
  if (q->which == CHOOSE)
    return choose (q);
  status = find (addr, &d, q, argv[0]);
  if (status != EXIT_SUCCESS)
    return status;
  return q->which == DRAIN ? drain (q, addr, n - 1, argv + 1)
                           : cordon (q, addr, d, q->which == CORDON);
}

int
cmd_cluster (int argc, char *argv[])
{
  static struct command q = { .which = -1, .announcement.ttl_s = TTL_S };
  struct fp_error error;
  bool ends;
  int status, n;

  for (size_t i = 0; argc > 1 && i < sizeof words / sizeof words[0]; i++)
    if (strcmp (words[i], argv[1]) == 0)
      q.which = (int) i;
  if (argc > 1 && q.which < 0 && argv[1][0] != '-')
    return bad_word (argv[1]);
  /* getopt moves the command's word behind the options, too. */
  status = parse_options (&q, argc, argv, &ends);
  if (ends)
    return status;
  argv += optind + 1;
  n = argc - optind - 1;
  if (q.which < 0)
    return say_usage ("cluster", "give a command");
  if (n < 1 || strncmp (argv[0], "etcd:", 5) != 0)
    return say_usage ("cluster", "%s: give etcd:PREFIX", words[q.which]);
  q.prefix = argv[0] + 5;
  if (fp_registry_prefix (q.prefix, &error) < 0)
    return say_usage ("cluster", "etcd:%s", error.text);
  status = check_words (&q, n - 1, argv + 1);
  if (status == EXIT_SUCCESS)
    status = q.which == ANNOUNCE ? run_announce (&q, n - 1, argv + 1)
                                 : run (&q, n - 1, argv + 1);
  fp_registry_free (&q.registry);
  return status;
}
