/* SPDX-License-Identifier: BSD-3-Clause */
/* data.c - tcp data connections: one thread for each. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/thread.h"
#include "memserver/session/data.h"
#include "memserver/session/session.h"
#include "transport/tcp/tcp_server.h"
#include "transport/tls/tls.h"

struct data_conn {
  TAILQ_ENTRY (data_conn) entry;
  struct session *session; /* for the loop only */
  struct sessions *sessions;
  uint64_t session_id;
  bool read_only;
  uint32_t lane;
  int fd;
  struct fp_tls_session *tls; /* NULL: no TLS */
  struct fp_thread thread;
  struct note thread_ended;
  void (*ended) (struct session *s);
  int status;
};

static void *
get (void *ctx, uint64_t rkey, uint64_t raddr, uint32_t length, bool write,
     void **hold)
{
  struct data_conn *d = ctx;
  struct slab *s = pool_slab (d->sessions->pool, slab_index_of_key (rkey));
  void *addr;

  if (!s || (write && d->read_only))
    return NULL;
  addr = slab_hold (s, d->session_id, rkey, raddr, length);
  *hold = addr != NULL ? s : NULL;
  return addr;
}

static void
put (void *ctx, void *hold)
{
  struct data_conn *d = ctx;

  if (slab_unhold (hold))
    sessions_poke (d->sessions);
}

static void
serve (void *arg)
{
  struct data_conn *d = arg;
  const struct fp_tcp_memory memory = { .get = get, .put = put, .ctx = d };

  d->status = fp_tcp_serve (d->fd, d->tls, &memory, STALL_MS);
  mailbox_post (d->sessions->mailbox, &d->thread_ended);
}

static void
on_ended (struct note *note)
{
  struct data_conn *d =
      (struct data_conn *) ((char *) note -
                            offsetof (struct data_conn, thread_ended));
  void (*ended) (struct session * s) = d->ended;
  struct session *s = d->session;

  fp_thread_join (&d->thread);
  if (d->status < 0 && s->closing == CLOSING_NOT)
    fp_log (FP_LOG_INFO, "%s: a data connection ended: %s", s->name,
            strerror (-d->status));
  TAILQ_REMOVE (&s->data, d, entry);
  s->nr_data--;
  s->sessions->nr_data--;
  fp_tls_end (d->tls);
  close (d->fd);
  free (d);
  sessions_poke (s->sessions);
  ended (s);
}

int
data_start (struct session *s, uint32_t lane, int fd,
            struct fp_tls_session *tls, void (*ended) (struct session *s))
{
  struct data_conn *d = calloc (1, sizeof *d);
  int flags = fcntl (fd, F_GETFL), r;

  if (!d || flags < 0 || fcntl (fd, F_SETFL, flags & ~O_NONBLOCK) < 0) {
    fp_tls_end (tls);
    free (d);
    close (fd);
    return -ENOMEM;
  }
  d->session = s;
  d->sessions = s->sessions;
  d->session_id = s->id;
  d->read_only = s->read_only; /* final since OPEN, which came before */
  d->lane = lane;
  d->fd = fd;
  d->tls = tls;
  d->ended = ended;
  d->thread_ended.run = on_ended;
  r = fp_thread_create (&d->thread, "fp-data", serve, d);
  if (r < 0) {
    fp_tls_end (tls);
    close (fd);
    free (d);
    return r;
  }
  TAILQ_INSERT_TAIL (&s->data, d, entry);
  s->nr_data++;
  s->sessions->nr_data++;
  return 0;
}

bool
data_replace (struct session *s, uint32_t lane)
{
  struct data_conn *d;
  bool none = true;

  TAILQ_FOREACH (d, &s->data, entry)
  {
    if (d->lane != lane)
      continue;
    shutdown (d->fd, SHUT_RDWR);
    none = false;
  }
  return none;
}

void
data_stop_all (struct session *s)
{
  struct data_conn *d;

  TAILQ_FOREACH (d, &s->data, entry)
  shutdown (d->fd, SHUT_RDWR);
}
