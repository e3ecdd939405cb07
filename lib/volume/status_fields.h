/* SPDX-License-Identifier: BSD-3-Clause */
/* status_fields.h - the status document: the status of a plugin, its volume
 * and its servers.  Each field is one row of a table, with its name in JSON
 * and its metric, if any.  status_json.h walks the tables to write and read
 * JSON, and front/metrics.c to write metrics.  The farpage command reads the
 * JSON into the same struct.  Members without a name in JSON are 0 there.
 *
 * nbdkit-farpage-plugin(1) documents the fields.  Increase FP_STATUS_VERSION
 * if a field goes or changes its meaning, or a value of an ENUM gets a new
 * name. A new field keeps the version.
 *
 * Units:    as in volume_status.h.  A metric has the unit of its name.
 * Threads:  the tables are constant.
 * Memory:   no allocation.
 */

#ifndef FP_STATUS_FIELDS_H
#define FP_STATUS_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "volume/volume.h"

#define FP_STATUS_VERSION 2
#define FP_MAX_CHANGES 8 /* pending changes */

/* A change that was requested and is not done yet. */
struct fp_change {
  char what[16];              /* word of the request */
  char addr[FP_ADDR_MAX + 1]; /* or "" */
  uint64_t ns;                /* time since the request */
};

struct fp_status_doc {
  unsigned version; /* FP_STATUS_VERSION */
  uint64_t pid;
  bool io_flusher; /* has PR_SET_IO_FLUSHER */
  bool realtime;   /* threads that I/O waits for have real-time priority */
  uint64_t locked_bytes;
  struct fp_volume_status volume;
  unsigned nr_servers; /* those that exist: none is gone */
  struct fp_server_status servers[FP_MAX_SERVERS];
  unsigned nr_changes;
  struct fp_change changes[FP_MAX_CHANGES];
};

enum fp_field_type {
  FP_FIELD_END,    /* not a field: the end of a table */
  FP_FIELD_NUMBER, /* uint64_t or unsigned */
  FP_FIELD_BOOL,
  FP_FIELD_ENUM, /* a number with a name for each value */
  FP_FIELD_TEXT, /* a char array that ends with a NUL */
  FP_FIELD_UUID,
  FP_FIELD_TABLE, /* a struct with fields of its own */
  FP_FIELD_LIST,  /* an array of such structs, or of uint64_t */
};

struct fp_field {
  enum fp_field_type type;
  const char *key; /* in JSON; NULL: only in the metrics */
  size_t offset;   /* in the struct that has the field */
  size_t size;     /* bytes of the field; LIST: of the whole array */

  /* ENUM: the names.  A value without a name has NULL, and is "" in JSON. */
  const char *const *names;
  unsigned nr_names;

  /* TABLE and LIST: fields of the struct, or of each element.  NULL: a list of
   * uint64_t.
   */
  const struct fp_field *fields;
  bool optional; /* TABLE: null in JSON if its first field is 0 or false */
  size_t each;   /* LIST: bytes of an element */
  size_t count;  /* LIST: offset of the unsigned that counts them */

  /* Metric with its help text, or NULL.  The names of counters end with
   * "_total".  Rows with the same metric are neighbours, and differ in the
   * value of the label.  An ENUM has one sample for each name of a value, with
   * that name as the value of the label.
   */
  const char *metric, *help;
  const char *label, *value;
};

/* The fields of struct fp_status_doc and of struct fp_check_status. */
extern const struct fp_field fp_status_fields[];
extern const struct fp_field fp_check_fields[];

/* Return the value of f, a NUMBER, BOOL or ENUM, in the struct at `of`. */
uint64_t fp_field_number (const struct fp_field *f, const void *of);

/* Return the name of a state. */
const char *fp_server_state_name (enum fp_server_state s);
const char *fp_drain_state_name (enum fp_drain_state s);
const char *fp_check_state_name (enum fp_check_state s);

#endif /* FP_STATUS_FIELDS_H */
