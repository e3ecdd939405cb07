/* SPDX-License-Identifier: BSD-3-Clause */
/* backup_disk.c - the thread that moves what is in the ring of a backup to the
 * disk, and what is read from there.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "volume/backup_int.h"

/* ---- what is to be done, with the lock held ---- */

static struct transfer *
transfer_get (struct fp_backup *b, enum transfer_kind kind)
{
  for (unsigned i = 0; i < TRANSFERS; i++) {
    struct transfer *t = &b->transfers[i];

    if (t->busy)
      continue;
    t->kind = kind;
    t->busy = true;
    t->since_ns = fp_now_ns ();
    t->slots = NULL;
    t->fetch = NULL;
    t->first = t->nr_iov = 0;
    t->length = 0;
    return t;
  }
  return NULL; /* there is one for each that can be in flight */
}

static unsigned
nr_busy (const struct fp_backup *b, enum transfer_kind kind)
{
  unsigned n = 0;

  for (unsigned i = 0; i < TRANSFERS; i++)
    n += b->transfers[i].busy && b->transfers[i].kind == kind;
  return n;
}

static void
add_iov (struct transfer *t, void *data, uint64_t length)
{
  t->iov[t->nr_iov++] = (struct iovec) { .iov_base = data, .iov_len = length };
  t->length += length;
}

/* The ring has room for all that is ever in flight. */
static void
submit (struct fp_backup *b, struct transfer *t)
{
  struct io_uring_sqe *sqe = io_uring_get_sqe (&b->ring);

  assert (sqe != NULL);
  switch (t->kind) {
  case WAKE:
    io_uring_prep_read (sqe, b->wake_fd, &b->woken, sizeof b->woken, 0);
    break;
  case WRITE:
  case HEADER:
    io_uring_prep_writev (sqe, b->fd, t->iov + t->first, t->nr_iov - t->first,
                          t->at);
    if (t->kind == HEADER)
      sqe->rw_flags = RWF_DSYNC;
    break;
  case READ:
    io_uring_prep_readv (sqe, b->fd, t->iov + t->first, t->nr_iov - t->first,
                         t->at);
    break;
  case SYNC:
    io_uring_prep_fsync (sqe, b->fd, IORING_FSYNC_DATASYNC);
    break;
  }
  io_uring_sqe_set_data (sqe, t);
}

static struct slot *
queue_pop (struct fp_backup *b)
{
  struct slot *s = b->queue;

  b->queue = s->next;
  if (b->queue == NULL)
    b->queue_tail = &b->queue;
  s->next = NULL;
  return s;
}

/* The next blocks of the queue that are neighbours. */
static void
start_write (struct fp_backup *b)
{
  struct transfer *t = transfer_get (b, WRITE);
  struct slot **tail = &t->slots;
  uint64_t next = b->queue->block;

  t->at = DATA_AT + next * BLOCK;
  t->seq = b->queue->seq;
  while (b->queue != NULL && b->queue->block == next && !b->queue->waits &&
         !b->queue->dead && t->nr_iov < MERGE) {
    struct slot *s = queue_pop (b);

    s->flying = true;
    *tail = s;
    tail = &s->next;
    add_iov (t, s->data, BLOCK);
    next++;
  }
  submit (b, t);
}

static void
start_writes (struct fp_backup *b)
{
  unsigned busy = nr_busy (b, WRITE);

  if (b->queue == NULL)
    b->writing = false;
  else if (backup_is_due (b) || b->sync_wanted > b->synced || b->stop ||
           fp_now_ns () - b->queued_ns > LOOK_MS * FP_NS_PER_MS)
    b->writing = true;
  if (!b->writing)
    return;
  while (b->queue != NULL && !b->queue->waits) {
    if (b->queue->dead) {
      backup_slot_done (b, queue_pop (b));
      pthread_cond_broadcast (&b->cond);
      continue;
    }
    if (busy++ == DEPTH)
      return;
    start_write (b);
  }
}

static void
start_reads (struct fp_backup *b)
{
  for (unsigned i = 0; i < FETCHES; i++) {
    struct fetch *f = &b->fetches[i];
    struct transfer *t;

    if (f->state != FETCH_WANTED)
      continue;
    f->state = FETCH_FLYING;
    t = transfer_get (b, READ);
    t->fetch = f;
    t->at = f->at;
    add_iov (t, f->data, f->length);
    submit (b, t);
  }
}

/* All until here, and no more, has landed. */
static uint64_t
landed (const struct fp_backup *b)
{
  uint64_t seq = b->queue != NULL ? b->queue->seq - 1 : b->seq;

  for (unsigned i = 0; i < TRANSFERS; i++) {
    const struct transfer *t = &b->transfers[i];

    if (t->busy && t->kind == WRITE)
      seq = FP_MIN (seq, t->seq - 1);
  }
  return seq;
}

static void
start_sync (struct fp_backup *b)
{
  struct transfer *t;
  uint64_t until = landed (b);

  if (b->sync_wanted <= b->synced || until < b->sync_wanted ||
      nr_busy (b, SYNC) > 0)
    return;
  t = transfer_get (b, SYNC);
  t->seq = until;
  submit (b, t);
}

static void
start_header (struct fp_backup *b)
{
  struct transfer *t;

  if (b->state == FILE_CHANGING || b->state == b->state_wanted)
    return;
  backup_header (b, b->state_wanted);
  b->state = FILE_CHANGING;
  t = transfer_get (b, HEADER);
  t->state = b->state_wanted;
  t->at = 0;
  add_iov (t, b->header, BLOCK);
  submit (b, t);
}

static void
start_all (struct fp_backup *b)
{
  if (nr_busy (b, WAKE) == 0)
    submit (b, transfer_get (b, WAKE));
  if (atomic_load (&b->failed))
    return;
  start_reads (b);
  start_header (b);
  start_writes (b);
  start_sync (b);
}

/* ---- what was done, with the lock held ---- */

/* Some of it was done: the rest of it.  False: there is none. */
static bool
go_on (struct transfer *t, uint64_t n)
{
  t->at += n;
  t->length -= n;
  while (n > 0 && t->first < t->nr_iov) {
    struct iovec *v = &t->iov[t->first];
    uint64_t k = FP_MIN (n, (uint64_t) v->iov_len);

    v->iov_base = (unsigned char *) v->iov_base + k;
    v->iov_len -= k;
    n -= k;
    if (v->iov_len == 0)
      t->first++;
  }
  return t->length > 0;
}

static void
fetch_done (struct fp_backup *b, struct fetch *f, int result)
{
  f->result = result;
  f->state = f->left ? FETCH_FREE : FETCH_DONE;
  if (result == 0)
    b->bytes_read += f->length;
}

static void
end_write (struct fp_backup *b, struct transfer *t)
{
  while (t->slots != NULL) {
    struct slot *s = t->slots;

    t->slots = s->next;
    b->bytes_written += BLOCK;
    backup_slot_done (b, s);
  }
}

static const char *
name_of (enum transfer_kind kind)
{
  switch (kind) {
  case READ:
    return "read";
  case SYNC:
    return "flush";
  case WRITE:
  case HEADER:
  case WAKE:
    break;
  }
  return "write";
}

static void
transfer_done (struct fp_backup *b, struct transfer *t, int res)
{
  bool moves = t->kind == READ || t->kind == WRITE || t->kind == HEADER;

  if (t->kind == WAKE) {
    t->busy = false;
    return;
  }
  b->progress_ns = fp_now_ns ();
  if (res == -EINTR || res == -EAGAIN ||
      (moves && res > 0 && go_on (t, (uint64_t) res))) {
    submit (b, t);
    return;
  }
  /* Nothing, where something is due: the file was cut, or the disk is full. */
  if (moves && res == 0)
    res = -EIO;
  t->busy = false;
  if (res < 0)
    backup_fail (b, res, name_of (t->kind));
  else if (t->kind == WRITE)
    end_write (b, t);
  else if (t->kind == SYNC)
    b->synced = t->seq;
  else if (t->kind == HEADER)
    b->state = t->state;
  if (t->kind == READ)
    fetch_done (b, t->fetch, res < 0 ? res : 0);
  pthread_cond_broadcast (&b->cond);
}

static bool
in_flight (const struct fp_backup *b)
{
  for (unsigned i = 0; i < TRANSFERS; i++)
    if (b->transfers[i].busy && b->transfers[i].kind != WAKE)
      return true;
  return false;
}

static void
look_for_stuck (struct fp_backup *b)
{
  uint64_t now = fp_now_ns ();

  for (unsigned i = 0; i < TRANSFERS; i++) {
    struct transfer *t = &b->transfers[i];

    if (t->busy && t->kind != WAKE &&
        now - t->since_ns > b->p.stuck_ms * FP_NS_PER_MS)
      backup_fail (b, -ETIMEDOUT, name_of (t->kind));
  }
}

/* ---- the thread ---- */

/* With the lock held: until something ends, or for a while. */
static void
pause_a_little (struct fp_backup *b)
{
  struct timespec until;

  fp_timespec_after (&until, FP_MIN (b->p.stuck_ms, 100u));
  /* A timeout means only: look again. */
  (void) pthread_cond_timedwait (&b->cond, &b->lock, &until);
}

void
backup_kick (struct fp_backup *b)
{
  uint64_t one = 1;

  if (!b->asleep)
    return;
  b->asleep = false;
  /* Only a counter that is full refuses, and then it is readable. */
  if (write (b->wake_fd, &one, sizeof one) == -1)
    assert (errno == EAGAIN);
}

/* With the lock held.  False: there is nothing left to do, ever. */
static bool
goes_on (struct fp_backup *b)
{
  if (!b->stop || in_flight (b))
    return true;
  if (atomic_load (&b->failed))
    return false;
  if (b->state != b->state_wanted)
    return true;
  if (!b->drain)
    return false;
  b->sync_wanted = b->seq;
  return b->queue != NULL || b->synced < b->seq;
}

static void
collect (struct fp_backup *b)
{
  struct io_uring_cqe *cqe;

  FP_LOCK_SCOPE (&b->lock);
  b->asleep = false;
  while (io_uring_peek_cqe (&b->ring, &cqe) == 0) {
    transfer_done (b, io_uring_cqe_get_data (cqe), cqe->res);
    io_uring_cqe_seen (&b->ring, cqe);
  }
  look_for_stuck (b);
}

static void
move_all (struct fp_backup *b)
{
  struct __kernel_timespec ts = { .tv_nsec = LOOK_MS * 1000000 };
  uint64_t give_up = 0;

  for (;;) {
    struct io_uring_cqe *cqe;
    int r;

    {
      FP_LOCK_SCOPE (&b->lock);
      if (!goes_on (b))
        break;
      if (b->stop && give_up == 0)
        give_up = fp_deadline_in_ms (b->p.stuck_ms);
      if (b->stop && atomic_load (&b->failed) && fp_deadline_passed (give_up))
        break;
      start_all (b);
      b->asleep = true;
    }
    /* A timeout, or a signal that nobody is meant to get: look again. */
    r = io_uring_submit (&b->ring);
    if (r >= 0 || r == -EBUSY || r == -EAGAIN || r == -EINTR)
      (void) io_uring_wait_cqe_timeout (&b->ring, &cqe, &ts);
    else {
      FP_LOCK_SCOPE (&b->lock);
      backup_fail (b, r, "io_uring");
      if (b->stop)
        break;
      pause_a_little (b);
    }
    collect (b);
  }
}

static void
run (void *arg)
{
  struct fp_backup *b = arg;

  move_all (b);
  FP_LOCK_SCOPE (&b->lock);
  b->ended = true;
  pthread_cond_broadcast (&b->cond);
}

int
backup_disk_start (struct fp_backup *b, char why[FP_WHY_MAX])
{
  int r;

  b->wake_fd = eventfd (0, EFD_CLOEXEC);
  if (b->wake_fd == -1) {
    r = -errno;
    snprintf (why, FP_WHY_MAX, "eventfd: %s", strerror (-r));
    return r;
  }
  r = io_uring_queue_init (2 * TRANSFERS, &b->ring, 0);
  if (r < 0) {
    snprintf (why, FP_WHY_MAX, "backup=%s: io_uring: %s", b->p.path,
              strerror (-r));
    return r;
  }
  r = fp_thread_create (&b->thread, "fp-backup", run, b);
  if (r < 0) {
    snprintf (why, FP_WHY_MAX, "thread: %s", strerror (-r));
    io_uring_queue_exit (&b->ring);
  }
  return r;
}

/* With the lock held.  The thread itself gives up when the disk does not move
 * for stuck_ms; but it may be in the kernel, and not come back.
 */
static bool
await_end (struct fp_backup *b)
{
  uint64_t start = fp_now_ns (), since;

  while (!b->ended) {
    pause_a_little (b);
    since = FP_MAX (start, b->progress_ns);
    if (fp_now_ns () - since > 3 * b->p.stuck_ms * FP_NS_PER_MS)
      break;
  }
  return b->ended && !in_flight (b);
}

bool
backup_disk_stop (struct fp_backup *b, bool drain, bool discard)
{
  uint64_t one = 1;
  bool over;

  {
    FP_LOCK_SCOPE (&b->lock);
    b->stop = true;
    b->drain = drain;
    if (discard)
      b->state_wanted = FILE_FREE; /* if that fails it is overwritten, too */
    if (write (b->wake_fd, &one, sizeof one) == -1)
      assert (errno == EAGAIN);
    over = await_end (b);
  }
  /* A thread does not end while a request that it has made sleeps in the
   * kernel, so it is not waited for.
   */
  if (!over) {
    (void) pthread_detach (b->thread.id);
    return false;
  }
  if (fp_thread_join (&b->thread) < 0)
    return false;
  io_uring_queue_exit (&b->ring);
  return true;
}
