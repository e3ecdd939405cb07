/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_fail.c - decide what a failed transfer says about its server, or about
 * its copy.
 */

#include <config.h>

#include <errno.h>

#include "base/checked.h"
#include "engine/lane_int.h"

/* A server that ends a session closes its keys, then its connections.  On a
 * host with free CPUs, the connections follow within this time, in ns.
 */
#define ENDING_NS (10 * FP_NS_PER_MS)

bool
lane_blame_copy (struct fp_lane *lane, const struct frag *f)
{
  const struct fp_io *io = f->io;
  uint64_t k;

  if (io != NULL &&
      (!fp_copies_several (lane->e->extents) || io->target != NULL))
    return false;
  k = (uint64_t) (f->extent - lane->e->extents->p);
  if (io == NULL) /* a late answer */
    return fp_mirror_failed (lane->e, k);
  /* The copy may have been dropped meanwhile. */
  return (fp_mirror_failed (lane->e, k) ||
          !fp_copy_counts (lane->e->extents, k)) &&
         !io->migrate;
}

bool
lane_leave_behind (struct fp_lane *lane, const struct fp_extent *p)
{
  const struct fp_extents *t = lane->e->extents;
  uint64_t k = (uint64_t) (p - t->p);

  /* The copy may have been dropped meanwhile. */
  return fp_copies_several (lane->e->extents) &&
         (fp_mirror_failed (lane->e, k) || !fp_copy_counts (t, k));
}

enum issue
lane_missing (struct fp_lane *lane, struct fp_io *io,
              const struct fp_extent *p)
{
  io->failed = true;
  return io->target == NULL && lane_leave_behind (lane, p) && !io->migrate &&
                 !io->forced
             ? PARK
             : fail_io (io, -EIO);
}

bool
lane_refused (const struct frag *f)
{
  return f->op.status == -EPERM || f->op.status == -EACCES;
}

/* Return true if the server may be about to end the session, because a key was
 * first refused on this connection only just now.
 */
static bool
may_be_ending (const struct fp_lane *lane, struct lane_conn *lc)
{
  uint64_t now = fp_now_ns ();
  uint64_t timeout = (uint64_t) lane->e->p->timeout_ms * FP_NS_PER_MS;

  if (lc->refused_ns == 0)
    lc->refused_ns = now;
  return now - lc->refused_ns < FP_MAX (ENDING_NS, timeout / 16);
}

/* If a key was first refused just now, wait: the server may have ended the
 * session before its peer knows.  Later the refusal is held against the copy,
 * if there is another one.  Without another one, a request goes on waiting,
 * but the migration thread does not.  Any other failure would repeat.
 */
bool
lane_must_retry (struct fp_lane *lane, const struct frag *f)
{
  if (lane_refused (f) && may_be_ending (lane, &lane->conns[f->server]))
    return true;
  return lane_blame_copy (lane, f) || (lane_refused (f) && !f->io->migrate);
}
