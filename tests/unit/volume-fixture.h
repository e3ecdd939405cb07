/* SPDX-License-Identifier: BSD-3-Clause */
/* volume-fixture.h - a volume with a name on fake servers that a test
 * controls.
 */

#ifndef VOLUME_FIXTURE_H
#define VOLUME_FIXTURE_H

#include "base/error.h"
#include "fake-ctl.h"
#include "volume/volume_int.h" /* before `v`, which would be shadowed */

#define FIXTURE_SERVERS 4

extern struct fake_server *servers[FIXTURE_SERVERS];
extern struct fp_volume *v; /* attached volume, or NULL */
extern struct fp_error last_error;

/* Create nr servers (a, b, c, d), or free them all. */
void fixture_up (unsigned nr, uint64_t slab_size, unsigned slabs);
int fixture_down (void **state);
/* Extent i is at i * SLAB.  nr servers are named, from `first` on. */
void fixture_params (struct fp_volume_params *p, unsigned first, unsigned nr);
/* Start a volume as nbdkit does. */
int fixture_start (struct fp_volume_params *p);
void detach (void);
void must (int r);
void pause_ms (unsigned ms);

/* Print and return the seed of this test: FARPAGE_TEST_SEED, or 1. */
unsigned fixture_seed (void);

/* ---- a volume with several copies ---- */

#define COPIES_SLAB (512 * 1024)
#define COPIES_EXTENTS 6
#define COPIES_SLABS 16 /* per server */
#define COPIES_SIZE ((uint64_t) COPIES_EXTENTS * COPIES_SLAB)
#define COPIES_IO 8192u

/* Reset by copies_setup.  A test may set them before it attaches. */
extern unsigned nr_copies, nr_named; /* initially 2, 3 */
extern unsigned copies_timeout_ms;

int copies_setup (void **state);
void copies_params (struct fp_volume_params *p);
/* size 0: the volume exists. */
int copies_attach (uint64_t size, bool degraded);
/* End the client without a word to any server. */
void copies_die (void);
/* Write a byte to all of some chunks of extent i.  Or return the byte that all
 * of these chunks have, or -errno.
 */
int put (uint64_t i, unsigned char byte);
int get (uint64_t i);
/* Trim the first `length` bytes of extent i. */
void trim (uint64_t i, uint64_t length);
uint64_t degraded (void);
void await_whole (void);
/* Check that each in-sync copy has this byte. */
void all_have (uint64_t i, int byte);
/* Attach, write, trim, attach again.  Only the first attach may fail, all
 * copies are the same, and nothing is lost.  Set the faults before the call.
 * *any returns the result of fired (): whether they have fired.
 */
void copies_exercise (bool (*fired) (void), bool *any);
/* If set, requests of copies_exercise may fail as no copy can be used.  They
 * are counted, and leave the old content or the new.  0 at first.
 */
extern bool copies_may_fail;
extern unsigned copies_failed;

#endif /* VOLUME_FIXTURE_H */
