/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_status.c - ask a plugin for its status, and print it. A field that
 * the document does not have is shown as 0 or not at all, because plugin and
 * tool may differ in version.
 */

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

static int
ask (struct json_object **out, const char *path, const char *line, int ms,
     struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  FP_CLEANUP (fp_free) char *buf = NULL;
  struct deadline d = deadline_in (ms, NULL);
  size_t used = 0;
  ssize_t n;
  int r = connect_to (&fd, path, error);

  if (r == 0)
    r = send_line (fd, path, line, error);
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
plugin_status_read (struct json_object **out, const char *path,
                    struct fp_error *error)
{
  return ask (out, path, "status\n", ANSWER_MS, error);
}

static struct json_object *
get (struct json_object *o, const char *name)
{
  struct json_object *v = NULL;

  return o && json_object_object_get_ex (o, name, &v) ? v : NULL;
}

static uint64_t
num (struct json_object *o, const char *name)
{
  return json_object_get_uint64 (get (o, name));
}

static const char *
str (struct json_object *o, const char *name)
{
  const char *s = json_object_get_string (get (o, name));

  return s ? s : "";
}

static const char *
size (struct json_object *o, const char *name, char buf[FP_SIZE_STR_MAX])
{
  fp_format_size (num (o, name), buf);
  return buf;
}

static double
us (struct json_object *latency, const char *name)
{
  return json_object_get_double (get (latency, name)) / 1000;
}

int
plugin_request (const char *path, const char *line, struct fp_error *error)
{
  struct json_object *o = NULL;
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
  else if (!json_object_get_boolean (get (o, "ok")))
    r = fp_fail (error, -EINVAL, "%s", str (o, "error"));
  else
    fp_fail (error, 0, "%s", str (o, "note"));
  json_object_put (o);
  return r;
}

static void
print_drain (FILE *fp, struct json_object *d)
{
  char bytes[FP_SIZE_STR_MAX];

  if (!d)
    return;
  fprintf (fp,
           "                 %s: %" PRIu64 " of %" PRIu64
           " extents are left, %s copied",
           str (d, "state"), num (d, "left"), num (d, "pieces"),
           size (d, "bytes", bytes));
  if (num (d, "left_ns"))
    fprintf (fp, ", about %" PRIu64 " s more",
             num (d, "left_ns") / 1000000000 + 1);
  fprintf (fp, "%s%s\n", *str (d, "why") ? ": " : "", str (d, "why"));
}

static void
print_latency (FILE *fp, const char *what, struct json_object *l)
{
  if (!l || num (l, "count") == 0)
    return;
  fprintf (fp,
           "  %s latency  mean %.1f us, p50 %.1f, p99 %.1f, p99.9 %.1f,"
           " max %.1f\n",
           what, us (l, "mean"), us (l, "p50"), us (l, "p99"), us (l, "p999"),
           us (l, "max"));
}

static bool
yes (struct json_object *o, const char *name)
{
  return json_object_get_boolean (get (o, name));
}

/* named: the volume has a name, so its servers keep a metadata log of it. */
static void
print_server (FILE *fp, struct json_object *s, uint64_t slab, bool named)
{
  char free_size[FP_SIZE_STR_MAX], total[FP_SIZE_STR_MAX];
  char in[FP_SIZE_STR_MAX], out[FP_SIZE_STR_MAX];

  fp_format_size (num (s, "slabs_free") * slab, free_size);
  fp_format_size (num (s, "slabs_total") * slab, total);
  fprintf (fp, "  server         %s", str (s, "addr"));
  if (*str (s, "name"))
    fprintf (fp, " (%s)", str (s, "name"));
  fprintf (fp, " %s%s%s%s%s%s\n", str (s, "state"),
           *str (s, "transport") ? " over " : "", str (s, "transport"),
           *str (s, "control") ? ", control " : "", str (s, "control"),
           yes (s, "joining")             ? ", joining"
           : named && !yes (s, "current") ? ", STALE: missed changes"
                                          : "");
  fprintf (fp,
           "                 %" PRIu64 " extents here, %s of %s free; read %s,"
           " written %s; %" PRIu64 " errors, %" PRIu64 " reconnects\n",
           num (s, "pieces"), free_size, total, size (s, "bytes_read", in),
           size (s, "bytes_written", out), num (s, "errors"),
           num (s, "reconnects"));
  if (*str (s, "why"))
    fprintf (fp, "                 %s\n", str (s, "why"));
  if (num (s, "slabs_wanted"))
    fprintf (fp,
             "                 its host is short of memory: wants %" PRIu64
             " slabs back%s%s\n",
             num (s, "slabs_wanted"),
             *str (s, "wanted_why") ? ", which cannot be moved: " : "",
             str (s, "wanted_why"));
  print_drain (fp, get (s, "drain"));
}

/* Print the last check, if there was one. */
static void
print_check (FILE *fp, struct json_object *c)
{
  struct json_object *offsets = get (c, "offsets");

  if (num (c, "number") == 0)
    return;
  fprintf (fp,
           "  check          %s: %" PRIu64 " of %" PRIu64
           " blocks compared, %" PRIu64 " differ",
           str (c, "state"), num (c, "blocks_compared"), num (c, "blocks"),
           num (c, "blocks_differ"));
  if (num (c, "blocks_differ") && offsets)
    fprintf (fp, " (first at %" PRIu64 "), %" PRIu64 " repaired",
             json_object_get_uint64 (json_object_array_get_idx (offsets, 0)),
             num (c, "blocks_repaired"));
  if (num (c, "blocks_skipped"))
    fprintf (fp, ", %" PRIu64 " skipped", num (c, "blocks_skipped"));
  if (num (c, "left_ns"))
    fprintf (fp, ", about %" PRIu64 " s more",
             num (c, "left_ns") / 1000000000 + 1);
  fprintf (fp, "%s%s\n", *str (c, "why") ? ": " : "", str (c, "why"));
}

/* Print the changes that were requested and are not done yet. */
static void
print_changes (FILE *fp, struct json_object *list)
{
  size_t n = 0;

  if (list && json_object_is_type (list, json_type_array))
    n = json_object_array_length (list);
  for (size_t i = 0; i < n; i++) {
    struct json_object *c = json_object_array_get_idx (list, i);
    const char *what = str (c, "what");

    fprintf (fp, "  %-14s %s%s, for %" PRIu64 " s now\n",
             strcmp (what, "add") == 0 || strcmp (what, "remove") == 0
                 ? "server"
                 : what,
             str (c, "addr"),
             strcmp (what, "add") == 0      ? ": joining"
             : strcmp (what, "remove") == 0 ? ": leaving"
                                            : "",
             num (c, "ns") / 1000000000);
  }
}

static void
print_hedges (FILE *fp, struct json_object *h)
{
  if (yes (h, "on"))
    fprintf (fp,
             "  hedges         %" PRIu64 " reads were sent to another copy, "
             "too: %" PRIu64 " were answered there first, %" PRIu64
             " were not; %" PRIu64 " more were over the limit\n",
             num (h, "sent"), num (h, "won"), num (h, "lost"),
             num (h, "refused"));
}

static void
print_seal (FILE *fp, struct json_object *s)
{
  char a[FP_SIZE_STR_MAX];

  if (s == NULL)
    return;
  fprintf (fp, "\n  protection     ");
  if (strcmp (str (s, "encrypt"), "off") != 0)
    fprintf (fp, "encrypted, with %s",
             strcmp (str (s, "encrypt"), "file") == 0 ? "a key from a file"
                                                      : "an ephemeral key");
  if (yes (s, "integrity"))
    fprintf (fp, ", and authenticated");
  if (strcmp (str (s, "checksum"), "off") != 0)
    fprintf (fp, "%schecked by %s",
             strcmp (str (s, "encrypt"), "off") != 0 ? ", and " : "",
             str (s, "checksum"));
  if (num (s, "unchecked_bytes") > 0)
    fprintf (fp, "; %s are older, and not checked until rewritten",
             size (s, "unchecked_bytes", a));
  if (num (s, "wrong") > 0)
    fprintf (fp,
             "; %" PRIu64 " WRONG BLOCKS came from servers, %" PRIu64
             " of them were repaired",
             num (s, "wrong"), num (s, "repaired"));
  if (num (s, "unreadable") > 0)
    fprintf (fp, "; %" PRIu64 " reads found NO VALID COPY",
             num (s, "unreadable"));
}

void
plugin_status_print (FILE *fp, struct json_object *status)
{
  struct json_object *v = get (status, "volume");
  struct json_object *servers = get (status, "servers");
  char a[FP_SIZE_STR_MAX], b[FP_SIZE_STR_MAX], c[FP_SIZE_STR_MAX];
  size_t i, n = 0;

  fprintf (fp, "  volume         %s, %s, in extents of %s",
           *str (v, "name") ? str (v, "name") : str (v, "uuid"),
           size (v, "size", a), size (v, "slab_size", b));
  if (num (v, "stripe_width") > 1)
    fprintf (fp, ", striped over %" PRIu64 " extents in units of %s",
             num (v, "stripe_width"), size (v, "stripe_size", a));
  fputc ('\n', fp);
  fp_format_size (num (v, "pieces_allocated") * num (v, "slab_size"), a);
  fprintf (fp,
           "  memory         %" PRIu64 " of %" PRIu64
           " extents have memory (%s); locked here %s",
           num (v, "pieces_allocated"), num (v, "pieces"), a,
           size (v, "locked_bytes", c));
  /* Data that another client has now is not lost, whatever this one counted.
   */
  if (yes (v, "taken"))
    fprintf (fp, "; TAKEN OVER by another client%s%s",
             *str (v, "taken_by") ? ": " : "", str (v, "taken_by"));
  else if (num (v, "pieces_lost"))
    fprintf (fp, "; %" PRIu64 " EXTENTS LOST", num (v, "pieces_lost"));
  if (num (v, "copies") > 1 && num (v, "pieces_degraded") > 0)
    fprintf (fp,
             "\n  copies         DEGRADED: %" PRIu64
             " extents have fewer than %" PRIu64 "; %s left to copy",
             num (v, "pieces_degraded"), num (v, "copies"),
             size (v, "bytes_to_rebuild", a));
  else if (num (v, "copies") > 1)
    fprintf (fp, "\n  copies         %" PRIu64 " of each extent",
             num (v, "copies"));
  if (yes (v, "unclean"))
    fprintf (fp,
             "\n  attached       after an unclean detach: copies could differ "
             "in %s of %s",
             size (v, "resync_bytes", a), size (v, "resync_of_bytes", b));
  print_seal (fp, get (v, "sealed"));
  if (yes (v, "read_only"))
    fprintf (fp, "; attached read-only");
  if (yes (v, "frozen"))
    fprintf (fp, "; FROZEN: too many of its servers were missing");
  fprintf (fp,
           "\n  requests       %" PRIu64 " reads (%s), %" PRIu64
           " writes (%s), %" PRIu64 " flushes, %" PRIu64 " trims, %" PRIu64
           " zeros; %" PRIu64 " in flight; %" PRIu64 " errors\n",
           num (v, "reads"), size (v, "bytes_read", a), num (v, "writes"),
           size (v, "bytes_written", b), num (v, "flushes"), num (v, "trims"),
           num (v, "zeros"), num (v, "inflight"), num (v, "errors"));
  print_latency (fp, "read ", get (v, "read_latency_ns"));
  print_latency (fp, "write", get (v, "write_latency_ns"));
  print_hedges (fp, get (v, "hedges"));
  if (servers && json_object_is_type (servers, json_type_array))
    n = json_object_array_length (servers);
  for (i = 0; i < n; i++)
    print_server (fp, json_object_array_get_idx (servers, i),
                  num (v, "slab_size"), num (v, "members_version") > 0);
  print_check (fp, get (status, "check"));
  print_changes (fp, get (status, "changes"));
}
