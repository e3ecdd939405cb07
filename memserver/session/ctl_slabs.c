/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl_slabs.c - messages about slabs: LIST, GRANT, LABEL, RELEASE, ZERO. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/tsan.h"
#include "memserver/session/ctl.h"
#include "memserver/session/data.h"
#include "memserver/session/guard.h"
#include "memserver/session/keys.h"
#include "memserver/session/session.h"
#include "memserver/store/record.h"
#include "memserver/store/records.h"

#define ZERO_INLINE (1u << 20) /* most bytes to zero on the loop */

/* Return the session's slab of this number, or NULL. */
static struct slab *
find_slab (const struct call *call, uint64_t index)
{
  struct slab *s = pool_slab (call->session->sessions->pool, index);

  return s && s->state == SLAB_LENT && s->record == call->session->record
             ? s
             : NULL;
}

/* Return the session's slab of this number, lent or lost, or NULL.  A lost
 * slab is a mark that can be released.
 */
static struct slab *
find_slab_or_mark (const struct call *call, uint64_t index)
{
  struct slab *s = pool_slab (call->session->sessions->pool, index);

  return s && s->record == call->session->record ? s : NULL;
}

static int
no_slab (struct call *call, uint64_t index)
{
  return ctl_fail (call, -ENOENT, "slab %llu is not lent to this volume",
                   (unsigned long long) index);
}

/* Return 0 unless the slab is being copied (take_over), else CTL_WAIT or
 * -EBUSY.  A change made now would be lost; a scrub would race with
 * pool_moved.
 */
static int
check_not_moving (struct call *call, const struct slab *s)
{
  const struct session *session = call->session;

  if (!session->moving || session->move.slab != s)
    return 0;
  return session->patience == PATIENCE_OVER
             ? ctl_fail (call, -EBUSY,
                         "slab %u is still being copied: try again", s->index)
             : CTL_WAIT;
}

static int
check_keys (struct call *call)
{
  int r = keys_ready (call->session);

  if (r < 0)
    return ctl_fail (call, r,
                     "rdma: make a data connection first: it selects the "
                     "device that registers the memory");
  return 0;
}

/* Set all bits of the tail.  A client that does not know tails writes only the
 * slab, so the tail must say that anything may have been written.
 */
static int
hide_tail (struct call *call, struct slab *s, uint64_t size)
{
  int r = backing_fill_tail (&s->backing, size, 0xff);

  return r < 0 ? ctl_fail (call, r, "slab %u: %s", s->index, strerror (-r))
               : 0;
}

/* Add the slab's memfd to the reply.  A session that only reads gets another
 * file of the same memory, which can only be mapped for reading.  Only this
 * server's own user can open that again for writing, through /proc.
 */
static int
add_fd (struct call *call, const struct slab *s)
{
  struct session *session = call->session;
  int fd = s->backing.fd;

  if (session->read_only) {
    char path[32];

    snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
    if (fchmod (fd, S_IRUSR | S_IWUSR) < 0 ||
        (fd = open (path, O_RDONLY | O_CLOEXEC)) < 0)
      return ctl_fail (call, -errno, "slab %u: cannot open it for reading: %s",
                       s->index, strerror (errno));
    session->sent_fds[session->nr_sent_fds++] = fd;
  }
  call->fds[call->nr_fds++] = fd;
  return 0;
}

static int
add_grant (struct call *call, struct fp_grants *p, struct slab *s)
{
  uint64_t size = pool_slab_size (call->session->sessions->pool);
  int r;

  if (s->state == SLAB_LOST) {
    p->grants[p->count++] = (struct fp_grant) {
      .slab = s->index,
      .extent = s->label.extent,
      .copy = s->label.copy,
      .generation = s->label.generation,
    };
    return 0;
  }
  if (!call->session->tails && !call->session->read_only) {
    r = hide_tail (call, s, size);
    if (r < 0)
      return r;
  }
  r = keys_open (call->session, s);
  if (r < 0)
    return ctl_fail (call, r, "slab %u: cannot make a key for it: %s",
                     s->index, strerror (-r));
  if (call->session->record->transport == FP_TRANSPORT_SHM) {
    r = add_fd (call, s);
    if (r < 0)
      return r;
  }
  p->grants[p->count++] = (struct fp_grant) {
    .slab = s->index,
    .extent = s->label.extent,
    .copy = s->label.copy,
    .generation = s->label.generation,
    .raddr = s->raddr,
    .rkey = s->rkey,
    .length = call->session->tails ? s->backing.size : size,
  };
  return 0;
}

/* Copy a slab that this session must not use as it is.  CTL_WAIT: it is being
 * copied.  One reason is that an earlier client may have it mapped, and this
 * is another one.  The other is tcp, whose threads load and store.  A client
 * with the memfd can punch a hole that no memory is left to fill, and then
 * they end this process (backing.h).
 *
 * A slab whose key is open stays as it is.  A copy would have no key, and
 * would not count as exposed although this session has it mapped.
 */
static int
take_over (struct call *call, struct slab *s)
{
  struct session *session = call->session;
  bool touched =
      s->exposed && (session->stranger || s->shared ||
                     session->record->transport == FP_TRANSPORT_TCP);

  if (s->state == SLAB_LOST || s->keyed || (!s->abandoned && !touched))
    return 0;
  if (!touched && fp_uuid_eq (&s->mapper, &session->client)) {
    s->abandoned = false;
    return 0;
  }
  if (session->moving)
    return check_not_moving (call, session->move.slab);
  if (session->move.slab == s && session->move.status < 0) {
    int r = session->move.status;

    session->move.slab = NULL;
    return ctl_fail (call, r,
                     "slab %u: a client may still have it mapped, and there "
                     "is no memory to copy it to: %s",
                     s->index, strerror (-r));
  }
  session->move.slab = s;
  session->move.status = 0;
  session->moving = true;
  pool_move (session->sessions->pool, &session->move);
  return CTL_WAIT;
}

int
ctl_list (struct call *call)
{
  const struct record *rec = call->session->record;
  uint64_t until = fp_now_ns () + KEYS_NS, labelled = 0;
  struct fp_grants p = { .count = 0 };
  struct fp_list q;
  int r = fp_dec_list (&call->in, &q);

  if (r < 0)
    return r;
  r = check_keys (call);
  if (r < 0)
    return r;
  for (uint32_t i = 0; i < rec->nr_slabs && p.count < q.max; i++) {
    struct slab *s = rec->slabs[i];

    if (s->label.extent == FP_EXTENT_NONE || labelled++ < q.start)
      continue;
    r = take_over (call, s);
    if (r != 0 && p.count > 0)
      break; /* send these; the client asks for the rest */
    if (r == 0)
      r = add_grant (call, &p, s);
    if (r != 0)
      return r;
    if (fp_deadline_passed (until))
      break;
  }
  fp_enc_grants (&call->out, &p);
  return 0;
}

/* Add one slab to the volume.  -ENOSPC: there is none now. */
static int
grant_one (struct call *call, struct fp_grants *p)
{
  struct session *session = call->session;
  struct slab *s = pool_take (session->sessions->pool);
  int r;

  if (!s)
    return -ENOSPC;
  r = record_add (session->record, s);
  if (r < 0) {
    pool_return (session->sessions->pool, s);
    return r;
  }
  r = add_grant (call, p, s);
  if (r < 0)
    record_release (session->record, s);
  return r;
}

/* Forget an orphan for a slab that is needed now.  Return true if that may
 * help.  A slab that its client may still have mapped must get other memory
 * first.  So for a request only one volume of those slabs is forgotten, and
 * none if there is no memory.
 */
static bool
forget_orphan (struct session *s)
{
  struct sessions *all = s->sessions;

  if (records_reclaim (all->records, NULL, RECLAIM_LENDABLE) >= 0 ||
      s->reclaimed)
    return true;
  s->reclaimed = pool_may_populate (all->pool) &&
                 records_reclaim (all->records, NULL, RECLAIM_SLABS) >= 0;
  return s->reclaimed;
}

int
ctl_grant (struct call *call)
{
  struct session *s = call->session;
  struct sessions *all = s->sessions;
  uint64_t until = fp_now_ns () + KEYS_NS;
  struct fp_grants p = { .count = 0 };
  struct fp_grant_req q;
  int r = fp_dec_grant_req (&call->in, &q);

  if (r < 0)
    return r;
  if (all->stopping || all->drain == DRAIN_LAST)
    return ctl_fail (call, -ESHUTDOWN, "this server is stopping");
  if (all->drain != DRAIN_NOT)
    return ctl_fail (call, -ENOSPC,
                     "this server is being drained: it lends nothing");
  r = check_keys (call);
  if (r == 0)
    r = guard_grant (call, q.ahead);
  if (r < 0)
    return r;
  q.count = (uint32_t) FP_MIN ((uint64_t) q.count, guard_room (s).left);
  while (p.count < q.count && r == 0 &&
         (p.count == 0 || !fp_deadline_passed (until)))
    r = grant_one (call, &p);
  if (p.count == 0 && r == -ENOSPC) {
    struct pool_counts counts = pool_count (all->pool);
    uint32_t soon = pool_lendable (all->pool);

    if (soon == 0 && !q.ahead && s->patience != PATIENCE_OVER &&
        forget_orphan (s))
      return CTL_WAIT;
    if (soon > 0 && !q.ahead && s->patience != PATIENCE_OVER)
      return CTL_WAIT;
    if (counts.in[SLAB_LENT] < counts.total && soon == 0)
      return ctl_fail (call, r,
                       "%u of %u slabs are lent, and the host can spare no "
                       "memory for more",
                       counts.in[SLAB_LENT], counts.total);
    return ctl_fail (call, r, "all %u slabs are lent%s", counts.total - soon,
                     soon > 0 ? ", others are not ready yet" : "");
  }
  if (p.count == 0)
    return r;
  all->counts.granted += p.count;
  fp_enc_grants (&call->out, &p);
  return 0;
}

static int
check_label (struct call *call, const struct fp_labels *q, uint32_t i)
{
  const struct record *rec = call->session->record;
  const struct fp_label *l = &q->labels[i];
  uint64_t extents = record_extents (rec);

  if (!find_slab (call, l->slab))
    return no_slab (call, l->slab);
  if (l->extent >= extents)
    return ctl_fail (
        call, -EINVAL, "extent %llu: this volume has only %llu extents",
        (unsigned long long) l->extent, (unsigned long long) extents);
  for (uint32_t j = 0; j < i; j++)
    if (q->labels[j].slab == l->slab)
      return ctl_fail (call, -EINVAL, "slab %llu is given twice",
                       (unsigned long long) l->slab);
  return 0;
}

int
ctl_label (struct call *call)
{
  struct fp_labels q;
  int r = fp_dec_labels (&call->in, &q);

  for (uint32_t i = 0; r == 0 && i < q.count; i++)
    r = check_label (call, &q, i);
  if (r < 0)
    return r;
  for (uint32_t i = 0; i < q.count; i++)
    record_label (call->session->record, find_slab (call, q.labels[i].slab),
                  &q.labels[i]);
  return 0;
}

int
ctl_release (struct call *call)
{
  struct session *session = call->session;
  uint64_t until = fp_now_ns () + KEYS_NS;
  struct fp_release q;
  bool held = false;
  int r = fp_dec_release (&call->in, &q);

  if (r < 0)
    return r;
  for (uint32_t i = 0; i < q.count; i++) {
    const struct slab *s = find_slab_or_mark (call, q.slabs[i]);

    if (!s)
      return no_slab (call, q.slabs[i]);
    r = check_not_moving (call, s);
    if (r != 0)
      return r;
    for (uint32_t j = 0; j < i; j++)
      if (q.slabs[j] == q.slabs[i])
        return ctl_fail (call, -EINVAL, "slab %llu is given twice",
                         (unsigned long long) q.slabs[i]);
  }

  for (uint32_t i = 0; i < q.count; i++) {
    struct slab *s = find_slab_or_mark (call, q.slabs[i]);

    if (s->region && fp_deadline_passed (until)) {
      sessions_poke (session->sessions); /* the rest after other events */
      return CTL_WAIT;
    }
    if (keys_close (s) < 0) {
      record_lose (session->record, s);
      return ctl_fail (call, -EIO, "slab %u: its key cannot be revoked",
                       s->index);
    }
    held = held || slab_is_held (s);
  }
  if (held) {
    /* The client itself is in the middle of a transfer.  If that does not end
     * in time, its data connections are ended.
     */
    if (session->patience == PATIENCE_OVER)
      data_stop_all (session);
    return CTL_WAIT;
  }
  for (uint32_t i = 0; i < q.count; i++)
    record_release (session->record, find_slab_or_mark (call, q.slabs[i]));
  session->sessions->counts.released += q.count;
  return 0;
}

int
ctl_zero (struct call *call)
{
  struct session *session = call->session;
  struct fp_zero q;
  struct slab *s;
  int r = fp_dec_zero (&call->in, &q);

  if (r < 0)
    return r;
  if (session->zeroing == ZEROING_RUNS)
    return CTL_WAIT;
  if (session->zeroing == ZEROING_DONE) {
    session_set_zeroing (session, ZEROING_NONE);
    return session->zero.status;
  }
  s = find_slab (call, q.slab);
  if (!s || s->abandoned)
    return no_slab (call, q.slab);
  r = check_not_moving (call, s);
  if (r != 0)
    return r;
  if (!fp_range_ok (q.offset, q.length,
                    pool_slab_size (session->sessions->pool)))
    return ctl_fail (call, -EINVAL, "ZERO: the range is outside the slab");
  if (q.length <= ZERO_INLINE) {
    fp_tsan_client_orders_begin ();
    r = backing_zero (&s->backing, q.offset, q.length);
    fp_tsan_client_orders_end ();
    return r;
  }
  session->zero.slab = s;
  session->zero.offset = q.offset;
  session->zero.length = q.length;
  session_set_zeroing (session, ZEROING_RUNS);
  pool_zero (session->sessions->pool, &session->zero);
  return CTL_WAIT;
}
