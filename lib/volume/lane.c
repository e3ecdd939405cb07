/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/link.h"
#include "volume/sync.h"
#include "volume/volume_int.h"

#define NR_QUEUES 4            /* one for each transport bit */
#define SCAN_NS 10000000u      /* parked ios are looked at this often */
#define SLEEP_MAX_MS 50        /* longest sleep of the thread that polls */
#define EARLY_KICK (16 * 1024) /* such a fragment does not wait for others */

/* One transfer.  The op comes first: a completed op is its fragment. */
struct frag {
  struct fp_op op;
  struct fp_io *io;
  unsigned char *slot; /* bounce memory, of a registered transport */
  unsigned char *user; /* where the bytes come from or go to */
  uint64_t piece;
  unsigned server;
  uint64_t deadline_ns;
  struct frag *prev, *next; /* active, oldest first; or free */
};

struct lane_conn {
  struct fp_conn *conn;  /* NULL: away */
  bool unflushed;        /* wrote since the last flush */
  uint64_t flush_offset; /* somewhere it wrote */
};

struct io_list {
  struct fp_io *head, **tail;
};

struct fp_lane {
  struct fp_volume *v;
  unsigned index;
  _Atomic unsigned users;

  _Atomic unsigned knocking; /* threads that want the lock: let them */
  pthread_mutex_t lock;      /* everything below, until the counters */
  pthread_cond_t cond;       /* an io is done, or nobody polls now */
  bool polling;              /* a thread is polling or asleep for all */
  unsigned sleepers;         /* threads in cond */

  struct fp_queue *queues[NR_QUEUES];
  bool posted[NR_QUEUES]; /* since the last kick */
  unsigned char *slots;
  struct frag *frags, *free_frags;
  struct frag *active_head, *active_tail;
  struct io_list pending, parked, completed;
  unsigned outstanding; /* ios submitted and not taken back (async) */
  struct lane_conn *conns;
  uint64_t next_scan_ns;
  uint64_t wait_ewma_ns; /* how long waits took lately */

  int wake_fd;
  _Atomic bool woken;

  _Atomic uint64_t reads, writes, errors, bytes_read, bytes_written;
  _Atomic uint64_t inflight, poll_hits, sleeps;
  struct fp_hist read_ns, write_ns;
};

static void
list_init (struct io_list *l)
{
  l->head = NULL;
  l->tail = &l->head;
}

static void
list_push (struct io_list *l, struct fp_io *io)
{
  io->next = NULL;
  *l->tail = io;
  l->tail = &io->next;
}

static struct fp_io *
list_pop (struct io_list *l)
{
  struct fp_io *io = l->head;

  if (io != NULL) {
    l->head = io->next;
    if (l->head == NULL)
      l->tail = &l->head;
    io->next = NULL;
  }
  return io;
}

/* Take the lock from whoever polls with it held. */
static pthread_mutex_t *
lane_lock (struct fp_lane *lane)
{
  atomic_fetch_add (&lane->knocking, 1);
  fp_lock (&lane->lock);
  atomic_fetch_sub (&lane->knocking, 1);
  return &lane->lock;
}

static void
unlock (struct fp_lane *lane)
{
  pthread_mutex_t *m = &lane->lock;

  fp_unlockp (&m);
}

#define LANE_LOCK_SCOPE(lane)                                                 \
  FP_CLEANUP (fp_unlockp) pthread_mutex_t *_lane_lock = lane_lock (lane)

static void
count (_Atomic uint64_t *counter, uint64_t n)
{
  atomic_fetch_add_explicit (counter, n, memory_order_relaxed);
}

/* ---- making and ending it ---- */

static void
lane_freep (struct fp_lane **lanep)
{
  fp_lane_free (*lanep);
}

int
fp_lane_new (struct fp_lane **out, struct fp_volume *v, unsigned index)
{
  FP_CLEANUP (lane_freep) struct fp_lane *lane = NULL;

  lane = calloc (1, sizeof *lane);
  if (lane == NULL)
    return -ENOMEM;
  lane->v = v;
  lane->index = index;
  fp_mutex_init (&lane->lock);
  fp_cond_init (&lane->cond);
  list_init (&lane->pending);
  list_init (&lane->parked);
  list_init (&lane->completed);
  lane->wake_fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (lane->wake_fd == -1)
    return -errno;
  lane->conns = calloc (v->nr_links, sizeof *lane->conns);
  lane->frags = calloc (v->p.slots, sizeof *lane->frags);
  if (lane->conns == NULL || lane->frags == NULL)
    return -ENOMEM;
  for (unsigned i = 0; i < v->p.slots; i++) {
    lane->frags[i].next = lane->free_frags;
    lane->free_frags = &lane->frags[i];
  }
  *out = FP_STEAL (lane);
  return 0;
}

void
fp_lane_free (struct fp_lane *lane)
{
  if (lane == NULL)
    return;
  for (unsigned i = 0; i < NR_QUEUES; i++) {
    if (lane->queues[i] != NULL)
      lane->queues[i]->ops->queue_free (lane->queues[i]);
  }
  if (lane->slots != NULL)
    munmap (lane->slots, (size_t) lane->v->p.slots * lane->v->p.slot_size);
  if (lane->wake_fd > 0)
    close (lane->wake_fd);
  pthread_cond_destroy (&lane->cond);
  pthread_mutex_destroy (&lane->lock);
  free (lane->frags);
  free (lane->conns);
  free (lane);
}

struct fp_volume *
fp_lane_volume (const struct fp_lane *lane)
{
  return lane->v;
}

/* The bounce memory, for the first transport that needs it. */
static int
lane_slots (struct fp_lane *lane)
{
  size_t size = (size_t) lane->v->p.slots * lane->v->p.slot_size;
  void *m;

  if (lane->slots != NULL)
    return 0;
  m = mmap (NULL, size, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (m == MAP_FAILED)
    return -errno;
  lane->slots = m;
  for (unsigned i = 0; i < lane->v->p.slots; i++)
    lane->frags[i].slot = lane->slots + (size_t) i * lane->v->p.slot_size;
  return 0;
}

static int
lane_queue (struct fp_lane *lane, const struct fp_transport_ops *ops)
{
  unsigned i = (unsigned) __builtin_ctz (ops->bit);
  struct fp_queue *q = NULL;
  struct fp_queue_params qp = {
    .depth = lane->v->p.slots,
    .max_conns = lane->v->nr_links,
  };
  int r;

  LANE_LOCK_SCOPE (lane);
  if (lane->queues[i] != NULL)
    return 0;
  if (ops->registered) {
    r = lane_slots (lane);
    if (r < 0)
      return r;
    qp.memory = lane->slots;
    qp.memory_size = (size_t) lane->v->p.slots * lane->v->p.slot_size;
  }
  r = ops->queue_new (&q, &qp);
  if (r < 0)
    return r;
  lane->queues[i] = q;
  return 0;
}

int
fp_lane_connect (struct fp_lane *lane, unsigned s,
                 const struct fp_transport_ops *ops, struct fp_conn_params *cp,
                 uint64_t deadline_ns)
{
  struct fp_conn *conn = NULL;
  int r;

  r = lane_queue (lane, ops);
  if (r < 0)
    return r;
  cp->lane = lane->index;
  cp->depth = lane->v->p.slots;
  r = ops->conn_open (&conn, lane->queues[__builtin_ctz (ops->bit)], cp,
                      deadline_ns);
  if (r < 0)
    return r;
  {
    LANE_LOCK_SCOPE (lane);
    assert (lane->conns[s].conn == NULL);
    lane->conns[s].conn = conn;
    lane->conns[s].unflushed = false;
  }
  fp_lane_wake (lane);
  return 0;
}

/* ---- fragments ---- */

static void
complete (struct fp_lane *lane, struct fp_io *io, int status)
{
  assert (!io->done && io->inflight == 0 && !io->queued);
  io->status = status;
  if (!io->forced) {
    uint64_t ns = fp_now_ns () - io->start_ns;

    if (status < 0) {
      count (&lane->errors, 1);
    }
    else if (io->kind == FP_IO_READ) {
      count (&lane->reads, 1);
      count (&lane->bytes_read, io->length);
      fp_hist_add_shared (&lane->read_ns, ns);
    }
    else {
      count (&lane->writes, 1);
      count (&lane->bytes_written, io->length);
      fp_hist_add_shared (&lane->write_ns, ns);
    }
  }
  atomic_fetch_sub_explicit (&lane->inflight, 1, memory_order_relaxed);
  if (!io->sync)
    list_push (&lane->completed, io);
  io->done = true;
  if (lane->sleepers > 0)
    pthread_cond_broadcast (&lane->cond);
}

static void
park (struct fp_lane *lane, struct fp_io *io)
{
  io->queued = true;
  list_push (&lane->parked, io);
}

/* Its last fragment came back, or it ended before it had any. */
static void
settle (struct fp_lane *lane, struct fp_io *io)
{
  if (io->inflight > 0 || io->queued)
    return;
  if (io->status < 0) {
    complete (lane, io, io->status);
  }
  else if (io->redo) {
    /* Reads and writes of the same bytes can be done twice. */
    io->redo = false;
    io->issued = 0;
    io->tries++;
    park (lane, io);
  }
  else if (io->issued == io->length) {
    complete (lane, io, 0);
  }
}

static void
frag_put (struct fp_lane *lane, struct frag *f)
{
  f->next = lane->free_frags;
  lane->free_frags = f;
}

static void
active_remove (struct fp_lane *lane, struct frag *f)
{
  if (f->prev != NULL)
    f->prev->next = f->next;
  else
    lane->active_head = f->next;
  if (f->next != NULL)
    f->next->prev = f->prev;
  else
    lane->active_tail = f->prev;
}

static void
active_append (struct fp_lane *lane, struct frag *f)
{
  f->next = NULL;
  f->prev = lane->active_tail;
  if (f->prev != NULL)
    f->prev->next = f;
  else
    lane->active_head = f;
  lane->active_tail = f;
}

/* The transfer is over: its slot may be used again. */
static void
frag_done (struct fp_lane *lane, struct frag *f)
{
  struct fp_pieces *t = lane->v->pieces;
  struct fp_io *io = f->io;
  int status = f->op.status;

  if (status == 0 && f->op.kind == FP_OP_READ && f->op.local != f->user)
    memcpy (f->user, f->op.local, f->op.length);
  active_remove (lane, f);
  fp_piece_leave (t, &t->p[f->piece]);
  fp_link_count (lane->v->links[f->server], f->op.kind, f->op.length, status);
  if (status < 0) {
    /* A broken connection is mended by its link, and the io starts over.
     * A transfer that was refused on a sound one would be refused again.
     */
    if (f->op.conn->ops->conn_broken (f->op.conn))
      io->redo = true;
    else
      io->status = -EIO;
    fp_link_poke (lane->v->links[f->server]);
  }
  io->inflight--;
  frag_put (lane, f);
  settle (lane, io);
}

enum issue { ISSUED, NO_SLOT, PARK, FAILED };

/* Start the transfer of a run that lies in one READY piece, which was
 * entered.  Returns its length, or 0 with *out saying why not.
 */
static uint32_t
issue_frag (struct fp_lane *lane, struct fp_io *io, uint64_t i, uint64_t in,
            uint32_t left, enum issue *out)
{
  struct fp_pieces *t = lane->v->pieces;
  struct fp_copy *copy = &t->p[i].copy;
  struct lane_conn *lc = &lane->conns[copy->server];
  const struct fp_transport_ops *ops;
  struct frag *f = lane->free_frags;
  int r;

  *out = PARK;
  if (lc->conn == NULL)
    return 0;
  ops = lc->conn->ops;
  *out = NO_SLOT;
  if (f == NULL)
    return 0;

  if (left > ops->max_transfer)
    left = ops->max_transfer;
  if (ops->registered && left > lane->v->p.slot_size)
    left = lane->v->p.slot_size;

  f->io = io;
  f->piece = i;
  f->server = copy->server;
  f->user = (unsigned char *) io->buf + io->issued;
  f->op.kind = io->kind == FP_IO_READ ? FP_OP_READ : FP_OP_WRITE;
  f->op.length = left;
  f->op.local = ops->registered ? f->slot : f->user;
  f->op.raddr = copy->remote.raddr + in;
  f->op.rkey = copy->remote.rkey;
  if (io->kind == FP_IO_WRITE) {
    fp_piece_set_written (t, i, in, left);
    if (ops->registered)
      memcpy (f->slot, f->user, left);
  }
  r = ops->post (lc->conn, &f->op);
  if (r == -EAGAIN)
    return 0;
  if (r < 0) {
    fp_link_poke (lane->v->links[copy->server]);
    *out = PARK;
    return 0;
  }
  lane->free_frags = f->next;
  f->deadline_ns = fp_now_ns () + (uint64_t) lane->v->p.timeout_ms * 1000000u;
  active_append (lane, f);
  if (io->kind == FP_IO_WRITE && ops->registered) {
    lc->unflushed = true;
    lc->flush_offset = (i << t->shift) + in;
  }
  lane->posted[__builtin_ctz (ops->bit)] = true;
  if (left >= EARLY_KICK)
    ops->kick (lc->conn->queue);
  io->inflight++;
  *out = ISSUED;
  return left;
}

static enum issue
fail_io (struct fp_io *io, int err)
{
  io->status = err;
  return FAILED;
}

/* Hand as much of io to fragments as there are. */
static enum issue
issue (struct fp_lane *lane, struct fp_io *io)
{
  struct fp_pieces *t = lane->v->pieces;

  while (io->issued < io->length && !io->redo && io->status == 0) {
    uint64_t offset = io->offset + io->issued;
    uint64_t i = offset >> t->shift, in = offset & (t->piece_size - 1);
    struct fp_piece *p = &t->p[i];
    unsigned char *user = (unsigned char *) io->buf + io->issued;
    uint64_t left = t->piece_size - in, run;
    enum issue why = ISSUED;

    if (left > io->length - io->issued)
      left = io->length - io->issued;

    switch (fp_piece_enter (t, p)) {
    case FP_PIECE_READY:
      break;
    case FP_PIECE_EMPTY:
      if (io->kind == FP_IO_READ) {
        memset (user, 0, left);
        io->issued += (uint32_t) left;
        continue;
      }
      if (io->asked && atomic_load (&p->err) != 0)
        return fail_io (io, atomic_load (&p->err));
      io->asked = true;
      fp_manager_want (lane->v, i);
      return PARK;
    case FP_PIECE_LOST:
      return fail_io (io, -EIO);
    case FP_PIECE_BUSY:
    case FP_PIECE_OFFLINE:
    default:
      return PARK;
    }

    io->asked = false;
    if (io->kind == FP_IO_READ && !io->forced &&
        !fp_piece_run (t, i, in, left, &run)) {
      memset (user, 0, run);
      io->issued += (uint32_t) run;
    }
    else if (p->copy.remote.map != NULL) {
      unsigned char *far = (unsigned char *) p->copy.remote.map + in;

      if (io->kind == FP_IO_READ) {
        memcpy (user, far, left);
      }
      else {
        fp_piece_set_written (t, i, in, left);
        memcpy (far, user, left);
      }
      io->issued += (uint32_t) left;
    }
    else {
      uint32_t n = issue_frag (lane, io, i, in, (uint32_t) left, &why);

      if (n > 0) { /* the fragment is inside the piece now */
        io->issued += n;
        continue;
      }
    }
    fp_piece_leave (t, p);
    if (why != ISSUED)
      return why;
  }
  return ISSUED;
}

static void
issue_pending (struct fp_lane *lane)
{
  struct fp_io *io;

  while ((io = lane->pending.head) != NULL) {
    enum issue r = issue (lane, io);

    if (r == NO_SLOT)
      return;
    list_pop (&lane->pending);
    io->queued = false;
    /* What is in flight finishes first; then settle takes all of it up
     * again from where it stood.
     */
    if (r == PARK && !io->redo && io->status == 0)
      park (lane, io);
    else
      settle (lane, io);
  }
}

static void
unpark_all (struct fp_lane *lane)
{
  struct fp_io *io;

  while ((io = list_pop (&lane->parked)) != NULL)
    list_push (&lane->pending, io);
}

/* Deadlines: break what is silent for too long, fail what waited in vain. */
static void
scan (struct fp_lane *lane, uint64_t now)
{
  uint64_t timeout = (uint64_t) lane->v->p.timeout_ms * 1000000u;
  struct fp_io *io;

  lane->next_scan_ns = now + SCAN_NS;
  for (struct frag *f = lane->active_head; f != NULL && f->deadline_ns <= now;
       f = f->next) {
    struct fp_conn *c = f->op.conn;

    if (!c->ops->conn_broken (c)) {
      c->ops->conn_break (c);
      fp_link_poke (lane->v->links[f->server]);
    }
  }

  while ((io = list_pop (&lane->parked)) != NULL) {
    /* Once it was in flight it gets the same time again, because then the
     * first part was spent on finding out that the server is silent.
     */
    uint64_t limit = io->start_ns + (io->tries > 0 ? 2 : 1) * timeout;

    if (now >= limit && io->inflight == 0) {
      io->queued = false;
      complete (lane, io, -EIO);
    }
    else {
      list_push (&lane->pending, io);
    }
  }
}

/* One round: collect, decide, issue.  Returns true if anything completed. */
static bool
progress (struct fp_lane *lane)
{
  bool any = false;
  uint64_t now;

  for (unsigned i = 0; i < NR_QUEUES; i++) {
    struct fp_op *op;

    if (lane->queues[i] == NULL)
      continue;
    while ((op = lane->queues[i]->ops->poll (lane->queues[i])) != NULL) {
      any = true;
      while (op != NULL) {
        struct fp_op *next = op->next;

        frag_done (lane, (struct frag *) op);
        op = next;
      }
    }
  }
  if (atomic_load_explicit (&lane->woken, memory_order_relaxed) &&
      atomic_exchange (&lane->woken, false)) {
    uint64_t n;

    /* Only a wake-up: nothing to do if somebody else read it. */
    if (read (lane->wake_fd, &n, sizeof n) == sizeof n)
      any = true;
    unpark_all (lane);
  }
  now = fp_now_ns ();
  if (now >= lane->next_scan_ns)
    scan (lane, now);
  issue_pending (lane);
  for (unsigned i = 0; i < NR_QUEUES; i++) {
    if (lane->posted[i]) {
      lane->posted[i] = false;
      lane->queues[i]->ops->kick (lane->queues[i]);
    }
  }
  return any;
}

/* ---- waiting ---- */

static bool
arm_queues (struct fp_lane *lane, struct pollfd *fds, nfds_t *nr)
{
  *nr = 0;
  fds[(*nr)++] = (struct pollfd) { .fd = lane->wake_fd, .events = POLLIN };
  for (unsigned i = 0; i < NR_QUEUES; i++) {
    struct fp_queue *q = lane->queues[i];

    if (q == NULL)
      continue;
    if (q->ops->arm (q))
      return true;
    if (q->ops->fd (q) >= 0)
      fds[(*nr)++] =
          (struct pollfd) { .fd = q->ops->fd (q), .events = POLLIN };
  }
  return false;
}

static bool
satisfied (const struct fp_lane *lane, const struct fp_io *io)
{
  if (io != NULL)
    return io->done;
  return lane->completed.head != NULL || lane->outstanding == 0;
}

/* Poll for everybody until what this thread waits for has come. */
static void
poll_for_all (struct fp_lane *lane, const struct fp_io *io)
{
  uint64_t start = fp_now_ns (), now = start;
  uint64_t budget = (uint64_t) lane->v->p.poll_us * 1000;
  struct pollfd fds[NR_QUEUES + 1];
  nfds_t nr;
  bool slept = false;

  /* Polling pays if the answer usually comes while we poll. */
  if (lane->wait_ewma_ns > budget + budget / 2)
    budget = 0;

  for (;;) {
    progress (lane);
    if (satisfied (lane, io))
      break;
    now = fp_now_ns ();
    if (atomic_load_explicit (&lane->knocking, memory_order_relaxed) > 0) {
      unlock (lane);
      sched_yield ();
      fp_lock (&lane->lock);
      continue;
    }
    if (now - start < budget)
      continue;
    if (arm_queues (lane, fds, &nr))
      continue;
    slept = true;
    unlock (lane);
    /* An error or a timeout both mean: look again. */
    (void) poll (fds, nr, SLEEP_MAX_MS);
    fp_lock (&lane->lock);
  }
  now = fp_now_ns ();
  lane->wait_ewma_ns += (now - start) / 8;
  lane->wait_ewma_ns -= lane->wait_ewma_ns / 8;
  count (slept ? &lane->sleeps : &lane->poll_hits, 1);
}

static void
wait_for (struct fp_lane *lane, const struct fp_io *io)
{
  while (!satisfied (lane, io)) {
    if (lane->polling) {
      struct timespec until;

      fp_timespec_after (&until, SLEEP_MAX_MS);
      lane->sleepers++;
      /* A timeout means only: look again. */
      (void) pthread_cond_timedwait (&lane->cond, &lane->lock, &until);
      lane->sleepers--;
      continue;
    }
    lane->polling = true;
    poll_for_all (lane, io);
    lane->polling = false;
    if (lane->sleepers > 0)
      pthread_cond_broadcast (&lane->cond);
  }
}

static void
enqueue (struct fp_lane *lane, struct fp_io *io)
{
  io->status = 0;
  io->issued = io->inflight = io->tries = 0;
  io->done = io->redo = io->asked = false;
  io->queued = true;
  count (&lane->inflight, 1);
  list_push (&lane->pending, io);
}

static bool
in_volume (const struct fp_lane *lane, uint64_t length, uint64_t offset)
{
  uint64_t size = lane->v->pieces->size;

  return length > 0 && offset <= size && length <= size - offset;
}

void
fp_lane_submit (struct fp_lane *lane, struct fp_io *io)
{
  io->sync = io->forced = false;
  io->start_ns = fp_now_ns ();
  LANE_LOCK_SCOPE (lane);
  lane->outstanding++;
  enqueue (lane, io);
  if (!in_volume (lane, io->length, io->offset) || io->length > FP_MAX_IO)
    io->status = -EINVAL;
}

struct fp_io *
fp_lane_poll (struct fp_lane *lane, bool wait)
{
  struct fp_io *ios;

  LANE_LOCK_SCOPE (lane);
  if (wait)
    wait_for (lane, NULL);
  else if (!lane->polling)
    progress (lane);
  ios = lane->completed.head;
  for (struct fp_io *io = ios; io != NULL; io = io->next)
    lane->outstanding--;
  list_init (&lane->completed);
  return ios;
}

static int
run_sync (struct fp_lane *lane, struct fp_io *io)
{
  io->sync = true;
  LANE_LOCK_SCOPE (lane);
  enqueue (lane, io);
  wait_for (lane, io);
  return io->status;
}

/* Loads and stores, where the piece is mapped: no lock, no fragment. */
static bool
copy_direct (struct fp_lane *lane, enum fp_io_kind kind, void *buf,
             uint32_t length, uint64_t offset)
{
  struct fp_pieces *t = lane->v->pieces;
  uint64_t i = offset >> t->shift, in = offset & (t->piece_size - 1);
  struct fp_piece *p = &t->p[i];
  bool did = false;
  uint64_t run;

  if (length > t->piece_size - in)
    return false;
  if (fp_piece_enter (t, p) != FP_PIECE_READY)
    return false;
  if (p->copy.remote.map != NULL) {
    unsigned char *far = (unsigned char *) p->copy.remote.map + in;

    did = true;
    if (kind == FP_IO_WRITE) {
      fp_piece_set_written (t, i, in, length);
      memcpy (far, buf, length);
    }
    else if (!fp_piece_run (t, i, in, length, &run) && run == length) {
      memset (buf, 0, length);
    }
    else {
      memcpy (buf, far, length);
    }
  }
  fp_piece_leave (t, p);
  return did;
}

static int
lane_io (struct fp_lane *lane, enum fp_io_kind kind, void *buf,
         uint32_t length, uint64_t offset)
{
  uint64_t start = fp_now_ns ();
  struct fp_io io;

  if (length == 0)
    return 0;
  if (!in_volume (lane, length, offset) || length > FP_MAX_IO)
    return -EINVAL;
  if (copy_direct (lane, kind, buf, length, offset)) {
    bool read = kind == FP_IO_READ;

    count (read ? &lane->reads : &lane->writes, 1);
    count (read ? &lane->bytes_read : &lane->bytes_written, length);
    fp_hist_add_shared (read ? &lane->read_ns : &lane->write_ns,
                        fp_now_ns () - start);
    return 0;
  }
  io = (struct fp_io) {
    .kind = kind,
    .length = length,
    .offset = offset,
    .buf = buf,
    .start_ns = start,
  };
  return run_sync (lane, &io);
}

int
fp_lane_read (struct fp_lane *lane, void *buf, uint32_t length,
              uint64_t offset)
{
  return lane_io (lane, FP_IO_READ, buf, length, offset);
}

int
fp_lane_write (struct fp_lane *lane, const void *buf, uint32_t length,
               uint64_t offset)
{
  /* A write does not change buf: see the kinds above. */
  return lane_io (lane, FP_IO_WRITE, (void *) (uintptr_t) buf, length, offset);
}

int
fp_lane_sync_read (struct fp_lane *lane, void *buf, uint32_t length,
                   uint64_t offset)
{
  struct fp_io io = {
    .kind = FP_IO_READ,
    .length = length,
    .offset = offset,
    .buf = buf,
    .forced = true,
    .start_ns = fp_now_ns (),
  };

  return run_sync (lane, &io);
}

/* ---- for the links and the manager ---- */

void
fp_lane_wake (struct fp_lane *lane)
{
  uint64_t one = 1;

  atomic_store (&lane->woken, true);
  /* The counter cannot overflow: it is read before. */
  if (write (lane->wake_fd, &one, sizeof one) == -1)
    assert (errno == EAGAIN);
}

void
fp_lane_help (struct fp_lane *lane)
{
  LANE_LOCK_SCOPE (lane);
  progress (lane);
}

bool
fp_lane_broken (struct fp_lane *lane, unsigned s)
{
  LANE_LOCK_SCOPE (lane);
  struct fp_conn *c = lane->conns[s].conn;

  return c != NULL && c->ops->conn_broken (c);
}

void
fp_lane_disconnect (struct fp_lane *lane, unsigned s)
{
  struct fp_conn *c;
  bool empty = false;

  {
    LANE_LOCK_SCOPE (lane);
    c = lane->conns[s].conn;
    if (c == NULL)
      return;
    c->ops->conn_break (c);
  }
  /* The completions come by themselves now (promise 9). */
  while (!empty) {
    struct pollfd fds[NR_QUEUES + 1];
    nfds_t nr;
    bool ready;

    {
      LANE_LOCK_SCOPE (lane);
      progress (lane);
      empty = c->ops->conn_inflight (c) == 0;
      if (empty) {
        lane->conns[s].conn = NULL;
        lane->conns[s].unflushed = false;
        break;
      }
      ready = arm_queues (lane, fds, &nr);
    }
    if (!ready)
      (void) poll (fds + 1, nr - 1, 1);
  }
  c->ops->conn_free (c);
}

int
fp_lane_event_fd (struct fp_lane *lane, unsigned s)
{
  LANE_LOCK_SCOPE (lane);
  struct fp_conn *c = lane->conns[s].conn;

  return c == NULL ? -1 : c->ops->conn_event_fd (c);
}

void
fp_lane_event (struct fp_lane *lane, unsigned s)
{
  LANE_LOCK_SCOPE (lane);
  struct fp_conn *c = lane->conns[s].conn;

  if (c != NULL)
    c->ops->conn_event (c);
}

bool
fp_lane_take_unflushed (struct fp_lane *lane, unsigned s, uint64_t *offset)
{
  LANE_LOCK_SCOPE (lane);
  struct lane_conn *lc = &lane->conns[s];
  bool was = lc->unflushed;

  lc->unflushed = false;
  *offset = lc->flush_offset;
  return was;
}

void
fp_lane_stats (struct fp_lane *lane, struct fp_lane_stats *st,
               struct fp_hist *reads, struct fp_hist *writes)
{
  st->reads += atomic_load (&lane->reads);
  st->writes += atomic_load (&lane->writes);
  st->errors += atomic_load (&lane->errors);
  st->bytes_read += atomic_load (&lane->bytes_read);
  st->bytes_written += atomic_load (&lane->bytes_written);
  st->inflight += atomic_load (&lane->inflight);
  st->poll_hits += atomic_load (&lane->poll_hits);
  st->sleeps += atomic_load (&lane->sleeps);
  fp_hist_merge (reads, &lane->read_ns);
  fp_hist_merge (writes, &lane->write_ns);
}

unsigned
fp_lane_users (const struct fp_lane *lane)
{
  return atomic_load (&lane->users);
}

unsigned
fp_lane_use (struct fp_lane *lane, int change)
{
  return atomic_fetch_add (&lane->users, (unsigned) change) +
         (unsigned) change;
}
