/* SPDX-License-Identifier: BSD-3-Clause */
/* client.h - a client of a simulation: the client library on a host of its
 * own.  It has threads that read and write, and that check what they read.
 *
 *   NONE -start-> ATTACHING --> RUNNING -stop, fenced-> ENDING --> NONE
 *                     |                                             ^
 *                     +-- refused, or killed in any state ----------+
 *
 * Threads:  the first one.
 */

#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "volume/volume.h"

#define CLIENTS 2u
#define CLIENT_TIMEOUT_MS 1000u

enum client_state {
  CLIENT_NONE,
  CLIENT_ATTACHING,
  CLIENT_RUNNING,
  CLIENT_ENDING
};

struct client_options {
  uint64_t size;
  unsigned copies;
  unsigned threads;
  unsigned pause_ms; /* longest pause between two requests */
  bool degraded;     /* attach without servers that are away */
};

/* Set what the volume is, before the first start. */
void clients_init (const struct client_options *o);

/* Start client i, which is NONE, on a new host of its machine.  With takeover,
 * it takes the volume from the client that has it.
 */
void client_start (unsigned i, bool takeover);
/* Make the next client that starts give this donor as `remove`, and not as one
 * of its servers.
 */
void client_remove (unsigned donor);
/* Let its requests end, and detach. */
void client_stop (unsigned i);
/* Kill its process.  power = false: the machine goes off. */
void client_kill (unsigned i, bool power);
void client_pause (unsigned i, bool pause);
/* Suspend its machine.  client_pause (i, false) ends that. */
void client_suspend (unsigned i);
/* Send no more requests, or go on. */
void clients_quiet (bool quiet);

/* A client that was asked to stop is ENDING. */
enum client_state client_state (unsigned i);
bool client_is_paused (unsigned i);
/* Return true if another client has taken its volume over. */
bool client_is_fenced (unsigned i);
unsigned client_machine (unsigned i);
/* Return its volume; NULL unless it is RUNNING. */
struct fp_volume *client_volume (unsigned i);
/* Move the calling thread to its host, for calls into its volume: they use its
 * clock and create its threads.  sim_host_enter (0) goes back.
 */
void client_enter (unsigned i);

/* Requests of all clients: those that were done, and those that failed. */
uint64_t clients_done (void);
uint64_t clients_failed (void);
/* Requests that have begun and not ended. */
unsigned clients_under_way (void);

/* Read the whole volume.  Return how many blocks could not be read.  Called
 * while the clients are quiet.
 */
uint64_t client_read_all (unsigned i);
/* Compare all copies, if there are several.  Return how many blocks of 64 KiB
 * could not be compared.  Fail the run if copies differ.
 */
uint64_t client_compare_all (unsigned i);
/* Fail the run if a check of v has found copies that differ.  Called on the
 * client's host.
 */
void client_fail_if_differ (struct fp_volume *v);

#endif /* SIM_CLIENT_H */
