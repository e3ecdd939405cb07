/* SPDX-License-Identifier: BSD-3-Clause */
/* cluster.h - parts of `farpage cluster`. */

#ifndef FARPAGE_CLUSTER_H
#define FARPAGE_CLUSTER_H

#include "pool/registry.h"

struct announcement {
  const char *prefix;    /* keys begin with it */
  struct fp_donor donor; /* addr and domain are set */
  long ttl_s;
};

/* Announce a donor until a signal ends that.  Return an exit status. */
int announce (const struct announcement *a);

#endif /* FARPAGE_CLUSTER_H */
