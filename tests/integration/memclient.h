/* SPDX-License-Identifier: BSD-3-Clause */
/* memclient.h - shared by the parts of memclient: its session and its slabs.
 *
 * Errors:   0 or a negative errno value; fp_ctl_why (ctl) says more.
 */

#ifndef MEMCLIENT_H
#define MEMCLIENT_H

#include <stdbool.h>

#include "base/addr.h"
#include "base/clock.h"
#include "transport/control/ctl_channel.h"
#include "transport/transport.h"

#define MAX_SLABS 4096
#define DEADLINE_MS 120000 /* ms; for a sanitizer on a busy machine */
#define CHUNK (UINT32_C (1) << 20)

extern struct fp_addr addr;
extern struct fp_ctl *ctl;
extern struct fp_hello hello;
extern struct fp_hello_reply server;
extern struct fp_grant grants[MAX_SLABS];
extern struct fp_remote remotes[MAX_SLABS];
extern unsigned nr_grants;
extern const struct fp_transport_ops *ops;
extern struct fp_queue *queue;
extern struct fp_conn *conn;
extern uint8_t *buffer;

static inline uint64_t
deadline (void)
{
  return fp_deadline_in_ms (DEADLINE_MS);
}

/* memclient_data.c */

/* Renew the lease: transfers of data do not. */
int stay (void);
int connect_data (void);
int another_connection (const char *what);
int connection_as (unsigned uid);
int transfer (enum fp_op_kind kind, unsigned slab, uint64_t offset,
              uint32_t length);
/* Check that [from, to) of the slab is zeros, and the rest is byte. */
int check_slab (unsigned slab, uint8_t byte, uint64_t from, uint64_t to);
int fill (uint8_t byte);
int check (uint8_t byte);
int flood (uint8_t byte);
int replaced (void);
int late (void);
int read_only (uint8_t byte);
int list_read_only (uint8_t byte);

/* memclient_volumes.c */

void volume_by_id (struct fp_uuid *out, unsigned id);
/* Do the word if it is one of memclient_volumes.c; *known returns that. */
int volume_word (const char *word, size_t len, const char *args, bool *known);

#endif /* MEMCLIENT_H */
