/* SPDX-License-Identifier: BSD-3-Clause */
/* Test a swap device: fill memory with contents that do not compress (unless
 * told), and check each byte.  Check first page by page, then at random,
 * timing the page faults.  With more memory than the machine or its cgroup
 * has, all of it passes through swap.  The exit status is 1 if a single page
 * came back different.
 */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define WORDS (PAGE / sizeof (uint64_t))
#define MIB_PAGES 256
#define QUARTER (WORDS / 4)
/* 1 TiB; keeps each size below within 64 bits. */
#define MAX_MIB (1024 * 1024)

/* The cost of the run so far.  A phase is the difference of two samples. */
struct sample {
  double seconds;
  uint64_t swap_in, swap_out; /* pages, of the whole machine */
  long major_faults;          /* by this process */
};

static struct sample
sample_now (void)
{
  struct sample s = { 0 };
  struct timespec ts;
  struct rusage usage;
  char key[64];
  uint64_t value;
  FILE *fp;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  s.seconds = (double) ts.tv_sec + (double) ts.tv_nsec * 1e-9;
  if (getrusage (RUSAGE_SELF, &usage) == 0)
    s.major_faults = usage.ru_majflt;
  fp = fopen ("/proc/vmstat", "r");
  if (fp == NULL)
    return s;
  while (fscanf (fp, "%63s %" SCNu64, key, &value) == 2) {
    if (strcmp (key, "pswpin") == 0)
      s.swap_in = value;
    else if (strcmp (key, "pswpout") == 0)
      s.swap_out = value;
  }
  fclose (fp);
  return s;
}

static double
now (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (double) ts.tv_sec + (double) ts.tv_nsec * 1e-9;
}

static long
major_faults (void)
{
  struct rusage usage;

  return getrusage (RUSAGE_SELF, &usage) == 0 ? usage.ru_majflt : 0;
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

/* Return the next word of the sequence in a page.  Its start differs for each
 * page and generation, so that a page in the wrong place, or an old one, is
 * found, too.
 */
static uint64_t
next_word (uint64_t x)
{
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}

/* words after which the sequence begins again */
static size_t period = WORDS;
/* from --seed, so that two hogs never have the same page */
static uint64_t salt;

static uint64_t
first_word (uint64_t number, uint8_t generation)
{
  return mix (salt ^ (number << 8 | generation)) | 1;
}

static void
page_fill (uint64_t *page, uint64_t number, uint8_t generation)
{
  uint64_t start = first_word (number, generation), x = start;

  for (size_t i = 0; i < WORDS; i++) {
    if (i % period == 0)
      x = start;
    x = next_word (x);
    page[i] = x;
  }
}

static bool
page_is_right (const uint64_t *page, uint64_t number, uint8_t generation)
{
  uint64_t start = first_word (number, generation), x = start;

  for (size_t i = 0; i < WORDS; i++) {
    if (i % period == 0)
      x = start;
    x = next_word (x);
    if (page[i] != x)
      return false;
  }
  return true;
}

static void
complain (uint64_t number, uint64_t bad)
{
  /* The first few say where.  Thousands more would say nothing. */
  if (bad < 10)
    printf ("page %" PRIu64 " is CORRUPT\n", number);
}

static void
print_phase (const char *name, const struct sample *from)
{
  struct sample to = sample_now ();
  double seconds = to.seconds - from->seconds;
  uint64_t in = to.swap_in - from->swap_in;
  uint64_t out = to.swap_out - from->swap_out;

  if (seconds <= 0)
    seconds = 1e-9;
  printf ("%s: %.2f s, swapped in %" PRIu64 " pages (%.0f/s), out %" PRIu64
          " (%.0f/s), major faults %ld\n",
          name, seconds, in, (double) in / seconds, out,
          (double) out / seconds, to.major_faults - from->major_faults);
}

static int
compare_double (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

static void
print_latency (const char *name, double *us, size_t n)
{
  double sum = 0;

  if (n == 0) {
    printf ("%s: no major fault\n", name);
    return;
  }
  qsort (us, n, sizeof *us, compare_double);
  for (size_t i = 0; i < n; i++)
    sum += us[i];
  printf ("%s: %zu faults, mean %.0f us, p50 %.0f, p90 %.0f, p99 %.0f, "
          "p99.9 %.0f, max %.0f\n",
          name, n, sum / (double) n, us[n / 2], us[n * 9 / 10],
          us[n * 99 / 100], us[n * 999 / 1000], us[n - 1]);
}

/* Read a page.  If that is a major fault, add its time to us[*n]. */
static void
touch (const uint64_t *page, double *us, size_t *n)
{
  long faults_before = major_faults ();
  double t = now ();

  (void) *(const volatile uint64_t *) page;
  t = now () - t;
  if (major_faults () > faults_before)
    us[(*n)++] = t * 1e6;
}

/* Touch pages at random.  Each of them is checked and rewritten, so that the
 * device sees writes between its reads.  us has room for one latency a touch.
 */
static uint64_t
touch_at_random (uint8_t *memory, uint8_t *generation, uint64_t pages,
                 uint64_t touches, uint64_t seed, double *us)
{
  struct sample start = sample_now ();
  uint64_t x = seed, bad = 0;
  size_t n = 0;

  for (uint64_t i = 0; i < touches; i++) {
    uint64_t number;
    uint64_t *page;

    x = mix (x);
    number = x % pages;
    page = (uint64_t *) (memory + number * PAGE);
    touch (page, us, &n);
    if (!page_is_right (page, number, generation[number]))
      complain (number, bad++);
    generation[number]++;
    page_fill (page, number, generation[number]);
  }
  print_phase ("random touches", &start);
  print_latency ("fault latency", us, n);
  return bad;
}

/* Check all pages, or only those that touch_at_random has written.  us is NULL
 * or has room for one latency a page.
 */
static uint64_t
verify (const uint8_t *memory, const uint8_t *generation, uint64_t pages,
        bool only_touched, const char *name, double *us)
{
  struct sample start = sample_now ();
  uint64_t bad = 0;
  size_t n = 0;

  for (uint64_t i = 0; i < pages; i++) {
    const uint64_t *page = (const uint64_t *) (memory + i * PAGE);

    if (generation[i] == 0 && only_touched)
      continue;
    if (us != NULL)
      touch (page, us, &n);
    if (!page_is_right (page, i, generation[i]))
      complain (i, bad++);
  }
  print_phase (name, &start);
  /* One page after the other: the kernel reads several for a fault. */
  if (us != NULL)
    print_latency ("latency of faults in order", us, n);
  return bad;
}

static void
fill_all (uint8_t *memory, uint64_t pages)
{
  struct sample start = sample_now ();

  for (uint64_t i = 0; i < pages; i++)
    page_fill ((uint64_t *) (memory + i * PAGE), i, 0);
  print_phase ("fill", &start);
}

static void *
map (uint64_t size)
{
  void *p = mmap (NULL, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

  if (p == MAP_FAILED) {
    fprintf (stderr, "hog: mmap of %" PRIu64 " bytes: %s\n", size,
             strerror (errno));
    exit (2);
  }
  return p;
}

static int
run (uint64_t mib, uint64_t touches, uint64_t seed, bool corrupt, bool once)
{
  uint64_t pages = mib * MIB_PAGES, bad;
  uint8_t *memory = map (pages * PAGE);
  /* Written before memory gets short, so it needs no memory later. */
  uint8_t *generation = map (pages);
  uint64_t most = touches > pages ? touches : pages;
  double *us = map ((most + 1) * sizeof *us);

  /* Have one fault for each page, or the latencies mean nothing. */
  if (madvise (memory, pages * PAGE, MADV_NOHUGEPAGE) == -1)
    fprintf (stderr, "hog: madvise: %s\n", strerror (errno));
  memset (generation, 0, pages);
  memset (us, 0, (most + 1) * sizeof *us);

  salt = mix (seed);
  fill_all (memory, pages);
  if (corrupt)
    memory[pages / 2 * PAGE + PAGE - 1] ^= 1;
  bad = verify (memory, generation, pages, false, "verify", us);
  if (touches > 0) {
    bad += touch_at_random (memory, generation, pages, touches, seed, us);
    bad += verify (memory, generation, pages, once, "verify again", NULL);
  }
  printf ("%" PRIu64 " MiB, %" PRIu64 " touches, seed %" PRIu64 ": %" PRIu64
          " bad checks, %s\n",
          mib, touches, seed, bad, bad == 0 ? "contents OK" : "CORRUPT");
  return bad == 0 ? 0 : 1;
}

static void
usage (FILE *fp)
{
  fprintf (fp, "Usage: hog [OPTION]... MIB\n"
               "\n"
               "Fills MIB MiB of memory with contents that do not compress, "
               "checks them page by\n"
               "page, then touches, checks and rewrites pages at random, "
               "timing the page faults,\n"
               "and checks all of them again.  Pages swapped in and out are "
               "the whole machine's.\n"
               "\n"
               "  -r, --random N    random touches (default 4000; 0: none)\n"
               "  -s, --seed N      seed of the contents and of the order "
               "(default 1)\n"
               "      --repeat      contents that compress: a quarter of a "
               "page, four times\n"
               "      --once        check only the touched pages again, not "
               "all\n"
               "      --corrupt     spoil one bit after the fill, to see it "
               "found\n"
               "  -h, --help        show this text\n"
               "\n"
               "Exit status: 0 contents right, 1 corruption, 2 could not "
               "run.\n");
}

/* Parse a whole decimal number up to max, or end the program. */
static uint64_t
parse_number (const char *what, const char *text, uint64_t max)
{
  unsigned long long value;
  char *end;

  errno = 0;
  value = strtoull (text, &end, 10);
  if (errno != 0 || *end != '\0' || text[0] < '0' || text[0] > '9' ||
      value > max) {
    fprintf (stderr, "hog: %s '%s': want a number up to %" PRIu64 "\n", what,
             text, max);
    exit (2);
  }
  return value;
}

int
main (int argc, char *argv[])
{
  enum { OPT_CORRUPT = 256, OPT_REPEAT, OPT_ONCE };
  static const struct option options[] = {
    { "random", required_argument, NULL, 'r' },
    { "seed", required_argument, NULL, 's' },
    { "corrupt", no_argument, NULL, OPT_CORRUPT },
    { "repeat", no_argument, NULL, OPT_REPEAT },
    { "once", no_argument, NULL, OPT_ONCE },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 }
  };
  uint64_t touches = 4000, seed = 1, mib;
  bool corrupt = false, once = false;
  int c;

  while ((c = getopt_long (argc, argv, "r:s:h", options, NULL)) != -1) {
    switch (c) {
    case 'r':
      touches = parse_number ("--random", optarg, 1000 * 1000 * 1000);
      break;
    case 's':
      seed = parse_number ("--seed", optarg, UINT64_MAX);
      break;
    case OPT_CORRUPT:
      corrupt = true;
      break;
    case OPT_REPEAT:
      period = QUARTER;
      break;
    case OPT_ONCE:
      once = true;
      break;
    case 'h':
      usage (stdout);
      return 0;
    default:
      usage (stderr);
      return 2;
    }
  }
  if (optind != argc - 1) {
    usage (stderr);
    return 2;
  }
  mib = parse_number ("MIB", argv[optind], MAX_MIB);
  if (mib == 0) {
    fprintf (stderr, "hog: MIB must not be 0\n");
    return 2;
  }
  if (sysconf (_SC_PAGESIZE) != PAGE) {
    fprintf (stderr, "hog: only for pages of %d bytes\n", PAGE);
    return 2;
  }
  /* Write line by line, so that all output before a crash is seen. */
  setvbuf (stdout, NULL, _IOLBF, 0);
  return run (mib, touches, seed, corrupt, once);
}
