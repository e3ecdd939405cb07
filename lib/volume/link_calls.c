/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "volume/link_int.h"

static int
do_release (struct fp_link *l, struct call *c)
{
  struct fp_release q = { .count = 1, .slabs = { c->piece->copy.slab } };
  int r;

  c->piece->releasing = true;
  r = fp_ctl_release (l->s.ctl, &q, fp_deadline_in_ms (LINK_SLOW_MS));
  if (r < 0)
    return r;
  fp_copy_forget (&c->piece->copy);
  return 0;
}

static int
do_zero (struct fp_link *l, struct call *c)
{
  struct fp_zero q = {
    .slab = c->piece->copy.slab,
    .offset = c->offset,
    .length = c->length,
  };

  int r = fp_ctl_zero (l->s.ctl, &q, fp_deadline_in_ms (LINK_SLOW_MS));

  if (r == 0)
    fp_piece_clear_written (l->v->pieces,
                            (uint64_t) (c->piece - l->v->pieces->p), c->offset,
                            c->length);
  return r;
}

/* A status that the server sent leaves the session sound; anything else
 * ends it.
 */
bool
link_session_broken (int r)
{
  switch (r) {
  case -ENOSPC:
  case -EINVAL:
  case -EBUSY:
  case -ENOENT:
  case -EPERM:
  case -ENOMEM:
  case -ESHUTDOWN:
  case -ESTALE:
  case -EEXIST:
    return false;
  default:
    return r < 0;
  }
}

static void
finish_call (struct fp_link *l, struct call *c, int r, bool up)
{
  /* A piece whose release or zeroing failed still is what it was; if the
   * server is away it is offline, and its list will tell.
   */
  {
    struct fp_piece *p = c->piece;

    /* let_go leaves a piece alone that somebody has shut. */
    if (!up || !atomic_load (&p->held))
      fp_copy_forget (&p->copy);
    if ((r == 0 && c->kind == CALL_RELEASE) || !atomic_load (&p->held)) {
      p->releasing = c->kind == CALL_RELEASE;
      link_forget (l, p, FP_PIECE_BUSY);
    }
    else {
      /* Refused, so it still has it; or the next list will tell. */
      if (up)
        p->releasing = false;
      if (!fp_piece_move (p, FP_PIECE_BUSY,
                          up ? FP_PIECE_READY : FP_PIECE_OFFLINE))
        abort (); /* the caller owns it */
    }
  }
  FP_LOCK_SCOPE (&l->lock);
  c->result = r;
  c->done = true;
  pthread_cond_broadcast (&l->cond);
}

static struct call *
next_call (struct fp_link *l)
{
  FP_LOCK_SCOPE (&l->lock);
  struct call *c = l->calls;

  if (c != NULL) {
    l->calls = c->next;
    if (l->calls == NULL)
      l->calls_tail = &l->calls;
  }
  return c;
}

/* Returns a negative errno value if the session ended. */
int
link_do_calls (struct fp_link *l)
{
  struct call *c;

  while ((c = next_call (l)) != NULL) {
    uint64_t asked = fp_now_ns ();
    int r = -EINVAL;

    switch (c->kind) {
    case CALL_RELEASE:
      r = do_release (l, c);
      break;
    case CALL_ZERO:
      r = do_zero (l, c);
      break;
    }
    if (link_session_broken (r)) {
      link_set_why (l, fp_ctl_why (l->s.ctl));
      finish_call (l, c, -ENOTCONN, false);
      return r;
    }
    link_renewed (l, asked);
    finish_call (l, c, r, true);
  }
  return 0;
}

void
link_fail_calls (struct fp_link *l)
{
  struct call *c;

  while ((c = next_call (l)) != NULL)
    finish_call (l, c, -ENOTCONN, false);
  link_fail_places (l);
}

static int
run_call (struct fp_link *l, struct call *c)
{
  {
    FP_LOCK_SCOPE (&l->lock);
    *l->calls_tail = c;
    l->calls_tail = &c->next;
  }
  link_wake (l);
  FP_LOCK_SCOPE (&l->lock);
  while (!c->done)
    pthread_cond_wait (&l->cond, &l->lock);
  return c->result;
}

int
fp_link_release (struct fp_link *l, struct fp_piece *p)
{
  struct call c = { .kind = CALL_RELEASE, .piece = p };

  return run_call (l, &c);
}

int
fp_link_zero (struct fp_link *l, struct fp_piece *p, uint64_t offset,
              uint64_t length)
{
  struct call c = {
    .kind = CALL_ZERO,
    .piece = p,
    .offset = offset,
    .length = length,
  };

  return run_call (l, &c);
}

void
link_renewed (struct fp_link *l, uint64_t asked_ns)
{
  uint64_t lease_ns = l->s.hello.lease_ms * FP_NS_PER_MS;

  atomic_store (&l->lease_ns, asked_ns + lease_ns - lease_ns / 8);
  atomic_store (&l->mute, false);
}

bool
fp_link_lease_holds (const struct fp_link *l, uint64_t now)
{
  return now < atomic_load (&l->lease_ns);
}

void
fp_link_status (struct fp_link *l, struct fp_server_status *s)
{
  memset (s, 0, sizeof *s);
  fp_addr_format (l->addr, s->addr);
  s->pieces = atomic_load (&l->pieces);
  s->bytes_read = atomic_load (&l->bytes_read);
  s->bytes_written = atomic_load (&l->bytes_written);
  s->ops = atomic_load (&l->ops_done);
  s->errors = atomic_load (&l->errors);
  FP_LOCK_SCOPE (&l->lock);
  memcpy (s->name, l->name, sizeof s->name);
  s->state = l->state;
  s->transport = l->transport;
  s->slabs_total = l->slabs_total;
  s->slabs_free = l->slabs_free;
  s->reconnects = l->reconnects;
  memcpy (s->why, l->why, sizeof s->why);
}

int
fp_link_wait_up (struct fp_link *l, uint64_t deadline_ns, char why[FP_WHY_MAX])
{
  FP_LOCK_SCOPE (&l->lock);
  while (l->session == 0) {
    struct timespec until;
    char where[FP_ADDR_MAX + 1];

    if (l->state == FP_SERVER_LOST || fp_deadline_passed (deadline_ns)) {
      fp_addr_format (l->addr, where);
      if (strncmp (l->why, where, strlen (where)) == 0)
        snprintf (why, FP_WHY_MAX, "%s", l->why);
      else
        snprintf (why, FP_WHY_MAX, "%s: %.*s", where,
                  FP_WHY_MAX - FP_ADDR_MAX - 3,
                  l->why[0] != '\0' ? l->why : "did not answer in time");
      return -ENOTCONN;
    }
    fp_timespec_after (&until, 50);
    /* A timeout means: look again. */
    (void) pthread_cond_timedwait (&l->cond, &l->lock, &until);
  }
  return 0;
}
