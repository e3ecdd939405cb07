/* SPDX-License-Identifier: BSD-3-Clause */
/* donors.h - the memory servers of a simulation: server.h of the memory
 * server, on a thread and a host of its own.
 *
 *   DOWN --start--> UP --kill, stop--> DOWN
 *
 * Donor i is machine i + 1.  Its memory is in a directory in /dev/shm, or in
 * $FARPAGE_SIM_DIR (--backing), so that the next process can use it again.
 *
 * Threads:  the first one.
 */

#ifndef SIM_DONORS_H
#define SIM_DONORS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/uuid.h"

#define DONORS_MAX 8u
#define DONORS_SLAB (UINT64_C (256) << 10) /* four chunks of dirty bits */
#define DONORS_LEASE_S 5u

/* Start nr donors of so many slabs, each in a directory below a new one, which
 * is the working directory from now on.
 */
void donors_start (unsigned nr, unsigned slabs);
/* Kill them all, and remove their directories. */
void donors_end (void);
unsigned donors_nr (void);
/* Return how many processes were started.  The files of one that was killed
 * stay open.
 */
unsigned donors_started (void);

struct fp_addr donor_addr (unsigned i);
unsigned donor_machine (unsigned i);
bool donor_is_up (unsigned i);
/* Return its host; 0 if it is down. */
unsigned donor_host (unsigned i);
/* Return true if a running donor has this UUID.  A donor that lost its memory
 * gets a new one.
 */
bool donors_have (const struct fp_uuid *uuid);

/* Start a donor that is down.  with_memory: it keeps its directory. */
void donor_start (unsigned i, bool with_memory);
/* Kill its process.  power = false: the machine goes off. */
void donor_kill (unsigned i, bool power);
/* Ask it to stop, as SIGTERM (for good) or SIGINT does. */
void donor_stop (unsigned i, bool for_good);
/* Say that its host is short of memory, or has enough. */
void donor_press (unsigned i, bool pressed);
/* Set how many seconds time () is fast on its machine.  Later processes there
 * keep that.
 */
void donor_date (unsigned i, int64_t seconds);
/* Begin to drain it, or end that. */
void donor_drain (unsigned i, bool drain);

#endif /* SIM_DONORS_H */
