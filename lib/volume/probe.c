/* SPDX-License-Identifier: BSD-3-Clause */
/* The look at all servers before anything is started.  Here everything that
 * can fail should fail, because here somebody reads the message.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/piece.h"
#include "volume/session.h"
#include "volume/volume_int.h"

#define PROBE_MS 3000 /* at least, for each server */
#define BUSY_MS 100   /* between two tries to open a volume */

/* Make one data connection and end it. */
static int
try_connection (const struct fp_session *s, const struct fp_volume_params *p,
                const struct fp_transport_ops *ops,
                const struct fp_addr *control, uint64_t deadline)
{
  struct fp_queue_params qp = { .depth = 1, .max_conns = 1 };
  struct fp_conn_params cp;
  struct fp_queue *q = NULL;
  struct fp_conn *c = NULL;
  struct fp_addr data;
  int r;

  r = fp_session_data_addr (s, ops, control, &data);
  if (r < 0)
    return r;
  qp.memory_size = 4096;
  qp.memory = mmap (NULL, qp.memory_size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (qp.memory == MAP_FAILED)
    return -errno;
  r = ops->queue_new (&q, &qp);
  if (r < 0)
    return r;
  fp_session_conn_params (s, p, &data, &cp);
  cp.depth = 1;
  return ops->conn_open (&c, q, &cp, deadline);
}

/* RDMA objects do not survive a fork, and this process is about to fork: a
 * child tries, and its exit takes everything down that it made.
 */
static int
try_in_child (const struct fp_session *s, const struct fp_volume_params *p,
              const struct fp_transport_ops *ops,
              const struct fp_addr *control, unsigned timeout_ms)
{
  uint64_t deadline = fp_deadline_in_ms (timeout_ms);
  int fds[2], r = -ETIMEDOUT, status;
  struct pollfd pfd;
  pid_t pid;

  if (pipe (fds) == -1)
    return -errno;
  pid = fork ();
  if (pid == -1) {
    r = -errno;
    close (fds[0]);
    close (fds[1]);
    return r;
  }
  if (pid == 0) {
    r = try_connection (s, p, ops, control, deadline);
    _exit (write (fds[1], &r, sizeof r) == sizeof r ? 0 : 1);
  }
  close (fds[1]);
  pfd = (struct pollfd) { .fd = fds[0], .events = POLLIN };
  if (poll (&pfd, 1, fp_deadline_left_ms (deadline) + 500) != 1 ||
      read (fds[0], &r, sizeof r) != sizeof r)
    r = -ETIMEDOUT;
  close (fds[0]);
  kill (pid, SIGKILL);
  while (waitpid (pid, &status, 0) == -1 && errno == EINTR)
    ;
  return r;
}

static int
check_transport (struct fp_session *s, const struct fp_volume_params *p,
                 const struct fp_addr *addr, unsigned timeout_ms,
                 char why[FP_WHY_MAX])
{
  const struct fp_transport_ops *ops = fp_session_best (s->transports);
  char where[FP_ADDR_MAX + 1];
  int r;

  if (!ops->registered || ops->bit == FP_TRANSPORT_FAKE)
    return 0;
  r = try_in_child (s, p, ops, addr, timeout_ms);
  /* Where the user left the choice the next best one will be taken. */
  if (r == 0 || (s->transports & ~ops->bit) != 0)
    return 0;
  fp_addr_format (addr, where);
  snprintf (why, FP_WHY_MAX, "%s: %s data connection: %s", where, ops->name,
            strerror (-r));
  return r;
}

/* Does the server still hold the volume that is to be taken up?  There is no
 * message that only asks: it is opened, without the flag that would end it at
 * BYE, and left again, which starts its lease anew.
 */
static int
check_held (struct fp_session *s, const struct fp_volume_params *p,
            const struct fp_addr *addr, char why[FP_WHY_MAX])
{
  struct fp_open q = {
    .flags = FP_OPEN_RESUME,
    .transport = fp_session_best (s->transports)->bit,
    .volume = p->uuid,
    .size = p->size,
    .slab_size = p->slab_size,
    .copies = p->copies,
  };
  /* As long as the start itself would try. */
  uint64_t deadline = fp_deadline_in_ms (fp_volume_start_ms (p));
  struct fp_open_reply reply;
  char where[FP_ADDR_MAX + 1];
  int r;

  memcpy (q.name, p->name, sizeof q.name);
  for (;;) {
    r = fp_ctl_volume_open (s->ctl, &q, &reply, deadline);
    /* Its client has died, and the server may not know yet. */
    if (r != -EBUSY || fp_deadline_passed (deadline))
      break;
    poll (NULL, 0, BUSY_MS);
  }
  if (r == 0)
    return 0;
  fp_addr_format (addr, where);
  snprintf (why, FP_WHY_MAX, "resume: %s: %s%s", where, fp_ctl_why (s->ctl),
            r == -ENOENT ? ": its lease is over, or it never was" : "");
  return r;
}

int
fp_volume_probe (struct fp_volume_params *p, char why[FP_WHY_MAX])
{
  unsigned timeout_ms = FP_MAX (p->timeout_ms, (unsigned) PROBE_MS);
  uint64_t room = 0;
  char where[FP_ADDR_MAX + 1];

  for (unsigned i = 0; i < p->nr_servers; i++) {
    struct fp_session s;
    struct fp_bye bye = { .discard = false };
    int r;

    r = fp_session_open (&s, p, &p->servers[i], NULL,
                         fp_deadline_in_ms (timeout_ms), why);
    if (r < 0)
      return r;
    /* The first one decides the slab size, unless the user did. */
    p->slab_size = s.hello.slab_size;
    room += s.hello.slabs_free;
    r = check_transport (&s, p, &p->servers[i], timeout_ms, why);
    if (r == 0 && p->resume)
      r = check_held (&s, p, &p->servers[i], why);
    /* It will notice our hanging up, too. */
    (void) fp_ctl_bye (s.ctl, &bye, fp_deadline_in_ms (timeout_ms));
    fp_session_close (&s);
    if (r < 0)
      return r;
  }

  fp_addr_format (&p->servers[0], where);
  if (p->slab_size < 65536 || !fp_is_power_of_2 (p->slab_size)) {
    snprintf (why, FP_WHY_MAX,
              "%s lends slabs of %" PRIu64
              " bytes: not a power of two of at least 64 KiB",
              where, p->slab_size);
    return -EPROTO;
  }
  if ((p->size - 1) / p->slab_size >= FP_MAX_PIECES) {
    snprintf (why, FP_WHY_MAX,
              "size: a volume has at most %u pieces of a slab (%" PRIu64
              " bytes) each; give the servers a larger --slab",
              FP_MAX_PIECES, p->slab_size);
    return -EINVAL;
  }
  if (p->reserve_full && !p->resume &&
      (p->size - 1) / p->slab_size + 1 > room) {
    snprintf (why, FP_WHY_MAX,
              "size: the servers can lend %" PRIu64 " bytes now (%" PRIu64
              " slabs), the volume needs %" PRIu64 " slabs",
              room * p->slab_size, room, (p->size - 1) / p->slab_size + 1);
    return -ENOSPC;
  }
  why[0] = '\0';
  return 0;
}
