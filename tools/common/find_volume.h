/* SPDX-License-Identifier: BSD-3-Clause */
/* find_volume.h - find the status socket of the volume that a command line
 * names.  The argument is a device, the name of a volume that is attached
 * here, or the socket of a plugin that farpage did not start.
 */

#ifndef FARPAGE_FIND_VOLUME_H
#define FARPAGE_FIND_VOLUME_H

#include <stdbool.h>

#include "tools/common/state.h"

/* Set *out to arg or to path.  On error print the reason, set *status to the
 * exit status of the command, and return false.
 */
bool find_volume (const char *command, const char *arg,
                  char path[STATE_PATH_MAX], const char **out, int *status);

#endif /* FARPAGE_FIND_VOLUME_H */
