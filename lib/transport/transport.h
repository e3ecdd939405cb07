/* SPDX-License-Identifier: BSD-3-Clause */
/* transport.h - the active side of the data path: move bytes between
 * memory of this process and memory that a server lent.
 *
 *   struct fp_queue   where completions of one lane arrive (a completion
 *                     queue; a set of sockets).  One lane has one.
 *   struct fp_conn    the lane's data connection to one server.
 *   struct fp_op      one transfer, in memory of the caller.
 *
 * The transports are rdma (verbs_client.c), tcp (tcp_client.c), shm
 * (shm_client.c) and fake (fake.c: in this process, with faults on demand).
 *
 * Life of an op: the caller fills in kind, local, length, raddr and rkey and
 * calls post; kick rings the doorbells of everything posted since the last
 * kick; poll yields it exactly once, with op->status set.  Between post and
 * that moment its memory belongs to the transport, whatever happens to the
 * connection: there is no cancel, only break, which makes every op of the
 * connection complete with an error soon (promise 9).  divert gives back the
 * memory of a READ, for other memory.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  a queue and its connections are used by one thread at a time
 *           (the lane's lock sees to that), except fp_conn_open, which
 *           may run beside poll, and break, which any thread may call.
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

/* Twice what the tries of one lost packet take over RDMA where they take least
 * (verbs_connect.h): with a shorter timeout a lost packet is a lost server.
 */
#define FP_RDMA_TIMEOUT_MIN_MS 940

enum fp_op_kind { FP_OP_READ, FP_OP_WRITE };

struct fp_conn;
struct fp_queue;

struct fp_op {
  enum fp_op_kind kind;
  uint32_t length; /* bytes, 1..fp_queue.max_transfer */
  void *local;     /* if fp_queue.registered: inside the queue's memory */
  uint64_t raddr;  /* as fp_remote says, plus the offset */
  uint64_t rkey;

  int status;           /* set when it completed: 0 or -errno */
  struct fp_conn *conn; /* set by post */

  struct fp_op *next; /* the transport's while in flight, else the
                         caller's */
  uint32_t cookie;    /* the transport's */
};

/* Memory that a server lent, as this transport reaches it. */
struct fp_remote {
  uint64_t raddr;
  uint64_t rkey;
  uint64_t length;
  void *map; /* shm: the mapping, else NULL */
};

struct fp_queue_params {
  unsigned depth; /* ops in flight at once, over all connections */
  unsigned max_conns;
  void *memory; /* the bounce memory of the lane, page aligned */
  size_t memory_size;
};

struct fp_conn_params {
  const struct fp_addr *addr; /* where the data connection goes */
  uint64_t session;
  uint8_t token[FP_TOKEN_SIZE]; /* for this lane, and this attempt */
  uint32_t lane;
  unsigned depth;      /* ops in flight on this connection */
  unsigned timeout_ms; /* a server that is silent this long is lost: sets
                          ACK timeout and retries, TCP_USER_TIMEOUT */
};

struct fp_transport_ops {
  const char *name;
  unsigned bit; /* FP_TRANSPORT_* */

  /* local must lie in the memory given to queue_new. */
  bool registered;

  /* Transfers are loads and stores: raddr is an address in this process,
   * the caller may copy by itself (mapped.h) and need not post.  Nothing can
   * cut off a caller that does that: see fp_peer_lease_holds.
   */
  bool direct;

  uint32_t max_transfer; /* bytes in one op */

  /* Is there what this transport needs (a device)?  0, or -ENODEV with a
   * reason for people in *why.  Does not make anything; may be called
   * before a fork.
   */
  int (*available) (const char **why);

  int (*queue_new) (struct fp_queue **out, const struct fp_queue_params *p);
  void (*queue_free) (struct fp_queue *q); /* no connections left */

  /* Completed ops, linked by next; NULL if there are none.  Does not
   * wait.  Also moves bytes, where a transport needs that (tcp).
   */
  struct fp_op *(*poll) (struct fp_queue *q);

  /* Before sleeping: the fd becomes readable when poll has something to
   * do.  Returns true if it may have something already: poll again.
   */
  bool (*arm) (struct fp_queue *q);
  int (*fd) (const struct fp_queue *q);

  /* Connect by deadline_ns (fp_now_ns clock).  Errors: -ETIMEDOUT,
   * -ECONNREFUSED, -EACCES (token), whatever the system says.
   */
  int (*conn_open) (struct fp_conn **out, struct fp_queue *q,
                    const struct fp_conn_params *p, uint64_t deadline_ns);

  /* 0; -EAGAIN: as many in flight as it takes; -ENOTCONN: broken. */
  int (*post) (struct fp_conn *c, struct fp_op *op);
  void (*kick) (struct fp_queue *q);

  /* A READ that is in flight, or completed and not yet yielded: what has not
   * arrived yet goes to this memory, of as many bytes, and op->local is the
   * caller's again.  NULL: there is no way to do that.
   */
  void (*divert) (struct fp_op *op, void *local);

  /* Make everything in flight complete with an error; later posts fail
   * with -ENOTCONN.  May be called twice.
   *
   * What has not left this host by then never does.  What has may land after
   * its op came back, until the server has accepted another connection of this
   * lane or opened the volume to another session: either waits for the end of
   * what came before.  So a write may be done over on the next connection of
   * its lane, or under the next session, and nowhere before that.
   */
  void (*conn_break) (struct fp_conn *c);

  /* In flight now.  0 after break: it may be freed. */
  unsigned (*conn_inflight) (const struct fp_conn *c);
  bool (*conn_broken) (const struct fp_conn *c);
  void (*conn_free) (struct fp_conn *c); /* broken, nothing in flight */

  /* Something that becomes readable when the connection may have died, to
   * wait on beside the control socket (rdma: the CM event channel), or -1;
   * and what to call then: breaks the connection if it did die.
   */
  int (*conn_event_fd) (const struct fp_conn *c);
  void (*conn_event) (struct fp_conn *c);

  /* Turn a grant into memory that can be reached.  fd is the memfd that
   * came with it, or -1; it stays the caller's.  read_only: nothing will be
   * stored there; else it is an error if that could not be.
   */
  int (*import) (struct fp_remote *out, const struct fp_grant *g, int fd,
                 bool read_only);
  void (*unimport) (struct fp_remote *r);
};

/* The first member of every transport's own structures. */
struct fp_queue {
  const struct fp_transport_ops *ops;
  /* Set once connections are open, if the work that is waited for is done by
   * threads of this host (soft-RoCE's ksoftirqd): who polls keeps them from
   * the CPU.
   */
  _Atomic bool sleep_at_once;
};
struct fp_conn {
  const struct fp_transport_ops *ops;
  struct fp_queue *queue;
};

extern const struct fp_transport_ops fp_transport_shm;
extern const struct fp_transport_ops fp_transport_tcp;

/* NULL: not built in.  transport is one FP_TRANSPORT_* bit. */
const struct fp_transport_ops *fp_transport_get (unsigned transport);

/* Which of these are in this build, and available: now, or when this was asked
 * before.  To ask whether there is a device takes files and memory, which who
 * connects again may not have; that it is gone shows by connecting.
 */
unsigned fp_transports_available (unsigned among);

#endif /* FP_TRANSPORT_H */
