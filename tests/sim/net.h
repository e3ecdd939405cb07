/* SPDX-License-Identifier: BSD-3-Clause */
/* net.h - the network between simulated hosts, and their stream sockets.
 *
 * A machine has the address 10.0.0.N.  Hosts (threads.h) are its processes: a
 * machine has one at a time.  Sockets of AF_INET are simulated; those of other
 * families are the kernel's.  An application has one end of a socketpair, so
 * that it can poll and read as usual.  The bytes that it sends are kept here,
 * and arrive at the other application's socketpair after a delay.
 *
 * A cut network loses nothing that is in a stream: TCP sends it again.  So it
 * arrives when the network is whole again, or the stream is reset after
 * NET_USER_TIMEOUT_S.
 *
 * Wrapped:  socket, bind, listen, accept4, connect, send, sendmsg, shutdown,
 *           close, getsockopt, setsockopt, getsockname, getpeername.
 * Limits:   an application that reads slowly is not told to its sender.
 * Threads:  the one that has the turn.
 */

#ifndef SIM_NET_H
#define SIM_NET_H

#include <stdbool.h>
#include <stdint.h>

#define NET_MACHINES 250u
#define NET_USER_TIMEOUT_S 15u

/* Start a process on a machine. */
void net_join (unsigned host, unsigned machine);
unsigned net_machine (unsigned host);

/* Return how long a packet takes, in ns: mostly tens of microseconds, and
 * sometimes as long as net_weather allows.
 */
uint64_t net_delay_ns (void);
/* One packet in `once` takes up to longest_ms; 0: none does. */
void net_weather (unsigned once, unsigned longest_ms);

/* Cut two machines off from each other, or undo one cut.  They are joined when
 * all cuts are undone.
 */
void net_cut (unsigned a, unsigned b, bool cut);
/* Return true if no packet gets from one to the other now: they are cut off,
 * or one has no power.
 */
bool net_is_cut (unsigned a, unsigned b);
/* Reset all streams between two machines. */
void net_reset (unsigned a, unsigned b);

/* End a process that was killed: its sockets are closed, and the others learn
 * that.  With power = false they do not, as the machine is off.  It is on
 * again with the next net_join.
 */
void net_kill (unsigned host, bool power);

#endif /* SIM_NET_H */
