/* SPDX-License-Identifier: BSD-3-Clause */
/* backup_int.h - the inside of a backup, for the files that are one: backup.c
 * knows what is here, backup_disk.c moves it, backup_file.c opens the file,
 * and backup_start.c makes and ends all of it.
 */

#ifndef FP_BACKUP_INT_H
#define FP_BACKUP_INT_H

#include <stdatomic.h>
#include <sys/uio.h>

#include <liburing.h>
#include <pthread.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "volume/backup.h"
#include "volume/sync.h"

#define BLOCK FP_BACKUP_BLOCK
/* Block 0 of the volume is here; before it the header, and what would make
 * others take a device for theirs is gone.
 */
#define DATA_AT (1u << 20)

#define MERGE 64 /* blocks that are written in one go */
#define DEPTH 16 /* such writes at a time */
/* So few blocks may wait for others, for LOOK_MS or two: to wake a thread for
 * each costs who writes more than all the rest.
 */
#define FEW 256
#define LOOK_MS 250 /* and for what is in flight for too long */
#define FETCHES 16
#define FETCH_MAX (128u << 10)

enum file_state {
  FILE_FREE,
  FILE_USED,
  FILE_ALONE,
  FILE_CHANGING /* not in a file: it is being written */
};

/* One block in the ring. */
struct slot {
  uint64_t block;
  uint64_t seq; /* in the order of the queue */
  unsigned char *data;
  struct slot *next;  /* in the queue, in a transfer, or free */
  struct slot *chain; /* of those with the same hash */
  struct slot *newer; /* waits until this one has landed */
  bool flying, waits;
  bool dead; /* it is zeros since, or forgotten: not to be written */
};

enum fetch_state { FETCH_FREE, FETCH_WANTED, FETCH_FLYING, FETCH_DONE };

/* A read from the disk. */
struct fetch {
  enum fetch_state state;
  bool left; /* nobody waits for it any more */
  uint64_t at;
  uint32_t length;
  int result; /* 0 or -errno */
  unsigned char *data;
};

enum transfer_kind { WAKE, WRITE, READ, SYNC, HEADER };

struct transfer {
  enum transfer_kind kind;
  bool busy;
  uint64_t since_ns;
  uint64_t at; /* in the file */
  uint64_t length;
  uint64_t seq;          /* WRITE: the lowest; SYNC: what is covered */
  enum file_state state; /* HEADER */
  struct slot *slots;
  struct fetch *fetch;
  struct iovec iov[MERGE];
  unsigned nr_iov, first; /* those before it are done */
};

/* Of each write, each fetch, and one each of the others. */
#define TRANSFERS (DEPTH + FETCHES + 3)

struct fp_backup {
  struct fp_backup_params p;
  int fd;
  uint64_t blocks;
  unsigned char *header; /* one block, aligned */

  struct io_uring ring; /* the thread's */
  int wake_fd;
  uint64_t woken; /* what was read from it */
  struct fp_thread thread;

  _Atomic bool failed;
  _Atomic uint64_t nr_local; /* blocks */
  _Atomic uint64_t nr_used;  /* slots */

  pthread_mutex_t lock; /* what follows */
  pthread_cond_t cond;  /* something has come to an end */
  char why[FP_WHY_MAX];
  bool stop, drain;
  bool ended; /* the thread does nothing any more */
  bool asleep;
  enum file_state state, state_wanted; /* what the file says, and shall say */
  uint64_t nr_missing;                 /* blocks that are not valid */
  uint64_t *valid, *stored, *local;
  size_t maps_size; /* of all three */

  unsigned char *memory; /* slots, fetches and header */
  size_t memory_size;
  struct slot *slots;
  uint64_t nr_slots, buckets; /* a power of two */
  struct slot **hash;
  struct slot *free_slots;
  struct slot *queue, **queue_tail;
  uint64_t queued_ns;   /* when the first of it came */
  bool writing;         /* until it is empty */
  uint64_t seq;         /* the last one */
  uint64_t synced;      /* all until here is on stable storage */
  uint64_t sync_wanted; /* until here it is to be */
  uint64_t progress_ns; /* when the disk last answered */
  uint64_t bytes_written, bytes_read;
  struct fetch fetches[FETCHES];
  struct transfer transfers[TRANSFERS];
  struct fp_backup *next_left; /* backup_start.c */
};

static inline bool
bit_of (const uint64_t *map, uint64_t block)
{
  return map[block / 64] >> (block % 64) & 1;
}

static inline uint64_t
blocks_of (uint64_t length)
{
  return fp_div_round_up (length, BLOCK);
}

/* backup_file.c */

/* Opened, locked, judged; a file has its size, and nothing in it. */
int backup_open (struct fp_backup *b, char why[FP_WHY_MAX]);
void backup_header (const struct fp_backup *b, enum file_state state);

/* backup.c */

/* The file says USED, after fp_backup_rest. */
int backup_await_rest (struct fp_backup *b);

/* With the lock held: */

void backup_fail (struct fp_backup *b, int err, const char *what);
/* It has landed, or will not be written. */
void backup_slot_done (struct fp_backup *b, struct slot *s);

/* backup_disk.c */
int backup_disk_start (struct fp_backup *b, char why[FP_WHY_MAX]);
/* drain: all is to be on the disk, if it can be; discard: it is FREE.  False:
 * something is in flight still, or the thread does not answer: all of b stays.
 */
bool backup_disk_stop (struct fp_backup *b, bool drain, bool discard);
/* With the lock held: there is something to do. */
void backup_kick (struct fp_backup *b);
/* There are enough blocks in the ring to write them. */
static inline bool
backup_is_due (const struct fp_backup *b)
{
  return atomic_load (&b->nr_used) >= FP_MIN (b->nr_slots / 2, (uint64_t) FEW);
}

#endif /* FP_BACKUP_INT_H */
