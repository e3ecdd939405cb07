/* SPDX-License-Identifier: BSD-3-Clause */
/* answers.h - accept connections to the status socket, read their requests
 * (control.h), and answer.  Several connections are served at a time.  So a
 * client that is silent, does not read, or asks for something slow delays no
 * other.  Changes of the volume run one after the other in a thread of their
 * own, which exists only while there is one.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  one thread owns the struct.
 * Memory:   the struct, and an answer for each connection; both bounded.
 */

#ifndef FP_ANSWERS_H
#define FP_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "front/control.h"
#include "front/json.h"

struct fp_answers;

struct fp_answers_params {
  int listen_fd; /* -1: there is no socket */
  struct fp_volume *volume;
  void *opaque;
  /* document: Return the status document, or NULL.  metrics: Return the page
   * of metrics, or NULL.  changed: a change is over, so log the new state. All
   * are called in the owner's thread.
   */
  char *(*document) (void *opaque, const struct fp_change *changes,
                     unsigned nr);
  char *(*metrics) (void *opaque);
  void (*changed) (void *opaque);
};

int fp_answers_new (struct fp_answers **out,
                    const struct fp_answers_params *p);

/* Serve until until_ns.  Return false if stop_fd became readable first. */
bool fp_answers_serve (struct fp_answers *a, int stop_fd, uint64_t until_ns);

/* Free a; wait for a change that is under way. */
void fp_answers_free (struct fp_answers *a);

#endif /* FP_ANSWERS_H */
