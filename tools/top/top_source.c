/* SPDX-License-Identifier: BSD-3-Clause */
/* top_source.c - ask plugins and servers, and keep their answers. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "tools/common/ask_server.h"
#include "tools/common/deadline.h"
#include "tools/common/device.h"
#include "tools/common/plugin_status.h"
#include "tools/common/state.h"
#include "tools/top/top.h"

static int
ask_plugin (const char *path, struct fp_status_doc *doc,
            struct fp_error *error)
{
  FP_CLEANUP (fp_free) struct fp_status_doc *now = NULL;
  int r = plugin_status_read (&now, path, error);

  if (r == 0)
    *doc = *now;
  return r;
}

static int
ask_server (const struct fp_addr *addr, struct top_server *s,
            struct fp_error *error)
{
  FP_CLEANUP (fp_free) struct fp_stat_reply *stat = calloc (1, sizeof *stat);
  FP_CLEANUP (fp_free)
  struct fp_hello_reply *hello = calloc (1, sizeof *hello);
  struct fp_ctl *c = NULL;
  int r;

  if (!stat || !hello)
    return fp_fail (error, -ENOMEM, "out of memory");
  r = ask_begin (&c, addr, hello, error);
  if (r < 0)
    return r;
  r = ask_why (c, fp_ctl_stat (c, stat, fp_deadline_in_ms (ASK_MS)), error);
  ask_end (c);
  if (r < 0)
    return r;
  memset (s, 0, sizeof *s);
  snprintf (s->name, sizeof s->name, "%s", stat->name);
  s->slab_size = stat->slab_size;
  s->total = stat->total;
  s->free = stat->free;
  s->lent = stat->lent;
  s->wanted = stat->wanted;
  s->pressed = stat->pressed;
  s->stopping = stat->stopping;
  return 0;
}

/* A server's answer is much shorter than a plugin's. */
static void
copy_answer (const struct top_source *s, union top_answer *to,
             const union top_answer *from)
{
  if (s->is_server)
    to->server = from->server;
  else
    to->plugin = from->plugin;
}

static void
note (struct top_source *s, int r, const union top_answer *answer)
{
  struct top_seen *seen = &s->seen;
  union top_answer *older;

  pthread_mutex_lock (&s->lock);
  seen->answers = r == 0;
  seen->failed = r;
  if (r == 0) {
    older = seen->answer[1];
    seen->answer[1] = seen->answer[0];
    seen->at_ns[1] = seen->at_ns[0];
    copy_answer (s, older, answer);
    seen->answer[0] = older;
    seen->at_ns[0] = fp_now_ns ();
    if (seen->nr_answers < 2)
      seen->nr_answers++;
  }
  pthread_mutex_unlock (&s->lock);
}

/* Ask a source at its interval as long as the program runs.  The program does
 * not wait for this thread when it ends.
 */
static void
run (void *arg)
{
  struct top_source *s = arg;
  union top_answer *answer = calloc (1, sizeof *answer);
  struct fp_error error;
  int64_t next = now_ms (), left;
  int r;

  while (answer) {
    r = s->is_server ? ask_server (&s->addr, &answer->server, &error)
                     : ask_plugin (s->path, &answer->plugin, &error);
    note (s, r, answer);
    next += s->interval_ms;
    left = next - now_ms ();
    if (left <= 0)
      next = now_ms ();
    else
      sleep_ms ((int) left);
  }
  note (s, -ENOMEM, answer);
}

static void
source_free (struct top_source *s)
{
  if (!s)
    return;
  free (s->seen.answer[0]);
  free (s->seen.answer[1]);
  pthread_mutex_destroy (&s->lock);
  free (s);
}

static struct top_source *
source_new (const struct top *t, const char *label)
{
  struct top_source *s = calloc (1, sizeof *s);

  if (!s)
    return NULL;
  pthread_mutex_init (&s->lock, NULL);
  snprintf (s->label, sizeof s->label, "%s", label);
  s->interval_ms = t->interval_ms;
  s->wanted = true;
  s->seen.at_ns[0] = fp_now_ns ();
  s->seen.answer[0] = calloc (1, sizeof *s->seen.answer[0]);
  s->seen.answer[1] = calloc (1, sizeof *s->seen.answer[1]);
  if (s->seen.answer[0] && s->seen.answer[1])
    return s;
  source_free (s);
  return NULL;
}

static int
start (struct top_source *s, struct top_source **list, unsigned *nr)
{
  int r = fp_thread_create_large (&s->thread, "fp-top", run, s);

  if (r < 0) {
    source_free (s);
    return r;
  }
  list[(*nr)++] = s;
  return 0;
}

static struct top_source *
find (struct top_source *const *list, unsigned nr, const char *label)
{
  for (unsigned i = 0; i < nr; i++)
    if (strcmp (list[i]->label, label) == 0)
      return list[i];
  return NULL;
}

int
top_watch_plugin (struct top *t, const char *label, const char *path)
{
  struct top_source *s = find (t->volumes, t->nr_volumes, label);

  if (s) {
    s->wanted = true;
    return 0;
  }
  if (t->nr_volumes == TOP_VOLUMES)
    return 0;
  s = source_new (t, label);
  if (!s)
    return -ENOMEM;
  snprintf (s->path, sizeof s->path, "%s", path);
  return start (s, t->volumes, &t->nr_volumes);
}

int
top_watch_attached (struct top *t)
{
  char label[32], path[STATE_PATH_MAX];
  int r = 0;

  for (unsigned i = 0; i < t->nr_volumes; i++)
    t->volumes[i]->wanted = false;
  for (int i = state_next (-1); r == 0 && i >= 0; i = state_next (i)) {
    snprintf (label, sizeof label, "%s", device_name (i).s);
    state_path (path, i, "status.sock");
    r = top_watch_plugin (t, label, path);
  }
  return r;
}

static int
watch_server (struct top *t, const char *label)
{
  struct top_source *s = find (t->servers, t->nr_servers, label);
  struct fp_addr addr;

  if (s) {
    s->wanted = true;
    return 0;
  }
  if (t->nr_servers == TOP_SERVERS || fp_addr_parse (&addr, label, NULL) < 0)
    return 0;
  s = source_new (t, label);
  if (!s)
    return -ENOMEM;
  s->is_server = true;
  s->addr = addr;
  return start (s, t->servers, &t->nr_servers);
}

int
top_watch_servers (struct top *t)
{
  struct top_seen *seen = top_seen_new ();
  int r = seen ? 0 : -ENOMEM;

  for (unsigned i = 0; i < t->nr_servers; i++)
    t->servers[i]->wanted = false;
  for (unsigned i = 0; r == 0 && i < t->nr_volumes; i++) {
    if (!t->volumes[i]->wanted)
      continue;
    top_look (t->volumes[i], seen);
    for (unsigned k = 0; r == 0 && seen->nr_answers > 0 &&
                         k < seen->answer[0]->plugin.nr_servers;
         k++)
      r = watch_server (t, seen->answer[0]->plugin.servers[k].addr);
  }
  top_seen_free (seen);
  return r;
}

/* If an answer is overdue, the source counts as one that does not answer. */
void
top_look (struct top_source *s, struct top_seen *out)
{
  union top_answer *mine[2] = { out->answer[0], out->answer[1] };
  uint64_t patience = (2ull * s->interval_ms + 1000) * FP_NS_PER_MS;

  pthread_mutex_lock (&s->lock);
  copy_answer (s, mine[0], s->seen.answer[0]);
  copy_answer (s, mine[1], s->seen.answer[1]);
  *out = s->seen;
  pthread_mutex_unlock (&s->lock);
  out->answer[0] = mine[0];
  out->answer[1] = mine[1];
  if (fp_now_ns () - out->at_ns[0] > patience)
    out->answers = false;
  out->silent = !out->answers &&
                (out->failed < 0 || fp_now_ns () - out->at_ns[0] > patience);
}

struct top_seen *
top_seen_new (void)
{
  struct top_seen *s = calloc (1, sizeof *s);

  if (!s)
    return NULL;
  s->answer[0] = calloc (1, sizeof *s->answer[0]);
  s->answer[1] = calloc (1, sizeof *s->answer[1]);
  if (s->answer[0] && s->answer[1])
    return s;
  top_seen_free (s);
  return NULL;
}

void
top_seen_free (struct top_seen *s)
{
  if (!s)
    return;
  free (s->answer[0]);
  free (s->answer[1]);
  free (s);
}
