/* SPDX-License-Identifier: BSD-3-Clause */
/* fake-ctl.h - the control channel (transport/control/ctl_channel.h) to memory
 * servers inside the test, which lend the memory of the fake transport.  A
 * program that links fake-ctl.c gets these functions instead of the real ones.
 *
 * The servers keep the state of real ones: which slabs are free, granted or
 * labelled, and whether they know the volume.  When a session ends, its
 * granted slabs without a label become free, and its keys die.
 *
 * Faults: the calls of all channels are counted.  The n-th call can be refused
 * before it takes effect, or lose its answer afterwards.  Either breaks the
 * channel, as with a real server.
 */

#ifndef FAKE_CTL_H
#define FAKE_CTL_H

#include <stdbool.h>

#include "transport/control/ctl_channel.h"
#include "transport/local/fake.h"

struct fake_server;

struct fake_server *fake_server_new (const char *host, uint64_t slab_size,
                                     unsigned slabs);
void fake_server_free (struct fake_server *s);
const struct fp_addr *fake_server_addr (const struct fake_server *s);
struct fp_fake_server *fake_server_data (struct fake_server *s);

/* Grant no tails: what the server lends is no longer than a slab. */
void fake_server_no_tails (struct fake_server *s);
/* Answer at this host, too. */
void fake_server_alias (struct fake_server *s, const char *host);
/* Return true if it knows a volume; return how many servers the client told it
 * the volume has.
 */
bool fake_server_knows (struct fake_server *s);
unsigned fake_server_counted (struct fake_server *s);

/* Break data and control connections, and refuse new ones until revive.  The
 * server keeps its state, as if its network were cut.
 */
void fake_server_cut (struct fake_server *s);
void fake_server_revive (struct fake_server *s);
/* Pretend that another client had the volume while the server was cut from us.
 */
void fake_server_visit (struct fake_server *s);
/* Pretend that another client opened the volume, while the server was cut from
 * us, and changed nothing.
 */
void fake_server_probe (struct fake_server *s);
/* Restart it empty: it knows no volume, and its memory is zero. */
void fake_server_forget (struct fake_server *s);
/* End the lease of the volume: the server stays the same, without the volume.
 */
void fake_server_expire (struct fake_server *s);
void fake_server_lose (struct fake_server *s);

/* Ways not to answer, until the caller's deadline or until silence is set
 * again:
 *
 * DEAF   The request has no effect.
 * MUTE   The request has its effect.
 * FULL   It answers -ENOSPC, and the request has no effect.
 */
enum fake_silence { FAKE_SPEAKS, FAKE_DEAF, FAKE_MUTE, FAKE_FULL };
void fake_server_silence (struct fake_server *s, enum fake_silence silence,
                          unsigned about); /* an fp_msg_type; 0: all */

/* Let each LIST take ms and name one slab; 0: as usual. */
void fake_server_slow_list (struct fake_server *s, unsigned ms);

/* Make no slab ready.  A GRANT waits ms and fails; one ahead of need fails at
 * once.  0: as usual.
 */
void fake_server_not_ready (struct fake_server *s, unsigned ms);

/* Cut it at its next LABEL, or RELEASE, after that took effect. */
void fake_server_die_of_label (struct fake_server *s, bool on);
void fake_server_die_of_release (struct fake_server *s, bool on);

/* Refuse each RELEASE and ZERO with -EBUSY. */
void fake_server_keep (struct fake_server *s, bool on);

/* Deny the client access to its volume. */
void fake_server_bar (struct fake_server *s, bool on);

/* Refuse tokens for data connections. */
void fake_server_stingy (struct fake_server *s, bool on);
/* Refuse a token to this lane alone.  It can be set for one lane at a time. */
void fake_server_stingy_to (struct fake_server *s, unsigned lane, bool on);

/* Ask for this many slabs back, and lend none until they are back. */
void fake_server_want (struct fake_server *s, unsigned slabs);
/* Say that it is being drained, or not any more. */
void fake_server_drain (struct fake_server *s, bool on);
/* Return true if the client said last that it cannot move what is wanted. */
bool fake_server_is_stuck (struct fake_server *s);

/* Put a label, as a client that is gone could have left it, on a free slab. */
void fake_server_plant (struct fake_server *s, unsigned slab, uint64_t extent,
                        uint64_t generation);
/* Return the highest generation in a label of this extent; 0: no label. */
uint64_t fake_server_generation (struct fake_server *s, uint64_t extent);

/* State of a named volume: version of its member list, number of current
 * members, number of extents that exist by its map.
 */
uint64_t fake_server_version (struct fake_server *s);
unsigned fake_server_current (struct fake_server *s);
unsigned fake_server_mapped (struct fake_server *s);
void fake_server_set_list (struct fake_server *s,
                           const struct fp_members *list);
/* Pretend that another client began to write while the server was cut from us.
 */
void fake_server_newer_list (struct fake_server *s);
/* Pretend that the volume was attached this many times at all servers. */
void fake_server_attached (struct fake_server *s, uint64_t times);
/* Pretend that another client has the volume, and stays. */
void fake_server_hold (struct fake_server *s);
/* Return how often the volume was opened to write. */
uint64_t fake_server_opened (struct fake_server *s);
/* Return true if the session that has the volume open is read-only. */
bool fake_server_is_read (struct fake_server *s);
void fake_server_set_map (struct fake_server *s, uint64_t extent, bool exists);

/* Lease of sessions that begin from now on, at all servers. */
extern unsigned fake_lease_ms;
extern uint64_t fake_features; /* FP_FEATURE_* that they have */

unsigned fake_server_free_slabs (struct fake_server *s);
unsigned fake_server_labelled (struct fake_server *s);

/* DIE: refuse this call and all later ones. */
enum fake_ctl_fault { FAKE_CTL_REFUSE, FAKE_CTL_LOSE_ANSWER, FAKE_CTL_DIE };
void fake_ctl_fault_at (unsigned n, enum fake_ctl_fault fault); /* 0: never */
/* Apply a second fault at a later call n.  Fired is then true only after both.
 */
void fake_ctl_fault_again (unsigned n, enum fake_ctl_fault fault);
bool fake_ctl_fault_fired (void);
unsigned fake_ctl_fault_points (void); /* calls since fault_at */

#endif /* FAKE_CTL_H */
