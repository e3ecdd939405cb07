/* SPDX-License-Identifier: BSD-3-Clause */
/* loop.h - fake libevent, sockets, threads and memfds for a memory server, in
 * one thread.  Nothing goes to the kernel, and an input always gives the same
 * result.  The sockets of clients are buffers, and time is clock.h's.  The
 * thread of a data connection runs when the loop would wait for it.
 */

#ifndef FUZZ_LOOP_H
#define FUZZ_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct event_base;

/* Called when a data connection reads and nothing is there.  Return true if
 * more may have come, or false if nothing ever will.
 */
typedef bool loop_more_fn (void);

/* Return true if all calls that this needs are wrapped.  `more` is called by
 * the "thread" of a data connection.
 */
bool loop_works (loop_more_fn *more);

struct event_base *loop_base (void);

/* Run all events that are due, and those that follow. */
void loop_run (void);

/* Run the threads that were started and have not run.  Each returns when its
 * connection ends.
 */
void loop_run_threads (void);

/* ---- clients ---- */

struct loop_peer {
  bool is_unix;
  uid_t uid; /* for a Unix socket */
};

/* Create a socket of the server, with the client's end. */
int loop_connect (const struct loop_peer *peer);

/* Let the client send, as much as a socket takes. */
void loop_send (int fd, const uint8_t *bytes, size_t n);
/* Let the client read up to n bytes.  Return how many came; 0 = nothing. */
size_t loop_receive (int fd, uint8_t *bytes, size_t n);
/* Make the client's socket full, or let it take data again. */
void loop_clog (int fd, bool clogged);
void loop_hang_up (int fd);

/* Return the number of sockets that the server has open. */
unsigned loop_sockets (void);

#endif /* FUZZ_LOOP_H */
