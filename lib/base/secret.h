/* SPDX-License-Identifier: BSD-3-Clause */
/* secret.h - memory for keys: never swapped out, not in a core dump, wiped
 * when it is freed.
 *
 * Errors:   0 or a negative errno value.  -ENOMEM also if the memory may not
 *           be locked (RLIMIT_MEMLOCK).
 * Threads:  any.
 * Memory:   whole pages, from the kernel.  A child process has a copy that is
 *           not locked: see fp_secret_lock.
 */

#ifndef FP_SECRET_H
#define FP_SECRET_H

#include <stddef.h>

/* Allocate zeroed memory. */
int fp_secret_new (void **out, size_t size);

/* Lock the memory again, in a child process after a fork. */
int fp_secret_lock (void *p, size_t size);

/* Wipe and free the memory.  p may be NULL. */
void fp_secret_free (void *p, size_t size);

#endif /* FP_SECRET_H */
