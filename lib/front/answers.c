/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include "front/answers.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define MAX_CONNS 32
#define ANSWER_MS 1000       /* then a client that does not read is dropped */
#define REQUEST_MS 1000      /* then a silent client gets the status */
#define DEAF_MS 1000         /* pause after accept4 failed */
#define REST_MAX (64 * 1024) /* bytes of unread input to discard */

struct conn {
  enum { FREE, READING, WAITING, CHANGING, WRITING } state;
  int fd;
  uint64_t deadline_ns; /* READING, WRITING */
  char line[FP_REQUEST_MAX + 1];
  size_t used;
  struct fp_request request; /* WAITING, CHANGING */
  uint64_t asked_ns;
  char *text; /* WRITING */
  size_t length, sent;
};

struct fp_answers {
  struct fp_answers_params p;
  struct conn conns[MAX_CONNS];
  uint64_t deaf_ns; /* no connection is accepted until then */
  int done_fd;      /* eventfd: the thread's change is done */
  struct fp_thread thread;
  struct conn *changing; /* NULL: there is no thread */

  /* Written by the change thread; read after it was joined. */
  int result;
  struct fp_error error;
};

static void
drop (struct conn *c)
{
  close (c->fd);
  free (c->text);
  *c = (struct conn) { .state = FREE, .fd = -1 };
}

/* ---- answers ---- */

static void
send_more (struct conn *c)
{
  while (c->sent < c->length) {
    ssize_t n =
        send (c->fd, c->text + c->sent, c->length - c->sent, MSG_NOSIGNAL);

    if (n >= 0)
      c->sent += (size_t) n;
    else if (errno == EAGAIN)
      return;
    else if (errno != EINTR)
      break;
  }
  drop (c);
}

/* Send text to the client.  Takes ownership of text; NULL: out of memory. */
static void
answer (struct conn *c, char *text)
{
  if (text == NULL) {
    drop (c);
    return;
  }
  c->state = WRITING;
  c->text = text;
  c->length = strlen (text);
  c->deadline_ns = fp_deadline_in_ms (ANSWER_MS);
  send_more (c);
}

/* ---- changes: at most FP_MAX_CHANGES; one more gets -EBUSY ---- */

/* Return the first change that was asked for after after_ns, or NULL. */
static struct conn *
next_change (struct fp_answers *a, uint64_t after_ns)
{
  struct conn *next = NULL;

  for (struct conn *c = a->conns; c < a->conns + MAX_CONNS; c++)
    if ((c->state == WAITING || c->state == CHANGING) &&
        c->asked_ns > after_ns &&
        (next == NULL || c->asked_ns < next->asked_ns))
      next = c;
  return next;
}

static unsigned
list_changes (struct fp_answers *a, struct fp_change changes[FP_MAX_CHANGES])
{
  uint64_t now = fp_now_ns ();
  unsigned n = 0;

  for (struct conn *c = next_change (a, 0); c != NULL && n < FP_MAX_CHANGES;
       c = next_change (a, c->asked_ns)) {
    snprintf (changes[n].what, sizeof changes[n].what, "%s",
              fp_request_name (c->request.kind));
    changes[n].addr[0] = '\0';
    if (fp_request_has_server (c->request.kind))
      fp_addr_format (&c->request.addr, changes[n].addr);
    changes[n++].ns = now - c->asked_ns;
  }
  return n;
}

static void
change_main (void *arg)
{
  struct fp_answers *a = arg;
  uint64_t one = 1;

  a->error.text[0] = '\0';
  a->result = fp_request_run (&a->changing->request, a->p.volume, &a->error);
  if (write (a->done_fd, &one, sizeof one) != sizeof one)
    abort (); /* impossible: the counter was 0 */
}

static void
begin_change (struct fp_answers *a)
{
  struct conn *c;
  int r;

  while (a->changing == NULL && (c = next_change (a, 0)) != NULL) {
    a->changing = c;
    c->state = CHANGING;
    r = fp_thread_create (&a->thread, "fp-change", change_main, a);
    if (r == 0)
      return;
    a->changing = NULL;
    answer (c, fp_json_result (r, "cannot create a thread"));
  }
}

static void
end_change (struct fp_answers *a)
{
  struct conn *c = a->changing;
  uint64_t n;

  if (read (a->done_fd, &n, sizeof n) != sizeof n)
    return;
  if (fp_thread_join (&a->thread) < 0)
    abort (); /* joined twice: a bug */
  a->changing = NULL;
  a->p.changed (a->p.opaque);
  answer (c, fp_json_result (a->result, a->error.text));
  begin_change (a);
}

static void
ask_change (struct fp_answers *a, struct conn *c, const struct fp_request *q)
{
  struct fp_change all[FP_MAX_CHANGES];

  if (list_changes (a, all) == FP_MAX_CHANGES) {
    answer (c, fp_json_result (-EBUSY, "too many changes are waiting: try "
                                       "again later"));
    return;
  }
  c->state = WAITING;
  c->request = *q;
  c->asked_ns = fp_now_ns ();
  /* Make asked_ns unique, so that next_change finds each change. */
  for (struct conn *o = a->conns; o < a->conns + MAX_CONNS; o++)
    if (o != c && o->asked_ns >= c->asked_ns)
      c->asked_ns = o->asked_ns + 1;
  begin_change (a);
}

/* ---- requests ---- */

/* Answer the request: all of it has come, or no more of it will. */
static void
reply (struct fp_answers *a, struct conn *c)
{
  struct fp_request q = { .kind = FP_REQUEST_STATUS };
  struct fp_change changes[FP_MAX_CHANGES];
  char rest[256];
  struct fp_error error = { .text = "" };
  int r = 0;

  c->line[c->used] = '\0';
  c->line[strcspn (c->line, "\n")] = '\0';
  /* Discard the rest of the input: if some is unread at close, the client gets
   * a reset instead of the answer.
   */
  for (size_t n = 0; n < REST_MAX; n += sizeof rest)
    if (recv (c->fd, rest, sizeof rest, 0) <= 0)
      break;
  if (c->line[0] != '\0')
    r = fp_request_parse (&q, c->line, &error);
  if (r < 0)
    answer (c, fp_json_result (r, error.text));
  else if (q.kind == FP_REQUEST_METRICS)
    answer (c, a->p.metrics (a->p.opaque));
  else if (q.kind == FP_REQUEST_STATUS)
    answer (c,
            a->p.document (a->p.opaque, changes, list_changes (a, changes)));
  else
    ask_change (a, c, &q);
}

static void
read_more (struct fp_answers *a, struct conn *c)
{
  ssize_t n = recv (c->fd, c->line + c->used, FP_REQUEST_MAX - c->used, 0);

  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n > 0)
    c->used += (size_t) n;
  if (n <= 0 || memchr (c->line, '\n', c->used) != NULL ||
      c->used == FP_REQUEST_MAX)
    reply (a, c);
}

static struct conn *
free_conn (struct fp_answers *a)
{
  for (struct conn *c = a->conns; c < a->conns + MAX_CONNS; c++)
    if (c->state == FREE)
      return c;
  return NULL;
}

static void
take (struct fp_answers *a)
{
  struct conn *c = free_conn (a);
  int fd = accept4 (a->p.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

  /* The client may have hung up already.  Any other error (no file descriptors
   * left, for example) is likely to last: wait, or this loop would spin.
   */
  if (fd == -1 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
    a->deaf_ns = fp_deadline_in_ms (DEAF_MS);
  if (fd == -1)
    return;
  *c = (struct conn) { .state = READING,
                       .fd = fd,
                       .deadline_ns = fp_deadline_in_ms (REQUEST_MS) };
  read_more (a, c);
}

/* ---- the loop ---- */

static int
wait_ms (struct fp_answers *a, uint64_t until_ns)
{
  for (const struct conn *c = a->conns; c < a->conns + MAX_CONNS; c++)
    if ((c->state == READING || c->state == WRITING) &&
        c->deadline_ns < until_ns)
      until_ns = c->deadline_ns;
  return fp_deadline_left_ms (until_ns);
}

static void
run_conn (struct fp_answers *a, struct conn *c, bool ready)
{
  if (c->state == READING && ready)
    read_more (a, c);
  else if (c->state == WRITING && ready)
    send_more (c);
  if (c->state == READING && fp_deadline_passed (c->deadline_ns))
    reply (a, c);
  else if (c->state == WRITING && fp_deadline_passed (c->deadline_ns))
    drop (c);
}

bool
fp_answers_serve (struct fp_answers *a, int stop_fd, uint64_t until_ns)
{
  enum { STOP, DONE, LISTEN, CONNS };
  struct pollfd p[CONNS + MAX_CONNS];

  do {
    /* poll skips an fd of -1. */
    bool deaf = free_conn (a) == NULL || !fp_deadline_passed (a->deaf_ns);

    p[STOP] = (struct pollfd) { .fd = stop_fd, .events = POLLIN };
    p[DONE] = (struct pollfd) { .fd = a->done_fd, .events = POLLIN };
    p[LISTEN] =
        (struct pollfd) { .fd = deaf ? -1 : a->p.listen_fd, .events = POLLIN };
    for (unsigned i = 0; i < MAX_CONNS; i++) {
      const struct conn *c = &a->conns[i];
      bool waits = c->state != READING && c->state != WRITING;

      p[CONNS + i] = (struct pollfd) {
        .fd = waits ? -1 : c->fd,
        .events = c->state == READING ? POLLIN : POLLOUT,
      };
    }
    if (poll (p, CONNS + MAX_CONNS, wait_ms (a, until_ns)) == -1) {
      if (errno == EINTR)
        continue;
      return false;
    }
    if (p[STOP].revents != 0)
      return false;
    for (unsigned i = 0; i < MAX_CONNS; i++)
      run_conn (a, &a->conns[i], p[CONNS + i].revents != 0);
    if (p[DONE].revents != 0)
      end_change (a);
    if (p[LISTEN].revents != 0)
      take (a);
  } while (!fp_deadline_passed (until_ns));
  return true;
}

int
fp_answers_new (struct fp_answers **out, const struct fp_answers_params *p)
{
  struct fp_answers *a = calloc (1, sizeof *a);

  if (a == NULL)
    return -ENOMEM;
  a->p = *p;
  for (unsigned i = 0; i < MAX_CONNS; i++)
    a->conns[i].fd = -1;
  a->done_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (a->done_fd == -1) {
    int r = -errno;

    free (a);
    return r;
  }
  *out = a;
  return 0;
}

void
fp_answers_free (struct fp_answers *a)
{
  if (a == NULL)
    return;
  if (a->changing != NULL && fp_thread_join (&a->thread) < 0)
    abort (); /* joined twice: a bug */
  for (unsigned i = 0; i < MAX_CONNS; i++)
    if (a->conns[i].state != FREE)
      drop (&a->conns[i]);
  close (a->done_fd);
  free (a);
}
