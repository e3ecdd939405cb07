/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_bench.c - see verbs_bench.h. */

#include <config.h>

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "transport/verbs_bench.h"
#include "transport/verbs_cm.h"
#include "transport/verbs_connect.h"
#include "transport/verbs_device.h"
#include "transport/verbs_err.h"

#define CONNECT_MS 5000
#define POLL_NS 50000 /* ns; the far end polls this long, then sleeps */
#define SLEEP_MS 50   /* ms; then it checks whether to stop */
#define BATCH 16

/* Header of a two-sided request; a write's data follows. */
struct request {
  uint64_t offset;
  uint32_t size;
  uint32_t write;
};

/* One end of the connection. */
struct end {
  struct rdma_event_channel *events;
  struct rdma_cm_id *id;
  bool has_qp;
  unsigned sends; /* SENDs posted so far */
  struct ibv_comp_channel *channel;
  struct ibv_cq *cq;
  struct ibv_mr *mr;
  unsigned char *memory;
  size_t size;
};

struct fp_verbs_bench {
  struct fp_verbs_bench_params p;
  struct fp_verbs_device *device;
  struct ibv_pd *pd;
  bool atomics;
  struct rdma_cm_id *listener;
  struct end near, far;
  struct fp_thread thread;
  bool runs;
  atomic_bool stop;
  _Atomic int far_err;
  size_t stride; /* bytes of a slot: a request and max_size */
};

static void
end_free (struct end *e)
{
  /* Destroying one end disconnects the other; do not wait for that. */
  if (e->id != NULL && e->has_qp)
    rdma_destroy_qp (e->id);
  if (e->id != NULL)
    rdma_destroy_id (e->id);
  if (e->cq != NULL)
    ibv_destroy_cq (e->cq);
  if (e->channel != NULL)
    ibv_destroy_comp_channel (e->channel);
  if (e->mr != NULL)
    ibv_dereg_mr (e->mr);
  if (e->memory != NULL)
    munmap (e->memory, e->size);
}

void
fp_verbs_bench_free (struct fp_verbs_bench *b)
{
  if (b == NULL)
    return;
  atomic_store (&b->stop, true);
  if (b->runs)
    fp_thread_join (&b->thread);
  end_free (&b->near);
  end_free (&b->far);
  if (b->listener != NULL)
    rdma_destroy_id (b->listener);
  fp_cm_channel_freep (&b->near.events);
  fp_cm_channel_freep (&b->far.events);
  fp_verbs_device_putp (&b->device);
  free (b);
}

static void
bench_freep (struct fp_verbs_bench **bp)
{
  fp_verbs_bench_free (*bp);
}

static int
wait_event (struct rdma_event_channel *events, enum rdma_cm_event_type wanted,
            struct fp_cm_event *e, uint64_t deadline)
{
  int err = fp_cm_wait (events, e, deadline);

  if (err == 0 && e->type != wanted)
    err = fp_cm_meaning (e->type) == FP_CM_DEAD ? fp_cm_errno (e) : -EPROTO;
  return err;
}

static int
end_memory (struct fp_verbs_bench *b, struct end *e, size_t size, int access)
{
  void *p = mmap (NULL, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

  if (p == MAP_FAILED)
    return -errno;
  e->memory = p;
  e->size = size;
  e->mr = ibv_reg_mr (b->pd, p, size, access);
  return e->mr == NULL ? fp_verbs_null () : 0;
}

static int
end_qp (struct fp_verbs_bench *b, struct end *e)
{
  unsigned wrs = 4 * b->p.slots;
  struct ibv_qp_init_attr a = {
    .cap = { .max_send_wr = wrs,
             .max_recv_wr = wrs,
             .max_send_sge = 1,
             .max_recv_sge = 1 },
    .qp_type = IBV_QPT_RC,
  };
  int err;

  e->channel = ibv_create_comp_channel (b->device->context);
  if (e->channel == NULL)
    return fp_verbs_null ();
  e->cq =
      ibv_create_cq (b->device->context, (int) (2 * wrs), NULL, e->channel, 0);
  if (e->cq == NULL)
    return fp_verbs_null ();
  a.send_cq = a.recv_cq = e->cq;
  err = fp_rdma_ret (rdma_create_qp (e->id, b->pd, &a));
  e->has_qp = err == 0;
  return err;
}

static unsigned char *
slot_memory (struct fp_verbs_bench *b, unsigned slot)
{
  return b->near.memory + slot * b->stride;
}

/* Return the far end's i-th request buffer; these lie behind the region. */
static unsigned char *
far_buffer (struct fp_verbs_bench *b, unsigned i)
{
  return b->far.memory + b->p.region + i * b->stride;
}

static int
post_recv (struct end *e, void *memory, size_t size, uint64_t id)
{
  struct ibv_sge sge = { (uintptr_t) memory, (uint32_t) size, e->mr->lkey };
  struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

  return fp_verbs_ret (ibv_post_recv (e->id->qp, &wr, &bad));
}

/* Post a SEND.  Its completion is not awaited, so only every slots-th SEND is
 * signaled: that completion frees room in the queue.
 */
static int
post_send (struct fp_verbs_bench *b, struct end *e, void *memory, size_t size)
{
  bool signaled = ++e->sends % b->p.slots == 0;
  struct ibv_sge sge = { (uintptr_t) memory, (uint32_t) size, e->mr->lkey };
  struct ibv_send_wr wr = { .sg_list = &sge,
                            .num_sge = 1,
                            .opcode = IBV_WR_SEND,
                            .send_flags = signaled ? IBV_SEND_SIGNALED : 0 },
                     *bad;

  return fp_verbs_ret (ibv_post_send (e->id->qp, &wr, &bad));
}

/* ---- the far end of a two-sided transfer ---- */

static int
answer (struct fp_verbs_bench *b, unsigned i)
{
  unsigned char *buffer = far_buffer (b, i), *data;
  struct request q;
  uint32_t size;
  int err;

  memcpy (&q, buffer, sizeof q);
  if (q.size > b->p.max_size || q.offset > b->p.region - q.size)
    return -EPROTO;
  data = b->far.memory + q.offset;
  if (q.write)
    memcpy (data, buffer + sizeof q, q.size);
  size = q.write ? 1 : q.size;
  /* Post the RECV first, because the reply lets the next request be sent. */
  err = post_recv (&b->far, buffer, b->stride, i);
  return err == 0 ? post_send (b, &b->far, data, size) : err;
}

static int
sleep_until_event (struct end *e)
{
  struct pollfd p = { .fd = e->channel->fd, .events = POLLIN };
  struct ibv_cq *cq;
  void *context;

  if (poll (&p, 1, SLEEP_MS) != 1)
    return 0;
  if (ibv_get_cq_event (e->channel, &cq, &context) != 0)
    return fp_rdma_ret (-1);
  ibv_ack_cq_events (cq, 1);
  return 0;
}

static int
serve (struct fp_verbs_bench *b)
{
  const uint64_t poll_ns = b->device->software ? 0 : POLL_NS;
  uint64_t last = fp_now_ns ();
  bool armed = false;
  int err = 0;

  while (err == 0 && !atomic_load (&b->stop)) {
    struct ibv_wc wc[BATCH];
    int n = ibv_poll_cq (b->far.cq, BATCH, wc);

    if (n < 0)
      return -EIO;
    for (int i = 0; err == 0 && i < n; i++) {
      err = fp_wc_errno (wc[i].status);
      if (err == 0 && wc[i].opcode == IBV_WC_RECV)
        err = answer (b, (unsigned) wc[i].wr_id);
    }
    if (n > 0) {
      last = fp_now_ns ();
    }
    else if (armed) {
      err = sleep_until_event (&b->far);
      armed = false;
      last = fp_now_ns ();
    }
    else if (fp_now_ns () - last > poll_ns) {
      /* Poll once more after requesting an event, before waiting for it. */
      err = fp_verbs_ret (ibv_req_notify_cq (b->far.cq, 0));
      armed = true;
    }
  }
  return err;
}

static void
far_thread (void *arg)
{
  struct fp_verbs_bench *b = arg;

  atomic_store (&b->far_err, serve (b));
}

/* ---- connecting ---- */

static int
listen_on (struct fp_verbs_bench *b, struct fp_addr *where)
{
  struct fp_sockaddrs names;
  int err = fp_cm_channel_new (&b->far.events);

  if (err == 0)
    err = fp_addr_resolve (b->p.addr, &names, NULL);
  if (err == 0)
    err = fp_rdma_ret (
        rdma_create_id (b->far.events, &b->listener, NULL, RDMA_PS_TCP));
  if (err == 0)
    err = fp_rdma_ret (
        rdma_bind_addr (b->listener, (struct sockaddr *) &names.list[0].addr));
  if (err == 0 && b->listener->verbs == NULL)
    err = -ENODEV;
  if (err == 0)
    err = fp_rdma_ret (rdma_listen (b->listener, 1));
  if (err == 0) {
    *where = *b->p.addr;
    where->port = ntohs (rdma_get_src_port (b->listener));
  }
  return err;
}

static int
make_ends (struct fp_verbs_bench *b)
{
  struct ibv_device_attr attr;
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
               IBV_ACCESS_REMOTE_WRITE;
  size_t slots = b->stride * b->p.slots;
  int err = fp_verbs_device_get (&b->device, b->near.id->verbs);

  if (err == 0)
    err = fp_verbs_device_pd (b->device, &b->pd);
  if (err == 0)
    err = fp_verbs_ret (ibv_query_device (b->device->context, &attr));
  if (err != 0)
    return err;
  b->atomics = attr.atomic_cap != IBV_ATOMIC_NONE;
  if (b->atomics)
    access |= IBV_ACCESS_REMOTE_ATOMIC;
  err =
      end_memory (b, &b->near, slots,
                  fp_verbs_local_access (b->device) | IBV_ACCESS_LOCAL_WRITE);
  if (err == 0)
    err = end_memory (b, &b->far, b->p.region + slots, access);
  return err == 0 ? end_qp (b, &b->near) : err;
}

static int
join_ends (struct fp_verbs_bench *b, uint64_t deadline)
{
  struct rdma_conn_param param = {
    .initiator_depth = b->device->max_initiator_depth,
    .responder_resources = b->device->max_responder_resources,
    .retry_count = FP_VERBS_RETRIES,
    .rnr_retry_count = FP_VERBS_RETRIES,
  };
  struct fp_cm_event e;
  int err = fp_rdma_ret (rdma_connect (b->near.id, &param));

  if (err == 0)
    err = wait_event (b->far.events, RDMA_CM_EVENT_CONNECT_REQUEST, &e,
                      deadline);
  if (err != 0)
    return err;
  b->far.id = e.id;
  err = end_qp (b, &b->far);
  for (unsigned i = 0; err == 0 && b->p.two_sided && i < b->p.slots; i++)
    err = post_recv (&b->far, far_buffer (b, i), b->stride, i);
  if (err == 0)
    err = fp_rdma_ret (rdma_accept (b->far.id, &param));
  if (err == 0)
    err = wait_event (b->near.events, RDMA_CM_EVENT_ESTABLISHED, &e, deadline);
  if (err == 0)
    err = wait_event (b->far.events, RDMA_CM_EVENT_ESTABLISHED, &e, deadline);
  return err;
}

int
fp_verbs_bench_new (struct fp_verbs_bench **out,
                    const struct fp_verbs_bench_params *p)
{
  FP_CLEANUP (bench_freep) struct fp_verbs_bench *b = calloc (1, sizeof *b);
  struct fp_addr where;
  int err;

  if (b == NULL)
    return -ENOMEM;
  b->p = *p;
  b->stride =
      fp_round_down (sizeof (struct request) + p->max_size + 4095, 4096);
  err = listen_on (b, &where);
  if (err == 0)
    err = fp_cm_channel_new (&b->near.events);
  if (err == 0)
    err = fp_verbs_resolve (&b->near.id, b->near.events, &where, CONNECT_MS,
                            fp_deadline_in_ms (CONNECT_MS));
  /* Populating a large region takes long, so no deadline covers it. */
  if (err == 0)
    err = make_ends (b);
  if (err == 0)
    err = join_ends (b, fp_deadline_in_ms (CONNECT_MS));
  if (err == 0 && p->two_sided) {
    err = fp_thread_create (&b->thread, "bench-far", far_thread, b);
    b->runs = err == 0;
  }
  if (err != 0)
    return err;
  *out = FP_STEAL (b);
  return 0;
}

/* ---- transfers ---- */

static int
post_two_sided (struct fp_verbs_bench *b, enum fp_verbs_bench_op op,
                unsigned slot, uint32_t size, uint64_t offset)
{
  struct request q = { offset, size, op == FP_VERBS_BENCH_WRITE };
  unsigned char *memory = slot_memory (b, slot);
  int err;

  /* Replies arrive in the order of requests, so this RECV gets this request's
   * reply.  It must not overwrite the request, which may still be in use.
   */
  memcpy (memory, &q, sizeof q);
  err = post_recv (&b->near, memory + sizeof q, b->p.max_size, slot);
  if (err != 0)
    return err;
  return post_send (b, &b->near, memory, sizeof q + (q.write ? size : 0));
}

int
fp_verbs_bench_post (struct fp_verbs_bench *b, enum fp_verbs_bench_op op,
                     unsigned slot, uint32_t size, uint64_t offset)
{
  uint64_t raddr = (uintptr_t) b->far.memory + offset;
  struct ibv_sge sge = { (uintptr_t) slot_memory (b, slot), size,
                         b->near.mr->lkey };
  struct ibv_send_wr wr = { .wr_id = slot,
                            .sg_list = &sge,
                            .num_sge = 1,
                            .send_flags = IBV_SEND_SIGNALED };
  struct ibv_send_wr *bad;

  if (b->p.two_sided)
    return post_two_sided (b, op, slot, size, offset);
  if (op == FP_VERBS_BENCH_CAS) {
    if (!b->atomics)
      return -EOPNOTSUPP;
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic.remote_addr = raddr;
    wr.wr.atomic.rkey = b->far.mr->rkey;
    wr.wr.atomic.swap = slot;
  }
  else {
    wr.opcode =
        op == FP_VERBS_BENCH_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = raddr;
    wr.wr.rdma.rkey = b->far.mr->rkey;
  }
  return fp_verbs_ret (ibv_post_send (b->near.id->qp, &wr, &bad));
}

int
fp_verbs_bench_wait (struct fp_verbs_bench *b, unsigned *slots, unsigned max)
{
  struct ibv_wc wc[BATCH];
  int batch = (int) FP_MIN (max, (unsigned) BATCH);
  int n = ibv_poll_cq (b->near.cq, batch, wc);
  int nr = 0, err = atomic_load (&b->far_err);

  if (n == 0 && err == 0 && b->device->software) {
    err = fp_verbs_ret (ibv_req_notify_cq (b->near.cq, 0));
    n = ibv_poll_cq (b->near.cq, batch, wc);
    if (n == 0 && err == 0)
      err = sleep_until_event (&b->near);
  }
  if (n < 0)
    return -EIO;
  for (int i = 0; err == 0 && i < n; i++) {
    err = fp_wc_errno (wc[i].status);
    if (!b->p.two_sided || wc[i].opcode == IBV_WC_RECV)
      slots[nr++] = (unsigned) wc[i].wr_id;
  }
  return err < 0 ? err : nr;
}

int
fp_verbs_bench_far_ns (struct fp_verbs_bench *b, uint64_t *ns)
{
  struct timespec ts = { 0, 0 };
  clockid_t clock;
  int r;

  if (b->runs) {
    r = pthread_getcpuclockid (b->thread.id, &clock);
    if (r != 0)
      return -r;
    if (clock_gettime (clock, &ts) == -1)
      return -errno;
  }
  *ns = (uint64_t) ts.tv_sec * FP_NS_PER_S + (uint64_t) ts.tv_nsec;
  return 0;
}
