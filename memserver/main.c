/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - farpage-memserver: check the command line and the limits, start the
 * server, write its addresses, run it.
 */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <systemd/sd-daemon.h>
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
#include "memserver/say.h"
#include "memserver/server.h"
#include "memserver/session/rdma.h"
#include "memserver/setup/setup.h"

#define MIB (UINT64_C (1) << 20)
#define RETRY_S 5

/* Print the sentence, and return -1. */
#define failed(...) (say (__VA_ARGS__), -1)

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

/* Return the exit status for wrong settings.  systemd does not start the
 * service again after status 2, and then drops the lent memory that it keeps.
 * So if it keeps some, let it try again, until the settings are right.
 */
static int
wrong_settings (void)
{
  if (sd_listen_fds (0) <= 0)
    return 2;
  say ("the lent memory is kept until the settings are right: trying again "
       "in %d s",
       RETRY_S);
  (void) sleep (RETRY_S);
  return EXIT_FAILURE;
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
    say ("%s: %s", path, strerror (errno));
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
    say ("%s", error.text[0] ? error.text : strerror (-r));
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
  static char setup[] = "farpage-memserver: setup";
  static char token[] = "farpage-memserver: token";
  static char keygen[] = "farpage-memserver: keygen";
  struct options o;
  struct fp_error error;
  int r;

  /* getopt prints argv[0] with its messages. */
  if (argc > 1 && strcmp (argv[1], "setup") == 0) {
    argv[1] = setup;
    return setup_main (argc - 1, argv + 1);
  }
  if (argc > 1 && strcmp (argv[1], "token") == 0) {
    argv[1] = token;
    return token_main (argc - 1, argv + 1);
  }
  if (argc > 1 && strcmp (argv[1], "keygen") == 0) {
    argv[1] = keygen;
    return keygen_main (argc - 1, argv + 1);
  }
  r = options_parse (&o, argc, argv);
  if (r == 0 &&
      (listener_check (&o, &error) < 0 || check_access (&o, &error) < 0))
    r = failed ("%s", error.text);
  if (r != 0)
    return r < 0 ? wrong_settings () : EXIT_SUCCESS;
  fp_log_set_sink (fp_log_to_stderr, (void *) "farpage-memserver");
  fp_log_set_level (o.log_level);
  fp_raise_memlock ();
  if (options_fit (&o, &error) < 0) {
    say ("%s", error.text);
    return EXIT_FAILURE;
  }
  if (check_limits (&o) < 0)
    return EXIT_FAILURE;
  lock_memory (&o);
  return run (&o) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
