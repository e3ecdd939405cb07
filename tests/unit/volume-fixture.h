/* SPDX-License-Identifier: BSD-3-Clause */
/* volume-fixture.h - a volume with a name on servers that do what they are
 * told: what the tests of such volumes start with.
 */

#ifndef VOLUME_FIXTURE_H
#define VOLUME_FIXTURE_H

#include "engine/mirror.h" /* before `v`, which would be shadowed */
#include "fake-ctl.h"

#define FIXTURE_SERVERS 4

extern struct fake_server *servers[FIXTURE_SERVERS];
extern struct fp_volume *v; /* the one that is attached, or NULL */
extern char why[FP_WHY_MAX];

/* So many servers: a, b, c, d; and none any more. */
void fixture_up (unsigned nr, uint64_t slab_size, unsigned slabs);
int fixture_down (void **state);
/* Extent i is at i * SLAB; nr servers are named, from the first one on. */
void fixture_params (struct fp_volume_params *p, unsigned first, unsigned nr);
/* As nbdkit does it. */
int fixture_start (struct fp_volume_params *p);
void detach (void);
void must (int r);
void pause_ms (unsigned ms);

/* Print and return the seed of this test: FARPAGE_TEST_SEED, or 1. */
unsigned fixture_seed (void);

/* ---- a volume with several copies ---- */

#define COPIES_SLAB (512 * 1024)
#define COPIES_EXTENTS 6
#define COPIES_SLABS 16 /* of each server */
#define COPIES_SIZE ((uint64_t) COPIES_EXTENTS * COPIES_SLAB)
#define COPIES_IO 8192u

/* What copies_setup makes anew; a test may set it before it attaches. */
extern unsigned nr_copies, nr_named; /* 2, 3 */
extern unsigned copies_timeout_ms;

int copies_setup (void **state);
void copies_params (struct fp_volume_params *p);
/* size 0: as it was made. */
int copies_attach (uint64_t size, bool degraded);
/* Its client is gone, and has said nothing to any server at its end. */
void copies_die (void);
/* The same byte in all of some chunks of extent i; or which one it is, which
 * has to be the same in all of them, or -errno.
 */
int put (uint64_t i, unsigned char byte);
int get (uint64_t i);
/* From its start on. */
void trim (uint64_t i, uint64_t length);
uint64_t degraded (void);
void await_whole (void);
/* Each in-sync copy has that. */
void all_have (uint64_t i, int byte);
/* Attach, write, trim, attach again: nobody hears of an error but who attaches
 * first, all copies are alike, and nothing is lost.  The faults are set before
 * it is called; fired is asked whether they have.
 */
void copies_exercise (bool (*fired) (void), bool *any);
/* What fails in it, because no copy could be used: then nothing is asserted of
 * that but that it is what was there before, or what was to be.  0 at first.
 */
extern bool copies_may_fail;
extern unsigned copies_failed;

#endif /* VOLUME_FIXTURE_H */
