/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "fake-ctl-int.h"

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER; /* silence changed */
static struct fake_server *servers[MAX_SERVERS];
static unsigned calls, fault_at, again_at;
static enum fake_ctl_fault fault_kind, again_kind;
static bool fired;

unsigned fake_lease_ms = 400;
uint64_t fake_features = FP_FEATURE_AHEAD | FP_FEATURE_DRAIN | FP_FEATURE_LOST;

void
fake_ctl_fault_at (unsigned n, enum fake_ctl_fault fault)
{
  FP_LOCK_SCOPE (&fake_lock);
  calls = 0;
  fault_at = n;
  fault_kind = fault;
  again_at = 0;
  fired = false;
}

void
fake_ctl_fault_again (unsigned n, enum fake_ctl_fault fault)
{
  FP_LOCK_SCOPE (&fake_lock);
  again_at = n;
  again_kind = fault;
}

unsigned
fake_ctl_fault_points (void)
{
  FP_LOCK_SCOPE (&fake_lock);
  return calls;
}

bool
fake_ctl_fault_fired (void)
{
  FP_LOCK_SCOPE (&fake_lock);
  return fired;
}

/* Return the distance of slabs in memory: each is followed by its tail. */
static uint64_t
stride (const struct fake_server *s)
{
  return s->slab_size + FP_TAIL_SIZE;
}

void
fake_server_no_tails (struct fake_server *s)
{
  s->no_tails = true;
}

struct fake_server *
fake_server_new (const char *host, uint64_t slab_size, unsigned slabs)
{
  struct fake_server *s = calloc (1, sizeof *s);

  assert (s != NULL && slabs <= MAX_SLABS);
  s->slab_size = slab_size;
  assert (fp_uuid_generate (&s->uuid) == 0);
  s->slabs = slabs;
  s->data = fp_fake_server_new (host, stride (s) * slabs);
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
  memset (fp_fake_server_memory (s->data) + i * stride (s), 0, stride (s));
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
  FP_LOCK_SCOPE (&fake_lock);
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
  FP_LOCK_SCOPE (&fake_lock);
  s->cut = false;
  fp_fake_server_revive (s->data);
}

void
fake_server_visit (struct fake_server *s)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->epoch++;
}

static void
forget (struct fake_server *s)
{
  s->known = false;
  s->epoch = 0;
  memset (&s->members, 0, sizeof s->members);
  memset (s->map, 0, sizeof s->map);
  for (unsigned i = 0; i < s->slabs; i++)
    scrub (s, i);
}

void
fake_server_forget (struct fake_server *s)
{
  FP_LOCK_SCOPE (&fake_lock);
  forget (s);
  assert (fp_uuid_generate (&s->uuid) == 0);
}

void
fake_server_expire (struct fake_server *s)
{
  FP_LOCK_SCOPE (&fake_lock);
  forget (s);
}

void
fake_server_lose (struct fake_server *s)
{
  FP_LOCK_SCOPE (&fake_lock);
  for (unsigned i = 0; i < s->slabs; i++)
    if (s->slab[i].state == SLAB_LABELLED)
      s->slab[i].state = SLAB_LOST;
}

void
fake_server_silence (struct fake_server *s, enum fake_silence silence,
                     unsigned about)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->silence = silence;
  s->silent_about = about;
  pthread_cond_broadcast (&cond);
}

void
fake_server_slow_list (struct fake_server *s, unsigned ms)
{
  atomic_store (&s->list_ms, ms);
}

void
fake_server_not_ready (struct fake_server *s, unsigned ms)
{
  atomic_store (&s->grant_ms, ms);
}

void
fake_server_die_of_label (struct fake_server *s, bool on)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->dies_of_label = on;
}

void
fake_server_die_of_release (struct fake_server *s, bool on)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->dies_of_release = on;
}

void
fake_server_keep (struct fake_server *s, bool on)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->keeps = on;
}

void
fake_server_want (struct fake_server *s, unsigned slabs)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->wanted = slabs;
}

void
fake_server_drain (struct fake_server *s, bool on)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->leaving = on;
}

bool
fake_server_is_stuck (struct fake_server *s)
{
  FP_LOCK_SCOPE (&fake_lock);
  return s->stuck;
}

/* ---- the functions of ctl_channel.h ---- */

int
fp_ctl_open (struct fp_ctl **out, const struct fp_addr *addr,
             uint64_t deadline_ns)
{
  struct fp_ctl *c;

  (void) deadline_ns;
  FP_LOCK_SCOPE (&fake_lock);
  for (unsigned i = 0; i < MAX_SERVERS; i++) {
    struct fake_server *s = servers[i];

    if (s == NULL || (!fp_addr_eq (addr, fp_fake_server_addr (s->data)) &&
                      strcmp (addr->host, s->alias) != 0))
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
  FP_LOCK_SCOPE (&fake_lock);
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

void
fp_ctl_hang_up (struct fp_ctl *c)
{
  FP_LOCK_SCOPE (&fake_lock);
  c->broken = true;
  pthread_cond_broadcast (&cond);
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
fp_ctl_secured (const struct fp_ctl *c)
{
  (void) c;
  return "local";
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

static bool
is_about (const struct fake_server *s, enum fake_silence silence,
          unsigned type)
{
  return s->silence == silence &&
         (s->silent_about == 0 || s->silent_about == type);
}

/* Wait while the server is silent about this type.  Return true if it still is
 * at the deadline.
 */
static bool
heard_nothing (struct fp_ctl *c, unsigned type, enum fake_silence silence,
               uint64_t deadline_ns)
{
  struct fake_server *s = c->server;

  while (is_about (s, silence, type) && !c->broken) {
    struct timespec until;

    if (fp_deadline_passed (deadline_ns))
      return true;
    /* The condition uses the time of day, which may jump; look often. */
    clock_gettime (CLOCK_REALTIME, &until);
    until.tv_nsec += 5000000;
    if (until.tv_nsec >= 1000000000) {
      until.tv_sec++;
      until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait (&cond, &fake_lock, &until);
  }
  return false;
}

static int
out_of_time (struct fp_ctl *c)
{
  break_channel (c, "did not answer in time");
  return -ETIMEDOUT;
}

/* Return true if this call has a fault. */
static bool
has_fault (enum fake_ctl_fault *kind)
{
  calls++;
  *kind = fault_kind;
  if (fault_at != 0 && (calls == fault_at ||
                        (calls > fault_at && fault_kind == FAKE_CTL_DIE))) {
    fired = again_at == 0;
    return true;
  }
  *kind = again_kind;
  if (again_at == 0 || calls != again_at)
    return false;
  fired = true;
  return true;
}

int
fake_before (struct fp_ctl *c, unsigned type, uint64_t deadline_ns, bool *lose)
{
  enum fake_ctl_fault kind;

  *lose = false;
  /* A real server refuses these in a read-only session, and a client has no
   * reason to send them.
   */
  switch (type) {
  case FP_MSG_GRANT:
  case FP_MSG_LABEL:
  case FP_MSG_RELEASE:
  case FP_MSG_ZERO:
  case FP_MSG_MEMBERS:
  case FP_MSG_MAP:
  case FP_MSG_MAP_WRITE:
    assert (!c->read_only);
    break;
  default:
    break;
  }
  if (!c->broken && heard_nothing (c, type, FAKE_DEAF, deadline_ns))
    return out_of_time (c);
  if (c->broken || c->server->cut || fp_fake_died ())
    return break_channel (c, "the server hung up");
  if (has_fault (&kind)) {
    if (kind != FAKE_CTL_LOSE_ANSWER)
      return break_channel (c, "refused by the test");
    *lose = true;
  }
  return is_about (c->server, FAKE_FULL, type) ? -ENOSPC : 0;
}

int
fake_after (struct fp_ctl *c, unsigned type, uint64_t deadline_ns, bool lose,
            int r)
{
  if (lose)
    return break_channel (c, "answer lost by the test");
  if (heard_nothing (c, type, FAKE_MUTE, deadline_ns))
    return out_of_time (c);
  return c->broken ? break_channel (c, "the server hung up") : r;
}

int
fp_ctl_hello (struct fp_ctl *c, const struct fp_hello *q,
              struct fp_hello_reply *p, uint64_t deadline_ns)
{
  CALL (c, FP_MSG_HELLO, {
    c->client = q->client;
    memcpy (c->name, q->name, sizeof c->name);
    memset (p, 0, sizeof *p);
    p->version = FP_VERSION;
    p->transports = FP_TRANSPORT_FAKE;
    p->features = q->features & fake_features;
    strcpy (p->name, "fake");
    p->server = s->uuid;
    p->slab_size = s->slab_size;
    p->slabs_total = s->slabs;
    for (unsigned i = 0; i < s->slabs; i++)
      p->slabs_free += s->slab[i].state == SLAB_FREE;
    p->lease_ms = fake_lease_ms;
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
    if (s->ctl == c && (q->flags & FP_OPEN_RECOUNT)) {
      s->opened.servers = q->servers;
      p->resumed = true;
      return fake_after (c, FP_MSG_OPEN, deadline_ns, lose, 0);
    }
    if (s->ctl != NULL && (q->flags & FP_OPEN_TAKEOVER) &&
        fp_uuid_eq (&s->volume, &q->volume)) {
      hang_up (s->ctl);
      end_session (s);
    }
    if (s->barred) {
      r = -EPERM;
      c->why = "may only read it";
    }
    else if (s->known && fp_uuid_eq (&s->volume, &q->volume) &&
             fp_uuid_eq (&s->former, &c->client)) {
      r = -EPERM;
      c->why = "another client has had it";
    }
    else if (s->ctl != NULL || s->held) {
      r = -EBUSY;
      c->why = "another client has it";
    }
    else if (s->known && q->name[0] != '\0' &&
             strcmp (s->opened.name, q->name) == 0 &&
             !fp_uuid_eq (&s->volume, &q->volume)) {
      r = -EEXIST;
      c->why = "a volume of that name has another UUID";
    }
    else if (s->known && fp_uuid_eq (&s->volume, &q->volume) &&
             (q->flags & FP_OPEN_RECOUNT) &&
             !fp_uuid_eq (&s->client, &c->client)) {
      r = -EINVAL;
      c->why = "another client has counted the servers";
    }
    else if (s->known && fp_uuid_eq (&s->volume, &q->volume) &&
             (s->opened.stripe.width != q->stripe.width ||
              s->opened.stripe.size != q->stripe.size)) {
      r = -EINVAL;
      c->why = "it is striped in another way";
    }
    else if (s->known && fp_uuid_eq (&s->volume, &q->volume)) {
      r = q->flags & FP_OPEN_RESUME ? 0 : -EEXIST;
      p->resumed = true;
      if (q->flags & FP_OPEN_RECOUNT)
        s->opened.servers = q->servers;
      if (r == 0 && q->servers < s->opened.servers && s->members.count == 0) {
        r = -EINVAL;
        c->why = "it is on more servers";
      }
    }
    else if (q->flags & FP_OPEN_CREATE) {
      s->known = true;
      s->volume = q->volume;
      s->opened = *q;
    }
    else {
      r = -ENOENT;
      c->why = "no such volume";
    }
    if (r == 0) {
      s->ctl = c;
      c->read_only = q->flags & FP_OPEN_READ_ONLY;
      if (!c->read_only && !fp_uuid_eq (&s->client, &c->client)) {
        s->former = s->client;
        s->client = c->client;
      }
      p->epoch = s->epoch += !c->read_only;
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
  if (s->slab[i].state == SLAB_LABELLED || s->slab[i].state == SLAB_LOST)
    g->copy = s->slab[i].copy;
  if (s->slab[i].state != SLAB_GRANTED)
    g->generation = s->slab[i].generation;
  if (s->slab[i].state == SLAB_LOST) {
    g->extent = s->slab[i].extent;
    return;
  }
  g->extent =
      s->slab[i].state == SLAB_LABELLED ? s->slab[i].extent : FP_EXTENT_NONE;
  fp_fake_server_grant (s->data, i * stride (s),
                        s->no_tails ? s->slab_size : stride (s), g);
}

int
fp_ctl_list (struct fp_ctl *c, const struct fp_list *q, struct fp_grants *p,
             int fds[FP_MAX_GRANTS], uint64_t deadline_ns)
{
  unsigned ms = atomic_load (&c->server->list_ms);
  struct timespec t = { .tv_sec = ms / 1000,
                        .tv_nsec = (long) (ms % 1000) * 1000000 };
  unsigned max = ms > 0 ? 1 : q->max;

  nanosleep (&t, NULL);
  CALL (c, FP_MSG_LIST, {
    uint64_t index = 0;

    p->count = 0;
    for (unsigned i = 0; i < s->slabs && p->count < max; i++) {
      if (!is_listed (&s->slab[i]) || index++ < q->start)
        continue;
      fds[p->count] = -1;
      fill_grant (s, i, &p->grants[p->count++]);
    }
  });
}

int
fp_ctl_grant (struct fp_ctl *c, const struct fp_grant_req *q,
              struct fp_grants *p, int fds[FP_MAX_GRANTS],
              uint64_t deadline_ns)
{
  unsigned ms = atomic_load (&c->server->grant_ms);
  struct timespec t = { .tv_sec = ms / 1000,
                        .tv_nsec = (long) (ms % 1000) * 1000000 };

  if (!q->ahead)
    nanosleep (&t, NULL);
  CALL (c, FP_MSG_GRANT, {
    p->count = 0;
    for (unsigned i = 0; i < s->slabs && p->count < q->count; i++) {
      if (s->slab[i].state != SLAB_FREE || s->wanted > 0 || ms > 0)
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
      assert (s->slab[q->labels[i].slab].state == SLAB_GRANTED ||
              s->slab[q->labels[i].slab].state == SLAB_LABELLED);
      s->slab[q->labels[i].slab].state = SLAB_LABELLED;
      s->slab[q->labels[i].slab].extent = q->labels[i].extent;
      s->slab[q->labels[i].slab].copy = q->labels[i].copy;
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
    r = s->keeps ? -EBUSY : 0;
    for (uint32_t i = 0; r == 0 && i < q->count; i++) {
      assert (s->slab[q->slabs[i]].state != SLAB_FREE);
      scrub (s, (unsigned) q->slabs[i]);
      s->wanted -= s->wanted > 0;
    }
    if (s->dies_of_release) {
      s->cut = true;
      fp_fake_server_die (s->data);
      lose = true;
    }
  });
}

int
fp_ctl_zero (struct fp_ctl *c, const struct fp_zero *q, uint64_t deadline_ns)
{
  CALL (c, FP_MSG_ZERO, {
    assert (s->slab[q->slab].state == SLAB_LABELLED &&
            q->offset + q->length <= s->slab_size);
    r = s->keeps ? -EBUSY : 0;
    if (r == 0)
      memset (fp_fake_server_memory (s->data) + q->slab * stride (s) +
                  q->offset,
              0, q->length);
  });
}

int
fp_ctl_ping (struct fp_ctl *c, const struct fp_ping *q,
             struct fp_ping_reply *p, uint64_t deadline_ns)
{
  CALL (c, FP_MSG_PING, {
    memset (p, 0, sizeof *p);
    p->slabs_total = s->slabs;
    for (unsigned i = 0; i < s->slabs; i++)
      p->slabs_free += s->slab[i].state == SLAB_FREE && s->wanted == 0;
    p->wanted = s->wanted;
    p->stopping = s->leaving;
    s->stuck = q != NULL && q->stuck;
  });
}

int
fp_ctl_bye (struct fp_ctl *c, const struct fp_bye *q, uint64_t deadline_ns)
{
  CALL (c, FP_MSG_BYE, {
    assert (!q->discard || !c->read_only);
    if (q->discard && s->ctl == c) {
      s->known = false;
      memset (&s->members, 0, sizeof s->members);
      memset (s->map, 0, sizeof s->map);
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
  return -EOPNOTSUPP; /* not used by lib/ */
}

void
fake_server_bar (struct fake_server *s, bool on)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->barred = on;
}

void
fake_server_stingy (struct fake_server *s, bool on)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->stingy = on;
}

void
fake_server_stingy_to (struct fake_server *s, unsigned lane, bool on)
{
  FP_LOCK_SCOPE (&fake_lock);
  s->stingy_to = on ? lane + 1 : 0;
}

/* The fake transport does not check tokens, so any bytes will do. */
int
fp_ctl_token (struct fp_ctl *c, const struct fp_token_req *q,
              struct fp_token *p, uint64_t deadline_ns)
{
  CALL (c, FP_MSG_TOKEN, {
    memset (p, 1, sizeof *p);
    if (s->stingy || q->lane + 1 == s->stingy_to) {
      r = -EBUSY;
      c->why = "too many lanes have one";
    }
  });
}

/* Only the tcp transport calls this.  It is not used here. */
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

struct fp_tls_session *
fp_ctl_steal_tls (struct fp_ctl *c)
{
  (void) c;
  return NULL;
}
