/* SPDX-License-Identifier: BSD-3-Clause */
/* volume.h - a block device made of other machines' memory.
 *
 * A volume is an array of extents, each as large as a slab.  An extent has no
 * memory until it is first written.  With reserve_full, all extents have
 * memory from the start.  A volume knows no front end: nbdkit, the benchmark
 * and the tests call it the same way.
 *
 * A lane is what one connection of a front end uses for its I/O: data
 * connections to the servers, and slots.  Lanes are made at start-up, so that
 * nothing has to be made later.  If there are more callers than lanes, they
 * share them.
 *
 * Units:    offset, length and sizes are bytes; times say theirs.
 * Errors:   0 or a negative errno value.  -EIO: the data is lost, or no server
 *           that has it came back within await_ms.  -EINVAL: outside the
 *           volume.  -ENOSPC: no server has room for an extent.  -ESHUTDOWN.
 * Threads:  all calls that take a lane or a started volume may be made from
 *           any thread at any time.
 * Memory:   nothing below the line 'I/O' allocates, opens a file or logs.  It
 *           waits at most await_ms, plus the time for transfers in flight
 *           (timeout_ms) and for servers to list their slabs.
 */

#ifndef FP_VOLUME_H
#define FP_VOLUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/hist.h"
#include "base/uuid.h"
#include "proto/messages.h"

#define FP_MAX_SERVERS 64
#define FP_MAX_COPIES 4
#define FP_MAX_LANES 64
#define FP_MAX_IO (32u << 20) /* most bytes in one call */
#define FP_WHY_MAX 512
#define FP_STRIPE_SIZE (128u << 10) /* default, bytes */

struct fp_volume;
struct fp_lane;
struct fp_extent;
struct fp_server_names;
struct fp_seal_key;

/* See sealed.h. */
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
  unsigned poll_us;   /* longest time to poll before sleeping */
  unsigned lanes;     /* 1..FP_MAX_LANES */
  unsigned slots;     /* per lane */
  uint32_t slot_size; /* bytes, a multiple of 4096 */
  bool reserve_full;  /* all extents get memory before the first request */
  uint64_t move_rate; /* bytes a second of fp_volume_drain; 0 = no limit */
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
                       char why[FP_WHY_MAX]);
  void *opaque;

  /* With takeover, filled in by fp_volume_probe: the client that has the
   * volume, "" if none has, and since when.
   */
  char holder[FP_NAME_MAX + 1];
  uint64_t held_since; /* seconds since 1970 */
  /* NULL, or a callback: why says what start-up waits for, ms how long it may
   * last.  fp_volume_start calls it once, if it takes more than a second.
   * fp_volume_probe calls it once, if it waits for a lease.
   */
  void (*waits) (const char *why, unsigned ms);
};

/* Return the bytes of memory that checksums or encryption need; 0 if there are
 * none.
 */
uint64_t fp_volume_seal_memory (const struct fp_volume_params *p);

/* Read, lock and free the key of a file, for FP_ENCRYPT_FILE (seal_key.h).
 * Lock it in the child process.  key may be NULL for lock and free.
 */
int fp_seal_key_read (struct fp_seal_key **out, const char *path,
                      char why[FP_WHY_MAX]);
int fp_seal_key_lock (struct fp_seal_key *key);
void fp_seal_key_free (struct fp_seal_key *key);

/* Return the bytes that the buffers of the lanes need. */
size_t fp_volume_slot_memory (const struct fp_volume_params *p);

/* Set defaults for all but servers, nr_servers and size. */
void fp_volume_params_init (struct fp_volume_params *p);

/* Check everything that can be checked without keeping anything.  The servers
 * must answer, agree on version, slab size and transport, and be able to lend
 * enough.  They must hold what is resumed; its lease starts again.  For rdma,
 * a child process makes a connection and ends it.  Fill in p->slab_size.  On
 * failure, why gets a sentence that names the server, else "".
 *
 * No thread and no device stays open.  So a process with one thread may call
 * this before a fork.
 */
int fp_volume_probe (struct fp_volume_params *p, char why[FP_WHY_MAX]);

/* Connect, open the volume on every server, resume what is there, reserve what
 * was asked, and start the threads.
 */
int fp_volume_start (struct fp_volume **out, const struct fp_volume_params *p,
                     char why[FP_WHY_MAX]);

/* End the volume.  discard: the servers scrub and free an ephemeral volume
 * now; otherwise they keep it for its lease.  No I/O may be running.
 */
void fp_volume_stop (struct fp_volume *v, bool discard);

uint64_t fp_volume_size (const struct fp_volume *v);
const struct fp_uuid *fp_volume_uuid (const struct fp_volume *v);

/* Return the lane with the fewest users, for a new connection. */
struct fp_lane *fp_volume_lane_get (struct fp_volume *v);
void fp_volume_lane_put (struct fp_lane *lane);

/* ---- I/O ---- */

int fp_lane_read (struct fp_lane *lane, void *buf, uint32_t length,
                  uint64_t offset);
/* Write.  Return -EROFS, as fp_lane_zero does, if the volume is read-only. */
int fp_lane_write (struct fp_lane *lane, const void *buf, uint32_t length,
                   uint64_t offset);
/* Make the range, of any length, read as zeros.  trim: whole extents go back
 * to their servers.  Wait at most await_ms in all for servers that are away,
 * or up and silent.
 */
int fp_lane_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
                  bool trim);
/* Write or zero for a front end whose request may be older than this call.
 * made_ns, by fp_mono_ns: the earliest time at which it was made.
 */
int fp_lane_write_made (struct fp_lane *lane, const void *buf, uint32_t length,
                        uint64_t offset, uint64_t made_ns);
int fp_lane_zero_made (struct fp_lane *lane, uint64_t length, uint64_t offset,
                       bool trim, uint64_t made_ns);
/* Return the number of requests that waited at least FP_WAITED_MS for servers
 * that were away.
 */
#define FP_WAITED_MS 1000u
uint64_t fp_volume_waits (const struct fp_volume *v);
/* Wait until every write that any lane completed is in the servers' memory. */
int fp_lane_flush (struct fp_lane *lane);

/* Return true if zeroing that range sends nothing, except to give whole
 * extents back.
 */
bool fp_volume_zero_is_fast (struct fp_volume *v, uint64_t length,
                             uint64_t offset, bool trim);

/* Say if there is a hole at offset, which has no data and reads as zeros.
 * *length: bytes from there that are alike.  At most limit bytes (> 0) are
 * looked at.
 */
void fp_volume_extent (struct fp_volume *v, uint64_t offset, uint64_t limit,
                       bool *hole, uint64_t *length);

/* I/O without waiting, for front ends with their own queue (benchmark, ublk).
 * An io stays in the caller's memory from submit until poll returns it, with
 * status set.  On a sealed volume the status is -EOPNOTSUPP.
 */
enum fp_io_kind { FP_IO_READ, FP_IO_WRITE };

/* Which bytes an io is for: those of the extent, or of the tail behind its
 * memory, at offset - (start of the extent) (dirty_log.h).
 */
enum fp_tail {
  FP_TAIL_NONE,
  FP_TAIL_RAW,
  FP_TAIL_SET,
  FP_TAIL_CLEAR,   /* the caller is inside the extent */
  FP_TAIL_CLEARED, /* the caller is inside the extent */
};

struct fp_io {
  enum fp_io_kind kind;
  uint32_t length;
  uint64_t offset;
  void *buf;
  int status;
  struct fp_io *next; /* link of poll's result, or the engine's */

  /* Used by the engine only. */
  uint32_t issued;   /* bytes handed to fragments */
  uint32_t inflight; /* fragments that are not back yet */
  uint32_t tries;    /* retries */
  bool done;
  bool sync;   /* a thread waits; fp_lane_poll does not return it */
  bool forced; /* sent to the server even where nothing was written */
  bool queued; /* pending or parked */
  bool redo;   /* a connection broke: repeat all of it */
  bool failed; /* a transfer of it failed */
  bool asked;  /* memory for its extent was asked for */
  bool hasty;  /* a read that does not wait for a server that is away */
  bool spread; /* parts were sent to more than one copy */
  uint64_t start_ns;
  uint64_t made_ns; /* when it was made, by fp_mono_ns; only if front */
  bool front;       /* a front end's write, which must end in await_ms */
  bool waited;      /* has waited for servers that were away */

  /* Set while a write may be in some copies and not in others; counted in
   * fp_volume.unsettled.
   */
  bool unsettled;

  bool linear; /* offset is a linear address (stripe.h) */
  /* Set of copies that may be read; 0 = any.  If it is set, an error is not
   * counted.
   */
  uint8_t only;

  enum fp_tail tail;
  /* Generation that a tail's extent must have; 0 = any. */
  uint64_t generation;
  unsigned saying; /* fragments that set tails for it (lane_dirty_log.c) */

  /* Set for internal transfers only. */
  bool migrate;             /* may use an extent that is FROZEN */
  bool owner;               /* uses the target, which is BUSY */
  struct fp_extent *target; /* used instead of the volume's extent there */
};

void fp_lane_submit (struct fp_lane *lane, struct fp_io *io);
/* Make progress, and return the completed ios, linked by next.  wait: if there
 * is none, sleep until there is one, at most timeout_ms.
 */
struct fp_io *fp_lane_poll (struct fp_lane *lane, bool wait);

/* ---- moving extents while they are in use: migrate.h ---- */

/* Move all that server i holds to the others, in the background; it gets no
 * new extents.  The server is up, or will be.  fp_volume_server_status shows
 * the progress.  rate: bytes a second, from now on; 0 = move_rate.  Errors
 * come before anything is moved.
 *
 * -EBUSY    too few servers that are not drained would be left.
 * -ENOSPC   the others have no room for it.
 * -EROFS    the volume is read-only, or is frozen.
 */
int fp_volume_drain (struct fp_volume *v, unsigned i, uint64_t rate,
                     char why[FP_WHY_MAX]);
/* Use server i again.  Extents that were moved stay where they are.  -ENOENT:
 * it was not being drained.
 */
int fp_volume_drain_cancel (struct fp_volume *v, unsigned i,
                            char why[FP_WHY_MAX]);

/* ---- comparing copies: check.h ---- */

enum fp_check_state {
  FP_CHECK_NONE, /* no check yet */
  FP_CHECK_RUNNING,
  FP_CHECK_DONE,
  FP_CHECK_CANCELLED,
  FP_CHECK_FAILED, /* see `why` */
};
#define FP_CHECK_OFFSETS 16 /* offsets kept */

/* Status of the last check.  The last three fields count all checks. */
struct fp_check_status {
  enum fp_check_state state;
  uint64_t number; /* sequence number of this check, from 1 */
  bool repair;
  uint64_t block_size; /* bytes; the last block of an extent may have fewer */
  /* Blocks to compare; approximate, as others write. */
  uint64_t blocks;
  uint64_t compared, differ;
  uint64_t repaired; /* differing blocks that were repaired */
  uint64_t skipped;  /* blocks whose copies could not be compared */
  uint64_t degraded; /* extents with too few in-sync copies */
  /* Offset in the volume of the first byte that differs, for the lowest
   * differing blocks, in order.
   */
  unsigned nr_offsets;
  uint64_t offsets[FP_CHECK_OFFSETS];
  uint64_t since_ns; /* time that it has taken, or took */
  uint64_t left_ns;  /* approximate; 0 = not known */
  char why[FP_WHY_MAX];
  uint64_t all_compared, all_differ, all_repaired;
};

/* Compare all copies in the background, while they are in use.  repair: where
 * copies differ, the others get the data of the first in-sync one (on a sealed
 * volume, of the right one).  rate: bytes a second of each copy; 0 =
 * move_rate.  -EINVAL: there is one copy.  -EBUSY: a check is running.
 */
int fp_volume_check (struct fp_volume *v, bool repair, uint64_t rate,
                     char why[FP_WHY_MAX]);
/* Cancel the check, which is over when its status says so.  -ENOENT: none is
 * running.
 */
int fp_volume_check_cancel (struct fp_volume *v, char why[FP_WHY_MAX]);

/* ---- servers, while the volume is in use: servers.c ---- */

struct fp_server_name {
  struct fp_addr addr;
  char domain[FP_NAME_MAX + 1];
};
struct fp_server_names {
  unsigned nr;
  struct fp_server_name names[FP_MAX_SERVERS];
};
void fp_volume_servers (struct fp_volume *v, struct fp_server_names *out);

/* Add a server.  It is checked as by the probe, gets a peer, becomes a member
 * of a named volume, and only then gets extents.  After all errors but
 * -ETIMEDOUT nothing has changed.
 *
 * -EEXIST     it is one already, or has something of this volume.
 * -ENOSPC     there are FP_MAX_SERVERS already.
 * -EROFS      the volume is read-only, or is frozen.
 * -ETIMEDOUT  it is added as soon as the others have recorded that.
 */
int fp_volume_add_server (struct fp_volume *v,
                          const struct fp_server_name *name,
                          char why[FP_WHY_MAX]);
/* Remove server i, which holds nothing.  It forgets the volume if it can be
 * reached.  On success, a why that is not "" is a warning for the user.
 *
 * -ENOTEMPTY  drain it first.
 * -EBUSY      it is the last server that is not drained.
 * -ENOTCONN   another server is down.
 */
int fp_volume_remove_server (struct fp_volume *v, unsigned i,
                             char why[FP_WHY_MAX]);
/* Adding and removing may take about ten times timeout_ms.  Only one caller at
 * a time may make these changes.
 */

/* ---- status ---- */

enum fp_server_state {
  FP_SERVER_DOWN,
  FP_SERVER_CONNECTING,
  FP_SERVER_UP,
  FP_SERVER_DRAINING,
  FP_SERVER_LOST, /* came back without what it held */
};
const char *fp_server_state_name (enum fp_server_state s);

enum fp_drain_state {
  FP_DRAIN_NONE,
  FP_DRAIN_MOVING,
  FP_DRAIN_DONE, /* the server holds nothing */
};
struct fp_drain_status {
  enum fp_drain_state state;
  uint64_t extents, left; /* extents to move, at the start and now */
  uint64_t bytes;         /* bytes copied */
  uint64_t since_ns;      /* time that it has taken, or took */
  uint64_t left_ns;       /* approximate; 0 = not known */
  char why[FP_WHY_MAX];   /* reason for no progress, or "" */
};

/* Reclaim: a server whose host is short of memory asks for slabs back.  The
 * least recently used extents go to other servers, if they have room.
 */
struct fp_reclaim_status {
  uint64_t wanted;      /* slabs that it still asks for */
  uint64_t reclaimed;   /* extents moved because of that, ever */
  char why[FP_WHY_MAX]; /* reason for no progress, or "" */
};

struct fp_server_status {
  char addr[FP_ADDR_MAX + 1];
  char name[FP_NAME_MAX + 1];
  enum fp_server_state state;
  unsigned transport;  /* one bit; 0 = never connected */
  const char *control; /* see fp_ctl_secured; NULL = never connected */
  uint64_t slabs_total, slabs_free; /* as the server last said */
  uint64_t extents;                 /* number of this volume's there */
  uint64_t reconnects;
  uint64_t bytes_read, bytes_written, ops, errors;
  bool current;         /* knows which extents of a named volume exist */
  bool joining;         /* joins, and was never current yet */
  bool gone;            /* no server (any more): ignore the other fields */
  char why[FP_WHY_MAX]; /* reason for not being up */
  struct fp_drain_status drain;
  struct fp_reclaim_status reclaim;
};

/* See sealed.h. */
struct fp_seal_status {
  bool on; /* else the other fields have no meaning */
  enum fp_checksum checksum;
  enum fp_encrypt encrypt;
  bool integrity;
  /* Blocks: those that a server did not return as they were written; those
   * repaired from another copy; those that no copy had right (-EIO).
   */
  uint64_t wrong, repaired, unreadable;
  /* Bytes that were written before this client attached. */
  uint64_t unchecked;
  uint64_t memory; /* bytes used */
};

/* Hedges: reads that were sent to another copy, too. */
struct fp_hedge_status {
  bool on;
  uint64_t sent;
  uint64_t won, lost; /* those that were first, and those that were not */
  uint64_t refused;   /* not sent, as there were too many */
};

struct fp_volume_status {
  struct fp_uuid uuid;
  char name[FP_NAME_MAX + 1];
  uint64_t size, slab_size;
  struct fp_stripe stripe;
  unsigned copies, lanes, nr_servers, timeout_ms, await_ms;
  uint64_t extents, extents_allocated, extents_lost;
  /* Extents with fewer copies than they should have, and bytes to copy for
   * them.
   */
  uint64_t extents_degraded, bytes_to_resync;
  /* With several copies.  unclean: the last client had died when the volume
   * was attached.  Copies could differ in resync_bytes bytes, of resync_of.
   * bytes_marked: bytes that could differ if this client died, as of some
   * seconds ago.
   */
  bool unclean;
  uint64_t resync_bytes, resync_of, bytes_marked;
  uint64_t reads, writes, zeros, trims, flushes, errors;
  uint64_t bytes_read, bytes_written;
  uint64_t inflight;
  bool fenced; /* another client has the volume: all I/O fails */
  char fenced_by[FP_WHY_MAX]; /* what a server says of that, or "" */
  uint64_t members_version; /* version of the member list; 0 = not recorded */
  /* Too many servers were away at attach.  Extents that the others do not have
   * fail with EIO, and no extent is made.
   */
  bool frozen;
  bool read_only;
  struct fp_seal_status seal;
  uint64_t poll_hits, sleeps; /* waits that ended while polling, and others */
  struct fp_hedge_status hedges;
  struct fp_hist_summary read_ns, write_ns;
  struct fp_check_status check;
};

void fp_volume_status (struct fp_volume *v, struct fp_volume_status *s);
/* Fill in the status of server i < nr_servers, which may be gone. */
void fp_volume_server_status (struct fp_volume *v, unsigned i,
                              struct fp_server_status *s);

#endif /* FP_VOLUME_H */
