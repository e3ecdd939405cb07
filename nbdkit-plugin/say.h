/* SPDX-License-Identifier: BSD-3-Clause */
/* say.h - the log sink of lib/: nbdkit, or the system log.
 *
 * Threads:  any.
 */

#ifndef FP_SAY_H
#define FP_SAY_H

#include "base/log.h"

/* For fp_log_set_sink. */
void fp_say (enum fp_log_level level, const char *message, void *opaque);

#endif /* FP_SAY_H */
