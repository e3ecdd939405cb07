/* SPDX-License-Identifier: BSD-3-Clause */
/* system.h - calls of a test to system.c. */

#ifndef SIM_SYSTEM_H
#define SIM_SYSTEM_H

#include <stdint.h>

#define SYSTEM_MEMORY (UINT64_C (1) << 30) /* bytes of each machine */

/* Set how much memory is available on a host. */
void system_memory (unsigned host, uint64_t bytes);
/* Set how many seconds time () is fast there. */
void system_date (unsigned host, int64_t seconds);

#endif /* SIM_SYSTEM_H */
