/* SPDX-License-Identifier: BSD-3-Clause */
/* announce.c - farpage cluster announce: tell etcd about one donor.
 *
 * The donor's key is attached to an etcd lease.  Each round asks the donor at
 * its address for clients, and renews the lease.  If the donor does not
 * answer, or this process is killed, the lease runs out and etcd forgets the
 * donor. The donor itself knows nothing of etcd.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "base/checked.h"
#include "base/log.h"
#include "base/random.h"
#include "pool/etcdctl.h"
#include "tools/cluster/cluster.h"
#include "tools/common/ask_server.h"
#include "tools/common/commands.h"
#include "tools/common/tls_args.h"

#define LEASE_MAX 32 /* a lease has 64 bits, in hexadecimal */
/* Do not write a change of free memory of less than 1/FREE_PART of the total.
 * Each write costs etcd a revision of the key.
 */
#define FREE_PART 50
/* Write the entry at least every WRITE_EACH rounds, in case someone has
 * deleted the key.
 */
#define WRITE_EACH 10
#define PAUSE_MS UINT64_C (10000)

struct announcer {
  const struct announcement *is;
  struct fp_addr addr;
  struct fp_donor now, told; /* told: as etcd has it, if there is a lease */
  char lease[LEASE_MAX];     /* "": none */
  unsigned rounds;           /* since the last write; WRITE_EACH: write */
  bool announced;            /* the last round succeeded */
  struct fp_error why;       /* why it failed */
};

/* Ask the donor, and fill in a->now. */
static int
look (struct announcer *a, struct fp_error *error)
{
  static struct ask_answer answer;
  struct fp_donor *d = &a->now;
  struct fp_error why;
  int r = ask_all (&a->addr, &answer, &why);

  if (r < 0)
    return fp_fail (error, r, "the donor does not answer: %s", why.text);
  *d = a->is->donor;
  d->uuid = answer.stat.server;
  snprintf (d->name, sizeof d->name, "%s", answer.stat.name);
  d->protocol = answer.hello.version;
  d->slab = answer.stat.slab_size;
  d->total = answer.stat.total * d->slab;
  d->free = answer.stat.free * d->slab;
  d->pressed = answer.stat.pressed;
  d->draining = answer.drain.drains || answer.stat.stopping;
  return 0;
}

/* Return true if the entry in etcd is out of date. */
static bool
is_news (const struct announcer *a)
{
  const struct fp_donor *x = &a->now, *y = &a->told;
  uint64_t moved = x->free > y->free ? x->free - y->free : y->free - x->free;

  return strcmp (x->name, y->name) != 0 || x->slab != y->slab ||
         x->protocol != y->protocol || x->total != y->total ||
         x->pressed != y->pressed || x->draining != y->draining ||
         moved > x->total / FREE_PART || (x->free == 0) != (y->free == 0) ||
         a->rounds >= WRITE_EACH;
}

/* Revoke the lease.  etcd then deletes the key. */
static int
drop_lease (struct announcer *a, struct fp_error *error)
{
  const char *const words[] = { "lease", "revoke", a->lease, NULL };
  int r = a->lease[0] == '\0' ? 0 : fp_etcdctl (NULL, words, error);

  a->lease[0] = '\0';
  return r;
}

static int
get_lease (struct announcer *a, struct fp_error *error)
{
  char ttl[16];
  const char *const words[] = { "lease", "grant", ttl, NULL };
  struct json_object *answer, *id = NULL;
  int64_t n;
  int r;

  snprintf (ttl, sizeof ttl, "%ld", a->is->ttl_s);
  r = fp_etcdctl (&answer, words, error);
  if (r < 0)
    return r;
  json_object_object_get_ex (answer, "ID", &id);
  n = json_object_is_type (id, json_type_int) ? json_object_get_int64 (id) : 0;
  json_object_put (answer);
  if (n == 0) /* 0: no lease */
    return fp_fail (error, -EPROTO, "etcdctl: 'lease grant' prints no ID");
  snprintf (a->lease, sizeof a->lease, "%" PRIx64, (uint64_t) n);
  a->rounds = WRITE_EACH; /* the entry needs this lease */
  return 0;
}

static int
keep_lease (const struct announcer *a, struct fp_error *error)
{
  const char *const words[] = { "lease", "keep-alive", "--once", a->lease,
                                NULL };

  return fp_etcdctl (NULL, words, error);
}

static int
put (const struct announcer *a, struct fp_error *error)
{
  char key[256], option[LEASE_MAX + 16], uuid[FP_UUID_STR_MAX];
  struct json_object *o = fp_donor_to_json (&a->now);
  const char *const words[] = {
    "put", key, json_object_to_json_string_ext (o, JSON_C_TO_STRING_PLAIN),
    option, NULL
  };
  int r;

  fp_uuid_format (&a->now.uuid, uuid);
  snprintf (key, sizeof key, "%s/donors/%s", a->is->prefix, uuid);
  snprintf (option, sizeof option, "--lease=%s", a->lease);
  r = fp_etcdctl (NULL, words, error);
  json_object_put (o);
  return r;
}

/* Do one round. */
static int
round_of (struct announcer *a, struct fp_error *error)
{
  struct fp_error ignored;
  int r = look (a, error);

  if (r < 0) {
    /* The keys may have been changed.  If they cannot be read, that is said.
     */
    (void) tls_args_use ("cluster");
    return r;
  }
  /* A donor that came back without its memory has a new UUID, and so another
   * etcd key.
   */
  if (a->lease[0] != '\0' && !fp_uuid_eq (&a->now.uuid, &a->told.uuid))
    (void) drop_lease (a, &ignored); /* else it runs out by itself */
  if (a->lease[0] == '\0' || keep_lease (a, error) < 0)
    r = get_lease (a, error);
  if (r == 0 && is_news (a)) {
    r = put (a, error);
    a->rounds = r == 0 ? 0 : WRITE_EACH;
    if (r == 0)
      a->told = a->now;
  }
  a->rounds++;
  return r;
}

/* Log the result of a round if it has changed, and tell systemd. */
static void
report (struct announcer *a, int r, const struct fp_error *error)
{
  if (r == 0 && !a->announced)
    fp_log (FP_LOG_INFO, "%s is announced in etcd:%s", a->is->donor.addr,
            a->is->prefix);
  if (r < 0 && strcmp (error->text, a->why.text) != 0)
    fp_log (FP_LOG_WARN, "%s; trying again", error->text);
  if (r < 0)
    sd_notifyf (0, "READY=1\nSTATUS=%s; trying again", error->text);
  else
    sd_notifyf (0, "READY=1\nSTATUS=%s is announced in etcd:%s",
                a->is->donor.addr, a->is->prefix);
  a->announced = r == 0;
  snprintf (a->why.text, sizeof a->why.text, "%s", r < 0 ? error->text : "");
}

/* Return a third of the TTL, at most PAUSE_MS, shortened at random by up to a
 * fifth.  Announcers that were started together do not stay together then.
 */
static struct timespec
make_pause (const struct announcer *a)
{
  uint64_t ms = FP_MIN ((uint64_t) a->is->ttl_s * 1000 / 3, PAUSE_MS);
  uint64_t random = 0;

  (void) fp_random (&random, sizeof random);
  ms -= random % (ms / 5 + 1);
  return (struct timespec) { .tv_sec = (time_t) (ms / 1000),
                             .tv_nsec = (long) (ms % 1000) * 1000000 };
}

int
announce (const struct announcement *is)
{
  static struct announcer a;
  struct timespec pause;
  struct fp_error error;
  sigset_t ends;
  int r;

  a.is = is;
  if (fp_addr_parse (&a.addr, is->donor.addr, NULL) < 0)
    return EXIT_FAILURE; /* the caller has checked it */
  fp_log_set_sink (fp_log_to_stderr, (void *) (uintptr_t) "farpage");
  sigemptyset (&ends);
  sigaddset (&ends, SIGTERM);
  sigaddset (&ends, SIGINT);
  sigprocmask (SIG_BLOCK, &ends, NULL);
  do {
    r = round_of (&a, &error);
    report (&a, r, &error);
    pause = make_pause (&a);
  } while (sigtimedwait (&ends, NULL, &pause) == -1);
  /* If that fails, the lease runs out by itself. */
  if (drop_lease (&a, &error) < 0)
    fp_log (FP_LOG_WARN, "%s", error.text);
  return EXIT_SUCCESS;
}
