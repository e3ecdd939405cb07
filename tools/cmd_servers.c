/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_servers.c - farpage servers: show what memory servers lend, and to which
 * clients.
 */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/size.h"
#include "tools/common/ask_server.h"
#include "tools/common/commands.h"
#include "tools/common/json_out.h"
#include "tools/common/suggest.h"
#include "tools/pool_args.h"
#include "tools/servers_change.h"
#include "tools/servers_drain.h"

static const char help[] =
    "Usage: farpage servers [OPTION]... ADDR...|pool=NAME\n"
    "       farpage servers add DEVICE|SOCKET ADDR[,domain=NAME]...\n"
    "       farpage servers remove DEVICE|SOCKET ADDR...\n"
    "       farpage servers drain ADDR\n"
    "\n"
    "Show what memory servers lend, and to which clients. ADDR is HOST,\n"
    "HOST:PORT, [V6]:PORT or unix:PATH. A pool is a file that names\n"
    "servers. For servers with TLS, add tls-psk=FILE or\n"
    "tls-certificates=DIR. 'add' and 'remove' change the servers of a\n"
    "volume in use: see 'farpage servers add --help'. 'drain' empties a\n"
    "server, whatever volumes it has: see 'farpage servers drain --help'.\n"
    "\n"
    "      --json   print JSON\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "json", no_argument, NULL, 'j' },
  { NULL, 0, NULL, 0 },
};

static const char *
transports (uint32_t set, char buf[64])
{
  unsigned bit;
  size_t used = 0;

  buf[0] = '\0';
  for (bit = 1; bit & FP_TRANSPORT_WIRE_MASK; bit <<= 1)
    if (set & bit)
      used += (size_t) snprintf (buf + used, 64 - used, "%s%s",
                                 used ? " " : "", fp_transport_name (bit));
  return buf;
}

/* Return how the server keeps a volume.  One without a name is listed by its
 * UUID, and is freed when its lease ends.
 */
static const char *
held_how (const struct fp_stat_session *e)
{
  struct fp_uuid uuid;

  if (e->attached)
    return "";
  return fp_uuid_parse (&uuid, e->volume) == 0
             ? "; client gone, kept for its return"
             : "; not attached";
}

static void
print_server (const char *addr, const struct ask_answer *a)
{
  const struct fp_stat_reply *s = &a->stat;
  const struct fp_drain_reply *d = &a->drain;
  char total[FP_SIZE_STR_MAX], slab[FP_SIZE_STR_MAX], set[64], since[32];
  char free_size[FP_SIZE_STR_MAX], lent[FP_SIZE_STR_MAX];
  struct tm tm;
  time_t t;
  uint32_t i;

  fp_format_size (s->total * s->slab_size, total);
  fp_format_size (s->free * s->slab_size, free_size);
  fp_format_size (s->lent * s->slab_size, lent);
  fp_format_size (s->slab_size, slab);
  printf ("%s  %s: %s in slabs of %s, %s free, %s lent", addr, s->name, total,
          slab, free_size, lent);
  if (s->scrubbing)
    printf (", %" PRIu64 " slabs being scrubbed", s->scrubbing);
  if (s->unpopulated)
    printf (", %" PRIu64 " slabs not populated yet", s->unpopulated);
  printf ("; offers %s%s\n", transports (a->hello.transports, set),
          s->stopping ? "; STOPPING" : "");
  if (s->insecure)
    printf ("  INSECURE: without TLS, anyone who can reach it can use it\n");
  if (d->drains && d->moving + d->stuck + d->kept == 0)
    printf ("  DRAINED: it lends nothing, and has nothing\n");
  else if (d->drains)
    printf ("  DRAINING: it lends nothing; slabs left: %" PRIu64
            " that clients move away, %" PRIu64
            " without room on other servers, %" PRIu64
            " of volumes that no client has attached to write\n",
            d->moving, d->stuck, d->kept);
  else if (s->pressed)
    printf ("  PRESSED: its host is short of memory: it lends nothing now, "
            "and wants %" PRIu64 " slabs back\n",
            s->wanted);
  if (s->returned)
    printf ("  %" PRIu64 " slabs were returned to its host so far\n",
            s->returned);
  for (i = 0; i < s->nr_sessions; i++) {
    const struct fp_stat_session *e = &s->sessions[i];

    fp_format_size (e->slabs * s->slab_size, lent);
    t = (time_t) e->since;
    if (!localtime_r (&t, &tm) ||
        strftime (since, sizeof since, "%F %T", &tm) == 0)
      since[0] = '\0';
    printf ("  %s to %s, volume %s%s%s, since %s%s\n", lent, e->client,
            e->volume, e->transport ? ", over " : "",
            e->transport ? fp_transport_name (e->transport) : "", since,
            held_how (e));
  }
  if (s->nr_all > s->nr_sessions)
    printf ("  and %" PRIu32 " more\n", s->nr_all - s->nr_sessions);
}

static struct json_object *
server_to_json (const char *addr, const struct ask_answer *a)
{
  const struct fp_stat_reply *s = &a->stat;
  struct json_object *o = json_object_new_object ();
  struct json_object *sessions = json_object_new_array (), *e;
  char uuid[FP_UUID_STR_MAX], set[64];
  uint32_t i;

  fp_uuid_format (&s->server, uuid);
  json_add_str (o, "addr", addr);
  json_add_str (o, "name", s->name);
  json_add_str (o, "uuid", uuid);
  json_add_str (o, "transports", transports (a->hello.transports, set));
  json_add_num (o, "slab_size", s->slab_size);
  json_add_num (o, "slabs_total", s->total);
  json_add_num (o, "slabs_free", s->free);
  json_add_num (o, "slabs_lent", s->lent);
  json_add_num (o, "slabs_scrubbing", s->scrubbing);
  json_add_num (o, "slabs_unpopulated", s->unpopulated);
  json_add_num (o, "uptime_s", s->uptime_s);
  json_add_num (o, "lease_ms", a->hello.lease_ms);
  json_add_bool (o, "stopping", s->stopping);
  json_add_bool (o, "draining", a->drain.drains);
  json_add_bool (o, "pressed", s->pressed);
  json_add_bool (o, "insecure", s->insecure);
  json_add_num (o, "slabs_wanted", s->wanted);
  json_add_num (o, "slabs_returned", s->returned);
  for (i = 0; i < s->nr_sessions; i++) {
    e = json_object_new_object ();
    json_add_str (e, "client", s->sessions[i].client);
    json_add_str (e, "volume", s->sessions[i].volume);
    json_add_str (e, "transport",
                  s->sessions[i].transport
                      ? fp_transport_name (s->sessions[i].transport)
                      : "");
    json_add_num (e, "slabs", s->sessions[i].slabs);
    json_add_num (e, "since", s->sessions[i].since);
    json_add_bool (e, "attached", s->sessions[i].attached);
    json_object_array_add (sessions, e);
  }
  json_object_object_add (o, "sessions", sessions);
  json_add_num (o, "sessions_total", s->nr_all);
  return o;
}

static const char *const words[] = { "add", "drain", "remove" };

/* Return a hint, or "".  A host may have any name, so this guess at a mistyped
 * command is only for when there is no such host.
 */
static const char *
or_meant (const char *first, char buf[64])
{
  const char *meant = suggest (first, words, sizeof words / sizeof words[0]);

  buf[0] = '\0';
  if (meant)
    snprintf (buf, 64, "; or did you mean 'farpage servers %s'?", meant);
  return buf;
}

static int
show (char *argv[], int n, bool json)
{
  static struct ask_answer a;
  struct json_object *o = json_object_new_object ();
  struct json_object *list = json_object_new_array ();
  int i, status = EXIT_SUCCESS;
  struct fp_addr addr;
  const char *parse_why;
  char meant[64];
  struct fp_error error = { .text = "" };

  json_object_object_add (o, "version", json_object_new_int (1));
  json_object_object_add (o, "servers", list);
  for (i = 0; i < n; i++) {
    /* The caller has checked that it parses. */
    if (fp_addr_parse (&addr, argv[i], &parse_why) < 0 ||
        ask_all (&addr, &a, &error) < 0)
      status = say_error ("servers: %s: %s%s", argv[i], error.text,
                          i == 0 ? or_meant (argv[i], meant) : "");
    else if (json)
      json_object_array_add (list, server_to_json (argv[i], &a));
    else
      print_server (argv[i], &a);
  }
  if (json)
    json_print (o);
  else
    json_object_put (o);
  return status;
}

int
cmd_servers (int argc, char *argv[])
{
  struct fp_addr addr;
  bool json = false;
  const char *why;
  char meant[64];
  int c, i, status;

  if (argc > 1 && servers_is_change (argv[1]))
    return servers_change (argc - 1, argv + 1);
  if (argc > 1 && strcmp (argv[1], "drain") == 0)
    return servers_drain (argc - 1, argv + 1);
  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "servers", help, &status))
      return status;
    json = json || c == 'j';
  }
  if (optind == argc)
    return say_usage ("servers", "no servers given: give their addresses");
  argv += optind;
  argc -= optind;
  status = pool_args ("servers", &argc, &argv);
  if (status != EXIT_SUCCESS)
    return status;
  for (i = 0; i < argc; i++)
    if (fp_addr_parse (&addr, argv[i], &why) < 0)
      return say_usage ("servers", "%s: %s%s", argv[i], why,
                        or_meant (argv[0], meant));
  return show (argv, argc, json);
}
