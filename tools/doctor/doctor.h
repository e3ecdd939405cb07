/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor.h - what makes a set-up fail, looked for before it does: one small
 * function for each check, in the table of doctor.c.
 *
 * A new check: a function in the doctor_*.c that fits, a line in that table,
 * its id in farpage-doctor(1), and what it finds in tests/unit/test-doctor.c.
 * A check looks at files by doctor_read and the like, so that a test can show
 * it a machine of its own; and it changes nothing.
 *
 * Threads:  one.
 */

#ifndef FARPAGE_DOCTOR_H
#define FARPAGE_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

#include "tools/common/state.h"
#include "tools/common/why.h"

/* In the order of how bad it is. */
enum verdict { DOCTOR_OK, DOCTOR_UNKNOWN, DOCTOR_WARNING, DOCTOR_PROBLEM };
#define DOCTOR_VERDICTS 4
const char *doctor_verdict_name (enum verdict v);

struct finding {
  const char *id, *title; /* of the check */
  enum verdict verdict;
  char what[400];
  char remedy[400]; /* "": nothing is to be done */
};

/* A device that 'farpage attach' made, as far as it could be looked at. */
struct doctor_volume {
  struct state st;
  struct why state_why; /* "": st is known */
  bool supervised;
  struct json_object *plugin; /* its status; NULL: plugin_why */
  struct why plugin_why;
};

#define DOCTOR_FINDINGS 256

struct doctor {
  const char *root; /* before /proc, /sys, /etc and the like: "" but in tests
                     */
  const char *plugin_path;
  /* What the kernel says to 'is there NBD over netlink': 0 or -errno. */
  int (*netlink) (struct why *w);
  /* What a program prints; its exit status, or -errno. */
  int (*run) (char *out, size_t size, char *const argv[]);
  struct doctor_volume *volumes;
  unsigned nr_volumes;

  /* What was found. */
  struct finding findings[DOCTOR_FINDINGS];
  unsigned nr;
  const struct doctor_check *now;
};

struct doctor_check {
  const char *id, *title;
  void (*run) (struct doctor *d);
};

/* All checks, or the one of that id. False: there is no such check. */
bool doctor_examine (struct doctor *d, const char *only);
/* The worst of what was found. */
enum verdict doctor_worst (const struct doctor *d);

/* ---- for checks ---- */

/* One thing that was found; remedy is "" or what to do. */
void doctor_say (struct doctor *d, enum verdict v, const char *remedy,
                 const char *fmt, ...) __attribute__ ((format (printf, 4, 5)));

/* The first line of a file; the number in it; whether it is there; a line
 * 'KEY VALUE' or 'KEY: VALUE' of one, without the key.
 */
int doctor_read (const struct doctor *d, char *buf, size_t size,
                 const char *fmt, ...) __attribute__ ((format (printf, 4, 5)));
int doctor_read_number (const struct doctor *d, uint64_t *out, const char *fmt,
                        ...) __attribute__ ((format (printf, 3, 4)));
bool doctor_exists (const struct doctor *d, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));
int doctor_read_key (const struct doctor *d, char *buf, size_t size,
                     const char *path, const char *key);

/* Names in a directory, sorted, without those that begin with a dot; how
 * many, or -errno. The caller frees each and *out: doctor_free_names.
 */
int doctor_names (const struct doctor *d, char ***out, const char *path);
void doctor_free_names (char **names, int n);

/* How many processes have this name (as in /proc/PID/comm). */
unsigned doctor_processes (const struct doctor *d, const char *comm);

/* A line of /proc/swaps about this device; -ENOENT: none. others: what all
 * other areas have free, bytes.
 */
int doctor_swap_area (const struct doctor *d, int index, uint64_t *size,
                      uint64_t *used, uint64_t *others);

/* Of the status of a plugin: 0, "" or NULL if it does not say. */
struct json_object *doctor_get (struct json_object *o, const char *name);
uint64_t doctor_num (struct json_object *o, const char *name);
const char *doctor_str (struct json_object *o, const char *name);

/* ---- the checks ---- */

void doctor_kernel (struct doctor *d);
void doctor_nbd (struct doctor *d);
void doctor_nbd_devices (struct doctor *d);
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
