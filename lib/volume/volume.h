/* SPDX-License-Identifier: BSD-3-Clause */
/* volume.h - a block device made of other machines' memory.
 *
 * A volume is an array of extents, each as large as a slab.  An extent has no
 * memory until it is first written (or all have it from the start:
 * reserve_full).  It knows no front end: nbdkit, the benchmark and the
 * tests call it the same way.
 *
 * A lane is what one connection of a front end uses for its I/O: data
 * connections to the servers, and slots.  Lanes are made at start, so that
 * nothing has to be made later; more callers than lanes share them.
 *
 * Units:    offset, length and sizes are bytes; times say theirs.
 * Errors:   0 or a negative errno value: -EIO (lost, or no server that
 *           has it came back within await_ms), -EINVAL (outside the volume),
 *           -ENOSPC (no server has room for an extent), -ESHUTDOWN.
 * Threads:  everything that takes a lane or a started volume may be called
 *           from any thread at any time.
 * Memory:   nothing below the line 'I/O' allocates, opens a file, logs, or
 *           waits for longer than await_ms, beside what was in flight
 *           (timeout_ms) and servers that name what they have.
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
#define FP_MAX_IO (32u << 20) /* bytes in one call */
#define FP_WHY_MAX 512
#define FP_STRIPE_SIZE (128u << 10) /* unless another one was said */

struct fp_volume;
struct fp_lane;
struct fp_extent;
struct fp_server_names;
struct fp_seal_key;

/* sealed.h */
enum fp_checksum { FP_CHECKSUM_NONE, FP_CHECKSUM_CRC32C };
enum fp_encrypt {
  FP_ENCRYPT_NONE,
  FP_ENCRYPT_EPHEMERAL, /* with a key that nobody ever sees */
  FP_ENCRYPT_FILE,
};

struct fp_volume_params {
  unsigned nr_servers; /* 1..FP_MAX_SERVERS */
  struct fp_addr servers[FP_MAX_SERVERS];
  char domains[FP_MAX_SERVERS][FP_NAME_MAX + 1]; /* failure domains; or "" */

  uint64_t size;      /* bytes, > 0, a multiple of 512 */
  uint64_t slab_size; /* 0: what the servers have */
  unsigned copies;    /* of each extent; 0: as it was made, or 1 */
  /* How it is striped, if it is to be made; else what it has to be.  0: not
   * said.  fp_volume_probe fills it in; where nobody did it is not striped.
   */
  struct fp_stripe stripe;
  char name[FP_NAME_MAX + 1]; /* "": ephemeral */
  /* Who this volume is.  All zero: a new one is drawn.  With resume, the
   * one of a client that died; its slabs are asked for by this.
   */
  struct fp_uuid uuid;
  /* Who this client is to the servers.  Nil: one is drawn for each of them.  A
   * process that takes the place of one that died says that it is the same:
   * then it is not refused for what the other one had, but is for what others
   * had since.
   */
  struct fp_uuid client;
  bool resume;
  bool takeover; /* whoever has it loses it first */
  /* Of a volume with a name that is there: the servers give no right to write,
   * and nothing of it is changed: not what they record of it, nor what they
   * would be asked to give back or to move.  It is attached all the same: one
   * client has it at a time.  If another one has had it after a connection was
   * lost, that is as if it had been taken over: what is where may be another.
   */
  bool read_only;
  bool
      degraded; /* of a volume with a name: do without servers that are away */
  /* What fp_volume_probe has found of a volume with a name, with uuid, size,
   * and resume: its servers, in the order of `servers`, and which of them are
   * away.  Version 0: it is to be made.
   */
  struct fp_members members;
  uint64_t away; /* a set */
  /* And of their lists (membership.h): the members that are believed, whether
   * the base is sure, whether enough servers answer, the highest version that
   * any server has, and the version that each member has.
   */
  uint64_t believed; /* a set */
  bool sure, enough;
  uint64_t newest;
  uint64_t had[FP_MAX_SERVERS];
  /* Of a volume with a name that is there: servers that are no members join it
   * (add), and those at these addresses are none any more.  The probe fills
   * in who that is, as sets: who joins is a member, and not current; who
   * leaves is one for the last time.
   */
  bool add;
  /* Also where the servers that are away and leave may know of a newer list
   * than all others: they are dead for good.
   */
  bool force;
  unsigned nr_remove;
  struct fp_addr remove[FP_MAX_SERVERS];
  uint64_t joins, leaves;
  unsigned lease_ms; /* the longest that any of them has */

  unsigned transports; /* a set; more than one bit means: the best */
  unsigned timeout_ms; /* a server silent for this long is lost */
  /* How long a request waits for servers that are away.  The front end must
   * not send a request again before that.  A write is given up
   * min (await_ms / 4, timeout_ms) earlier: once sent it must end in time.
   * 0: 2 x timeout_ms; with copies at least 8 s.
   */
  unsigned await_ms;
  unsigned poll_us;   /* poll at most this long before sleeping */
  unsigned lanes;     /* 1..FP_MAX_LANES */
  unsigned slots;     /* of each lane */
  uint32_t slot_size; /* bytes, a multiple of 4096 */
  bool reserve_full;  /* all memory before the first request */
  uint64_t move_rate; /* bytes a second of fp_volume_drain; 0: any */
  /* A read that takes long is sent to another copy, too: lane_hedge.c.  With
   * one copy, or over shm, it changes nothing.
   */
  bool hedge;
  /* A server with copies of ours is away for so long, before they are made
   * anew on others.
   */
  unsigned resync_delay_ms;
  /* What was not written to for so long is not looked at when the volume is
   * attached after its client has died: dirty_log.h.
   */
  unsigned quiet_ms;

  /* Protection against faulty or malicious donors.  A checksum, integrity and
   * a key that nobody sees are of a volume without a name: what they need to
   * know is in this process alone.
   */
  enum fp_checksum checksum;
  enum fp_encrypt encrypt;
  bool integrity;          /* needs FP_ENCRYPT_EPHEMERAL */
  struct fp_seal_key *key; /* FP_ENCRYPT_FILE; stays the caller's */

  /* Who takes the volume up again has to know its servers. Called by who adds
   * or removes one, before that counts; an error prevents it.  Or NULL.
   */
  int (*keep_servers) (void *opaque, const struct fp_server_names *servers,
                       char why[FP_WHY_MAX]);
  void *opaque;

  /* With takeover, what fp_volume_probe has found: whom it is taken from, ""
   * if nobody has it, and since when.
   */
  char holder[FP_NAME_MAX + 1];
  uint64_t held_since; /* seconds since 1970 */
  /* NULL, or called once by fp_volume_start if it takes more than a second,
   * and once by fp_volume_probe if it waits for a lease: what for, and how
   * long it may last.
   */
  void (*waits) (const char *why, unsigned ms);
};

/* Return how many bytes of memory its checksums or encryption need: 0 if there
 * are none.
 */
uint64_t fp_volume_seal_memory (const struct fp_volume_params *p);

/* The key of a file, for FP_ENCRYPT_FILE: seal_key.h.  lock: in a child
 * process; key may be NULL for that and for free.
 */
int fp_seal_key_read (struct fp_seal_key **out, const char *path,
                      char why[FP_WHY_MAX]);
int fp_seal_key_lock (struct fp_seal_key *key);
void fp_seal_key_free (struct fp_seal_key *key);

/* What the buffers of its lanes need. */
size_t fp_volume_slot_memory (const struct fp_volume_params *p);

/* Defaults for all but servers, nr_servers and size. */
void fp_volume_params_init (struct fp_volume_params *p);

/* Everything that can be found out without keeping anything: the servers
 * answer, agree on version, slab size and transport, can lend enough, and hold
 * what is to be taken up again (which starts its lease anew);
 * for rdma, a child process makes a connection and ends it.  Leaves no
 * thread and no device open, so it may be called before a fork, in a
 * process with one thread.  Fills p->slab_size.  why gets a sentence that
 * names the server on failure, and "" else.
 */
int fp_volume_probe (struct fp_volume_params *p, char why[FP_WHY_MAX]);

/* Connect, open the volume on every server, resume what is there, reserve
 * what was asked.  Starts threads.
 */
int fp_volume_start (struct fp_volume **out, const struct fp_volume_params *p,
                     char why[FP_WHY_MAX]);

/* End it.  discard: the servers scrub and free an ephemeral volume now;
 * otherwise they keep it for its lease.  No I/O may be running.
 */
void fp_volume_stop (struct fp_volume *v, bool discard);

uint64_t fp_volume_size (const struct fp_volume *v);
const struct fp_uuid *fp_volume_uuid (const struct fp_volume *v);

/* A lane for a new connection: the one with the fewest users. */
struct fp_lane *fp_volume_lane_get (struct fp_volume *v);
void fp_volume_lane_put (struct fp_lane *lane);

/* ---- I/O ---- */

int fp_lane_read (struct fp_lane *lane, void *buf, uint32_t length,
                  uint64_t offset);
/* And fp_lane_zero: -EROFS of a volume that is only read. */
int fp_lane_write (struct fp_lane *lane, const void *buf, uint32_t length,
                   uint64_t offset);
/* Afterwards the range reads as zeros.  trim: whole extents go back to
 * their servers.  Any length; waits for servers that are away, or there and
 * silent, for await_ms in all.
 */
int fp_lane_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
                  bool trim);
/* Write and zero for a front end whose request may be older than this call:
 * made_ns, by fp_mono_ns, is when it was made at the earliest.
 */
int fp_lane_write_made (struct fp_lane *lane, const void *buf, uint32_t length,
                        uint64_t offset, uint64_t made_ns);
int fp_lane_zero_made (struct fp_lane *lane, uint64_t length, uint64_t offset,
                       bool trim, uint64_t made_ns);
/* Return the number of requests that waited for servers that were away, for at
 * least FP_WAITED_MS.
 */
#define FP_WAITED_MS 1000u
uint64_t fp_volume_waits (const struct fp_volume *v);
/* Every write that any lane completed is in the servers' memory. */
int fp_lane_flush (struct fp_lane *lane);

/* Nothing would go over the wire for that, but the end of whole extents. */
bool fp_volume_zero_is_fast (struct fp_volume *v, uint64_t length,
                             uint64_t offset, bool trim);

/* What the range [offset, ...) is, for as long as it is the same: a hole
 * reads as zeros and has no data.  No more than limit bytes (> 0) are looked
 * at.
 */
void fp_volume_extent (struct fp_volume *v, uint64_t offset, uint64_t limit,
                       bool *hole, uint64_t *length);

/* The same without waiting, for front ends with a queue of their own
 * (benchmark, ublk).  An io is in memory of the caller from submit until
 * poll yields it, with status set.  Of a volume that is sealed that is
 * -EOPNOTSUPP.
 */
enum fp_io_kind { FP_IO_READ, FP_IO_WRITE };

/* Not the extent at that linear address, but the tail behind its memory, and
 * there offset - (start of the extent): dirty_log.h.
 */
enum fp_tail {
  FP_TAIL_NONE,
  FP_TAIL_RAW,
  FP_TAIL_SET,
  FP_TAIL_CLEAR,   /* who asks for it is inside of the extent */
  FP_TAIL_CLEARED, /* likewise */
};

struct fp_io {
  enum fp_io_kind kind;
  uint32_t length;
  uint64_t offset;
  void *buf;
  int status;
  struct fp_io *next; /* poll's result; else the engine's */

  /* The engine's. */
  uint32_t issued;   /* bytes handed to fragments */
  uint32_t inflight; /* fragments not yet back */
  uint32_t tries;    /* times it was started over */
  bool done;
  bool sync;   /* a thread waits for it: not for fp_lane_poll */
  bool forced; /* goes to the server even where nothing was written */
  bool queued; /* pending or parked */
  bool redo;   /* a connection broke: all of it once more */
  bool failed; /* something that was sent of it did */
  bool asked;  /* asked for memory for the extent that it waits for */
  bool hasty;  /* a read that does not wait for a server that is away */
  bool spread; /* some of it was sent to more than one copy */
  uint64_t start_ns;
  uint64_t made_ns; /* when it was made, by fp_mono_ns; only if front */
  bool front;       /* a front end's write: it must end within await_ms */
  bool waited;      /* it waited for servers that were away */

  /* A write that may be in some copies and not in others, until it is over:
   * counted in fp_volume.unsettled.
   */
  bool unsettled;

  bool linear;  /* offset is a linear address: stripe.h */
  uint8_t only; /* of several copies these are read, a set, and an error is
                   not counted; 0: any */

  enum fp_tail tail;
  uint64_t
      generation;  /* of a tail: it is labelled so; 0: it does not matter */
  unsigned saying; /* fragments that set tails for it: lane_dirty_log.c */

  /* The migration thread's; 0 else. */
  bool migrate;             /* it may use an extent that is FROZEN */
  bool owner;               /* it uses the target, which is BUSY */
  struct fp_extent *target; /* used instead of the volume's extent there */
};

void fp_lane_submit (struct fp_lane *lane, struct fp_io *io);
/* Make progress; completed ios, linked by next.  wait: sleep until there
 * is one (at most timeout_ms) if there is none.
 */
struct fp_io *fp_lane_poll (struct fp_lane *lane, bool wait);

/* ---- moving it while it is used: migrate.h ---- */

/* Server i, which is up or will be, shall hold nothing of this volume: it gets
 * no new extents, and what it has is moved to the others, in the background.
 * What comes of it is in its status.  rate: bytes a second, from now on; 0: as
 * move_rate says.  Before anything is moved: -EBUSY: it is the last one that
 * is not drained; -ENOSPC: the others
 * have no room for it; -EROFS: so much is missing of a volume with a name that
 * nothing may be changed.
 */
int fp_volume_drain (struct fp_volume *v, unsigned i, uint64_t rate,
                     char why[FP_WHY_MAX]);
/* Server i may be used again: what was moved stays where it is.  -ENOENT: it
 * was not being drained.
 */
int fp_volume_drain_cancel (struct fp_volume *v, unsigned i,
                            char why[FP_WHY_MAX]);

/* ---- are its copies alike?  check.h ---- */

enum fp_check_state {
  FP_CHECK_NONE, /* never */
  FP_CHECK_RUNNING,
  FP_CHECK_DONE,
  FP_CHECK_CANCELLED,
  FP_CHECK_FAILED, /* why says why */
};
#define FP_CHECK_OFFSETS 16 /* so many are kept */

/* Of the last one; the last three are of all that there were. */
struct fp_check_status {
  enum fp_check_state state;
  uint64_t number; /* the how manieth it is: 1, 2, ... */
  bool repair;
  uint64_t block_size; /* bytes; at the end of an extent a block has fewer */
  uint64_t blocks;     /* that are to be compared; about, as others write */
  uint64_t compared, differ;
  uint64_t repaired; /* of those that differ */
  uint64_t skipped; /* of blocks: those of which two copies could not be had */
  uint64_t degraded; /* extents with too few in-sync copies */
  /* Where in the volume the first byte is that differs, of the lowest such
   * blocks, in order.
   */
  unsigned nr_offsets;
  uint64_t offsets[FP_CHECK_OFFSETS];
  uint64_t since_ns; /* how long it has taken, or took */
  uint64_t left_ns;  /* about; 0: not known */
  char why[FP_WHY_MAX];
  uint64_t all_compared, all_differ, all_repaired;
};

/* Compare all copies in the background, while they are used; repair: what
 * differs gets what the first in-sync copy has.  rate: bytes a second of each
 * copy; 0: as move_rate says.  -EINVAL: there is one copy; -EBUSY: one is
 * under way.
 */
int fp_volume_check (struct fp_volume *v, bool repair, uint64_t rate,
                     char why[FP_WHY_MAX]);
/* End it: it is over when its status says so.  -ENOENT: none is under way. */
int fp_volume_check_cancel (struct fp_volume *v, char why[FP_WHY_MAX]);

/* ---- its servers, while it is used: servers.c ---- */

struct fp_server_name {
  struct fp_addr addr;
  char domain[FP_NAME_MAX + 1];
};
struct fp_server_names {
  unsigned nr;
  struct fp_server_name names[FP_MAX_SERVERS];
};
void fp_volume_servers (struct fp_volume *v, struct fp_server_names *out);

/* One more: it is asked what the probe asks, gets a peer, becomes a member of
 * a volume with a name, and only then gets extents.  -EEXIST: it is one
 * already, or has something of this volume; -ENOSPC: there are as many as
 * there can be; -EROFS: so much is missing that nothing may be changed;
 * -ETIMEDOUT: it is one as soon as the others have recorded that. Else nothing
 * has changed.
 */
int fp_volume_add_server (struct fp_volume *v,
                          const struct fp_server_name *name,
                          char why[FP_WHY_MAX]);
/* Server i, which holds nothing, is none any more, and forgets the volume if
 * it can be reached.  -ENOTEMPTY: it is to be drained first; -EBUSY: it is the
 * last one that is not drained; -ENOTCONN: all others have to be there.
 * 0, and why is not "": what has to be said all the same.
 */
int fp_volume_remove_server (struct fp_volume *v, unsigned i,
                             char why[FP_WHY_MAX]);
/* Both may wait for about ten times timeout_ms, and one caller at a time makes
 * these changes.
 */

/* ---- what it is doing ---- */

enum fp_server_state {
  FP_SERVER_DOWN,
  FP_SERVER_CONNECTING,
  FP_SERVER_UP,
  FP_SERVER_DRAINING,
  FP_SERVER_LOST, /* it came back without what it held */
};
const char *fp_server_state_name (enum fp_server_state s);

enum fp_drain_state {
  FP_DRAIN_NONE,
  FP_DRAIN_MOVING,
  FP_DRAIN_DONE, /* it holds nothing */
};
struct fp_drain_status {
  enum fp_drain_state state;
  uint64_t extents, left; /* at the start, and now */
  uint64_t bytes;         /* copied */
  uint64_t since_ns;      /* how long it has taken, or took */
  uint64_t left_ns;       /* about; 0: not known */
  char why[FP_WHY_MAX];   /* why it does not get on, or "" */
};

/* A server whose host is short of memory asks for some of it back: what was
 * not used for the longest time goes to other servers, if they have room.
 */
struct fp_reclaim_status {
  uint64_t wanted;      /* slabs that it still asks for */
  uint64_t reclaimed;   /* extents that were moved because of that, ever */
  char why[FP_WHY_MAX]; /* why it does not get them, or "" */
};

struct fp_server_status {
  char addr[FP_ADDR_MAX + 1];
  char name[FP_NAME_MAX + 1];
  enum fp_server_state state;
  unsigned transport;  /* one bit, 0 when never connected */
  const char *control; /* as fp_ctl_secured says; NULL: likewise */
  uint64_t slabs_total, slabs_free; /* as it last said */
  uint64_t extents;                 /* of this volume there */
  uint64_t reconnects;
  uint64_t bytes_read, bytes_written, ops, errors;
  bool current; /* it knows which extents of a named volume exist */
  bool joining; /* not yet, for the first time */
  bool gone;    /* it is none (any more): nothing else is to be shown */
  char why[FP_WHY_MAX]; /* why it is not up */
  struct fp_drain_status drain;
  struct fp_reclaim_status reclaim;
};

/* sealed.h */
struct fp_seal_status {
  bool on; /* the rest */
  enum fp_checksum checksum;
  enum fp_encrypt encrypt;
  bool integrity;
  /* Blocks that a server did not have as they were written to it; those that
   * got what another copy had; and those that no copy was right of: -EIO.
   */
  uint64_t wrong, repaired, unreadable;
  uint64_t
      unchecked;   /* bytes that were written before this client was there */
  uint64_t memory; /* bytes that it needs */
};

/* Reads that were sent to another copy, too. */
struct fp_hedge_status {
  bool on;
  uint64_t sent;
  uint64_t won, lost; /* those that came first, and those that did not */
  uint64_t refused;   /* not sent: too many were */
};

struct fp_volume_status {
  struct fp_uuid uuid;
  char name[FP_NAME_MAX + 1];
  uint64_t size, slab_size;
  struct fp_stripe stripe;
  unsigned copies, lanes, nr_servers, timeout_ms, await_ms;
  uint64_t extents, extents_allocated, extents_lost;
  /* Those with fewer copies than they should have, and what is to be copied.
   */
  uint64_t extents_degraded, bytes_to_resync;
  /* Of several copies.  When it was attached its last client had died: in so
   * many bytes, of so many, they could differ.  And what they could if this
   * one died, as of some seconds ago.
   */
  bool unclean;
  uint64_t resync_bytes, resync_of, bytes_marked;
  uint64_t reads, writes, zeros, trims, flushes, errors;
  uint64_t bytes_read, bytes_written;
  uint64_t inflight;
  bool fenced;                /* another client has it now: all I/O fails */
  char fenced_by[FP_WHY_MAX]; /* what a server says of that; or "" */
  uint64_t members_version;   /* of the list of servers; 0: it has no name */
  /* Too many servers were away when it was attached: what they do not have
   * is EIO, and no extent is made.
   */
  bool frozen;
  bool read_only;
  struct fp_seal_status seal;
  uint64_t poll_hits, sleeps; /* waits that ended while polling; others */
  struct fp_hedge_status hedges;
  struct fp_hist_summary read_ns, write_ns;
  struct fp_check_status check;
};

void fp_volume_status (struct fp_volume *v, struct fp_volume_status *s);
/* i < nr_servers; some of them are gone. */
void fp_volume_server_status (struct fp_volume *v, unsigned i,
                              struct fp_server_status *s);

#endif /* FP_VOLUME_H */
