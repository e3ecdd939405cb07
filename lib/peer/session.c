/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/size.h"
#include "peer/session.h"

static const unsigned preference[] = { FP_TRANSPORT_FAKE, FP_TRANSPORT_RDMA,
                                       FP_TRANSPORT_SHM, FP_TRANSPORT_TCP };

const struct fp_transport_ops *
fp_session_best (unsigned transports)
{
  for (unsigned i = 0; i < sizeof preference / sizeof preference[0]; i++) {
    if (transports & preference[i])
      return fp_transport_get (preference[i]);
  }
  return NULL;
}

static void
client_name (char out[FP_NAME_MAX + 1])
{
  char host[FP_NAME_MAX - 10];

  if (gethostname (host, sizeof host) == -1)
    strcpy (host, "unknown");
  host[sizeof host - 1] = '\0';
  snprintf (out, FP_NAME_MAX + 1, "%s:%d", host, (int) getpid ());
  if (!fp_name_ok (out))
    snprintf (out, FP_NAME_MAX + 1, "pid:%d", (int) getpid ());
}

/* Return the names as a list: "rdma, tcp". */
static const char *
names_of (unsigned transports, char *buf, size_t size)
{
  size_t n = 0;

  buf[0] = '\0';
  for (unsigned bit = 1; bit <= FP_TRANSPORT_FAKE; bit <<= 1) {
    if ((transports & bit) && n < size)
      n += (size_t) snprintf (buf + n, size - n, "%s%s", n > 0 ? ", " : "",
                              fp_transport_name (bit));
  }
  return n == 0 ? "none" : buf;
}

static int
choose (struct fp_session *s, const struct fp_volume_params *p,
        const char *where, struct fp_error *error)
{
  unsigned both = p->transports & s->hello.transports, here;
  char a[64], b[64];
  const char *reason = "";

  /* The fake transport is there if the user names it; no real donor offers
   * it.
   */
  s->transports = (fp_transports_available (both) | FP_TRANSPORT_FAKE) & both;
  if (s->transports != 0)
    return 0;
  here = fp_transports_available (p->transports) |
         (FP_TRANSPORT_FAKE & p->transports);
  if (here == 0) {
    /* The lowest bit stands for all that the user named. */
    const struct fp_transport_ops *ops =
        fp_transport_get (p->transports & -p->transports);

    if (ops != NULL)
      (void) ops->available (&reason); /* only for the reason */
    return fp_fail (error, -ENODEV, "transport %s cannot be used here: %s",
                    names_of (p->transports, a, sizeof a), reason);
  }
  return fp_fail (error, -EOPNOTSUPP,
                  "%s: no common transport: wanted %s, the server offers %s%s",
                  where, names_of (p->transports, a, sizeof a),
                  names_of (s->hello.transports, b, sizeof b),
                  p->transports == FP_TRANSPORT_SHM
                      ? " here (shm needs its unix:PATH address)"
                      : "");
}

int
fp_session_open (struct fp_session *s, const struct fp_volume_params *p,
                 const struct fp_addr *addr, const struct fp_uuid *client,
                 uint64_t deadline_ns, struct fp_error *error)
{
  char where[FP_ADDR_MAX + 1];
  struct fp_hello q = {
    /* A volume with one copy has no dirty log, and so needs no tails. */
    .features = FP_FEATURE_AHEAD | FP_FEATURE_DRAIN |
                (p->copies > 1 ? FP_FEATURE_TAIL | FP_FEATURE_LOST : 0),
    .version_min = FP_VERSION,
    .version_max = FP_VERSION,
    .transports = FP_TRANSPORT_WIRE_MASK,
  };
  int r;

  *s = (struct fp_session) { .ctl = NULL };
  error->text[0] = '\0';
  fp_addr_format (addr, where);
  client_name (q.name);
  if (client != NULL)
    q.client = *client;
  r = client != NULL ? 0 : fp_uuid_generate (&q.client);
  if (r == 0)
    r = fp_ctl_open (&s->ctl, addr, deadline_ns);
  if (r == 0)
    r = fp_ctl_hello (s->ctl, &q, &s->hello, deadline_ns);
  if (r < 0) {
    const char *text = s->ctl != NULL ? fp_ctl_why (s->ctl) : NULL;

    fp_fail (error, r, "%s: %s", where,
             text != NULL && text[0] != '\0' ? text : strerror (-r));
    goto fail;
  }

  if (p->slab_size != 0 && s->hello.slab_size != p->slab_size) {
    char theirs[FP_SIZE_STR_MAX], ours[FP_SIZE_STR_MAX];

    fp_format_size (s->hello.slab_size, theirs);
    fp_format_size (p->slab_size, ours);
    r = fp_fail (
        error, -EINVAL,
        "%s lends slabs of %s, not of %s: all servers of a volume must "
        "have the same slab size",
        where, theirs, ours);
    goto fail;
  }
  r = choose (s, p, where, error);
  if (r < 0)
    goto fail;
  return 0;

fail:
  fp_session_close (s);
  return r;
}

void
fp_session_close (struct fp_session *s)
{
  if (s->ctl != NULL)
    fp_ctl_free (s->ctl);
  s->ctl = NULL;
}

int
fp_session_data_addr (const struct fp_session *s,
                      const struct fp_transport_ops *ops,
                      const struct fp_addr *control, struct fp_addr *out)
{
  *out = *control;
  if (ops->bit != FP_TRANSPORT_RDMA)
    return 0;
  if (s->hello.nr_rdma == 0)
    return -ENODEV;
  /* Use the address of the control connection, if RDMA listens there too;
   * otherwise the first one that the donor names.
   */
  for (unsigned i = 0; i < s->hello.nr_rdma; i++) {
    struct fp_addr a;
    int r = fp_addr_parse (&a, s->hello.rdma[i], NULL);

    if (r < 0)
      return -EPROTO;
    if (fp_addr_is_wildcard (&a) && !control->is_unix) {
      out->port = a.port;
      return 0;
    }
    if (i == 0)
      *out = a;
    if (!control->is_unix && strcmp (a.host, control->host) == 0) {
      *out = a;
      return 0;
    }
  }
  return fp_addr_is_wildcard (out) ? -ENODEV : 0;
}

int
fp_session_conn_params (const struct fp_session *s,
                        const struct fp_volume_params *p,
                        const struct fp_transport_ops *ops,
                        const struct fp_addr *data, uint32_t lane,
                        struct fp_conn_params *cp, const char **said,
                        uint64_t deadline_ns)
{
  const struct fp_token_req q = { .lane = lane };
  struct fp_token token;
  int r;

  *cp = (struct fp_conn_params) {
    .addr = data,
    .session = s->hello.session,
    .lane = lane,
    .timeout_ms = p->timeout_ms,
  };
  if (ops->bit == FP_TRANSPORT_SHM)
    return 0;
  r = fp_ctl_token (s->ctl, &q, &token, deadline_ns);
  if (r == 0)
    memcpy (cp->token, token.token, sizeof cp->token);
  else if (fp_ctl_why (s->ctl)[0] != '\0')
    *said = fp_ctl_why (s->ctl);
  return r;
}

const char *
fp_session_conn_error (int err)
{
  return err == -EXDEV ? "over another RDMA device than the one in use: "
                         "a volume uses one at a time"
                       : strerror (-err);
}
