/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_named.h - the part of fp_volume_probe that is about volumes with a
 * name.
 */

#ifndef FP_PROBE_NAMED_H
#define FP_PROBE_NAMED_H

#include "volume/volume.h"

/* Is the volume p->name there, and on which servers?  Fills p->servers, uuid,
 * size, slab_size, resume, members and away.
 */
int fp_probe_named (struct fp_volume_params *p, char why[FP_WHY_MAX]);

#endif /* FP_PROBE_NAMED_H */
