/* SPDX-License-Identifier: BSD-3-Clause */
/* params.h - the parameters of the plugin: parsing, defaults, cross-checks.
 * Reads the keys, too.  Does not depend on nbdkit, so that tests need none.
 * (configure owns the name config.h.)
 *
 * Units:    sizes are bytes, times as their names say.
 * Errors:   0, or a negative errno value and the sentence in error, which
 *           names the parameter.
 * Threads:  one, before anything is started.
 */

#ifndef FP_PARAMS_H
#define FP_PARAMS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "base/error.h"
#include "transport/tls/tls.h"
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
  /* status=PATH, absolute; "": no socket. */
  char status[sizeof ((struct sockaddr_un *) 0)->sun_path];

  /* members=PATH, absolute; "": no file. */
  char members[FP_MEMBERS_PATH_MAX];

  /* encrypt=FILE, absolute; the caller that starts the volume reads the key.
   */
  char encrypt_file[FP_ENCRYPT_PATH_MAX];

  /* Bit sets over the table in params.c: parameters that were given, and those
   * that only the pool file gave.
   */
  uint64_t seen, of_pool;
  bool in_pool; /* while the pool file is read */
  bool varies;  /* the servers come from DNS or etcd */
};

void fp_params_init (struct fp_params *p);

/* Set one parameter.  -EINVAL. */
int fp_params_set (struct fp_params *p, const char *key, const char *value,
                   struct fp_error *error);

/* Parse ADDR[,domain=NAME], the value of parameter key.  -EINVAL. */
int fp_params_server (struct fp_addr *addr, char domain[FP_NAME_MAX + 1],
                      const char *key, const char *value,
                      struct fp_error *error);

/* Check for missing and contradictory parameters, and derive the defaults that
 * depend on others.  Call it after the last fp_params_set and after
 * fp_members_read.  -EINVAL.
 */
int fp_params_complete (struct fp_params *p, struct fp_error *error);

/* Read the files that have keys: for TLS on all connections from now on, even
 * after an error, and volume.key, which the caller frees.  Call it once.
 */
int fp_params_read_keys (struct fp_params *p, struct fp_error *error);

/* Write the names of all transports, with commas between. */
#define FP_PARAMS_TRANSPORTS_MAX 32
void fp_params_transports (char out[FP_PARAMS_TRANSPORTS_MAX]);

#endif /* FP_PARAMS_H */
