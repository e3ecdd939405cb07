/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_client.c - the shm transport: slabs of a server on this machine, mapped
 * from memfds that came over its Unix socket.  An op is a copy, finished when
 * post returns.  There is no data connection: the session is the control
 * socket.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "transport/local/mapped.h"
#include "transport/op_queue.h"
#include "transport/transport.h"

struct shm_conn {
  struct fp_conn base;
  atomic_bool broken;
  unsigned depth, inflight;
};

static int
shm_available (const char **why)
{
  (void) why;
  return 0;
}

/* Nothing wakes the lane, because every op completes inside post. */
static int
shm_queue_new (struct fp_queue **out, const struct fp_queue_params *p)
{
  struct fp_op_queue *q;
  int r = fp_op_queue_new (&q, sizeof *q, &fp_transport_shm, p);

  if (r == 0)
    *out = &q->base;
  return r;
}

static struct fp_op *
shm_poll (struct fp_queue *base)
{
  struct fp_op_queue *q = (struct fp_op_queue *) base;
  struct fp_op *list = fp_op_list_take_all (&q->done);

  for (struct fp_op *op = list; op != NULL; op = op->next)
    ((struct shm_conn *) op->conn)->inflight--;
  q->inflight = 0;
  return list;
}

static bool
shm_arm (struct fp_queue *base)
{
  return ((struct fp_op_queue *) base)->done.head != NULL;
}

static int
shm_conn_open (struct fp_conn **out, struct fp_queue *q,
               const struct fp_conn_params *p, uint64_t deadline_ns)
{
  struct shm_conn *c = calloc (1, sizeof *c);

  (void) deadline_ns;
  if (c == NULL)
    return -ENOMEM;
  c->base.ops = &fp_transport_shm;
  c->base.queue = q;
  c->depth = p->depth;
  *out = &c->base;
  return 0;
}

static int
shm_post (struct fp_conn *base, struct fp_op *op)
{
  struct shm_conn *c = (struct shm_conn *) base;
  struct fp_op_queue *q = (struct fp_op_queue *) base->queue;
  void *remote = (void *) (uintptr_t) op->raddr; /* address: see shm_import */

  if (atomic_load (&c->broken))
    return -ENOTCONN;
  if (op->length == 0)
    return -EINVAL;
  if (c->inflight == c->depth || q->inflight == q->depth)
    return -EAGAIN;
  op->conn = base;
  op->status = op->kind == FP_OP_READ
                   ? fp_mapped_copy (op->local, remote, op->length)
                   : fp_mapped_copy (remote, op->local, op->length);
  fp_op_list_add (&q->done, op);
  c->inflight++;
  q->inflight++;
  return 0;
}

static void
shm_kick (struct fp_queue *q)
{
  (void) q;
}

static void
shm_conn_break (struct fp_conn *base)
{
  atomic_store (&((struct shm_conn *) base)->broken, true);
}

static unsigned
shm_conn_inflight (const struct fp_conn *base)
{
  return ((const struct shm_conn *) base)->inflight;
}

static bool
shm_conn_broken (const struct fp_conn *base)
{
  return atomic_load (&((const struct shm_conn *) base)->broken);
}

static void
shm_conn_free (struct fp_conn *base)
{
  free (base);
}

static int
shm_conn_event_fd (const struct fp_conn *c)
{
  (void) c;
  return -1;
}

static void
shm_conn_event (struct fp_conn *c)
{
  (void) c;
}

/* Map a grant.  g->raddr is the offset of its first byte in the memfd, which
 * must be sealed against truncation.  No seal forbids holes in a file that
 * stays writable (mapped.h).
 */
static int
shm_import (struct fp_remote *out, const struct fp_grant *g, int fd,
            bool read_only)
{
  struct stat st;
  uint64_t end;
  void *map;
  int seals;

  if (fd < 0)
    return -EBADF;
  if (fstat (fd, &st) == -1)
    return -errno;
  seals = fcntl (fd, F_GET_SEALS);
  if (seals == -1 || (seals & F_SEAL_SHRINK) == 0)
    return -EPERM;
  if (g->length == 0 || fp_add_u64 (g->raddr, g->length, &end) < 0 ||
      end > (uint64_t) st.st_size)
    return -ERANGE;
  map = mmap (NULL, g->length, read_only ? PROT_READ : PROT_READ | PROT_WRITE,
              MAP_SHARED, fd, (off_t) g->raddr);
  if (map == MAP_FAILED)
    return -errno;
  fp_mapped_guard ();
  /* The server that lends the memory locks it.  If this process locks all its
   * mappings, the memory would count a second time, as large as the volume.
   * So unlock it here; without a lock this does nothing.
   */
  (void) munlock (map, g->length);
  *out = (struct fp_remote) {
    .raddr = (uintptr_t) map, .rkey = g->rkey, .length = g->length, .map = map
  };
  return 0;
}

static void
shm_unimport (struct fp_remote *r)
{
  /* This fails only for an address that import did not create. */
  if (r->map != NULL)
    (void) munmap (r->map, r->length);
  *r = (struct fp_remote) { 0 };
}

const struct fp_transport_ops fp_transport_shm = {
  .name = "shm",
  .bit = FP_TRANSPORT_SHM,
  .registered = false,
  .direct = true,
  .max_transfer = 1u << 30,
  .available = shm_available,
  .queue_new = shm_queue_new,
  .queue_free = fp_op_queue_free,
  .poll = shm_poll,
  .arm = shm_arm,
  .conn_open = shm_conn_open,
  .post = shm_post,
  .kick = shm_kick,
  .conn_break = shm_conn_break,
  .conn_inflight = shm_conn_inflight,
  .conn_broken = shm_conn_broken,
  .conn_free = shm_conn_free,
  .conn_event_fd = shm_conn_event_fd,
  .conn_event = shm_conn_event,
  .import = shm_import,
  .unimport = shm_unimport,
};
