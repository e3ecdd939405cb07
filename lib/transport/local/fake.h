/* SPDX-License-Identifier: BSD-3-Clause */
/* fake.h - the transport "fake", for unit tests: memory servers inside this
 * process, with faults on demand.  A test fills in params.addr with
 * fp_fake_server_addr (s) and does:
 *
 *   s = fp_fake_server_new ("a", 1 << 20);
 *   fp_fake_server_grant (s, 0, 1 << 20, &grant);
 *   ops = fp_transport_get (FP_TRANSPORT_FAKE);
 *   ops->import (&remote, &grant, -1, false);
 *   ops->conn_open (&conn, queue, &params, deadline_ns);
 *
 * This transport is as strict as a device.  If local is outside the queue's
 * memory, post returns -EFAULT.  Nothing moves before kick.  An op with a
 * wrong key or outside the grant completes with -EPERM.  A READ that fails
 * leaves garbage in its buffer.
 *
 * A held op has not touched any memory yet.  If it is released with status 0,
 * it touches memory then.  If it is released with an error or its connection
 * breaks, it never does.  To simulate a silent server, hold its ops and never
 * release them.
 *
 * Fault points are counted over all servers: each conn_open, each post, and
 * each op that is about to complete (in kick or release).  A test walks
 * through them: it arms a fault at point n, for n = 1, 2, ..., until
 * fp_fake_fault_fired says that there was no n-th point.
 *
 * Threads:  any; one lock is around everything.
 * Memory:   server_new, queue_new and conn_open allocate.
 */

#ifndef FP_FAKE_H
#define FP_FAKE_H

#include "transport/transport.h"

struct fp_fake_server;

/* Create a server with length bytes of memory at address host, port
 * FP_DEFAULT_PORT.  Each server needs another host.  Return NULL if out of
 * memory.
 */
struct fp_fake_server *fp_fake_server_new (const char *host, size_t length);
void fp_fake_server_free (struct fp_fake_server *s); /* no connections left */
const struct fp_addr *fp_fake_server_addr (const struct fp_fake_server *s);
uint8_t *fp_fake_server_memory (struct fp_fake_server *s);

/* Fill in raddr, rkey and length for [offset, offset + length). */
void fp_fake_server_grant (struct fp_fake_server *s, uint64_t offset,
                           uint64_t length, struct fp_grant *g);

/* Map what is imported from now on, as shm does. */
void fp_fake_server_map (struct fp_fake_server *s);

/* Reach the server over this device from now on (initially 0).  A queue is
 * bound to the device of its first connection; another one is -EXDEV.
 */
void fp_fake_server_device (struct fp_fake_server *s, unsigned device);

/* Invalidate all grants made so far. */
void fp_fake_server_revoke (struct fp_fake_server *s);

/* Complete each op with status (-errno) from now on, but keep connections up.
 * 0 restores normal answers.
 */
void fp_fake_server_answer (struct fp_fake_server *s, int status);
/* If on, an op that fails also breaks its connection, as over rdma. */
void fp_fake_server_break (struct fp_fake_server *s, bool on);

/* Break every connection, make its event fd readable, and refuse conn_open
 * until revive.
 */
void fp_fake_server_die (struct fp_fake_server *s);
void fp_fake_server_revive (struct fp_fake_server *s);

/* Hold back the completion of each op that is kicked from now on. */
void fp_fake_server_hold (struct fp_fake_server *s, bool hold);
unsigned fp_fake_server_held (struct fp_fake_server *s);

/* Complete the i-th held op, in the order of kicks.  If status is 0, it
 * completes as it would have.  Return false if there is no i-th.
 */
bool fp_fake_server_release (struct fp_fake_server *s, unsigned i, int status);

/* Return the number of imports not yet undone. */
unsigned fp_fake_imports (void);
/* Make the n-th import from now on fail; 0: none. */
void fp_fake_import_fails_at (unsigned n);

enum fp_fake_fault {
  /* conn_open: -ECONNREFUSED.  post: -ENOTCONN, and the connection is broken.
   * completion: -EREMOTEIO; the connection stays.
   */
  FP_FAKE_ERROR,
  /* conn_open: -ETIMEDOUT.  post: the op is accepted, then the connection
   * breaks.  completion: the op is done in the server's memory; then the
   * connection breaks, before the client knows.
   */
  FP_FAKE_BREAK,
  /* conn_open, post: no effect.  completion: the op is held. */
  FP_FAKE_DELAY,
  /* From this point on nothing reaches any server: conn_open returns
   * -ECONNREFUSED, and each op is held.  The servers' memory then stays as a
   * client that dies here leaves it.
   */
  FP_FAKE_DIE
};

/* Count points from 1 and apply fault at the n-th, once.  0: never. */
void fp_fake_fault_at (unsigned n, enum fp_fake_fault fault);
/* Apply a second fault at a later point n of the same count.  Fired is then
 * true only after both.
 */
void fp_fake_fault_again (unsigned n, enum fp_fake_fault fault);
bool fp_fake_fault_fired (void);
bool fp_fake_died (void);             /* because of FP_FAKE_DIE */
unsigned fp_fake_fault_points (void); /* counted since fault_at */

#endif /* FP_FAKE_H */
