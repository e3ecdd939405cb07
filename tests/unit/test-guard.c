/* SPDX-License-Identifier: BSD-3-Clause */
/* test-guard.c - how the handlers apply an access file to sessions.
 * test-access.c tests the meaning of the file itself.
 */

#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "donor.h"
#include "memserver/auth/access.h"
#include "memserver/session/access_reread.h"
#include "memserver/session/guard.h"
#include "memserver/store/persist.h"

static struct session clients[3];
static char file[64];
enum { ALICE, BOB, BOSS };

static int
setup (void **state)
{
  static const char text[] = "[alice]\nvolumes = *\n"
                             "[bob]\nvolumes = *\ntakeover = yes\n"
                             "[boss]\nadmin = yes\n";
  static const char *const names[] = { "alice", "bob", "boss" };
  struct fp_error error;
  int fd, r;

  (void) state;
  snprintf (file, sizeof file, "/tmp/farpage-test-guard.XXXXXX");
  fd = mkstemp (file);
  assert_true (fd >= 0);
  assert_int_equal (write (fd, text, strlen (text)), strlen (text));
  donor_start (4, 1);
  r = access_read (&donor.sessions.access, file, &error);
  close (fd);
  assert_int_equal (r, 0);
  memset (clients, 0, sizeof clients);
  for (unsigned i = 0; i < 3; i++) {
    struct session *s = &clients[i];

    s->sessions = &donor.sessions;
    s->state = SESSION_READY;
    s->transports = FP_TRANSPORT_TCP;
    s->client.bytes[0] = (uint8_t) (i + 1);
    s->who.kind = WHO_TLS;
    snprintf (s->who.name, sizeof s->who.name, "%s", names[i]);
    TAILQ_INIT (&s->data);
  }
  return 0;
}

static int
teardown (void **state)
{
  (void) state;
  access_free (donor.sessions.access);
  donor.sessions.access = NULL;
  donor_stop ();
  unlink (file);
  return 0;
}

/* Create volume nr, with a name unless nr is 0; then its client leaves it. */
static int
make_large (struct session *s, unsigned nr, uint64_t size, uint32_t copies)
{
  struct fp_open q = { .flags = FP_OPEN_CREATE,
                       .transport = FP_TRANSPORT_TCP,
                       .volume = { .bytes = { 9, (uint8_t) (nr >> 8),
                                              (uint8_t) nr } },
                       .size = size,
                       .slab_size = MIB,
                       .copies = copies,
                       .servers = 1,
                       .stripe = { .width = 1, .size = 4096 } };
  struct fp_writer w;
  int r;

  if (nr > 0)
    snprintf (q.name, sizeof q.name, "v%u", nr);
  donor_begin (s, &w);
  fp_enc_open (&w, &q);
  r = donor_ask (ctl_open, &w);
  if (r == 0) {
    record_detach (s->record, false);
    s->record = NULL;
    s->state = SESSION_READY;
  }
  return r;
}

static int
make (struct session *s, unsigned nr)
{
  return make_large (s, nr, MIB, 1);
}

/* Open volume nr and keep it open. */
static int
open_it (struct session *s, unsigned nr, uint32_t transport, uint32_t flags)
{
  struct fp_open q = { .flags = flags,
                       .transport = transport,
                       .volume = { .bytes = { 8, (uint8_t) nr } },
                       .size = MIB,
                       .slab_size = MIB,
                       .copies = 1,
                       .servers = 1,
                       .stripe = { .width = 1, .size = 4096 } };
  struct fp_writer w;

  snprintf (q.name, sizeof q.name, "s%u", nr);
  s->transports = FP_TRANSPORT_TCP | FP_TRANSPORT_SHM;
  donor_begin (s, &w);
  fp_enc_open (&w, &q);
  return donor_ask (ctl_open, &w);
}

static void
stay (struct session *s, unsigned nr, uint32_t transport, uint32_t flags)
{
  assert_int_equal (open_it (s, nr, transport, flags), 0);
}

static void
leave (struct session *s)
{
  s->parting = PARTING_ORDERLY;
  assert_true (session_close_volume (s));
  session_close_sent (s);
  s->parting = PARTING_NONE;
  s->state = SESSION_READY;
}

/* List the session's one slab; expect that it was copied to other memory. */
static void
list_copied (struct session *s)
{
  static struct fp_grants grants;
  const struct slab *slab = s->record->slabs[0];
  int before = slab->backing.fd;

  donor_list_moved (s, &grants);
  assert_int_equal (grants.count, 1);
  assert_int_not_equal (slab->backing.fd, before);
}

/* A reader may lie that it has unmapped a slab.  It must not see later writes.
 */
static void
test_reader_gone (void **state)
{
  static struct fp_grants grants;
  struct session *writer = &clients[ALICE], *reader = &clients[BOB];
  uint64_t slab;

  (void) state;
  stay (writer, 1, FP_TRANSPORT_SHM, FP_OPEN_CREATE);
  assert_int_equal (donor_grant (writer, 1, &grants), 0);
  slab = grants.grants[0].slab;
  assert_int_equal (donor_label (writer, slab, 0), 0);
  leave (writer);
  stay (writer, 1, FP_TRANSPORT_SHM, FP_OPEN_RESUME);
  assert_int_equal (donor_list (writer, &grants), 0);
  leave (writer);

  stay (reader, 1, FP_TRANSPORT_SHM, FP_OPEN_RESUME | FP_OPEN_READ_ONLY);
  list_copied (reader);
  leave (reader);
  stay (writer, 1, FP_TRANSPORT_SHM, FP_OPEN_RESUME);
  list_copied (writer);
  assert_false (pool_slab (donor.pool, slab)->shared);
  leave (writer);
}

/* Hang up without BYE. */
static void
hang_up (struct session *s)
{
  s->parting = PARTING_HUNG_UP;
  assert_true (session_close_volume (s));
  s->parting = PARTING_NONE;
  s->state = SESSION_READY;
}

static void
write_file (const char *text)
{
  FILE *fp = fopen (file, "we");

  assert_non_null (fp);
  assert_true (fputs (text, fp) >= 0);
  assert_int_equal (fclose (fp), 0);
}

/* A client that is cut off may still trust its lease.  So the next client
 * waits for a writer, even for one that may only read by then.  It does not
 * wait for a reader.
 */
static void
test_fenced (void **state)
{
  static const char text[] = "[alice]\nread-only = *\n[bob]\nread-only = *\n";
  struct session *writer = &clients[ALICE], *reader = &clients[BOB];
  struct fp_error error;
  struct record *r;

  (void) state;
  stay (writer, 1, FP_TRANSPORT_TCP, FP_OPEN_CREATE);
  r = writer->record;
  write_file (text);
  access_free (donor.sessions.access);
  assert_int_equal (access_read (&donor.sessions.access, file, &error), 0);
  assert_true (session_close_volume (writer));
  assert_true (r->fenced_ns > 0);
  r->fenced_ns = 0;
  stay (reader, 1, FP_TRANSPORT_TCP, FP_OPEN_RESUME | FP_OPEN_READ_ONLY);
  assert_true (session_close_volume (reader));
  assert_int_equal (r->fenced_ns, 0);
}

/* A writer that hung up may be about to reconnect.  Until then, another client
 * gets in only with a takeover.  A reader is not waited for.
 */
static void
test_awaited (void **state)
{
  struct session *writer = &clients[ALICE], *other = &clients[BOB];
  struct record *r;
  uint64_t before;

  (void) state;
  stay (writer, 1, FP_TRANSPORT_TCP, FP_OPEN_CREATE);
  r = writer->record;
  before = fp_now_ns ();
  hang_up (writer);
  /* The lease limits the wait, as it is shorter than RETURN_MS. */
  assert_in_range (r->awaited_ns, before + FP_NS_PER_S,
                   fp_now_ns () + FP_NS_PER_S);
  r->awaited_ns = UINT64_MAX; /* no time passes */
  assert_int_equal (open_it (other, 1, FP_TRANSPORT_TCP, FP_OPEN_RESUME),
                    -EBUSY);
  assert_non_null (strstr (donor_call.call.why, "may come back"));
  stay (writer, 1, FP_TRANSPORT_TCP, FP_OPEN_RESUME);
  leave (writer);

  stay (other, 1, FP_TRANSPORT_TCP, FP_OPEN_RESUME | FP_OPEN_READ_ONLY);
  hang_up (other);
  stay (writer, 1, FP_TRANSPORT_TCP, FP_OPEN_RESUME);
  hang_up (writer);
  r->awaited_ns = UINT64_MAX;
  stay (other, 1, FP_TRANSPORT_TCP, FP_OPEN_RESUME | FP_OPEN_TAKEOVER);
  leave (other);
}

/* ---- SIGHUP ---- */

/* Replace the user directory by one that answers only when the test says so.
 */
static atomic_bool answers;
static pthread_t the_loop;
int __wrap_getpwnam_r (const char *name, struct passwd *entry, char *buf,
                       size_t size, struct passwd **out);

int
__wrap_getpwnam_r (const char *name, struct passwd *entry, char *buf,
                   size_t size, struct passwd **out)
{
  (void) name;
  (void) buf;
  (void) size;
  assert_false (pthread_equal (pthread_self (), the_loop));
  while (!answers)
    usleep (1000);
  *entry = (struct passwd) { .pw_uid = 4711 };
  *out = entry;
  return 0;
}

static bool
knows_4711 (void)
{
  const struct who who = { .kind = WHO_USER, .uid = 4711 };

  return access_find (donor.sessions.access, &who) != NULL;
}

static bool
is_empty (void)
{
  return access_count (donor.sessions.access) == 1;
}

static void
test_slow_names (void **state)
{
  (void) state;
  the_loop = pthread_self ();
  answers = false;
  donor.sessions.access_file = file;
  write_file ("[alice]\nvolumes = *\n[user:someone]\nvolumes = *\n");
  access_reread (&donor.sessions);
  /* Meanwhile the server goes on, with the old file. */
  assert_int_equal (make (&clients[BOB], 1), 0);
  assert_false (knows_4711 ());
  /* The file is read again before the first reading is done. */
  write_file ("[user:someone]\nvolumes = *\n");
  access_reread (&donor.sessions);
  answers = true;
  donor_wait (is_empty);
  assert_true (knows_4711 ());
  assert_int_equal (make (&clients[BOB], 2), -EPERM);
  /* A file with an error changes nothing. */
  write_file ("[user:someone]\nnonsense = *\n");
  access_reread (&donor.sessions);
  access_reread_end (&donor.sessions);
  assert_true (knows_4711 ());
}

static void
test_volumes_of_one (void **state)
{
  (void) state;
  for (unsigned i = 1; i <= MAX_RECORDS_OWNER; i++)
    assert_int_equal (make (&clients[ALICE], i), 0);
  assert_int_equal (make (&clients[ALICE], MAX_RECORDS_OWNER + 1), -ENOSPC);
  assert_non_null (strstr (donor_call.call.why, "tls:alice"));
  /* Other owners are not affected, and Alice still has her volumes. */
  assert_int_equal (make (&clients[BOB], MAX_RECORDS_OWNER + 1), 0);
  record_delete (records_find_name (&donor.records, "v7"), "test");
  assert_int_equal (make (&clients[ALICE], 7), 0);
}

static int
grant_ahead (struct session *s)
{
  const struct fp_grant_req q = { .count = 1, .ahead = true };
  struct fp_writer w;

  donor_begin (s, &w);
  fp_enc_grant_req (&w, &q);
  return donor_ask (ctl_grant, &w);
}

/* Alice's orphan fills her quota of two slabs.  It does not block her, and
 * Bob's orphan stays.
 */
static void
test_quota_of_orphans (void **state)
{
  static const char text[] = "[alice]\nvolumes = *\nquota = 2M\n"
                             "[bob]\nvolumes = *\n";
  const uint32_t flags = FP_OPEN_CREATE | FP_OPEN_EPHEMERAL;
  struct session *s = &clients[ALICE];
  static struct fp_grants grants;
  struct fp_error error;
  struct record *r[2];

  (void) state;
  write_file (text);
  access_free (donor.sessions.access);
  assert_int_equal (access_read (&donor.sessions.access, file, &error), 0);
  for (unsigned i = 0; i < 2; i++) {
    struct session *owner = &clients[i == 0 ? BOB : ALICE];

    assert_int_equal (open_it (owner, i + 1, FP_TRANSPORT_TCP, flags), 0);
    r[i] = owner->record;
    assert_int_equal (donor_grant (owner, i + 1, &grants), 0);
    for (unsigned j = 0; j <= i; j++)
      assert_int_equal (donor_label (owner, grants.grants[j].slab, 0), 0);
    hang_up (owner);
    r[i]->orphan_ns = 0;
  }
  assert_int_equal (open_it (s, 3, FP_TRANSPORT_TCP, flags), 0);
  assert_int_equal (guard_room (s).left, 0);
  assert_int_equal (guard_free (s), 2);
  assert_int_equal (grant_ahead (s), -ENOSPC);
  assert_int_equal (donor.records.nr, 3);
  assert_int_equal (donor_grant (s, 1, &grants), 0);
  assert_int_equal (donor.records.nr, 2);
  assert_ptr_equal (TAILQ_FIRST (&donor.records.list), r[0]);
  hang_up (s);
}

static uint32_t
listed (struct session *s)
{
  const struct fp_volumes_req q = { .start = 0 };
  static struct fp_volumes volumes;
  static struct fp_stat_reply stat;
  struct fp_reader in;
  struct fp_writer w;

  donor_begin (s, &w);
  fp_enc_volumes_req (&w, &q);
  assert_int_equal (donor_ask (ctl_volumes, &w), 0);
  donor_reply (&in);
  assert_int_equal (fp_dec_volumes (&in, &volumes), 0);
  donor_begin (s, &w);
  assert_int_equal (donor_ask (ctl_stat, &w), 0);
  donor_reply (&in);
  assert_int_equal (fp_dec_stat_reply (&in, &stat), 0);
  assert_int_equal (stat.nr_sessions, volumes.count);
  return volumes.count;
}

/* The owner of a volume is unknown.  A client that knows its UUID may look it
 * up, but only an admin sees it listed.
 */
static void
test_unowned_volumes (void **state)
{
  const struct who nobody = { .kind = WHO_NOBODY };
  struct fp_lookup q = { .volume = { .bytes = { 9 } } };
  struct fp_writer w;

  (void) state;
  assert_int_equal (make (&clients[ALICE], 0), 0);
  assert_int_equal (listed (&clients[ALICE]), 1);
  assert_int_equal (listed (&clients[BOB]), 0);
  record_own (records_find (&donor.records, &q.volume), &nobody);
  assert_int_equal (listed (&clients[BOSS]), 1);
  assert_int_equal (listed (&clients[ALICE]), 0);
  assert_int_equal (listed (&clients[BOB]), 0);
  donor_begin (&clients[BOB], &w);
  fp_enc_lookup (&w, &q);
  assert_int_equal (donor_ask (ctl_lookup, &w), 0);
}

/* Empty volumes cost no quota, but their maps take memory.  One owner leaves
 * room for the maps of others.
 */
static void
test_maps_of_one (void **state)
{
  const uint64_t size = MAX_EXTENTS * MIB;
  unsigned n = 0;

  (void) state;
  while (make_large (&clients[ALICE], n + 1, size, FP_WIRE_COPIES_MAX) == 0)
    n++;
  assert_in_range (n, 1, MAX_RECORDS_OWNER - 1);
  assert_true (donor.records.map_words <= MAX_MAP_WORDS_OWNER);
  assert_non_null (strstr (donor_call.call.why, "alice may take 16 MiB"));
  assert_int_equal (donor.records.nr, n);
  /* Alice's volumes stay, and others get theirs. */
  assert_int_equal (make (&clients[ALICE], 0), 0);
  assert_int_equal (make_large (&clients[BOB], 900, size, FP_WIRE_COPIES_MAX),
                    0);
}

#define TEST(t) cmocka_unit_test_setup_teardown (t, setup, teardown)

int
main (void)
{
  const struct CMUnitTest tests[] = {
    TEST (test_volumes_of_one), TEST (test_maps_of_one),
    TEST (test_reader_gone),    TEST (test_awaited),
    TEST (test_fenced),         TEST (test_unowned_volumes),
    TEST (test_slow_names),     TEST (test_quota_of_orphans),
  };

  return RUN_TESTS (tests);
}
