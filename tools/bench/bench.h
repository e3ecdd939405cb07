/* SPDX-License-Identifier: BSD-3-Clause */
/* bench.h - shared by the files of 'farpage bench'.
 *
 * A layer is one way to move bytes, for example a bare memcpy, the engine over
 * a transport, or NBD over a Unix socket.  A row is one kind of transfer by a
 * layer: read or write, a size, a queue depth.  Every round runs each row of
 * each layer once.  So a change of the machine in between (another user, a
 * hotter processor) affects all of them alike.
 *
 * Units:    nanoseconds and bytes.
 * Errors:   0, or a negative errno value and the sentence in error, which is
 *           unchanged if memory has run out, or after bench_stop.  -ENODEV:
 *           this machine lacks what the layer needs, so it is skipped.
 * Threads:  one, except those that a layer makes for itself.
 */

#ifndef FARPAGE_BENCH_H
#define FARPAGE_BENCH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/addr.h"
#include "base/error.h"
#include "base/hist.h"

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

/* The result of one round of one row. */
struct bench_result {
  uint64_t ops, ns;
  struct fp_hist *latency; /* latencies of the row, all rounds */
};

#define BENCH_MAX_TLS 4

struct bench {
  /* From the command line. */
  const char *server;       /* NULL: start our own */
  char *tls[BENCH_MAX_TLS]; /* KEY=VALUE: TLS parameters for it */
  unsigned nr_tls;
  const char *device; /* an attached device, NULL: none */
  bool overwrite;     /* even if it holds data */
  uint64_t size;      /* size of the volume */
  double seconds;     /* time per row, all rounds together */
  unsigned rounds;

  char dir[88]; /* temporary directory for sockets */
  pid_t donor;  /* our own memory server; 0: none yet */
  char donor_unix[FP_ADDR_MAX + 1];
  char donor_tcp[FP_ADDR_MAX + 1];
  char donor_rdma[FP_ADDR_MAX + 1]; /* "": no RDMA device */
};

/* Set by SIGINT and SIGTERM.  The running step ends soon, and all is undone.
 */
extern volatile sig_atomic_t bench_stop;

struct bench_layer {
  const char *name;
  const char *what;
  const struct bench_row *rows;
  unsigned nr_rows;

  /* Called before any layer is opened; open gets *state.  NULL: nothing to
   * prepare.  If it fails, the layer is not opened.
   */
  int (*prepare) (struct bench *b, const struct bench_layer *l, void **state,
                  struct fp_error *error);
  int (*open) (struct bench *b, const struct bench_layer *l, void **state,
               struct fp_error *error);
  /* Run row until deadline_ns (fp_now_ns clock) or bench_stop. */
  int (*run) (void *state, const struct bench_row *row, uint64_t deadline_ns,
              struct bench_result *out, struct fp_error *error);
  void (*close) (void *state); /* state may be only prepared */
  /* Get the processor time of the donor's process.  NULL, or -ENODATA: it is
   * not known here.
   */
  int (*donor_ns) (void *state, uint64_t *ns);
  int variant; /* for the layer: one file may make several */
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

/* Offsets for random transfers.  bench_offset returns a multiple of size, so
 * that the transfer fits in [0, span).
 */
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
  /* xorshift64*.  The division by multiplication is nearly even. */
  r->state ^= r->state >> 12;
  r->state ^= r->state << 25;
  r->state ^= r->state >> 27;
  return (uint64_t) ((unsigned __int128) (r->state *
                                          UINT64_C (2685821657736338717)) *
                         (span / size) >>
                     64) *
         size;
}

/* Map memory, page aligned, and write to all of it.  bench_unmap (NULL, ...)
 * is allowed.
 */
int bench_map (void **out, size_t size);
void bench_unmap (void *p, size_t size);

/* Return how long this thread wanted a processor and had none since it began;
 * 0 if the kernel does not say.  For layers that never sleep: the time that
 * other programs take is not part of a layer's cost.
 */
uint64_t bench_stolen_ns (void);

/* Format a size, 4096 as "4k". */
void bench_size_name (uint32_t size, char out[16]);

/* Show progress on standard error.  If that is no terminal, skip it unless two
 * seconds have passed since the last one.
 */
void bench_progress (const char *fmt, ...)
    __attribute__ ((format (printf, 1, 2)));
/* Erase the progress from a terminal. */
void bench_progress_end (void);

/* ---- bench_child.c ---- */

/* Find a program or plugin of this project: in the build tree of this program,
 * else where it was installed.  If neither is there, out gets name.
 */
void bench_find (const char *in_build_tree, const char *installed,
                 const char *name, char out[4096]);

/* Start a program with its output in dir/NAME.log.  It gets SIGTERM if this
 * process dies.
 */
int bench_spawn (struct bench *b, const char *name, char *const argv[],
                 pid_t *pid, struct fp_error *error);
/* Return 0 while the program runs.  Otherwise return -ENODEV if there is no
 * such program, or -EIO; error gets the end of its output.
 */
int bench_alive (struct bench *b, const char *name, pid_t *pid,
                 struct fp_error *error);
/* Wait until the program ends.  Return 0 if its exit status is 0, -EINTR after
 * bench_stop, or -ETIMEDOUT if it still runs after ms.  On failure return as
 * bench_alive does.
 */
int bench_wait (struct bench *b, const char *name, pid_t *pid, unsigned ms,
                struct fp_error *error);
void bench_end (pid_t *pid);
/* Get the processor time of a process, all threads. */
int bench_cpu_ns (pid_t pid, uint64_t *ns);

/* ---- bench_donor.c ---- */

/* Start our own memory server, unless it runs.  Returns when it has populated
 * all its memory, so that no row pays for that.
 */
int bench_donor_start (struct bench *b, struct fp_error *error);

/* Get an address of this machine's RDMA device.  Return false if there is
 * none.
 */
bool bench_rdma_address (char out[FP_ADDR_MAX + 1]);

/* ---- bench_report.c ---- */

/* A layer in the run. */
struct bench_entry {
  const struct bench_layer *layer;
  void *state;  /* from prepare or open */
  bool skipped; /* machine lacks what it needs */
  struct fp_error error;
  struct bench_line *lines; /* layer->nr_rows of them */
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
