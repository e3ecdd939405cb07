/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp-memory.h - what the server of the tests of the tcp transport lends:
 * MEMORY bytes at RADDR under RKEY.
 */

#ifndef TCP_PEER_H
#define TCP_PEER_H

#include <stdatomic.h>

#include "base/addr.h"
#include "base/thread.h"
#include "transport/tcp_server.h"

#define RKEY UINT64_C (0x1122334455667788)
#define RADDR UINT64_C (0x7000000000)
#define STRIPE (1u << 20)
#define DEPTH 16
#define MEMORY (DEPTH * (size_t) STRIPE)
#define STALL_MS 300 /* fp_tcp_serve's patience */

extern uint8_t *tcp_slab;
extern atomic_int tcp_held; /* got and not yet put */
extern const struct fp_tcp_memory tcp_memory;

/* Of a group of tests. */
int tcp_peer_setup (void **state);
int tcp_peer_teardown (void **state);

/* The same numbers in every run. */
unsigned tcp_rnd (void);

struct server {
  struct fp_thread thread;
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

void read_full (int fd, void *p, size_t n);

#endif /* TCP_PEER_H */
