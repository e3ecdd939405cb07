/* SPDX-License-Identifier: BSD-3-Clause */
/* params.h - the parameters of the plugin: parse, defaults, cross-checks.
 * Knows no nbdkit, so that it can be tested without one.  (Not config.h:
 * that is what configure writes.)
 *
 * Units:    sizes are bytes, times as their names say.
 * Errors:   0 or a negative errno value; why then has one sentence for
 *           people that names the parameter.
 * Threads:  one, before anything is started.
 */

#ifndef FP_PARAMS_H
#define FP_PARAMS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "transport/tls.h"
#include "volume/volume.h"

#define FP_TIMEOUT_MIN_MS 50
#define FP_TIMEOUT_MAX_MS 600000
#define FP_POLL_MAX_US 10000
#define FP_SLAB_MIN 65536
#define FP_MEMBERS_PATH_MAX 256
#define FP_ENCRYPT_PATH_MAX 1024

struct fp_params {
  struct fp_volume_params volume;
  bool swap;  /* swap=BOOL */
  bool mlock; /* mlock=BOOL */
  bool keep;  /* keep=BOOL */
  struct fp_tls_params tls;
  /* status=PATH, absolute; "": none. */
  char status[sizeof ((struct sockaddr_un *) 0)->sun_path];

  bool has_metrics; /* metrics=ADDR; the path of a socket is absolute */
  struct fp_addr metrics;

  /* members=PATH, absolute; "": none. */
  char members[FP_MEMBERS_PATH_MAX];

  /* encrypt=FILE, absolute; its key is read by who starts the volume. */
  char encrypt_file[FP_ENCRYPT_PATH_MAX];

  /* Which of the table in params.c were given; by the pool's file only. */
  uint64_t seen, of_pool;
  bool in_pool; /* while that is read */
};

void fp_params_init (struct fp_params *p);

/* One key=value.  -EINVAL. */
int fp_params_set (struct fp_params *p, const char *key, const char *value,
                   char why[FP_WHY_MAX]);

/* ADDR[,domain=NAME], of parameter key.  -EINVAL. */
int fp_params_server (struct fp_addr *addr, char domain[FP_NAME_MAX + 1],
                      const char *key, const char *value,
                      char why[FP_WHY_MAX]);

/* After the last one: what is missing, what contradicts, what follows from
 * the rest.  -EINVAL.
 */
int fp_params_complete (struct fp_params *p, char why[FP_WHY_MAX]);

#endif /* FP_PARAMS_H */
