/* SPDX-License-Identifier: BSD-3-Clause */
/* volume.h - a block device made of other machines' memory.
 *
 * A volume is an array of pieces, each as large as a slab.  A piece has no
 * memory until it is first written (or all have it from the start:
 * reserve_full).  It knows no front end: nbdkit, the benchmark and the
 * tests call it the same way.
 *
 * A lane is what one connection of a front end uses for its I/O: data
 * connections to the servers, and slots.  Lanes are made at start, so that
 * nothing has to be made later; more callers than lanes share them.
 *
 * Units:    offset, length and sizes are bytes; times say theirs.
 * Errors:   0 or a negative errno value: -EIO (lost, or no server
 *           answered within timeout_ms), -EINVAL (outside the volume),
 *           -ENOSPC (no server has room for a piece), -ESHUTDOWN.
 * Threads:  everything that takes a lane or a started volume may be called
 *           from any thread at any time.
 * Memory:   nothing below the line 'I/O' allocates, opens a file, logs, or
 *           waits for longer than timeout_ms.
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

struct fp_volume;
struct fp_lane;

struct fp_volume_params {
  unsigned nr_servers; /* 1..FP_MAX_SERVERS */
  struct fp_addr servers[FP_MAX_SERVERS];

  uint64_t size;              /* bytes, > 0, a multiple of 512 */
  uint64_t slab_size;         /* 0: what the servers have */
  unsigned copies;            /* 1 for now */
  char name[FP_NAME_MAX + 1]; /* "": ephemeral */
  /* Who this volume is.  All zero: a new one is drawn.  With resume, the
   * one of a client that died; its slabs are asked for by this.
   */
  struct fp_uuid uuid;
  bool resume;

  unsigned transports; /* a set; more than one bit means: the best */
  unsigned timeout_ms; /* a server silent for this long is lost */
  unsigned poll_us;    /* poll at most this long before sleeping */
  unsigned lanes;      /* 1..FP_MAX_LANES */
  unsigned slots;      /* of each lane */
  uint32_t slot_size;  /* bytes, a multiple of 4096 */
  bool reserve_full;   /* all memory before the first request */
};

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
int fp_lane_write (struct fp_lane *lane, const void *buf, uint32_t length,
                   uint64_t offset);
/* Afterwards the range reads as zeros.  trim: whole pieces go back to
 * their servers.  Any length.
 */
int fp_lane_zero (struct fp_lane *lane, uint64_t length, uint64_t offset,
                  bool trim);
/* Every write that any lane completed is in the servers' memory. */
int fp_lane_flush (struct fp_lane *lane);

/* What the range [offset, ...) is, for as long as it is the same: a hole
 * reads as zeros and has no data.
 */
void fp_volume_extent (struct fp_volume *v, uint64_t offset, bool *hole,
                       uint64_t *length);

/* The same without waiting, for front ends with a queue of their own
 * (benchmark, ublk).  An io is in memory of the caller from submit until
 * poll yields it, with status set.
 */
enum fp_io_kind { FP_IO_READ, FP_IO_WRITE };

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
  bool asked;  /* asked for memory for the piece that it waits for */
  uint64_t start_ns;
};

void fp_lane_submit (struct fp_lane *lane, struct fp_io *io);
/* Make progress; completed ios, linked by next.  wait: sleep until there
 * is one (at most timeout_ms) if there is none.
 */
struct fp_io *fp_lane_poll (struct fp_lane *lane, bool wait);

/* ---- what it is doing ---- */

enum fp_server_state {
  FP_SERVER_DOWN,
  FP_SERVER_CONNECTING,
  FP_SERVER_UP,
  FP_SERVER_DRAINING,
  FP_SERVER_LOST, /* it came back without what it held */
};
const char *fp_server_state_name (enum fp_server_state s);

struct fp_server_status {
  char addr[FP_ADDR_MAX + 1];
  char name[FP_NAME_MAX + 1];
  enum fp_server_state state;
  unsigned transport;               /* one bit, 0 when never connected */
  uint64_t slabs_total, slabs_free; /* as it last said */
  uint64_t pieces;                  /* of this volume there */
  uint64_t reconnects;
  uint64_t bytes_read, bytes_written, ops, errors;
  char why[FP_WHY_MAX]; /* why it is not up */
};

struct fp_volume_status {
  struct fp_uuid uuid;
  char name[FP_NAME_MAX + 1];
  uint64_t size, slab_size;
  unsigned copies, lanes, nr_servers;
  uint64_t pieces, pieces_allocated, pieces_lost;
  uint64_t reads, writes, zeros, trims, flushes, errors;
  uint64_t bytes_read, bytes_written;
  uint64_t inflight;
  uint64_t poll_hits, sleeps; /* waits that ended while polling; others */
  struct fp_hist_summary read_ns, write_ns;
};

void fp_volume_status (struct fp_volume *v, struct fp_volume_status *s);
/* i < nr_servers */
void fp_volume_server_status (struct fp_volume *v, unsigned i,
                              struct fp_server_status *s);

#endif /* FP_VOLUME_H */
