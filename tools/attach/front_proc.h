/* SPDX-License-Identifier: BSD-3-Clause */
/* front_proc.h - the process of a front end, nbdkit or farpage-ublk: start it
 * so that it can serve swap, read its output, stop it.
 *
 * The process gets a session of its own, so that a terminal that goes away
 * does not end it.  Its threads have small stacks, the OOM killer spares it,
 * and its allocations wait for no I/O (PR_SET_IO_FLUSHER).  For swap it also
 * has SCHED_FIFO.  Such tasks may use a part of the kernel's reserve, without
 * which swap stalls.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  one.
 */

#ifndef FARPAGE_FRONT_PROC_H
#define FARPAGE_FRONT_PROC_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "tools/common/deadline.h"

struct front_proc {
  pid_t pid;                    /* 0: none */
  const char *name;             /* for messages */
  int pidfd;                    /* readable once it has ended; or -1 */
  int output;                   /* the process's stdout and stderr; or -1 */
  int status;                   /* from waitpid, once it has ended */
  bool ready;                   /* true once there was a line "ready" */
  char tail[FP_ERROR_MAX - 16]; /* end of the output; fits front_proc_why */
  size_t tail_len;
  char line[512]; /* unfinished line of the output */
  size_t line_len;
  void (*aloud) (const char *line); /* gets each line, too; or NULL */
};

struct front_proc_params {
  const char *program; /* name or path, for execvp */
  const char *name;    /* for messages */
  /* The first arguments, argv[0] among them. */
  const char *lead[16];
  unsigned nr_lead;
  char numbers[4][24]; /* text of some of them */

  const char *status_socket;
  const char *members; /* file with the volume's servers */
  const char *client;  /* UUID, the same for each process */
  const char *volume;  /* UUID of the volume; "": not known yet */
  bool resume;
  bool swap;     /* pass swap=true: attached for swap */
  bool realtime; /* the device serves swap */
  unsigned nr_args;
  char *const *args;
};

#define FRONT_PROC_INIT                                                       \
  {                                                                           \
    .pidfd = -1, .output = -1                                                 \
  }

/* Return the path of nbdkit's plugin, or of farpage-ublk.  In a build tree
 * ./run sets FARPAGE_PLUGIN and FARPAGE_UBLK.
 */
const char *nbdkit_plugin_path (void);
const char *ublk_program_path (void);

/* Return after fork. */
int front_proc_start (struct front_proc *p,
                      const struct front_proc_params *params,
                      struct fp_error *error);

/* Read its output: log the lines, and keep the end in tail. */
void front_proc_hear (struct front_proc *p);

/* Give the last output to aloud now, and each line from now on. */
void front_proc_speak_up (struct front_proc *p,
                          void (*aloud) (const char *line));

/* Return true if it has ended (then pid is 0), or was never started. */
bool front_proc_ended (struct front_proc *p);
/* Set error to how it ended: the signal that killed it, else its last output,
 * else its exit status.
 */
int front_proc_why (const struct front_proc *p, struct fp_error *error);

/* Send SIGUSR1, and SIGKILL after ms.  After SIGUSR1 the process gives the
 * memory of a volume without a name back, and the data is gone for good.
 * SIGTERM, from another process, works like SIGKILL: the next process can
 * resume the volume.
 */
void front_proc_stop (struct front_proc *p, int ms);

/* Send SIGKILL.  The next process can resume the volume. */
void front_proc_kill (struct front_proc *p, int ms);

/* Set out to the argument that tells a device's process from all others.
 * Return out.
 */
#define FRONT_PROC_MARKER_MAX 80
const char *front_proc_marker (char out[FRONT_PROC_MARKER_MAX], int index);

/* Return true if that process exists and has the marker. */
bool front_proc_lives (pid_t pid, const char *marker);

/* Stop a process that another one started, as front_proc_stop does, if pid
 * still has the marker.
 */
void front_proc_stop_other (pid_t pid, const char *marker, int ms);

/* Give all threads of a process real-time priority, or take it away.  Threads
 * with SCHED_BATCH are left alone, because no I/O waits for them.
 */
int front_proc_set_swap (pid_t pid, const char *marker, bool on);

#endif /* FARPAGE_FRONT_PROC_H */
