/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_named.h - the part of fp_volume_probe that is about volumes that are
 * recorded (fp_volume_is_recorded).
 */

#ifndef FP_PROBE_NAMED_H
#define FP_PROBE_NAMED_H

#include "volume/volume.h"

/* Is the volume p->name there (or with resume that of p->uuid, if it has no
 * name), and on which servers?  Fills p->servers, uuid,
 * size, slab_size, resume, members and away.
 */
int fp_probe_named (struct fp_volume_params *p, char why[FP_WHY_MAX]);

/* Can the servers of a recorded volume keep this address of one of them?
 * -EINVAL: no, and why.
 */
int fp_check_kept_addr (const struct fp_addr *addr, char why[FP_WHY_MAX]);

#endif /* FP_PROBE_NAMED_H */
