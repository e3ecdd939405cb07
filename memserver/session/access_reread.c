/* SPDX-License-Identifier: BSD-3-Clause */
/* access_reread.c - read the access file again, in a thread.  Looking up users
 * (user:NAME) may ask another machine, and meanwhile the event loop goes on.
 */

#include <config.h>

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "memserver/pool/mailbox.h"
#include "memserver/session/access_reread.h"
#include "memserver/session/guard.h"
#include "memserver/session/session.h"
#include "memserver/store/record.h"

struct access_reread {
  struct sessions *all;
  struct fp_thread thread;
  struct note done;
  bool running; /* while true, the last three fields are the thread's */
  bool again;   /* read once more after that; for the loop only */
  int status;
  struct access *access;
  struct fp_error error;
};

static void
read_file (void *arg)
{
  struct access_reread *g = arg;

  g->status = access_read (&g->access, g->all->access_file, &g->error);
  mailbox_post (g->all->mailbox, &g->done);
}

static int
start (struct access_reread *g)
{
  /* NSS modules may need more stack than our own threads have. */
  int r = fp_thread_create_large (&g->thread, "fp-access", read_file, g);

  g->running = r == 0;
  return r;
}

static void
failed (const char *why)
{
  fp_log (FP_LOG_ERROR, "SIGHUP: the access rules are unchanged: %s", why);
}

/* ---- SIGHUP ---- */

/* Return why the session must end, or NULL if it may go on. */
static const char *
ends_why (const struct session *s)
{
  if (!access_find (s->sessions->access, &s->who))
    return "it may no longer use this server (--access)";
  if (!s->record)
    return NULL;
  switch (access_to (guard_rights (s), s->record->name, &s->record->owner)) {
  case ACCESS_NONE:
    return "it may no longer use its volume (--access)";
  case ACCESS_READ:
    return s->read_only ? NULL : "it may now only read its volume (--access)";
  default:
    return NULL;
  }
}

void
access_replace (struct sessions *all, struct access *a)
{
  struct session *s, *next;

  access_free (all->access);
  all->access = a;
  fp_log (FP_LOG_INFO, "SIGHUP: read %s: %u identities", all->access_file,
          access_count (a));
  for (s = TAILQ_FIRST (&all->list); s; s = next) {
    const char *ends = s->state == SESSION_ENDING ? NULL : ends_why (s);

    next = TAILQ_NEXT (s, entry);
    if (ends)
      session_end (s, ends);
  }
}

static void
on_done (struct note *note)
{
  struct access_reread *g =
      (struct access_reread *) ((char *) note -
                                offsetof (struct access_reread, done));

  fp_thread_join (&g->thread);
  g->running = false;
  if (g->status < 0)
    failed (g->error.text);
  else
    access_replace (g->all, g->access);
  g->access = NULL;
  if (g->again) {
    g->again = false;
    access_reread (g->all);
  }
}

void
access_reread (struct sessions *all)
{
  struct access_reread *g = all->reread;
  int r;

  if (!g) {
    g = all->reread = calloc (1, sizeof *g);
    if (!g) {
      failed (strerror (ENOMEM));
      return;
    }
    g->all = all;
    g->done.run = on_done;
  }
  if (g->running) {
    g->again = true;
    return;
  }
  r = start (g);
  if (r < 0)
    failed (strerror (-r));
}

void
access_reread_end (struct sessions *all)
{
  struct access_reread *g = all->reread;

  if (!g)
    return;
  if (g->running) {
    fp_thread_join (&g->thread);
    if (g->status == 0)
      access_free (g->access);
  }
  free (g);
  all->reread = NULL;
}
