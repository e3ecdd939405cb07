/* SPDX-License-Identifier: BSD-3-Clause */
/* Run a command on a machine that may run out of memory.  Print once a second
 * how far it is, and detect that nothing moves any more.  Then make the kernel
 * print on its console where each task is, and end the machine.
 *
 * The watchdog must not depend on anything that may be stuck.  So there are
 * two threads.  One reads counters and prints them, for which the kernel needs
 * memory.  It may get stuck, and that is one more sign.  The other one only
 * looks at the clock and at values that the first one left.  At most it writes
 * to two files that are open already (/proc/sysrq-trigger, /dev/port), for
 * which the kernel needs no memory.  Both are locked in memory, and have a
 * higher priority than any process that serves swap.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

#define PRIORITY 50
#define STACK (64 * 1024)
/* Fewer pages than this are no progress.  The kernel's own threads, and a
 * shell that looks at the clock, take some now and then.
 */
#define PROGRESS_PAGES 64
#define STUCK_SECONDS 5
/* Port of QEMU's isa-debug-exit (lib/guest.sh).  QEMU exits with 2 n + 1. */
#define EXIT_PORT 0xf4
#define EXIT_VALUE 42

struct counters {
  uint64_t in, out, faults, major, oom_kills, stalls; /* /proc/vmstat */
  uint64_t free_kib, available_kib, writing_kib;      /* /proc/meminfo */
  uint64_t waited_us;                                 /* PSI, full, total */
  uint64_t drops; /* packets, for lack of memory */
};

/* Kept open: to open a file takes more memory than to read one. */
static int fd_vmstat, fd_meminfo, fd_psi, fd_netstat;
static int fd_sysrq = -1, fd_port = -1;
static char text[32 * 1024];

/* Left by the sampler for the other thread. */
static _Atomic uint64_t pages_moved;

static struct counters first, last;
static uint64_t min_free_kib = UINT64_MAX, max_waited_us;
static atomic_bool stopping;

static int64_t
now_ms (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static const char *
read_all (int fd)
{
  size_t have = 0;
  ssize_t n;

  while (fd != -1 && have < sizeof text - 1) {
    n = pread (fd, text + have, sizeof text - 1 - have, (off_t) have);
    if (n <= 0)
      break;
    have += (size_t) n;
  }
  text[have] = '\0';
  return text;
}

/* Return the number behind a name at the start of a line, or 0. */
static uint64_t
number_of (const char *all, const char *name)
{
  size_t n = strlen (name);
  const char *p = all;

  while (p != NULL && *p != '\0') {
    if (strncmp (p, name, n) == 0)
      return strtoull (p + n, NULL, 10);
    p = strchr (p, '\n');
    p = p == NULL ? NULL : p + 1;
  }
  return 0;
}

/* Return a number of /proc/net/netstat, or 0.  The file has a line of names
 * and one of numbers.
 */
static uint64_t
netstat_number (const char *all, const char *name)
{
  const char *names = strstr (all, "TcpExt: "), *numbers, *p;
  size_t n = strlen (name);

  numbers = names == NULL ? NULL : strstr (names + 1, "TcpExt: ");
  if (numbers == NULL)
    return 0;
  for (p = names; p < numbers && numbers != NULL; p++) {
    if (*p != ' ')
      continue;
    numbers = strchr (numbers, ' ');
    if (numbers == NULL)
      return 0;
    if (strncmp (p + 1, name, n) == 0 && (p[n + 1] == ' ' || p[n + 1] == '\n'))
      return strtoull (numbers, NULL, 10);
    numbers++;
  }
  return 0;
}

static struct counters
sample (void)
{
  struct counters c = { 0 };
  const char *s = read_all (fd_vmstat), *full;

  c.in = number_of (s, "pswpin ");
  c.out = number_of (s, "pswpout ");
  c.faults = number_of (s, "pgfault ");
  c.major = number_of (s, "pgmajfault ");
  c.oom_kills = number_of (s, "oom_kill ");
  c.stalls = number_of (s, "allocstall_normal ") +
             number_of (s, "allocstall_dma32 ") +
             number_of (s, "allocstall_movable ");
  s = read_all (fd_meminfo);
  c.free_kib = number_of (s, "MemFree:");
  c.available_kib = number_of (s, "MemAvailable:");
  c.writing_kib = number_of (s, "Writeback:");
  full = strstr (read_all (fd_psi), "full ");
  full = full == NULL ? NULL : strstr (full, "total=");
  c.waited_us = full == NULL ? 0 : strtoull (full + 6, NULL, 10);
  s = read_all (fd_netstat);
  c.drops = netstat_number (s, "PFMemallocDrop") +
            netstat_number (s, "TCPRcvQDrop") +
            netstat_number (s, "TCPBacklogDrop");
  return c;
}

static void
print_sample (const struct counters *c, int64_t ms)
{
  double s = (double) (c->waited_us - last.waited_us) / 10000.0;

  printf ("watchdog: %4" PRId64 " s: out %" PRIu64 " in %" PRIu64
          " major %" PRIu64 " free %" PRIu64 " available %" PRIu64
          " writing %" PRIu64 " MiB, waiting %.0f %%, direct reclaim %" PRIu64
          ", dropped %" PRIu64 "\n",
          ms / 1000, c->out - last.out, c->in - last.in, c->major - last.major,
          c->free_kib / 1024, c->available_kib / 1024, c->writing_kib / 1024,
          s, c->stalls - last.stalls, c->drops);
}

static void *
sampler (void *arg)
{
  int64_t start = now_ms (), next = start;

  (void) arg;
  while (!atomic_load (&stopping)) {
    struct timespec until;
    struct counters c;

    next += 1000;
    until = (struct timespec) { .tv_sec = next / 1000,
                                .tv_nsec = next % 1000 * 1000000 };
    clock_nanosleep (CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    c = sample ();
    atomic_store (&pages_moved, c.in + c.out + c.faults);
    print_sample (&c, now_ms () - start);
    if (c.free_kib < min_free_kib)
      min_free_kib = c.free_kib;
    if (c.waited_us - last.waited_us > max_waited_us)
      max_waited_us = c.waited_us - last.waited_us;
    last = c;
  }
  return NULL;
}

static int
open_or_none (const char *path, int flags)
{
  return open (path, flags | O_CLOEXEC);
}

static void
sysrq (char c)
{
  if (fd_sysrq != -1)
    (void) !write (fd_sysrq, &c, 1);
}

/* Print memory, blocked tasks, the processors' work and all tasks.  A task
 * that is still blocked some seconds later is stuck, not slow.
 */
static void
dump_and_end (void)
{
  char value = EXIT_VALUE;

  sysrq ('m');
  sysrq ('w');
  sysrq ('l');
  sysrq ('t');
  sleep (STUCK_SECONDS);
  sysrq ('w');
  if (fd_port != -1)
    (void) !pwrite (fd_port, &value, 1, EXIT_PORT);
}

/* Return the command's status.  Return -1 if nothing moved for stall_ms, or if
 * the deadline has passed.
 */
static int
watch (pid_t pid, int64_t stall_ms, int64_t deadline_ms, const char **why)
{
  int64_t start = now_ms (), since = start;
  struct timespec second = { .tv_sec = 1 };
  uint64_t seen = 0, moved;
  sigset_t chld;
  int status;

  sigemptyset (&chld);
  sigaddset (&chld, SIGCHLD);
  for (;;) {
    if (waitpid (pid, &status, WNOHANG) == pid)
      return WIFEXITED (status) ? WEXITSTATUS (status)
                                : 128 + WTERMSIG (status);
    moved = atomic_load (&pages_moved);
    if (moved - seen >= PROGRESS_PAGES) {
      seen = moved;
      since = now_ms ();
    }
    *why = now_ms () - since >= stall_ms      ? "stalled"
           : now_ms () - start >= deadline_ms ? "timeout"
                                              : NULL;
    if (*why != NULL)
      return -1;
    sigtimedwait (&chld, NULL, &second);
  }
}

static pid_t
start_command (char *argv[])
{
  pid_t pid = fork ();
  sigset_t none;

  if (pid != 0)
    return pid;
  sigemptyset (&none);
  sigprocmask (SIG_SETMASK, &none, NULL);
  execvp (argv[0], argv);
  fprintf (stderr, "watchdog: %s: %s\n", argv[0], strerror (errno));
  _exit (127);
}

static void
survive (void)
{
  struct sched_param fifo = { .sched_priority = PRIORITY };
  int fd = open_or_none ("/proc/self/oom_score_adj", O_WRONLY);

  if (fd == -1 || write (fd, "-1000", 5) != 5 ||
      mlockall (MCL_CURRENT | MCL_FUTURE) == -1 ||
      sched_setscheduler (0, SCHED_FIFO, &fifo) == -1 ||
      prctl (PR_SET_IO_FLUSHER, 1, 0, 0, 0) == -1) {
    fprintf (stderr, "watchdog: may stall itself: %s\n", strerror (errno));
    exit (2);
  }
  close (fd);
}

static int
run (char *argv[], int64_t stall_ms, int64_t deadline_ms)
{
  int64_t start = now_ms ();
  const char *why = "";
  pthread_attr_t attr;
  sigset_t chld;
  pthread_t thread;
  int status;
  pid_t pid;

  sigemptyset (&chld);
  sigaddset (&chld, SIGCHLD);
  sigprocmask (SIG_BLOCK, &chld, NULL);
  fd_vmstat = open_or_none ("/proc/vmstat", O_RDONLY);
  fd_meminfo = open_or_none ("/proc/meminfo", O_RDONLY);
  fd_psi = open_or_none ("/proc/pressure/memory", O_RDONLY);
  fd_netstat = open_or_none ("/proc/net/netstat", O_RDONLY);
  first = last = sample ();

  /* The command must not inherit the settings that keep this process alive. */
  fflush (NULL);
  pid = start_command (argv);
  if (pid == -1) {
    perror ("watchdog: fork");
    return 2;
  }
  survive ();
  pthread_attr_init (&attr);
  pthread_attr_setstacksize (&attr, STACK);
  status = pthread_create (&thread, &attr, sampler, NULL);
  if (status != 0) {
    fprintf (stderr, "watchdog: %s\n", strerror (status));
    return 2;
  }
  status = watch (pid, stall_ms, deadline_ms, &why);
  if (status == -1) {
    dump_and_end ();
    /* This is not a guest of ours that could be ended. */
    printf ("watchdog: %s\n", why);
    kill (pid, SIGKILL);
    return 3;
  }
  atomic_store (&stopping, true);
  pthread_join (thread, NULL);
  printf ("watchdog: end status=%d seconds=%.1f out=%" PRIu64 " in=%" PRIu64
          " major=%" PRIu64 " minfree=%" PRIu64 " waiting=%.0f stalls=%" PRIu64
          " oom=%" PRIu64 " dropped=%" PRIu64 "\n",
          status, (double) (now_ms () - start) / 1000, last.out - first.out,
          last.in - first.in, last.major - first.major, min_free_kib / 1024,
          (double) max_waited_us / 10000, last.stalls - first.stalls,
          last.oom_kills - first.oom_kills, last.drops - first.drops);
  return status;
}

static void
usage (FILE *fp)
{
  fprintf (fp, "Usage: watchdog [OPTION]... COMMAND [ARGUMENT]...\n"
               "\n"
               "Runs COMMAND, prints once a second what the machine's memory "
               "does, and ends with\n"
               "its status. If no page moves any more, or its time is over, "
               "and with --end, the\n"
               "kernel shows the stacks of all tasks on its console, and the "
               "guest of QEMU that\n"
               "this is ends at once with status 85. Root only.\n"
               "\n"
               "      --stall S      seconds without progress (30)\n"
               "      --deadline S   seconds for all of it (600)\n"
               "      --end          end the machine, not only COMMAND\n"
               "  -h, --help         show this text\n"
               "\n"
               "Exit status: that of COMMAND, or 2 could not run, 3 stalled "
               "or too late.\n");
}

static int64_t
parse_seconds (const char *option, const char *s)
{
  char *end;
  long n = strtol (s, &end, 10);

  if (*s < '0' || *s > '9' || *end != '\0' || n < 1 || n > 86400) {
    fprintf (stderr, "watchdog: %s '%s': want 1 to 86400\n", option, s);
    exit (2);
  }
  return (int64_t) n * 1000;
}

int
main (int argc, char *argv[])
{
  enum { OPT_STALL = 256, OPT_DEADLINE, OPT_END };
  static const struct option options[] = {
    { "stall", required_argument, NULL, OPT_STALL },
    { "deadline", required_argument, NULL, OPT_DEADLINE },
    { "end", no_argument, NULL, OPT_END },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 }
  };
  int64_t stall_ms = 30000, deadline_ms = 600000;
  int c;

  /* The command's options are its own. */
  while ((c = getopt_long (argc, argv, "+h", options, NULL)) != -1) {
    switch (c) {
    case OPT_STALL:
      stall_ms = parse_seconds ("--stall", optarg);
      break;
    case OPT_DEADLINE:
      deadline_ms = parse_seconds ("--deadline", optarg);
      break;
    case OPT_END:
      fd_sysrq = open_or_none ("/proc/sysrq-trigger", O_WRONLY);
      fd_port = open_or_none ("/dev/port", O_WRONLY);
      if (fd_sysrq == -1 || fd_port == -1) {
        perror ("watchdog: --end");
        return 2;
      }
      break;
    case 'h':
      usage (stdout);
      return 0;
    default:
      usage (stderr);
      return 2;
    }
  }
  if (optind == argc) {
    usage (stderr);
    return 2;
  }
  setvbuf (stdout, NULL, _IOLBF, 0);
  return run (argv + optind, stall_ms, deadline_ms);
}
