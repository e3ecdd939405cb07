/* SPDX-License-Identifier: BSD-3-Clause */
/* registry.h - donors that announce themselves in etcd.
 *
 *   PREFIX/donors/UUID   a donor, as fp_donor_to_json writes it; `farpage
 *                        cluster announce` keeps it there under a lease
 *   PREFIX/cordon/ADDR   no new volume goes to the donor at that address
 *
 * A registry only names donors.  Commands read it when they start.  No request
 * waits for it.  TLS keys and --access decide who may use a donor.  Anyone who
 * can write to a registry can send clients to another machine.  With a key
 * (tls-psk) clients refuse a machine that lacks it.  With certificates they
 * accept any machine that has a valid one.
 *
 * Units:    bytes.
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  no shared state; waits as etcdctl.h says.
 */

#ifndef FP_REGISTRY_H
#define FP_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

#include "base/addr.h"
#include "base/error.h"
#include "base/uuid.h"
#include "proto/messages.h"

/* An address of a donor, in the form that fp_donor_addr gives it. */
typedef char fp_donor_addr_t[FP_ADDR_MAX + 1];

struct fp_donor {
  struct fp_uuid uuid;
  fp_donor_addr_t addr;         /* for clients */
  char name[FP_NAME_MAX + 1];   /* the donor chose it */
  char domain[FP_NAME_MAX + 1]; /* failure domain; "": none */
  uint64_t protocol; /* version that it and its announcer agreed on */
  uint64_t slab, total, free;
  bool pressed;     /* lends nothing now */
  bool draining;    /* no longer lends */
  bool cordoned;    /* from PREFIX/cordon/; not in fp_donor_to_json */
  int64_t revision; /* etcd counts its changes; nor is this */
};

struct fp_registry {
  size_t nr, nr_cordons;
  struct fp_donor *donors;
  fp_donor_addr_t *cordons; /* including donors that are not announced */
};

enum fp_registry_read {
  FP_REGISTRY_NEWEST,
  FP_REGISTRY_OLD_TOO, /* if etcd has no leader, an older state will do */
};

/* Read all donors below prefix, sorted by domain and address.  If several
 * have the same address, keep the one that was written last.  Call
 * fp_registry_free in any case.
 */
int fp_registry_read (struct fp_registry *r, const char *prefix,
                      enum fp_registry_read how, struct fp_error *error);
void fp_registry_free (struct fp_registry *r);

/* -EINVAL: a prefix has 1 to 128 letters, digits and ._-/, no '-' or '/' at
 * the start, no '/' at the end, and no "//".
 */
int fp_registry_prefix (const char *prefix, struct fp_error *error);

/* Write text, which is HOST or HOST:PORT, as HOST:PORT with a host in lower
 * case.  -EINVAL: other machines cannot use this address.
 */
int fp_donor_addr (fp_donor_addr_t out, const char *text,
                   struct fp_error *error);

/* Return true if d lends, and a client of this release can talk to it.  That
 * is so for this release's version N, and for N + 1: the release that raises
 * the version also speaks the one before (docs/PROTOCOL.md, 'Versions').
 */
bool fp_donor_lends (const struct fp_donor *d);

/* Return true if s has only letters, digits and ._:-, and is not empty or too
 * long.
 */
bool fp_donor_domain_ok (const char *s);

struct json_object *fp_donor_to_json (const struct fp_donor *d);
/* -EINVAL: not a donor, or a field has no valid value. */
int fp_donor_from_json (struct fp_donor *d, struct json_object *o);

#endif /* FP_REGISTRY_H */
