/* SPDX-License-Identifier: BSD-3-Clause */
/* Load on a machine that swaps, beside tests/vm/hog.c: processes that come and
 * go, files that are written and read, mapped files and locked memory.  All
 * data that is read is checked.  It runs until SIGTERM, and then prints how
 * far it came.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define WORDS (PAGE / sizeof (uint64_t))
#define MIB (1024 * 1024)

static volatile sig_atomic_t stop_wanted;

static void
on_stop (int sig)
{
  (void) sig;
  stop_wanted = 1;
}

/* splitmix64: a number without a pattern for each input. */
static uint64_t
mix (uint64_t x)
{
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/* Fill a page.  is_right looks only at a few of its words. */
static void
fill (uint64_t *page, uint64_t number)
{
  uint64_t x = mix (number);

  for (size_t i = 0; i < WORDS; i++)
    page[i] = x + i;
}

static bool
is_right (const uint64_t *page, uint64_t number)
{
  uint64_t x = mix (number);

  return page[0] == x && page[WORDS / 2] == x + WORDS / 2 &&
         page[WORDS - 1] == x + WORDS - 1;
}

static void
die (const char *what)
{
  fprintf (stderr, "load: %s: %s\n", what, strerror (errno));
  exit (2);
}

static uint64_t *
map (size_t size, int flags, int fd)
{
  void *p = mmap (NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

  if (p == MAP_FAILED)
    die ("mmap");
  return p;
}

static int
done (const char *what, uint64_t rounds, uint64_t bad)
{
  printf ("load: %s: %" PRIu64 " rounds, %" PRIu64 " bad, %s\n", what, rounds,
          bad, bad == 0 ? "contents OK" : "CORRUPT");
  return bad == 0 ? 0 : 1;
}

/* ---- storm: at most n processes at once, with mib MiB each ---- */

static int
short_life (uint64_t number, size_t mib)
{
  size_t pages = mib * MIB / PAGE;
  uint64_t *p = map (pages * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

  for (size_t i = 0; i < pages && !stop_wanted; i++)
    fill (p + i * WORDS, number << 32 | i);
  for (size_t i = 0; i < pages && !stop_wanted; i++)
    if (!is_right (p + i * WORDS, number << 32 | i))
      return 1;
  return 0;
}

static int
storm (unsigned at_once, size_t mib)
{
  uint64_t rounds = 0, bad = 0, killed = 0;
  unsigned running = 0;
  int status;

  while (!stop_wanted || running > 0) {
    while (!stop_wanted && running < at_once) {
      pid_t pid = fork ();

      if (pid == 0)
        _exit (short_life (rounds, mib));
      if (pid == -1)
        die ("fork");
      running++;
      rounds++;
    }
    if (stop_wanted)
      kill (0, SIGTERM);
    if (wait (&status) == -1)
      continue; /* a signal */
    running--;
    killed += !stop_wanted && WIFSIGNALED (status);
    bad += WIFEXITED (status) && WEXITSTATUS (status) != 0;
  }
  if (killed > 0)
    printf ("load: storm: %" PRIu64 " were killed\n", killed);
  return done ("storm", rounds, bad);
}

/* ---- cache: write a file and read it, again and again ---- */

static int
cache (const char *path, size_t mib)
{
  static uint64_t page[WORDS];
  size_t pages = mib * MIB / PAGE;
  uint64_t rounds = 0, bad = 0;
  int fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

  if (fd == -1)
    die (path);
  for (; !stop_wanted; rounds++) {
    for (size_t i = 0; i < pages && !stop_wanted; i++) {
      fill (page, rounds << 32 | i);
      if (pwrite (fd, page, PAGE, (off_t) (i * PAGE)) != PAGE)
        die ("write");
    }
    for (size_t i = 0; i < pages && !stop_wanted; i++) {
      if (pread (fd, page, PAGE, (off_t) (i * PAGE)) != PAGE)
        die ("read");
      bad += !is_right (page, rounds << 32 | i) && !stop_wanted;
    }
  }
  close (fd);
  return done ("cache", rounds, bad);
}

/* ---- mmap: random pages of a shared file, beside locked memory ---- */

static int
mapped (const char *path, size_t mib, size_t locked_mib)
{
  size_t pages = mib * MIB / PAGE, locked = locked_mib * MIB / PAGE;
  uint64_t rounds = 0, bad = 0, x = 1, *p, *l;
  int fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

  if (fd == -1 || ftruncate (fd, (off_t) (pages * PAGE)) == -1)
    die (path);
  p = map (pages * PAGE, MAP_SHARED, fd);
  l = map (locked * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (mlock (l, locked * PAGE) == -1)
    die ("mlock");
  for (size_t i = 0; i < locked; i++)
    fill (l + i * WORDS, i);
  for (size_t i = 0; i < pages && !stop_wanted; i++)
    fill (p + i * WORDS, i);
  for (; !stop_wanted; rounds++) {
    size_t i = (x = mix (x)) % pages, k = x % locked;

    bad += !is_right (p + i * WORDS, i);
    bad += !is_right (l + k * WORDS, k);
    fill (p + i * WORDS, i);
  }
  close (fd);
  return done ("mmap", rounds, bad);
}

static void
usage (FILE *fp)
{
  fprintf (fp,
           "Usage: load storm N MIB          N processes at a time, each of "
           "MIB MiB\n"
           "       load cache FILE MIB       writes and reads a file\n"
           "       load mmap FILE MIB LOCK   the pages of a mapped file, and "
           "LOCK MiB locked\n"
           "\n"
           "Until SIGTERM. Exit status: 0 contents right, 1 corruption, 2 "
           "could not run.\n");
}

static size_t
number (const char *s)
{
  char *end;
  unsigned long n = strtoul (s, &end, 10);

  if (*s < '0' || *s > '9' || *end != '\0' || n < 1 || n > 65536) {
    fprintf (stderr, "load: '%s': want 1 to 65536\n", s);
    exit (2);
  }
  return n;
}

int
main (int argc, char *argv[])
{
  struct sigaction stop = { .sa_handler = on_stop };

  sigaction (SIGTERM, &stop, NULL);
  if (argc == 4 && !strcmp (argv[1], "storm")) {
    setpgid (0, 0);
    return storm ((unsigned) number (argv[2]), number (argv[3]));
  }
  if (argc == 4 && !strcmp (argv[1], "cache"))
    return cache (argv[2], number (argv[3]));
  if (argc == 5 && !strcmp (argv[1], "mmap"))
    return mapped (argv[2], number (argv[3]), number (argv[4]));
  if (argc == 2 && !strcmp (argv[1], "--help")) {
    usage (stdout);
    return 0;
  }
  usage (stderr);
  return 2;
}
