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

#include "backing.h"
#include "base/addr.h"
#include "base/log.h"
#include "proto/messages.h"
#include "transport/tls.h"

#define MAX_LISTEN 16
#define DEFAULT_SLAB (UINT64_C (256) << 20)
#define MIN_SLAB (UINT64_C (1) << 16) /* as the plugin has it */
#define DEFAULT_LEASE_S 30
#define MAX_LEASE_S 86400
#define OPTION_PATH_MAX 4096

struct options {
  uint64_t size;
  uint64_t slab;
  bool reserve_given;
  uint64_t reserve;
  char name[FP_NAME_MAX + 1];
  struct fp_addr listen[MAX_LISTEN];
  unsigned nr_listen; /* 0: everywhere, on the default port */
  enum hugepages hugepages;
  int numa; /* -1: any */
  unsigned lease_s;
  bool has_metrics;
  struct fp_addr metrics;
  char address_file[OPTION_PATH_MAX]; /* "": none */
  char pidfile[OPTION_PATH_MAX];      /* likewise */
  char backing[OPTION_PATH_MAX];      /* likewise */
  struct fp_tls_params tls;
  enum fp_log_level log_level;
};

/* 0: go on.  1: there is nothing to do (--help).  -EINVAL: the command line
 * or the file is wrong, and it has been said how.
 */
int options_parse (struct options *o, int argc, char *argv[]);

#endif /* MEMSERVER_OPTIONS_H */
