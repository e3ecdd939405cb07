/* SPDX-License-Identifier: BSD-3-Clause */
/* service.h - the take-down of a device for the services of
 * farpage.service(7): at shutdown it waits for the users of the device.
 *
 * Threads:  no shared state.
 */

#ifndef FARPAGE_SERVICE_H
#define FARPAGE_SERVICE_H

#include <stdbool.h>

/* Return the exit status of a try.  stopping: systemd is shutting the machine
 * down.
 */
typedef int service_step (void *arg, bool stopping);

/* Call step, and return its exit status.  At shutdown the users of the device
 * go away by themselves.  So then call it again each second if it fails, at
 * most 120 times.
 */
int service_take_down (service_step *step, void *arg);

/* Return true if the unit's program has ended because its configuration is
 * wrong (exit status 2).  systemd does not start it again by itself.
 */
bool service_is_misconfigured (const char *unit);

#endif /* FARPAGE_SERVICE_H */
