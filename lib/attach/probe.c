/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.c - ask all servers before anything is started.  Every error that can
 * be found here should be, because here a user still reads the message.
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

#include "attach/probe.h"
#include "attach/probe_int.h"
#include "attach/probe_named.h"
#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/size.h"
#include "extent/extent.h"
#include "filter/seal_key.h"
#include "peer/session.h"

#define PROBE_MS 3000 /* least timeout for one server */
/* Greatest width that is chosen without the user.  A greater one would help
 * few, and the first bytes of a volume would take as many slabs.
 */
#define AUTO_WIDTH_MAX 16
#define BUSY_MS 100 /* pause between two tries to open a volume */
#define OTHER_MAPS 4096

#define PORT_TRIES 5

const struct fp_uuid *
probe_client (const struct fp_volume_params *p)
{
  return fp_uuid_is_nil (&p->client) ? NULL : &p->client;
}

/* Make one data connection and end it. */
static int
try_connection (const struct fp_transport_ops *ops, struct fp_conn_params *cp,
                uint64_t deadline)
{
  struct fp_queue_params qp = { .depth = 1, .max_conns = 1 };
  struct fp_queue *q = NULL;
  struct fp_conn *c = NULL;
  int r;

  qp.memory_size = 4096;
  qp.memory = mmap (NULL, qp.memory_size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (qp.memory == MAP_FAILED)
    return -errno;
  r = ops->queue_new (&q, &qp);
  if (r < 0)
    return r;
  cp->depth = 1;
  return ops->conn_open (&c, q, cp, deadline);
}

/* Try a data connection in a child process.  RDMA objects do not survive a
 * fork, and this process is about to fork.  The child's exit takes down all
 * that it made.
 */
static int
try_in_child (const struct fp_session *s, const struct fp_volume_params *p,
              const struct fp_transport_ops *ops,
              const struct fp_addr *control, unsigned timeout_ms,
              const char **said)
{
  uint64_t deadline = fp_deadline_in_ms (timeout_ms);
  int fds[2], r, status;
  struct fp_conn_params cp;
  struct fp_addr data;
  struct pollfd pfd;
  pid_t pid;

  r = fp_session_data_addr (s, ops, control, &data);
  if (r == 0)
    r = fp_session_conn_params (s, p, ops, &data, 0, &cp, said, deadline);
  if (r < 0)
    return r;
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
    r = try_connection (ops, &cp, deadline);
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
                 struct fp_error *error)
{
  const struct fp_transport_ops *ops = fp_session_best (s->transports);
  char where[FP_ADDR_MAX + 1];
  const char *said = NULL;
  unsigned tries = 0;
  int r;

  if (!ops->registered || ops->bit == FP_TRANSPORT_FAKE)
    return 0;
  /* soft-iWARP binds a TCP port that rdma_cm has drawn, which may be in use by
   * then (drivers/infiniband/sw/siw/siw_cm.c).  So another one is drawn.
   */
  do
    r = try_in_child (s, p, ops, addr, timeout_ms, &said);
  while (r == -EADDRINUSE && ++tries < PORT_TRIES);
  /* If the user left the choice open, the next best transport is taken later.
   */
  if (r == 0 || (s->transports & ~ops->bit) != 0)
    return 0;
  fp_addr_format (addr, where);
  return fp_fail (error, r, "%s: %s data connection: %s", where, ops->name,
                  said != NULL ? said : strerror (-r));
}

/* ---- striping ---- */

int
probe_take_stripe (struct fp_volume_params *p, const struct fp_volume_entry *e,
                   const char *where, struct fp_error *error)
{
  char uuid[FP_UUID_STR_MAX], is[FP_SIZE_STR_MAX], said[FP_SIZE_STR_MAX];
  const char *name = e->name;

  if (name[0] == '\0') {
    fp_uuid_format (&e->uuid, uuid);
    name = uuid;
  }
  if (p->stripe.width != 0 && p->stripe.width != e->stripe.width)
    return fp_fail (error, -EINVAL,
                    "stripe-width: volume %s is striped over %u extents (on "
                    "%s), not over %u: omit stripe-width= to attach it",
                    name, e->stripe.width, where, p->stripe.width);
  fp_format_size (e->stripe.size, is);
  fp_format_size (p->stripe.size, said);
  if (p->stripe.size != 0 && p->stripe.size != e->stripe.size)
    return fp_fail (error, -EINVAL,
                    "stripe: volume %s has stripes of %s (on %s), not of %s: "
                    "omit stripe= to attach it",
                    name, is, where, said);
  p->stripe = e->stripe;
  return 0;
}

/* Choose the striping of a new volume: over all its servers, unless the user
 * says otherwise.
 */
static int
choose_stripe (struct fp_volume_params *p, struct fp_error *error)
{
  uint64_t extents = (p->size - 1) / p->slab_size + 1;
  char size[FP_SIZE_STR_MAX], slab[FP_SIZE_STR_MAX];

  if (p->stripe.width == 0)
    p->stripe.width = (uint32_t) FP_MIN (
        FP_MIN ((uint64_t) p->nr_servers, extents), (uint64_t) AUTO_WIDTH_MAX);
  p->stripe = fp_volume_stripe (p);
  fp_format_size (p->stripe.size, size);
  fp_format_size (p->slab_size, slab);
  if (!fp_stripe_ok (&p->stripe, p->slab_size))
    return fp_fail (error, -EINVAL,
                    "stripe=%s: must be a part of a slab, and slabs have %s "
                    "on these servers",
                    size, slab);
  return 0;
}

/* Take over the striping of the volume that is resumed.  If the server does
 * not know the volume, check_held reports that.
 */
static int
look_at_stripe (struct fp_session *s, struct fp_volume_params *p,
                const struct fp_addr *addr, struct fp_error *error)
{
  FP_CLEANUP (fp_free) struct fp_lookup_reply *said = malloc (sizeof *said);
  const struct fp_lookup q = { .volume = p->uuid };
  char where[FP_ADDR_MAX + 1];
  int r;

  if (said == NULL)
    return fp_fail (error, -ENOMEM, "%s", strerror (ENOMEM));
  fp_addr_format (addr, where);
  r = fp_ctl_lookup (s->ctl, &q, said,
                     fp_deadline_in_ms (fp_volume_start_ms (p)));
  if (r == -ENOENT)
    return 0;
  if (r < 0)
    return fp_fail (error, r, "resume: %s: %s", where, fp_ctl_why (s->ctl));
  if (said->volume.copies != p->copies)
    return fp_fail (error, -EINVAL,
                    "copies: the volume has %u of each extent (on %s): give "
                    "copies=%u to resume it",
                    (unsigned) said->volume.copies, where,
                    (unsigned) said->volume.copies);
  return probe_take_stripe (p, &said->volume, where, error);
}

/* Check that the extents are not more than the mappings that this kernel
 * allows a process.  OTHER_MAPS of these are left for everything else.  Only
 * transports that map each extent need this.
 */
static int
check_maps (const struct fp_volume_params *p, struct fp_error *error)
{
  uint64_t extents = (p->size - 1) / p->slab_size + 1;
  FP_CLEANUP (fp_fclosep)
  FILE *fp = fopen ("/proc/sys/vm/max_map_count", "re");
  unsigned long limit;

  if (fp == NULL || fscanf (fp, "%lu", &limit) != 1 ||
      extents + OTHER_MAPS <= limit)
    return 0;
  return fp_fail (
      error, -EINVAL,
      "size: shm maps each extent by itself, and %" PRIu64
      " are more than a process may map (%lu, vm.max_map_count): start "
      "the servers with a larger --slab, or use transport=tcp",
      extents, limit);
}

/* Return an OPEN like that of the start, but without the flag that ends the
 * volume at BYE.
 */
static struct fp_open
open_request (const struct fp_session *s, const struct fp_volume_params *p)
{
  struct fp_open q = {
    .flags = FP_OPEN_RESUME | (p->read_only ? FP_OPEN_READ_ONLY : 0),
    .transport = fp_session_best (s->transports)->bit,
    .volume = p->uuid,
    .size = p->size,
    .slab_size = p->slab_size,
    .copies = p->copies,
    .servers = p->nr_servers,
    .stripe = fp_volume_stripe (p),
  };

  memcpy (q.name, p->name, sizeof q.name);
  return q;
}

static int
open_patiently (struct fp_session *s, const struct fp_open *q,
                uint64_t deadline)
{
  struct fp_open_reply reply;
  int r;

  for (;;) {
    /* The answer says why, so leave time for it in the last try, too. */
    r = fp_ctl_volume_open (s->ctl, q, &reply,
                            FP_MAX (deadline, fp_deadline_in_ms (FP_OPEN_MS)));
    /* The last client may have died, and the server may not know that yet. */
    if (r != -EBUSY || fp_deadline_passed (deadline))
      return r;
    poll (NULL, 0, BUSY_MS);
  }
}

/* Check that the server still holds the volume that is resumed.  No message
 * only asks that.  So open the volume, without the flag that ends it at BYE,
 * and leave it again, which restarts its lease.
 */
static int
check_held (struct fp_session *s, const struct fp_volume_params *p,
            const struct fp_addr *addr, struct fp_error *error)
{
  const struct fp_open q = open_request (s, p);
  /* As long as the start itself would try. */
  uint64_t deadline = fp_deadline_in_ms (fp_volume_start_ms (p));
  char where[FP_ADDR_MAX + 1];
  int r;

  r = open_patiently (s, &q, deadline);
  if (r == 0)
    return 0;
  fp_addr_format (addr, where);
  return fp_fail (error, r, "resume: %s: %s%s", where, fp_ctl_why (s->ctl),
                  r == -ENOENT ? ": its lease has expired, or it never existed"
                               : "");
}

/* Check that the last writer detached cleanly, before several copies are read
 * without a resync.  The last bit of the map tells (meta_log.h).
 */
static int
check_in_order (struct fp_session *s, const struct fp_volume_params *p,
                const struct fp_addr *addr, struct fp_error *error)
{
  FP_CLEANUP (fp_free) struct fp_map_words *words = malloc (sizeof *words);
  const struct fp_open q = open_request (s, p);
  uint64_t bit = ((p->size - 1) / p->slab_size + 1) * p->copies;
  const struct fp_map_read map = { .start = bit & ~UINT64_C (63), .count = 1 };
  uint64_t deadline = fp_deadline_in_ms (fp_volume_start_ms (p));
  char where[FP_ADDR_MAX + 1];
  int r;

  if (words == NULL)
    return fp_fail (error, -ENOMEM, "%s", strerror (ENOMEM));
  r = open_patiently (s, &q, deadline);
  if (r == 0)
    r = fp_ctl_map_read (s->ctl, &map, words,
                         FP_MAX (deadline, fp_deadline_in_ms (PROBE_MS)));
  if (r < 0) {
    fp_addr_format (addr, where);
    return fp_fail (error, r, "readonly: %s: %s", where, fp_ctl_why (s->ctl));
  }
  if (words->words[0] >> (bit % 64) & 1)
    return fp_fail (error, -EROFS, FP_NOT_IN_ORDER_WHY, p->name);
  return 0;
}

/* Return an error if the i-th server is the same as one before it. */
static int
check_twice (const struct fp_volume_params *p, const struct fp_uuid *seen,
             unsigned i, struct fp_error *error)
{
  char a[FP_ADDR_MAX + 1], b[FP_ADDR_MAX + 1];

  for (unsigned k = 0; k < i; k++) {
    if (!fp_uuid_eq (&seen[k], &seen[i]))
      continue;
    fp_addr_format (&p->servers[k], a);
    fp_addr_format (&p->servers[i], b);
    return fp_fail (error, -EINVAL,
                    "%s and %s are the same server: name it once", a, b);
  }
  return 0;
}

int
fp_check_kept_addr (const struct fp_addr *addr, struct fp_error *error)
{
  char where[FP_ADDR_MAX + 1];

  fp_addr_format (addr, where);
  if (fp_addr_text_ok (where))
    return 0;
  return fp_fail (
      error, -EINVAL,
      "%s: the servers of a volume with a name, or with copies, keep each "
      "other's addresses, which must be visible ASCII characters without "
      "blanks: use another path, such as a symbolic link",
      where);
}

int
fp_volume_probe (struct fp_volume_params *p, struct fp_error *error)
{
  struct fp_uuid seen[FP_MAX_SERVERS] = { { { 0 } } };
  unsigned timeout_ms = FP_MAX (p->timeout_ms, (unsigned) PROBE_MS);
  uint64_t room = 0;
  char where[FP_ADDR_MAX + 1];
  char slab[FP_SIZE_STR_MAX], free_size[FP_SIZE_STR_MAX];
  /* the servers keep the volume for a lease only */
  bool held = p->resume && !fp_volume_is_recorded (p);
  bool maps = false;
  int r;

  for (unsigned i = 0; i < p->nr_servers; i++) {
    r = fp_volume_is_recorded (p) ? fp_check_kept_addr (&p->servers[i], error)
                                  : 0;
    if (r < 0)
      return r;
  }
  /* An unnamed volume that is new is not known to any server. */
  if (p->name[0] != '\0' || (p->resume && p->copies > 1)) {
    r = fp_probe_named (p, error);
    if (r < 0)
      return r;
  }
  if (p->copies == 0)
    p->copies = 1;
  if (p->copies > p->nr_servers && !p->resume)
    return fp_fail (
        error, -EINVAL,
        "copies: each copy of an extent is on another server: %u copies "
        "need as many servers, and %u %s given",
        p->copies, p->nr_servers, p->nr_servers == 1 ? "is" : "are");
  for (unsigned i = 0; i < p->nr_servers; i++) {
    struct fp_session s;
    struct fp_bye bye = { .discard = false };

    if (p->away >> i & 1)
      continue;
    r = fp_session_open (&s, p, &p->servers[i], probe_client (p),
                         fp_deadline_in_ms (timeout_ms), error);
    if (r < 0)
      return r;
    /* The first one decides the slab size, unless the user did. */
    p->slab_size = s.hello.slab_size;
    room += s.hello.slabs_free;
    p->lease_ms = FP_MAX (p->lease_ms, s.hello.lease_ms);
    seen[i] = s.hello.server;
    maps |= fp_session_best (s.transports)->direct;
    r = check_twice (p, seen, i, error);
    if (r == 0)
      r = check_transport (&s, p, &p->servers[i], timeout_ms, error);
    if (r == 0 && held)
      r = look_at_stripe (&s, p, &p->servers[i], error);
    if (r == 0 && held)
      r = check_held (&s, p, &p->servers[i], error);
    if (r == 0 && p->read_only && p->copies > 1 && (p->believed >> i & 1))
      r = check_in_order (&s, p, &p->servers[i], error);
    /* If this fails, the server still notices that the connection ends. */
    (void) fp_ctl_bye (s.ctl, &bye, fp_deadline_in_ms (timeout_ms));
    fp_session_close (&s);
    if (r < 0)
      return r;
  }

  fp_addr_format (&p->servers[0], where);
  if (p->slab_size < 65536 || !fp_is_power_of_2 (p->slab_size))
    return fp_fail (error, -EPROTO,
                    "%s lends slabs of %" PRIu64
                    " bytes: not a power of two of at least 64 KiB",
                    where, p->slab_size);
  fp_format_size (p->slab_size, slab);
  if ((p->size - 1) / p->slab_size >= FP_MAX_EXTENTS / p->copies)
    return fp_fail (
        error, -EINVAL,
        "size: a volume has at most %u extents of one slab (%s) each: "
        "start the servers with a larger --slab",
        FP_MAX_EXTENTS / p->copies, slab);
  if (maps) {
    r = check_maps (p, error);
    if (r < 0)
      return r;
  }
  r = choose_stripe (p, error);
  if (r < 0)
    return r;
  if (p->reserve_full && !p->resume &&
      ((p->size - 1) / p->slab_size + 1) * p->copies > room) {
    fp_format_size (room * p->slab_size, free_size);
    return fp_fail (error, -ENOSPC,
                    "size: the servers can lend %s now (%" PRIu64
                    " slabs of %s), the volume needs %" PRIu64 " slabs",
                    free_size, room, slab,
                    ((p->size - 1) / p->slab_size + 1) * p->copies);
  }
  error->text[0] = '\0';
  return fp_seal_key_check (p, error);
}
