/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_servers.c - farpage servers: what memory servers lend, and to whom. */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/size.h"
#include "commands.h"
#include "transport/ctl_channel.h"

static const char help[] =
    "Usage: farpage servers [OPTION]... ADDR...\n"
    "\n"
    "Asks memory servers what they lend, and to whom. ADDR is HOST,\n"
    "HOST:PORT, [V6]:PORT or unix:PATH.\n"
    "\n"
    "      --json   as JSON\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "json", no_argument, NULL, 'j' },
  { NULL, 0, NULL, 0 },
};

#define ANSWER_MS 5000

static int
ask (const struct fp_addr *addr, struct fp_stat_reply *stat,
     struct fp_hello_reply *hello, char *why, size_t size)
{
  uint64_t deadline = fp_deadline_in_ms (ANSWER_MS);
  struct fp_hello q = { .version_min = FP_VERSION,
                        .version_max = FP_VERSION,
                        .transports = FP_TRANSPORT_WIRE_MASK };
  struct fp_ctl *c = NULL;
  int r;

  snprintf (q.name, sizeof q.name, "farpage:%ld", (long) getpid ());
  r = fp_uuid_generate (&q.client);
  if (r == 0)
    r = fp_ctl_open (&c, addr, deadline);
  if (r == 0)
    r = fp_ctl_hello (c, &q, hello, deadline);
  if (r == 0)
    r = fp_ctl_stat (c, stat, deadline);
  if (r < 0)
    snprintf (why, size, "%s", c ? fp_ctl_why (c) : strerror (-r));
  else
    (void) fp_ctl_bye (c, &(struct fp_bye) { .discard = false }, deadline);
  fp_ctl_free (c);
  return r;
}

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

static void
print_server (const char *addr, const struct fp_stat_reply *s,
              const struct fp_hello_reply *h)
{
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
  printf ("; offers %s%s\n", transports (h->transports, set),
          s->stopping ? "; STOPPING" : "");
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
            e->attached ? "" : "; left behind, its lease is running");
  }
  if (s->nr_all > s->nr_sessions)
    printf ("  and %" PRIu32 " more\n", s->nr_all - s->nr_sessions);
}

static struct json_object *
server_to_json (const char *addr, const struct fp_stat_reply *s,
                const struct fp_hello_reply *h)
{
  struct json_object *o = json_object_new_object ();
  struct json_object *sessions = json_object_new_array (), *e;
  char uuid[FP_UUID_STR_MAX], set[64];
  uint32_t i;

#define STR(o, name, value)                                                   \
  json_object_object_add (o, name, json_object_new_string (value))
#define NUM(o, name, value)                                                   \
  json_object_object_add (o, name, json_object_new_uint64 (value))
#define BOOL(o, name, value)                                                  \
  json_object_object_add (o, name, json_object_new_boolean (value))
  fp_uuid_format (&s->server, uuid);
  STR (o, "addr", addr);
  STR (o, "name", s->name);
  STR (o, "uuid", uuid);
  STR (o, "transports", transports (h->transports, set));
  NUM (o, "slab_size", s->slab_size);
  NUM (o, "slabs_total", s->total);
  NUM (o, "slabs_free", s->free);
  NUM (o, "slabs_lent", s->lent);
  NUM (o, "slabs_scrubbing", s->scrubbing);
  NUM (o, "slabs_unpopulated", s->unpopulated);
  NUM (o, "uptime_s", s->uptime_s);
  NUM (o, "lease_ms", h->lease_ms);
  BOOL (o, "stopping", s->stopping);
  for (i = 0; i < s->nr_sessions; i++) {
    e = json_object_new_object ();
    STR (e, "client", s->sessions[i].client);
    STR (e, "volume", s->sessions[i].volume);
    STR (e, "transport",
         s->sessions[i].transport
             ? fp_transport_name (s->sessions[i].transport)
             : "");
    NUM (e, "slabs", s->sessions[i].slabs);
    NUM (e, "since", s->sessions[i].since);
    BOOL (e, "attached", s->sessions[i].attached);
    json_object_array_add (sessions, e);
  }
  json_object_object_add (o, "sessions", sessions);
  NUM (o, "sessions_total", s->nr_all);
#undef STR
#undef NUM
#undef BOOL
  return o;
}

static int
show (char *argv[], int n, bool json)
{
  static struct fp_stat_reply stat;
  static struct fp_hello_reply hello;
  struct json_object *o = json_object_new_object ();
  struct json_object *list = json_object_new_array ();
  int i, status = EXIT_SUCCESS;
  struct fp_addr addr;
  const char *parse_why;
  char why[512];

  json_object_object_add (o, "version", json_object_new_int (1));
  json_object_object_add (o, "servers", list);
  for (i = 0; i < n; i++) {
    /* show's caller knows that it parses. */
    if (fp_addr_parse (&addr, argv[i], &parse_why) < 0 ||
        ask (&addr, &stat, &hello, why, sizeof why) < 0)
      status = say_error ("servers: %s: %s", argv[i], why);
    else if (json)
      json_object_array_add (list, server_to_json (argv[i], &stat, &hello));
    else
      print_server (argv[i], &stat, &hello);
  }
  if (json)
    printf ("%s\n",
            json_object_to_json_string_ext (
                o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
  json_object_put (o);
  return status;
}

int
cmd_servers (int argc, char *argv[])
{
  struct fp_addr addr;
  bool json = false;
  const char *why;
  int c, i, status;

  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "servers", help, &status))
      return status;
    json = json || c == 'j';
  }
  if (optind == argc)
    return say_usage ("servers", "which servers? Give their addresses");
  for (i = optind; i < argc; i++)
    if (fp_addr_parse (&addr, argv[i], &why) < 0)
      return say_usage ("servers", "%s: %s", argv[i], why);
  return show (argv + optind, argc - optind, json);
}
