/* SPDX-License-Identifier: BSD-3-Clause */
/* fake.c - memory servers in this process.  An op is in exactly one list: its
 * queue's posted (until kick), its server's held, or its queue's done.
 */

#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "transport/local/fake.h"
#include "transport/local/mapped.h"
#include "transport/op_queue.h"

#define GARBAGE 0xa5
#define RADDR_BASE UINT64_C (0x100000000) /* makes a bare offset invalid */

struct fp_fake_server {
  struct fp_fake_server *next;
  struct fp_addr addr;
  uint8_t *memory;
  size_t length;
  uint64_t rkey;
  bool dead, hold, mapped, breaks;
  unsigned device;
  int answer;
  struct fp_op_list held;
  struct fake_conn *conns;
};

struct fake_queue {
  struct fp_op_queue common; /* fd: eventfd, readable if done has ops */
  atomic_flag busy;
  bool bound;
  unsigned device; /* valid if bound */
  uint8_t *memory;
  size_t memory_size;
  struct fp_op_list posted;
};

struct fake_conn {
  struct fp_conn base;
  struct fake_conn *next; /* next connection of the server */
  struct fp_fake_server *server;
  int event_fd;
  bool broken;
  unsigned depth, inflight;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fp_fake_server *servers;
static uint64_t next_rkey = 0xfa4e0001;
static unsigned fault_n, again_n, fault_passed;
static unsigned imports, import_fails_at;
static bool fault_fired;
static enum fp_fake_fault fault_kind, again_kind;

/* Count a fault point.  Return true if a fault is due here. */
static bool
fault (enum fp_fake_fault *kind)
{
  fault_passed++;
  if (fault_passed == fault_n || (fault_fired && fault_kind == FP_FAKE_DIE)) {
    fault_fired = again_n == 0;
    *kind = fault_kind;
    return true;
  }
  if (fault_passed != again_n)
    return false;
  fault_fired = true;
  *kind = again_kind;
  return true;
}

static void
signal_fd (int fd)
{
  const uint64_t one = 1;

  /* EAGAIN: the counter is full, so the fd is readable already. */
  if (write (fd, &one, sizeof one) == -1 && errno != EAGAIN)
    abort ();
}

static void
finish (struct fp_op *op, int status)
{
  struct fake_queue *q = (struct fake_queue *) op->conn->queue;

  if (status != 0 && op->kind == FP_OP_READ)
    memset (op->local, GARBAGE, op->length);
  op->status = status;
  fp_op_list_add (&q->common.done, op);
  signal_fd (q->common.fd);
}

/* Do the server's part of op.  Return its status. */
static int
execute (struct fp_op *op)
{
  struct fp_fake_server *s = ((struct fake_conn *) op->conn)->server;

  if (s->answer != 0)
    return s->answer;
  if (op->rkey != s->rkey || op->raddr < RADDR_BASE ||
      !fp_range_ok (op->raddr - RADDR_BASE, op->length, s->length))
    return -EPERM;
  if (op->kind == FP_OP_READ)
    memcpy (op->local, s->memory + (op->raddr - RADDR_BASE), op->length);
  else
    memcpy (s->memory + (op->raddr - RADDR_BASE), op->local, op->length);
  return 0;
}

static void
flush (struct fp_op_list *l, const struct fake_conn *c)
{
  struct fp_op **at = &l->head;

  while (*at != NULL)
    if ((*at)->conn == &c->base)
      finish (fp_op_list_take_at (l, at), -ECONNRESET);
    else
      at = &(*at)->next;
}

static void
do_break (struct fake_conn *c)
{
  struct fake_queue *q = (struct fake_queue *) c->base.queue;

  if (c->broken)
    return;
  c->broken = true;
  flush (&q->posted, c);
  flush (&c->server->held, c);
}

/* Complete op, which is in no list, or do what the fault point demands. */
static void
arrive (struct fp_op *op, bool may_hold)
{
  struct fake_conn *c = (struct fake_conn *) op->conn;
  enum fp_fake_fault kind;

  if (may_hold && c->server->hold) {
    fp_op_list_add (&c->server->held, op);
    return;
  }
  if (!fault (&kind)) {
    int r = execute (op);

    finish (op, r);
    if (r < 0 && c->server->breaks) {
      do_break (c);
      signal_fd (c->event_fd);
    }
    return;
  }
  switch (kind) {
  case FP_FAKE_ERROR:
    finish (op, -EREMOTEIO);
    break;
  case FP_FAKE_BREAK:
    execute (op);
    finish (op, -ECONNRESET);
    do_break (c);
    break;
  case FP_FAKE_DELAY:
  case FP_FAKE_DIE:
    fp_op_list_add (&c->server->held, op);
    break;
  }
}

/* Mark q as in use.  Abort if two threads use a queue and its connections at
 * once: the other transports have no lock and would corrupt memory.
 */
static struct fake_queue *
enter (struct fp_queue *base)
{
  struct fake_queue *q = (struct fake_queue *) base;

  if (atomic_flag_test_and_set (&q->busy))
    abort ();
  return q;
}

static void
leavep (struct fake_queue **q)
{
  atomic_flag_clear (&(*q)->busy);
}

#define ALONE FP_CLEANUP (leavep) struct fake_queue

/* ---- the transport ---- */

static int
fake_available (const char **why)
{
  (void) why;
  return 0;
}

static int
fake_queue_new (struct fp_queue **out, const struct fp_queue_params *p)
{
  struct fp_op_queue *common;
  struct fake_queue *q;
  int r = fp_op_queue_new (&common, sizeof *q, &fp_transport_fake, p);

  if (r < 0)
    return r;
  r = fp_op_queue_wakes (common, p, eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (r < 0) {
    fp_op_queue_free (&common->base);
    return r;
  }
  q = (struct fake_queue *) common;
  q->memory = p->memory;
  q->memory_size = p->memory_size;
  fp_op_list_init (&q->posted);
  *out = &common->base;
  return 0;
}

static struct fp_op *
fake_poll (struct fp_queue *base)
{
  ALONE *q = enter (base);
  struct fp_op *list;
  uint64_t count;

  FP_LOCK_SCOPE (&lock);
  if (q->common.done.head != NULL &&
      read (q->common.fd, &count, sizeof count) == -1)
    abort (); /* finish signals under the same lock */
  list = fp_op_list_take_all (&q->common.done);
  for (struct fp_op *op = list; op != NULL; op = op->next) {
    ((struct fake_conn *) op->conn)->inflight--;
    q->common.inflight--;
  }
  return list;
}

static bool
fake_arm (struct fp_queue *base)
{
  ALONE *q = enter (base);

  FP_LOCK_SCOPE (&lock);
  return q->common.done.head != NULL;
}

static int
fake_conn_open (struct fp_conn **out, struct fp_queue *base,
                const struct fp_conn_params *p, uint64_t deadline_ns)
{
  FP_LOCK_SCOPE (&lock);
  enum fp_fake_fault kind;
  struct fake_queue *q = (struct fake_queue *) base;
  struct fp_fake_server *s = servers;
  struct fake_conn *c;

  (void) deadline_ns;
  while (s != NULL && !fp_addr_eq (&s->addr, p->addr))
    s = s->next;
  if (s == NULL || s->dead)
    return -ECONNREFUSED;
  if (fault (&kind) && kind != FP_FAKE_DELAY)
    return kind == FP_FAKE_BREAK ? -ETIMEDOUT : -ECONNREFUSED;

  if (q->bound && q->device != s->device)
    return -EXDEV;
  q->bound = true;
  q->device = s->device;

  c = calloc (1, sizeof *c);
  if (c == NULL)
    return -ENOMEM;
  c->event_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (c->event_fd == -1) {
    int err = -errno;

    free (c);
    return err;
  }
  c->base.ops = &fp_transport_fake;
  c->base.queue = base;
  c->depth = p->depth;
  c->server = s;
  c->next = s->conns;
  s->conns = c;
  *out = &c->base;
  return 0;
}

static int
fake_post (struct fp_conn *base, struct fp_op *op)
{
  struct fake_conn *c = (struct fake_conn *) base;
  ALONE *q = enter (base->queue);
  const uintptr_t start = (uintptr_t) q->memory;
  const uintptr_t at = (uintptr_t) op->local;
  enum fp_fake_fault kind = FP_FAKE_DELAY;

  FP_LOCK_SCOPE (&lock);
  if (c->broken)
    return -ENOTCONN;
  if (op->length == 0 || op->length > fp_transport_fake.max_transfer)
    return -EINVAL;
  if (at < start || !fp_range_ok (at - start, op->length, q->memory_size))
    return -EFAULT;
  if (c->inflight == c->depth || q->common.inflight == q->common.depth)
    return -EAGAIN;
  if (fault (&kind) && kind == FP_FAKE_ERROR) {
    do_break (c);
    return -ENOTCONN;
  }
  op->conn = base;
  fp_op_list_add (&q->posted, op);
  c->inflight++;
  q->common.inflight++;
  if (kind == FP_FAKE_BREAK)
    do_break (c);
  return 0;
}

static void
fake_kick (struct fp_queue *base)
{
  ALONE *q = enter (base);

  FP_LOCK_SCOPE (&lock);
  while (q->posted.head != NULL)
    arrive (fp_op_list_take (&q->posted), true);
}

static void
fake_conn_break (struct fp_conn *base)
{
  FP_LOCK_SCOPE (&lock);
  do_break ((struct fake_conn *) base);
}

static unsigned
fake_conn_inflight (const struct fp_conn *base)
{
  FP_LOCK_SCOPE (&lock);
  return ((const struct fake_conn *) base)->inflight;
}

static bool
fake_conn_broken (const struct fp_conn *base)
{
  FP_LOCK_SCOPE (&lock);
  return ((const struct fake_conn *) base)->broken;
}

static void
fake_conn_free (struct fp_conn *base)
{
  struct fake_conn *c = (struct fake_conn *) base;
  ALONE *q = enter (base->queue);
  struct fake_conn **at;

  FP_LOCK_SCOPE (&lock);
  if (c->inflight > 0 || c->base.queue != &q->common.base)
    abort (); /* an op in a list still points to c */
  for (at = &c->server->conns; *at != c; at = &(*at)->next)
    ;
  *at = c->next;
  close (c->event_fd);
  free (c);
}

static int
fake_conn_event_fd (const struct fp_conn *base)
{
  return ((const struct fake_conn *) base)->event_fd;
}

static void
fake_conn_event (struct fp_conn *base)
{
  struct fake_conn *c = (struct fake_conn *) base;
  uint64_t count;

  FP_LOCK_SCOPE (&lock);
  if (read (c->event_fd, &count, sizeof count) == sizeof count)
    do_break (c);
}

/* Return where the granted memory is mapped, or NULL. */
static void *
mapping (const struct fp_grant *g)
{
  for (struct fp_fake_server *s = servers; s != NULL; s = s->next)
    if (s->mapped && s->rkey == g->rkey && g->raddr >= RADDR_BASE &&
        fp_range_ok (g->raddr - RADDR_BASE, g->length, s->length)) {
      fp_mapped_guard ();
      return s->memory + (g->raddr - RADDR_BASE);
    }
  return NULL;
}

static int
fake_import (struct fp_remote *out, const struct fp_grant *g, int fd,
             bool read_only)
{
  (void) read_only;
  (void) fd;
  FP_LOCK_SCOPE (&lock);
  if (import_fails_at > 0 && --import_fails_at == 0)
    return -ENOMEM;
  imports++;
  *out = (struct fp_remote) {
    .raddr = g->raddr, .rkey = g->rkey, .length = g->length, .map = mapping (g)
  };
  return 0;
}

static void
fake_unimport (struct fp_remote *r)
{
  FP_LOCK_SCOPE (&lock);
  imports -= r->rkey != 0; /* else it was undone before */
  *r = (struct fp_remote) { 0 };
}

const struct fp_transport_ops fp_transport_fake = {
  .name = "fake",
  .bit = FP_TRANSPORT_FAKE,
  .registered = true,
  .max_transfer = 1u << 20,
  .available = fake_available,
  .queue_new = fake_queue_new,
  .queue_free = fp_op_queue_free,
  .poll = fake_poll,
  .arm = fake_arm,
  .conn_open = fake_conn_open,
  .post = fake_post,
  .kick = fake_kick,
  .conn_break = fake_conn_break,
  .conn_inflight = fake_conn_inflight,
  .conn_broken = fake_conn_broken,
  .conn_free = fake_conn_free,
  .conn_event_fd = fake_conn_event_fd,
  .conn_event = fake_conn_event,
  .import = fake_import,
  .unimport = fake_unimport,
};

/* ---- for tests ---- */

struct fp_fake_server *
fp_fake_server_new (const char *host, size_t length)
{
  struct fp_fake_server *s = calloc (1, sizeof *s);

  if (s == NULL)
    return NULL;
  s->memory = calloc (1, length);
  if (s->memory == NULL) {
    free (s);
    return NULL;
  }
  s->length = length;
  s->addr.port = FP_DEFAULT_PORT;
  snprintf (s->addr.host, sizeof s->addr.host, "%s", host);
  fp_op_list_init (&s->held);

  FP_LOCK_SCOPE (&lock);
  s->rkey = next_rkey++;
  s->next = servers;
  servers = s;
  return s;
}

void
fp_fake_server_free (struct fp_fake_server *s)
{
  struct fp_fake_server **at;

  FP_LOCK_SCOPE (&lock);
  if (s->conns != NULL)
    abort ();
  for (at = &servers; *at != s; at = &(*at)->next)
    ;
  *at = s->next;
  free (s->memory);
  free (s);
}

const struct fp_addr *
fp_fake_server_addr (const struct fp_fake_server *s)
{
  return &s->addr;
}

uint8_t *
fp_fake_server_memory (struct fp_fake_server *s)
{
  return s->memory;
}

void
fp_fake_server_grant (struct fp_fake_server *s, uint64_t offset,
                      uint64_t length, struct fp_grant *g)
{
  FP_LOCK_SCOPE (&lock);
  g->raddr = RADDR_BASE + offset;
  g->rkey = s->rkey;
  g->length = length;
}

void
fp_fake_server_map (struct fp_fake_server *s)
{
  FP_LOCK_SCOPE (&lock);
  s->mapped = true;
}

void
fp_fake_server_device (struct fp_fake_server *s, unsigned device)
{
  FP_LOCK_SCOPE (&lock);
  s->device = device;
}

void
fp_fake_server_revoke (struct fp_fake_server *s)
{
  FP_LOCK_SCOPE (&lock);
  s->rkey = next_rkey++;
}

void
fp_fake_server_answer (struct fp_fake_server *s, int status)
{
  FP_LOCK_SCOPE (&lock);
  s->answer = status;
}

void
fp_fake_server_break (struct fp_fake_server *s, bool on)
{
  FP_LOCK_SCOPE (&lock);
  s->breaks = on;
}

void
fp_fake_server_die (struct fp_fake_server *s)
{
  FP_LOCK_SCOPE (&lock);
  s->dead = true;
  for (struct fake_conn *c = s->conns; c != NULL; c = c->next) {
    do_break (c);
    signal_fd (c->event_fd);
  }
}

void
fp_fake_server_revive (struct fp_fake_server *s)
{
  FP_LOCK_SCOPE (&lock);
  s->dead = false;
}

void
fp_fake_server_hold (struct fp_fake_server *s, bool hold)
{
  FP_LOCK_SCOPE (&lock);
  s->hold = hold;
}

unsigned
fp_fake_server_held (struct fp_fake_server *s)
{
  unsigned n = 0;

  FP_LOCK_SCOPE (&lock);
  for (struct fp_op *op = s->held.head; op != NULL; op = op->next)
    n++;
  return n;
}

bool
fp_fake_server_release (struct fp_fake_server *s, unsigned i, int status)
{
  struct fp_op **at;
  struct fp_op *op;

  FP_LOCK_SCOPE (&lock);
  for (at = &s->held.head; *at != NULL && i > 0; i--)
    at = &(*at)->next;
  if (*at == NULL)
    return false;
  op = fp_op_list_take_at (&s->held, at);
  if (status != 0)
    finish (op, status);
  else
    arrive (op, false);
  return true;
}

unsigned
fp_fake_imports (void)
{
  FP_LOCK_SCOPE (&lock);
  return imports;
}

void
fp_fake_import_fails_at (unsigned n)
{
  FP_LOCK_SCOPE (&lock);
  import_fails_at = n;
}

void
fp_fake_fault_at (unsigned n, enum fp_fake_fault kind)
{
  FP_LOCK_SCOPE (&lock);
  fault_n = n;
  fault_kind = kind;
  again_n = 0;
  fault_passed = 0;
  fault_fired = false;
}

void
fp_fake_fault_again (unsigned n, enum fp_fake_fault kind)
{
  FP_LOCK_SCOPE (&lock);
  again_n = n;
  again_kind = kind;
}

bool
fp_fake_died (void)
{
  FP_LOCK_SCOPE (&lock);
  return fault_fired && fault_kind == FP_FAKE_DIE;
}

bool
fp_fake_fault_fired (void)
{
  FP_LOCK_SCOPE (&lock);
  return fault_fired;
}

unsigned
fp_fake_fault_points (void)
{
  FP_LOCK_SCOPE (&lock);
  return fault_passed;
}
