/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz.c - see fuzz.h. */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "fuzz.h"

static FILE *real_stderr, *no_stderr;

void
fuzz_failed (const char *file, int line, const char *what)
{
  fuzz_quiet (false);
  fprintf (stderr, "%s: %s:%d: not so: %s\n", fuzz_name, file, line, what);
  abort ();
}

uint64_t
fuzz_take (struct fuzz_input *in, unsigned bytes)
{
  uint64_t v = 0;

  for (; bytes > 0; bytes--) {
    v = v << 8 | (in->left > 0 ? *in->data : 0);
    in->data += in->left > 0;
    in->left -= in->left > 0;
  }
  return v;
}

const uint8_t *
fuzz_take_bytes (struct fuzz_input *in, size_t *n)
{
  const uint8_t *p = in->data;

  *n = FP_MIN (*n, in->left);
  in->data += *n;
  in->left -= *n;
  return p;
}

const char *
fuzz_file (const uint8_t *data, size_t size)
{
  static char path[64];
  static int fd = -1;

  if (fd < 0) {
    fd = memfd_create ("fuzz", MFD_CLOEXEC);
    snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
  }
  /* Some files are refused if all users may write them. */
  if (fd < 0 || fchmod (fd, S_IRUSR | S_IWUSR) < 0 || ftruncate (fd, 0) < 0 ||
      pwrite (fd, data, size, 0) != (ssize_t) size) {
    perror ("fuzz_file");
    exit (1);
  }
  return path;
}

#if defined __has_feature
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__
#define UNDER_ASAN 1
#endif
#ifdef UNDER_ASAN
void __asan_poison_memory_region (void const volatile *at, size_t n);
void __asan_unpoison_memory_region (void const volatile *at, size_t n);
#endif

#define FENCE 0xfe

void
fuzz_fence (uint8_t *at, size_t n)
{
  memset (at, FENCE, FUZZ_FENCE);
  (void) n;
#ifdef UNDER_ASAN
  __asan_poison_memory_region (at, n);
#endif
}

void
fuzz_unfence (uint8_t *at, size_t n)
{
  (void) n;
#ifdef UNDER_ASAN
  __asan_unpoison_memory_region (at, n);
#endif
  for (unsigned i = 0; i < FUZZ_FENCE; i++)
    FUZZ_CHECK (at[i] == FENCE);
}

void
fuzz_quiet (bool quiet)
{
  if (!no_stderr) {
    real_stderr = stderr;
    no_stderr = fopen ("/dev/null", "we");
  }
  if (no_stderr)
    stderr = quiet ? no_stderr : real_stderr;
}

unsigned
fuzz_open_fds (void)
{
  unsigned n = 0;

  for (int fd = 0; fd < 256; fd++)
    n += fcntl (fd, F_GETFD) >= 0;
  return n;
}

#ifdef FUZZING

int LLVMFuzzerInitialize (int *argc, char ***argv);

/* FUZZ_SEEDS=DIRECTORY fuzz-NAME: write the seeds there, for libFuzzer. */
int
LLVMFuzzerInitialize (int *argc, char ***argv)
{
  static uint8_t seed[FUZZ_MAX];
  const char *dir = getenv ("FUZZ_SEEDS");
  char path[4096];
  size_t n;

  (void) argc;
  (void) argv;
  if (!dir)
    return 0;
  for (unsigned i = 0; (n = fuzz_seed (i, seed)) > 0; i++) {
    FILE *fp;

    snprintf (path, sizeof path, "%s/seed-%03u", dir, i);
    fp = fopen (path, "we");
    if (!fp || fwrite (seed, 1, n, fp) != n || fclose (fp) != 0) {
      perror (path);
      exit (1);
    }
  }
  exit (0);
}

#else

#define MAX_INPUTS 512u
#define MAX_MS 3000 /* limit for the mutations on a slow machine */

static struct input {
  uint8_t *data;
  size_t size;
} inputs[MAX_INPUTS];
static unsigned nr_inputs;

/* Return real time: some targets replace base/clock.h. */
static uint64_t
real_ms (void)
{
  struct timespec ts;

  FUZZ_CHECK (clock_gettime (CLOCK_MONOTONIC, &ts) == 0);
  return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / 1000000;
}

static uint64_t
dice (uint64_t n)
{
  static uint64_t x = UINT64_C (0x66617270616765);

  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x % n;
}

static void
add (const uint8_t *data, size_t size)
{
  struct input *in = &inputs[nr_inputs];

  if (nr_inputs == MAX_INPUTS)
    return;
  in->data = malloc (size > 0 ? size : 1);
  if (!in->data) {
    perror ("malloc");
    exit (1);
  }
  memcpy (in->data, data, size);
  in->size = size;
  nr_inputs++;
}

static void
add_file (const char *path)
{
  static uint8_t bytes[FUZZ_MAX];
  FILE *fp = fopen (path, "re");

  if (!fp) {
    perror (path);
    exit (1);
  }
  add (bytes, fread (bytes, 1, sizeof bytes, fp));
  fclose (fp);
}

static int
is_name (const struct dirent *e)
{
  return e->d_name[0] != '.';
}

/* Add files in the order of their names: the same everywhere. */
static void
add_corpus (const char *dir)
{
  struct dirent **names;
  char path[4096];
  int n = scandir (dir, &names, is_name, alphasort);

  for (int i = 0; i < n; i++) {
    if (snprintf (path, sizeof path, "%s/%s", dir, names[i]->d_name) <
        (int) sizeof path)
      add_file (path);
    free (names[i]);
  }
  if (n >= 0)
    free (names);
}

static void
put_number (uint8_t *at, size_t room)
{
  static const uint64_t numbers[] = {
    0,          1,         2,          63,
    64,         65,        4095,       4096,
    65535,      65536,     1u << 20,   INT32_MAX,
    UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 4095,
  };
  uint64_t v =
      numbers[dice (sizeof numbers / sizeof numbers[0])] + dice (3) - 1;
  unsigned width = 1u << dice (4);

  for (unsigned i = 0; i < width && i < room; i++)
    at[i] = (uint8_t) (v >> (8 * (width - 1 - i)));
}

/* Make one change.  Return the new size. */
static size_t
mutate (uint8_t *p, size_t size)
{
  const struct input *other = &inputs[dice (nr_inputs)];
  size_t at = size > 0 ? (size_t) dice (size) : 0, n;

  switch (dice (7)) {
  case 0:
    if (size > 0)
      p[at] ^= (uint8_t) (1u << dice (8));
    return size;
  case 1:
    if (size > 0)
      p[at] = (uint8_t) dice (256);
    return size;
  case 2:
    put_number (p + at, size - at);
    return size;
  case 3: /* remove some bytes */
    n = size > at ? 1 + (size_t) dice (FP_MIN (size - at, (size_t) 64)) : 0;
    memmove (p + at, p + at + n, size - at - n);
    return size - n;
  case 4: /* repeat some bytes */
    n = FP_MIN (1 + (size_t) dice (64), size - at);
    n = FP_MIN (n, FUZZ_MAX - size);
    memmove (p + at + n, p + at, size - at);
    return size + n;
  case 5:
    return at;
  default: /* continue as another input */
    n = other->size > 0 ? (size_t) dice (other->size) : 0;
    n = FP_MIN (other->size - n, FUZZ_MAX - at);
    memcpy (p + at, other->data + other->size - n, n);
    return at + n;
  }
}

/* Run an exact copy, so that a sanitizer sees a read beyond its end. */
static void
run (const uint8_t *data, size_t size)
{
  uint8_t *copy = malloc (size > 0 ? size : 1);

  if (!copy) {
    perror ("malloc");
    exit (1);
  }
  memcpy (copy, data, size);
  (void) LLVMFuzzerTestOneInput (copy, size);
  free (copy);
}

int
main (int argc, char *argv[])
{
  static uint8_t bytes[FUZZ_MAX];
  const char *top = getenv ("top_srcdir"), *runs = getenv ("FUZZ_RUNS");
  unsigned done = 0, wanted = fuzz_runs;
  uint64_t deadline;
  char path[4096];
  size_t n;

  if (argc > 1) { /* only these, once each */
    for (int i = 1; i < argc; i++)
      add_file (argv[i]);
    for (unsigned i = 0; i < nr_inputs; i++)
      run (inputs[i].data, inputs[i].size);
    return 0;
  }
  for (unsigned i = 0; (n = fuzz_seed (i, bytes)) > 0; i++)
    add (bytes, n);
  snprintf (path, sizeof path, "%s/tests/fuzz/corpus/%s", top ? top : ".",
            fuzz_name);
  add_corpus (path);
  for (unsigned i = 0; i < nr_inputs; i++)
    run (inputs[i].data, inputs[i].size);

  deadline = real_ms () + MAX_MS;
  if (runs) {
    wanted = (unsigned) strtoul (runs, NULL, 10);
    deadline = UINT64_MAX;
  }
  while (done < wanted && real_ms () < deadline) {
    const struct input *in = &inputs[dice (nr_inputs)];

    memcpy (bytes, in->data, in->size);
    n = in->size;
    for (uint64_t i = 1 + dice (6); i > 0; i--)
      n = mutate (bytes, n);
    run (bytes, n);
    done++;
  }
  fuzz_quiet (false);
  printf ("%s: %u inputs, %u mutations\n", fuzz_name, nr_inputs, done);
  for (unsigned i = 0; i < nr_inputs; i++)
    free (inputs[i].data);
  return 0;
}

#endif
