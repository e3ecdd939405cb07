/* SPDX-License-Identifier: BSD-3-Clause */
/* slab.h - one slab: its memory, its volume, and the key that opens it to tcp
 * data connections.
 *
 *   UNPOPULATED -> FREE -> LENT -> SCRUBBING -> FREE
 *        ^                  |          |
 *        |                  v          |
 *        |                LOST         |
 *        +--- if a client had its memfd (it gets a new one), or
 *             under memory pressure (FREE ones, too)
 *
 * Over shm a client has the memory mapped, and that cannot be taken from it.
 * A client that is stopped for longer than its lease may wake up and write
 * there.  So memory that an earlier client may have mapped is never given to
 * another.
 *
 * A client is done with memory when it says BYE, hangs up, or says HELLO again
 * by the same UUID.  It hangs up when nothing is mapped any more, as the
 * kernel does when it dies.  Else the slab is abandoned: the volume's next
 * client gets a copy of it (pool_move), and for another volume it gets new
 * memory.  The old memory lives only as long as some process has it mapped.
 *
 * The next client also gets a copy in these cases:
 *
 * - With --access, it is another user.
 * - With --access, a client that may only read had the slab mapped.  Its right
 *   may have ended, so it is not trusted to have unmapped it.
 * - It uses tcp: data threads touch no memory whose memfd was ever handed out.
 *
 * A LENT slab belongs to one volume.  Its key is open while a session may use
 * it.  Data threads hold the slab while they move bytes.
 *
 * Threads:  the loop's, except slab_hold and slab_unhold, which data threads
 *           call; lock guards what they share.
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
  SLAB_LOST, /* memory that cannot be taken back, or is broken */
  SLAB_NR_STATES
};

struct slab {
  uint32_t index;
  enum slab_state state;
  struct backing backing; /* the worker's while UNPOPULATED or SCRUBBING */
  bool exposed;           /* clients had the memfd; mapper had it last */
  bool abandoned;         /* mapper never said that it is done with it */
  bool shared;            /* a client that may only read had it (--access) */
  struct fp_uuid mapper;

  /* While LENT: */
  struct record *record;
  struct fp_label label; /* extent is FP_EXTENT_NONE: none yet */
  bool keyed;            /* the session of the volume has a key */
  uint64_t raddr, rkey;
  struct fp_verbs_region *region;

  pthread_mutex_t lock;
  uint64_t session; /* may use key; 0: no session may */
  uint64_t key;
  unsigned holds;

  /* For the pool only: */
  struct note note;
  struct pool *pool;
  struct slab *next;
  bool doubtful;      /* see pool_lendable */
  uint64_t populated; /* bytes */
  uint64_t scrubbed;  /* bytes */
  bool given;         /* memory went to the host, which was short of it */
  uint32_t serial;    /* belongs to the latest memory */
  bool counted;       /* was fully populated once */
  uint64_t unpinned;  /* bytes of another server's memory, not yet present */
  int status;
};

#define SLAB_INDEX_BITS 20
#define SLAB_MAX (1u << SLAB_INDEX_BITS)

/* Return which slab a tcp key is for, if it is a key. */
static inline uint32_t
slab_index_of_key (uint64_t key)
{
  return (uint32_t) (key & (SLAB_MAX - 1));
}

/* Make a key for a session's tcp connections.  -errno: no random bytes. */
int slab_key_open (struct slab *s, uint64_t session);

/* Close the key: it gives no new hold, and the holds that there are stay. */
void slab_key_close (struct slab *s);

bool slab_is_held (struct slab *s);

/* Hold the slab and return the memory at raddr; NULL: not with this key. */
void *slab_hold (struct slab *s, uint64_t session, uint64_t key,
                 uint64_t raddr, uint32_t length);

/* Let go of a hold.  Return true if it was the last one, and the key is
 * closed.
 */
bool slab_unhold (struct slab *s);

#endif /* MEMSERVER_SLAB_H */
