/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_named.h - the part of fp_volume_probe for recorded volumes
 * (fp_volume_is_recorded).
 */

#ifndef FP_PROBE_NAMED_H
#define FP_PROBE_NAMED_H

#include "base/error.h"
#include "extent/volume_params.h"

/* Find the volume p->name, or with resume that of p->uuid if it has no name,
 * and its servers.  Fill p->servers, uuid, size, slab_size, resume, members
 * and away.
 */
int fp_probe_named (struct fp_volume_params *p, struct fp_error *error);

/* Check that the servers of a recorded volume can keep this address of one of
 * them.  Return 0, or -EINVAL and the sentence in error.
 */
int fp_check_kept_addr (const struct fp_addr *addr, struct fp_error *error);

#endif /* FP_PROBE_NAMED_H */
