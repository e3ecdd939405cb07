/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-session.c - messages of clients to a memory server, on up to three
 * connections at once.  Its sessions, handlers, records and pool run in this
 * process.  Each reply must be one that a client can decode, and the server's
 * state must be right after each step (check_books).  The first client is user
 * 1 on a Unix socket.
 *
 * Input is a byte `how`, then steps.  Bits of `how`:
 *   - bit 0: there is an access file
 *   - bit 1: the second client is user 1, too, instead of user 2
 *   - bit 2: so is the third, instead of a client on TCP
 *
 * A step is `what` (1), a type (1) unless raw, a length (2) and bytes.  Bits
 * of `what`:
 *   - bits 0-1: the connection (3 = the first)
 *   - bit 2: the client does not read
 *   - bit 3: PASSES_S pass before the step
 *   - bit 4: the pool's worker gets no turn
 *   - bit 5, raw: the bytes are frames, and get the key granted last
 *   - bit 5, else: DATA_HELLO gets the session, the lane and the latest token
 *     of the first client
 *   - bit 6: hang up afterwards
 *   - bit 7: raw, else a header is put before the bytes
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "clock.h"
#include "fuzz.h"
#include "loop.h"
#include "memories.h"
#include "memserver/auth/access.h"
#include "memserver/pool/pool_int.h"
#include "memserver/server.h"
#include "memserver/session/ctl.h"
#include "memserver/session/session.h"
#include "memserver/store/persist.h"
#include "memserver/store/record.h"
#include "samples.h"

const char fuzz_name[] = "fuzz-session";
const unsigned fuzz_runs = 20000;

#define SLABS 16u
#define CONNS 3u
#define CTL_LIMIT 24u /* steps of one input */
#define PASSES_S 12u  /* s; exceeds HELLO's limit; 3x exceeds a lease */
#define PATIENCE_S 100u

static struct server srv;

static struct client {
  int fd;
  bool is_data;
  uint64_t session;
  uint32_t lane; /* lane of its last TOKEN request */
  uint8_t token[FP_TOKEN_SIZE];
  uint8_t in[4 * (FP_HEADER_SIZE + FP_BODY_MAX)];
  size_t have;
} peers[CONNS];

static struct loop_peer hosts[CONNS];
static struct access *some_access;
static struct fuzz_input input;
static unsigned nr_steps;
static uint64_t granted_key; /* key to the memory granted last */

/* Replace the kernel's function: bytes that are the same each time. */
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
  sessions_poke (&srv.sessions);
}

/* Run all that happens by itself: events, and data threads.  While a data
 * connection is open, its thread also takes the steps that follow.
 */
static void
settle (bool worker)
{
  do {
    loop_run ();
    loop_run_threads ();
    loop_run ();
  } while (worker && pool_step (srv.pool, false));
}

static bool
nobody (void)
{
  return srv.sessions.nr_fresh == 0 && srv.sessions.nr == 0 &&
         srv.sessions.nr_data == 0;
}

static bool
all_free (void)
{
  return pool_count (srv.pool).in[SLAB_FREE] == SLABS;
}

static void
wait_until (bool (*done) (void))
{
  settle (true);
  for (unsigned s = 0; !done (); s++) {
    FUZZ_CHECK (s < PATIENCE_S);
    fuzz_now_ns += FP_NS_PER_S;
    settle (true);
  }
}

static bool one_more_step (void);

static void
start (void)
{
  static const char rights[] =
      "[uid:1]\nquota = 256K\nvolumes = v* a\ndelete = yes\n"
      "[uid:2]\nvolumes = vol a*\nread_only = vol\ntakeover = yes\n"
      "[anonymous]\nadmin = yes\n";
  struct pool_params p = {
    .slab = { .size = SAMPLE_SLAB, .hugepages = HUGEPAGES_OFF, .numa = -1 },
    .slabs = SLABS,
    .freed = on_freed
  };
  struct fp_error error;
  uint32_t made;

  if (srv.base)
    return;
  FUZZ_CHECK (
      access_read (&some_access,
                   fuzz_file ((const uint8_t *) rights, strlen (rights)),
                   &error) == 0);
  if (!loop_works (one_more_step)) {
    printf ("SKIP: this C library has other names for some calls\n");
    exit (77);
  }
  fp_log_set_sink (sink, NULL);
  sessions_init (&srv.sessions, ctl_dispatch);
  records_init (&srv.records);
  srv.base = loop_base ();
  FUZZ_CHECK (mailbox_new (&srv.mailbox, srv.base) == 0);
  p.mailbox = srv.mailbox;
  FUZZ_CHECK (pool_new (&srv.pool, &p, &made) == 0);
  srv.records.base = srv.base;
  srv.records.pool = srv.pool;
  srv.records.lease_s = 30;
  srv.sessions.base = srv.base;
  srv.sessions.mailbox = srv.mailbox;
  srv.sessions.pool = srv.pool;
  srv.sessions.records = &srv.records;
  srv.sessions.name = "donor";
  FUZZ_CHECK (pool_start (srv.pool) == 0);
  wait_until (all_free);
}

/* Check that the server's state is consistent. */
static void
check_books (void)
{
  const struct record *r;
  const struct session *s;
  uint32_t lent = 0, records = 0, sessions = 0;
  uint64_t words = 0;

  TAILQ_FOREACH (r, &srv.records.list, entry)
  {
    records++;
    FUZZ_CHECK (r->size > 0 && record_extents (r) <= MAX_EXTENTS);
    FUZZ_CHECK (r->nr_slabs <= r->max_slabs);
    FUZZ_CHECK (r->name[0] == '\0' ||
                records_find_name (&srv.records, r->name) == r);
    FUZZ_CHECK (records_find (&srv.records, &r->uuid) == r);
    FUZZ_CHECK (!r->holder || r->holder->record == r);
    for (uint32_t i = 0; i < r->nr_slabs; i++) {
      const struct slab *slab = r->slabs[i];

      FUZZ_CHECK (slab->record == r && slab->state == SLAB_LENT);
      FUZZ_CHECK (slab->label.extent == FP_EXTENT_NONE ||
                  slab->label.extent < record_extents (r));
      /* A key belongs to the record's holder. */
      FUZZ_CHECK (slab->session == 0 ||
                  (r->holder && slab->session == r->holder->id));
    }
    lent += r->nr_slabs;
    if (r->map)
      words += fp_div_round_up (record_bits (r), 64);
  }
  TAILQ_FOREACH (s, &srv.sessions.list, entry)
  {
    sessions++;
    FUZZ_CHECK (!s->record || s->record->holder == s);
    FUZZ_CHECK (s->state != SESSION_OPEN || s->record);
    FUZZ_CHECK (s->tokens.nr <= MAX_DATA);
  }
  FUZZ_CHECK (records == srv.records.nr && sessions == srv.sessions.nr);
  FUZZ_CHECK (lent == pool_count (srv.pool).in[SLAB_LENT]);
  FUZZ_CHECK (words == srv.records.map_words && words <= MAX_MAP_WORDS);
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
    struct fp_drain_reply drain;
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
    if (e == 0 && p.grants.count > 0)
      granted_key = p.grants.grants[0].rkey;
    break;
  case FP_MSG_PING:
    e = fp_dec_ping_reply (&r, &p.ping);
    break;
  case FP_MSG_DRAIN:
    e = fp_dec_drain_reply (&r, &p.drain);
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

/* Read what the server has sent.  The kernel drops descriptors. */
static void
pull (struct client *peer)
{
  struct fp_header h;
  size_t n, used = 0;

  if (peer->fd < 0)
    return;
  n = loop_receive (peer->fd, peer->in + peer->have,
                    sizeof peer->in - peer->have);
  if (peer->is_data)
    return;
  peer->have += n;
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
  if (peer->fd >= 0)
    return true;
  peer->fd = loop_connect (&hosts[peer - peers]);
  peer->have = 0;
  peer->is_data = false;
  return session_new (&srv.sessions, peer->fd) == 0;
}

static void
hang_up (struct client *peer)
{
  if (peer->fd >= 0)
    loop_hang_up (peer->fd);
  peer->fd = -1;
}

/* Put the granted key into frames: an input cannot know it. */
static void
give_key (uint8_t *p, size_t n)
{
  struct fp_data_req q;

  for (; n >= FP_DATA_REQ_SIZE && fp_data_req_decode (&q, p) == 0;) {
    size_t frame = FP_DATA_REQ_SIZE;

    frame += q.op == FP_DATA_WRITE ? q.length : 0;
    q.rkey = granted_key;
    fp_data_req_encode (p, &q);
    if (frame > n)
      return;
    p += frame;
    n -= frame;
  }
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
  if (what & 0x08)
    fuzz_now_ns += PASSES_S * FP_NS_PER_S;
  if (what & 0x80) {
    memmove (bytes, bytes + FP_HEADER_SIZE, n);
    if (what & 0x20)
      give_key (bytes, n);
  }
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
  loop_send (peer->fd, bytes, n);
  loop_clog (peer->fd, what & 0x04);
  if (what & 0x40)
    hang_up (peer);
  settle (!(what & 0x10));
  if (!(what & 0x04))
    pull (peer);
  check_books ();
}

/* Take the next step.  Return false if there is none: a thread that waits for
 * input has then waited long enough.
 */
static bool
one_more_step (void)
{
  if (input.left == 0 || nr_steps == CTL_LIMIT)
    return false;
  nr_steps++;
  step (&input);
  return true;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  unsigned how;

  input = (struct fuzz_input) { data, size };
  start ();
  random_byte = 0;
  nr_steps = 0;
  granted_key = 0;
  how = (unsigned) fuzz_take (&input, 1);
  srv.sessions.access = how & 1 ? some_access : NULL;
  hosts[0] = (struct loop_peer) { .is_unix = true, .uid = 1 };
  hosts[1] = (struct loop_peer) { .is_unix = true, .uid = how & 2 ? 1 : 2 };
  hosts[2] = (struct loop_peer) { .is_unix = how & 4, .uid = 1 };
  for (unsigned i = 0; i < CONNS; i++)
    peers[i].fd = -1;
  while (one_more_step ())
    ;
  for (unsigned i = 0; i < CONNS; i++)
    hang_up (&peers[i]);
  wait_until (nobody);
  FUZZ_CHECK (loop_sockets () == 0);
  check_books ();
  while (!TAILQ_EMPTY (&srv.records.list))
    record_delete (TAILQ_FIRST (&srv.records.list), "fuzz");
  check_books ();
  wait_until (all_free);
  FUZZ_CHECK (memories_count () == SLABS);
  return 0;
}

/* Write a request of connection conn. */
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
  static const uint8_t ways[] = { 6, 1, 7 };
  static const struct fp_data_req frames[] = {
    { .op = FP_DATA_READ, .length = 4096 },
    { .op = FP_DATA_WRITE, .length = 512 },
  };
  uint8_t *p = out;

  *p++ = ways[nr % sizeof ways];
  nr /= sizeof ways;
  switch (nr) {
  case 0: /* a whole session, over shm, and over TCP */
  case 1:
    p = open_on (p, 0, nr == 0 ? FP_TRANSPORT_SHM : FP_TRANSPORT_TCP);
    for (unsigned i = 0; i < sizeof all; i++)
      p = ask (p, 0, all[i], 0);
    break;
  case 2: /* a client leaves, and returns to its labels */
    p = open_on (p, 0, FP_TRANSPORT_SHM);
    p = ask (p, 0x40, FP_MSG_LABEL, 0);
    p = ask (p, 0, FP_MSG_HELLO, 0);
    p = ask (p, 0, FP_MSG_OPEN, FP_TRANSPORT_TCP);
    p = ask (p, 0, FP_MSG_LIST, 0);
    p = ask (p, 0, FP_MSG_LIST, 0);
    break;
  case 3: /* two clients want one volume; one deletes it */
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
      p[0] = 0xa1;
      p[1] = 0;
      p[2] = FP_DATA_REQ_SIZE;
      fp_data_req_encode (p + 3, &frames[i]);
      p += 3 + FP_DATA_REQ_SIZE;
    }
    p = ask (p, 0x22, FP_MSG_DATA_HELLO, 0); /* a used token */
    p = ask (p, 0, FP_MSG_TOKEN, 0);
    p = ask (p, 0x22, FP_MSG_DATA_HELLO, 0); /* takes the first one's place */
    p = ask (p, 0, FP_MSG_BYE, 0);
    break;
  case 5: /* a wrong token; and each message out of turn */
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
  case 8: /* a client is silent for its lease; another takes over */
    p = open_on (p, 0, FP_TRANSPORT_SHM);
    for (unsigned i = 0; i < 4; i++)
      p = ask (p, 0x0a, FP_MSG_STAT, 0);
    p = open_on (p, 1, FP_TRANSPORT_SHM);
    p = ask (p, 1, FP_MSG_LIST, 0);
    break;
  case 9: /* a client that does not read; a slow worker */
    p = open_on (p, 0, FP_TRANSPORT_TCP);
    p = ask (p, 0x14, FP_MSG_ZERO, 0);
    p = ask (p, 0x14, FP_MSG_PING, 0);
    p = ask (p, 0x10, FP_MSG_RELEASE, 0);
    p = ask (p, 0x40, FP_MSG_PING, 0);
    break;
  default:
    return 0;
  }
  return (size_t) (p - out);
}
