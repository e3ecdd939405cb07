/* SPDX-License-Identifier: BSD-3-Clause */
/* donor.h - a memory server without sockets, for tests of its parts.  It has
 * an event loop, a pool, and sessions whose requests are function calls.
 */

#ifndef DONOR_H
#define DONOR_H

#include "memserver/server.h"
#include "memserver/session/ctl.h"
#include "memserver/session/session.h"
#include "memserver/store/record.h"

#define MIB (UINT64_C (1) << 20)

extern struct server donor;

/* Start with this many slabs of slab_mib MiB, all free. */
void donor_start (uint32_t slabs, uint64_t slab_mib);
/* Start with slabs that are not populated, and no worker: the test calls
 * pool_step.
 */
void donor_start_idle (uint32_t slabs, uint64_t slab_mib);
void donor_stop (void);

/* Run the loop until done returns true.  Fail after a minute. */
void donor_wait (bool (*done) (void));
bool donor_all_free (void);

/* Return a session with volume `id` open; create or resume it.  There are two
 * sessions: one for even ids, one for odd ones.
 */
struct session *donor_attach (uint8_t id, unsigned transport);
/* Give the volume a name, too. */
struct session *donor_attach_named (uint8_t id, const char *name,
                                    unsigned transport);
/* Keep this many copies of each extent, too. */
struct session *donor_attach_copies (uint8_t id, const char *name,
                                     uint32_t copies, unsigned transport);

/* One call of a message handler: the encoded request and the body of the
 * reply.
 */
struct donor_call {
  struct call call;
  struct fp_header header;
  uint8_t in[FP_BODY_MAX], out[FP_BODY_MAX];
};
/* Ask with donor_begin (s, &w), fp_enc_X (&w, &q) and donor_ask (ctl_X, &w).
 * Return what the handler returned, CTL_WAIT included.
 */
extern struct donor_call donor_call;
void donor_begin (struct session *s, struct fp_writer *w);
int donor_ask (ctl_handler *handler, const struct fp_writer *w);
void donor_reply (struct fp_reader *out);
int donor_list (struct session *s, struct fp_grants *p);
/* Send a LIST for which a slab must be copied first, so that no reply comes
 * yet.  Then wait until the slab is copied.  list_moved does both, and lists.
 */
void donor_list_moves (struct session *s);
void donor_wait_moved (void);
void donor_list_moved (struct session *s, struct fp_grants *p);
int donor_grant (struct session *s, uint32_t count, struct fp_grants *p);
int donor_label (struct session *s, uint64_t slab, uint64_t extent);
int donor_release (struct session *s, uint32_t count, const uint64_t *slabs);

#endif /* DONOR_H */
