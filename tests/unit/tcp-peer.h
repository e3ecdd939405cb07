/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp-peer.h - both ends of a connection of the tcp transport, for its tests:
 * a server that lends MEMORY bytes at RADDR under RKEY, and a client.
 */

#ifndef TCP_PEER_H
#define TCP_PEER_H

#include <semaphore.h>
#include <stdatomic.h>

#include "base/addr.h"
#include "base/thread.h"
#include "transport/tcp_server.h"
#include "transport/transport.h"

#define RKEY UINT64_C (0x1122334455667788)
#define RADDR UINT64_C (0x7000000000)
#define STRIPE (1u << 20)
#define DEPTH 16
#define MEMORY (DEPTH * (size_t) STRIPE)
#define STALL_MS 300 /* fp_tcp_serve's patience */
#define PATIENCE_MS 20000

extern uint8_t *tcp_slab;
extern atomic_int tcp_held; /* got and not yet put */
extern const struct fp_tcp_memory tcp_memory;

/* Of a group of tests. */
int tcp_peer_setup (void **state);
int tcp_peer_teardown (void **state);

/* Likewise, and both ends use TLS. */
int tcp_peer_setup_tls (void **state);
int tcp_peer_teardown_tls (void **state);

/* The same numbers in every run. */
unsigned tcp_rnd (void);

struct server {
  struct fp_thread thread;
  struct fp_tls_session *tls;
  int listener, fd;
  struct fp_addr addr;
  uint32_t hello_status;
  void (*run) (struct server *s); /* what to do after the handshake */
  const uint8_t *script;          /* send_script */
  size_t script_length;
  int result; /* serve */
};

/* Listens, and takes one connection on a thread of its own: the handshake,
 * then run, if there is one.  Stop waits for its end.
 */
void server_start (struct server *s, void (*run) (struct server *s));
void server_stop (struct server *s);

/* Something to run: fp_tcp_serve. */
void serve (struct server *s);

/* All of it, with TLS or without. */
void server_read (struct server *s, void *p, size_t n);
void server_send (struct server *s, const void *p, size_t n);

/* ---- the client ---- */

extern const struct fp_transport_ops *const tcp;

struct fp_queue *queue_new (void);
int conn_open (struct fp_conn **out, struct fp_queue *q, struct server *s);

/* Whatever completed; waits for something if wait. */
struct fp_op *next_done (struct fp_queue *q, bool wait);

/* Wait for n ops; each has this status. */
void expect_done (struct fp_queue *q, unsigned n, int status);

/* Break it, wait for what is in flight, free it. */
void conn_end (struct fp_conn *c);

void sem_wait_patiently (sem_t *sem);

#endif /* TCP_PEER_H */
