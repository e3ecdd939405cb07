/* SPDX-License-Identifier: BSD-3-Clause */
/* samples.h - a valid body of each message, for seeds. */

#ifndef SAMPLES_H
#define SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#define SAMPLE_SLAB (UINT64_C (1) << 16) /* bytes, of the volume in OPEN */
#define SAMPLE_TYPES 21u                 /* FP_MSG_HELLO .. FP_MSG_DRAIN */

/* Write the body of a request or a reply to out, of FP_BODY_MAX bytes.  Return
 * its size: some are empty.  transport is for OPEN.
 */
size_t sample_request (unsigned type, unsigned transport, uint8_t *out);
size_t sample_reply (unsigned type, uint8_t *out);

#endif /* SAMPLES_H */
