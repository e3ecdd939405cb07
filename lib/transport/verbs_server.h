/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_server.h - the passive side of RDMA: listen with rdma_cm, give each
 * session a protection domain, register slabs in it, accept and end its
 * queue pairs.  No completion is ever waited for here: one-sided transfers
 * cost this side nothing.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  all calls that concern one listener, its sessions and its
 *           queue pairs come from one thread (the server's event loop).
 * Memory:   everything here may allocate.
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
struct fp_verbs_peer;   /* a queue pair, and the CM id it hangs on */

struct fp_verbs_handler {
  /* A client asks to connect and showed h.  Say whose it is: return the
   * place that holds the session's domain (NULL inside: it is made
   * there, on the device the request came in on), or NULL to reject.
   * cookie comes back in the other calls.  It may free other peers, those
   * that this one replaces.
   */
  struct fp_verbs_domain **(*request) (void *ctx,
                                       const struct fp_data_hello *h,
                                       void **cookie);
  /* It was accepted; the peer now belongs to the session. */
  void (*accepted) (void *ctx, void *cookie, const struct fp_data_hello *h,
                    struct fp_verbs_peer *peer);
  /* It is gone (disconnected, failed, device lost): call
   * fp_verbs_peer_free soon.  Not called for a peer that was freed.
   */
  void (*gone) (void *ctx, void *cookie, struct fp_verbs_peer *peer);
  /* The device of a listener was taken away, or is there again.  May be NULL.
   */
  void (*listens) (void *ctx, struct fp_verbs_listener *l, bool does);
  void *ctx;
};

/* -ENODEV: no RDMA device has that address. */
int fp_verbs_listen (struct fp_verbs_listener **out,
                     const struct fp_addr *addr,
                     const struct fp_verbs_handler *handler);
void fp_verbs_listener_free (struct fp_verbs_listener *l); /* no peers left */
int fp_verbs_listener_fd (const struct fp_verbs_listener *l);
/* The port that it got, when asked for port 0. */
uint16_t fp_verbs_listener_port (const struct fp_verbs_listener *l);
/* Handle a few waiting CM events; does not block.  The descriptor stays
 * readable while more wait, so that no peer holds the caller's loop.
 */
void fp_verbs_listener_dispatch (struct fp_verbs_listener *l);

void fp_verbs_peer_free (struct fp_verbs_peer *p);

/* Peers and regions must be gone. */
void fp_verbs_domain_free (struct fp_verbs_domain *d);

/* Register length bytes at addr for the peers of this domain.  Remote
 * addresses start at an iova that tells nothing.  When region_free
 * returned 0, the key opens nothing any more; if it fails the memory must
 * be leaked, not reused.
 */
int fp_verbs_region_new (struct fp_verbs_region **out,
                         struct fp_verbs_domain *d, void *addr, size_t length,
                         bool writable);
int fp_verbs_region_free (struct fp_verbs_region *r);
uint64_t fp_verbs_region_raddr (const struct fp_verbs_region *r);
uint64_t fp_verbs_region_rkey (const struct fp_verbs_region *r);

#endif /* FP_VERBS_SERVER_H */
