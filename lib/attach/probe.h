/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.h - ask the servers of a volume before it is started. */

#ifndef FP_PROBE_H
#define FP_PROBE_H

#include "base/error.h"
#include "extent/volume_params.h"

/* Check everything that can be checked without keeping anything.  The servers
 * must answer, and agree on version, slab size and transport.  With
 * reserve_full, a new volume needs enough free slabs.  With resume, the
 * servers must still hold the volume; its lease starts again.  For rdma, a
 * child process makes a connection and ends it.
 *
 * Fill in the fields that volume_params.h attributes to the probe, and
 * slab_size, copies and lease_ms.  On failure, the text of error says what
 * failed, and at which server; else it is "".
 *
 * It leaves no thread running and no device open.  So a process with one
 * thread may call this before a fork.
 */
int fp_volume_probe (struct fp_volume_params *p, struct fp_error *error);

#endif /* FP_PROBE_H */
