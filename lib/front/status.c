/* SPDX-License-Identifier: BSD-3-Clause */
/* status.c - the thread that answers (answers.h) and watches. */

#include <config.h>

#include "front/status.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
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
#include "base/error.h"
#include "base/log.h"
#include "base/size.h"
#include "base/thread.h"
#include "front/answers.h"
#include "front/json.h"
#include "front/memory.h"
#include "front/metrics.h"

#define WATCH_MS 1000       /* between two looks at the volume */
#define ERRORS_MAX_LOOKS 60 /* between two reports of ongoing errors */

struct fp_status_thread {
  char path[sizeof ((struct sockaddr_un *) 0)->sun_path]; /* "": none */
  int listen_fd;                                          /* or -1 */
  int stop_fd; /* eventfd, readable: stop */
  bool started;
  bool io_flusher;
  struct fp_thread thread;
  struct fp_volume *volume;
  struct fp_answers *answers;
  struct fp_metrics *metrics;

  /* Used only by the thread, once it runs. */
  /* look sets the servers of all places, those that are gone, too. */
  struct fp_status_doc now;
  char title[FP_NAME_MAX + 1]; /* name of the volume, or its UUID */
  struct {
    enum fp_server_state state;
    unsigned transport;
    bool left_out, joining, gone;
    enum fp_drain_state drain;
    bool wanted, stuck; /* see log_reclaim */
  } logged[FP_MAX_SERVERS];
  bool fenced_logged, frozen_logged;
  uint64_t lost_logged;
  bool degraded_logged;
  bool unclean_logged;
  uint64_t check_logged; /* number of the last check whose end was logged */
  uint64_t wrong_logged, unreadable_logged;
  uint64_t errors_logged;
  unsigned errors_wait; /* looks until errors are reported again */
  unsigned errors_next; /* looks to wait after the next report */
};

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

/* Remove the socket file that a killed plugin left at path. */
static int
remove_stale (const char *path, struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  struct sockaddr_un addr;
  struct stat st;

  if (lstat (path, &st) == -1)
    return errno == ENOENT ? 0
                           : fp_fail (error, -errno, "status=%s: %s", path,
                                      strerror (errno));
  if (!S_ISSOCK (st.st_mode))
    return fp_fail (error, -EEXIST, "status=%s: exists and is not a socket",
                    path);
  fd = unix_socket (path, &addr);
  if (fd < 0)
    return fp_fail (error, fd, "status=%s: %s", path, strerror (-fd));
  /* EAGAIN: a process listens there and is busy. */
  if (connect (fd, (struct sockaddr *) &addr, sizeof addr) == 0 ||
      errno != ECONNREFUSED)
    return fp_fail (error, -EADDRINUSE,
                    "status=%s: another process answers there", path);
  if (unlink (path) == -1 && errno != ENOENT)
    return fp_fail (error, -errno, "status=%s: %s", path, strerror (errno));
  return 0;
}

/* Return a listening socket. */
static int
make_socket (const char *path, struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  struct sockaddr_un addr;
  mode_t saved;
  int r, ret;

  r = remove_stale (path, error);
  if (r < 0)
    return r;
  fd = unix_socket (path, &addr);
  if (fd < 0)
    return fp_fail (error, fd, "status=%s: %s", path, strerror (-fd));
  saved = umask (0177);
  r = bind (fd, (struct sockaddr *) &addr, sizeof addr) == -1 ? -errno : 0;
  umask (saved);
  if (r < 0)
    return fp_fail (error, r, "status=%s: %s", path, strerror (-r));
  if (listen (fd, SOMAXCONN) == -1) {
    r = -errno;
    unlink (path);
    return fp_fail (error, r, "status=%s: %s", path, strerror (-r));
  }
  ret = fd;
  fd = -1;
  return ret;
}

int
fp_status_check (const char *path, struct fp_error *error)
{
  int fd = make_socket (path, error);

  if (fd < 0)
    return fd;
  close (fd);
  unlink (path);
  return 0;
}

int
fp_status_new (struct fp_status_thread **out, const char *path,
               struct fp_error *error)
{
  struct fp_status_thread *s = calloc (1, sizeof *s);
  int r;

  if (s == NULL)
    return fp_fail (error, -ENOMEM, "status: %s", strerror (ENOMEM));
  s->listen_fd = -1;
  s->metrics = fp_metrics_new ();
  s->stop_fd =
      s->metrics != NULL ? eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
  if (s->stop_fd == -1) {
    r = fp_fail (error, -errno, "status: %s", strerror (errno));
    fp_status_free (s);
    return r;
  }
  if (path[0] != '\0') {
    s->listen_fd = make_socket (path, error);
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
  char uuid[FP_UUID_STR_MAX];

  fp_volume_status (s->volume, &s->now.volume);
  fp_uuid_format (&s->now.volume.uuid, uuid);
  snprintf (s->title, sizeof s->title, "%s",
            s->now.volume.name[0] != '\0' ? s->now.volume.name : uuid);
  for (unsigned i = 0; i < s->now.volume.nr_servers; i++)
    fp_volume_server_status (s->volume, i, &s->now.servers[i]);
}

static void
log_server (const struct fp_server_status *s)
{
  const char *state = fp_server_state_name (s->state);
  const char *name = s->name[0] != '\0' ? s->name : "name unknown";

  if (s->state == FP_SERVER_UP)
    fp_log (FP_LOG_INFO,
            "server %s (%s): %s, transport %s, control %s, %" PRIu64
            " of %" PRIu64 " slabs free",
            s->addr, name, state,
            s->transport ? fp_transport_name (s->transport) : "none",
            s->control[0] != '\0' ? s->control : "none", s->slabs_free,
            s->slabs_total);
  else
    fp_log (FP_LOG_WARN, "server %s (%s): %s%s%s", s->addr, name, state,
            s->why[0] != '\0' ? ": " : "", s->why);
}

static void
log_drain (const struct fp_server_status *s)
{
  switch (s->drain.state) {
  case FP_DRAIN_NONE:
    fp_log (FP_LOG_INFO, "server %s: drain cancelled", s->addr);
    return;
  case FP_DRAIN_MOVING:
    fp_log (FP_LOG_INFO, "server %s: draining: %" PRIu64 " extents to move",
            s->addr, s->drain.left);
    return;
  case FP_DRAIN_DONE:
    fp_log (FP_LOG_INFO, "server %s: drained: it holds no extents", s->addr);
    return;
  }
}

/* Log a server's request for slabs: when it begins, when there is no place for
 * their contents, and when it is over.
 */
static void
log_reclaim (const struct fp_server_status *s, bool *wanted, bool *stuck)
{
  const struct fp_reclaim_status *g = &s->reclaim;

  if (g->wanted > 0 && !*wanted)
    fp_log (FP_LOG_INFO,
            "server %s: %s: it asked for %" PRIu64
            " slabs back; moving extents to other servers",
            s->addr,
            g->draining ? "it is being drained"
                        : "its host is short of memory",
            g->wanted);
  if (g->why[0] != '\0' && !*stuck)
    fp_log (FP_LOG_WARN,
            "server %s: it asked for %" PRIu64 " slabs back, which cannot be "
            "moved: %s",
            s->addr, g->wanted, g->why);
  if (g->wanted == 0 && *wanted)
    fp_log (FP_LOG_INFO,
            "server %s: it asks for no more slabs; %" PRIu64
            " extents moved to other servers for it so far",
            s->addr, g->reclaimed);
  *wanted = g->wanted > 0;
  *stuck = *wanted && (*stuck || g->why[0] != '\0');
}

/* Report errors, which are counted where they happen: at once, then after 1,
 * 2, 4, ... looks while they go on, at most ERRORS_MAX_LOOKS.
 */
static void
log_errors (struct fp_status_thread *s)
{
  uint64_t n = s->now.volume.errors - s->errors_logged;

  if (s->errors_wait > 0) {
    s->errors_wait--;
    return;
  }
  if (n == 0) {
    s->errors_next = 0;
    return;
  }
  fp_log (FP_LOG_ERROR, "%" PRIu64 " requests failed (%" PRIu64 " in all)", n,
          s->now.volume.errors);
  s->errors_logged = s->now.volume.errors;
  s->errors_wait = s->errors_next;
  s->errors_next = s->errors_next == 0 ? 1 : s->errors_next * 2;
  if (s->errors_next > ERRORS_MAX_LOOKS)
    s->errors_next = ERRORS_MAX_LOOKS;
}

static void
log_fenced (struct fp_status_thread *s)
{
  if (!s->fenced_logged)
    fp_log (FP_LOG_ERROR,
            "fenced: another client has taken the volume%s%s over: all "
            "requests fail from now on%s%s",
            s->now.volume.name[0] != '\0' ? " " : "", s->now.volume.name,
            s->now.volume.fenced_by[0] != '\0' ? ": " : "",
            s->now.volume.fenced_by);
  s->fenced_logged = true;
}

/* Log which servers of a named volume lack changes of its metadata log. */
static void
log_members (struct fp_status_thread *s)
{
  if (s->now.volume.members_version == 0)
    return;
  if (s->now.volume.frozen && !s->frozen_logged)
    fp_log (FP_LOG_WARN,
            "volume %s: frozen: half or more of its up-to-date servers were "
            "down when it was attached: no memory is allocated or given back, "
            "and only extents that the other servers have can be used: attach "
            "it again when more are up",
            s->title);
  s->frozen_logged = s->now.volume.frozen;
  for (unsigned i = 0; i < s->now.volume.nr_servers; i++) {
    const struct fp_server_status *server = &s->now.servers[i];
    bool joining = server->joining, left_out = !server->current && !joining;

    if (server->gone)
      continue;
    /* A NEW server that is removed is no longer joining, and never current. */
    if (s->logged[i].joining && !joining && server->current)
      fp_log (FP_LOG_INFO, "volume %s: server %s is a full member now",
              s->title, server->addr);
    s->logged[i].joining = joining;
    if (left_out != s->logged[i].left_out)
      fp_log (left_out ? FP_LOG_WARN : FP_LOG_INFO, "volume %s: server %s %s",
              s->title, server->addr,
              left_out ? "is stale: it has missed changes"
                       : "is up to date again");
    s->logged[i].left_out = left_out;
  }
}

/* Log that more extents are lost.  The number never falls by itself, and no
 * request may have met the loss so far.
 */
static void
log_lost (struct fp_status_thread *s)
{
  bool named = s->now.volume.name[0] != '\0';

  if (s->now.volume.extents_lost > s->lost_logged)
    fp_log (FP_LOG_WARN,
            "%s%s%s%" PRIu64 " of %" PRIu64
            " extents are lost: reads and writes of them fail",
            named ? "volume " : "", s->now.volume.name, named ? ": " : "",
            s->now.volume.extents_lost, s->now.volume.extents);
  s->lost_logged = s->now.volume.extents_lost;
}

/* Log once when copies are missing, and once when all are there again. */
static void
log_degraded (struct fp_status_thread *s)
{
  bool degraded = s->now.volume.extents_degraded > 0;
  char size[FP_SIZE_STR_MAX];

  if (degraded != s->degraded_logged && degraded) {
    fp_format_size (s->now.volume.bytes_to_resync, size);
    fp_log (FP_LOG_WARN,
            "volume %s: %" PRIu64 " of %" PRIu64
            " extents have fewer than %u copies: %s left to copy",
            s->title, s->now.volume.extents_degraded, s->now.volume.extents,
            s->now.volume.copies, size);
  }
  else if (degraded != s->degraded_logged) {
    fp_log (FP_LOG_INFO, "volume %s: all extents have %u copies again",
            s->title, s->now.volume.copies);
  }
  s->degraded_logged = degraded;
}

/* Log once that the last client died; this is known from the start. */
static void
log_unclean (struct fp_status_thread *s)
{
  char some[FP_SIZE_STR_MAX], all[FP_SIZE_STR_MAX];

  if (!s->now.volume.unclean || s->unclean_logged)
    return;
  s->unclean_logged = true;
  fp_format_size (s->now.volume.resync_bytes, some);
  fp_format_size (s->now.volume.resync_of, all);
  fp_log (FP_LOG_INFO,
          "volume %s: its last client did not detach cleanly: copies may "
          "differ in %s of %s: resyncing them",
          s->title, some, all);
}

/* Log the end of a check.  The start needs no line: a user asked for it. */
static void
log_check (struct fp_status_thread *s)
{
  const struct fp_check_status *c = &s->now.volume.check;
  const char *ended = c->state == FP_CHECK_DONE ? "" : " (incomplete)";

  if (c->state == FP_CHECK_RUNNING || c->number == s->check_logged)
    return;
  s->check_logged = c->number;
  fp_log (c->differ > 0 ? FP_LOG_WARN : FP_LOG_INFO,
          "volume %s: check%s: %" PRIu64 " blocks compared, %" PRIu64
          " differ, %" PRIu64 " of them repaired",
          s->title, ended, c->compared, c->differ, c->repaired);
}

/* Log blocks that failed verification: one line per look. */
static void
log_wrong (struct fp_status_thread *s)
{
  const struct fp_seal_status *seal = &s->now.volume.seal;

  if (seal->wrong == s->wrong_logged)
    return;
  fp_log (seal->unreadable > s->unreadable_logged ? FP_LOG_ERROR : FP_LOG_WARN,
          "%" PRIu64 " blocks failed verification; %" PRIu64
          " of them repaired from another copy; %" PRIu64
          " reads found no valid copy",
          seal->wrong, seal->repaired, seal->unreadable);
  s->wrong_logged = seal->wrong;
  s->unreadable_logged = seal->unreadable;
}

/* Log that server i joined or left.  Return false if it is gone.  Then forget
 * what was logged for it, because another server may get its place.
 */
static bool
log_membership (struct fp_status_thread *s, unsigned i)
{
  const struct fp_server_status *server = &s->now.servers[i];

  if (server->gone && !s->logged[i].gone) {
    fp_log (FP_LOG_INFO, "server %s: it has left the volume", server->addr);
    memset (&s->logged[i], 0, sizeof s->logged[i]);
    s->logged[i].state = FP_SERVER_CONNECTING;
  }
  else if (!server->gone &&
           (s->logged[i].gone || (server->joining && !s->logged[i].joining)))
    fp_log (FP_LOG_INFO, "server %s: it joins the volume", server->addr);
  s->logged[i].gone = server->gone;
  return !server->gone;
}

static void
watch (struct fp_status_thread *s)
{
  look (s);
  if (s->now.volume.fenced) {
    log_fenced (s);
    return; /* after that the servers' state does not matter */
  }
  for (unsigned i = 0; i < s->now.volume.nr_servers; i++) {
    const struct fp_server_status *server = &s->now.servers[i];

    if (!log_membership (s, i))
      continue;
    if (server->drain.state != s->logged[i].drain) {
      s->logged[i].drain = server->drain.state;
      log_drain (server);
    }
    log_reclaim (server, &s->logged[i].wanted, &s->logged[i].stuck);
    /* Do not log that a connection is being made, only its outcome. */
    if (server->state == FP_SERVER_CONNECTING ||
        (server->state == s->logged[i].state &&
         server->transport == s->logged[i].transport))
      continue;
    s->logged[i].state = server->state;
    s->logged[i].transport = server->transport;
    log_server (server);
  }
  log_members (s);
  log_lost (s);
  log_unclean (s);
  log_degraded (s);
  log_check (s);
  log_wrong (s);
  log_errors (s);
}

/* Return true if the threads that I/O waits for have real-time priority.  They
 * run as the first thread does; base/thread.h says which do not.
 */
static bool
realtime (void)
{
  int policy = sched_getscheduler (getpid ());

  return policy == SCHED_FIFO || policy == SCHED_RR;
}

static char *
document (void *opaque, const struct fp_change *changes, unsigned nr)
{
  struct fp_status_thread *s = opaque;
  struct fp_status_doc *now = &s->now;

  look (s);
  now->version = FP_STATUS_VERSION;
  now->pid = (uint64_t) getpid ();
  now->io_flusher = s->io_flusher;
  now->realtime = realtime ();
  now->locked_bytes = fp_memory_locked ();
  now->nr_servers = 0;
  for (unsigned i = 0; i < now->volume.nr_servers; i++)
    if (!now->servers[i].gone)
      now->servers[now->nr_servers++] = now->servers[i];
  memcpy (now->changes, changes, nr * sizeof changes[0]);
  now->nr_changes = nr;
  return fp_json_status (now);
}

static char *
metrics (void *opaque)
{
  struct fp_status_thread *s = opaque;

  return fp_metrics_page (s->metrics, s->volume, s->io_flusher);
}

static void
changed (void *opaque)
{
  watch (opaque);
}

static void
run (void *arg)
{
  struct fp_status_thread *s = arg;

  fp_thread_step_aside ();
  while (
      fp_answers_serve (s->answers, s->stop_fd, fp_deadline_in_ms (WATCH_MS)))
    watch (s);
}

int
fp_status_start (struct fp_status_thread *s, struct fp_volume *volume,
                 bool io_flusher)
{
  struct fp_answers_params p;
  int r;

  s->volume = volume;
  s->io_flusher = io_flusher;
  look (s);
  for (unsigned i = 0; i < FP_MAX_SERVERS; i++) {
    /* So that watch logs each server once. */
    s->logged[i].state = FP_SERVER_CONNECTING;
    s->logged[i].gone = i >= s->now.volume.nr_servers;
  }
  watch (s);
  p = (struct fp_answers_params) { .listen_fd = s->listen_fd,
                                   .volume = volume,
                                   .opaque = s,
                                   .document = document,
                                   .metrics = metrics,
                                   .changed = changed };
  r = fp_answers_new (&s->answers, &p);
  if (r == 0)
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
  fp_answers_free (s->answers);
  fp_metrics_free (s->metrics);
  if (s->listen_fd >= 0)
    close (s->listen_fd);
  if (s->path[0] != '\0')
    unlink (s->path);
  if (s->stop_fd >= 0)
    close (s->stop_fd);
  free (s);
}
