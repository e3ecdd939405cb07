/* SPDX-License-Identifier: BSD-3-Clause */
/* status.c - the thread that answers and watches. */

#include <config.h>

#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "json.h"
#include "memory.h"

#define WATCH_MS 1000       /* between two looks at the volume */
#define ANSWER_MS 1000      /* a client that does not read is left alone */
#define ERRORS_MAX_LOOKS 60 /* between two reports of errors that go on */

struct fp_status_thread {
  char path[sizeof ((struct sockaddr_un *) 0)->sun_path]; /* "": none */
  int listen_fd;                                          /* or -1 */
  int stop_fd; /* eventfd, readable: stop */
  bool started;
  bool io_flusher;
  struct fp_thread thread;
  struct fp_volume *volume;

  /* The thread's. */
  struct fp_volume_status now;
  struct fp_server_status servers[FP_MAX_SERVERS];
  struct {
    enum fp_server_state state;
    unsigned transport;
  } logged[FP_MAX_SERVERS];
  uint64_t errors_logged;
  unsigned errors_wait; /* looks until errors are reported again */
  unsigned errors_next; /* and how many after that */
};

static int __attribute__ ((__format__ (__printf__, 3, 4)))
say (int r, char why[FP_WHY_MAX], const char *fmt, ...)
{
  va_list args;

  va_start (args, fmt);
  vsnprintf (why, FP_WHY_MAX, fmt, args);
  va_end (args);
  return r;
}

static int
unix_socket (const char *path, struct sockaddr_un *addr)
{
  int fd;

  memset (addr, 0, sizeof *addr);
  addr->sun_family = AF_UNIX;
  memcpy (addr->sun_path, path, strlen (path) + 1);
  fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return fd == -1 ? -errno : fd;
}

/* Remove what a plugin that was killed left at path. */
static int
remove_stale (const char *path, char *why)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  struct sockaddr_un addr;
  struct stat st;

  if (lstat (path, &st) == -1)
    return errno == ENOENT
               ? 0
               : say (-errno, why, "status=%s: %s", path, strerror (errno));
  if (!S_ISSOCK (st.st_mode))
    return say (-EEXIST, why, "status=%s: exists and is no socket", path);
  fd = unix_socket (path, &addr);
  if (fd < 0)
    return say (fd, why, "status=%s: %s", path, strerror (-fd));
  /* EAGAIN: somebody listens and is busy. */
  if (connect (fd, (struct sockaddr *) &addr, sizeof addr) == 0 ||
      errno != ECONNREFUSED)
    return say (-EADDRINUSE, why, "status=%s: another process answers there",
                path);
  if (unlink (path) == -1 && errno != ENOENT)
    return say (-errno, why, "status=%s: %s", path, strerror (errno));
  return 0;
}

/* Returns a listening socket. */
static int
make_socket (const char *path, char *why)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  struct sockaddr_un addr;
  mode_t saved;
  int r, ret;

  r = remove_stale (path, why);
  if (r < 0)
    return r;
  fd = unix_socket (path, &addr);
  if (fd < 0)
    return say (fd, why, "status=%s: %s", path, strerror (-fd));
  saved = umask (0177);
  r = bind (fd, (struct sockaddr *) &addr, sizeof addr) == -1 ? -errno : 0;
  umask (saved);
  if (r < 0)
    return say (r, why, "status=%s: %s", path, strerror (-r));
  if (listen (fd, SOMAXCONN) == -1) {
    r = -errno;
    unlink (path);
    return say (r, why, "status=%s: %s", path, strerror (-r));
  }
  ret = fd;
  fd = -1;
  return ret;
}

int
fp_status_check (const char *path, char why[FP_WHY_MAX])
{
  int fd = make_socket (path, why);

  if (fd < 0)
    return fd;
  close (fd);
  unlink (path);
  return 0;
}

int
fp_status_new (struct fp_status_thread **out, const char *path,
               char why[FP_WHY_MAX])
{
  struct fp_status_thread *s = calloc (1, sizeof *s);
  int r;

  if (s == NULL)
    return say (-ENOMEM, why, "status: %s", strerror (ENOMEM));
  s->listen_fd = -1;
  s->stop_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (s->stop_fd == -1) {
    r = say (-errno, why, "eventfd: %s", strerror (errno));
    fp_status_free (s);
    return r;
  }
  if (path[0] != '\0') {
    s->listen_fd = make_socket (path, why);
    if (s->listen_fd < 0) {
      r = s->listen_fd;
      fp_status_free (s);
      return r;
    }
    snprintf (s->path, sizeof s->path, "%s", path);
  }
  *out = s;
  return 0;
}

static void
look (struct fp_status_thread *s)
{
  fp_volume_status (s->volume, &s->now);
  for (unsigned i = 0; i < s->now.nr_servers; i++)
    fp_volume_server_status (s->volume, i, &s->servers[i]);
}

static void
log_server (const struct fp_server_status *s)
{
  const char *state = fp_server_state_name (s->state);
  const char *name = s->name[0] != '\0' ? s->name : "not known yet";

  if (s->state == FP_SERVER_UP)
    fp_log (FP_LOG_INFO,
            "server %s (%s): %s, transport %s, %" PRIu64 " of %" PRIu64
            " slabs free",
            s->addr, name, state,
            s->transport ? fp_transport_name (s->transport) : "none",
            s->slabs_free, s->slabs_total);
  else
    fp_log (FP_LOG_WARN, "server %s (%s): %s%s%s", s->addr, name, state,
            s->why[0] != '\0' ? ": " : "", s->why);
}

/* Errors are counted where they happen and reported here: at once, then
 * after 1, 2, 4, ... looks as long as they go on.
 */
static void
log_errors (struct fp_status_thread *s)
{
  uint64_t n = s->now.errors - s->errors_logged;

  if (s->errors_wait > 0) {
    s->errors_wait--;
    return;
  }
  if (n == 0) {
    s->errors_next = 0;
    return;
  }
  fp_log (FP_LOG_ERROR, "%" PRIu64 " requests failed (%" PRIu64 " in all)", n,
          s->now.errors);
  s->errors_logged = s->now.errors;
  s->errors_wait = s->errors_next;
  s->errors_next = s->errors_next == 0 ? 1 : s->errors_next * 2;
  if (s->errors_next > ERRORS_MAX_LOOKS)
    s->errors_next = ERRORS_MAX_LOOKS;
}

static void
watch (struct fp_status_thread *s)
{
  look (s);
  for (unsigned i = 0; i < s->now.nr_servers; i++) {
    const struct fp_server_status *server = &s->servers[i];

    /* On its way is no news: what it ends in is. */
    if (server->state == FP_SERVER_CONNECTING ||
        (server->state == s->logged[i].state &&
         server->transport == s->logged[i].transport))
      continue;
    s->logged[i].state = server->state;
    s->logged[i].transport = server->transport;
    log_server (server);
  }
  log_errors (s);
}

/* False: nobody can be answered now (no file descriptors, say). */
static bool
answer (struct fp_status_thread *s)
{
  FP_CLEANUP (fp_closep)
  int fd = accept4 (s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  FP_CLEANUP (fp_free) char *text = NULL;
  uint64_t deadline = fp_deadline_in_ms (ANSWER_MS);
  size_t length, sent = 0;

  if (fd == -1) /* it may have left already */
    return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
  look (s);
  text =
      fp_json_status (&s->now, s->servers, fp_memory_locked (), s->io_flusher);
  if (text == NULL)
    return false;
  length = strlen (text);
  while (sent < length) {
    ssize_t n = send (fd, text + sent, length - sent, MSG_NOSIGNAL);
    struct pollfd p = { .fd = fd, .events = POLLOUT };

    if (n >= 0)
      sent += (size_t) n;
    else if (errno != EAGAIN && errno != EINTR)
      break;
    else if (poll (&p, 1, fp_deadline_left_ms (deadline)) == 0)
      break;
  }
  return true;
}

static void
run (void *arg)
{
  struct fp_status_thread *s = arg;
  uint64_t next = fp_deadline_in_ms (WATCH_MS);
  int listen_fd = s->listen_fd; /* -1 is passed over by poll */

  for (;;) {
    struct pollfd p[2] = {
      { .fd = s->stop_fd, .events = POLLIN },
      { .fd = listen_fd, .events = POLLIN },
    };

    if (poll (p, 2, fp_deadline_left_ms (next)) == -1 && errno != EINTR)
      return;
    if (p[0].revents != 0)
      return;
    if (p[1].revents != 0 && !answer (s))
      listen_fd = -1; /* or this loop would spin */
    if (fp_deadline_passed (next)) {
      listen_fd = s->listen_fd;
      watch (s);
      next = fp_deadline_in_ms (WATCH_MS);
    }
  }
}

int
fp_status_start (struct fp_status_thread *s, struct fp_volume *volume,
                 bool io_flusher)
{
  int r;

  s->volume = volume;
  s->io_flusher = io_flusher;
  for (unsigned i = 0; i < FP_MAX_SERVERS; i++)
    s->logged[i].state = FP_SERVER_CONNECTING; /* so that each is said once */
  watch (s);
  r = fp_thread_create (&s->thread, "fp-status", run, s);
  if (r == 0)
    s->started = true;
  return r;
}

void
fp_status_free (struct fp_status_thread *s)
{
  uint64_t one = 1;

  if (s == NULL)
    return;
  if (s->started && write (s->stop_fd, &one, sizeof one) == sizeof one)
    fp_thread_join (&s->thread);
  if (s->listen_fd >= 0)
    close (s->listen_fd);
  if (s->path[0] != '\0')
    unlink (s->path);
  if (s->stop_fd >= 0)
    close (s->stop_fd);
  free (s);
}
