/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl.c - the table of control messages, and the steps that all share: check
 * that the message is allowed now, call its handler, send one reply.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/log.h"
#include "memserver/session/ctl.h"
#include "memserver/session/guard.h"
#include "memserver/session/session.h"
#include "transport/tls/tls.h"

enum {
  FRESH = 1u << SESSION_FRESH,
  READY = 1u << SESSION_READY,
  OPEN = 1u << SESSION_OPEN,
};

static const struct {
  ctl_handler *handler;
  unsigned states; /* set of states in which the message is allowed */
  bool changes;    /* changes the open volume */
} table[] = {
  [FP_MSG_HELLO] = { ctl_hello, FRESH, false },
  [FP_MSG_OPEN] = { ctl_open, READY | OPEN, false },
  [FP_MSG_LIST] = { ctl_list, OPEN, false },
  [FP_MSG_GRANT] = { ctl_grant, OPEN, true },
  [FP_MSG_LABEL] = { ctl_label, OPEN, true },
  [FP_MSG_RELEASE] = { ctl_release, OPEN, true },
  [FP_MSG_ZERO] = { ctl_zero, OPEN, true },
  [FP_MSG_PING] = { ctl_ping, READY | OPEN, false },
  [FP_MSG_BYE] = { ctl_bye, READY | OPEN, false },
  [FP_MSG_STAT] = { ctl_stat, READY | OPEN, false },
  [FP_MSG_DATA_HELLO] = { ctl_data_hello, FRESH, false },
  [FP_MSG_LOOKUP] = { ctl_lookup, READY | OPEN, false },
  [FP_MSG_MEMBERS] = { ctl_members, OPEN, true },
  [FP_MSG_MAP] = { ctl_map, OPEN, true },
  [FP_MSG_MAP_READ] = { ctl_map_read, OPEN, false },
  [FP_MSG_MAP_WRITE] = { ctl_map_write, OPEN, true },
  [FP_MSG_DELETE] = { ctl_delete, READY | OPEN, false },
  [FP_MSG_VOLUMES] = { ctl_volumes, READY | OPEN, false },
  [FP_MSG_TOKEN] = { ctl_token, READY | OPEN, false },
  [FP_MSG_JOIN] = { ctl_join, FRESH, false },
  [FP_MSG_DRAIN] = { ctl_drain, READY | OPEN, false },
};

/* Return true if the connection must use TLS, but does not. */
static bool
must_be_tls (const struct session *s)
{
  return s->state == SESSION_FRESH &&
         fp_tls_mode (s->sessions->tls) == FP_TLS_REQUIRE &&
         !conn_is_unix (s->conn) && !conn_is_tls (s->conn);
}

static int
run_handler (struct call *call)
{
  unsigned type = call->header->type;

  if (type >= sizeof table / sizeof table[0] || !table[type].handler)
    return ctl_fail (call, -EPROTO, "no such message: %u", type);
  if (!((1u << call->session->state) & table[type].states))
    return ctl_fail (call, -EPROTO, "%s is out of turn", fp_msg_name (type));
  if (must_be_tls (call->session))
    return ctl_fail (call, -EPERM,
                     "this server requires TLS (--tls require): give "
                     "tls-psk=FILE with its key, or tls-certificates=DIR");
  if (conn_is_joining (call->session->conn) != (type == FP_MSG_JOIN))
    return ctl_fail (call, -EPERM,
                     type == FP_MSG_JOIN
                         ? "JOIN needs a join token"
                         : "a join token can only fetch a key: run 'farpage "
                           "join', and give tls-psk=FILE with that key");
  /* HELLO itself names the versions, and looks the same in all of them. */
  if (type != FP_MSG_HELLO && call->header->version != FP_VERSION)
    return ctl_fail (call, -EPROTONOSUPPORT,
                     "this server speaks version %d of the protocol, not %u",
                     FP_VERSION, call->header->version);
  if (table[type].changes && guard_change (call) < 0)
    return -EPERM;
  return table[type].handler (call);
}

/* Count a message of this type that is answered with r. */
static void
count (struct sessions_counts *counts, unsigned type, int r)
{
  const size_t types = sizeof counts->requests / sizeof counts->requests[0];

  counts->requests[type < types ? type : 0]++;
  if (r < 0)
    counts->refused[FP_MIN (fp_status_from_errno (r),
                            (uint32_t) FP_STATUS_IO)]++;
}

void
ctl_dispatch (struct session *s)
{
  static struct fp_log_limit limit;
  struct call call = { .session = s, .header = conn_header (s->conn) };
  uint8_t *body = conn_reply_body (s->conn);
  int r;

  session_close_sent (s);
  fp_reader_init (&call.in, conn_body (s->conn), call.header->length);
  fp_writer_init (&call.out, body, FP_BODY_MAX);
  r = run_handler (&call);
  if (r == CTL_WAIT && session_wait (s) == 0)
    return;
  if (r == CTL_WAIT)
    r = -ENOMEM;
  session_waited (s);

  if (r == 0 && !fp_writer_ok (&call.out))
    r = -EMSGSIZE;
  count (&s->sessions->counts, call.header->type, r);
  if (r < 0) {
    if (call.why[0] == '\0')
      ctl_fail (&call, r, "%s: %s", fp_msg_name (call.header->type),
                r == -EPROTO ? "malformed" : strerror (-r));
    fp_log_limited (&limit, FP_LOG_INFO, "%s: %s refused: %s",
                    s->name[0] ? s->name : conn_address (s->conn),
                    fp_msg_name (call.header->type), call.why);
    call.nr_fds = 0;
    fp_writer_init (&call.out, body, FP_BODY_MAX);
    fp_enc_reason (&call.out, call.why);
    /* Close a connection that is out of step, or has no right to be here. */
    call.after =
        r == -EPROTO || s->state == SESSION_FRESH ? CONN_CLOSE : CONN_NEXT;
  }
  if (s->state != SESSION_FRESH)
    session_renew (s);
  conn_reply (s->conn, fp_status_from_errno (r),
              (uint32_t) (FP_BODY_MAX - call.out.left), call.fds, call.nr_fds,
              call.after);
}
