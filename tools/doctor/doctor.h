/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor.h - find what makes a set-up fail before it does. Each check is one
 * small function in the table of doctor_checks.c.
 *
 * To add a check, write a function in the doctor_*.c that fits, and a line in
 * that table. Add its id to farpage-doctor(8) and its findings to
 * tests/unit/test-doctor.c. A check reads files with doctor_read and the like,
 * so that a test can give it a machine of its own. A check changes nothing.
 *
 * Threads:  one.
 */

#ifndef FARPAGE_DOCTOR_H
#define FARPAGE_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tools/common/plugin_status.h"
#include "tools/common/state.h"

/* From best to worst. */
enum verdict { DOCTOR_OK, DOCTOR_UNKNOWN, DOCTOR_WARNING, DOCTOR_PROBLEM };
#define DOCTOR_VERDICTS 4
const char *doctor_verdict_name (enum verdict v);

struct finding {
  const char *id, *title; /* from the check */
  enum verdict verdict;
  char what[400];
  char remedy[400]; /* "": nothing to do */
};

/* A device that 'farpage attach' made, as far as it can be examined. */
struct doctor_volume {
  struct state st;
  struct fp_error state_error; /* "": st is valid */
  bool supervised;
  struct fp_status_doc *plugin; /* the status; NULL: see plugin_error */
  struct fp_error plugin_error;
};

#define DOCTOR_FINDINGS 256

struct doctor {
  /* Put before /proc, /sys, /etc and the like; "" except in tests. */
  const char *root;
  const char *plugin_path;
  /* Ask the kernel for NBD over netlink. Return 0 or -errno. */
  int (*netlink) (struct fp_error *error);
  /* Run a program and get its output. Return its exit status, or -errno. */
  int (*run) (char *out, size_t size, char *const argv[]);
  struct doctor_volume *volumes;
  unsigned nr_volumes;

  /* Results. */
  struct finding findings[DOCTOR_FINDINGS];
  unsigned nr;
  const struct doctor_check *now;
};

struct doctor_check {
  const char *id, *title;
  void (*run) (struct doctor *d);
};

/* Run all checks, or the one with this id. Return false if there is none. */
bool doctor_examine (struct doctor *d, const char *only);
/* Return the worst verdict so far. */
enum verdict doctor_worst (const struct doctor *d);

/* ---- for checks ---- */

/* Add a finding; remedy is "" or what to do. */
void doctor_say (struct doctor *d, enum verdict v, const char *remedy,
                 const char *fmt, ...) __attribute__ ((format (printf, 4, 5)));

/* doctor_read gets the first line of a file, doctor_read_number the number in
 * it. doctor_exists returns true if a file is there. doctor_read_key gets the
 * value of a line 'KEY VALUE' or 'KEY: VALUE'.
 */
int doctor_read (const struct doctor *d, char *buf, size_t size,
                 const char *fmt, ...) __attribute__ ((format (printf, 4, 5)));
int doctor_read_number (const struct doctor *d, uint64_t *out, const char *fmt,
                        ...) __attribute__ ((format (printf, 3, 4)));
bool doctor_exists (const struct doctor *d, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));
int doctor_read_key (const struct doctor *d, char *buf, size_t size,
                     const char *path, const char *key);

/* Get the names in a directory, sorted, without those that begin with a dot.
 * Return how many there are, or -errno. doctor_free_names frees them.
 */
int doctor_names (const struct doctor *d, char ***out, const char *path);
void doctor_free_names (char **names, int n);

/* Return how many processes have this name (as in /proc/PID/comm). */
unsigned doctor_processes (const struct doctor *d, const char *comm);

/* Get the line of /proc/swaps about this device; -ENOENT if there is none.
 * others: free bytes of all other areas together.
 */
int doctor_swap_area (const struct doctor *d, int index, uint64_t *size,
                      uint64_t *used, uint64_t *others);

/* ---- the checks ---- */

void doctor_kernel (struct doctor *d);
void doctor_nbd (struct doctor *d);
void doctor_nbd_devices (struct doctor *d);
void doctor_ublk (struct doctor *d);
void doctor_clock (struct doctor *d);
void doctor_rdma_device (struct doctor *d);
void doctor_rdma_user (struct doctor *d);
void doctor_rdma_gid (struct doctor *d);
void doctor_rdma_mtu (struct doctor *d);
void doctor_memlock (struct doctor *d);
void doctor_memlock_units (struct doctor *d);
void doctor_hugepages (struct doctor *d);
void doctor_page_cluster (struct doctor *d);
void doctor_zswap (struct doctor *d);
void doctor_nbdkit (struct doctor *d);
void doctor_plugin (struct doctor *d);
void doctor_tools (struct doctor *d);
void doctor_volumes (struct doctor *d);
void doctor_timeouts (struct doctor *d);
void doctor_swap (struct doctor *d);
void doctor_swap_room (struct doctor *d);
void doctor_kill_order (struct doctor *d);

#endif /* FARPAGE_DOCTOR_H */
