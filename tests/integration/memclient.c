/* SPDX-License-Identifier: BSD-3-Clause */
/* memclient.c - a client of farpage-memserver that does what the words on its
 * command line say, one after the other, on one session.
 *
 *   memclient ADDR NAME WORD...
 *
 *   open:ID:FLAGS:TRANSPORT  Attach volume ID (a digit).  FLAGS: c (create),
 *                     r (resume), e (ephemeral), t (take over), o (read-only).
 *   name:NAME  size:BYTES    Set these for volumes attached later.  At first
 *                     there is no name, and the size is 2^40.
 *   stripe:WIDTHxBYTES       Set the stripes likewise.  At first 1x65536.
 *   grant:N           Get N slabs, or as many as there are.
 *   grant-all         Get slabs until there are none, nor any being scrubbed.
 *   time-grants:N     Get one slab N times, and print how long that took.
 *   expect-slabs:N    Check that it holds N slabs.
 *   label:GEN         Label the i-th slab with extent i and generation GEN.
 *   list:MAX          Forget all slabs, and get them from LIST, MAX at a time.
 *   fill:BYTE  check:BYTE    Write or compare each byte of the slabs.
 *   zero:OFFSET:LENGTH       Zero this range of the first slab.
 *   check-zeroed:OFFSET:LENGTH:BYTE  Check for zeros there, else BYTE.
 *   read-only:BYTE    tcp, rdma: check that the first slab reads as BYTE, and
 *                     that a WRITE is refused and changes nothing.
 *   list-read-only:BYTE  shm: check that slabs from LIST read as BYTE, and can
 *                     only be mapped for reading.  Print 'again=0' if they
 *                     cannot be reopened for writing, else 'again=1'.
 *   release           Release all slabs.
 *   stale             After release, check that the keys open nothing.
 *   replaced          Check that a WRITE on a connection is refused once there
 *                     is another one of its lane.
 *   late              tcp: check that a WRITE on a replaced connection changes
 *                     nothing that was written later.
 *   data:WHAT         Open a second data connection with a 'good' proof, or
 *                     one with a wrong 'token' or 'session'.  Or show a token
 *                     of another 'lane' or of an 'other' session, a used one
 *                     ('replay'), or one with a later one after it ('old').
 *   data-as:UID       tcp: open one with a good proof, as that user.
 *   ping  stat  bye  discard
 *   wait-wanted:N     Wait until the server asks for N slabs back.
 *   hang              Say 'hanging' on stdout, and wait to be killed.
 *   hold              Say 'hanging', and wait for the end of stdin.
 *   kept:BYTE         shm: check that BYTE is still in the mapped slabs.
 *   scribble:BYTE     shm: store BYTE in the mapped slabs, even if another
 *                     client has them now.
 *   storm:BYTE        Say 'hanging', and write BYTE all over the slabs until
 *                     the server no longer allows it.
 *   flood:BYTE        The same with many WRITEs at a time, and without any
 *                     control message.
 *   wait-end          Wait until the server hangs up.
 *   reset             End as if the network had reset the connection.
 *   lookup:NAME  lookup-id:ID   Print what the server knows of a volume.
 *   members:VERSION:COUNT    Set a list of members, all but the last current.
 *   roster:VERSION:UUID@ADDR[,UUID@ADDR...]  Set a list of real servers.
 *   map:EXIST:FROM-TO        Record that extents exist (1) or do not (0).
 *   map-write:START:WORD     Set 64 extents of the map; WORD is hexadecimal.
 *   expect-map:START:WORD    Check these, and that no later extent exists.
 *   delete:ID  volumes       Delete a volume; print all volumes.
 *   fails:ERRNO       Check that the next word fails like this (EBUSY, ...).
 *
 * MEMCLIENT_UUID is the client's UUID, by default a new one.  MEMCLIENT_PSK is
 * a file with its key for TLS.  MEMCLIENT_TOKEN is a join token to use in its
 * place.  With MEMCLIENT_JOIN it sends JOIN instead of HELLO, and ends.
 *
 * Exit status 0: all words succeeded.
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

#include "base/checked.h"
#include "base/error.h"
#include "memclient.h"
#include "transport/control/join.h"
#include "transport/tls/tls.h"

struct fp_addr addr;
struct fp_ctl *ctl;
struct fp_hello hello = { .version_min = FP_VERSION,
                          .version_max = FP_VERSION,
                          .transports = FP_TRANSPORT_WIRE_MASK };
struct fp_hello_reply server;
struct fp_grant grants[MAX_SLABS];
struct fp_remote remotes[MAX_SLABS];
unsigned nr_grants;
const struct fp_transport_ops *ops;
struct fp_queue *queue;
struct fp_conn *conn;
uint8_t *buffer;
static char transport_name[16];
static const char *volume_name = "";
static uint64_t volume_size = UINT64_C (1) << 40;
static struct fp_stripe stripe = { .width = 1, .size = 65536 };

static int
say (int err, const char *what)
{
  fprintf (stderr, "memclient: %s: %s: %s\n", what, strerror (-err),
           fp_ctl_why (ctl));
  return err;
}
/* ---- control ---- */

static int
take_grants (const struct fp_grants *p, int fds[FP_MAX_GRANTS])
{
  int r = 0;

  for (unsigned i = 0; i < p->count; i++) {
    if (r == 0 && nr_grants < MAX_SLABS) {
      grants[nr_grants] = p->grants[i];
      r = ops->import (&remotes[nr_grants], &p->grants[i], fds[i], false);
      nr_grants += r == 0;
    }
    if (fds[i] >= 0)
      close (fds[i]);
  }
  return r;
}

static int
grant (unsigned long count)
{
  unsigned long want = nr_grants + count;

  while (nr_grants < want) {
    struct fp_grants p;
    int fds[FP_MAX_GRANTS];
    struct fp_grant_req q = {
      .count = (uint32_t) FP_MIN (want - nr_grants, 64ul),
    };
    int r = fp_ctl_grant (ctl, &q, &p, fds, deadline ());

    if (r == 0)
      r = take_grants (&p, fds);
    if (r < 0)
      return r;
  }
  return 0;
}

static int
compare_ns (const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

  return x < y ? -1 : x > y;
}

/* Measure from GRANT to its reply, without the client's work after it. */
static int
time_grants (unsigned long n)
{
  static uint64_t ns[MAX_SLABS];

  if (n == 0 || n > MAX_SLABS)
    return -EINVAL;
  for (unsigned long i = 0; i < n; i++) {
    struct fp_grants p;
    int fds[FP_MAX_GRANTS];
    const struct fp_grant_req one = { .count = 1 };
    uint64_t start = fp_now_ns ();
    int r = fp_ctl_grant (ctl, &one, &p, fds, deadline ());

    ns[i] = fp_now_ns () - start;
    if (r == 0)
      r = take_grants (&p, fds);
    if (r < 0)
      return r;
  }
  qsort (ns, n, sizeof *ns, compare_ns);
  printf ("grants=%lu median_us=%.1f p99_us=%.1f max_us=%.1f\n", n,
          (double) ns[n / 2] / 1e3, (double) ns[(n - 1) * 99 / 100] / 1e3,
          (double) ns[n - 1] / 1e3);
  return 0;
}

static int
grant_all (void)
{
  uint64_t end = deadline ();

  while (!fp_deadline_passed (end)) {
    struct fp_ping_reply p;
    int r = grant (1);

    if (r < 0 && r != -ENOSPC)
      return r;
    if (r == 0)
      continue;
    r = fp_ctl_ping (ctl, NULL, &p, deadline ());
    if (r < 0)
      return r;
    if (p.slabs_free == 0)
      return 0;
  }
  return -ETIMEDOUT;
}

static int
list (unsigned long max)
{
  nr_grants = 0;
  for (;;) {
    struct fp_list q = { .start = nr_grants, .max = (uint32_t) max };
    struct fp_grants p;
    int fds[FP_MAX_GRANTS];
    int r = fp_ctl_list (ctl, &q, &p, fds, deadline ());

    if (r < 0 || p.count == 0)
      return r;
    r = take_grants (&p, fds);
    if (r < 0)
      return r;
  }
}

static int
label (uint64_t generation)
{
  for (unsigned i = 0; i < nr_grants;) {
    struct fp_labels q = { .count = 0 };
    int r;

    for (; i < nr_grants && q.count < FP_MAX_GRANTS; i++)
      q.labels[q.count++] = (struct fp_label) { .slab = grants[i].slab,
                                                .extent = i,
                                                .generation = generation };
    r = fp_ctl_label (ctl, &q, deadline ());
    if (r < 0)
      return r;
  }
  return 0;
}

static int
release (void)
{
  for (unsigned i = 0; i < nr_grants;) {
    struct fp_release q = { .count = 0 };
    int r;

    for (; i < nr_grants && q.count < FP_MAX_GRANTS; i++)
      q.slabs[q.count++] = grants[i].slab;
    r = fp_ctl_release (ctl, &q, deadline ());
    if (r < 0)
      return r;
  }
  nr_grants = 0;
  return 0;
}

/* remotes[0] still has the slab that was released last. */
static int
stale (void)
{
  int r = transfer (FP_OP_READ, 0, 0, 4096);

  if (r == 0)
    return -EBADMSG;
  r = transfer (FP_OP_WRITE, 0, 0, 4096);
  return r == 0 ? -EBADMSG : 0;
}

static int
open_volume (const char *args)
{
  struct fp_open q = { .size = volume_size,
                       .slab_size = server.slab_size,
                       .copies = 1,
                       .servers = 1,
                       .stripe = stripe };
  struct fp_open_reply p;
  char flags[8];
  unsigned id;
  int r;

  if (sscanf (args, "%u:%7[creto]:%15s", &id, flags, transport_name) != 3)
    return -EINVAL;
  q.flags = (strchr (flags, 'c') ? FP_OPEN_CREATE : 0) |
            (strchr (flags, 'r') ? FP_OPEN_RESUME : 0) |
            (strchr (flags, 'e') ? FP_OPEN_EPHEMERAL : 0) |
            (strchr (flags, 't') ? FP_OPEN_TAKEOVER : 0) |
            (strchr (flags, 'o') ? FP_OPEN_READ_ONLY : 0);
  q.transport = fp_transport_by_name (transport_name);
  volume_by_id (&q.volume, id);
  snprintf (q.name, sizeof q.name, "%s", volume_name);
  ops = fp_transport_get (q.transport);
  if (!ops)
    return -EINVAL;
  r = fp_ctl_volume_open (ctl, &q, &p, deadline ());
  if (r < 0)
    return r;
  printf ("resumed=%d labels=%llu\n", p.resumed,
          (unsigned long long) p.labels);
  return connect_data ();
}

static int
stat_ (void)
{
  static struct fp_stat_reply p;
  int r = fp_ctl_stat (ctl, &p, deadline ());

  if (r < 0)
    return r;
  printf ("total=%llu free=%llu lent=%llu scrubbing=%llu unpopulated=%llu "
          "pressed=%d wanted=%llu returned=%llu\n",
          (unsigned long long) p.total, (unsigned long long) p.free,
          (unsigned long long) p.lent, (unsigned long long) p.scrubbing,
          (unsigned long long) p.unpopulated, p.pressed,
          (unsigned long long) p.wanted, (unsigned long long) p.returned);
  for (unsigned i = 0; i < p.nr_sessions; i++)
    printf ("session client=%s volume=%s slabs=%llu attached=%d\n",
            p.sessions[i].client, p.sessions[i].volume,
            (unsigned long long) p.sessions[i].slabs, p.sessions[i].attached);
  return 0;
}

static int
wait_end (void)
{
  struct pollfd p = { .fd = fp_ctl_fd (ctl), .events = POLLIN };

  return poll (&p, 1, DEADLINE_MS) == 1 ? 0 : -ETIMEDOUT;
}

/* Wait until the server asks for n slabs back. */
static int
wait_wanted (unsigned long n)
{
  const uint64_t end = deadline ();
  struct fp_ping_reply p = { .wanted = 0 };
  int r = 0;

  while (r == 0 && !fp_deadline_passed (end)) {
    r = fp_ctl_ping (ctl, NULL, &p, end);
    if (r == 0 && p.wanted == n)
      return 0;
    poll (NULL, 0, 20);
  }
  return r < 0 ? r : -ETIMEDOUT;
}

static _Noreturn void
hang (void)
{
  puts ("hanging");
  fflush (stdout);
  for (;;)
    pause ();
}

static _Noreturn void
reset (void)
{
  const struct linger l = { .l_onoff = 1, .l_linger = 0 };

  if (setsockopt (fp_ctl_fd (ctl), SOL_SOCKET, SO_LINGER, &l, sizeof l) < 0)
    exit (1);
  fflush (stdout);
  _exit (0);
}

static int
hold (void)
{
  char c;

  puts ("hanging");
  fflush (stdout);
  while (read (STDIN_FILENO, &c, 1) > 0)
    ;
  return 0;
}

static int
kept (uint8_t byte)
{
  int r = 0;

  for (unsigned i = 0; r == 0 && i < nr_grants; i++)
    r = check_slab (i, byte, 0, 0);
  return r;
}

static void
scribble (uint8_t byte)
{
  for (unsigned i = 0; i < nr_grants; i++)
    memset (remotes[i].map, byte, remotes[i].length);
}

static int
storm (uint8_t byte)
{
  int r;

  puts ("hanging");
  fflush (stdout);
  do
    r = fill (byte);
  while (r == 0);
  return 0;
}

static int
zero (const char *args)
{
  struct fp_zero q = { .slab = grants[0].slab };
  unsigned long long offset, length;

  if (sscanf (args, "%llu:%llu", &offset, &length) != 2)
    return -EINVAL;
  q.offset = offset;
  q.length = length;
  return fp_ctl_zero (ctl, &q, deadline ());
}

static int
check_zeroed (const char *args)
{
  unsigned long long offset, length;
  unsigned byte;

  if (sscanf (args, "%llu:%llu:%u", &offset, &length, &byte) != 3)
    return -EINVAL;
  return check_slab (0, (uint8_t) byte, offset, offset + length);
}

static int
do_word (const char *word)
{
  const char *args = strchr (word, ':');
  size_t len = args ? (size_t) (args++ - word) : strlen (word);
  unsigned long n = args ? strtoul (args, NULL, 0) : 0;
  struct fp_bye bye = { .discard = false };
  struct fp_ping_reply pong;
  bool known;
  int r = volume_word (word, len, args, &known);

  if (known)
    return r;
#define IS(w) (len == strlen (w) && strncmp (word, w, len) == 0)
  if (IS ("open"))
    return args ? open_volume (args) : -EINVAL;
  if (IS ("name")) {
    volume_name = args;
    return args ? 0 : -EINVAL;
  }
  if (IS ("size")) {
    volume_size = n;
    return 0;
  }
  if (IS ("stripe"))
    return args && sscanf (args, "%" SCNu32 "x%" SCNu64, &stripe.width,
                           &stripe.size) == 2
               ? 0
               : -EINVAL;
  if (IS ("grant"))
    return grant (n);
  if (IS ("time-grants"))
    return time_grants (n);
  if (IS ("grant-all"))
    return grant_all ();
  if (IS ("expect-slabs"))
    return nr_grants == n ? 0 : -ERANGE;
  if (IS ("label"))
    return label (n);
  if (IS ("list"))
    return list (n);
  if (IS ("fill"))
    return fill ((uint8_t) n);
  if (IS ("check"))
    return check ((uint8_t) n);
  if (IS ("zero"))
    return args ? zero (args) : -EINVAL;
  if (IS ("check-zeroed"))
    return args ? check_zeroed (args) : -EINVAL;
  if (IS ("read-only"))
    return read_only ((uint8_t) n);
  if (IS ("list-read-only"))
    return list_read_only ((uint8_t) n);
  if (IS ("release"))
    return release ();
  if (IS ("stale"))
    return stale ();
  if (IS ("replaced"))
    return replaced ();
  if (IS ("late"))
    return late ();
  if (IS ("data"))
    return another_connection (args);
  if (IS ("data-as"))
    return connection_as ((unsigned) n);
  if (IS ("ping"))
    return fp_ctl_ping (ctl, NULL, &pong, deadline ());
  if (IS ("wait-wanted"))
    return wait_wanted (n);
  if (IS ("stat"))
    return stat_ ();
  if (IS ("hang"))
    hang ();
  if (IS ("hold"))
    return hold ();
  if (IS ("kept"))
    return kept ((uint8_t) n);
  if (IS ("scribble") && ops->direct) {
    scribble ((uint8_t) n);
    return 0;
  }
  if (IS ("storm"))
    return storm ((uint8_t) n);
  if (IS ("flood")) {
    puts ("hanging");
    fflush (stdout);
    return flood ((uint8_t) n);
  }
  if (IS ("wait-end"))
    return wait_end ();
  if (IS ("reset"))
    reset ();
  bye.discard = IS ("discard");
  if (IS ("bye") || IS ("discard"))
    return fp_ctl_bye (ctl, &bye, deadline ());
#undef IS
  fprintf (stderr, "memclient: no such word: %s\n", word);
  exit (2);
}

static int
errno_by_name (const char *name)
{
  static const struct {
    const char *name;
    int err;
  } names[] = { { "EBUSY", EBUSY },           { "EEXIST", EEXIST },
                { "ENOENT", ENOENT },         { "EINVAL", EINVAL },
                { "ENOSPC", ENOSPC },         { "EPERM", EPERM },
                { "EACCES", EACCES },         { "EPROTO", EPROTO },
                { "EOPNOTSUPP", EOPNOTSUPP }, { "ECONNRESET", ECONNRESET } };

  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp (names[i].name, name) == 0)
      return names[i].err;
  fprintf (stderr, "memclient: no such error: %s\n", name);
  exit (2);
}

static int
run (char *words[])
{
  int expected = 0;

  for (; *words; words++) {
    int r;

    if (strncmp (*words, "fails:", 6) == 0) {
      expected = -errno_by_name (*words + 6);
      continue;
    }
    r = do_word (*words);
    if (r != expected) {
      fprintf (stderr, "memclient: %s: expected '%s', got '%s': %s\n", *words,
               strerror (-expected), strerror (-r), fp_ctl_why (ctl));
      return -1;
    }
    if (r < 0)
      printf ("%s: %s\n", *words, fp_ctl_why (ctl));
    expected = 0;
  }
  return 0;
}

static int
start_tls (const char *file, const char *token)
{
  struct fp_tls_params p = { .mode_given = true, .mode = FP_TLS_REQUIRE };
  struct fp_join_token t;
  struct fp_error error;
  struct fp_tls *tls;
  int r;

  if (!file && !token)
    return 0;
  r = token ? fp_join_read (&t, token, NULL, &error)
            : fp_tls_params_set (&p, "tls-psk", file, &error);
  if (r == 0 && token)
    r = fp_tls_new_key (&tls, t.identity, t.key, sizeof t.key, &error);
  else if (r == 0)
    r = fp_tls_new (&tls, &p, false, &error);
  if (r < 0)
    fprintf (stderr, "memclient: %s\n", error.text);
  else
    fp_tls_set_client (tls);
  return r;
}

int
main (int argc, char *argv[])
{
  const char *why, *uuid = getenv ("MEMCLIENT_UUID");
  struct fp_join_reply joined;
  int r;

  if (argc < 3 || fp_addr_parse (&addr, argv[1], &why) < 0) {
    fprintf (stderr, "usage: memclient ADDR NAME WORD...\n");
    return 2;
  }
  /* See verbs_client.c. */
  if (signal (SIGPIPE, SIG_IGN) == SIG_ERR)
    return 1;
  buffer = aligned_alloc (4096, CHUNK);
  if (!buffer)
    return 1;
  snprintf (hello.name, sizeof hello.name, "%s", argv[2]);
  r = uuid ? fp_uuid_parse (&hello.client, uuid)
           : fp_uuid_generate (&hello.client);
  if (r == 0)
    r = start_tls (getenv ("MEMCLIENT_PSK"), getenv ("MEMCLIENT_TOKEN"));
  if (r == 0)
    r = fp_ctl_open (&ctl, &addr, deadline ());
  if (r < 0) {
    fprintf (stderr, "memclient: %s: %s\n", argv[1], strerror (-r));
    return 1;
  }
  if (getenv ("MEMCLIENT_JOIN")) {
    r = fp_ctl_join (ctl, &joined, deadline ());
    return r < 0 && say (r, "JOIN") ? 1 : 0;
  }
  r = fp_ctl_hello (ctl, &hello, &server, deadline ());
  if (r < 0)
    return say (r, "HELLO") ? 1 : 0;
  r = run (argv + 3);
  if (conn) {
    ops->conn_break (conn);
    ops->conn_free (conn);
  }
  if (queue)
    ops->queue_free (queue);
  fp_ctl_free (ctl);
  free (buffer);
  return r < 0 ? 1 : 0;
}
