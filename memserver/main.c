/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - farpage-memserver: check the command line and the limits, start the
 * server, write its addresses, run it.
 */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memlock.h"
#include "base/size.h"
#include "memserver/alive.h"
#include "memserver/auth/access.h"
#include "memserver/listener.h"
#include "memserver/options.h"
#include "memserver/pool/host.h"
#include "memserver/pool/store.h"
#include "memserver/server.h"
#include "memserver/session/rdma.h"

#define MIB (UINT64_C (1) << 20)

static int failed (const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 1, 2)));

static int
failed (const char *fmt, ...)
{
  va_list args;

  fprintf (stderr, "farpage-memserver: ");
  va_start (args, fmt);
  vfprintf (stderr, fmt, args);
  va_end (args);
  fputc ('\n', stderr);
  return -1;
}

/* Refuse a size that would drive this host out of memory. */
static int
check_memory (struct options *o)
{
  char size[FP_SIZE_STR_MAX], reserve[FP_SIZE_STR_MAX], left[FP_SIZE_STR_MAX],
      fits[FP_SIZE_STR_MAX];
  struct host_memory memory;
  const bool files = o->backing[0] && !store_will_seal (o->backing);
  uint64_t huge = 0, room;
  int r = host_memory (&memory, o->numa);

  if (r == -ENODEV)
    return failed ("numa: there is no node %d", o->numa);
  if (r < 0)
    return failed ("memory: cannot read how much this host has: %s",
                   strerror (-r));
  if (!o->reserve_given) {
    o->reserve = memory.total / 16;
    if (o->reserve > (UINT64_C (4) << 30))
      o->reserve = UINT64_C (4) << 30;
  }

  /* Huge pages are set aside already.  (persist_open counts them.) */
  if (files && store_page_at (o->backing) > STORE_SMALL_PAGE)
    return 0;
  if (!files &&
      (o->hugepages == HUGEPAGES_AUTO || o->hugepages == HUGEPAGES_2M))
    huge += host_huge_free (2 * MIB);
  if (!files && o->slab >= 1024 * MIB &&
      (o->hugepages == HUGEPAGES_AUTO || o->hugepages == HUGEPAGES_1G))
    huge += host_huge_free (1024 * MIB);
  if (huge >= o->size || o->hugepages == HUGEPAGES_2M ||
      o->hugepages == HUGEPAGES_1G)
    return 0;

  room = memory.available > o->reserve ? memory.available - o->reserve : 0;
  /* Slabs that this server had before are set aside, too. */
  if (o->backing[0])
    huge += store_holds (o->backing, "slab-");
  room = (room + huge) / o->slab * o->slab;
  if (o->size <= room)
    return 0;
  fp_format_size (o->size, size);
  fp_format_size (o->reserve, reserve);
  fp_format_size (memory.available, left);
  fp_format_size (room, fits);
  return failed ("size: %s does not fit: %s %s available and %s %s reserved "
                 "for it (--reserve); --size %s would fit",
                 size, o->numa < 0 ? "this host has" : "this node has", left,
                 reserve, o->reserve_given ? "are" : "are by default", fits);
}

static int
check_limits (const struct options *o)
{
  uint64_t slabs = o->size / o->slab, limit;
  uint64_t wanted = slabs + MAX_SESSIONS + MAX_FRESH + 2 * MAX_DATA_ALL + 64;

  if (o->backing[0])
    wanted += MAX_RECORDS;
  if (store_will_seal (o->backing)) { /* the store has a descriptor of each */
    if (slabs > STORE_FDS_SLABS)
      return failed ("backing: %s: %llu slabs are too many, %u is the limit: "
                     "use a larger --slab",
                     o->backing, (unsigned long long) slabs, STORE_FDS_SLABS);
    wanted += slabs + MAX_RECORDS;
  }
  if (host_raise_nofile (wanted, &limit) < 0) {
    /* Settle for fewer sessions. */
    wanted = slabs + 256;
    if (host_raise_nofile (wanted, &limit) < 0)
      return failed ("%llu slabs need %llu file descriptors, and the limit is "
                     "%llu: use a larger --slab, or raise the limit (ulimit "
                     "-n, LimitNOFILE=)",
                     (unsigned long long) slabs, (unsigned long long) wanted,
                     (unsigned long long) limit);
  }
  return 0;
}

/* Check the limit on locked memory: registering memory with a device counts
 * against it.
 */
static int
check_lock (const struct server *srv)
{
  const struct options *o = srv->options;
  uint64_t limit;

  if (host_may_lock (o->size + 64 * MIB, &limit))
    return 0;
  if (rdma_works (&srv->sessions))
    return failed ("rdma: this user may lock %llu MiB of memory, and %llu "
                   "MiB are needed: raise RLIMIT_MEMLOCK (ulimit -l, "
                   "limits.conf, LimitMEMLOCK=)",
                   (unsigned long long) (limit / MIB),
                   (unsigned long long) (o->size / MIB + 64));
  return 0;
}

/* Lock the server's own memory, so that it is never swapped out. */
static void
lock_memory (const struct options *o)
{
  uint64_t limit;

  if (!host_may_lock (o->size + 64 * MIB, &limit))
    return; /* MCL_FUTURE would make mmap fail; the pool will warn */
  if (mlockall (MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0)
    fp_log (FP_LOG_WARN, "the server's own memory is not locked: %s",
            strerror (errno));
}

/* Check the access file early: an error is like a bad command line. */
static int
check_access (const struct options *o, struct fp_error *error)
{
  struct access *a = NULL;
  int r = o->access[0] ? access_read (&a, o->access, error) : 0;

  access_free (a);
  return r;
}

/* Write a file by a rename: a reader sees all of it or no file. */
static int
write_file (const char *path, const char *text)
{
  char new[4096];
  FILE *fp;
  bool ok;

  if (snprintf (new, sizeof new, "%s.new", path) >= (int) sizeof new)
    return failed ("%s: %s", path, strerror (ENAMETOOLONG));
  fp = fopen (new, "we");
  if (!fp)
    return failed ("%s: %s", new, strerror (errno));
  ok = fputs (text, fp) >= 0;
  if (fclose (fp) != 0 || !ok || rename (new, path) < 0) {
    failed ("%s: %s", path, strerror (errno));
    unlink (new);
    return -1;
  }
  return 0;
}

/* Write the pidfile and the address file.  This is the last step of the start:
 * a script that finds the files finds all log lines of the start, too.
 */
static int
write_where (const struct server *srv)
{
  const struct options *o = srv->options;
  char addrs[MAX_LISTEN * (FP_ADDR_MAX + 2)], pid[32];
  size_t used = 0;

  for (unsigned i = 0; i < srv->nr_listeners; i++) {
    char addr[FP_ADDR_MAX + 1];

    fp_addr_format (listener_addr (srv->listeners[i]), addr);
    used +=
        (size_t) snprintf (addrs + used, sizeof addrs - used, "%s\n", addr);
  }
  snprintf (pid, sizeof pid, "%ld\n", (long) getpid ());
  if (o->pidfile[0] && write_file (o->pidfile, pid) < 0)
    return -1;
  if (o->address_file[0] && write_file (o->address_file, addrs) < 0)
    return -1;
  return 0;
}

/* Log where the server listens.  Warn if others can come in without TLS; log
 * it if only this machine is served.
 */
static void
say_where (const struct server *srv)
{
  const struct options *o = srv->options;

  for (unsigned i = 0; i < srv->nr_listeners; i++) {
    char addr[FP_ADDR_MAX + 1];

    fp_addr_format (listener_addr (srv->listeners[i]), addr);
    fp_log (FP_LOG_INFO, "listening on %s", addr);
  }
  if (listener_is_insecure (srv))
    fp_log (FP_LOG_WARN,
            "INSECURE: without TLS any machine that can reach these addresses "
            "may use the memory, and any machine on the way may read and "
            "change the data");
  else if (o->nr_listen == 0 && o->tls.mode != FP_TLS_REQUIRE)
    fp_log (FP_LOG_INFO,
            "only this machine is served: to serve others, give a key "
            "(--tls-psk FILE) or --insecure");
}

static int
run (struct options *o)
{
  static struct server srv;
  struct event *alive = NULL;
  struct fp_error error;
  int r = server_start (&srv, o, &error);

  if (r < 0)
    failed ("%s", error.text[0] ? error.text : strerror (-r));
  else
    r = check_lock (&srv);
  if (r == 0)
    say_where (&srv);
  if (r == 0)
    r = write_where (&srv);
  if (r == 0 && alive_start (&alive, srv.base) < 0)
    r = failed ("out of memory");
  if (r == 0)
    r = server_run (&srv);
  if (alive)
    event_free (alive);
  server_end (&srv);
  if (o->pidfile[0])
    unlink (o->pidfile);
  if (o->address_file[0])
    unlink (o->address_file);
  return r;
}

int
main (int argc, char *argv[])
{
  struct options o;
  struct fp_error error;
  int r = options_parse (&o, argc, argv);

  if (r == 0 &&
      (listener_check (&o, &error) < 0 || check_access (&o, &error) < 0))
    r = failed ("%s", error.text);
  if (r != 0)
    return r < 0 ? 2 : EXIT_SUCCESS;
  fp_log_set_sink (fp_log_to_stderr, (void *) "farpage-memserver");
  fp_log_set_level (o.log_level);
  fp_raise_memlock ();
  if (check_memory (&o) < 0 || check_limits (&o) < 0)
    return EXIT_FAILURE;
  lock_memory (&o);
  return run (&o) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
