/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-session.c - what clients send to a memory server, on up to three
 * connections at once: its sessions, handlers, records and pool, in this
 * process.  What it answers must be what a client can decode, and its books
 * must be right after each step (check_books).
 *
 *   steps of: what (1): bit 7: raw, else a header is made; bit 6: hang up
 *             afterwards; bit 5: DATA_HELLO gets the session of the first, and
 *             the token that it was told last, and its lane; bits 0-1: which
 * connection (3: the first) raw:   length (2), bytes else:  type (1), length
 * (2), body
 */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "ctl.h"
#include "fuzz.h"
#include "pool.h"
#include "record.h"
#include "samples.h"
#include "server.h"
#include "session.h"

const char fuzz_name[] = "fuzz-session";
const unsigned fuzz_runs = 3000;

#define SLABS 16u
#define CONNS 3u
#define WAIT_MS_ 20000 /* for what other threads do */
#define CTL_LIMIT 24u  /* steps of one input */

static struct server srv;
static struct options options = { .lease_s = 30,
                                  .slab = SAMPLE_SLAB,
                                  .name = "donor" };

static struct client {
  int fd;
  bool is_data;
  uint64_t session;
  uint32_t lane; /* that it asked a token for */
  uint8_t token[FP_TOKEN_SIZE];
  uint8_t in[4 * (FP_HEADER_SIZE + FP_BODY_MAX)];
  size_t have;
} peers[CONNS];

/* In place of the kernel's: the same each time. */
int __wrap_fp_random (void *buf, size_t len);
static uint8_t random_byte;

int
__wrap_fp_random (void *buf, size_t len)
{
  memset (buf, ++random_byte, len);
  return 0;
}

static void
sink (enum fp_log_level level, const char *message, void *opaque)
{
  (void) level;
  (void) message;
  (void) opaque;
}

static void
on_freed (void *ctx)
{
  (void) ctx;
  server_poke (&srv);
}

/* As server.c has it. */
static void
on_poke (struct note *note)
{
  (void) note;
  for (unsigned n = srv.nr_waiting; n > 0; n--) {
    struct session *s = TAILQ_FIRST (&srv.waiting);

    if (!s)
      return;
    s->waiting = false;
    TAILQ_REMOVE (&srv.waiting, s, wait_entry);
    srv.nr_waiting--;
    session_dispatch (s);
  }
}

static void
loop (unsigned times)
{
  while (times-- > 0)
    FUZZ_CHECK (event_base_loop (srv.base, EVLOOP_NONBLOCK) >= 0);
}

static bool
nobody (void)
{
  return srv.nr_fresh == 0 && srv.nr_sessions == 0 && srv.nr_data == 0;
}

static bool
half_free (void)
{
  return pool_count (srv.pool).in[SLAB_FREE] >= SLABS / 2;
}

static void
wait_until (bool (*done) (void))
{
  const struct timeval tick = { .tv_usec = 1000 };
  uint64_t deadline = fp_deadline_in_ms (WAIT_MS_);

  while (!done ()) {
    FUZZ_CHECK (!fp_deadline_passed (deadline));
    FUZZ_CHECK (event_base_loopexit (srv.base, &tick) == 0);
    FUZZ_CHECK (event_base_loop (srv.base, EVLOOP_ONCE) >= 0);
  }
}

static void
start (void)
{
  struct pool_params p = {
    .slab = { .size = SAMPLE_SLAB, .hugepages = HUGEPAGES_OFF, .numa = -1 },
    .slabs = SLABS,
    .freed = on_freed
  };
  uint32_t made;

  if (srv.base)
    return;
  fp_log_set_sink (sink, NULL);
  srv.options = &options;
  srv.poke.run = on_poke;
  TAILQ_INIT (&srv.fresh);
  TAILQ_INIT (&srv.sessions);
  TAILQ_INIT (&srv.waiting);
  TAILQ_INIT (&srv.records);
  srv.base = event_base_new ();
  FUZZ_CHECK (srv.base != NULL);
  FUZZ_CHECK (mailbox_new (&srv.mailbox, srv.base) == 0);
  p.mailbox = srv.mailbox;
  FUZZ_CHECK (pool_new (&srv.pool, &p, &made) == 0);
  FUZZ_CHECK (pool_start (srv.pool) == 0);
  wait_until (half_free);
}

/* What the server knows is right. */
static void
check_books (void)
{
  const struct record *r;
  const struct session *s;
  uint32_t lent = 0, records = 0, sessions = 0;
  uint64_t words = 0;

  TAILQ_FOREACH (r, &srv.records, entry)
  {
    records++;
    FUZZ_CHECK (r->size > 0 && record_pieces (r) <= MAX_PIECES);
    FUZZ_CHECK (r->nr_slabs <= r->max_slabs);
    FUZZ_CHECK (r->name[0] == '\0' || record_find_name (&srv, r->name) == r);
    FUZZ_CHECK (record_find (&srv, &r->uuid) == r);
    FUZZ_CHECK (!r->holder || r->holder->record == r);
    for (uint32_t i = 0; i < r->nr_slabs; i++) {
      const struct slab *slab = r->slabs[i];

      FUZZ_CHECK (slab->record == r && slab->state == SLAB_LENT);
      FUZZ_CHECK (slab->label.piece == FP_PIECE_NONE ||
                  slab->label.piece < record_pieces (r));
      /* A key is its holder's. */
      FUZZ_CHECK (slab->session == 0 ||
                  (r->holder && slab->session == r->holder->id));
    }
    lent += r->nr_slabs;
    if (r->map)
      words += fp_div_round_up (record_pieces (r), 64);
  }
  TAILQ_FOREACH (s, &srv.sessions, entry)
  {
    sessions++;
    FUZZ_CHECK (!s->record || s->record->holder == s);
    FUZZ_CHECK (s->state != SESSION_OPEN || s->record);
    FUZZ_CHECK (s->tokens.nr <= MAX_DATA);
  }
  FUZZ_CHECK (records == srv.nr_records && sessions == srv.nr_sessions);
  FUZZ_CHECK (lent == pool_count (srv.pool).in[SLAB_LENT]);
  FUZZ_CHECK (words == srv.map_words && words <= MAX_MAP_WORDS);
}

static void
check_reply (struct client *peer, const struct fp_header *h,
             const uint8_t *body)
{
  static union {
    struct fp_hello_reply hello;
    struct fp_open_reply open;
    struct fp_grants grants;
    struct fp_ping_reply ping;
    struct fp_stat_reply stat;
    struct fp_lookup_reply lookup;
    struct fp_map_words words;
    struct fp_volumes volumes;
    struct fp_token token;
  } p;
  char reason[FP_REASON_MAX + 1];
  struct fp_reader r;
  int e = 0;

  fp_reader_init (&r, body, h->length);
  if (h->status != FP_STATUS_OK) {
    FUZZ_CHECK (fp_dec_reason (&r, reason) == 0 && reason[0] != '\0');
    return;
  }
  switch (h->type & ~FP_MSG_REPLY) {
  case FP_MSG_HELLO:
    e = fp_dec_hello_reply (&r, &p.hello);
    peer->session = p.hello.session;
    break;
  case FP_MSG_TOKEN:
    e = fp_dec_token (&r, &p.token);
    memcpy (peer->token, p.token.token, sizeof peer->token);
    break;
  case FP_MSG_OPEN:
    e = fp_dec_open_reply (&r, &p.open);
    break;
  case FP_MSG_LIST:
  case FP_MSG_GRANT:
    e = fp_dec_grants (&r, &p.grants);
    for (uint32_t i = 0; e == 0 && i < p.grants.count; i++)
      FUZZ_CHECK (p.grants.grants[i].slab < SLABS);
    break;
  case FP_MSG_PING:
    e = fp_dec_ping_reply (&r, &p.ping);
    break;
  case FP_MSG_STAT:
    e = fp_dec_stat_reply (&r, &p.stat);
    break;
  case FP_MSG_LOOKUP:
    e = fp_dec_lookup_reply (&r, &p.lookup);
    break;
  case FP_MSG_MAP_READ:
    e = fp_dec_map_words (&r, &p.words);
    break;
  case FP_MSG_VOLUMES:
    e = fp_dec_volumes (&r, &p.volumes);
    break;
  default:
    e = fp_reader_done (&r) ? 0 : -EPROTO;
  }
  FUZZ_CHECK (e == 0);
  if (h->type == (FP_MSG_DATA_HELLO | FP_MSG_REPLY))
    peer->is_data = true;
}

/* What the server has sent; descriptors are dropped by the kernel. */
static void
pull (struct client *peer)
{
  struct fp_header h;
  ssize_t n;
  size_t used = 0;

  if (peer->fd < 0)
    return;
  n = recv (peer->fd, peer->in + peer->have, sizeof peer->in - peer->have,
            MSG_DONTWAIT);
  if (n <= 0 || peer->is_data)
    return;
  peer->have += (size_t) n;
  while (!peer->is_data && peer->have - used >= FP_HEADER_SIZE) {
    FUZZ_CHECK (fp_header_decode (&h, peer->in + used) == 0);
    FUZZ_CHECK (h.type & FP_MSG_REPLY);
    if (peer->have - used < FP_HEADER_SIZE + h.length)
      break;
    check_reply (peer, &h, peer->in + used + FP_HEADER_SIZE);
    used += FP_HEADER_SIZE + h.length;
  }
  peer->have = peer->is_data ? 0 : peer->have - used;
  memmove (peer->in, peer->in + used, peer->have);
}

static bool
begin (struct client *peer)
{
  int sv[2];

  if (peer->fd >= 0)
    return true;
  FUZZ_CHECK (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                          0, sv) == 0);
  peer->fd = sv[0];
  peer->have = 0;
  peer->is_data = false;
  return session_new (&srv, sv[1]) == 0;
}

static void
hang_up (struct client *peer)
{
  if (peer->fd >= 0)
    close (peer->fd);
  peer->fd = -1;
}

static void
step (struct fuzz_input *in)
{
  static uint8_t bytes[FP_HEADER_SIZE + UINT16_MAX];
  unsigned what = (unsigned) fuzz_take (in, 1);
  struct client *peer = &peers[(what & 3) % CONNS];
  struct fp_header h = { .version = FP_VERSION };
  const uint8_t *p;
  struct fp_writer w;
  size_t n;

  if (!begin (peer))
    return;
  if (!(what & 0x80))
    h.type = (uint16_t) fuzz_take (in, 1);
  n = (size_t) fuzz_take (in, 2);
  p = fuzz_take_bytes (in, &n);
  memcpy (bytes + FP_HEADER_SIZE, p, n);
  if (what & 0x80)
    memmove (bytes, bytes + FP_HEADER_SIZE, n);
  else {
    if (h.type == FP_MSG_DATA_HELLO && what & 0x20) {
      struct fp_data_hello d = { .session = peers[0].session,
                                 .lane = peers[0].lane };

      memcpy (d.token, peers[0].token, sizeof d.token);
      fp_writer_init (&w, bytes + FP_HEADER_SIZE, FP_BODY_MAX);
      fp_enc_data_hello (&w, &d);
      n = FP_BODY_MAX - w.left;
    }
    if (h.type == FP_MSG_TOKEN) {
      struct fp_token_req q = { .lane = 0 };
      struct fp_reader r;

      fp_reader_init (&r, bytes + FP_HEADER_SIZE, n);
      (void) fp_dec_token_req (&r, &q);
      peer->lane = q.lane;
    }
    h.length = (uint32_t) n;
    fp_header_encode (bytes, &h);
    n += FP_HEADER_SIZE;
  }
  (void) send (peer->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (what & 0x40)
    hang_up (peer);
  loop (3); /* a header, a body, and what follows from it */
  pull (peer);
  check_books ();
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz_input in = { data, size };

  start ();
  random_byte = 0;
  for (unsigned i = 0; i < CONNS; i++)
    peers[i].fd = -1;
  for (unsigned i = 0; in.left > 0 && i < CTL_LIMIT; i++)
    step (&in);
  for (unsigned i = 0; i < CONNS; i++)
    hang_up (&peers[i]);
  wait_until (nobody);
  check_books ();
  while (!TAILQ_EMPTY (&srv.records))
    record_delete (TAILQ_FIRST (&srv.records), "fuzz");
  check_books ();
  FUZZ_CHECK (pool_count (srv.pool).in[SLAB_LOST] == 0);
  if (!half_free ())
    wait_until (half_free);
  return 0;
}

/* A request of connection conn. */
static uint8_t *
ask (uint8_t *p, unsigned conn, unsigned type, unsigned transport)
{
  size_t n = sample_request (type, transport, p + 4);

  p[0] = (uint8_t) conn;
  p[1] = (uint8_t) type;
  p[2] = (uint8_t) (n >> 8);
  p[3] = (uint8_t) n;
  return p + 4 + n;
}

static uint8_t *
open_on (uint8_t *p, unsigned conn, unsigned transport)
{
  p = ask (p, conn, FP_MSG_HELLO, 0);
  p = ask (p, conn, FP_MSG_OPEN, transport);
  return ask (p, conn, FP_MSG_GRANT, 0);
}

size_t
fuzz_seed (unsigned nr, uint8_t *out)
{
  static const uint8_t all[] = {
    FP_MSG_LABEL,     FP_MSG_LIST,    FP_MSG_ZERO,    FP_MSG_PING,
    FP_MSG_STAT,      FP_MSG_MEMBERS, FP_MSG_MAP,     FP_MSG_MAP_READ,
    FP_MSG_MAP_WRITE, FP_MSG_LOOKUP,  FP_MSG_VOLUMES, FP_MSG_RELEASE,
    FP_MSG_BYE
  };
  static const struct fp_data_req frames[] = {
    { .op = FP_DATA_READ, .length = 4096 },
    { .op = FP_DATA_WRITE, .length = 512 },
  };
  uint8_t *p = out;

  switch (nr) {
  case 0: /* a whole life, over shm, and over tcp */
  case 1:
    p = open_on (p, 0, nr == 0 ? FP_TRANSPORT_SHM : FP_TRANSPORT_TCP);
    for (unsigned i = 0; i < sizeof all; i++)
      p = ask (p, 0, all[i], 0);
    break;
  case 2: /* it goes, and comes again, with its labels */
    p = open_on (p, 0, FP_TRANSPORT_SHM);
    p = ask (p, 0x40, FP_MSG_LABEL, 0);
    p = ask (p, 0, FP_MSG_HELLO, 0);
    p = ask (p, 0, FP_MSG_OPEN, FP_TRANSPORT_TCP);
    p = ask (p, 0, FP_MSG_LIST, 0);
    p = ask (p, 0, FP_MSG_LIST, 0);
    break;
  case 3: /* two want the same; the one deletes it */
    p = open_on (p, 0, FP_TRANSPORT_TCP);
    p = open_on (p, 1, FP_TRANSPORT_TCP);
    p = ask (p, 1, FP_MSG_DELETE, 0);
    p = ask (p, 0x40, FP_MSG_BYE, 0);
    p = ask (p, 1, FP_MSG_DELETE, 0);
    break;
  case 4: /* a data connection, and frames on it */
    p = open_on (p, 0, FP_TRANSPORT_TCP);
    p = ask (p, 0, FP_MSG_TOKEN, 0);
    p = ask (p, 0x21, FP_MSG_DATA_HELLO, 0);
    for (unsigned i = 0; i < 2; i++) {
      p[0] = 0x81;
      p[1] = 0;
      p[2] = FP_DATA_REQ_SIZE;
      fp_data_req_encode (p + 3, &frames[i]);
      p += 3 + FP_DATA_REQ_SIZE;
    }
    p = ask (p, 0x22, FP_MSG_DATA_HELLO, 0); /* the same token again */
    p = ask (p, 0, FP_MSG_TOKEN, 0);
    p = ask (p, 0x22, FP_MSG_DATA_HELLO, 0); /* in its place */
    p = ask (p, 0, FP_MSG_BYE, 0);
    break;
  case 5: /* another token; and each message out of turn */
    p = ask (p, 1, FP_MSG_DATA_HELLO, 0);
    p = ask (p, 0, FP_MSG_HELLO, 0);
    p = ask (p, 0, FP_MSG_HELLO, 0);
    break;
  case 6:
    p = ask (p, 2, FP_MSG_STAT, 0);
    p = ask (p, 0, FP_MSG_HELLO, 0);
    p = ask (p, 0, FP_MSG_MAP, 0);
    break;
  case 7: /* raw: half a header */
    memcpy (p,
            "\x80\0\x0a"
            "FPgC\0\1\0\1\0\0",
            13);
    p += 13;
    break;
  default:
    break;
  }
  return (size_t) (p - out);
}
