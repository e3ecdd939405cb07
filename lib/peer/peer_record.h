/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_record.h - what the metadata log asks of a peer: to have its donor
 * record a change, or to read what the donor has recorded.
 *
 * Errors:   those of the donor's answer, or -ENOTCONN if the peer is not up.
 * Threads:  the one that starts the volume, then the metadata log's.
 * Memory:   nothing here allocates.
 */

#ifndef FP_PEER_RECORD_H
#define FP_PEER_RECORD_H

#include "peer/peer.h"
#include "proto/messages.h"

enum fp_record_op {
  RECORD_OP_MAP,       /* `what`: struct fp_map_change */
  RECORD_OP_MAP_READ,  /* add the donor's map to fp_recorded.map */
  RECORD_OP_MAP_WRITE, /* mark labels in doubt as open, send our map */
  RECORD_OP_MEMBERS,   /* `what`: struct fp_members */
  RECORD_OP_SWEEP,     /* release slabs that are not used */
  RECORD_OP_DOUBTS,    /* clear that mark on believed labels */
};

/* Leave a request with a peer.  Return false if the peer still works on an
 * earlier one.  The answer is there when fp_peer_record_result returns true;
 * -ENOTCONN: the peer is not up.
 */
bool fp_peer_record (struct fp_peer *peer, enum fp_record_op op,
                     const void *what);
bool fp_peer_record_result (struct fp_peer *peer, int *result);
/* Stop waiting for the answer. */
void fp_peer_record_leave (struct fp_peer *peer);
/* Return what the donor said of the volume when the peer first came up. */
const struct fp_lookup_reply *fp_peer_said (const struct fp_peer *peer);

#endif /* FP_PEER_RECORD_H */
