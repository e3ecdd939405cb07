/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_status.c - ask a plugin for its status, and print it. */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/size.h"
#include "tools/common/deadline.h"
#include "tools/common/plugin_status.h"
#include "volume/status_json.h"

#define ANSWER_MS 5000
#define REQUEST_MS 120000 /* servers must answer, too */
#define REQUEST_TRIES 5
#define ANSWER_MAX (1024 * 1024) /* bytes */

static bool
is_no_socket (const char *path)
{
  struct stat st;

  return stat (path, &st) == 0 && !S_ISSOCK (st.st_mode);
}

static int
connect_to (int *out, const char *path, struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  struct sockaddr_un sa = { .sun_family = AF_UNIX };

  if (strlen (path) >= sizeof sa.sun_path)
    return fp_fail (error, -ENAMETOOLONG, "%s: too long for a socket", path);
  memcpy (sa.sun_path, path, strlen (path) + 1);
  fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (is_no_socket (path))
    return fp_fail (error, -ENOTSOCK,
                    "%s: is not a socket: start the plugin with status=PATH "
                    "to get one",
                    path);
  if (fd == -1 || connect (fd, (struct sockaddr *) &sa, sizeof sa) == -1)
    return fp_fail (error, -errno, "%s: %s", path,
                    errno == ECONNREFUSED ? "its plugin is not running"
                                          : strerror (errno));
  *out = fd;
  fd = -1;
  return 0;
}

/* Send a request. A plugin that is too old for requests closes the connection,
 * but answers all the same, so EPIPE and ECONNRESET are no errors.
 */
static int
send_line (int fd, const char *path, const char *line, struct fp_error *error)
{
  size_t length = strlen (line);
  ssize_t n = send (fd, line, length, MSG_NOSIGNAL);

  /* A line fits the buffer of a new socket. */
  if (n == -1 && errno != EPIPE && errno != ECONNRESET)
    return fp_fail (error, -errno, "%s: %s", path, strerror (errno));
  if (n >= 0 && (size_t) n != length)
    return fp_fail (error, -EIO, "%s: does not accept requests", path);
  return 0;
}

/* Report that the peer is no plugin, or that this is not its status socket. */
static int
stranger (const char *path, const char *said, struct fp_error *error)
{
  static const char nbd[] = "NBDMAGIC";

  if (strncmp (said, nbd, sizeof nbd - 1) == 0)
    return fp_fail (error, -EPROTO,
                    "%s: is the NBD socket of nbdkit (-U): give status=PATH "
                    "of its plugin",
                    path);
  return fp_fail (error, -EPROTO,
                  "%s: is not the status socket of a plugin (status=PATH): "
                  "the answer is not a JSON document",
                  path);
}

/* Report that the peer has not closed the connection in time. An NBD socket
 * and a memory server wait for more input, and would do so for ever.
 */
static int
no_answer (const char *path, const char *said, int ms, struct fp_error *error)
{
  if (said[0] != '\0')
    return stranger (path, said, error);
  return fp_fail (error, -ETIMEDOUT,
                  "%s: no answer within %d s: is it the status socket of a "
                  "plugin (status=PATH), and not a memory server's?",
                  path, ms / 1000);
}

int
plugin_ask (int *out, const char *path, const char *line,
            struct fp_error *error)
{
  int fd = -1, r = connect_to (&fd, path, error);

  if (r < 0)
    return r;
  r = send_line (fd, path, line, error);
  if (r < 0)
    close (fd);
  else
    *out = fd;
  return r;
}

static int
ask (struct json_object **out, const char *path, const char *line, int ms,
     struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  FP_CLEANUP (fp_free) char *buf = NULL;
  struct deadline d = deadline_in (ms, NULL);
  size_t used = 0;
  ssize_t n;
  int r = plugin_ask (&fd, path, line, error);

  if (r < 0)
    return r;
  buf = malloc (ANSWER_MAX + 1);
  if (!buf)
    return fp_fail (error, -ENOMEM, "out of memory");
  for (;;) {
    struct pollfd pfd = { .fd = fd, .events = POLLIN };
    int left = deadline_left (&d, ms);

    buf[used] = '\0';
    if (left == 0 || poll (&pfd, 1, left) == 0)
      return no_answer (path, buf, ms, error);
    n = read (fd, buf + used, ANSWER_MAX - used);
    if (n == -1 && (errno == EAGAIN || errno == EINTR))
      continue;
    /* The plugin may not have read our line; only its answer counts. */
    if (n == -1 && errno == ECONNRESET)
      break;
    if (n == -1)
      return fp_fail (error, -errno, "%s: %s", path, strerror (errno));
    if (n == 0)
      break;
    used += (size_t) n;
    if (used == ANSWER_MAX)
      return fp_fail (error, -EPROTO, "%s: the answer is too long", path);
  }
  buf[used] = '\0';
  *out = json_tokener_parse (buf);
  if (!*out || !json_object_is_type (*out, json_type_object))
    return stranger (path, buf, error);
  return 0;
}

int
plugin_status_ask (struct json_object **out, const char *path,
                   struct fp_error *error)
{
  return ask (out, path, "status\n", ANSWER_MS, error);
}

static struct json_object *
get (struct json_object *o, const char *name)
{
  struct json_object *v = NULL;

  return json_object_object_get_ex (o, name, &v) ? v : NULL;
}

int
plugin_status_parse (struct fp_status_doc **out, struct json_object *doc,
                     struct fp_error *error)
{
  FP_CLEANUP (fp_free) struct fp_status_doc *s = calloc (1, sizeof *s);
  uint64_t version = json_object_get_uint64 (get (doc, "version"));
  int r;

  if (!s)
    return fp_fail (error, -ENOMEM, "out of memory");
  if (version != FP_STATUS_VERSION)
    return fp_fail (error, -EPROTO,
                    "the plugin's status has version %" PRIu64 ", and this "
                    "command reads version %d: run the farpage command of the "
                    "plugin's release, or 'farpage status --json'",
                    version, FP_STATUS_VERSION);
  r = fp_status_from_json (fp_status_fields, s, doc, error);
  if (r < 0)
    return fp_fail_in (error, r, "the plugin's status");
  *out = FP_STEAL (s);
  return 0;
}

static void
json_putp (struct json_object **op)
{
  json_object_put (*op);
}

int
plugin_status_read (struct fp_status_doc **out, const char *path,
                    struct fp_error *error)
{
  FP_CLEANUP (json_putp) struct json_object *doc = NULL;
  int r = plugin_status_ask (&doc, path, error);

  if (r < 0)
    return r;
  r = plugin_status_parse (out, doc, error);
  return r < 0 ? fp_fail_in (error, r, "%s", path) : 0;
}

int
plugin_request (const char *path, const char *line, struct fp_error *error)
{
  struct json_object *o = NULL;
  const char *text;
  int r = 0;

  /* On a busy machine the plugin may stop waiting before it has read our line.
   * Then it sends the status document (answers.c), and the request was not
   * taken: ask again.
   */
  for (unsigned n = 0; n < REQUEST_TRIES && !get (o, "ok"); n++) {
    json_object_put (o);
    o = NULL;
    r = ask (&o, path, line, REQUEST_MS, error);
    if (r < 0)
      return r;
  }
  if (!get (o, "ok"))
    r = fp_fail (error, -EOPNOTSUPP,
                 "%s: its plugin is too old for this request", path);
  else {
    r = json_object_get_boolean (get (o, "ok")) ? 0 : -EINVAL;
    text = json_object_get_string (get (o, r == 0 ? "note" : "error"));
    fp_fail (error, r, "%s", text ? text : "");
  }
  json_object_put (o);
  return r;
}

/* ---- for people ---- */

static const char *
size (uint64_t n, char buf[FP_SIZE_STR_MAX])
{
  fp_format_size (n, buf);
  return buf;
}

/* Print the estimated time until something ends, and the reason if it does not
 * go on.
 */
static void
print_rest (FILE *fp, uint64_t left_ns, const char *why)
{
  if (left_ns > 0)
    fprintf (fp, ", about %" PRIu64 " s more", left_ns / 1000000000 + 1);
  fprintf (fp, "%s%s\n", *why ? ": " : "", why);
}

static void
print_drain (FILE *fp, const struct fp_drain_status *d)
{
  char bytes[FP_SIZE_STR_MAX];

  if (d->state == FP_DRAIN_NONE)
    return;
  fprintf (fp,
           "                 %s: %" PRIu64 " of %" PRIu64
           " extents are left, %s copied",
           fp_drain_state_name (d->state), d->left, d->extents,
           size (d->bytes, bytes));
  print_rest (fp, d->left_ns, d->why);
}

static void
print_latency (FILE *fp, const char *what, const struct fp_hist_summary *l)
{
  if (l->count > 0)
    fprintf (fp,
             "  %s latency  mean %.1f us, p50 %.1f, p99 %.1f, p99.9 %.1f,"
             " max %.1f\n",
             what, (double) l->mean / 1000, (double) l->p50 / 1000,
             (double) l->p99 / 1000, (double) l->p999 / 1000,
             (double) l->max / 1000);
}

bool
plugin_server_is_stale (const struct fp_status_doc *doc,
                        const struct fp_server_status *s)
{
  return doc->volume.members_version > 0 && !s->current && !s->joining;
}

static void
print_server (FILE *fp, const struct fp_status_doc *doc,
              const struct fp_server_status *s)
{
  char free_size[FP_SIZE_STR_MAX], total[FP_SIZE_STR_MAX];
  char in[FP_SIZE_STR_MAX], out[FP_SIZE_STR_MAX];
  uint64_t slab = doc->volume.slab_size;

  fprintf (fp, "  server         %s", s->addr);
  if (s->name[0] != '\0')
    fprintf (fp, " (%s)", s->name);
  fprintf (fp, " %s", fp_server_state_name (s->state));
  if (s->transport != 0)
    fprintf (fp, " over %s", fp_transport_name (s->transport));
  if (s->control[0] != '\0')
    fprintf (fp, ", control %s", s->control);
  if (s->joining)
    fprintf (fp, ", joining");
  if (plugin_server_is_stale (doc, s))
    fprintf (fp, ", STALE: missed changes");
  fprintf (fp,
           "\n                 %" PRIu64 " extents here, %s of %s free; "
           "read %s, written %s; %" PRIu64 " errors, %" PRIu64 " reconnects\n",
           s->extents, size (s->slabs_free * slab, free_size),
           size (s->slabs_total * slab, total), size (s->bytes_read, in),
           size (s->bytes_written, out), s->errors, s->reconnects);
  if (s->why[0] != '\0')
    fprintf (fp, "                 %s\n", s->why);
  if (s->reclaim.wanted > 0)
    fprintf (fp, "                 %s: wants %" PRIu64 " slabs back%s%s\n",
             s->reclaim.draining ? "it is being drained"
                                 : "its host is short of memory",
             s->reclaim.wanted,
             s->reclaim.why[0] != '\0' ? ", which cannot be moved: " : "",
             s->reclaim.why);
  else if (s->reclaim.draining)
    fprintf (fp, "                 it is being drained: it lends nothing\n");
  print_drain (fp, &s->drain);
}

/* Print the last check, if there was one. */
static void
print_check (FILE *fp, const struct fp_check_status *c)
{
  if (c->number == 0)
    return;
  fprintf (fp,
           "  check          %s: %" PRIu64 " of %" PRIu64
           " blocks compared, %" PRIu64 " differ",
           fp_check_state_name (c->state), c->compared, c->blocks, c->differ);
  if (c->nr_offsets > 0)
    fprintf (fp, " (first at %" PRIu64 "), %" PRIu64 " repaired",
             c->offsets[0], c->repaired);
  if (c->skipped > 0)
    fprintf (fp, ", %" PRIu64 " skipped", c->skipped);
  print_rest (fp, c->left_ns, c->why);
}

/* Print a change that was requested and is not done yet. */
static void
print_change (FILE *fp, const struct fp_change *c)
{
  const char *what = c->what, *more = "";

  if (strcmp (c->what, "add") == 0) {
    what = "server";
    more = ": joining";
  }
  else if (strcmp (c->what, "remove") == 0) {
    what = "server";
    more = ": leaving";
  }
  fprintf (fp, "  %-14s %s%s, for %" PRIu64 " s now\n", what, c->addr, more,
           c->ns / 1000000000);
}

static void
print_hedges (FILE *fp, const struct fp_hedge_status *h)
{
  if (h->on)
    fprintf (fp,
             "  hedges         %" PRIu64 " reads were sent to another copy, "
             "too: %" PRIu64 " were answered there first, %" PRIu64
             " were not; %" PRIu64 " more were over the limit\n",
             h->sent, h->won, h->lost, h->refused);
}

static void
print_seal (FILE *fp, const struct fp_seal_status *s)
{
  char a[FP_SIZE_STR_MAX];

  if (!s->on)
    return;
  fprintf (fp, "\n  protection     ");
  if (s->encrypt != FP_ENCRYPT_NONE)
    fprintf (fp, "encrypted, with %s",
             s->encrypt == FP_ENCRYPT_FILE ? "a key from a file"
                                           : "an ephemeral key");
  if (s->integrity)
    fprintf (fp, ", and authenticated");
  if (s->checksum != FP_CHECKSUM_NONE)
    fprintf (fp, "%schecked by crc32c",
             s->encrypt != FP_ENCRYPT_NONE ? ", and " : "");
  if (s->unchecked > 0)
    fprintf (fp, "; %s are older, and not checked until rewritten",
             size (s->unchecked, a));
  if (s->wrong > 0)
    fprintf (fp,
             "; %" PRIu64 " WRONG BLOCKS came from servers, %" PRIu64
             " of them were repaired",
             s->wrong, s->repaired);
  if (s->unreadable > 0)
    fprintf (fp, "; %" PRIu64 " reads found NO VALID COPY", s->unreadable);
}

static void
print_volume (FILE *fp, const struct fp_volume_status *v, uint64_t locked)
{
  char a[FP_SIZE_STR_MAX], b[FP_SIZE_STR_MAX], uuid[FP_UUID_STR_MAX];

  fp_uuid_format (&v->uuid, uuid);
  fprintf (fp, "  volume         %s, %s, in extents of %s",
           v->name[0] != '\0' ? v->name : uuid, size (v->size, a),
           size (v->slab_size, b));
  if (v->stripe.width > 1)
    fprintf (fp, ", striped over %" PRIu64 " extents in units of %s",
             (uint64_t) v->stripe.width, size (v->stripe.size, a));
  fprintf (fp,
           "\n  memory         %" PRIu64 " of %" PRIu64
           " extents have memory (%s); locked here %s",
           v->extents_allocated, v->extents,
           size (v->extents_allocated * v->slab_size, a), size (locked, b));
  /* Data that another client has now is not lost, whatever this one counted.
   */
  if (v->fenced)
    fprintf (fp, "; FENCED: another client has taken it over%s%s",
             v->fenced_by[0] != '\0' ? ": " : "", v->fenced_by);
  else if (v->extents_lost > 0)
    fprintf (fp, "; %" PRIu64 " EXTENTS LOST", v->extents_lost);
  if (v->copies > 1 && v->extents_degraded > 0)
    fprintf (fp,
             "\n  copies         DEGRADED: %" PRIu64
             " extents have fewer than %u; %s left to copy",
             v->extents_degraded, v->copies, size (v->bytes_to_resync, a));
  else if (v->copies > 1)
    fprintf (fp, "\n  copies         %u of each extent", v->copies);
  if (v->unclean)
    fprintf (fp,
             "\n  attached       after an unclean detach: copies could differ "
             "in %s of %s",
             size (v->resync_bytes, a), size (v->resync_of, b));
  print_seal (fp, &v->seal);
  if (v->read_only)
    fprintf (fp, "; attached read-only");
  if (v->frozen)
    fprintf (fp, "; FROZEN: too many of its servers were missing");
  fprintf (fp,
           "\n  requests       %" PRIu64 " reads (%s), %" PRIu64
           " writes (%s), %" PRIu64 " flushes, %" PRIu64 " trims, %" PRIu64
           " zeros; %" PRIu64 " in flight; %" PRIu64 " errors\n",
           v->reads, size (v->bytes_read, a), v->writes,
           size (v->bytes_written, b), v->flushes, v->trims, v->zeros,
           v->inflight, v->errors);
  print_latency (fp, "read ", &v->read_ns);
  print_latency (fp, "write", &v->write_ns);
  print_hedges (fp, &v->hedges);
}

void
plugin_status_print (FILE *fp, const struct fp_status_doc *doc)
{
  print_volume (fp, &doc->volume, doc->locked_bytes);
  for (unsigned i = 0; i < doc->nr_servers; i++)
    print_server (fp, doc, &doc->servers[i]);
  print_check (fp, &doc->volume.check);
  for (unsigned i = 0; i < doc->nr_changes; i++)
    print_change (fp, &doc->changes[i]);
}
