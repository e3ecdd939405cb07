/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl_tls.c - the client's end of a control connection: the TLS handshake,
 * before the first message.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "transport/control/ctl_int.h"

/* Handle a failed handshake.  Return 1 if the server does not speak TLS and
 * TLS is optional; else report the reason.
 */
static int
no_tls (struct fp_ctl *c, int err, bool required)
{
  if (err == -ETIMEDOUT)
    return fp_ctl_timed_out (c);
  if (!fp_tls_is_stranger (c->tls))
    return fp_ctl_broken (c, err, "%s", fp_tls_why (c->tls));
  /* An attacker on the network path can make it look so.  The documentation of
   * tls=on warns of that.
   */
  if (!required)
    return 1;
  return fp_ctl_broken (c, -EACCES,
                        "does not speak TLS (%s), but tls=require: is it a "
                        "farpage-memserver with --tls-psk or "
                        "--tls-certificates?",
                        fp_tls_why (c->tls));
}

int
fp_ctl_start_tls (struct fp_ctl *c, const char *host)
{
  struct fp_tls *t = fp_tls_client ();
  int r;

  /* A Unix socket needs no TLS: the kernel identifies the server, and the data
   * cannot be intercepted.
   */
  if (t == NULL || c->is_unix)
    return 0;
  c->asking = "the TLS handshake";
  r = fp_tls_begin (&c->tls, t, c->fd, host);
  if (r < 0)
    return fp_ctl_broken (c, r, "TLS: %s", strerror (-r));
  do {
    r = fp_tls_handshake (c->tls);
    if (r == -EAGAIN) {
      int waited = fp_ctl_wait (c->fd, fp_tls_wants (c->tls), c->deadline_ns);

      if (waited < 0)
        r = waited;
    }
  } while (r == -EAGAIN);
  if (r < 0)
    r = no_tls (c, r, fp_tls_mode (t) == FP_TLS_REQUIRE);
  if (r == 0)
    c->asking = NULL;
  return r;
}

void
fp_ctl_end_tls (struct fp_ctl *c)
{
  fp_tls_end (c->tls);
  c->tls = NULL;
}

struct fp_tls_session *
fp_ctl_steal_tls (struct fp_ctl *c)
{
  struct fp_tls_session *s = c->tls;

  c->tls = NULL;
  c->broken = true;
  return s;
}

const char *
fp_ctl_secured (const struct fp_ctl *c)
{
  return c->tls != NULL ? "tls" : c->is_local ? "local" : "insecure";
}
