/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/common/ask_server.h"

int
ask_why (const struct fp_ctl *c, int r, struct fp_error *error)
{
  if (r < 0)
    fp_fail (error, r, "%s", c ? fp_ctl_why (c) : strerror (-r));
  return r;
}

int
ask_parse (struct fp_addr *addr, const char *text, struct fp_error *error)
{
  const char *domain = strstr (text, ",domain="), *why;
  size_t n = domain != NULL ? (size_t) (domain - text) : strlen (text);
  char alone[FP_ADDR_MAX + 16];

  snprintf (alone, sizeof alone, "%.*s", (int) n, text);
  if (fp_addr_parse (addr, alone, &why) < 0)
    return fp_fail (error, -EINVAL, "%s: %s", text, why);
  return 0;
}

int
ask_begin (struct fp_ctl **out, const struct fp_addr *addr,
           struct fp_hello_reply *hello, struct fp_error *error)
{
  uint64_t deadline = fp_deadline_in_ms (ASK_MS);
  struct fp_hello q = { .version_min = FP_VERSION,
                        .version_max = FP_VERSION,
                        .transports = FP_TRANSPORT_WIRE_MASK,
                        .features = FP_FEATURE_DRAIN };
  struct fp_ctl *c = NULL;
  int r;

  snprintf (q.name, sizeof q.name, "farpage:%ld", (long) getpid ());
  r = fp_uuid_generate (&q.client);
  if (r == 0)
    r = fp_ctl_open (&c, addr, deadline);
  if (r == 0)
    r = fp_ctl_hello (c, &q, hello, deadline);
  if (r < 0) {
    ask_why (c, r, error);
    fp_ctl_free (c);
    return r;
  }
  *out = c;
  return 0;
}

void
ask_end (struct fp_ctl *c)
{
  if (!c)
    return;
  /* All answers are here.  If the server misses this, the lease ends the
   * session.
   */
  (void) fp_ctl_bye (c, &(struct fp_bye) { .discard = false },
                     fp_deadline_in_ms (ASK_MS));
  fp_ctl_free (c);
}

int
ask_all (const struct fp_addr *addr, struct ask_answer *a,
         struct fp_error *error)
{
  const struct fp_drain_req look = { .action = FP_DRAIN_LOOK };
  uint64_t deadline = fp_deadline_in_ms (ASK_MS);
  struct fp_ctl *c;
  int r = ask_begin (&c, addr, &a->hello, error);

  if (r < 0)
    return r;
  a->drain = (struct fp_drain_reply) { .drains = false };
  r = fp_ctl_stat (c, &a->stat, deadline);
  if (r == 0 && (a->hello.features & FP_FEATURE_DRAIN))
    r = fp_ctl_drain (c, &look, &a->drain, deadline);
  r = ask_why (c, r, error);
  ask_end (c);
  return r;
}
