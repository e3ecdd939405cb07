/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_server.h - the passive side of RDMA: listen with rdma_cm, give each
 * session a protection domain, register slabs in it, accept and end queue
 * pairs.  This side never waits for completions: one-sided transfers cost it
 * nothing.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  all calls for one listener, its sessions and its queue pairs come
 *           from one thread (the server's event loop).
 * Memory:   all calls may allocate.
 */

#ifndef FP_VERBS_SERVER_H
#define FP_VERBS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "proto/messages.h"

struct fp_verbs_listener;
struct fp_verbs_domain; /* a session's protection domain on one device */
struct fp_verbs_region; /* a registered slab */
struct fp_verbs_peer;   /* a queue pair and its CM id */

struct fp_verbs_handler {
  /* A client asks to connect and presents h.  Return where its session keeps
   * its domain, or NULL to reject.  If *place is NULL, the domain is created
   * there, on the device of the request.  *cookie is passed to the other
   * calls.  The handler may free peers that the new one replaces.
   */
  struct fp_verbs_domain **(*request) (void *ctx,
                                       const struct fp_data_hello *h,
                                       void **cookie);
  /* The request was accepted; peer now belongs to the session. */
  void (*accepted) (void *ctx, void *cookie, const struct fp_data_hello *h,
                    struct fp_verbs_peer *peer);
  /* peer is gone (disconnected, failed, device lost): call fp_verbs_peer_free
   * soon.  Not called for a peer that was freed.
   */
  void (*gone) (void *ctx, void *cookie, struct fp_verbs_peer *peer);
  /* The device of a listener was removed (does = false) or is back.  May be
   * NULL.
   */
  void (*listens) (void *ctx, struct fp_verbs_listener *l, bool does);
  void *ctx;
};

/* Listen on addr.  -ENODEV: no RDMA device has that address. */
int fp_verbs_listen (struct fp_verbs_listener **out,
                     const struct fp_addr *addr,
                     const struct fp_verbs_handler *handler);
void fp_verbs_listener_free (struct fp_verbs_listener *l); /* no peers left */
int fp_verbs_listener_fd (const struct fp_verbs_listener *l);
/* Return the port, which the system chose if addr had port 0. */
uint16_t fp_verbs_listener_port (const struct fp_verbs_listener *l);
/* Handle a few pending CM events, without blocking.  While more are pending
 * the fd stays readable, so that no client holds the caller's loop.
 */
void fp_verbs_listener_dispatch (struct fp_verbs_listener *l);

void fp_verbs_peer_free (struct fp_verbs_peer *p);

/* Free d.  All its peers and regions must be gone. */
void fp_verbs_domain_free (struct fp_verbs_domain *d);

/* Register length bytes at addr for the peers of domain d.  The remote address
 * is random and reveals nothing, except on soft-iWARP.  After region_free
 * returned 0, the key opens nothing any more.  If region_free fails, leak the
 * memory: never reuse it.
 */
int fp_verbs_region_new (struct fp_verbs_region **out,
                         struct fp_verbs_domain *d, void *addr, size_t length,
                         bool writable);
int fp_verbs_region_free (struct fp_verbs_region *r);
uint64_t fp_verbs_region_raddr (const struct fp_verbs_region *r);
uint64_t fp_verbs_region_rkey (const struct fp_verbs_region *r);

#endif /* FP_VERBS_SERVER_H */
