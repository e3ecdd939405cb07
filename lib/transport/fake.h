/* SPDX-License-Identifier: BSD-3-Clause */
/* fake.h - the transport "fake", for unit tests: memory servers inside this
 * process, with faults on demand.
 *
 *   s = fp_fake_server_new ("a", 1 << 20);
 *   fp_fake_server_grant (s, 0, 1 << 20, &grant);   as a GRANT reply would
 *   ops = fp_transport_get (FP_TRANSPORT_FAKE);
 *   ops->import (&remote, &grant, -1);
 *   ops->conn_open (&conn, queue, params with fp_fake_server_addr (s), ...)
 *
 * It is as strict as a device: local must lie in the queue's memory (post
 * says -EFAULT else), nothing moves before kick, an op with a wrong key or
 * outside the grant completes with -EPERM, and a READ that fails leaves
 * garbage in its buffer.
 *
 * A held op has not touched any memory.  It does when it is released with
 * status 0, and never when it is released with an error or its connection
 * breaks.  A silent server is one that holds and is never told to release.
 *
 * Fault points are counted over all servers: each conn_open, each post and
 * each op that is about to complete (in kick, or when released).  A test
 * walks through them: fault at the n-th, n = 1, 2, ..., until
 * fp_fake_fault_fired says that there was no n-th.
 *
 * Threads:  any; one lock is around everything.
 * Memory:   server_new, queue_new and conn_open allocate.
 */

#ifndef FP_FAKE_H
#define FP_FAKE_H

#include "transport/transport.h"

struct fp_fake_server;

extern const struct fp_transport_ops fp_transport_fake;

/* Its address is host, port FP_DEFAULT_PORT; no two may have the same.
 * NULL: no memory.
 */
struct fp_fake_server *fp_fake_server_new (const char *host, size_t length);
void fp_fake_server_free (struct fp_fake_server *s); /* no connections */
const struct fp_addr *fp_fake_server_addr (const struct fp_fake_server *s);
uint8_t *fp_fake_server_memory (struct fp_fake_server *s);

/* Fill in raddr, rkey and length for [offset, offset + length). */
void fp_fake_server_grant (struct fp_fake_server *s, uint64_t offset,
                           uint64_t length, struct fp_grant *g);

/* What is imported from now on is mapped, as it is over shm. */
void fp_fake_server_map (struct fp_fake_server *s);

/* It is reached over this device from now on, at first 0: a queue has one, its
 * first connection's, and another one is -EXDEV.
 */
void fp_fake_server_device (struct fp_fake_server *s, unsigned device);

/* Grants made so far open nothing any more. */
void fp_fake_server_revoke (struct fp_fake_server *s);

/* What it answers to each op from now on, on connections that stay: -errno, or
 * 0: as it should.
 */
void fp_fake_server_answer (struct fp_fake_server *s, int status);
/* Likewise, and each op that fails breaks its connection, as over rdma. */
void fp_fake_server_break (struct fp_fake_server *s, bool on);

/* Every connection breaks and its event fd becomes readable; conn_open is
 * refused until revive.
 */
void fp_fake_server_die (struct fp_fake_server *s);
void fp_fake_server_revive (struct fp_fake_server *s);

/* Hold back the completion of each op that is kicked from now on. */
void fp_fake_server_hold (struct fp_fake_server *s, bool hold);
unsigned fp_fake_server_held (struct fp_fake_server *s);

/* Complete the i-th held op, in the order in which they were kicked: with
 * status, or as it would have if status is 0.  False: there is no i-th.
 */
bool fp_fake_server_release (struct fp_fake_server *s, unsigned i, int status);

/* Imports that were not undone.  The n-th from now fails; 0: none. */
unsigned fp_fake_imports (void);
void fp_fake_import_fails_at (unsigned n);

enum fp_fake_fault {
  /* conn_open: -ECONNREFUSED.  post: -ENOTCONN, and the connection is
   * broken.  completion: -EREMOTEIO; the connection stays.
   */
  FP_FAKE_ERROR,
  /* conn_open: -ETIMEDOUT.  post: it is accepted, then the connection
   * breaks.  completion: the connection breaks, after the op was done in
   * the server's memory and before the client knows.
   */
  FP_FAKE_BREAK,
  /* conn_open: nothing.  post: nothing.  completion: the op is held. */
  FP_FAKE_DELAY,
  /* From there on nothing reaches any server: conn_open: -ECONNREFUSED, and
   * each op is held.  So its memory is what a client that dies there leaves.
   */
  FP_FAKE_DIE
};

/* From now on count points; do this at the n-th, once.  0: never. */
void fp_fake_fault_at (unsigned n, enum fp_fake_fault fault);
/* After that, and likewise: at a later one as well.  Fired: both have. */
void fp_fake_fault_again (unsigned n, enum fp_fake_fault fault);
bool fp_fake_fault_fired (void);
bool fp_fake_died (void);             /* by FP_FAKE_DIE */
unsigned fp_fake_fault_points (void); /* passed since fault_at */

#endif /* FP_FAKE_H */
