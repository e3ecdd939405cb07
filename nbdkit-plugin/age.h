/* SPDX-License-Identifier: BSD-3-Clause */
/* age.h - the age of a request when nbdkit hands it over.
 *
 * An NBD client's timeout starts when the client puts a request into the
 * socket.  That is usually some milliseconds before nbdkit reads the request.
 * If a request waits here for servers that are away, others wait in the socket
 * behind it.  A client has at most FP_AGE_BEHIND requests under way on one
 * connection (Linux, drivers/block/nbd.c: tag_set.queue_depth).  So after a
 * request has waited, that many requests count from when it was made.
 *
 * While the socket holds a request, nbdkit reads it as soon as it has sent a
 * reply.  So the socket is empty after a pause of FP_AGE_IDLE_MS without a
 * request, or after FP_AGE_GAPS pauses of FP_AGE_GAP_MS in a row.  (A thread
 * that has to wait for a processor may pause once, but hardly at the same
 * place again.)  From then on a request counts from when it arrives.
 *
 * Units:    nanoseconds of fp_mono_ns.
 * Threads:  any; the lock is inside.
 * Memory:   none.
 */

#ifndef FP_AGE_H
#define FP_AGE_H

#include <stdbool.h>
#include <stdint.h>

#include <pthread.h>

#define FP_AGE_BEHIND 128u
#define FP_AGE_IDLE_MS 100u
#define FP_AGE_GAP_MS 20u
#define FP_AGE_GAPS 3u

struct fp_age {
  pthread_mutex_t lock;
  unsigned active; /* requests that have begun and not ended */
  /* The batch: this number of requests may be as old as behind_ns. */
  unsigned behind;
  uint64_t behind_ns;
  bool again; /* a request of the batch waited, too */
  /* End of the request that began the batch, and of the last one that waited.
   */
  uint64_t first_end_ns, last_end_ns;
  uint64_t end_ns; /* when any request last ended, by fp_now_ns */
  unsigned gaps;   /* pauses of FP_AGE_GAP_MS in a row */
};

void fp_age_init (struct fp_age *a);
void fp_age_destroy (struct fp_age *a);
/* Begin a request; return the earliest time at which it was made. */
uint64_t fp_age_begin (struct fp_age *a);
/* End a request.  waited: it waited for servers that were away. */
void fp_age_end (struct fp_age *a, uint64_t made_ns, bool waited);

#endif /* FP_AGE_H */
