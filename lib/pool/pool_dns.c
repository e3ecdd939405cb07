/* SPDX-License-Identifier: BSD-3-Clause */
/* pool_dns.c - the servers of a pool from DNS.
 *
 * Priority and weight of the records are ignored: a volume uses all servers of
 * its pool, and chooses among them by free memory.
 */

#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include <netinet/in.h>

#include <arpa/nameser.h>
#include <netdb.h>
#include <resolv.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "pool/pool.h"

/* Maximum size of a message over TCP, in bytes (RFC 1035, 4.2.2). */
#define ANSWER_MAX 65535
/* With up to three name servers a question takes at most 12 s over UDP.  Over
 * TCP the resolver has no deadline.
 */
#define SECONDS 2
#define TRIES 2
#define DEADLINE_MS 15000
/* RFC 2782: priority, weight, port, target. */
#define SRV_PORT 4
#define SRV_TARGET 6

struct answer {
  int n;   /* length, or -1 */
  int why; /* then h_errno, or NO_CONF */
  unsigned char bytes[ANSWER_MAX];
};
#define NO_CONF 1000
#define ANSWER_HEAD offsetof (struct answer, bytes)

/* Ask the name servers. */
static void
query (const char *name, struct answer *a)
{
  struct __res_state state;

  memset (&state, 0, sizeof state);
  a->n = -1;
  a->why = NO_CONF;
  if (res_ninit (&state) != 0)
    return;
  state.retrans = SECONDS;
  state.retry = TRIES;
  state.options |= RES_USE_EDNS0; /* more than 512 bytes without TCP */
  a->n = res_nquery (&state, name, ns_c_in, ns_t_srv, a->bytes, ANSWER_MAX);
  a->n = a->n < ANSWER_MAX ? a->n : ANSWER_MAX;
  a->why = state.res_h_errno;
  res_nclose (&state);
}

/* Read the child's answer until the child ends or the deadline passes. */
static int
receive (int fd, struct answer *a)
{
  uint64_t deadline = fp_deadline_in_ms (DEADLINE_MS);
  size_t got = 0;

  for (;;) {
    struct pollfd p = { .fd = fd, .events = POLLIN };
    ssize_t n;

    if (fp_deadline_passed (deadline))
      return -ETIMEDOUT;
    if (poll (&p, 1, fp_deadline_left_ms (deadline)) <= 0)
      continue;
    n = read (fd, (char *) a + got, sizeof *a - got);
    if (n == -1 && errno != EINTR)
      return -errno;
    if (n == 0) /* the end */
      return got >= ANSWER_HEAD &&
                     got - ANSWER_HEAD >= (size_t) FP_MAX (a->n, 0)
                 ? 0
                 : -EIO;
    got += n > 0 ? (size_t) n : 0;
  }
}

/* Ask in a child, which can be killed. */
static int
ask (const char *name, struct answer *a)
{
  int fds[2], r;
  pid_t pid;

  if (pipe2 (fds, O_CLOEXEC) == -1)
    return -errno;
  pid = fork ();
  if (pid == 0) {
    size_t n = ANSWER_HEAD, sent = 0;
    ssize_t w = 0;

    alarm (DEADLINE_MS / 1000 + 1); /* if the parent is killed */
    query (name, a);
    n += (size_t) FP_MAX (a->n, 0);
    while (sent < n && w >= 0) {
      w = write (fds[1], (char *) a + sent, n - sent);
      sent += w > 0 ? (size_t) w : 0;
    }
    _exit (0);
  }
  r = pid == -1 ? -errno : 0;
  close (fds[1]);
  if (r == 0)
    r = receive (fds[0], a);
  close (fds[0]);
  if (pid > 0) {
    kill (pid, SIGKILL);
    while (waitpid (pid, NULL, 0) == -1 && errno == EINTR)
      ;
  }
  return r;
}

/* A name server may send any byte in a name.  Some, such as ',', have a
 * meaning in server=.
 */
static bool
is_host (const char *s)
{
  for (; *s != '\0'; s++)
    if (!isalnum ((unsigned char) *s) && strchr ("._-", *s) == NULL)
      return false;
  return true;
}

static int
damaged (struct fp_error *error)
{
  return fp_fail (error, -EPROTO, "the name server's answer is damaged");
}

typedef char server[NS_MAXDNAME + 8];

/* Write the server of record i, or "" if it has none: the target "." means
 * that the domain has no server.
 */
static int
parse_record (server out, ns_msg *m, int i, struct fp_error *error)
{
  char target[NS_MAXDNAME];
  ns_rr rr;

  out[0] = '\0';
  if (ns_parserr (m, ns_s_an, i, &rr) != 0)
    return damaged (error);
  if (ns_rr_type (rr) != ns_t_srv)
    return 0; /* CNAME */
  if (ns_rr_rdlen (rr) <= SRV_TARGET ||
      dn_expand (ns_msg_base (*m), ns_msg_end (*m),
                 ns_rr_rdata (rr) + SRV_TARGET, target, sizeof target) < 0)
    return damaged (error);
  if (target[0] == '\0')
    return 0;
  if (!is_host (target) || ns_get16 (ns_rr_rdata (rr) + SRV_PORT) == 0)
    return fp_fail (error, -EPROTO,
                    "an SRV record has no valid host and port");
  snprintf (out, sizeof (server), "%s:%u", target,
            ns_get16 (ns_rr_rdata (rr) + SRV_PORT));
  return 0;
}

int
fp_pool_take_dns (const unsigned char *answer, size_t n, fp_pool_set *set,
                  void *arg, struct fp_error *error)
{
  FP_CLEANUP (fp_free) server *all = NULL;
  ns_msg m;
  int nr;

  if (ns_initparse (answer, (int) n, &m) != 0)
    return damaged (error);
  nr = ns_msg_count (m, ns_s_an);
  all = calloc ((size_t) nr + 1, sizeof *all);
  if (all == NULL)
    return fp_fail (error, -ENOMEM, "out of memory");
  for (int i = 0; i < nr; i++) {
    int k = 0, r = parse_record (all[i], &m, i, error);

    while (k < i && strcasecmp (all[k], all[i]) != 0)
      k++;
    /* A server may have several records, with different priorities. */
    if (r == 0 && k == i && all[i][0] != '\0')
      r = set (arg, "server", all[i], error);
    if (r < 0)
      return r;
  }
  return 0;
}

int
fp_pool_read_dns (const char *domain, fp_pool_set *set, void *arg,
                  struct fp_error *error)
{
  FP_CLEANUP (fp_free) struct answer *a = calloc (1, sizeof *a);
  char name[NS_MAXDNAME];
  int r;

  if (a == NULL)
    return fp_fail (error, -ENOMEM, "out of memory");
  if (snprintf (name, sizeof name, "_farpage._tcp.%s", domain) >=
      (int) sizeof name)
    return fp_fail (error, -EINVAL, "name too long");
  r = ask (name, a);
  if (r < 0)
    return fp_fail (error, r, "cannot look up SRV record %s: %s", name,
                    strerror (-r));
  if (a->n >= 0)
    return fp_pool_take_dns (a->bytes, (size_t) a->n, set, arg, error);
  if (a->why == HOST_NOT_FOUND || a->why == NO_DATA)
    return fp_fail (error, -ENOENT, "DNS has no SRV record %s", name);
  return fp_fail (error, -EIO, "cannot look up SRV record %s: %s", name,
                  a->why == NO_CONF ? "/etc/resolv.conf cannot be read"
                                    : hstrerror (a->why));
}
