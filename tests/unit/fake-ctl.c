/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "fake-ctl.h"

#define MAX_SLABS 256
#define MAX_SERVERS 4

struct fake_slab {
  enum { SLAB_FREE, SLAB_GRANTED, SLAB_LABELLED, SLAB_LOST } state;
  uint64_t piece, generation;
};

struct fake_server {
  struct fp_fake_server *data;
  uint64_t slab_size;
  unsigned slabs;
  struct fake_slab slab[MAX_SLABS];
  bool cut, known, dies_of_label;
  struct fp_uuid volume;
  struct fp_ctl *ctl; /* the session that has the volume open */
  enum fake_silence silence;
  unsigned silent_about; /* an fp_msg_type; 0: all */
};

struct fp_ctl {
  struct fake_server *server;
  int fd;
  bool broken;
  const char *why;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER; /* silence changed */
static struct fake_server *servers[MAX_SERVERS];
static unsigned calls, fault_at;
static enum fake_ctl_fault fault_kind;
static bool fired;

void
fake_ctl_fault_at (unsigned n, enum fake_ctl_fault fault)
{
  FP_LOCK_SCOPE (&lock);
  calls = 0;
  fault_at = n;
  fault_kind = fault;
  fired = false;
}

bool
fake_ctl_fault_fired (void)
{
  FP_LOCK_SCOPE (&lock);
  return fired;
}

struct fake_server *
fake_server_new (const char *host, uint64_t slab_size, unsigned slabs)
{
  struct fake_server *s = calloc (1, sizeof *s);

  assert (s != NULL && slabs <= MAX_SLABS);
  s->slab_size = slab_size;
  s->slabs = slabs;
  s->data = fp_fake_server_new (host, slab_size * slabs);
  assert (s->data != NULL);
  for (unsigned i = 0; i < MAX_SERVERS; i++) {
    if (servers[i] == NULL) {
      servers[i] = s;
      return s;
    }
  }
  abort ();
}

void
fake_server_free (struct fake_server *s)
{
  for (unsigned i = 0; i < MAX_SERVERS; i++) {
    if (servers[i] == s)
      servers[i] = NULL;
  }
  fp_fake_server_free (s->data);
  free (s);
}

const struct fp_addr *
fake_server_addr (const struct fake_server *s)
{
  return fp_fake_server_addr (s->data);
}

struct fp_fake_server *
fake_server_data (struct fake_server *s)
{
  return s->data;
}

static void
hang_up (struct fp_ctl *c)
{
  uint64_t one = 1;

  c->broken = true;
  c->why = "the server hung up";
  if (write (c->fd, &one, sizeof one) != sizeof one)
    abort ();
}

static void
scrub (struct fake_server *s, unsigned i)
{
  memset (fp_fake_server_memory (s->data) + i * s->slab_size, 0, s->slab_size);
  s->slab[i].state = SLAB_FREE;
}

static void
end_session (struct fake_server *s)
{
  s->ctl = NULL;
  fp_fake_server_revoke (s->data);
  for (unsigned i = 0; i < s->slabs; i++) {
    if (s->slab[i].state == SLAB_GRANTED)
      scrub (s, i);
  }
}

void
fake_server_cut (struct fake_server *s)
{
  FP_LOCK_SCOPE (&lock);
  s->cut = true;
  fp_fake_server_die (s->data);
  if (s->ctl != NULL) {
    hang_up (s->ctl);
    end_session (s);
  }
}

void
fake_server_revive (struct fake_server *s)
{
  FP_LOCK_SCOPE (&lock);
  s->cut = false;
  fp_fake_server_revive (s->data);
}

void
fake_server_forget (struct fake_server *s)
{
  FP_LOCK_SCOPE (&lock);
  s->known = false;
  for (unsigned i = 0; i < s->slabs; i++)
    scrub (s, i);
}

void
fake_server_lose (struct fake_server *s)
{
  FP_LOCK_SCOPE (&lock);
  for (unsigned i = 0; i < s->slabs; i++)
    if (s->slab[i].state == SLAB_LABELLED)
      s->slab[i].state = SLAB_LOST;
}

void
fake_server_silence (struct fake_server *s, enum fake_silence silence,
                     unsigned about)
{
  FP_LOCK_SCOPE (&lock);
  s->silence = silence;
  s->silent_about = about;
  pthread_cond_broadcast (&cond);
}

void
fake_server_die_of_label (struct fake_server *s, bool on)
{
  FP_LOCK_SCOPE (&lock);
  s->dies_of_label = on;
}

void
fake_server_plant (struct fake_server *s, unsigned slab, uint64_t piece,
                   uint64_t generation)
{
  FP_LOCK_SCOPE (&lock);
  assert (s->slab[slab].state == SLAB_FREE);
  s->slab[slab] = (struct fake_slab) { .state = SLAB_LABELLED,
                                       .piece = piece,
                                       .generation = generation };
}

uint64_t
fake_server_generation (struct fake_server *s, uint64_t piece)
{
  uint64_t g = 0;

  FP_LOCK_SCOPE (&lock);
  for (unsigned i = 0; i < s->slabs; i++)
    if (s->slab[i].state == SLAB_LABELLED && s->slab[i].piece == piece &&
        s->slab[i].generation > g)
      g = s->slab[i].generation;
  return g;
}

static unsigned
count_slabs (struct fake_server *s, int state)
{
  unsigned n = 0;

  FP_LOCK_SCOPE (&lock);
  for (unsigned i = 0; i < s->slabs; i++)
    n += (int) s->slab[i].state == state;
  return n;
}

unsigned
fake_server_free_slabs (struct fake_server *s)
{
  return count_slabs (s, SLAB_FREE);
}

unsigned
fake_server_labelled (struct fake_server *s)
{
  return count_slabs (s, SLAB_LABELLED);
}

/* ---- the functions of ctl_channel.h ---- */

int
fp_ctl_open (struct fp_ctl **out, const struct fp_addr *addr,
             uint64_t deadline_ns)
{
  struct fp_ctl *c;

  (void) deadline_ns;
  FP_LOCK_SCOPE (&lock);
  for (unsigned i = 0; i < MAX_SERVERS; i++) {
    struct fake_server *s = servers[i];

    if (s == NULL || !fp_addr_eq (addr, fp_fake_server_addr (s->data)))
      continue;
    if (s->cut)
      return -ECONNREFUSED;
    c = calloc (1, sizeof *c);
    assert (c != NULL);
    c->server = s;
    c->why = "";
    c->fd = eventfd (0, EFD_CLOEXEC);
    assert (c->fd >= 0);
    *out = c;
    return 0;
  }
  return -ECONNREFUSED;
}

void
fp_ctl_free (struct fp_ctl *c)
{
  if (c == NULL)
    return;
  FP_LOCK_SCOPE (&lock);
  if (c->server->ctl == c)
    end_session (c->server);
  close (c->fd);
  free (c);
}

void
fp_ctl_freep (struct fp_ctl **cp)
{
  fp_ctl_free (*cp);
}

int
fp_ctl_fd (const struct fp_ctl *c)
{
  return c->fd;
}

bool
fp_ctl_is_unix (const struct fp_ctl *c)
{
  (void) c;
  return false;
}

const char *
fp_ctl_why (const struct fp_ctl *c)
{
  return c->why;
}

static int
break_channel (struct fp_ctl *c, const char *why)
{
  c->broken = true;
  c->why = why;
  if (c->server->ctl == c)
    end_session (c->server);
  return -ECONNRESET;
}

/* True: nothing was heard until the deadline. */
static bool
heard_nothing (struct fp_ctl *c, unsigned type, enum fake_silence silence,
               uint64_t deadline_ns)
{
  struct fake_server *s = c->server;

  while (s->silence == silence &&
         (s->silent_about == 0 || s->silent_about == type) && !c->broken) {
    struct timespec until;

    if (fp_deadline_passed (deadline_ns))
      return true;
    /* The condition follows the time of day; look often. */
    clock_gettime (CLOCK_REALTIME, &until);
    until.tv_nsec += 5000000;
    if (until.tv_nsec >= 1000000000) {
      until.tv_sec++;
      until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait (&cond, &lock, &until);
  }
  return false;
}

static int
out_of_time (struct fp_ctl *c)
{
  break_channel (c, "did not answer in time");
  return -ETIMEDOUT;
}

/* Before a call takes effect. */
static int
before (struct fp_ctl *c, unsigned type, uint64_t deadline_ns, bool *lose)
{
  *lose = false;
  if (!c->broken && heard_nothing (c, type, FAKE_DEAF, deadline_ns))
    return out_of_time (c);
  if (c->broken || c->server->cut)
    return break_channel (c, "the server hung up");
  calls++;
  if (fault_at != 0 && calls == fault_at) {
    fired = true;
    if (fault_kind == FAKE_CTL_REFUSE)
      return break_channel (c, "refused by the test");
    *lose = true;
  }
  return 0;
}

/* After it did. */
static int
after (struct fp_ctl *c, unsigned type, uint64_t deadline_ns, bool lose, int r)
{
  if (lose)
    return break_channel (c, "answer lost by the test");
  if (heard_nothing (c, type, FAKE_MUTE, deadline_ns))
    return out_of_time (c);
  return c->broken ? break_channel (c, "the server hung up") : r;
}

#define CALL(c, type, body)                                                   \
  do {                                                                        \
    FP_LOCK_SCOPE (&lock);                                                    \
    struct fake_server *s = (c)->server;                                      \
    bool lose;                                                                \
    int r = before (c, type, deadline_ns, &lose);                             \
                                                                              \
    (void) s;                                                                 \
    if (r == 0) {                                                             \
      body r = after (c, type, deadline_ns, lose, r);                         \
    }                                                                         \
    return r;                                                                 \
  } while (0)

int
fp_ctl_hello (struct fp_ctl *c, const struct fp_hello *q,
              struct fp_hello_reply *p, uint64_t deadline_ns)
{
  (void) q;
  CALL (c, FP_MSG_HELLO, {
    memset (p, 0, sizeof *p);
    p->version = FP_VERSION;
    p->transports = FP_TRANSPORT_FAKE;
    strcpy (p->name, "fake");
    p->slab_size = s->slab_size;
    p->slabs_total = s->slabs;
    for (unsigned i = 0; i < s->slabs; i++)
      p->slabs_free += s->slab[i].state == SLAB_FREE;
    p->lease_ms = 400;
  });
}

static bool
is_listed (const struct fake_slab *slab)
{
  return slab->state == SLAB_LABELLED || slab->state == SLAB_LOST;
}

int
fp_ctl_volume_open (struct fp_ctl *c, const struct fp_open *q,
                    struct fp_open_reply *p, uint64_t deadline_ns)
{
  CALL (c, FP_MSG_OPEN, {
    memset (p, 0, sizeof *p);
    if (s->ctl != NULL) {
      r = -EBUSY;
    }
    else if (s->known && fp_uuid_eq (&s->volume, &q->volume)) {
      r = q->flags & FP_OPEN_RESUME ? 0 : -EEXIST;
      p->resumed = true;
    }
    else if (q->flags & FP_OPEN_CREATE) {
      s->known = true;
      s->volume = q->volume;
    }
    else {
      r = -ENOENT;
      c->why = "no such volume";
    }
    if (r == 0) {
      s->ctl = c;
      for (unsigned i = 0; i < s->slabs; i++)
        p->labels += is_listed (&s->slab[i]);
    }
  });
}

static void
fill_grant (struct fake_server *s, unsigned i, struct fp_grant *g)
{
  memset (g, 0, sizeof *g);
  g->slab = i;
  if (s->slab[i].state != SLAB_GRANTED)
    g->generation = s->slab[i].generation;
  if (s->slab[i].state == SLAB_LOST) {
    g->piece = s->slab[i].piece;
    return;
  }
  g->piece =
      s->slab[i].state == SLAB_LABELLED ? s->slab[i].piece : FP_PIECE_NONE;
  fp_fake_server_grant (s->data, i * s->slab_size, s->slab_size, g);
}

int
fp_ctl_list (struct fp_ctl *c, const struct fp_list *q, struct fp_grants *p,
             int fds[FP_MAX_GRANTS], uint64_t deadline_ns)
{
  CALL (c, FP_MSG_LIST, {
    uint64_t index = 0;

    p->count = 0;
    for (unsigned i = 0; i < s->slabs && p->count < q->max; i++) {
      if (!is_listed (&s->slab[i]) || index++ < q->start)
        continue;
      fds[p->count] = -1;
      fill_grant (s, i, &p->grants[p->count++]);
    }
  });
}

int
fp_ctl_grant (struct fp_ctl *c, uint32_t count, struct fp_grants *p,
              int fds[FP_MAX_GRANTS], uint64_t deadline_ns)
{
  CALL (c, FP_MSG_GRANT, {
    p->count = 0;
    for (unsigned i = 0; i < s->slabs && p->count < count; i++) {
      if (s->slab[i].state != SLAB_FREE)
        continue;
      s->slab[i].state = SLAB_GRANTED;
      fds[p->count] = -1;
      fill_grant (s, i, &p->grants[p->count++]);
    }
    if (p->count == 0)
      r = -ENOSPC;
  });
}

int
fp_ctl_label (struct fp_ctl *c, const struct fp_labels *q,
              uint64_t deadline_ns)
{
  CALL (c, FP_MSG_LABEL, {
    for (uint32_t i = 0; i < q->count; i++) {
      assert (s->slab[q->labels[i].slab].state == SLAB_GRANTED);
      s->slab[q->labels[i].slab].state = SLAB_LABELLED;
      s->slab[q->labels[i].slab].piece = q->labels[i].piece;
      s->slab[q->labels[i].slab].generation = q->labels[i].generation;
    }
    if (s->dies_of_label) {
      s->cut = true;
      fp_fake_server_die (s->data);
      lose = true;
    }
  });
}

int
fp_ctl_release (struct fp_ctl *c, const struct fp_release *q,
                uint64_t deadline_ns)
{
  CALL (c, FP_MSG_RELEASE, {
    for (uint32_t i = 0; i < q->count; i++) {
      assert (s->slab[q->slabs[i]].state != SLAB_FREE);
      scrub (s, (unsigned) q->slabs[i]);
    }
  });
}

int
fp_ctl_zero (struct fp_ctl *c, const struct fp_zero *q, uint64_t deadline_ns)
{
  CALL (c, FP_MSG_ZERO, {
    assert (s->slab[q->slab].state == SLAB_LABELLED &&
            q->offset + q->length <= s->slab_size);
    memset (fp_fake_server_memory (s->data) + q->slab * s->slab_size +
                q->offset,
            0, q->length);
  });
}

int
fp_ctl_ping (struct fp_ctl *c, struct fp_ping_reply *p, uint64_t deadline_ns)
{
  CALL (c, FP_MSG_PING, {
    memset (p, 0, sizeof *p);
    p->slabs_total = s->slabs;
    for (unsigned i = 0; i < s->slabs; i++)
      p->slabs_free += s->slab[i].state == SLAB_FREE;
  });
}

int
fp_ctl_bye (struct fp_ctl *c, const struct fp_bye *q, uint64_t deadline_ns)
{
  CALL (c, FP_MSG_BYE, {
    if (q->discard && s->ctl == c) {
      s->known = false;
      for (unsigned i = 0; i < s->slabs; i++)
        scrub (s, i);
    }
  });
}

int
fp_ctl_stat (struct fp_ctl *c, struct fp_stat_reply *p, uint64_t deadline_ns)
{
  (void) c;
  (void) p;
  (void) deadline_ns;
  return -EOPNOTSUPP; /* nothing in lib/volume asks */
}

/* Only the tcp transport calls these, and it is not used here. */
int
fp_ctl_data_hello (struct fp_ctl *c, const struct fp_data_hello *q,
                   uint64_t deadline_ns)
{
  (void) c;
  (void) q;
  (void) deadline_ns;
  return -EOPNOTSUPP;
}

int
fp_ctl_steal_fd (struct fp_ctl *c)
{
  (void) c;
  return -1;
}
