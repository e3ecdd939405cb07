/* SPDX-License-Identifier: BSD-3-Clause */
/* event_loop.c - see event_loop.h. */

#include <config.h>

#include <event2/event.h>
#include <stddef.h>

#include "memserver/event_loop.h"

enum { URGENT, ORDINARY, NR_PRIORITIES };

struct event_base *
event_loop_new (void)
{
  struct event_config *config = event_config_new ();
  struct event_base *base = NULL;

  if (!config)
    return NULL;
  if (event_config_set_max_dispatch_interval (config, NULL, EVENT_LOOP_TURN,
                                              ORDINARY) == 0)
    base = event_base_new_with_config (config);
  event_config_free (config);
  if (base && event_base_priority_init (base, NR_PRIORITIES) < 0) {
    event_base_free (base);
    return NULL;
  }
  return base;
}

void
event_loop_urgent (struct event *ev)
{
  /* This fails only if the event is active. */
  (void) event_priority_set (ev, URGENT);
}
