/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_device.c - a device that 'farpage attach' made,
 * driven by fio.  Each round of a row is one run of fio.
 *
 * Meanwhile this process has the device open exclusively, so that it is not
 * mounted or swapped to.  fio does not open it exclusively.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "tools/bench/bench.h"
#include "tools/common/device.h"
#include "tools/common/program.h"
#include "tools/common/state.h"
#include "tools/common/sysfs.h"

#define FILL (1u << 20)
#define SPARE_MS 30000 /* for fio to start and to end */

struct state_device {
  struct bench *b;
  char device[32];
  int fd;
  uint64_t span;
  pid_t fio;
  pid_t donor; /* 0: on another machine, or not known */
};

static void
device_close (void *vp)
{
  struct state_device *s = vp;

  if (s == NULL)
    return;
  bench_end (&s->fio);
  if (s->fd != -1)
    close (s->fd);
  free (s);
}

static void
closep (struct state_device **sp)
{
  device_close (*sp);
}

/* Return the process that listens on a Unix socket if it is a memory server,
 * else 0.
 */
static pid_t
listener (const char *path)
{
  struct sockaddr_un sun = { .sun_family = AF_UNIX };
  int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t len = sizeof (struct ucred);
  struct ucred peer = { .pid = 0 };
  char comm[32];

  if (fd == -1)
    return 0;
  if (strlen (path) >= sizeof sun.sun_path)
    goto out;
  strcpy (sun.sun_path, path);
  if (connect (fd, (struct sockaddr *) &sun, sizeof sun) == -1 ||
      getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == -1)
    peer.pid = 0;
out:
  close (fd);
  /* SO_PEERCRED names the process that called listen, which may have started
   * the server (socket activation).  /proc/PID/comm has at most 15 bytes of a
   * program's name, so compare a prefix.
   */
  if (peer.pid <= 0 ||
      sysfs_read (comm, sizeof comm, "/proc/%d/comm", (int) peer.pid) < 0 ||
      strncmp (comm, "farpage-mem", 11) != 0)
    return 0;
  return peer.pid;
}

/* Return the memory server of a device if there is one server, on a Unix
 * socket; else 0.
 */
static pid_t
find_donor (const struct state *st)
{
  const char *server = NULL, *why;
  struct fp_addr addr;

  for (unsigned i = 0; i < st->nr_args; i++) {
    if (strncmp (st->args[i], "server=", 7) != 0)
      continue;
    if (server != NULL)
      return 0;
    server = st->args[i] + 7;
  }
  if (server == NULL || fp_addr_parse (&addr, server, &why) < 0 ||
      !addr.is_unix)
    return 0;
  return listener (addr.host);
}

static int
check_idle (const struct bench *b, struct state_device *s, int index,
            struct fp_error *error)
{
  char type[64];

  if (device_in_use (index, error))
    return -EBUSY;
  if (!device_connected (index) || device_size (index) < FILL)
    return fp_fail (error, -ENOTCONN,
                    "%s is not connected: see 'farpage status'", s->device);
  s->fd = open (s->device, O_RDWR | O_DIRECT | O_EXCL | O_CLOEXEC);
  if (s->fd == -1) {
    int err = errno;

    return fp_fail (error, -err, "%s: %s", s->device, strerror (err));
  }
  if (b->overwrite)
    return 0;
  if (probe_signature (type, sizeof type, s->device) < 0)
    return fp_fail (error, -EIO, "cannot find out what is on %s", s->device);
  /* As in 'farpage swapon', a swap area that is not in use holds nothing. */
  if (*type != '\0' && strcmp (type, "swap") != 0)
    return fp_fail (error, -EEXIST,
                    "%s holds data (%s): --overwrite overwrites it", s->device,
                    type);
  return 0;
}

/* Write all of the span, because reads of what was never written are answered
 * without the network.
 */
static int
fill (struct state_device *s, struct fp_error *error)
{
  void *buf;
  int r = bench_map (&buf, FILL);

  if (r < 0)
    return fp_fail (error, r, "buffers: %s", strerror (-r));
  for (uint64_t at = 0; r == 0 && at < s->span; at += FILL) {
    ssize_t n = pwrite (s->fd, buf, FILL, (off_t) at);

    if (n != FILL) {
      r = n == -1 ? -errno : -EIO;
      fp_fail (error, r, "%s: writing: %s", s->device, strerror (-r));
    }
    else if (bench_stop)
      r = -EINTR;
    bench_progress ("device: writing all of it: %" PRIu64 " %%",
                    at * 100 / s->span);
  }
  bench_unmap (buf, FILL);
  return r;
}

static int
find_fio (struct state_device *s, struct fp_error *error)
{
  char *argv[] = { (char *) "fio", (char *) "--version", NULL };
  int r = bench_spawn (s->b, "fio", argv, &s->fio, error);

  if (r == 0)
    r = bench_wait (s->b, "fio", &s->fio, SPARE_MS, error);
  /* A user who names a device wants no table without it. */
  if (r == -ENODEV)
    return fp_fail (error, -ENOENT, "fio is not installed, or not in PATH");
  return r;
}

static int
device_open (struct bench *b, const struct bench_layer *l, void **out,
             struct fp_error *error)
{
  FP_CLEANUP (closep) struct state_device *s = calloc (1, sizeof *s);
  int index = device_index (b->device), r;
  struct state st;

  (void) l;
  if (s == NULL)
    return -ENOMEM;
  s->b = b;
  s->fd = -1;
  snprintf (s->device, sizeof s->device, "%s", device_path (index).s);
  if (state_load (&st, index, error) < 0)
    return -ENOENT;
  s->donor = find_donor (&st);
  state_clear (&st);
  r = check_idle (b, s, index, error);
  if (r == 0)
    r = find_fio (s, error);
  if (r < 0)
    return r;
  s->span = FP_MIN (b->size, device_size (index) / FILL * FILL);
  r = fill (s, error);
  if (r < 0)
    return r;
  *out = FP_STEAL (s);
  return 0;
}

/* ---- output of fio ---- */

/* Add fio's bins to h.  The key of a bin is a latency in ns, its value a
 * count.
 */
static void
add_bins (struct json_object *bins, struct fp_hist *h)
{
  json_object_object_foreach (bins, ns, count)
  {
    uint64_t value = strtoull (ns, NULL, 10);

    for (int64_t i = json_object_get_int64 (count); i > 0; i--)
      fp_hist_add (h, value);
  }
}

static int
parse (struct json_object *root, const struct bench_row *row,
       struct bench_result *out)
{
  struct json_object *o, *lat, *bins, *value;
  double iops;

  if (!json_object_object_get_ex (root, "jobs", &o) ||
      !json_object_is_type (o, json_type_array) ||
      json_object_array_length (o) != 1 ||
      !json_object_object_get_ex (json_object_array_get_idx (o, 0),
                                  bench_op_name (row->op), &o) ||
      !json_object_object_get_ex (o, "lat_ns", &lat) ||
      !json_object_object_get_ex (lat, "bins", &bins) ||
      !json_object_is_type (bins, json_type_object) ||
      !json_object_object_get_ex (o, "total_ios", &value))
    return -EBADMSG;
  out->ops = (uint64_t) json_object_get_int64 (value);
  if (!json_object_object_get_ex (o, "iops", &value))
    return -EBADMSG;
  iops = json_object_get_double (value);
  if (out->ops == 0 || !(iops > 0))
    return -EBADMSG;
  /* fio's own time, without its start */
  out->ns = (uint64_t) ((double) out->ops * 1e9 / iops);
  add_bins (bins, out->latency);
  return 0;
}

static int
device_run (void *vp, const struct bench_row *row, uint64_t deadline,
            struct bench_result *out, struct fp_error *error)
{
  char file[64], size[64], bs[32], depth[32], runtime[64], output[128];
  char *const common[] = {
    (char *) "fio",
    (char *) "--name=farpage",
    (char *) "--ioengine=libaio",
    (char *) "--direct=1",
    (char *) "--norandommap=1",
    (char *) "--time_based=1",
    (char *) "--eta=never",
    /* Only json+ has all bins, which the histograms of several rounds need. */
    (char *) "--output-format=json+",
    (char *) "--lat_percentiles=1",
    (char *) "--clat_percentiles=0",
    (char *) (row->op == BENCH_READ ? "--rw=randread" : "--rw=randwrite"),
    file,
    size,
    bs,
    depth,
    runtime,
    output,
    NULL,
  };
  uint64_t now = fp_now_ns ();
  uint64_t ms = deadline > now ? (deadline - now) / FP_NS_PER_MS + 1 : 1;
  struct state_device *s = vp;
  struct json_object *root;
  int r;

  snprintf (file, sizeof file, "--filename=%s", s->device);
  snprintf (size, sizeof size, "--size=%" PRIu64, s->span);
  snprintf (bs, sizeof bs, "--bs=%u", row->size);
  snprintf (depth, sizeof depth, "--iodepth=%u", row->depth);
  snprintf (runtime, sizeof runtime, "--runtime=%" PRIu64 "ms", ms);
  snprintf (output, sizeof output, "--output=%s/fio.json", s->b->dir);

  r = bench_spawn (s->b, "fio", common, &s->fio, error);
  if (r == 0)
    r = bench_wait (s->b, "fio", &s->fio, (unsigned) ms + SPARE_MS, error);
  if (r < 0)
    return r;
  root = json_object_from_file (output + strlen ("--output="));
  r = root != NULL ? parse (root, row, out) : -EBADMSG;
  json_object_put (root);
  if (r < 0)
    fp_fail (error, r, "fio: unexpected JSON: fio 3 is needed");
  return r;
}

static int
device_donor_ns (void *vp, uint64_t *ns)
{
  struct state_device *s = vp;

  return s->donor != 0 ? bench_cpu_ns (s->donor, ns) : -ENODATA;
}

const struct bench_layer bench_device = {
  .name = "device",
  .what = "an attached device through fio",
  .rows = bench_rows,
  .nr_rows = BENCH_NR_ROWS,
  .open = device_open,
  .run = device_run,
  .close = device_close,
  .donor_ns = device_donor_ns,
};
