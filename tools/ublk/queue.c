/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.c - see queue.h. */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "tools/ublk/later.h"
#include "tools/ublk/queue.h"
#include "tools/common/ublk_uapi.h"

#define SECTOR_SHIFT 9
#define SEALED_THREADS 4 /* requests of a sealed volume at once, per queue */

/* Descriptors that the ring polls: those of the lane, and that of later. */
#define NR_FDS (FP_LANE_FDS + 1)
#define LATER_FD FP_LANE_FDS
/* user_data of their completions.  The others have that of a tag. */
#define OF_FD(i) (UINT64_MAX - (i))

struct tag {
  struct fp_io io; /* first: poll returns it */
  struct later_item later;
};

struct ublk_queue {
  struct ublk_queue_params p;
  struct fp_thread thread;
  struct fp_lane *lane;
  struct later *later;
  struct tag *tags;
  const struct ublksrv_io_desc *descs; /* one for each tag, by the kernel */
  size_t descs_size;
  /* The thread posts ready after each step, and waits for go before the next:
   * make the ring, fetch, serve.
   */
  sem_t ready, go;
  int err; /* what the last step returned */

  /* The thread's. */
  struct io_uring ring;
  unsigned with_kernel; /* tags that wait in the kernel for a request */
  unsigned in_lane;     /* ios in flight */
  unsigned in_later;
  int fds[NR_FDS];
  bool watched[NR_FDS];     /* the ring polls it */
  uint64_t latency_ewma_ns; /* how long the lane's ios take */
};

/* Return a free entry: the ring has one for each tag and each watch. */
static struct io_uring_sqe *
get_sqe (struct ublk_queue *q)
{
  struct io_uring_sqe *sqe = io_uring_get_sqe (&q->ring);

  assert (sqe != NULL);
  return sqe;
}

/* Give a tag to the kernel.  op: fetch, or commit the result and fetch. */
static void
give (struct ublk_queue *q, unsigned tag, unsigned op, int result)
{
  struct io_uring_sqe *sqe = get_sqe (q);
  struct ublksrv_io_cmd *cmd = (struct ublksrv_io_cmd *) sqe->cmd;

  memset (sqe, 0, sizeof *sqe);
  sqe->opcode = IORING_OP_URING_CMD;
  sqe->fd = q->p.device;
  sqe->cmd_op = op;
  sqe->user_data = tag;
  *cmd = (struct ublksrv_io_cmd) {
    .q_id = (uint16_t) q->p.index,
    .tag = (uint16_t) tag,
    .result = result,
    .addr = (uintptr_t) fp_lane_buffer (q->lane, tag),
  };
  q->with_kernel++;
}

/* Convert the result of a request.  The block layer knows few errors.  Only a
 * read or write has a length, of at most max_io.
 */
static int
result_of (const struct ublksrv_io_desc *d, int status)
{
  unsigned op = ublksrv_get_op (d);

  switch (status) {
  case 0:
    return op == UBLK_IO_OP_READ || op == UBLK_IO_OP_WRITE
               ? (int) (d->nr_sectors << SECTOR_SHIFT)
               : 0;
  case -EINVAL:
  case -ENOSPC:
    return status;
  default:
    return -EIO;
  }
}

static void
finish (struct ublk_queue *q, unsigned tag, int status)
{
  /* Commit all of it or an error: kernels differ in partial completions. */
  give (q, tag, UBLK_U_IO_COMMIT_AND_FETCH_REQ,
        result_of (&q->descs[tag], status));
}

static void
do_later (struct ublk_queue *q, unsigned tag, enum later_kind kind)
{
  const struct ublksrv_io_desc *d = &q->descs[tag];

  q->tags[tag].later = (struct later_item) {
    .kind = kind,
    .length = (uint64_t) d->nr_sectors << SECTOR_SHIFT,
    .offset = d->start_sector << SECTOR_SHIFT,
    .buf = fp_lane_buffer (q->lane, tag),
  };
  q->in_later++;
  later_push (q->later, &q->tags[tag].later);
}

static void
do_io (struct ublk_queue *q, unsigned tag, enum fp_io_kind kind)
{
  const struct ublksrv_io_desc *d = &q->descs[tag];
  struct fp_io *io = &q->tags[tag].io;
  int r;

  if (q->p.sealed) {
    do_later (q, tag, kind == FP_IO_READ ? LATER_READ : LATER_WRITE);
    return;
  }
  *io = (struct fp_io) {
    .kind = kind,
    .length = d->nr_sectors << SECTOR_SHIFT,
    .offset = d->start_sector << SECTOR_SHIFT,
    .buf = fp_lane_buffer (q->lane, tag),
  };
  r = fp_lane_submit (q->lane, io);
  if (r < 0)
    finish (q, tag, r);
  else
    q->in_lane++;
}

/* Start the request that the kernel has put into this tag. */
static void
begin (struct ublk_queue *q, unsigned tag)
{
  switch (ublksrv_get_op (&q->descs[tag])) {
  case UBLK_IO_OP_READ:
    do_io (q, tag, FP_IO_READ);
    break;
  case UBLK_IO_OP_WRITE:
    do_io (q, tag, FP_IO_WRITE);
    break;
  case UBLK_IO_OP_FLUSH:
    do_later (q, tag, LATER_FLUSH);
    break;
  case UBLK_IO_OP_DISCARD:
    do_later (q, tag, LATER_TRIM);
    break;
  case UBLK_IO_OP_WRITE_ZEROES:
    do_later (q, tag,
              q->descs[tag].op_flags & UBLK_IO_F_NOUNMAP ? LATER_ZERO
                                                         : LATER_TRIM);
    break;
  default:
    give (q, tag, UBLK_U_IO_COMMIT_AND_FETCH_REQ, -EOPNOTSUPP);
  }
}

/* any: set if there were some.  Return the error of a tag that the kernel did
 * not take.  Nothing but the end of this process can give it back.
 */
static int
take_completions (struct ublk_queue *q, bool *any)
{
  struct io_uring_cqe *cqe;
  unsigned head, n = 0;
  int err = 0;

  io_uring_for_each_cqe (&q->ring, head, cqe)
  {
    n++;
    if (cqe->user_data >= OF_FD (NR_FDS - 1))
      q->watched[OF_FD (0) - cqe->user_data] = false;
    else {
      q->with_kernel--;
      if (cqe->res == UBLK_IO_RES_OK)
        begin (q, (unsigned) cqe->user_data);
      else if (cqe->res != UBLK_IO_RES_ABORT) /* the device was stopped */
        err = cqe->res;
    }
  }
  io_uring_cq_advance (&q->ring, n);
  *any = n > 0;
  return err;
}

static bool
finish_ios (struct ublk_queue *q)
{
  struct fp_io *io = fp_lane_poll (q->lane, false), *next;
  bool any = io != NULL;

  for (; io != NULL; io = next) {
    uint64_t took = io->end_ns - io->start_ns;

    next = io->next;
    q->latency_ewma_ns += took / 8;
    q->latency_ewma_ns -= q->latency_ewma_ns / 8;
    q->in_lane--;
    finish (q, (unsigned) ((struct tag *) io - q->tags), io->status);
  }
  return any;
}

static bool
finish_later (struct ublk_queue *q)
{
  struct later_item *i = later_take (q->later), *next;
  bool any = i != NULL;

  for (; i != NULL; i = next) {
    const char *tag = (const char *) i - offsetof (struct tag, later);

    next = i->next;
    q->in_later--;
    finish (q, (unsigned) ((const struct tag *) tag - q->tags), i->status);
  }
  return any;
}

static void
watch (struct ublk_queue *q, unsigned i)
{
  struct io_uring_sqe *sqe;

  if (q->watched[i])
    return;
  sqe = get_sqe (q);
  io_uring_prep_poll_add (sqe, q->fds[i], POLLIN);
  sqe->user_data = OF_FD (i);
  q->watched[i] = true;
}

/* Return the longest time to poll for the lane's ios.  There is none if they
 * usually take much longer, or if another thread of this host has to do them.
 */
static uint64_t
poll_budget (const struct ublk_queue *q)
{
  uint64_t budget = (uint64_t) q->p.poll_us * 1000;

  if (q->latency_ewma_ns > budget + budget / 2 || !fp_lane_may_poll (q->lane))
    return 0;
  return budget;
}

/* Return the error of a system call on the ring, unless another call can
 * succeed.  Without memory for a request, let others free some: this thread
 * may have real-time priority.
 */
static int
checked (int r)
{
  if (r == -EAGAIN || r == -EBUSY)
    nanosleep (&(struct timespec) { .tv_nsec = 1000000 }, NULL);
  return r == -EINTR || r == -EAGAIN || r == -EBUSY || r >= 0 ? 0 : r;
}

/* Sleep until the kernel has a request or something is done. */
static int
sleep_for (struct ublk_queue *q)
{
  struct __kernel_timespec ts, *timeout = NULL;
  struct io_uring_cqe *cqe;
  uint64_t until = FP_NEVER, now;
  int r;

  if (q->in_lane > 0) {
    if (!fp_lane_sleep (q->lane, &until))
      return 0;
    for (unsigned i = 0; i < FP_LANE_FDS; i++)
      watch (q, i);
  }
  if (q->in_later > 0)
    watch (q, LATER_FD);
  if (until != FP_NEVER) {
    now = fp_now_ns ();
    until = until > now ? until - now : 0;
    ts = (struct __kernel_timespec) {
      .tv_sec = (long long) (until / FP_NS_PER_S),
      .tv_nsec = (long long) (until % FP_NS_PER_S),
    };
    timeout = &ts;
  }
  r = io_uring_submit_and_wait_timeout (&q->ring, &cqe, 1, timeout, NULL);
  return r == -ETIME ? 0 : checked (r);
}

/* Hand over what is ready, and let the kernel run what it has for this ring.
 */
static int
enter (struct ublk_queue *q)
{
  int r = 0;

  if (io_uring_sq_ready (&q->ring) > 0)
    r = io_uring_submit (&q->ring);
  else if (IO_URING_READ_ONCE (*q->ring.sq.kflags) & IORING_SQ_TASKRUN)
    r = io_uring_get_events (&q->ring);
  return checked (r);
}

static int
serve (struct ublk_queue *q)
{
  uint64_t since = 0; /* when polling began; 0: not now */
  int r = 0;

  while (q->with_kernel > 0 || q->in_lane > 0 || q->in_later > 0) {
    bool any;

    r = take_completions (q, &any);
    if (r < 0)
      break;
    if (q->in_lane > 0)
      any |= finish_ios (q);
    if (q->in_later > 0)
      any |= finish_later (q);
    if (any || q->in_lane == 0)
      since = 0;
    else if (since == 0)
      since = fp_mono_ns ();
    if (any || (since != 0 && fp_mono_ns () - since < poll_budget (q)))
      r = enter (q);
    else
      r = sleep_for (q);
    if (r < 0)
      break;
  }
  return r;
}

static int
make_ring (struct ublk_queue *q)
{
  struct io_uring_params p = {
    .flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
             IORING_SETUP_SINGLE_ISSUER,
  };

  return io_uring_queue_init_params (q->p.depth + NR_FDS, &q->ring, &p);
}

static int
fetch (struct ublk_queue *q)
{
  int r;

  for (unsigned tag = 0; tag < q->p.depth; tag++)
    give (q, tag, UBLK_U_IO_FETCH_REQ, -1);
  r = io_uring_submit (&q->ring);
  return r < 0 ? r : 0;
}

static void
wait_for (sem_t *sem)
{
  while (sem_wait (sem) == -1)
    ;
}

static void
run (void *arg)
{
  struct ublk_queue *q = arg;
  int r;

  q->err = make_ring (q);
  sem_post (&q->ready);
  wait_for (&q->go);
  q->err = fetch (q);
  sem_post (&q->ready);
  wait_for (&q->go);
  r = serve (q);
  if (r < 0) {
    /* The requests of this queue can only be answered by a new process: the
     * kernel gives them to it (UBLK_F_USER_RECOVERY_REISSUE).
     */
    fp_log (FP_LOG_ERROR, "error: queue %u: io_uring: %s", q->p.index,
            strerror (-r));
    _exit (EXIT_FAILURE);
  }
  io_uring_queue_exit (&q->ring);
}

static int
map_descs (struct ublk_queue *q)
{
  size_t page = (size_t) sysconf (_SC_PAGESIZE);
  size_t most = UBLK_MAX_QUEUE_DEPTH * sizeof *q->descs;
  void *m;

  /* The kernel has room for the greatest depth between two queues. */
  most = (most + page - 1) / page * page;
  q->descs_size = (q->p.depth * sizeof *q->descs + page - 1) / page * page;
  m = mmap (NULL, q->descs_size, PROT_READ, MAP_SHARED | MAP_POPULATE,
            q->p.device, (off_t) (UBLKSRV_CMD_BUF_OFFSET + q->p.index * most));
  if (m == MAP_FAILED)
    return -errno;
  q->descs = m;
  return 0;
}

static void
free_queue (struct ublk_queue *q)
{
  later_free (q->later);
  if (q->lane != NULL)
    fp_volume_lane_put (q->lane);
  if (q->descs != NULL)
    munmap ((void *) (uintptr_t) q->descs, q->descs_size);
  sem_destroy (&q->ready);
  sem_destroy (&q->go);
  free (q->tags);
  free (q);
}

int
ublk_queue_new (struct ublk_queue **out, const struct ublk_queue_params *p)
{
  struct ublk_queue *q = calloc (1, sizeof *q);
  char name[FP_THREAD_NAME_MAX + 1];
  int r = 0;

  if (q == NULL)
    return -ENOMEM;
  q->p = *p;
  sem_init (&q->ready, 0, 0);
  sem_init (&q->go, 0, 0);
  q->tags = calloc (p->depth, sizeof *q->tags);
  if (q->tags == NULL)
    r = -ENOMEM;
  q->lane = fp_volume_lane_get (p->volume);
  fp_lane_fds (q->lane, q->fds);
  snprintf (name, sizeof name, "fp-later-%u", p->index);
  if (r == 0)
    r = later_new (&q->later, q->lane, p->sealed ? SEALED_THREADS : 1, name);
  if (r == 0)
    q->fds[LATER_FD] = later_fd (q->later);
  snprintf (name, sizeof name, "fp-ublk-%u", p->index);
  if (r == 0)
    r = fp_thread_create (&q->thread, name, run, q);
  if (r < 0) {
    free_queue (q);
    return r;
  }
  wait_for (&q->ready);
  *out = q;
  return q->err;
}

/* From the first map on, the kernel lets no other process map.  It begins
 * another recovery only if all queues were fetched since the last one began.
 * So fetch all at once, and then map.  A process that dies before or after the
 * fetch can be replaced.
 */
int
ublk_queues_start (struct ublk_queue *queues[], unsigned n)
{
  int r = 0;

  for (unsigned i = 0; i < n; i++)
    sem_post (&queues[i]->go);
  for (unsigned i = 0; i < n; i++) {
    wait_for (&queues[i]->ready);
    r = r < 0 ? r : queues[i]->err;
  }
  for (unsigned i = 0; r == 0 && i < n; i++)
    r = map_descs (queues[i]);
  for (unsigned i = 0; r == 0 && i < n; i++)
    sem_post (&queues[i]->go);
  return r;
}

void
ublk_queue_free (struct ublk_queue *q)
{
  if (q == NULL)
    return;
  fp_thread_join (&q->thread);
  free_queue (q);
}
