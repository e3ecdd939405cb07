/* SPDX-License-Identifier: BSD-3-Clause */
/* mapped.h - copy to and from mapped memory of a server on this machine (shm).
 *
 * The server can take pages away: fallocate(2) punches holes into its file.
 * If no huge page is free, a load or store in a hole raises SIGBUS.  So does
 * one in a page that the hardware lost (sigaction(2), BUS_MCEERR_AR).
 * fp_mapped_copy then returns an error, so all loads and stores of that memory
 * must go through it.  libwayland guards its clients' memory in a similar way
 * (wl_shm_buffer_begin_access).
 *
 * Errors:   -EFAULT if some of that memory is missing.
 * Threads:  any that does not block SIGBUS.  The kernel kills a process that
 *           blocks a signal which its own access raises (sigprocmask(2)).
 * Memory:   nothing is allocated.
 */

#ifndef FP_MAPPED_H
#define FP_MAPPED_H

#include <stddef.h>

#include "base/tsan.h"

/* Handle SIGBUS from now on.  A SIGBUS that fp_mapped_copy did not raise goes
 * to the previous handler.  May be called again.
 */
void fp_mapped_guard (void);

/* Copy length bytes.  Either side or both may be mapped memory.  After an
 * error some of the bytes may have been copied.
 */
int fp_mapped_copy (void *to, const void *from, size_t length);
/* Copy from memory that other threads write to meanwhile.  The caller copies
 * what they changed again.
 */
static inline int
fp_mapped_copy_while_written (void *to, const void *from, size_t length)
{
  int r;

  fp_tsan_read_while_written_begin ();
  r = fp_mapped_copy (to, from, length);
  fp_tsan_read_while_written_end ();
  return r;
}

#endif /* FP_MAPPED_H */
