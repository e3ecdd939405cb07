/* SPDX-License-Identifier: BSD-3-Clause */
/* nbd_genl.h - the kernel's NBD client, over generic netlink. Give it sockets,
 * replace those that died, take the device down, and learn of connections that
 * die.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  one.
 * Memory:   the kernel keeps its own reference to a socket. The caller still
 *           closes its file descriptor.
 */

#ifndef FARPAGE_NBD_GENL_H
#define FARPAGE_NBD_GENL_H

#include <stdint.h>

#include "base/error.h"

struct nbd_genl;

int nbd_genl_open (struct nbd_genl **out, struct fp_error *error);
void nbd_genl_free (struct nbd_genl *g);
void nbd_genl_freep (struct nbd_genl **gp);

struct nbd_connect {
  int index;
  uint64_t size;
  uint32_t block_size;   /* bytes, a power of two from 512 to a page */
  uint64_t flags;        /* NBD_FLAG_* of the server */
  unsigned timeout;      /* seconds until a request is sent again */
  unsigned dead_timeout; /* seconds to wait for a new connection */
  const char *backend;   /* must be the same in a reconnect */
  const int *socks;
  unsigned nr_socks;
};

/* Attach the device to these sockets. -EBUSY: it has a server already. */
int nbd_genl_connect (struct nbd_genl *g, const struct nbd_connect *c,
                      struct fp_error *error);
/* Replace dead connections by these sockets. Surplus ones are not used. */
int nbd_genl_reconfigure (struct nbd_genl *g, const struct nbd_connect *c,
                          struct fp_error *error);
/* Disconnect the device. Return 0 also if it has no server. */
int nbd_genl_disconnect (struct nbd_genl *g, int index,
                         struct fp_error *error);

/* Make nbd_genl_fd readable when a connection dies from now on. Then
 * nbd_genl_take returns how many connections of that device died (0 if only
 * those of others did). If the kernel's messages were lost, it returns all.
 */
int nbd_genl_listen (struct nbd_genl *g, struct fp_error *error);
int nbd_genl_fd (const struct nbd_genl *g);
unsigned nbd_genl_take (struct nbd_genl *g, int index, unsigned all);

#endif /* FARPAGE_NBD_GENL_H */
