/* SPDX-License-Identifier: BSD-3-Clause */
/* attachment.c - one attached device: the steps that make it, and the one that
 * undoes them.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/fs.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "tools/attach/attachment.h"
#include "tools/attach/nbd_links.h"
#include "tools/common/device.h"
#include "tools/common/plugin_status.h"
#include "tools/common/sysfs.h"

#define MAX_LINKS 64
#define STOP_MS 10000
#define GONE_MS 10000
#define FLUSH_PROBE_MS 2000
#define PATIENCE_MS 1000 /* then tell the user what it waits for */
#define LINK_MS 3000     /* for a first answer on each connection */
#define CONNECTS 3       /* not used */

/* Take the lock first, so that no other farpage process can claim the device.
 * Other users show in sysfs, and the kernel decides at connect.
 */
static int
claim_one (struct attachment *a, int index, struct fp_error *error)
{
  int r;

  if (!device_exists (index))
    return fp_fail (error, -ENOENT, "there is no %s", device_path (index).s);
  r = state_lock (&a->lock, index, error);
  if (r < 0)
    return r;
  if (state_exists (index))
    r = fp_fail (error, -EBUSY,
                 "%s was left behind by a farpage that died: run"
                 " 'farpage detach %s'",
                 device_path (index).s, device_path (index).s);
  else if (device_connected (index))
    r = fp_fail (error, -EBUSY, "%s is used by another NBD client",
                 device_path (index).s);
  else
    r = state_mkdir (index, error);
  if (r < 0) {
    close (a->lock);
    a->lock = -1;
    return r;
  }
  a->st.index = index;
  state_path (a->socket, index, "nbd.sock");
  snprintf (a->name, sizeof a->name, "%s", device_name (index).s);
  return 0;
}

int
attachment_claim (struct attachment *a, struct fp_error *error)
{
  int i, r;

  if (access ("/sys/module/nbd", F_OK) == -1 && !device_exists (0))
    return fp_fail (
        error, -ENODEV,
        "this kernel has no NBD client: run 'modprobe nbd max_part=0'; if "
        "there is no module nbd (containers, cloud kernels), run nbdkit with "
        "the plugin, and use it from a program that speaks NBD");
  r = nbd_genl_open (&a->genl, error);
  if (r < 0)
    return r;
  r = nbd_genl_listen (a->genl, error);
  if (r < 0)
    return r;
  if (a->st.index != -1)
    return claim_one (a, a->st.index, error);

  for (i = 0; i < STATE_MAX_DEVICES && device_exists (i); i++) {
    r = claim_one (a, i, error);
    if (r != -EBUSY)
      return r;
  }
  if (i == 0)
    return fp_fail (error, -ENODEV,
                    "there is no /dev/nbdX, though this kernel has an NBD "
                    "client: reload its module: 'modprobe -r nbd; modprobe "
                    "nbd max_part=0 nbds_max=16'");
  return fp_fail (error, -EBUSY,
                  "all %d devices /dev/nbdX are in use: load the module with"
                  " nbds_max=N for more",
                  i);
}

/* Wait until nbdkit answers a handshake. It does so once its plugin is ready,
 * so a refusal means "not yet".
 */
static int
first_answer (struct attachment *a, const struct deadline *d,
              struct fp_error *error)
{
  int64_t quiet_until = now_ms () + PATIENCE_MS;
  struct nbd_link link;
  struct pollfd pfd;
  int r, left;

  for (;;) {
    r = nbd_handshake (&link, a->socket, d, error);
    nbdkit_hear (&a->nbdkit);
    if (r == 0)
      break;
    if (a->aloud && !a->nbdkit.aloud && now_ms () >= quiet_until)
      nbdkit_speak_up (&a->nbdkit, a->aloud);
    if (nbdkit_ended (&a->nbdkit))
      return nbdkit_why (&a->nbdkit, error);
    left = deadline_left (d, 20);
    if (left == 0)
      return d->stop && *d->stop
                 ? fp_fail (error, -EINTR, "interrupted")
                 : fp_fail_in (error, -ETIMEDOUT,
                               "nbdkit did not answer in time");
    pfd = (struct pollfd) { .fd = a->nbdkit.pidfd, .events = POLLIN };
    poll (&pfd, 1, left);
  }
  a->nbdkit.aloud = NULL;
  close (link.fd);
  if (a->shape.size && a->shape.size != link.size)
    return fp_fail (
        error, -EIO, "the volume's size changed from %llu to %llu bytes",
        (unsigned long long) a->shape.size, (unsigned long long) link.size);
  a->shape = link;
  a->shape.fd = -1;
  a->st.size = link.size;
  if (!link.multi_conn)
    a->st.connections = 1;
  return 0;
}

/* Learn the volume's UUID, for the next nbdkit. If the plugin does not tell
 * it, the name alone identifies the volume.
 */
static void
learn_volume (struct attachment *a, const char *status_socket)
{
  FP_CLEANUP (fp_free) struct fp_status_doc *doc = NULL;
  struct fp_error error;

  if (!a->st.volume[0] &&
      plugin_status_read (&doc, status_socket, &error) == 0)
    fp_uuid_format (&doc->volume.uuid, a->st.volume);
}

int
attachment_serve (struct attachment *a, bool resume, const struct deadline *d,
                  struct fp_error *error)
{
  char status_socket[STATE_PATH_MAX], members[STATE_PATH_MAX];
  struct nbdkit_params params = {
    .socket = a->socket,
    .status_socket = status_socket,
    .members = members,
    .uuid = a->st.uuid,
    .volume = a->st.volume,
    .resume = resume,
    .swap = a->st.swap,
    .realtime = a->st.swap,
    .connections = a->st.connections,
    .nr_args = a->st.nr_args,
    .args = a->st.args,
  };
  struct swap_area area;
  int r;

  if (device_swap (a->st.index, &area, NULL) == 0 && area.active)
    params.realtime = true;
  state_path (status_socket, a->st.index, "status.sock");
  state_path (members, a->st.index, "members");
  r = nbdkit_start (&a->nbdkit, &params, error);
  if (r < 0)
    return r;
  a->st.nbdkit = a->nbdkit.pid;
  r = first_answer (a, d, error);
  if (r == 0)
    learn_volume (a, status_socket);
  if (r < 0 && resume)
    nbdkit_kill (&a->nbdkit, STOP_MS);
  else if (r < 0)
    nbdkit_stop (&a->nbdkit, STOP_MS);
  return r;
}

static void
close_links (int *socks, unsigned n)
{
  while (n > 0)
    close (socks[--n]);
}

/* Make n connections for the kernel: socks[0..n). */
static int
make_links (struct attachment *a, int *socks, unsigned n,
            const struct deadline *d, struct fp_error *error)
{
  struct nbd_link link;
  unsigned i;
  int r;

  for (i = 0; i < n; i++) {
    r = nbd_handshake (&link, a->socket, d, error);
    if (r < 0) {
      close_links (socks, i);
      return fp_fail_in (error, r, "NBD connection %u", i + 1);
    }
    socks[i] = link.fd;
  }
  return 0;
}

static struct nbd_connect
connect_params (const struct attachment *a, const int *socks, unsigned n)
{
  return (struct nbd_connect) {
    .index = a->st.index,
    .size = a->shape.size,
    .block_size = a->shape.size % 4096 == 0 ? 4096 : 512,
    .flags = a->shape.flags,
    .timeout = a->st.timeout,
    .dead_timeout = a->st.dead_timeout,
    .backend = a->st.uuid,
    .socks = socks,
    .nr_socks = n,
  };
}

/* Test that the device answers a read. A read cannot be interrupted, so a
 * child makes it. If there is no answer, the disconnect that follows ends the
 * child.
 */
static int
test_read (int index, const struct deadline *d, struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int pidfd = -1;
  int status = 0, left, fd;
  struct device_name dev = device_path (index);
  void *buf;
  pid_t pid;

  pid = fork ();
  if (pid == -1)
    return fp_fail (error, -errno, "fork: %s", strerror (errno));
  if (pid == 0) {
    fd = open (dev.s, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd == -1 || posix_memalign (&buf, 4096, 4096) != 0)
      _exit (1);
    _exit (pread (fd, buf, 4096, 0) == 4096 ? 0 : 1);
  }
  pidfd = pidfd_open (pid, 0);
  while ((left = deadline_left (d, 200)) > 0) {
    struct pollfd pfd = { .fd = pidfd, .events = POLLIN };

    poll (&pfd, 1, left);
    if (waitpid (pid, &status, WNOHANG) == pid) {
      if (WIFEXITED (status) && WEXITSTATUS (status) == 0)
        return 0;
      return fp_fail (error, -EIO, "%s cannot be read", dev.s);
    }
  }
  kill (pid, SIGKILL);
  return fp_fail (error, -ETIMEDOUT, "%s did not answer a read in time",
                  dev.s);
}

/* Return the bytes of one stripe on all its servers together; 0 if the plugin
 * does not say.
 */
static uint64_t
stripe_group (const struct attachment *a)
{
  FP_CLEANUP (fp_free) struct fp_status_doc *doc = NULL;
  char path[STATE_PATH_MAX];
  struct fp_error error;

  state_path (path, a->st.index, "status.sock");
  if (plugin_status_read (&doc, path, &error) < 0)
    return 0;
  return (uint64_t) doc->volume.stripe.width * doc->volume.stripe.size;
}

/* Wait until the kernel reports n dead connections. Return how many it did. */
static unsigned
wait_dead (struct attachment *a, unsigned n)
{
  struct deadline d = deadline_in (LINK_MS, NULL);
  unsigned dead = 0;
  int left;

  while (dead < n && (left = deadline_left (&d, 200)) > 0) {
    struct pollfd pfd = { .fd = nbd_genl_fd (a->genl), .events = POLLIN };

    if (poll (&pfd, 1, left) > 0)
      dead += nbd_genl_take (a->genl, a->st.index, n - dead);
  }
  return dead;
}

/* Check that the kernel receives on each connection (nbd_links.h). If it does
 * not on some, shut down the others, and replace those by new ones. The worker
 * that received on one that is shut down then goes on to the silent ones, so
 * no request fails.
 */
static int
see_that_all_answer (struct attachment *a, const int *socks, unsigned n,
                     const struct deadline *until, struct fp_error *error)
{
  struct deadline d = deadline_in (LINK_MS, until->stop);
  uint64_t answered;
  int silent = nbd_links_silent (a->st.index, &d, &answered);
  unsigned cut = 0, dead;

  /* If none answers, the cause is another one. */
  if (silent <= 0 || answered == 0)
    return 0;
  fp_log (FP_LOG_WARN,
          "%s: the kernel does not receive on %d of %u connections:"
          " reconnecting the others",
          device_path (a->st.index).s, silent, n);
  (void) nbd_genl_take (a->genl, a->st.index, 0);
  for (unsigned i = 0; i < n; i++)
    if (answered >> i & 1 && shutdown (socks[i], SHUT_RDWR) == 0)
      cut++;
  /* The supervisor hears of those that die later. */
  dead = wait_dead (a, cut);
  return dead == 0 ? 0 : attachment_reconnect (a, dead, until, error);
}

int
attachment_connect (struct attachment *a, const struct deadline *d,
                    struct fp_error *error)
{
  int socks[MAX_LINKS];
  unsigned n = a->st.connections < MAX_LINKS ? a->st.connections : MAX_LINKS;
  struct nbd_connect c = connect_params (a, socks, n);
  int r;

  r = state_save_link (&a->st, error);
  if (r == 0)
    r = make_links (a, socks, n, d, error);
  if (r < 0)
    return r;
  r = nbd_genl_connect (a->genl, &c, error);
  if (r == 0)
    r = see_that_all_answer (a, socks, n, d, error);
  close_links (socks, n);
  if (r < 0)
    return r;
  device_tune (a->st.index, device_read_ahead_kb (stripe_group (a)));
  return test_read (a->st.index, d, error);
}

int
attachment_reconnect (struct attachment *a, unsigned n,
                      const struct deadline *d, struct fp_error *error)
{
  int socks[MAX_LINKS];
  struct nbd_connect c;
  int r;

  if (n > MAX_LINKS)
    n = MAX_LINKS;
  c = connect_params (a, socks, n);
  r = make_links (a, socks, n, d, error);
  if (r < 0)
    return r;
  r = nbd_genl_reconfigure (a->genl, &c, error);
  close_links (socks, n);
  return r;
}

int
attachment_save (struct attachment *a, struct fp_error *error)
{
  if (a->st.since == 0)
    a->st.since = time (NULL);
  return state_save (&a->st, error);
}

/* Open the device exclusively. That fails while it is mounted or swapped to,
 * and prevents both while it is open.
 */
static int
open_exclusive (int *fd, int index, struct fp_error *error)
{
  struct device_name dev = device_path (index);

  if (device_in_use (index, error))
    return -EBUSY;
  *fd = open (dev.s, O_RDWR | O_EXCL | O_CLOEXEC);
  if (*fd == -1 && errno == EBUSY)
    return fp_fail (error, -EBUSY, "%s is in use", dev.s);
  return 0;
}

static int
wait_gone (int index, struct fp_error *error)
{
  struct deadline d = deadline_in (GONE_MS, NULL);

  while (device_connected (index)) {
    if (deadline_left (&d, 1) == 0)
      return fp_fail (error, -ETIMEDOUT,
                      "%s is still connected %d s after the"
                      " disconnect: a program has it open",
                      device_path (index).s, GONE_MS / 1000);
    sleep_ms (20);
  }
  return 0;
}

/* Flush if nbdkit answers. Otherwise a flush would wait for the
 * dead-connection timeout.
 */
static void
flush (struct attachment *a, int fd)
{
  struct deadline d = deadline_in (FLUSH_PROBE_MS, NULL);
  struct nbd_link link;
  struct fp_error error;

  if (nbd_handshake (&link, a->socket, &d, &error) < 0) {
    fp_log (FP_LOG_WARN, "not flushed before detaching: %s", error.text);
    return;
  }
  close (link.fd);
  if (fsync (fd) == -1 || ioctl (fd, BLKFLSBUF, 0) == -1)
    fp_log (FP_LOG_WARN, "flush before detaching: %s", strerror (errno));
}

static int
disconnect (struct attachment *a, bool check, struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  int r;

  if (!device_connected (a->st.index))
    return 0;
  if (check) {
    r = open_exclusive (&fd, a->st.index, error);
    if (r < 0)
      return r;
    if (fd != -1)
      flush (a, fd);
  }
  r = nbd_genl_disconnect (a->genl, a->st.index, error);
  if (fd != -1) {
    close (fd); /* size becomes 0 at the last close */
    fd = -1;
  }
  return r < 0 ? r : wait_gone (a->st.index, error);
}

int
attachment_undo (struct attachment *a, bool check, struct fp_error *error)
{
  struct fp_error later;
  int r = 0, r2;

  if (a->lock == -1)
    return 0;
  if (a->genl)
    r = disconnect (a, check, error);
  if (r == -EBUSY)
    return r;
  if (a->nbdkit.pid)
    nbdkit_stop (&a->nbdkit, STOP_MS);
  else
    nbdkit_stop_other (a->st.nbdkit, a->socket, STOP_MS);
  r2 = state_remove (a->st.index, r < 0 ? &later : error);
  /* The kernel sends no event when a device goes, so without this its link
   * would stay.
   */
  if (device_exists (a->st.index))
    (void) sysfs_write ("change", "/sys/block/%s/uevent",
                        device_name (a->st.index).s);
  close (a->lock);
  a->lock = -1;
  return r < 0 ? r : r2;
}
