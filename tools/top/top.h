/* SPDX-License-Identifier: BSD-3-Clause */
/* top.h - the parts of 'farpage top'.  Sources are asked at an interval, each
 * by a thread of its own, so that one that does not answer delays no other.
 * Their answers become lines of text, for the screen or a pipe.
 *
 *   cmd_top.c      Options, and the lines for pipes.
 *   top_source.c   The sources, and the last two answers of each.
 *   top_lines.c    The changes between them.
 *   top_screen.c   The screen, with ncurses.
 *
 * Errors:   0 or a negative errno value.
 */

#ifndef FARPAGE_TOP_H
#define FARPAGE_TOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/error.h"
#include "base/thread.h"
#include "proto/messages.h"
#include "tools/common/plugin_status.h"

#define TOP_VOLUMES 64 /* more are not shown */
#define TOP_SERVERS 64

/* The answer of a memory server. */
struct top_server {
  char name[FP_NAME_MAX + 1];
  uint64_t slab_size, total, free, lent, wanted;
  bool pressed, stopping;
};

union top_answer {
  struct fp_status_doc plugin;
  struct top_server server;
};

/* Two answers to the same question: the newer one, and the one before it. */
struct top_seen {
  bool answers;        /* the last question was answered, and not long ago */
  int failed;          /* -errno of the last question, or 0 */
  bool silent;         /* an answer is overdue; set by top_look */
  unsigned nr_answers; /* number of answers here: 0, 1, 2 */
  /* When the answers came, the newer one in [0].  Before the first answer, [0]
   * is when the source was made.
   */
  uint64_t at_ns[2];
  union top_answer *answer[2];
};

/* A plugin or a memory server that is asked. */
struct top_source {
  bool is_server;
  bool wanted; /* still shown */
  char label[FP_ADDR_MAX + 1];
  char path[128]; /* status socket of a plugin */
  struct fp_addr addr;
  unsigned interval_ms;
  struct fp_thread thread;
  pthread_mutex_t lock; /* protects seen */
  struct top_seen seen;
};

struct top {
  unsigned interval_ms;
  unsigned nr_volumes, nr_servers;
  struct top_source *volumes[TOP_VOLUMES], *servers[TOP_SERVERS];
};

/* Ask a plugin from now on, and show it as label. */
int top_watch_plugin (struct top *t, const char *label, const char *path);
/* Watch all attached devices.  Those that were detached are shown no more. */
int top_watch_attached (struct top *t);
/* Watch the servers that the plugins name. */
int top_watch_servers (struct top *t);
/* Copy the source's answers to out, which comes from top_seen_new. */
void top_look (struct top_source *s, struct top_seen *out);
struct top_seen *top_seen_new (void);
void top_seen_free (struct top_seen *s);

enum top_sort { TOP_BY_NAME, TOP_BY_IOPS, TOP_BY_BYTES, TOP_BY_LATENCY };
#define TOP_SORTS 4
const char *top_sort_name (enum top_sort sort);

enum top_kind { TOP_PLAIN, TOP_HEADING, TOP_ALERT };
struct top_line {
  enum top_kind kind;
  char text[160];
};

struct top_lines {
  unsigned nr;
  struct top_line line[TOP_VOLUMES + TOP_SERVERS + 8];
};

/* Format all answers as lines of at most 80 columns. */
int top_lines (struct top *t, enum top_sort sort, struct top_lines *out);

/* Show the lines until the user ends it, or for count looks (0: no end). */
int top_screen (struct top *t, int (*refresh) (struct top *t), unsigned count);

#endif /* FARPAGE_TOP_H */
