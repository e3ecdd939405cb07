/* SPDX-License-Identifier: BSD-3-Clause */
/* backed_int.h - the inside of a volume's backup: backed.c answers requests,
 * backed_fill.c makes the servers and the backup alike again.
 */

#ifndef FP_BACKED_INT_H
#define FP_BACKED_INT_H

#include <stdatomic.h>

#include <pthread.h>

#include "base/thread.h"
#include "volume/backed.h"
#include "volume/backup.h"

#define BLOCK FP_BACKUP_BLOCK
#define FILL_SIZE (128u << 10)

/* Whoever changes it: on the stack. */
struct range {
  uint64_t begin, end;
  struct range *prev, *next;
};

struct fp_backed {
  struct fp_volume *v;
  struct fp_backup *store;
  struct fp_thread thread; /* backed_mend */
  bool runs;
  unsigned char *buf; /* its, FILL_SIZE */
  _Atomic bool used;  /* something was answered by the backup alone */
  _Atomic uint64_t reads, writes;

  pthread_mutex_t lock; /* what follows */
  pthread_cond_t cond;
  struct range *ranges;
  unsigned waiting;
  bool stop;
};

/* Nobody else changes [offset, offset + length), in whole blocks, until it is
 * released.  -EIO: at the deadline.
 */
int backed_hold (struct fp_backed *k, struct range *r, uint64_t length,
                 uint64_t offset);
void backed_release (struct fp_backed *k, struct range *r);

/* The thread: until k->stop, or the backup has failed. */
void backed_mend (void *arg);

#endif /* FP_BACKED_INT_H */
