/* SPDX-License-Identifier: BSD-3-Clause */
/* donor.h - a memory server without sockets, for the tests of what is inside
 * one: its event loop, its pool, and sessions that are asked by a call.
 */

#ifndef DONOR_H
#define DONOR_H

#include "memserver/server.h"
#include "memserver/session/ctl.h"
#include "memserver/session/session.h"
#include "memserver/store/record.h"

#define MIB (UINT64_C (1) << 20)

extern struct server donor;

/* So many slabs of that size, in MiB, all free. */
void donor_start (uint32_t slabs, uint64_t slab_mib);
/* Make so many slabs, none populated, and no worker: the test calls pool_step.
 */
void donor_start_idle (uint32_t slabs, uint64_t slab_mib);
void donor_stop (void);

/* Run the loop until it says so, or fail after ten seconds. */
void donor_wait (bool (*done) (void));
bool donor_all_free (void);

/* A session that has volume ID open, made or resumed, over a transport. */
struct session *donor_attach (uint8_t id, unsigned transport);
/* Likewise, and the volume has a name. */
struct session *donor_attach_named (uint8_t id, const char *name,
                                    unsigned transport);
/* Likewise, with so many copies of each extent. */
struct session *donor_attach_copies (uint8_t id, const char *name,
                                     uint32_t copies, unsigned transport);

/* The handler of one message with the request that enc put in: what it
 * returned, CTL_WAIT included; call->out has the body of the reply.
 */
struct donor_call {
  struct call call;
  struct fp_header header;
  uint8_t in[FP_BODY_MAX], out[FP_BODY_MAX];
};
/* donor_ask (ctl_X, &w) after donor_begin (s, &w) and fp_enc_X (&w, &q). */
extern struct donor_call donor_call;
void donor_begin (struct session *s, struct fp_writer *w);
int donor_ask (ctl_handler *handler, const struct fp_writer *w);
void donor_reply (struct fp_reader *out);
int donor_list (struct session *s, struct fp_grants *p);
/* LIST where a slab has to be copied first: it does not answer yet; until
 * that slab is copied; both, and then the list.
 */
void donor_list_moves (struct session *s);
void donor_wait_moved (void);
void donor_list_moved (struct session *s, struct fp_grants *p);
int donor_grant (struct session *s, uint32_t count, struct fp_grants *p);
int donor_label (struct session *s, uint64_t slab, uint64_t extent);
int donor_release (struct session *s, uint32_t count, const uint64_t *slabs);

#endif /* DONOR_H */
