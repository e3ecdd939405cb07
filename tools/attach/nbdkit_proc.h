/* SPDX-License-Identifier: BSD-3-Clause */
/* nbdkit_proc.h - one nbdkit with our plugin: start it so that it can serve
 * swap, hear what it says, stop it.
 *
 * It gets a session of its own (a terminal that goes away does not end it),
 * a small stack for each thread, no OOM killer, and no I/O for its own
 * allocations (PR_SET_IO_FLUSHER); for swap also SCHED_FIFO: such a task may
 * use a part of the kernel's reserve, without which swap stalls.
 *
 * Errors:   0 or a negative errno value, and a sentence in w.
 * Threads:  one.
 */

#ifndef FARPAGE_NBDKIT_PROC_H
#define FARPAGE_NBDKIT_PROC_H

#include <stdbool.h>
#include <sys/types.h>

#include "tools/common/deadline.h"
#include "tools/common/why.h"

struct nbdkit_proc {
  pid_t pid;       /* 0: none */
  int pidfd;       /* readable when it ended; -1 */
  int output;      /* what it writes; -1 */
  int status;      /* as waitpid says, once it ended */
  char tail[1024]; /* the last it said */
  size_t tail_len;
  char line[512]; /* not finished yet */
  size_t line_len;
  void (*aloud) (const char *line); /* NULL: the log is enough */
};

struct nbdkit_params {
  const char *socket, *status_socket;
  const char *members; /* the file with its servers */
  const char *uuid;    /* of the volume; of the client, if that has a name */
  const char *volume;  /* its UUID if it has a name; "": not known */
  bool resume;
  bool swap;     /* give it swap=true: it was attached for that */
  bool realtime; /* it serves swap */
  unsigned connections;
  unsigned nr_args;
  char *const *args;
};

#define NBDKIT_PROC_INIT                                                      \
  {                                                                           \
    .pidfd = -1, .output = -1                                                 \
  }

/* Where the plugin is: in a build tree ./run says it, by FARPAGE_PLUGIN. */
const char *nbdkit_plugin_path (void);

/* Returns once it was forked: that it serves shows when a client gets an
 * answer.
 */
int nbdkit_start (struct nbdkit_proc *p, const struct nbdkit_params *params,
                  struct why *w);

/* Reads what it wrote: logged by line, and kept in tail. */
void nbdkit_hear (struct nbdkit_proc *p);

/* From now on to whoever waits for it, too; and at once what it said last. */
void nbdkit_speak_up (struct nbdkit_proc *p, void (*aloud) (const char *line));

/* True if it ended (then pid is 0), or was never started. */
bool nbdkit_ended (struct nbdkit_proc *p);
/* "exit status 1", "signal 9": of one that ended; and what it said. */
int nbdkit_why (const struct nbdkit_proc *p, struct why *w);

/* SIGUSR1 and SIGTERM, and SIGKILL after ms.  It gives its volume's memory
 * back: for good, what was there is gone.  SIGTERM alone, from anybody else,
 * is as good as SIGKILL: the next one can resume the volume.
 */
void nbdkit_stop (struct nbdkit_proc *p, int ms);

/* SIGKILL: the next one can resume the volume. */
void nbdkit_kill (struct nbdkit_proc *p, int ms);

/* The same for one that another process started, if pid is still one that
 * serves this socket.
 */
void nbdkit_stop_other (pid_t pid, const char *socket, int ms);

/* Real-time priority for all threads of a running one but those that say, by
 * SCHED_BATCH, that no I/O waits for them; or none for any.
 */
int nbdkit_set_swap (pid_t pid, const char *socket, bool on);

#endif /* FARPAGE_NBDKIT_PROC_H */
