/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.h - the memory servers of a pool, so that users need not type every
 * address.  The name of a pool is one of these.
 *
 *   NAME         NAME.conf in $FARPAGE_POOLS_DIR, or else in FP_POOLS_DIR.
 *   PATH         A file.  PATH has a slash.
 *   dns:DOMAIN   SRV records of _farpage._tcp.DOMAIN (RFC 2782).
 *   etcd:PREFIX  Donors that announce themselves in etcd (registry.h).
 *
 * Each line of a file is KEY = VALUE.  KEY is server (once for each), slab,
 * transport, timeout or a tls parameter, as in the plugin.
 *
 * Errors:   0, or a negative errno value and the sentence in error.  The
 *           sentence names the pool, and the line if there is one.
 * Threads:  one, as it may fork for DNS.  A call waits at most 15 s for DNS,
 *           and 22 s for etcd.
 */

#ifndef FP_POOL_H
#define FP_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define FP_POOLS_DIR SYSCONFDIR "/farpage/pools.d"

/* Handle a setting.  Return 0, or -EINVAL and the sentence in error. */
typedef int fp_pool_set (void *arg, const char *key, const char *value,
                         struct fp_error *error);

enum fp_pool_for {
  /* From etcd, only donors that suit a new volume (choose.h), at most 64. From
   * a file or DNS, all servers.
   */
  FP_POOL_ATTACH,
  FP_POOL_LOOK, /* all servers */
};

/* Call set for each setting of a pool, until one is wrong. */
int fp_pool_read (const char *pool, enum fp_pool_for what, fp_pool_set *set,
                  void *arg, struct fp_error *error);

/* Return true if pool is NAME or PATH. */
bool fp_pool_is_file (const char *pool);

/* Call set for each server of dns:DOMAIN.  Only pool.c calls this. */
int fp_pool_read_dns (const char *domain, fp_pool_set *set, void *arg,
                      struct fp_error *error);
/* Call set for each SRV record of an answer of n bytes.  -EPROTO: it is
 * damaged, or a record is not valid.  Only pool_dns.c and tests call this.
 */
int fp_pool_take_dns (const unsigned char *answer, size_t n, fp_pool_set *set,
                      void *arg, struct fp_error *error);

#endif /* FP_POOL_H */
