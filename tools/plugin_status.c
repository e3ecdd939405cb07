/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_status.c - ask a plugin how it is doing, and show it. What the
 * document does not have is shown as 0 or not at all: plugin and tool may
 * differ in version.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "deadline.h"
#include "plugin_status.h"

#define ANSWER_MS 5000
#define ANSWER_MAX (1024 * 1024) /* bytes */

static int
connect_to (int *out, const char *path, struct why *w)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  struct sockaddr_un sa = { .sun_family = AF_UNIX };

  if (strlen (path) >= sizeof sa.sun_path)
    return why_set (w, -ENAMETOOLONG, "%s: too long for a socket", path);
  memcpy (sa.sun_path, path, strlen (path) + 1);
  fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd == -1 || connect (fd, (struct sockaddr *) &sa, sizeof sa) == -1)
    return why_set (w, -errno, "%s: %s", path,
                    errno == ECONNREFUSED ? "its plugin is not running"
                                          : strerror (errno));
  *out = fd;
  fd = -1;
  return 0;
}

int
plugin_status_read (struct json_object **out, const char *path, struct why *w)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  FP_CLEANUP (fp_free) char *buf = NULL;
  struct deadline d = deadline_in (ANSWER_MS, NULL);
  size_t used = 0;
  ssize_t n;
  int r = connect_to (&fd, path, w);

  if (r < 0)
    return r;
  buf = malloc (ANSWER_MAX + 1);
  if (!buf)
    return why_set (w, -ENOMEM, "out of memory");
  for (;;) {
    struct pollfd pfd = { .fd = fd, .events = POLLIN };
    int left = deadline_left (&d, ANSWER_MS);

    if (left == 0 || poll (&pfd, 1, left) == 0)
      return why_set (w, -ETIMEDOUT, "%s: no answer within %d s", path,
                      ANSWER_MS / 1000);
    n = read (fd, buf + used, ANSWER_MAX - used);
    if (n == -1 && (errno == EAGAIN || errno == EINTR))
      continue;
    if (n == -1)
      return why_set (w, -errno, "%s: %s", path, strerror (errno));
    if (n == 0)
      break;
    used += (size_t) n;
    if (used == ANSWER_MAX)
      return why_set (w, -EPROTO, "%s: an endless answer", path);
  }
  buf[used] = '\0';
  *out = json_tokener_parse (buf);
  if (!*out || !json_object_is_type (*out, json_type_object))
    return why_set (w, -EPROTO, "%s: the answer is not a JSON document", path);
  return 0;
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

static void
print_server (FILE *fp, struct json_object *s, uint64_t slab)
{
  char free_size[FP_SIZE_STR_MAX], total[FP_SIZE_STR_MAX];
  char in[FP_SIZE_STR_MAX], out[FP_SIZE_STR_MAX];

  fp_format_size (num (s, "slabs_free") * slab, free_size);
  fp_format_size (num (s, "slabs_total") * slab, total);
  fprintf (fp, "  server         %s", str (s, "addr"));
  if (*str (s, "name"))
    fprintf (fp, " (%s)", str (s, "name"));
  fprintf (fp, " %s%s%s\n", str (s, "state"),
           *str (s, "transport") ? " over " : "", str (s, "transport"));
  fprintf (fp,
           "                 %" PRIu64 " pieces here, %s of %s free; read %s,"
           " written %s; %" PRIu64 " errors, %" PRIu64 " reconnects\n",
           num (s, "pieces"), free_size, total, size (s, "bytes_read", in),
           size (s, "bytes_written", out), num (s, "errors"),
           num (s, "reconnects"));
  if (*str (s, "why"))
    fprintf (fp, "                 %s\n", str (s, "why"));
}

void
plugin_status_print (FILE *fp, struct json_object *status)
{
  struct json_object *v = get (status, "volume");
  struct json_object *servers = get (status, "servers");
  char a[FP_SIZE_STR_MAX], b[FP_SIZE_STR_MAX], c[FP_SIZE_STR_MAX];
  size_t i, n = 0;

  fprintf (fp, "  volume         %s, %s, in pieces of %s\n",
           *str (v, "name") ? str (v, "name") : str (v, "uuid"),
           size (v, "size", a), size (v, "slab_size", b));
  fp_format_size (num (v, "pieces_allocated") * num (v, "slab_size"), a);
  fprintf (fp,
           "  memory         %" PRIu64 " of %" PRIu64
           " pieces have memory (%s); locked here %s",
           num (v, "pieces_allocated"), num (v, "pieces"), a,
           size (v, "locked_bytes", c));
  if (num (v, "pieces_lost"))
    fprintf (fp, "; %" PRIu64 " PIECES LOST", num (v, "pieces_lost"));
  fprintf (fp,
           "\n  requests       %" PRIu64 " reads (%s), %" PRIu64
           " writes (%s), %" PRIu64 " flushes, %" PRIu64 " trims, %" PRIu64
           " zeros; %" PRIu64 " in flight; %" PRIu64 " errors\n",
           num (v, "reads"), size (v, "bytes_read", a), num (v, "writes"),
           size (v, "bytes_written", b), num (v, "flushes"), num (v, "trims"),
           num (v, "zeros"), num (v, "inflight"), num (v, "errors"));
  print_latency (fp, "read ", get (v, "read_latency_ns"));
  print_latency (fp, "write", get (v, "write_latency_ns"));
  if (servers && json_object_is_type (servers, json_type_array))
    n = json_object_array_length (servers);
  for (i = 0; i < n; i++)
    print_server (fp, json_object_array_get_idx (servers, i),
                  num (v, "slab_size"));
}
