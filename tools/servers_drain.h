/* SPDX-License-Identifier: BSD-3-Clause */
/* servers_drain.h - farpage servers drain: empty a memory server. */

#ifndef FARPAGE_SERVERS_DRAIN_H
#define FARPAGE_SERVERS_DRAIN_H

#define SERVERS_DRAIN_MAX_S (7 * 86400) /* maximum of --deadline */

/* Run the command; argv[0] is "drain".  Return an exit status. */
int servers_drain (int argc, char *argv[]);

#endif /* FARPAGE_SERVERS_DRAIN_H */
