/* SPDX-License-Identifier: BSD-3-Clause */
/* fake-ctl.h - the control channel (transport/ctl_channel.h) to memory
 * servers inside the test, which lend the memory of the fake transport.  A
 * program that links fake-ctl.c gets these functions instead of the real ones.
 *
 * The servers keep what a real one keeps: which slabs are free, granted or
 * labelled, and whether they know the volume.  What a session was granted and
 * did not label is free again when the session ends, and keys die with it.
 *
 * Faults: the calls of all channels are counted; the n-th can be refused
 * before it took effect, or lose its answer after it did.  Either breaks the
 * channel, as a real one would.
 */

#ifndef FAKE_CTL_H
#define FAKE_CTL_H

#include <stdbool.h>

#include "transport/ctl_channel.h"
#include "transport/fake.h"

struct fake_server;

struct fake_server *fake_server_new (const char *host, uint64_t slab_size,
                                     unsigned slabs);
void fake_server_free (struct fake_server *s);
const struct fp_addr *fake_server_addr (const struct fake_server *s);
struct fp_fake_server *fake_server_data (struct fake_server *s);

/* What it lends is no longer than a slab. */
void fake_server_no_tails (struct fake_server *s);
/* It answers as this host, too. */
void fake_server_alias (struct fake_server *s, const char *host);
/* It knows some volume; it was told that it is on so many servers. */
bool fake_server_knows (struct fake_server *s);
unsigned fake_server_counted (struct fake_server *s);

/* Data and control die; new connections are refused until revive.  What it
 * holds is kept, as by a server whose network is cut.
 */
void fake_server_cut (struct fake_server *s);
void fake_server_revive (struct fake_server *s);
/* While it is cut from us, another client has the volume and leaves. */
void fake_server_visit (struct fake_server *s);
/* So, and it only had a look. */
void fake_server_probe (struct fake_server *s);
/* It starts again, empty: it knows no volume and its memory is zero. */
void fake_server_forget (struct fake_server *s);
/* The lease of the volume is over: it is the same server, without it. */
void fake_server_expire (struct fake_server *s);
/* It had to give up all that it held: a list names the extents, and no memory.
 */
void fake_server_lose (struct fake_server *s);

/* What it does not answer any more, until the caller's deadline or until it
 * is told otherwise: DEAF: what is asked does not happen.  MUTE: it does.
 * FULL: it answers -ENOSPC, and nothing happens.
 */
enum fake_silence { FAKE_SPEAKS, FAKE_DEAF, FAKE_MUTE, FAKE_FULL };
void fake_server_silence (struct fake_server *s, enum fake_silence silence,
                          unsigned about); /* an fp_msg_type; 0: all */

/* Its lists name one slab each, and take that long; 0: not any more. */
void fake_server_slow_list (struct fake_server *s, unsigned ms);

/* None of its slabs is ready: who needs one waits that long for it in vain,
 * and who asks ahead of need does not wait; 0: not any more.
 */
void fake_server_not_ready (struct fake_server *s, unsigned ms);

/* It is cut by the next LABEL, or RELEASE, which takes effect. */
void fake_server_die_of_label (struct fake_server *s, bool on);
void fake_server_die_of_release (struct fake_server *s, bool on);

/* It is told to release something, and refuses: -EBUSY. */
void fake_server_keep (struct fake_server *s, bool on);

/* The client may not have the volume there. */
void fake_server_bar (struct fake_server *s, bool on);

/* It has no token for a data connection. */
void fake_server_stingy (struct fake_server *s, bool on);
/* Refuse a token to this lane alone.  It can be set for one lane at a time. */
void fake_server_stingy_to (struct fake_server *s, unsigned lane, bool on);

/* It asks for so many slabs back, and lends none until it has them. */
void fake_server_want (struct fake_server *s, unsigned slabs);

/* A label that some client has left, on a slab that is free. */
void fake_server_plant (struct fake_server *s, unsigned slab, uint64_t extent,
                        uint64_t generation);
/* The highest that a label of this extent has; 0: none. */
uint64_t fake_server_generation (struct fake_server *s, uint64_t extent);

/* Of a volume with a name: the list that it has, how many of that are current,
 * how many extents it knows to exist.
 */
uint64_t fake_server_version (struct fake_server *s);
unsigned fake_server_current (struct fake_server *s);
unsigned fake_server_mapped (struct fake_server *s);
void fake_server_set_list (struct fake_server *s,
                           const struct fp_members *list);
/* While it is cut from us, another client has begun to write. */
void fake_server_newer_list (struct fake_server *s);
/* So many clients have attached the volume and left it, at all servers. */
void fake_server_attached (struct fake_server *s, uint64_t times);
/* Another client has the volume and stays. */
void fake_server_hold (struct fake_server *s);
/* Return how often it was opened to write. */
uint64_t fake_server_opened (struct fake_server *s);
/* Whoever has the volume open there has it to read. */
bool fake_server_is_read (struct fake_server *s);
void fake_server_set_map (struct fake_server *s, uint64_t extent, bool exists);

/* Of all servers, for sessions that begin. */
extern unsigned fake_lease_ms;

unsigned fake_server_free_slabs (struct fake_server *s);
unsigned fake_server_labelled (struct fake_server *s);

/* DIE: this one and all that follow are refused. */
enum fake_ctl_fault { FAKE_CTL_REFUSE, FAKE_CTL_LOSE_ANSWER, FAKE_CTL_DIE };
void fake_ctl_fault_at (unsigned n, enum fake_ctl_fault fault); /* 0: never */
/* After that, and likewise: at a later one as well.  Fired: both have. */
void fake_ctl_fault_again (unsigned n, enum fake_ctl_fault fault);
bool fake_ctl_fault_fired (void);
unsigned fake_ctl_fault_points (void); /* passed since fault_at */

#endif /* FAKE_CTL_H */
