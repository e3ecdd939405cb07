/* SPDX-License-Identifier: BSD-3-Clause */
/* tls_none.c - stubs for a build without GnuTLS.  There is never a struct
 * fp_tls, so functions that need one are never called.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>

#include "transport/tls.h"

int
fp_tls_new (struct fp_tls **out, const struct fp_tls_params *p, bool server,
            char why[FP_TLS_WHY_MAX])
{
  (void) server;
  *out = NULL;
  if (p->mode == FP_TLS_OFF)
    return 0;
  snprintf (why, FP_TLS_WHY_MAX,
            "tls: this was built without GnuTLS (Debian: libgnutls28-dev)");
  return -EOPNOTSUPP;
}

void
fp_tls_free (struct fp_tls *t)
{
  (void) t;
}

int
fp_tls_reload (struct fp_tls *t, const struct fp_tls_params *p,
               char why[FP_TLS_WHY_MAX])
{
  (void) t;
  (void) p;
  why[0] = '\0';
  return -EOPNOTSUPP;
}

enum fp_tls_mode
fp_tls_mode (const struct fp_tls *t)
{
  (void) t;
  return FP_TLS_OFF;
}

int
fp_tls_begin (struct fp_tls_session **out, struct fp_tls *t, int fd,
              const char *host)
{
  (void) t;
  (void) fd;
  (void) host;
  *out = NULL;
  return -EOPNOTSUPP;
}

void
fp_tls_end (struct fp_tls_session *s)
{
  (void) s;
}

int
fp_tls_handshake (struct fp_tls_session *s)
{
  (void) s;
  return -EOPNOTSUPP;
}

bool
fp_tls_is_stranger (const struct fp_tls_session *s)
{
  (void) s;
  return true;
}

const char *
fp_tls_why (const struct fp_tls_session *s)
{
  (void) s;
  return "";
}

short
fp_tls_wants (const struct fp_tls_session *s)
{
  (void) s;
  return 0;
}

ssize_t
fp_tls_send (struct fp_tls_session *s, const struct iovec *iov, size_t nr)
{
  (void) s;
  (void) iov;
  (void) nr;
  return -EOPNOTSUPP;
}

ssize_t
fp_tls_recv (struct fp_tls_session *s, const struct iovec *iov, size_t nr)
{
  (void) s;
  (void) iov;
  (void) nr;
  return -EOPNOTSUPP;
}

bool
fp_tls_pending (const struct fp_tls_session *s)
{
  (void) s;
  return false;
}

const char *
fp_tls_user (const struct fp_tls_session *s)
{
  (void) s;
  return "";
}
