/* SPDX-License-Identifier: BSD-3-Clause */
/* servers_change.h - farpage servers add and remove: change the servers of a
 * volume that is used.
 */

#ifndef FARPAGE_SERVERS_CHANGE_H
#define FARPAGE_SERVERS_CHANGE_H

#include <stdbool.h>

/* Run the command argv[0], "add" or "remove".  Return an exit status. */
int servers_change (int argc, char *argv[]);
/* Return true if word is "add" or "remove". */
bool servers_is_change (const char *word);

#endif /* FARPAGE_SERVERS_CHANGE_H */
