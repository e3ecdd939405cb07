/* SPDX-License-Identifier: BSD-3-Clause */
/* slab.h - one slab: its memory, whose it is, and the key that opens it to
 * tcp data connections.
 *
 *   UNPOPULATED -> FREE -> LENT -> SCRUBBING -> FREE
 *        ^                  |          |
 *        |                  v          |
 *        |                LOST         |
 *        +--- if a client had its memfd (the pool makes a new one),
 *             or this host is short of memory: FREE ones too go that way
 *
 * Over shm a client has the memory mapped, and that cannot be taken from it. A
 * client that is stopped for longer than its lease may wake up and write into
 * what it had: so nobody else is ever given memory that an earlier client may
 * have mapped.  A client has done with it when it said BYE, when it hung up
 * (it does that when nothing is mapped any more, and so does the kernel when
 * it dies), or when it says HELLO again by the same UUID.  Else the slab is
 * abandoned: for the next client of the volume its contents are copied
 * (pool_move), and for another volume it gets new memory.  The old lives for
 * as long as somebody has it mapped, and no longer.  With --access it is
 * also copied if the next client is another user, or if a client that may only
 * read had it mapped: that one is not trusted to have unmapped it, as its
 * right may have ended.  It is copied for a session over tcp, too, whoever had
 * it: data threads touch no memory whose memfd was ever handed out.
 *
 * A LENT slab belongs to one volume.  Its key is open while a session may use
 * it; the data threads hold the slab while they move bytes.
 *
 * Threads:  the loop's, except slab_hold and slab_unhold, which data threads
 *           call; lock is over what they share.
 */

#ifndef MEMSERVER_SLAB_H
#define MEMSERVER_SLAB_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "memserver/pool/backing.h"
#include "memserver/pool/mailbox.h"
#include "proto/messages.h"

struct fp_verbs_region;
struct record;

enum slab_state {
  SLAB_UNPOPULATED,
  SLAB_FREE,
  SLAB_LENT,
  SLAB_SCRUBBING,
  SLAB_LOST, /* its memory could not be taken back safely, or is broken */
  SLAB_NR_STATES
};

struct slab {
  uint32_t index;
  enum slab_state state;
  struct backing backing; /* the worker's while UNPOPULATED or SCRUBBING */
  bool exposed;           /* clients had the memfd, the last one mapper */
  bool abandoned;         /* which never said that it has done with it */
  bool shared;            /* one of them may only read (--access) */
  struct fp_uuid mapper;

  /* While LENT: what it holds. */
  struct record *record;
  struct fp_label label; /* extent is FP_EXTENT_NONE: nothing yet */
  bool keyed;            /* the session of the volume has a key */
  uint64_t raddr, rkey;
  struct fp_verbs_region *region;

  pthread_mutex_t lock;
  uint64_t session; /* that may use key_open's key; 0: nobody */
  uint64_t key;
  unsigned holds;

  /* The pool's. */
  struct note note;
  struct pool *pool;
  struct slab *next;
  bool doubtful;      /* see pool_lendable */
  uint64_t populated; /* bytes */
  uint64_t scrubbed;  /* likewise */
  bool given;         /* its memory went to the host, which is short of it */
  uint32_t serial;    /* of the last memory that it was given */
  bool counted;       /* it was populated once */
  uint64_t unpinned;  /* of what another server left: not yet made present */
  int status;
};

#define SLAB_INDEX_BITS 20
#define SLAB_MAX (1u << SLAB_INDEX_BITS)

/* Which slab a tcp key is about, if it is a key. */
static inline uint32_t
slab_index_of_key (uint64_t key)
{
  return (uint32_t) (key & (SLAB_MAX - 1));
}

/* Make a key for the tcp data connections of a session.  -errno: no random
 * bytes.
 */
int slab_key_open (struct slab *s, uint64_t session);

/* Nobody gets a hold any more; what is held stays held. */
void slab_key_close (struct slab *s);

bool slab_is_held (struct slab *s);

/* The memory at raddr, held; NULL: not with this key. */
void *slab_hold (struct slab *s, uint64_t session, uint64_t key,
                 uint64_t raddr, uint32_t length);

/* True: that was the last hold on a slab whose key is closed. */
bool slab_unhold (struct slab *s);

#endif /* MEMSERVER_SLAB_H */
