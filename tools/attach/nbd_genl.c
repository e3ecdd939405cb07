/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd_genl.c - the kernel's NBD client, over generic netlink. Commands use one
 * socket, the news of dead connections another.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/nbd-netlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "tools/attach/nbd_genl.h"
#include "tools/common/device.h"

struct nbd_genl {
  struct nl_sock *cmd, *events;
  int family;
  int index;      /* device whose events on_event counts */
  unsigned taken; /* dead connections, counted by on_event */
};

/* Convert libnl's own error numbers. */
static int
from_nl (int err)
{
  switch (-err) {
  case NLE_BUSY:
    return -EBUSY;
  case NLE_PERM:
  case NLE_NOACCESS:
    return -EPERM;
  case NLE_NOMEM:
    return -ENOMEM;
  case NLE_OBJ_NOTFOUND:
  case NLE_NODEV:
    return -ENODEV;
  case NLE_INVAL:
    return -EINVAL;
  case NLE_AGAIN:
    return -EAGAIN;
  default:
    return -EIO;
  }
}

static void
msg_freep (struct nl_msg **mp)
{
  nlmsg_free (*mp);
}

void
nbd_genl_free (struct nbd_genl *g)
{
  if (!g)
    return;
  nl_socket_free (g->cmd);
  nl_socket_free (g->events);
  free (g);
}

void
nbd_genl_freep (struct nbd_genl **gp)
{
  nbd_genl_free (*gp);
}

static int
no_memory (struct fp_error *error)
{
  return fp_fail (error, -ENOMEM, "out of memory");
}

static int
netlink_failed (int r, struct fp_error *error)
{
  return fp_fail (error, from_nl (r), "netlink: %s", nl_geterror (r));
}

static int
open_socket (struct nl_sock **out, struct fp_error *error)
{
  int r;

  *out = nl_socket_alloc ();
  if (!*out)
    return no_memory (error);
  r = genl_connect (*out);
  return r < 0 ? netlink_failed (r, error) : 0;
}

int
nbd_genl_open (struct nbd_genl **out, struct fp_error *error)
{
  FP_CLEANUP (nbd_genl_freep) struct nbd_genl *g = NULL;
  int r;

  g = calloc (1, sizeof *g);
  if (!g)
    return no_memory (error);
  r = open_socket (&g->cmd, error);
  if (r < 0)
    return r;
  g->family = genl_ctrl_resolve (g->cmd, NBD_GENL_FAMILY_NAME);
  if (g->family < 0)
    return fp_fail (error, -ENODEV,
                    "this kernel has no NBD client: run 'modprobe nbd'");
  *out = FP_STEAL (g);
  return 0;
}

static struct nl_msg *
new_msg (struct nbd_genl *g, int cmd, int index)
{
  struct nl_msg *msg = nlmsg_alloc ();

  if (!msg)
    return NULL;
  if (!genlmsg_put (msg, NL_AUTO_PORT, NL_AUTO_SEQ, g->family, 0, 0,
                    (uint8_t) cmd, NBD_GENL_VERSION) ||
      nla_put_u32 (msg, NBD_ATTR_INDEX, (uint32_t) index) < 0) {
    nlmsg_free (msg);
    return NULL;
  }
  return msg;
}

static int
put_socks (struct nl_msg *msg, const struct nbd_connect *c)
{
  struct nlattr *list, *item;
  unsigned i;

  list = nla_nest_start (msg, NBD_ATTR_SOCKETS);
  if (!list)
    return -1;
  for (i = 0; i < c->nr_socks; i++) {
    item = nla_nest_start (msg, NBD_SOCK_ITEM);
    if (!item || nla_put_u32 (msg, NBD_SOCK_FD, (uint32_t) c->socks[i]) < 0)
      return -1;
    nla_nest_end (msg, item);
  }
  nla_nest_end (msg, list);
  return 0;
}

/* Send, and wait for the kernel's acknowledgement. CONNECT answers with the
 * index before that; the default handlers skip it.
 */
static int
call (struct nbd_genl *g, struct nl_msg *msg)
{
  int r = nl_send_auto (g->cmd, msg);

  if (r < 0)
    return r;
  return nl_wait_for_ack (g->cmd);
}

static int
put_device (struct nl_msg *msg, const struct nbd_connect *c)
{
  if (nla_put_u64 (msg, NBD_ATTR_SIZE_BYTES, c->size) < 0 ||
      nla_put_u64 (msg, NBD_ATTR_BLOCK_SIZE_BYTES, c->block_size) < 0 ||
      nla_put_u64 (msg, NBD_ATTR_TIMEOUT, c->timeout) < 0 ||
      nla_put_u64 (msg, NBD_ATTR_DEAD_CONN_TIMEOUT, c->dead_timeout) < 0 ||
      nla_put_u64 (msg, NBD_ATTR_SERVER_FLAGS, c->flags) < 0 ||
      nla_put_u64 (msg, NBD_ATTR_CLIENT_FLAGS, 0) < 0)
    return -1;
  return 0;
}

/* Give the kernel the sockets of a new device, or of one that it has. */
static int
hand_over (struct nbd_genl *g, int cmd, const struct nbd_connect *c,
           const char *what, struct fp_error *error)
{
  FP_CLEANUP (msg_freep) struct nl_msg *msg = new_msg (g, cmd, c->index);
  int r;

  if (!msg || (cmd == NBD_CMD_CONNECT && put_device (msg, c) < 0) ||
      nla_put_string (msg, NBD_ATTR_BACKEND_IDENTIFIER, c->backend) < 0 ||
      put_socks (msg, c) < 0)
    return no_memory (error);
  r = call (g, msg);
  if (r < 0)
    return fp_fail (error, from_nl (r), "the kernel refused %s's %s: %s",
                    device_path (c->index).s, what, nl_geterror (r));
  return 0;
}

int
nbd_genl_connect (struct nbd_genl *g, const struct nbd_connect *c,
                  struct fp_error *error)
{
  return hand_over (g, NBD_CMD_CONNECT, c, "connections", error);
}

int
nbd_genl_reconfigure (struct nbd_genl *g, const struct nbd_connect *c,
                      struct fp_error *error)
{
  return hand_over (g, NBD_CMD_RECONFIGURE, c, "new connections", error);
}

int
nbd_genl_disconnect (struct nbd_genl *g, int index, struct fp_error *error)
{
  FP_CLEANUP (msg_freep)
  struct nl_msg *msg = new_msg (g, NBD_CMD_DISCONNECT, index);
  int r;

  if (!msg)
    return no_memory (error);
  r = call (g, msg);
  /* A device without a server needs no disconnect; the kernel says EINVAL. */
  if (r < 0 && from_nl (r) != -EINVAL && from_nl (r) != -ENODEV)
    return fp_fail (error, from_nl (r), "the kernel did not disconnect %s: %s",
                    device_path (index).s, nl_geterror (r));
  return 0;
}

static int
on_event (struct nl_msg *msg, void *arg)
{
  struct nbd_genl *g = arg;
  struct nlattr *attrs[NBD_ATTR_MAX + 1];
  struct nlmsghdr *h = nlmsg_hdr (msg);
  struct genlmsghdr *gh = nlmsg_data (h);

  if (gh->cmd == NBD_CMD_LINK_DEAD &&
      genlmsg_parse (h, 0, attrs, NBD_ATTR_MAX, NULL) == 0 &&
      attrs[NBD_ATTR_INDEX] &&
      nla_get_u32 (attrs[NBD_ATTR_INDEX]) == (uint32_t) g->index)
    g->taken++;
  return NL_OK;
}

int
nbd_genl_listen (struct nbd_genl *g, struct fp_error *error)
{
  int group, r;

  r = open_socket (&g->events, error);
  if (r < 0)
    return r;
  nl_socket_disable_seq_check (g->events);
  nl_socket_modify_cb (g->events, NL_CB_VALID, NL_CB_CUSTOM, on_event, g);
  group = genl_ctrl_resolve_grp (g->cmd, NBD_GENL_FAMILY_NAME,
                                 NBD_GENL_MCAST_GROUP_NAME);
  r = group < 0 ? group : nl_socket_add_membership (g->events, group);
  if (r == 0)
    r = nl_socket_set_nonblocking (g->events);
  return r < 0 ? netlink_failed (r, error) : 0;
}

int
nbd_genl_fd (const struct nbd_genl *g)
{
  return nl_socket_get_fd (g->events);
}

unsigned
nbd_genl_take (struct nbd_genl *g, int index, unsigned all)
{
  int r;

  g->index = index;
  g->taken = 0;
  do
    r = nl_recvmsgs_default (g->events);
  while (r == 0);
  /* Any error but "nothing more" means that messages were lost (ENOBUFS). */
  return -r == NLE_AGAIN ? g->taken : all;
}
