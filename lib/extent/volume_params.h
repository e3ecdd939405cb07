/* SPDX-License-Identifier: BSD-3-Clause */
/* volume_params.h - the parameters of a volume.  A front end sets them, and
 * fp_volume_probe completes them (attach/probe.h).
 *
 * Units:    bytes, unless a name or comment says otherwise.  Sets of servers
 *           are bit sets of indexes of `servers`.
 */

#ifndef FP_VOLUME_PARAMS_H
#define FP_VOLUME_PARAMS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/addr.h"
#include "base/error.h"
#include "base/uuid.h"
#include "proto/messages.h"

#define FP_MAX_SERVERS 64
#define FP_MAX_COPIES 4
#define FP_MAX_LANES 64
#define FP_MAX_BUFFERS 64u
#define FP_MAX_BUFFER_MEMORY (4u << 20) /* bytes of a lane */
#define FP_MAX_IO (32u << 20)           /* most bytes in one call */
#define FP_STRIPE_SIZE (128u << 10)     /* default, bytes */

struct fp_seal_key; /* filter/seal_key.h */

struct fp_server_name {
  struct fp_addr addr;
  char domain[FP_NAME_MAX + 1];
};
struct fp_server_names {
  unsigned nr;
  struct fp_server_name names[FP_MAX_SERVERS];
};

enum fp_checksum { FP_CHECKSUM_NONE, FP_CHECKSUM_CRC32C };
enum fp_encrypt {
  FP_ENCRYPT_NONE,
  FP_ENCRYPT_EPHEMERAL, /* with a key that only this process has */
  FP_ENCRYPT_FILE,
};

struct fp_volume_params {
  unsigned nr_servers; /* 1..FP_MAX_SERVERS */
  struct fp_addr servers[FP_MAX_SERVERS];
  char domains[FP_MAX_SERVERS][FP_NAME_MAX + 1]; /* failure domains; or "" */

  uint64_t size;      /* bytes, > 0, a multiple of 512 */
  uint64_t slab_size; /* bytes; 0 = that of the servers */
  unsigned copies;    /* copies of an extent; 0 = as it was made, or 1 */
  /* Stripe geometry: used when the volume is created, verified when it is
   * attached.  0 = unspecified.  fp_volume_probe fills it in; without a value
   * the volume is not striped.
   */
  struct fp_stripe stripe;
  char name[FP_NAME_MAX + 1]; /* "" = ephemeral */
  /* UUID of the volume; nil = a new one is drawn.  With resume, the
   * volume is that of a client that died: its slabs are found by this UUID.
   */
  struct fp_uuid uuid;
  /* UUID of this client for the servers; nil = one is drawn for each of them.
   * A process that replaces one that died uses the same UUID.  Then it is not
   * refused for what the dead one had, but for what other clients had since.
   */
  struct fp_uuid client;
  bool resume;
  bool takeover; /* the present client loses the volume first */
  /* For a named volume that exists.  The servers grant no right to write.
   * Nothing is changed: neither what the servers record, nor where slabs are.
   * The volume is attached all the same, because one client has it at a time.
   * If another client had it after a connection was lost, that counts as a
   * takeover: extents may have moved.
   */
  bool read_only;
  /* For a named volume: attach without servers that are away. */
  bool degraded;
  /* Filled in by fp_volume_probe for a named volume, with uuid, size and
   * resume.  members: its servers, in the order of `servers`; version 0 = the
   * volume must be made.  away: those that are away.
   */
  struct fp_members members;
  uint64_t away; /* set of servers */
  /* Also filled in by the probe, about the lists of members (membership.h).
   * They say which members are believed, whether the base is sure, and whether
   * enough servers answer.  newest is the highest version of any server, and
   * had[] the version of each member.
   */
  uint64_t believed; /* set of members */
  bool sure, enough;
  uint64_t newest;
  uint64_t had[FP_MAX_SERVERS];
  /* For a named volume that exists.  With `add`, given servers that are no
   * members join.  The servers at `remove` are members no more.  The probe
   * fills in joins and leaves, as sets.  A server that joins is a member, and
   * not current; one that leaves is a member for the last time.
   */
  bool add;
  /* Remove servers even if they are away and may know of a newer list than all
   * others: they are dead for good.
   */
  bool force;
  unsigned nr_remove;
  struct fp_addr remove[FP_MAX_SERVERS];
  uint64_t joins, leaves;
  unsigned lease_ms; /* longest lease of any server */

  unsigned transports; /* set of transports; of several, the best is used */
  unsigned timeout_ms; /* a server silent for this long is lost */
  /* How long a request waits for servers that are away.  The front end must
   * not send a request again before that.  A write that is not sent yet is
   * given up min (await_ms / 4, timeout_ms) earlier: once sent it must end in
   * time.  0 = 2 x timeout_ms; with copies at least 8 s.
   */
  unsigned await_ms;
  /* The front end sends no request again while this process lives, so a write
   * may be late.
   */
  bool sends_once;
  unsigned poll_us;   /* longest time to poll before sleeping */
  unsigned lanes;     /* 1..FP_MAX_LANES */
  unsigned slots;     /* per lane */
  uint32_t slot_size; /* bytes, a multiple of 4096 */
  /* Buffers of a lane, for ios of the front end: fp_lane_buffer.  All of them
   * may be in flight at once, so they are limited to what a slow network
   * carries in time.
   */
  unsigned buffers;     /* at most FP_MAX_BUFFERS; 0: none */
  uint32_t buffer_size; /* bytes, a multiple of 4096 */
  bool reserve_full;    /* all extents get memory before the first request */
  uint64_t move_rate;   /* bytes a second of fp_volume_drain; 0 = no limit */
  /* Send a slow read to another copy, too (lane_hedge.c).  No effect with one
   * copy, or over shm.
   */
  bool hedge;
  /* How long a server with copies of ours may be away before they are made on
   * other servers.
   */
  unsigned resync_delay_ms;
  /* Regions that were not written for this long are not resynced when the
   * volume is attached after its client died (dirty_log.h).
   */
  unsigned quiet_ms;

  /* Protection against faulty or malicious donors.  checksum, integrity and
   * FP_ENCRYPT_EPHEMERAL are for a volume without a name: only this process
   * has what they need to know.
   */
  enum fp_checksum checksum;
  enum fp_encrypt encrypt;
  bool integrity;          /* needs FP_ENCRYPT_EPHEMERAL */
  struct fp_seal_key *key; /* for FP_ENCRYPT_FILE; stays the caller's */

  /* NULL, or a callback that stores the list of servers for the process that
   * resumes the volume.  The thread that adds or removes a server calls it
   * before the change counts.  An error prevents the change.
   */
  int (*keep_servers) (void *opaque, const struct fp_server_names *servers,
                       struct fp_error *error);
  void *opaque;

  /* With takeover, filled in by fp_volume_probe: the client that has the
   * volume, "" if none has, and since when.
   */
  char holder[FP_NAME_MAX + 1];
  uint64_t held_since; /* seconds since 1970 */
  /* NULL, or a callback: why says what start-up waits for, ms how long it may
   * last.  fp_volume_start calls it once, if it takes more than a second.
   * fp_volume_probe calls it once, if it waits for a lease.  p: these
   * parameters.
   */
  void (*waits) (const struct fp_volume_params *p, const char *why,
                 unsigned ms);
};

#define FP_NOT_IN_ORDER_WHY                                                   \
  "readonly=true: volume %s was not detached cleanly and its copies may "     \
  "differ: attach it read-write once to resync"
#define FP_TOO_FEW_LISTS_WHY                                                  \
  "volume %s: its last client died while it changed the list of servers, "    \
  "and the servers that answer cannot tell which list is current: start "     \
  "more of them"
#define FP_READ_ONLY_WHY "the volume is attached read-only (readonly=true): "

/* Return true if the servers keep a list of members and a map of what exists
 * (meta_log.h).  They do so if the volume has a name, so that it outlives its
 * client.  They also do if it has several copies, to know which of them count.
 */
static inline bool
fp_volume_is_recorded (const struct fp_volume_params *p)
{
  return p->name[0] != '\0' || p->copies > 1;
}

/* Write the volume's name, or its UUID if it has none. */
static inline void
fp_volume_title (const struct fp_volume_params *p, char out[FP_NAME_MAX + 1])
{
  char uuid[FP_UUID_STR_MAX];

  fp_uuid_format (&p->uuid, uuid);
  snprintf (out, FP_NAME_MAX + 1, "%s", p->name[0] != '\0' ? p->name : uuid);
}

/* Return how long a request waits for servers that are away, in ms. */
static inline unsigned
fp_volume_await_ms (const struct fp_volume_params *p)
{
  unsigned ms = 2 * p->timeout_ms;

  if (p->await_ms != 0)
    return p->await_ms;
  return p->copies > 1 && ms < 8000 ? 8000 : ms;
}

/* Return how long the start may take, in ms, beside the time that the servers
 * need to list their slabs.
 */
static inline unsigned
fp_volume_start_ms (const struct fp_volume_params *p)
{
  return 4 * p->timeout_ms > 8000u ? 4 * p->timeout_ms : 8000u;
}

/* Return the stripe geometry, with defaults for what is still unspecified. */
static inline struct fp_stripe
fp_volume_stripe (const struct fp_volume_params *p)
{
  uint64_t size = FP_STRIPE_SIZE;

  if (size < p->slab_size / FP_STRIPE_ROWS_MAX)
    size = p->slab_size / FP_STRIPE_ROWS_MAX;
  if (size > p->slab_size)
    size = p->slab_size;
  return (struct fp_stripe) {
    .width = p->stripe.width != 0 ? p->stripe.width : 1,
    .size = p->stripe.size != 0 ? p->stripe.size : size,
  };
}

#endif /* FP_VOLUME_PARAMS_H */
