/* SPDX-License-Identifier: BSD-3-Clause */
/* transport.h - the active side of the data path: move bytes between memory of
 * this process and memory that a server lent.
 *
 *   struct fp_queue   where a lane's completions arrive (a completion queue
 *                     or a set of sockets)
 *   struct fp_conn    the lane's data connection to one server
 *   struct fp_op      one transfer, in the caller's memory
 *
 * The transports are rdma (verbs_client.c), tcp (tcp/tcp_client.c), shm
 * (local/shm_client.c) and, for tests, fake (local/fake.c).
 *
 * Life of an op: the caller fills in kind, local, length, raddr and rkey and
 * calls post.  kick starts everything posted since the last kick.  poll
 * returns the op exactly once, with op->status set.
 *
 * From post until poll returns it, the op's memory belongs to the transport,
 * even if the connection breaks.  So no buffer is reused before its
 * completion.  An op cannot be cancelled.  break makes all ops of a connection
 * complete soon with an error.  divert gives the memory of a READ back in
 * exchange for other memory.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  one thread at a time uses a queue and its connections; the lane's
 *           lock ensures that.  Exceptions: conn_open may run beside poll, and
 *           any thread may call break.
 * Memory:   post, kick, divert, poll, arm and break do not allocate.
 */

#ifndef FP_TRANSPORT_H
#define FP_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "proto/messages.h"

/* Least timeout over RDMA: twice the time that all tries of a packet take with
 * the shortest ACK timeout (verbs_connect.h).  With less, one lost packet
 * would count as a lost server.
 */
#define FP_RDMA_TIMEOUT_MIN_MS 940

enum fp_op_kind { FP_OP_READ, FP_OP_WRITE };

struct fp_conn;
struct fp_queue;

struct fp_op {
  enum fp_op_kind kind;
  uint32_t length; /* bytes, 1..fp_transport_ops.max_transfer */
  void *local;     /* if ops->registered: inside the queue's memory */
  uint64_t raddr;  /* fp_remote.raddr plus the offset */
  uint64_t rkey;

  int status;           /* set on completion: 0 or -errno */
  struct fp_conn *conn; /* set by post */

  struct fp_op *next; /* the transport's in flight, else the caller's */
  uint32_t cookie;    /* used by the transport */
};

/* Lent memory, as this transport reaches it. */
struct fp_remote {
  uint64_t raddr;
  uint64_t rkey;
  uint64_t length;
  void *map; /* shm: the mapping, else NULL */
};

struct fp_queue_params {
  unsigned depth; /* ops in flight at once, over all connections */
  unsigned max_conns;
  void *memory; /* the lane's bounce memory, page aligned */
  size_t memory_size;
  /* The lane's epoll set, or 0: no thread sleeps.  All its queues add what
   * wakes them, with their bit of FP_TRANSPORT_* in the upper half of
   * data.u64.
   */
  int epoll;
};

struct fp_conn_params {
  const struct fp_addr *addr; /* target of the data connection */
  uint64_t session;
  uint8_t token[FP_TOKEN_SIZE]; /* valid for this lane and this attempt */
  uint32_t lane;
  unsigned depth; /* ops in flight on this connection */
  /* A server that is silent for this long counts as lost.  Sets the ACK
   * timeout (rdma) and TCP_USER_TIMEOUT (tcp).
   */
  unsigned timeout_ms;
};

struct fp_transport_ops {
  const char *name;
  unsigned bit; /* FP_TRANSPORT_* */

  /* op->local must lie in the memory given to queue_new. */
  bool registered;

  /* Transfers are loads and stores: raddr is an address in this process.  The
   * caller may copy by itself (mapped.h) instead of posting.  Nothing can cut
   * off such copies: see extent/lease.h.
   */
  bool direct;

  uint32_t max_transfer; /* bytes in one op */

  /* Return 0 if this transport can be used (it may need a device), or -ENODEV
   * with a reason for people in *why.  Creates nothing and may be called
   * before a fork.
   */
  int (*available) (const char **why);

  int (*queue_new) (struct fp_queue **out, const struct fp_queue_params *p);
  void (*queue_free) (struct fp_queue *q); /* no connections left */

  /* Return the completed ops, linked by next; NULL if there are none.  Does
   * not wait.  Also moves bytes if the transport needs that (tcp).
   */
  struct fp_op *(*poll) (struct fp_queue *q);

  /* Prepare to sleep: make the epoll set readable once poll has work.  Return
   * true if there may be work already: then poll again.
   */
  bool (*arm) (struct fp_queue *q);

  /* Connect by deadline_ns (fp_now_ns clock).  Errors: -ETIMEDOUT,
   * -ECONNREFUSED, -EACCES (bad token), or one from the system.
   */
  int (*conn_open) (struct fp_conn **out, struct fp_queue *q,
                    const struct fp_conn_params *p, uint64_t deadline_ns);

  /* Post an op.  -EAGAIN: the queue or connection is full.  -ENOTCONN: the
   * connection is broken.
   */
  int (*post) (struct fp_conn *c, struct fp_op *op);
  void (*kick) (struct fp_queue *q);

  /* Replace the memory of a READ that poll has not returned yet by local, of
   * the same size.  Bytes that arrive from now on go there, and the old
   * op->local is the caller's again.  NULL if the transport cannot do that.
   */
  void (*divert) (struct fp_op *op, void *local);

  /* Make everything in flight complete with an error, and later posts fail
   * with -ENOTCONN.  May be called twice.
   *
   * Data that has not left this host by then never will.  Data that has left
   * may still arrive after its op completed.  That ends when the server
   * accepts the lane's next connection, or opens the volume for another
   * session: both wait for the end of older transfers.  So retry a write only
   * on the next connection of its lane, or in the next session.
   */
  void (*conn_break) (struct fp_conn *c);

  /* Return the number of ops in flight.  If 0 after break, c may be freed. */
  unsigned (*conn_inflight) (const struct fp_conn *c);
  bool (*conn_broken) (const struct fp_conn *c);
  void (*conn_free) (struct fp_conn *c); /* broken, nothing in flight */

  /* Return an fd that becomes readable when the connection may have died, or
   * -1.  Poll it beside the control socket (rdma: CM event channel).  Then
   * call conn_event, which breaks the connection if it did die.
   */
  int (*conn_event_fd) (const struct fp_conn *c);
  void (*conn_event) (struct fp_conn *c);

  /* Make granted memory reachable.  fd is the memfd that came with the grant,
   * or -1, and stays the caller's.  With read_only nothing will be stored
   * there; else fail if the memory cannot be written.
   */
  int (*import) (struct fp_remote *out, const struct fp_grant *g, int fd,
                 bool read_only);
  void (*unimport) (struct fp_remote *r);
};

/* First members of each transport's own structures. */
struct fp_queue {
  const struct fp_transport_ops *ops;
  /* Set when a connection is open whose work is done by threads of this host
   * (soft-RoCE's ksoftirqd).  Polling would keep those threads from the CPU,
   * so a waiting thread should sleep at once.
   */
  _Atomic bool sleep_at_once;
};
struct fp_conn {
  const struct fp_transport_ops *ops;
  struct fp_queue *queue;
};

extern const struct fp_transport_ops fp_transport_rdma; /* verbs_client.c */
extern const struct fp_transport_ops fp_transport_shm; /* local/shm_client.c */
extern const struct fp_transport_ops fp_transport_tcp; /* tcp/tcp_client.c */
extern const struct fp_transport_ops fp_transport_fake; /* local/fake.c */

/* Return the transport of this bit, FP_TRANSPORT_*.  NULL: there is none. */
const struct fp_transport_ops *fp_transport_get (unsigned transport);

/* Replace the transport that has the bit of `by`.  Only for tests and
 * benchmarks, before any other function of this header is called.
 */
void fp_transport_replace (const struct fp_transport_ops *by);

/* Return those of these transports that are available.  A positive answer is
 * remembered: checking for a device takes files and memory, which a client
 * that reconnects may not have.  If the device has gone since, connecting
 * fails.
 */
unsigned fp_transports_available (unsigned among);

#endif /* FP_TRANSPORT_H */
