/* SPDX-License-Identifier: BSD-3-Clause */
/* link_int.h - the inside of a link, for the files that are one: link.c has
 * its thread and its states, link_learn.h what the server holds, link_calls.c
 * what others ask of it.
 */

#ifndef FP_LINK_INT_H
#define FP_LINK_INT_H

#include <poll.h>
#include <stdatomic.h>

#include <pthread.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/link.h"
#include "volume/link_learn.h"
#include "volume/session.h"
#include "volume/sync.h"
#include "volume/volume_int.h"

/* Deadline of a message for which the server may have to populate, register
 * or zero slabs, in milliseconds.  Of LABEL, too: who waits for the piece
 * waits no longer than the manager lets it, and all else that is on a server
 * whose process is stopped can be read and written meanwhile.
 */
#define LINK_SLOW_MS 15000

#define LINK_BATCH 16 /* pieces that get memory at a time */

enum call_kind { CALL_RELEASE, CALL_ZERO };

/* On the stack of who waits for it. */
struct call {
  enum call_kind kind;
  struct fp_piece *piece;
  uint64_t offset, length;

  int result;
  bool done;
  struct call *next;
};

struct fp_link {
  struct fp_volume *v;
  unsigned index;
  const struct fp_addr *addr;
  struct fp_thread thread;
  bool started;
  int wake_fd;
  _Atomic bool stop, discard;
  _Atomic bool mute;  /* see fp_link_room */
  _Atomic bool sweep; /* the server holds what we do not use */

  pthread_mutex_t lock; /* until the thread's own */
  pthread_cond_t cond;  /* a call is done, or the state changed */
  enum fp_server_state state;
  uint64_t session; /* counts the times it came up */
  struct call *calls, **calls_tail;
  /* Pieces that are to get memory here: waiting, and being worked at.  A
   * number of the batch that was withdrawn is FP_NO_PIECE.
   */
  uint32_t want_head, want_tail, batch[LINK_BATCH];
  unsigned nr_want, nr_batch;
  uint64_t progress_ns; /* when something was last done about them */
  unsigned transport;
  char name[FP_NAME_MAX + 1];
  char why[FP_WHY_MAX];
  uint64_t slabs_total, slabs_free, reconnects;

  _Atomic uint64_t lease_ns; /* what is mapped is ours for so long */
  _Atomic uint64_t down_ns;  /* when it was lost; 0: it is UP, or never was */

  /* The thread's own. */
  struct fp_uuid client; /* what it is called in HELLO, each time */
  struct fp_session s;
  const struct fp_transport_ops *ops;
  bool opened;      /* the volume is, or was, on this server */
  bool learned;     /* all that it held at the start was listed once */
  bool lost;        /* it forgot a volume that it had */
  bool lost_any;    /* it held a piece that is LOST */
  uint32_t attempt; /* how often it tried to come up */
  unsigned ping_ms;
  struct pollfd fds[2 + FP_MAX_LANES];
  struct fp_grants grants; /* too large for a small stack */
  int grant_fds[FP_MAX_GRANTS];
  struct fp_labels labels;

  unsigned nr_spares;
  struct fp_copy spares[FP_LINK_SPARES];
  struct fp_copy batch_copies[LINK_BATCH];
  unsigned batch_slot[LINK_BATCH]; /* of batch, for each copy */

  _Atomic uint64_t pieces, bytes_read, bytes_written, ops_done, errors;
};

/* link.c, any thread */
void link_wake (struct fp_link *l);
void link_set_why (struct fp_link *l, const char *why);

/* The rest: the link's own thread. */

/* The server answered what was asked at asked_ns. */
void link_renewed (struct fp_link *l, uint64_t asked_ns);

/* link_calls.c */

/* Returns a negative errno value if the session ended. */
int link_do_calls (struct fp_link *l);
void link_fail_calls (struct fp_link *l);
/* Whether a call that ended so leaves the session unsound. */
bool link_session_broken (int r);

/* link_place.c */

/* Likewise. */
int link_do_places (struct fp_link *l);
/* Grants ahead of need. */
int link_refill (struct fp_link *l);
void link_drop_spares (struct fp_link *l);
void link_fail_places (struct fp_link *l);

#endif /* FP_LINK_INT_H */
