/* SPDX-License-Identifier: BSD-3-Clause */
/* loop.h - what a memory server calls libevent, sockets, threads and memfds,
 * played in one thread, so that nothing goes to the kernel, and each input
 * gives the same: the sockets of its clients are buffers here, time is
 * clock.h's, and a data connection's thread is run by who would wait for it.
 */

#ifndef FUZZ_LOOP_H
#define FUZZ_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct event_base;

/* Of a data connection: it reads, and nothing is there.  More may come of it,
 * or false: nothing ever will.
 */
typedef bool loop_more_fn (void);

/* Everything that it takes is wrapped.  more runs on the "thread". */
bool loop_works (loop_more_fn *more);

struct event_base *loop_base (void);

/* All events that are due, and what follows from them. */
void loop_run (void);

/* The threads that were started and have not run, now; each returns when its
 * connection ends.
 */
void loop_run_threads (void);

/* ---- clients ---- */

struct loop_peer {
  bool is_unix;
  uid_t uid; /* of a Unix socket */
};

/* A socket of the server, with the client's end of it. */
int loop_connect (const struct loop_peer *peer);

/* The client sends, as much as a socket takes. */
void loop_send (int fd, const uint8_t *bytes, size_t n);
/* The client reads: what came, at most n; 0: nothing. */
size_t loop_receive (int fd, uint8_t *bytes, size_t n);
/* From here on its socket is full, or takes what there is room for. */
void loop_clog (int fd, bool clogged);
void loop_hang_up (int fd);

/* So many sockets the server has open. */
unsigned loop_sockets (void);

#endif /* FUZZ_LOOP_H */
