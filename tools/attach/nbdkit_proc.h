/* SPDX-License-Identifier: BSD-3-Clause */
/* nbdkit_proc.h - start one nbdkit with our plugin so that it can serve swap,
 * read its output, stop it.
 *
 * nbdkit gets a session of its own, so that a terminal that goes away does not
 * end it.  Its threads have small stacks, the OOM killer spares it, and its
 * allocations wait for no I/O (PR_SET_IO_FLUSHER).  For swap it also has
 * SCHED_FIFO.  Such tasks may use a part of the kernel's reserve, without
 * which swap stalls.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  one.
 */

#ifndef FARPAGE_NBDKIT_PROC_H
#define FARPAGE_NBDKIT_PROC_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "tools/common/deadline.h"

struct nbdkit_proc {
  pid_t pid;                    /* 0: none */
  int pidfd;                    /* readable once nbdkit has ended; or -1 */
  int output;                   /* stdout and stderr of nbdkit; or -1 */
  int status;                   /* from waitpid, once nbdkit has ended */
  char tail[FP_ERROR_MAX - 16]; /* end of the output; fits nbdkit_why */
  size_t tail_len;
  char line[512]; /* unfinished line of the output */
  size_t line_len;
  void (*aloud) (const char *line); /* gets each line, too; or NULL */
};

struct nbdkit_params {
  const char *socket, *status_socket;
  const char *members; /* file with the volume's servers */
  /* UUID of a volume without a name, or of the client of a named one */
  const char *uuid;
  const char *volume; /* UUID of a named volume; "": not known */
  bool resume;
  bool swap;     /* pass swap=true: attached for swap */
  bool realtime; /* the device serves swap */
  unsigned connections;
  unsigned nr_args;
  char *const *args;
};

#define NBDKIT_PROC_INIT                                                      \
  {                                                                           \
    .pidfd = -1, .output = -1                                                 \
  }

/* Return the path of the plugin.  In a build tree ./run sets FARPAGE_PLUGIN.
 */
const char *nbdkit_plugin_path (void);

/* Return after fork.  nbdkit is ready only once a client gets a reply. */
int nbdkit_start (struct nbdkit_proc *p, const struct nbdkit_params *params,
                  struct fp_error *error);

/* Read nbdkit's output: log its lines, and keep the end in tail. */
void nbdkit_hear (struct nbdkit_proc *p);

/* Give the last output to aloud now, and each line from now on. */
void nbdkit_speak_up (struct nbdkit_proc *p, void (*aloud) (const char *line));

/* Return true if nbdkit has ended (then pid is 0), or was never started. */
bool nbdkit_ended (struct nbdkit_proc *p);
/* Set error to how nbdkit ended: the signal that killed it, else its last
 * output, else its exit status.
 */
int nbdkit_why (const struct nbdkit_proc *p, struct fp_error *error);

/* Send SIGUSR1, and SIGKILL after ms.  After SIGUSR1 nbdkit gives the memory
 * of a volume without a name back, and the data is gone for good.  SIGTERM,
 * from another process, works like SIGKILL: the next nbdkit can resume the
 * volume.
 */
void nbdkit_stop (struct nbdkit_proc *p, int ms);

/* Send SIGKILL.  The next nbdkit can resume the volume. */
void nbdkit_kill (struct nbdkit_proc *p, int ms);

/* Stop an nbdkit that another process started, as nbdkit_stop does, if pid
 * still serves this socket.
 */
void nbdkit_stop_other (pid_t pid, const char *socket, int ms);

/* Give all threads of a running nbdkit real-time priority, or take it away.
 * Threads with SCHED_BATCH are left alone, because no I/O waits for them.
 */
int nbdkit_set_swap (pid_t pid, const char *socket, bool on);

#endif /* FARPAGE_NBDKIT_PROC_H */
