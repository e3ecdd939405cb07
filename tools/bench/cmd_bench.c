/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_bench.c - farpage bench: measure every layer between a memcpy and a
 * block device, in one run.
 */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memlock.h"
#include "base/size.h"
#include "tools/bench/bench.h"
#include "tools/common/commands.h"
#include "tools/common/device.h"
#include "tools/common/progress.h"
#include "tools/common/tls_args.h"

#define DEFAULT_SIZE (256u << 20)
#define MIN_SIZE (64u << 20)
#define DEFAULT_SECONDS 1
#define DEFAULT_ROUNDS 5
#define WARM_UP_MS 50 /* per row, before the first round */

/* All layers, in the order in which they are opened and run. */
static const struct bench_layer *const layers[] = {
  &bench_memcpy,     &bench_engine_shm,  &bench_engine_tcp,
  &bench_raw_rdma,   &bench_engine_rdma, &bench_two_sided,
  &bench_nbd_memory, &bench_nbd_farpage, &bench_device,
};
#define NR_LAYERS (sizeof layers / sizeof layers[0])

static const char help[] =
    "Usage: farpage bench [OPTION]... [tls-psk=FILE]\n"
    "\n"
    "Measure each layer between a memcpy and a block device, in one run.\n"
    "\n"
    "  --server ADDR    use this memory server (default: start one here);\n"
    "                   with TLS, add tls-psk=FILE or tls-certificates=DIR\n"
    "  --layers LIST    measure only these, with commas: memcpy, engine-shm,\n"
    "                   engine-tcp, raw-rdma, engine-rdma, two-sided,\n"
    "                   nbd-memory, nbd-farpage, device\n"
    "  --device DEV     measure an attached device, too, through fio: its\n"
    "                   data is overwritten\n"
    "  --overwrite      overwrite DEV even if blkid finds data on it\n"
    "  --size SIZE      size of the volume (default 256M)\n"
    "  --seconds S      seconds per row, all rounds together (default 1)\n"
    "  --rounds N       measure everything N times; ratios are medians\n"
    "                   (default 5)\n"
    "  --json           print JSON\n"
    "  --help           show this text\n"
    "  --version        show the version\n";

enum { SERVER = 1, LAYERS, DEVICE, OVERWRITE, SIZE, SECONDS, ROUNDS, JSON };
static const struct option options[] = {
  { "server", required_argument, NULL, SERVER },
  { "layers", required_argument, NULL, LAYERS },
  { "device", required_argument, NULL, DEVICE },
  { "overwrite", no_argument, NULL, OVERWRITE },
  { "size", required_argument, NULL, SIZE },
  { "seconds", required_argument, NULL, SECONDS },
  { "rounds", required_argument, NULL, ROUNDS },
  { "json", no_argument, NULL, JSON },
  COMMON_OPTIONS,
  { NULL, 0, NULL, 0 },
};

static void
on_signal (int sig)
{
  (void) sig;
  bench_stop = 1;
}

/* Choose the layers in a list with commas.  NULL: all of them, but "device"
 * only with --device.  If a name is no layer, *bad points to it.
 */
static unsigned
choose (const struct bench *b, const char *list, struct bench_entry *entries,
        const char **bad)
{
  bool wanted[NR_LAYERS] = { false };
  unsigned nr = 0;

  *bad = NULL;
  for (const char *s = list; s != NULL;) {
    size_t len = strcspn (s, ",");
    bool known = false;

    for (size_t i = 0; i < NR_LAYERS; i++) {
      if (strlen (layers[i]->name) == len &&
          memcmp (layers[i]->name, s, len) == 0)
        known = wanted[i] = true;
    }
    if (!known) {
      *bad = s;
      return 0;
    }
    s = s[len] == ',' ? s + len + 1 : NULL;
  }
  for (size_t i = 0; i < NR_LAYERS; i++) {
    if (list == NULL ? layers[i] != &bench_device || b->device != NULL
                     : wanted[i])
      entries[nr++].layer = layers[i];
  }
  return nr;
}

/* Run one row for one round. */
static int
run_row (struct bench_entry *e, unsigned row, uint64_t ns,
         struct bench_line *line)
{
  struct bench_result result = { .latency = &line->latency };
  uint64_t before = 0, after = 0;
  bool known;
  int r;

  known = e->layer->donor_ns != NULL &&
          e->layer->donor_ns (e->state, &before) == 0;
  r = e->layer->run (e->state, &e->layer->rows[row], fp_now_ns () + ns,
                     &result, &e->error);
  if (r < 0)
    return r;
  if (known)
    known = e->layer->donor_ns (e->state, &after) == 0;
  line->ops += result.ops;
  line->donor_known = known;
  line->donor_ns += after - before;
  line->ns_per_op[line->rounds++] =
      (double) result.ns / (double) (result.ops > 0 ? result.ops : 1);
  return 0;
}

static int
run_rounds (const struct bench *b, struct bench_entry *entries, unsigned nr,
            bool json)
{
  uint64_t ns = (uint64_t) (b->seconds * 1e9 / b->rounds), rows = 0, done = 0;
  struct progress_bar bar = progress_begin ("bench");

  for (unsigned i = 0; i < nr; i++)
    if (!entries[i].skipped)
      rows += entries[i].layer->nr_rows;
  /* Round 0 is the warm-up. */
  for (unsigned round = 0; round <= b->rounds; round++) {
    for (unsigned i = 0; i < nr; i++) {
      struct bench_entry *e = &entries[i];

      for (unsigned row = 0; !e->skipped && row < e->layer->nr_rows; row++) {
        static struct bench_line warm_up;
        bool warm = round == 0;
        int r;

        progress_show (&bar, done++, rows * (b->rounds + 1),
                       "round %u of %u: %s", round, b->rounds, e->layer->name);
        memset (&warm_up, 0, sizeof warm_up);
        r = run_row (e, row, warm ? WARM_UP_MS * FP_NS_PER_MS : ns,
                     warm ? &warm_up : &e->lines[row]);
        if (bench_stop || r < 0 || (round == b->rounds && !json))
          progress_end (&bar);
        if (bench_stop)
          return say_error ("interrupted");
        if (r < 0)
          return say_error ("%s: %s", e->layer->name, e->error.text);
        if (round == b->rounds && !json)
          bench_report_line (e, row);
      }
    }
  }
  progress_end (&bar);
  return EXIT_SUCCESS;
}

/* Run one step of a layer.  *skip: the layer is left out. */
static int
take_step (struct bench *b, struct bench_entry *e,
           int (*step) (struct bench *b, const struct bench_layer *l,
                        void **state, struct fp_error *error),
           bool named, bool *skip)
{
  int r;

  *skip = false;
  bench_progress ("%s: getting ready", e->layer->name);
  r = step (b, e->layer, &e->state, &e->error);
  if (bench_stop)
    return say_error ("interrupted");
  /* A layer that was asked for by name is not skipped. */
  if (r < 0 && (r != -ENODEV || named))
    return say_error ("%s: %s", e->layer->name,
                      e->error.text[0] != '\0' ? e->error.text
                                               : strerror (-r));
  *skip = r < 0;
  return EXIT_SUCCESS;
}

/* Prepare all layers before any is opened.  The engine's probe forks, and the
 * child would inherit open objects of an RDMA device, which it cannot use.
 */
static int
open_layers (struct bench *b, struct bench_entry *entries, unsigned nr,
             bool named, bool json)
{
  int status = EXIT_SUCCESS;

  for (unsigned i = 0; status == EXIT_SUCCESS && i < nr; i++) {
    struct bench_entry *e = &entries[i];

    e->lines = calloc (e->layer->nr_rows, sizeof *e->lines);
    if (e->lines == NULL)
      return say_error ("%s", strerror (ENOMEM));
    if (e->layer->prepare != NULL)
      status = take_step (b, e, e->layer->prepare, named, &e->skipped);
  }
  for (unsigned i = 0; status == EXIT_SUCCESS && i < nr; i++) {
    struct bench_entry *e = &entries[i];

    if (!e->skipped)
      status = take_step (b, e, e->layer->open, named, &e->skipped);
    if (status == EXIT_SUCCESS && e->skipped && !json)
      bench_report_skipped (e);
  }
  return status;
}

static void
remove_dir (const char *path)
{
  DIR *dir = opendir (path);
  struct dirent *d;

  while (dir != NULL && (d = readdir (dir)) != NULL) {
    if (strcmp (d->d_name, ".") != 0 && strcmp (d->d_name, "..") != 0)
      unlinkat (dirfd (dir), d->d_name, 0);
  }
  if (dir != NULL)
    closedir (dir);
  rmdir (path);
}

static int
bench (struct bench *b, struct bench_entry *entries, unsigned nr, bool named,
       bool json)
{
  struct sigaction sa = { .sa_handler = on_signal };
  const char *tmp = getenv ("TMPDIR");
  int status;

  /* Needed to register the buffers of the engine and the raw device. */
  fp_raise_memlock ();
  /* This directory gets sockets, so its path must be short. */
  if (snprintf (b->dir, sizeof b->dir, "%s/farpage-bench-XXXXXX",
                tmp != NULL ? tmp : "/tmp") >= (int) sizeof b->dir)
    return say_error ("TMPDIR is too long for a socket");
  if (mkdtemp (b->dir) == NULL)
    return say_error ("%s: %s", b->dir, strerror (errno));
  sigaction (SIGINT, &sa, NULL);
  sigaction (SIGTERM, &sa, NULL);

  status = open_layers (b, entries, nr, named, json);
  bench_progress_end ();
  if (status == EXIT_SUCCESS && !json)
    bench_report_header ();
  if (status == EXIT_SUCCESS)
    status = run_rounds (b, entries, nr, json);
  if (status == EXIT_SUCCESS && !json)
    bench_report_ratios (entries, nr);
  if (status == EXIT_SUCCESS && json && bench_report_json (b, entries, nr) < 0)
    status = say_error ("JSON: %s", strerror (ENOMEM));

  for (unsigned i = nr; i > 0; i--) {
    if (entries[i - 1].state != NULL)
      entries[i - 1].layer->close (entries[i - 1].state);
    free (entries[i - 1].lines);
  }
  bench_end (&b->donor);
  remove_dir (b->dir);
  return status;
}

int
cmd_bench (int argc, char *argv[])
{
  static struct bench_entry entries[NR_LAYERS];
  struct bench b = {
    .size = DEFAULT_SIZE,
    .seconds = DEFAULT_SECONDS,
    .rounds = DEFAULT_ROUNDS,
  };
  const char *list = NULL, *bad, *why;
  bool json = false;
  struct fp_addr addr;
  unsigned nr;
  int c, left, status;
  long n;

  while ((c = getopt_long (argc, argv, "hV", options, NULL)) != -1) {
    char *end;

    switch (c) {
    case SERVER:
      if (fp_addr_parse (&addr, optarg, &why) < 0)
        return say_usage ("bench", "--server %s: %s", optarg, why);
      b.server = optarg;
      break;
    case LAYERS:
      list = optarg;
      break;
    case DEVICE:
      if (device_index (optarg) < 0)
        return say_usage (
            "bench", "--device %s: not a /dev/nbdX or /dev/ublkbX", optarg);
      b.device = optarg;
      break;
    case OVERWRITE:
      b.overwrite = true;
      break;
    case SIZE:
      if (fp_parse_size (optarg, &b.size, &why) < 0)
        return say_usage ("bench", "--size %s: %s", optarg, why);
      if (b.size < MIN_SIZE || b.size % (1u << 20) != 0)
        return say_usage ("bench", "--size %s: not whole MiB, or less than 64",
                          optarg);
      break;
    case SECONDS:
      b.seconds = strtod (optarg, &end);
      if (end == optarg || *end != '\0' || !(b.seconds >= 0.01) ||
          b.seconds > 3600)
        return say_usage ("bench", "--seconds %s: not from 0.01 to 3600",
                          optarg);
      break;
    case ROUNDS:
      if (!parse_number (optarg, 1, BENCH_MAX_ROUNDS, &n))
        return say_usage ("bench", "--rounds %s: not a number from 1 to %d",
                          optarg, BENCH_MAX_ROUNDS);
      b.rounds = (unsigned) n;
      break;
    case JSON:
      json = true;
      break;
    default:
      if (common_option (c, "bench", help, &status))
        return status;
    }
  }
  for (int i = optind; i < argc; i++) {
    if (!tls_args_is (argv[i]))
      return say_usage ("bench", "%s: unknown argument", argv[i]);
    if (b.nr_tls == BENCH_MAX_TLS)
      return say_usage ("bench", "%s: too many TLS parameters", argv[i]);
    b.tls[b.nr_tls++] = argv[i];
  }
  left = argc - optind;
  status = tls_args_take ("bench", &left, argv + optind);
  if (status == EXIT_SUCCESS)
    status = tls_args_use ("bench");
  if (status != EXIT_SUCCESS)
    return status;
  if (b.nr_tls > 0 && b.server == NULL)
    return say_usage ("bench", "%s needs --server", b.tls[0]);
  nr = choose (&b, list, entries, &bad);
  if (bad != NULL)
    return say_usage ("bench", "--layers: no layer '%.*s'",
                      (int) strcspn (bad, ","), bad);
  /* "device" is the last layer, if it was chosen. */
  if ((b.device != NULL) != (entries[nr - 1].layer == &bench_device))
    return say_usage ("bench", b.device != NULL
                                   ? "--device: --layers has no 'device'"
                                   : "the layer 'device' needs --device");
  if (b.overwrite && b.device == NULL)
    return say_usage ("bench", "--overwrite needs --device");
  return bench (&b, entries, nr, list != NULL, json);
}
