/* SPDX-License-Identifier: BSD-3-Clause */
/* record.h - what this server knows of a volume, and the slabs it has here.
 *
 * A volume is attached to one session at most.  When that ends, slabs without
 * a label go back to the pool; the record and what is labelled wait for the
 * client to come back until the lease is over.
 *
 * Errors:   0 or a negative errno value.
 * Threads:  the loop's.
 * Memory:   a record, and a pointer for each slab.
 */

#ifndef MEMSERVER_RECORD_H
#define MEMSERVER_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/uuid.h"
#include "proto/messages.h"
#include "slab.h"

#define RECORD_FORMER 64u

struct event;
struct server;
struct session;

struct record {
  TAILQ_ENTRY (record) entry;
  struct server *server;
  struct fp_uuid uuid;
  char name[FP_NAME_MAX + 1]; /* may be empty */
  uint64_t size;
  uint32_t transport; /* of the session that has it, or had it last */
  bool ephemeral;
  uint64_t epoch;
  struct session *holder;       /* NULL: its lease is running */
  char client[FP_NAME_MAX + 1]; /* who has it, or had it last */
  struct fp_uuid holder_uuid;   /* likewise */
  uint64_t since;               /* seconds since 1970 */
  /* Until then (fp_now_ns) only the last client may come back: it may not have
   * heard yet that its session has ended, and over shm go on.  0: it has.
   */
  uint64_t fenced_ns;
  struct fp_uuid user;                  /* who was given a key last */
  struct fp_uuid former[RECORD_FORMER]; /* who before, the last of them */
  unsigned nr_former;                   /* ever */
  struct slab **slabs;
  uint32_t nr_slabs, max_slabs;
  struct event *lease;
};

struct record *record_find (struct server *srv, const struct fp_uuid *uuid);

/* -ENOSPC: there are too many.  */
int record_new (struct record **out, struct server *srv,
                const struct fp_open *q);

void record_attach (struct record *r, struct session *s,
                    const struct fp_open *q);

/* The session that has it was given a key. */
void record_used (struct record *r);

/* This client had a key before another one had: what it knows of the volume,
 * which pieces are where and what was never written, may not be so any more.
 * It would read zeros for what the other one wrote, and release what it does
 * not know.
 */
bool record_is_former (const struct record *r, const struct fp_uuid *client);

/* Nobody has a key to its slabs any more.  discard: scrub and forget it now,
 * do not wait for the lease.
 */
void record_detach (struct record *r, bool discard);

/* A slab just taken from the pool is its; -ENOMEM: it is not. */
int record_add (struct record *r, struct slab *s);

/* Back to the pool, which scrubs it; of a lost one, only the mark goes. Nobody
 * has a key.
 */
void record_release (struct record *r, struct slab *s);

/* Its key could not be revoked: see pool_lose.  The label stays, as a mark
 * that what the piece held is lost, until the client releases it or the record
 * is gone: a client that learns what is here must not take the piece for one
 * that was never written.
 */
void record_lose (struct record *r, struct slab *s);

/* Its name, or its UUID if it has none. */
void record_title (const struct record *r, char out[FP_NAME_MAX + 1]);

/* All records are forgotten, slabs and all; nothing is scrubbed.  At the end.
 */
void record_free_all (struct server *srv);

#endif /* MEMSERVER_RECORD_H */
