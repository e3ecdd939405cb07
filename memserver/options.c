/* SPDX-License-Identifier: BSD-3-Clause */
/* options.c - the command line and the configuration file: one table of names
 * for both.  The command line wins.
 */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/size.h"
#include "conf/conf.h"
#include "conf/duration.h"
#include "metrics/scrape.h"
#include "memserver/options.h"
#include "memserver/pool/slab.h"
#include "memserver/pool/store.h"
#include "memserver/say.h"

enum which {
  SIZE,
  LISTEN,
  SLAB,
  NAME,
  RESERVE,
  HUGEPAGES,
  NUMA,
  LEASE,
  ORPHAN_TIME,
  DRAIN,
  ADDRESS_FILE,
  PIDFILE,
  BACKING,
  METRICS,
  LOG_LEVEL,
  TLS,
  TLS_PSK,
  TLS_CERTIFICATES,
  TLS_VERIFY_PEER,
  INSECURE,
  ACCESS,
  NR_SETTINGS,
  CONFIG = NR_SETTINGS,
  HELP,
  VERSION_
};

static const struct option names[] = {
  { "size", required_argument, NULL, SIZE },
  { "listen", required_argument, NULL, LISTEN },
  { "slab", required_argument, NULL, SLAB },
  { "name", required_argument, NULL, NAME },
  { "reserve", required_argument, NULL, RESERVE },
  { "hugepages", required_argument, NULL, HUGEPAGES },
  { "numa", required_argument, NULL, NUMA },
  { "lease", required_argument, NULL, LEASE },
  { "orphan-time", required_argument, NULL, ORPHAN_TIME },
  { "drain", required_argument, NULL, DRAIN },
  { "address-file", required_argument, NULL, ADDRESS_FILE },
  { "pidfile", required_argument, NULL, PIDFILE },
  { "backing", required_argument, NULL, BACKING },
  { "metrics", required_argument, NULL, METRICS },
  { "log-level", required_argument, NULL, LOG_LEVEL },
  { "tls", required_argument, NULL, TLS },
  { "tls-psk", required_argument, NULL, TLS_PSK },
  { "tls-certificates", required_argument, NULL, TLS_CERTIFICATES },
  { "tls-verify-peer", no_argument, NULL, TLS_VERIFY_PEER },
  { "insecure", no_argument, NULL, INSECURE },
  { "access", required_argument, NULL, ACCESS },
  { "config", required_argument, NULL, CONFIG },
  { "help", no_argument, NULL, HELP },
  { "version", no_argument, NULL, VERSION_ },
  { NULL, 0, NULL, 0 },
};

static const char *
name_of (unsigned which)
{
  return names[which].name; /* the table is in the order of the enum */
}

static void
usage (FILE *fp)
{
  fprintf (
      fp,
      "Usage: farpage-memserver --size SIZE [OPTION]...\n"
      "       farpage-memserver setup|token [OPTION]...\n"
      "       farpage-memserver keygen [--user NAME] FILE\n"
      "Lend SIZE of this machine's memory to other machines.\n"
      "\n"
      "  --size SIZE         memory to lend (512M, 8G, ...)\n"
      "  --listen ADDR       listen on HOST, HOST:PORT, [V6]:PORT or\n"
      "                      unix:PATH; may be repeated (default: port %d\n"
      "                      on all addresses; without required TLS or\n"
      "                      --insecure on loopback addresses only)\n"
      "  --slab SIZE         unit of lending, a power of two (default 256M)\n"
      "  --name NAME         name that clients see (default: host name)\n"
      "  --reserve SIZE      memory to leave to this host; with less, stop\n"
      "                      lending, and ask clients for slabs\n"
      "  --hugepages KIND    auto, 2M, 1G or off (default auto)\n"
      "  --numa NODE         lend only memory of this NUMA node\n"
      "  --backing DIR       keep slabs and metadata in files of DIR, on a\n"
      "                      tmpfs or hugetlbfs, for the next start (to\n"
      "                      start empty, remove the contents of DIR);\n"
      "                      with fdstore: as DIR, systemd keeps them\n"
      "  --metrics ADDR      serve Prometheus metrics on HOST:PORT,\n"
      "                      [V6]:PORT or unix:PATH (default: none)\n"
      "  --lease TIME        drop a client that is silent this long, and\n"
      "                      keep its memory for as long again (default %ds)\n"
      "  --orphan-time TIME\n"
      "                      then keep that memory for its client this much\n"
      "                      longer, unless it is needed (default %ds)\n"
      "  --drain TIME        when told to stop, first ask clients to move\n"
      "                      their memory to other servers, for at most this\n"
      "                      long (default 0s: stop at once)\n"
      "  --tls MODE          off, on or require (default: require with a key\n"
      "                      or certificates, else off)\n"
      "  --tls-psk FILE      keys of the clients (farpage-memserver keygen)\n"
      "  --tls-certificates DIR\n"
      "                      directory with ca-cert.pem, server-cert.pem and\n"
      "                      server-key.pem\n"
      "  --tls-verify-peer   require a certificate of that CA from clients\n"
      "  --insecure          serve other machines without TLS: any machine\n"
      "                      that can reach the server may use it\n"
      "  --access FILE       rights of clients: quotas, volumes, read-only\n"
      "                      access, ...\n"
      "  --config FILE       read options from FILE (size = 8G, ...)\n"
      "  --address-file FILE write the server's addresses to FILE once it\n"
      "                      accepts connections\n"
      "  --pidfile FILE      write the process number to FILE at that time\n"
      "  --log-level LEVEL   error, warn, info or debug (default info)\n"
      "  --help, --version\n",
      FP_DEFAULT_PORT, DEFAULT_LEASE_S, DEFAULT_ORPHAN_S);
}

/* Print the sentence, and return -EINVAL. */
#define bad(...) (say (__VA_ARGS__), -EINVAL)

static int
set_size (uint64_t *out, unsigned which, const char *value)
{
  const char *why;

  if (fp_parse_size (value, out, &why) < 0)
    return bad ("%s: '%s' is not a size: %s", name_of (which), value, why);
  return 0;
}

static int
set_number (unsigned *out, unsigned which, const char *value, unsigned min,
            unsigned max)
{
  char *end;
  unsigned long n;

  errno = 0;
  n = strtoul (value, &end, 10);
  if (errno != 0 || *end != '\0' || *value < '0' || *value > '9' || n < min ||
      n > max)
    return bad ("%s: '%s' is not a number from %u to %u", name_of (which),
                value, min, max);
  *out = (unsigned) n;
  return 0;
}

/* Parse a time.  min, max and *out are in seconds. */
static int
set_seconds (unsigned *out, unsigned which, const char *value, unsigned min,
             unsigned max)
{
  char low[FP_DURATION_STR_MAX], high[FP_DURATION_STR_MAX];
  uint64_t us;

  if (fp_parse_duration (value, FP_S, &us) == 0 && us % FP_S == 0 &&
      us / FP_S >= min && us / FP_S <= max) {
    *out = (unsigned) (us / FP_S);
    return 0;
  }
  fp_format_duration (min * FP_S, low);
  fp_format_duration (max * FP_S, high);
  return bad ("%s: '%s' is not a time from %s to %s, in whole seconds",
              name_of (which), value, low, high);
}

/* Set *out to the index of value in words. */
static int
set_word (unsigned *out, unsigned which, const char *value,
          const char *const words[], const char *all)
{
  for (unsigned i = 0; words[i]; i++) {
    if (strcmp (words[i], value) == 0) {
      *out = i;
      return 0;
    }
  }
  return bad ("%s: '%s' is not one of %s", name_of (which), value, all);
}

static int
set_listen (struct options *o, const char *value)
{
  const char *why;

  if (o->nr_listen == MAX_LISTEN)
    return bad ("listen: more than %d addresses", MAX_LISTEN);
  if (fp_addr_parse (&o->listen[o->nr_listen], value, &why) < 0)
    return bad ("listen: '%s': %s", value, why);
  for (unsigned i = 0; i < o->nr_listen; i++)
    if ((o->listen[i].is_unix || o->listen[i].port != 0) &&
        fp_addr_eq (&o->listen[i], &o->listen[o->nr_listen]))
      return bad ("listen: '%s' is given twice", value);
  o->nr_listen++;
  return 0;
}

static int
set_metrics (struct options *o, const char *value)
{
  const char *why;

  if (fp_scrape_parse (&o->metrics, value, &why) < 0)
    return bad ("metrics: '%s': %s", value, why);
  o->has_metrics = true;
  return 0;
}

static int
set_path (char out[OPTION_PATH_MAX], unsigned which, const char *value)
{
  if (strlen (value) >= OPTION_PATH_MAX)
    return bad ("%s: the path is too long", name_of (which));
  strcpy (out, value);
  return 0;
}

static int
set_bool (bool *out, unsigned which, const char *value)
{
  static const char *const words[] = { "false", "true", NULL };
  unsigned n = 0;
  int r = set_word (&n, which, value, words, "true, false");

  if (r == 0)
    *out = n;
  return r;
}

static int
set_tls (struct options *o, unsigned which, const char *value)
{
  struct fp_error error;

  if (fp_tls_params_set (&o->tls, name_of (which), value, &error) < 0)
    return bad ("%s", error.text);
  return 0;
}

static int
set (struct options *o, unsigned which, const char *value)
{
  static const char *const hugepages[] = { [HUGEPAGES_AUTO] = "auto",
                                           [HUGEPAGES_2M] = "2M",
                                           [HUGEPAGES_1G] = "1G",
                                           [HUGEPAGES_OFF] = "off",
                                           NULL };
  static const char *const levels[] = { [FP_LOG_ERROR] = "error",
                                        [FP_LOG_WARN] = "warn",
                                        [FP_LOG_INFO] = "info",
                                        [FP_LOG_DEBUG] = "debug",
                                        NULL };
  unsigned n = 0;
  int r = 0;

  if (*value == '\0')
    return bad ("%s: a value is missing", name_of (which));
  switch (which) {
  case SIZE:
    return set_size (&o->size, which, value);
  case SLAB:
    return set_size (&o->slab, which, value);
  case RESERVE:
    o->reserve_given = true;
    return set_size (&o->reserve, which, value);
  case LISTEN:
    return set_listen (o, value);
  case NAME:
    if (!fp_name_ok (value))
      return bad ("name: '%s' is not valid: use 1 to %d letters, digits or "
                  "signs, but no space, '/', '\"' or '\\'",
                  value, FP_NAME_MAX);
    snprintf (o->name, sizeof o->name, "%s", value);
    return 0;
  case HUGEPAGES:
    r = set_word (&n, which, value, hugepages, "auto, 2M, 1G, off");
    if (r == 0)
      o->hugepages = (enum hugepages) n;
    return r;
  case NUMA:
    r = set_number (&n, which, value, 0, 1023);
    if (r == 0)
      o->numa = (int) n;
    return r;
  case LEASE:
    return set_seconds (&o->lease_s, which, value, 1, MAX_LEASE_S);
  case ORPHAN_TIME:
    return set_seconds (&o->orphan_s, which, value, 0, MAX_ORPHAN_S);
  case DRAIN:
    return set_seconds (&o->drain_s, which, value, 0, MAX_DRAIN_S);
  case LOG_LEVEL:
    r = set_word (&n, which, value, levels, "error, warn, info, debug");
    if (r == 0)
      o->log_level = (enum fp_log_level) n;
    return r;
  case ADDRESS_FILE:
    return set_path (o->address_file, which, value);
  case PIDFILE:
    return set_path (o->pidfile, which, value);
  case ACCESS:
    return set_path (o->access, which, value);
  case METRICS:
    return set_metrics (o, value);
  case BACKING:
    if (strcmp (value, "fdstore") == 0)
      return bad ("backing: '%s': did you mean fdstore:?  A directory of that "
                  "name is ./%s",
                  value, value);
    return set_path (o->backing, which, value);
  case TLS_VERIFY_PEER:
    return set_bool (&o->tls.verify_peer, which, value);
  case INSECURE:
    return set_bool (&o->insecure, which, value);
  case TLS:
  case TLS_PSK:
  case TLS_CERTIFICATES:
    return set_tls (o, which, value);
  default:
    return bad ("%u is not an option", which);
  }
}

struct file {
  struct options *options;
  unsigned file; /* the drop-in that is read; 0: the file itself */
  unsigned seen; /* options given in that file */
};

static int
on_line (void *arg, const struct fp_conf_line *line, struct fp_error *error)
{
  struct file *f = arg;
  const struct option *n;

  for (n = names; n->name; n++)
    if (n->val < NR_SETTINGS && strcmp (n->name, line->key) == 0)
      break;
  if (!n->name || *line->section)
    return fp_fail (error, -EINVAL, "'%s%s%s' is not an option", line->section,
                    *line->section ? "." : "", line->key);
  if (line->file != f->file) { /* a drop-in, which may replace any setting */
    f->file = line->file;
    f->seen = 0;
  }
  if (n->val == LISTEN && !(f->seen & (1u << LISTEN)))
    f->options->nr_listen = 0;
  if (n->val != LISTEN && (f->seen & (1u << n->val)))
    return fp_fail (error, -EINVAL, "'%s' is given twice", line->key);
  f->seen |= 1u << n->val;
  if (set (f->options, (unsigned) n->val, line->value) < 0)
    return fp_fail (error, -EINVAL, "see the error above");
  return 0;
}

static int
read_file (struct options *o, const char *path)
{
  struct file f = { .options = o };
  struct fp_error error;

  return fp_conf_read (path, on_line, &f, &error) < 0 ? bad ("%s", error.text)
                                                      : 0;
}

static int
check (const struct options *o)
{
  char slab[FP_SIZE_STR_MAX];
  uint64_t page = (uint64_t) sysconf (_SC_PAGESIZE);

  fp_format_size (o->slab, slab);
  if (o->size == 0)
    return bad ("size is missing: say how much to lend with --size SIZE (see "
                "--help)");
  if (!fp_is_power_of_2 (o->slab) || o->slab < FP_MAX (MIN_SLAB, page))
    return bad ("slab: %s is not a power of two of at least 64K", slab);
  if (o->hugepages == HUGEPAGES_2M && o->slab < (UINT64_C (2) << 20))
    return bad ("slab: %s is smaller than a huge page of 2M", slab);
  if (o->hugepages == HUGEPAGES_1G && o->slab < (UINT64_C (1) << 30))
    return bad ("slab: %s is smaller than a huge page of 1G", slab);
  if (o->backing[0] && !store_will_seal (o->backing) &&
      o->hugepages != HUGEPAGES_AUTO && o->hugepages != HUGEPAGES_OFF)
    return bad ("hugepages: not with --backing DIR: the file system chooses "
                "the pages (mount -o huge=)");
  if (o->size % o->slab != 0)
    return bad ("size: %llu bytes are not a multiple of the slab size, %s",
                (unsigned long long) o->size, slab);
  if (o->size / o->slab > SLAB_MAX)
    return bad ("size: %llu slabs are too many, %u is the limit: use a larger "
                "--slab",
                (unsigned long long) (o->size / o->slab), SLAB_MAX);
  return 0;
}

static void
default_name (struct options *o)
{
  if (gethostname (o->name, sizeof o->name) < 0)
    o->name[0] = '\0';
  o->name[sizeof o->name - 1] = '\0';
  if (!fp_name_ok (o->name))
    snprintf (o->name, sizeof o->name, "memserver");
}

static void
set_defaults (struct options *o)
{
  *o = (struct options) { .slab = DEFAULT_SLAB,
                          .lease_s = DEFAULT_LEASE_S,
                          .orphan_s = DEFAULT_ORPHAN_S,
                          .numa = -1,
                          .log_level = FP_LOG_INFO };
  default_name (o);
}

int
options_read (struct options *o, const char *path)
{
  struct options whole;
  int r;

  set_defaults (o);
  r = read_file (o, path);
  if (r < 0)
    return r;
  whole = *o;
  if (whole.size == 0)
    whole.size = FP_MAX (whole.slab, UINT64_C (1)); /* not given yet */
  return check (&whole);
}

int
options_parse (struct options *o, int argc, char *argv[])
{
  const char *values[NR_SETTINGS] = { NULL }, *config = NULL;
  const char *addrs[MAX_LISTEN];
  unsigned nr_addrs = 0;
  struct fp_error error;
  int c, r = 0;

  set_defaults (o);
  while ((c = getopt_long (argc, argv, "", names, NULL)) != -1) {
    const char **value = c == CONFIG ? &config : NULL;

    switch (c) {
    case '?':
      return -EINVAL; /* getopt has printed the error */
    case HELP:
      usage (stdout);
      return 1;
    case VERSION_:
      printf ("farpage-memserver %s\n", PACKAGE_VERSION);
      return 1;
    case LISTEN:
      if (nr_addrs == MAX_LISTEN)
        return bad ("listen: more than %d addresses", MAX_LISTEN);
      addrs[nr_addrs++] = optarg;
      continue;
    default:
      if (!value)
        value = &values[c];
      if (*value)
        return bad ("--%s is given twice", name_of ((unsigned) c));
      *value = optarg ? optarg : "true";
    }
  }
  if (optind < argc)
    return bad ("'%s' is not an option (see --help)", argv[optind]);

  if (config)
    r = read_file (o, config);
  if (nr_addrs > 0)
    o->nr_listen = 0;
  for (unsigned i = 0; i < nr_addrs && r == 0; i++)
    r = set (o, LISTEN, addrs[i]);
  for (unsigned i = 0; i < NR_SETTINGS && r == 0; i++)
    if (values[i])
      r = set (o, i, values[i]);
  if (r == 0)
    r = check (o);
  if (r == 0 && fp_tls_params_complete (&o->tls, true, &error) < 0)
    r = bad ("%s", error.text);
  return r;
}

bool
options_may_listen (const struct options *o, const struct sockaddr *sa)
{
  return o->insecure || o->tls.mode == FP_TLS_REQUIRE ||
         fp_sockaddr_is_local (sa);
}
