/* SPDX-License-Identifier: BSD-3-Clause */
/* peer-fixture.h - a volume on two fake servers, for the tests of peers. */

#ifndef PEER_FIXTURE_H
#define PEER_FIXTURE_H

#include "base/error.h"
#include "fake-ctl.h"
#include "volume/volume_int.h"

#define SLAB (256 * 1024)
#define SLABS 200 /* per server */
#define NR_SERVERS 2
#define EXTENTS 20
#define SIZE (EXTENTS * SLAB)

extern struct fake_server *servers[NR_SERVERS];
extern struct fp_volume *v;
extern unsigned char buf[SLAB];

void link_params (struct fp_volume_params *p);
int link_setup (void **state);
int link_setup_one (void **state); /* only on the first server */
int link_teardown (void **state);
#define TEST(t) cmocka_unit_test_setup_teardown (t, link_setup, link_teardown)
#define TEST_ONE(t)                                                           \
  cmocka_unit_test_setup_teardown (t, link_setup_one, link_teardown)

void pause_ms (unsigned ms);

/* Write or expect five bytes at the beginning of extent i. */
int write_extent (uint64_t i, const char *text);
void expect (uint64_t i, const char *text);

/* Let the process die; resume its volume as the next process does. */
int link_resume (struct fp_error *error);

/* Return the server that holds extent i; set *generation to its label's. */
unsigned holder (uint64_t i, uint64_t *generation);

void await_state (unsigned server, enum fp_server_state state);
void await_extent (uint64_t i, enum fp_extent_state state);
/* Wait until exactly n slabs are labelled, over both servers. */
void await_labelled (unsigned n);

#endif /* PEER_FIXTURE_H */
