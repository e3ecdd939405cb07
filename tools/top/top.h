/* SPDX-License-Identifier: BSD-3-Clause */
/* top.h - the parts of 'farpage top': sources that are asked at an interval,
 * each by a thread of its own, so that one which does not answer delays
 * nothing; what they said, as lines of text; and the screen.
 *
 *   cmd_top.c      options, and the lines for pipes
 *   top_source.c   who is asked, and the last two answers of each
 *   top_lines.c    what changed between them
 *   top_screen.c   ncurses
 *
 * Errors:   0 or a negative errno value.
 */

#ifndef FARPAGE_TOP_H
#define FARPAGE_TOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/thread.h"
#include "proto/messages.h"
#include "tools/common/why.h"
#include "volume/volume.h"

#define TOP_VOLUMES 64 /* more are not shown */
#define TOP_SERVERS 64

/* What a plugin says of one of its servers. */
struct top_link {
  char addr[FP_ADDR_MAX + 1];
  char state[16], transport[16], drain[16];
  bool left_out;
  uint64_t slabs_total, slabs_free, slabs_wanted;
  uint64_t ops, errors, bytes_read, bytes_written;
  uint64_t drain_extents, drain_left;
};

/* What a plugin says. */
struct top_volume {
  char name[64];
  uint64_t requests, errors, bytes_read, bytes_written, inflight;
  uint64_t size, slab_size, extents, extents_allocated, extents_lost, copies;
  uint64_t extents_degraded, to_resync;
  uint64_t read_p50, read_p99, write_p50, write_p99; /* ns */
  bool taken, frozen;
  unsigned nr_peers;
  struct top_link links[FP_MAX_SERVERS];
};

/* What a memory server says. */
struct top_server {
  char name[FP_NAME_MAX + 1];
  uint64_t slab_size, total, free, lent, wanted;
  bool pressed, stopping;
};

union top_answer {
  struct top_volume volume;
  struct top_server server;
};

/* Two answers to the same question: the newer one, and one before it. */
struct top_seen {
  bool answers;        /* it has answered the last time, and lately */
  bool silent;         /* it has not, and should have: of top_look */
  unsigned nr_answers; /* 0, 1, 2: how many of these there are */
  uint64_t at_ns[2];   /* when they came: [0] is the newer one,
                          or when it was asked first */
  union top_answer *answer[2];
  char why[160]; /* why it does not answer */
};

/* One that is asked. */
struct top_source {
  bool is_server;
  bool wanted; /* it is still to be shown */
  char label[FP_ADDR_MAX + 1];
  char path[128]; /* of a plugin's status socket */
  struct fp_addr addr;
  unsigned interval_ms;
  struct fp_thread thread;
  pthread_mutex_t lock; /* of what follows */
  struct top_seen seen;
};

struct top {
  unsigned interval_ms;
  unsigned nr_volumes, nr_servers;
  struct top_source *volumes[TOP_VOLUMES], *servers[TOP_SERVERS];
};

/* A plugin is asked from now on; label is what it is called. */
int top_watch_plugin (struct top *t, const char *label, const char *path);
/* All that are attached now; those that are not any more are not wanted. */
int top_watch_attached (struct top *t);
/* The servers that the plugins name. */
int top_watch_servers (struct top *t);
/* A copy of what it said, for the caller to work with. */
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

/* Who answers how, as at most 80 columns. */
int top_lines (struct top *t, enum top_sort sort, struct top_lines *out);

/* Until somebody ends it, or for count looks (0: no end). Built where there
 * is ncurses.
 */
int top_screen (struct top *t, int (*refresh) (struct top *t), unsigned count);

#endif /* FARPAGE_TOP_H */
