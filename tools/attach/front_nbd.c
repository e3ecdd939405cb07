/* SPDX-License-Identifier: BSD-3-Clause */
/* front_nbd.c - nbdkit, and the kernel's NBD client: see front.h. */

#include <config.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "tools/attach/attachment.h"
#include "tools/attach/nbd_links.h"
#include "tools/common/device.h"

#define MAX_LINKS 64
#define FLUSH_PROBE_MS 2000
#define LINK_MS 3000 /* for a first answer on each connection */

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
    r = fp_fail (error, -EBUSY, STATE_LEFT_BEHIND, device_path (index).s,
                 device_path (index).s);
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

static int
open_nbd (struct attachment *a, struct fp_error *error)
{
  return nbd_genl_open (&a->genl, error);
}

static int
claim (struct attachment *a, struct fp_error *error)
{
  int i, r;

  if (access ("/sys/module/nbd", F_OK) == -1 && !device_exists (0))
    return fp_fail (
        error, -ENODEV,
        "this kernel has no NBD client: run 'modprobe nbd max_part=0'; if "
        "there is no module nbd (containers, cloud kernels), run nbdkit with "
        "the plugin, and use it from a program that speaks NBD");
  r = open_nbd (a, error);
  if (r == 0)
    r = nbd_genl_listen (a->genl, error);
  if (r < 0)
    return r;
  if (a->st.index != -1)
    return claim_one (a, a->st.index, error);

  for (i = 0; i < DEVICE_KIND_MAX && device_exists (i); i++) {
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

static void
set_params (struct attachment *a, struct front_proc_params *p)
{
  /* systemd's last killing at shutdown spares a process with '@' here, so that
   * storage can be unmounted after it (ROOT_STORAGE_DAEMONS of systemd).
   */
  const char *lead[] = {
    "@nbdkit",    "-f", "-t", "1", "-U", a->socket, nbdkit_plugin_path (),
    p->numbers[0]
  };

  p->program = p->name = "nbdkit";
  snprintf (p->numbers[0], sizeof p->numbers[0], "connections=%u",
            a->st.connections);
  memcpy (p->lead, lead, sizeof lead);
  p->nr_lead = sizeof lead / sizeof lead[0];
  /* A predecessor that was killed left it; nbdkit would not replace it. */
  unlink (a->socket);
}

/* nbdkit answers a handshake once its plugin is ready. */
static int
is_ready (struct attachment *a, const struct deadline *d,
          struct fp_error *error)
{
  struct nbd_link link;

  if (nbd_handshake (&link, a->socket, d, error) < 0)
    return -EAGAIN;
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

static int
reconnect (struct attachment *a, unsigned n, const struct deadline *d,
           struct fp_error *error)
{
  int socks[MAX_LINKS] = { 0 };
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
  return dead == 0 ? 0 : reconnect (a, dead, until, error);
}

static int
connect_all (struct attachment *a, const struct deadline *d,
             struct fp_error *error)
{
  int socks[MAX_LINKS] = { 0 };
  unsigned n = a->st.connections < MAX_LINKS ? a->st.connections : MAX_LINKS;
  struct nbd_connect c = connect_params (a, socks, n);
  int r = make_links (a, socks, n, d, error);

  if (r < 0)
    return r;
  r = nbd_genl_connect (a->genl, &c, error);
  if (r == 0)
    r = see_that_all_answer (a, socks, n, d, error);
  close_links (socks, n);
  return r;
}

static bool
answers (struct attachment *a, struct fp_error *error)
{
  struct deadline d = deadline_in (FLUSH_PROBE_MS, NULL);
  struct nbd_link link;

  if (nbd_handshake (&link, a->socket, &d, error) < 0)
    return false;
  close (link.fd);
  return true;
}

static int
disconnect (struct attachment *a, struct fp_error *error)
{
  if (a->genl == NULL || !device_connected (a->st.index))
    return 0;
  return nbd_genl_disconnect (a->genl, a->st.index, error);
}

static void
close_nbd (struct attachment *a)
{
  nbd_genl_free (a->genl);
  a->genl = NULL;
}

static int
event_fd (const struct attachment *a)
{
  return nbd_genl_fd (a->genl);
}

static unsigned
take_events (struct attachment *a)
{
  return nbd_genl_take (a->genl, a->st.index, a->st.connections);
}

const struct front front_nbd = {
  .program = "nbdkit",
  .module = "nbd",
  .module_option = "max_part=0",
  .lingers = true,
  .open = open_nbd,
  .claim = claim,
  .set_params = set_params,
  .is_ready = is_ready,
  .connect = connect_all,
  .reconnect = reconnect,
  .answers = answers,
  .disconnect = disconnect,
  .close = close_nbd,
  .event_fd = event_fd,
  .take_events = take_events,
};
