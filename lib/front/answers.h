/* SPDX-License-Identifier: BSD-3-Clause */
/* answers.h - who connects to the status socket, what they ask (control.h),
 * and the answers: several at a time, so that nobody waits for one who says
 * nothing, or does not read, or asks for something that takes long.  What
 * changes the volume is done by a thread that is there for as long as that
 * takes, one change after the other.
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
  int listen_fd; /* -1: nobody can ask */
  struct fp_volume *volume;
  void *opaque;
  /* The status document, or NULL.  A change is over: it is to be said in the
   * log.  Both of the owner's thread.
   */
  char *(*document) (void *opaque, const struct fp_change *changes,
                     unsigned nr);
  void (*changed) (void *opaque);
};

int fp_answers_new (struct fp_answers **out,
                    const struct fp_answers_params *p);

/* Until then; false: stop_fd became readable. */
bool fp_answers_serve (struct fp_answers *a, int stop_fd, uint64_t until_ns);

/* A change that is under way is waited for. */
void fp_answers_free (struct fp_answers *a);

#endif /* FP_ANSWERS_H */
