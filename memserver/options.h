/* SPDX-License-Identifier: BSD-3-Clause */
/* options.h - the command line and the configuration file.
 *
 * Units:    bytes, seconds.
 * Errors:   messages for people go to stderr.
 */

#ifndef MEMSERVER_OPTIONS_H
#define MEMSERVER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/addr.h"
#include "base/error.h"
#include "base/log.h"
#include "memserver/pool/backing.h"
#include "proto/messages.h"
#include "transport/tls/tls.h"

#define MAX_LISTEN 16
#define DEFAULT_SLAB (UINT64_C (256) << 20)
#define MIN_SLAB (UINT64_C (1) << 16) /* the plugin has the same */
#define DEFAULT_LEASE_S 30
#define MAX_LEASE_S 86400
#define DEFAULT_ORPHAN_S 86400
#define MAX_ORPHAN_S (366 * 86400)
#define MAX_DRAIN_S 86400
#define OPTION_PATH_MAX 4096
#define DEFAULT_CONFIG SYSCONFDIR "/farpage/memserver.conf"

struct options {
  uint64_t size;
  uint64_t slab;
  bool reserve_given;
  uint64_t reserve;
  char name[FP_NAME_MAX + 1];
  struct fp_addr listen[MAX_LISTEN];
  /* 0: port 7471, on all addresses that options_may_listen allows */
  unsigned nr_listen;
  bool insecure; /* see options_may_listen */
  enum hugepages hugepages;
  int numa; /* -1: any */
  unsigned lease_s;
  unsigned orphan_s; /* seconds after the lease: see record_is_orphan */
  unsigned drain_s;  /* see server_stop.h */
  bool has_metrics;
  struct fp_addr metrics;
  char address_file[OPTION_PATH_MAX]; /* "": none */
  char pidfile[OPTION_PATH_MAX];      /* "": none */
  char backing[OPTION_PATH_MAX];      /* "": none */
  char access[OPTION_PATH_MAX];       /* "": none */
  struct fp_tls_params tls;
  enum fp_log_level log_level;
};

/* Parse the command line and the file.  Return 0 to go on, 1 if nothing is
 * left to do (--help), or -EINVAL after an error message.
 */
int options_parse (struct options *o, int argc, char *argv[]);

/* Set *o to the defaults, and apply the configuration file at path and its
 * drop-ins.  Check what does not depend on size or TLS.  Return 0, or print an
 * error and return -EINVAL.
 */
int options_read (struct options *o, const char *path);

/* Refuse a size that would drive this host out of memory (fit.c).  If no
 * reserve is given, set o->reserve to its default.
 */
int options_fit (struct options *o, struct fp_error *error);

/* Return true if the server may listen on this address.  Without TLS clients
 * are unknown, and others on the network can read and change what is sent.  So
 * unless TLS is required or --insecure is given, only local addresses are
 * allowed.
 */
bool options_may_listen (const struct options *o, const struct sockaddr *sa);

#endif /* MEMSERVER_OPTIONS_H */
