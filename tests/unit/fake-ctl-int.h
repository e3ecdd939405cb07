/* SPDX-License-Identifier: BSD-3-Clause */
/* fake-ctl-int.h - internals of the fake servers.  fake-ctl.c has the messages
 * of all volumes, fake-named.c those of volumes with a name.
 */

#ifndef FAKE_CTL_INT_H
#define FAKE_CTL_INT_H

#include <stdatomic.h>

#include <pthread.h>

#include "base/cleanup.h"
#include "base/uuid.h"
#include "fake-ctl.h"

#define MAX_SLABS 256
#define MAX_SERVERS 66
#define FAKE_MAP_WORDS 64

struct fake_slab {
  enum { SLAB_FREE, SLAB_GRANTED, SLAB_LABELLED, SLAB_LOST } state;
  uint64_t extent, generation;
  uint32_t copy;
};

struct fake_server {
  struct fp_fake_server *data;
  uint64_t slab_size;
  unsigned slabs;
  char alias[FP_ADDR_MAX + 1]; /* another address of this server */
  struct fake_slab slab[MAX_SLABS];
  bool cut, known, dies_of_label, dies_of_release, keeps;
  bool stingy, barred;
  /* Lane that gets no token, counted from 1; 0: none. */
  unsigned stingy_to;
  bool held;           /* by a client outside this process */
  unsigned wanted;     /* slabs; it lends none while not 0 */
  bool leaving, stuck; /* being drained; as the client said last */
  uint64_t epoch;      /* counts the times the volume was opened */
  struct fp_uuid volume;
  struct fp_uuid uuid; /* a new one each time it starts empty */
  struct fp_open opened;
  struct fp_uuid client, former; /* last client, and the one before */
  char client_name[FP_NAME_MAX + 1];
  struct fp_members members;
  uint64_t map[FAKE_MAP_WORDS];
  bool no_tails;
  struct fp_ctl *ctl; /* session that has the volume open */
  enum fake_silence silence;
  unsigned silent_about; /* an fp_msg_type; 0: all */
  _Atomic unsigned list_ms, grant_ms;
};

struct fp_ctl {
  struct fake_server *server;
  struct fp_uuid client;
  char name[FP_NAME_MAX + 1];
  int fd;
  bool broken;
  bool read_only; /* has the volume open read-only */
  const char *why;
};

extern pthread_mutex_t fake_lock;

/* Apply faults before a call takes effect, and after it did. */
int fake_before (struct fp_ctl *c, unsigned type, uint64_t deadline_ns,
                 bool *lose);
int fake_after (struct fp_ctl *c, unsigned type, uint64_t deadline_ns,
                bool lose, int r);

#define CALL(c, type, body)                                                   \
  do {                                                                        \
    FP_LOCK_SCOPE (&fake_lock);                                               \
    struct fake_server *s = (c)->server;                                      \
    bool lose;                                                                \
    int r = fake_before (c, type, deadline_ns, &lose);                        \
                                                                              \
    (void) s;                                                                 \
    if (r == 0) {                                                             \
      body r = fake_after (c, type, deadline_ns, lose, r);                    \
    }                                                                         \
    return r;                                                                 \
  } while (0)

#endif /* FAKE_CTL_INT_H */
