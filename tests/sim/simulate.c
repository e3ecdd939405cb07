/* SPDX-License-Identifier: BSD-3-Clause */
/* simulate.c - run a volume, its clients and its memory servers on virtual
 * time, with faults, and check every byte that is read.  See docs/TESTING.md.
 *
 * The same seed and options give the same run, and the same trace.
 */

#include <config.h>

#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/log.h"
#include "sim/client.h"
#include "sim/donors.h"
#include "sim/faults.h"
#include "sim/nic.h"
#include "sim/scenario.h"
#include "sim/simulate.h"
#include "sim/threads.h"
#include "transport/transport.h"

#define STEP_MS 400u /* longest pause between two steps */
#define SCENARIO_MS 10u
#define SETTLE_MS 10000u
#define REQUEST_MS 60000u
#define PATIENCE_S 2000u /* virtual time without a client, with faults */
#define END_S 300u       /* virtual time until all is whole again */
#define STARTS 400u      /* each start of a donor leaves 35 files open */
#define RING 400u        /* lines of the trace that are printed */
#define LINE_MAX_ 400u
#define ARGS 64

static struct {
  unsigned long seed;
  uint64_t ops, faults;
  enum faults_mode mode;
  unsigned donors, copies, threads, pause_ms;
  const char *trace, *scenario;
  bool no_faults, degraded;
} options = { .ops = 2000 };

/* ---- the trace ---- */

static char ring[RING][LINE_MAX_];
static unsigned ring_at;
static uint64_t hash = UINT64_C (0xcbf29ce484222325); /* FNV-1a */
static FILE *trace_file;

void
trace (const char *fmt, ...)
{
  char *line = ring[ring_at++ % RING];
  uint64_t ns = sim_now_ns ();
  va_list ap;
  int n;

  n = snprintf (line, LINE_MAX_, "%llu.%06llu %u ", ns / FP_NS_PER_S,
                ns % FP_NS_PER_S / 1000, sim_host ());
  va_start (ap, fmt);
  vsnprintf (line + n, LINE_MAX_ - (size_t) n, fmt, ap);
  va_end (ap);
  for (const char *p = line; *p != '\0'; p++)
    hash = (hash ^ (unsigned char) *p) * UINT64_C (0x100000001b3);
  if (trace_file != NULL)
    fprintf (trace_file, "%s\n", line);
}

static void
log_to_trace (enum fp_log_level level, const char *message, void *opaque)
{
  (void) opaque;
  trace ("log %d %s", (int) level, message);
}

/* Print the options that repeat this run. */
static void
print_run (FILE *to)
{
  fprintf (to,
           "--seed %lu --ops %" PRIu64 " --faults %" PRIu64
           " --mode %s --donors %u --copies %u --threads %u --pause %u%s%s",
           options.seed, options.ops, options.faults,
           faults_modes[options.mode], options.donors, options.copies,
           options.threads, options.pause_ms,
           options.degraded ? " --degraded" : "",
           options.no_faults ? " --no-faults" : "");
  if (options.scenario != NULL)
    fprintf (to, " --scenario %s", options.scenario);
}

void
simulation_failed (const char *fmt, ...)
{
  static bool failed;
  va_list ap;

  /* Print the reason first: the rest may give up the turn. */
  if (failed)
    _exit (1);
  failed = true;
  fprintf (stderr, "FAILED: ");
  va_start (ap, fmt);
  vfprintf (stderr, fmt, ap);
  va_end (ap);
  fprintf (stderr, "\nFAILED: ");
  print_run (stderr);
  fprintf (stderr, "\nFAILED: after %" PRIu64 " requests, %lu transfers\n",
           clients_done () + clients_failed (), nic_transfers ());
  faults_trace_state ();
  for (unsigned i = ring_at > RING ? ring_at - RING : 0; i < ring_at; i++)
    fprintf (stderr, "%s\n", ring[i % RING]);
  if (trace_file != NULL)
    fclose (trace_file);
  donors_end ();
  _exit (1);
}

void
simulation_request_ended (const char *kind, uint64_t first, uint64_t nr, int r,
                          uint64_t began_ns)
{
  uint64_t ms = (sim_now_ns () - began_ns) / FP_NS_PER_MS;

  if (options.mode != FAULTS_GENTLE)
    return;
  if (r < 0)
    simulation_failed ("%s of blocks %" PRIu64 "+%" PRIu64 " failed after "
                       "%" PRIu64 " ms with %s, and in gentle mode none may",
                       kind, first, nr, ms, strerror (-r));
  if (ms > REQUEST_MS)
    simulation_failed ("%s of blocks %" PRIu64 "+%" PRIu64 " took %" PRIu64
                       " ms",
                       kind, first, nr, ms);
}

/* ---- the run ---- */

static void
pause_ms (unsigned ms)
{
  const struct timespec t = { .tv_sec = ms / 1000,
                              .tv_nsec = (long) (ms % 1000) * 1000000 };

  nanosleep (&t, NULL);
}

/* Wait until is () returns true.  Fail after END_S. */
static void
await (bool (*is) (void), const char *what)
{
  uint64_t until = sim_now_ns () + END_S * FP_NS_PER_S;

  while (!is ()) {
    if (sim_now_ns () > until) {
      simulation_failed ("after %u s without a fault %s", END_S, what);
    }
    faults_end ();
    pause_ms (100);
  }
}

static bool
is_quiet (void)
{
  return clients_under_way () == 0;
}

static bool
has_one_client (void)
{
  return (client_volume (0) != NULL) + (client_volume (1) != NULL) == 1 &&
         (client_state (0) == CLIENT_NONE) +
                 (client_state (1) == CLIENT_NONE) ==
             1;
}

static bool
is_whole (void)
{
  return has_one_client () && faults_whole (faults_lossy ());
}

/* Attach once more.  A client that attached without some servers does not
 * believe all that they have.  The next client does, as all servers are there.
 */
static void
attach_again (void)
{
  for (unsigned i = 0; i < CLIENTS; i++)
    client_stop (i);
  pause_ms (SETTLE_MS);
}

static bool
is_settled (void)
{
  return faults_no_client () || is_whole ();
}

/* Read all, and compare all copies. */
static void
read_all (void)
{
  unsigned client = client_volume (0) != NULL ? 0 : 1;
  uint64_t lost = client_read_all (client);
  uint64_t skipped = client_compare_all (client);

  if (lost > 0 && !faults_lossy ())
    simulation_failed ("%" PRIu64 " blocks cannot be read in the end", lost);
  if (skipped > 0 && !faults_lossy ())
    simulation_failed ("%" PRIu64 " blocks cannot be compared in the end",
                       skipped);
  trace ("read all: %" PRIu64 " blocks lost", lost);
}

/* Wait, then begin and end what is due.  Count the faults that began in
 * *faults.  Return false if the run is over.
 */
static bool
step (uint64_t *faults)
{
  bool more;

  if (options.scenario != NULL) {
    pause_ms (SCENARIO_MS);
    more = scenario_step ();
    *faults = scenario_faults ();
    return more;
  }
  if (clients_done () >= options.ops && *faults >= options.faults)
    return false;
  if (donors_started () >= STARTS)
    return false;
  pause_ms (1 + sim_dice (STEP_MS));
  *faults += !options.no_faults && faults_step ();
  return true;
}

static void
run (void)
{
  struct client_options o = { .size = 16 * DONORS_SLAB,
                              .copies = options.copies,
                              .threads = options.threads,
                              .pause_ms = options.pause_ms,
                              .degraded = options.degraded };
  uint64_t faults = 0, client_ns;
  bool lost;

  donors_start (options.donors, 24);
  clients_init (&o);
  faults_init (options.mode, options.copies);
  if (options.no_faults)
    await (has_one_client, "no client has the volume");
  client_ns = sim_now_ns ();
  while (step (&faults) && !faults_no_client ())
    if (client_volume (0) != NULL || client_volume (1) != NULL)
      client_ns = sim_now_ns ();
    else if (sim_now_ns () - client_ns > PATIENCE_S * FP_NS_PER_S)
      simulation_failed ("no client could attach for %u s", PATIENCE_S);
  clients_quiet (true);
  faults_end ();
  faults_restart_patience ();
  pause_ms (SETTLE_MS); /* what is wrong shows by then */
  await (is_quiet, "a request is still under way");
  if (options.degraded)
    attach_again ();
  await (is_settled, "the volume is not whole");
  lost = faults_no_client ();
  if (!lost)
    read_all ();
  print_run (stdout);
  printf (": %" PRIu64 " requests done, %" PRIu64 " failed, %lu transfers, "
          "%" PRIu64 " faults, %llu s, trace %016" PRIx64 "%s\n",
          clients_done (), clients_failed (), nic_transfers (), faults,
          sim_now_ns () / FP_NS_PER_S, hash,
          lost                          ? ", no client could attach"
          : donors_started () >= STARTS ? ", no more starts"
                                        : "");
}

/* ---- options ---- */

static void
usage (FILE *to)
{
  fprintf (to, "\
Usage: simulate [OPTION]...\n\
\n\
Runs the client library and memory servers on virtual time, with faults, and\n\
checks every byte that is read.  Prints one line if all is right.\n\
\n\
      --seed N       default 1\n\
      --ops N        run until N requests have succeeded (2000)\n\
      --faults N     and N faults have begun (a hundredth of --ops), or until\n\
                     the 400th start of a donor\n\
      --mode MODE    gentle, durable or harsh (default: drawn from the seed)\n\
      --donors N     2 to 8 (drawn: 2 to 5)\n\
      --copies N     1 to 4 (drawn: 1 to 3)\n\
      --threads N    of a client, 1 to 8 (drawn: 1 to 6)\n\
      --pause MS     longest pause between requests (drawn: 40, 200, 1000)\n\
      --no-faults    only requests\n\
      --scenario FILE:NAME\n\
                     play a scenario of a file: its options, and its faults\n\
                     in the place of --ops and --faults\n\
      --degraded     attach without servers that are away (degraded=true)\n\
      --trace FILE   write all events but transfers there\n\
      --transfers    trace transfers, too\n\
      --verbose      print how often each fault began\n\
  -h, --help         show this text\n");
}

static unsigned long
number (const char *s, unsigned long least, unsigned long most)
{
  char *end;
  unsigned long n = strtoul (s, &end, 10);

  if (*s == '\0' || *end != '\0' || n < least || n > most) {
    fprintf (stderr, "simulate: '%s' is not a number from %lu to %lu\n", s,
             least, most);
    exit (2);
  }
  return n;
}

static enum faults_mode
mode_of (const char *s)
{
  for (unsigned i = 0; i < FAULTS_MODES; i++)
    if (strcmp (s, faults_modes[i]) == 0)
      return i;
  fprintf (stderr,
           "simulate: --mode: '%s' is none of gentle, durable, harsh\n", s);
  exit (2);
}

enum {
  SEED = 256,
  OPS,
  FAULTS,
  MODE,
  DONORS,
  COPIES,
  THREADS,
  PAUSE,
  NO_FAULTS,
  SCENARIO,
  DEGRADED,
  TRACE,
  TRANSFERS,
  VERBOSE
};

static bool
parse (int argc, char *argv[])
{
  static const struct option known[] = {
    { "seed", required_argument, NULL, SEED },
    { "ops", required_argument, NULL, OPS },
    { "faults", required_argument, NULL, FAULTS },
    { "mode", required_argument, NULL, MODE },
    { "donors", required_argument, NULL, DONORS },
    { "copies", required_argument, NULL, COPIES },
    { "threads", required_argument, NULL, THREADS },
    { "pause", required_argument, NULL, PAUSE },
    { "no-faults", no_argument, NULL, NO_FAULTS },
    { "scenario", required_argument, NULL, SCENARIO },
    { "degraded", no_argument, NULL, DEGRADED },
    { "trace", required_argument, NULL, TRACE },
    { "transfers", no_argument, NULL, TRANSFERS },
    { "verbose", no_argument, NULL, VERBOSE },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
  };
  static const unsigned pauses[] = { 40, 200, 1000 };
  bool verbose = false, has_mode = false, has_faults = false;
  int c;

  options.seed = 1;
  while ((c = getopt_long (argc, argv, "h", known, NULL)) != -1)
    switch (c) {
    case SEED:
      options.seed = number (optarg, 0, ULONG_MAX);
      break;
    case OPS:
      options.ops = number (optarg, 1, 1000000000);
      break;
    case FAULTS:
      options.faults = number (optarg, 0, 1000000000);
      has_faults = true;
      break;
    case MODE:
      options.mode = mode_of (optarg);
      has_mode = true;
      break;
    case DONORS:
      options.donors = (unsigned) number (optarg, 2, DONORS_MAX);
      break;
    case COPIES:
      options.copies = (unsigned) number (optarg, 1, 4);
      break;
    case THREADS:
      options.threads = (unsigned) number (optarg, 1, 8);
      break;
    case PAUSE:
      options.pause_ms = (unsigned) number (optarg, 1, 60000);
      break;
    case NO_FAULTS:
      options.no_faults = true;
      break;
    case SCENARIO:
      options.scenario = optarg;
      break;
    case DEGRADED:
      options.degraded = true;
      break;
    case TRACE:
      options.trace = optarg;
      break;
    case TRANSFERS:
      nic_traced = true;
      break;
    case VERBOSE:
      verbose = true;
      break;
    case 'h':
      usage (stdout);
      exit (0);
    default:
      usage (stderr);
      exit (2);
    }
  if (optind < argc) {
    fprintf (stderr, "simulate: unknown argument '%s'\n", argv[optind]);
    exit (2);
  }
  sim_seed (options.seed);
  /* Draw all, so that an option does not change the rest. */
  unsigned donors = 2 + sim_dice (4), copies = 1 + sim_dice (8) % 3;
  unsigned threads = 1 + sim_dice (6);
  enum faults_mode mode = sim_dice (FAULTS_MODES);
  unsigned pause = pauses[sim_dice (3)];

  options.donors = options.donors > 0 ? options.donors : donors;
  if (options.copies == 0)
    options.copies = FP_MIN (copies, options.donors);
  options.threads = options.threads > 0 ? options.threads : threads;
  options.pause_ms = options.pause_ms > 0 ? options.pause_ms : pause;
  if (!has_faults)
    options.faults = options.ops / 100;
  if (options.no_faults)
    options.faults = 0;
  if (!has_mode)
    options.mode = mode;
  scenario_check (options.donors);
  if (options.copies > options.donors) {
    fprintf (stderr, "simulate: more copies than donors\n");
    exit (2);
  }
  return verbose;
}

/* Put the options of a scenario first, so that the command line overrides
 * them.
 */
static int
with_scenario (int argc, char *argv[], char *all[ARGS])
{
  static const char option[] = "--scenario";
  int n = 1;

  all[0] = argv[0];
  for (int i = 1; i < argc; i++)
    if (strcmp (argv[i], option) == 0 && i + 1 < argc)
      n = scenario_read (argv[i + 1], 1, all, ARGS / 2);
    else if (strncmp (argv[i], "--scenario=", sizeof option) == 0)
      n = scenario_read (argv[i] + sizeof option, 1, all, ARGS / 2);
  for (int i = 1; i < argc && n < ARGS - 1; i++)
    all[n++] = argv[i];
  all[n] = NULL;
  return n;
}

int
main (int argc, char *argv[])
{
  struct rlimit files = { 65536, 65536 };
  char *all[ARGS];
  int nr = with_scenario (argc, argv, all);
  bool verbose = parse (nr, all);

  if (options.trace != NULL) {
    trace_file = fopen (options.trace, "we");
    if (trace_file == NULL) {
      perror (options.trace);
      return 2;
    }
  }
  (void) setrlimit (RLIMIT_NOFILE, &files);
  fp_transport_replace (&nic_transport);
  fp_log_set_sink (log_to_trace, NULL);
  run ();
  if (verbose)
    faults_print ();
  if (trace_file != NULL)
    fclose (trace_file);
  donors_end ();
  /* Threads of hosts that were killed are still there. */
  fflush (stdout);
  _exit (0);
}
