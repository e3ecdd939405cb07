/* SPDX-License-Identifier: BSD-3-Clause */
/* find_volume.h - the status socket of the volume that a command line means:
 * by the device, the name of one that is attached here, or by the socket of a
 * plugin that farpage did not start.
 */

#ifndef FARPAGE_FIND_VOLUME_H
#define FARPAGE_FIND_VOLUME_H

#include <stdbool.h>

#include "tools/common/state.h"

/* *out is arg, or path.  False: *status is the command's exit status, and it
 * was said why.
 */
bool find_volume (const char *command, const char *arg,
                  char path[STATE_PATH_MAX], const char **out, int *status);

#endif /* FARPAGE_FIND_VOLUME_H */
