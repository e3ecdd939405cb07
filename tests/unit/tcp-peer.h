/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp-peer.h - both ends of a tcp connection, for tests of the tcp transport.
 * The server lends MEMORY bytes at RADDR under RKEY.
 */

#ifndef TCP_PEER_H
#define TCP_PEER_H

#include <semaphore.h>
#include <stdatomic.h>

#include "base/addr.h"
#include "base/thread.h"
#include "transport/tcp/tcp_server.h"
#include "transport/transport.h"

#define RKEY UINT64_C (0x1122334455667788)
#define RADDR UINT64_C (0x7000000000)
#define STRIPE (1u << 20)
#define DEPTH 16
#define MEMORY (DEPTH * (size_t) STRIPE)
#define STALL_MS 300 /* fp_tcp_serve's patience */
#define PATIENCE_MS 20000

extern uint8_t *tcp_slab;
extern atomic_int tcp_held; /* times got and not yet put */
extern const struct fp_tcp_memory tcp_memory;

/* Set up and tear down a group of tests. */
int tcp_peer_setup (void **state);
int tcp_peer_teardown (void **state);

/* Set up a group of tests in which both ends use TLS. */
int tcp_peer_setup_tls (void **state);
int tcp_peer_teardown_tls (void **state);

/* Return the next of a series of numbers, which each run repeats. */
unsigned tcp_rnd (void);

struct server {
  struct fp_thread thread;
  struct fp_tls_session *tls;
  int listener, fd;
  struct fp_addr addr;
  uint32_t hello_status;
  void (*run) (struct server *s); /* what to do after HELLO; or NULL */
  const uint8_t *script;          /* for send_script */
  size_t script_length;
  int result; /* what fp_tcp_serve returned */
};

/* Listen; accept one connection on a thread, answer its HELLO and run.  Stop
 * waits until the thread ends.
 */
void server_start (struct server *s, void (*run) (struct server *s));
void server_stop (struct server *s);

/* Run fp_tcp_serve; for server_start. */
void serve (struct server *s);

/* Transfer all n bytes, with or without TLS. */
void server_read (struct server *s, void *p, size_t n);
void server_send (struct server *s, const void *p, size_t n);

/* ---- the client ---- */

extern const struct fp_transport_ops *const tcp;

struct fp_queue *queue_new (void);
extern int wakes; /* epoll set of the last new queue */
int conn_open (struct fp_conn **out, struct fp_queue *q, struct server *s);

/* Return the ops that completed.  If wait, wait until there is one. */
struct fp_op *next_done (struct fp_queue *q, bool wait);

/* Wait until n ops completed, each with this status. */
void expect_done (struct fp_queue *q, unsigned n, int status);

/* Break c, wait for its ops in flight, and free it. */
void conn_end (struct fp_conn *c);

void sem_wait_patiently (sem_t *sem);

#endif /* TCP_PEER_H */
