/* SPDX-License-Identifier: BSD-3-Clause */
/* servers_change.h - farpage servers add, and remove: of a volume that is
 * used.
 */

#ifndef FARPAGE_SERVERS_CHANGE_H
#define FARPAGE_SERVERS_CHANGE_H

#include <stdbool.h>

/* argv[0] is "add" or "remove".  Returns an exit status. */
int servers_change (int argc, char *argv[]);
/* Is it one of the two? */
bool servers_is_change (const char *word);

#endif /* FARPAGE_SERVERS_CHANGE_H */
