/* SPDX-License-Identifier: BSD-3-Clause */
/* alive.c - notify systemd of this server's state. */

#include <config.h>

#include <errno.h>
#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-daemon.h>

#include "memserver/alive.h"
#include "memserver/event_loop.h"

/* Notify from the event loop, not from a thread of its own: the watchdog must
 * notice a loop that hangs.
 */
static void
on_time (evutil_socket_t fd, short what, void *arg)
{
  (void) fd;
  (void) what;
  (void) arg;
  sd_notify (0, "WATCHDOG=1");
}

int
alive_start (struct event **out, struct event_base *base)
{
  struct timeval every;
  uint64_t us;

  *out = NULL;
  sd_notify (0, "READY=1");
  if (sd_watchdog_enabled (0, &us) <= 0)
    return 0;
  us /= 3; /* so that one may be late */
  every = (struct timeval) { .tv_sec = (time_t) (us / 1000000),
                             .tv_usec = (suseconds_t) (us % 1000000) };
  *out = event_new (base, -1, EV_PERSIST, on_time, NULL);
  if (!*out)
    return -ENOMEM;
  event_loop_urgent (*out);
  if (event_add (*out, &every) < 0) {
    event_free (*out);
    *out = NULL;
    return -ENOMEM;
  }
  return 0;
}

void
alive_drains (unsigned seconds)
{
  sd_notifyf (0,
              "STOPPING=1\nSTATUS=Clients move their memory to other "
              "servers\nEXTEND_TIMEOUT_USEC=%u000000",
              seconds);
}
