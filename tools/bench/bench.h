/* SPDX-License-Identifier: BSD-3-Clause */
/* bench.h - what the files of 'farpage bench' know of each other.
 *
 * A layer is one way to move bytes: a bare memcpy, the engine over a
 * transport, NBD over a Unix socket, ...  A row is one kind of transfer by a
 * layer: read or write, a size, a queue depth.  Every round runs each row of
 * each layer once, so that what changes on the machine meanwhile (another
 * user, a hotter processor) changes all of them alike.
 *
 * Units:    nanoseconds and bytes.
 * Errors:   0 or a negative errno value, and a sentence in why; -ENODEV: this
 *           machine has not what the layer needs, so it is skipped.
 * Threads:  one, but for what a layer makes for itself.
 */

#ifndef FARPAGE_BENCH_H
#define FARPAGE_BENCH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hist.h"
#include "volume/volume.h"

#define BENCH_MAX_ROUNDS 99
#define BENCH_MAX_DEPTH 32
#define BENCH_MAX_SIZE (128u << 10) /* bytes in one transfer */

enum bench_op { BENCH_READ, BENCH_WRITE, BENCH_CAS };
const char *bench_op_name (enum bench_op op);

struct bench_row {
  enum bench_op op;
  uint32_t size;
  unsigned depth;
};

/* What one round of one row gave. */
struct bench_result {
  uint64_t ops, ns;
  struct fp_hist *latency; /* of the row, all rounds */
};

#define BENCH_MAX_TLS 4

struct bench {
  /* From the command line. */
  const char *server;       /* NULL: our own */
  char *tls[BENCH_MAX_TLS]; /* KEY=VALUE: how it is connected to */
  unsigned nr_tls;
  const char *device; /* an attached /dev/nbdX, NULL: none */
  bool overwrite;     /* also if it holds data */
  uint64_t size;      /* of the volume */
  double seconds;     /* for each row, all rounds together */
  unsigned rounds;

  char dir[88]; /* temporary, for sockets */
  pid_t donor;  /* our own memory server, 0: none yet */
  char donor_unix[FP_ADDR_MAX + 1];
  char donor_tcp[FP_ADDR_MAX + 1];
  char donor_rdma[FP_ADDR_MAX + 1]; /* "": no device */
};

/* Set by SIGINT and SIGTERM: what runs ends soon, and is undone. */
extern volatile sig_atomic_t bench_stop;

struct bench_layer {
  const char *name;
  const char *what;
  const struct bench_row *rows;
  unsigned nr_rows;

  /* What has to be done before any layer is opened; *state is what open gets.
   * NULL: nothing.  A layer that fails here is not opened.
   */
  int (*prepare) (struct bench *b, const struct bench_layer *l, void **state,
                  char why[FP_WHY_MAX]);
  int (*open) (struct bench *b, const struct bench_layer *l, void **state,
               char why[FP_WHY_MAX]);
  /* Run row until deadline_ns (fp_now_ns clock) or bench_stop. */
  int (*run) (void *state, const struct bench_row *row, uint64_t deadline_ns,
              struct bench_result *out, char why[FP_WHY_MAX]);
  void (*close) (void *state); /* also of what was only prepared */
  /* The processor time of the donor's process; NULL, or -ENODATA: nobody
   * knows it here.
   */
  int (*donor_ns) (void *state, uint64_t *ns);
  int variant; /* the layer's own: one file may make several */
};

/* 4 KiB at depth 1 and 32, 128 KiB at depth 8; read and write. */
extern const struct bench_row bench_rows[];
#define BENCH_NR_ROWS 6

extern const struct bench_layer bench_memcpy;
extern const struct bench_layer bench_engine_shm;
extern const struct bench_layer bench_engine_tcp;
extern const struct bench_layer bench_engine_rdma;
extern const struct bench_layer bench_raw_rdma;
extern const struct bench_layer bench_two_sided;
extern const struct bench_layer bench_nbd_memory;
extern const struct bench_layer bench_nbd_farpage;
extern const struct bench_layer bench_device;

/* ---- bench_util.c ---- */

/* Where random transfers go: a place for one of these in [0, span). */
struct bench_random {
  uint64_t state;
};
#define BENCH_RANDOM_INIT                                                     \
  {                                                                           \
    UINT64_C (0x9e3779b97f4a7c15)                                             \
  }

static inline uint64_t
bench_offset (struct bench_random *r, uint64_t span, uint32_t size)
{
  /* xorshift64*; the division by multiplication is nearly even. */
  r->state ^= r->state >> 12;
  r->state ^= r->state << 25;
  r->state ^= r->state >> 27;
  return (uint64_t) ((unsigned __int128) (r->state *
                                          UINT64_C (2685821657736338717)) *
                         (span / size) >>
                     64) *
         size;
}

/* Page aligned, written to; bench_unmap (NULL, ...) is allowed. */
int bench_map (void **out, size_t size);
void bench_unmap (void *p, size_t size);

/* How long this thread wanted a processor and had none, since it began; 0
 * where the kernel does not say.  For layers that never sleep: what other
 * programs take away is no part of what the layer costs.
 */
uint64_t bench_stolen_ns (void);

/* 4096 as "4k". */
void bench_size_name (uint32_t size, char out[16]);

/* Progress, on standard error, if that is a terminal or the last one was
 * over two seconds ago.
 */
void bench_progress (const char *fmt, ...)
    __attribute__ ((format (printf, 1, 2)));
/* Nothing is left of it on a terminal. */
void bench_progress_end (void);

/* ---- bench_child.c ---- */

/* The path of a program or plugin of this project: in the build tree that
 * this program is in, else where it was installed; else name itself.
 */
void bench_find (const char *in_build_tree, const char *installed,
                 const char *name, char out[4096]);

/* Its output goes to dir/NAME.log.  It gets SIGTERM if this process dies. */
int bench_spawn (struct bench *b, const char *name, char *const argv[],
                 pid_t *pid, char why[FP_WHY_MAX]);
/* 0 as long as it runs; else -ENODEV if there is no such program, -EIO, and
 * why gets the end of what it said.
 */
int bench_alive (struct bench *b, const char *name, pid_t *pid,
                 char why[FP_WHY_MAX]);
/* Until it ends: 0 if it said it went well, else as bench_alive; -EINTR
 * after bench_stop, -ETIMEDOUT after ms, and it still runs.
 */
int bench_wait (struct bench *b, const char *name, pid_t *pid, unsigned ms,
                char why[FP_WHY_MAX]);
void bench_end (pid_t *pid);
/* Processor time of a process, all threads. */
int bench_cpu_ns (pid_t pid, uint64_t *ns);

/* ---- bench_donor.c ---- */

/* Our own memory server, started when it is first asked for; it has
 * populated all its memory when this returns, so that no row is charged with
 * that.
 */
int bench_donor_start (struct bench *b, char why[FP_WHY_MAX]);

/* The address of this machine that an RDMA device has; false: none. */
bool bench_rdma_address (char out[FP_ADDR_MAX + 1]);

/* ---- bench_report.c ---- */

/* A layer in the run. */
struct bench_entry {
  const struct bench_layer *layer;
  void *state;  /* what the layer made */
  bool skipped; /* this machine has not what it needs */
  char why[FP_WHY_MAX];
  struct bench_line *lines; /* layer->nr_rows */
};

struct bench_line {
  unsigned rounds;
  double ns_per_op[BENCH_MAX_ROUNDS];
  struct fp_hist latency;
  uint64_t ops;
  bool donor_known;
  uint64_t donor_ns;
};

void bench_report_header (void);
void bench_report_line (const struct bench_entry *e, unsigned row);
void bench_report_skipped (const struct bench_entry *e);
void bench_report_ratios (const struct bench_entry *entries, unsigned nr);
int bench_report_json (const struct bench *b,
                       const struct bench_entry *entries, unsigned nr);

#endif /* FARPAGE_BENCH_H */
