/* SPDX-License-Identifier: BSD-3-Clause */
/* state.h - what this machine has attached: one directory for each device
 * under /run/farpage, with the sockets of its nbdkit and a file that says
 * what is known about it.
 *
 *   /run/farpage/nbd0.lock         held by the supervisor while it lives
 *   /run/farpage/nbd0/state.json   written by the supervisor, atomically
 *   /run/farpage/nbd0/nbd.sock, status.sock    nbdkit's
 *   /run/farpage/nbd0/udev         for farpage.rules: what its link is called
 *
 * A lock file is never removed: whoever opened it before the removal would
 * hold a lock that nobody else sees.
 *
 * Errors:   0 or a negative errno value; a sentence in w where there is one.
 */

#ifndef FARPAGE_STATE_H
#define FARPAGE_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <json-c/json.h>

#include "tools/common/why.h"

#define STATE_DIR "/run/farpage"
#define STATE_PATH_MAX 64
#define STATE_MAX_DEVICES 256
#define STATE_LINK_MAX 68

struct state {
  int index; /* of /dev/nbdX */
  pid_t supervisor, nbdkit;
  char uuid[40];
  char volume[40]; /* UUID of the volume, if it has a name and one is known */
  uint64_t size;   /* bytes */
  unsigned connections;
  unsigned timeout, dead_timeout; /* seconds */
  bool swap;                      /* attached for swap */
  char link[STATE_LINK_MAX];      /* /dev/farpage/LINK; "": none */
  int64_t since;                  /* seconds since 1970 */
  unsigned restarts;              /* of nbdkit */
  unsigned reconnects;            /* of single links */
  char event[256];                /* the last thing that happened */
  unsigned nr_args;
  char **args; /* the plugin's parameters, KEY=VALUE */
};

/* /run/farpage/nbdX/NAME; NAME "" is the directory itself. */
void state_path (char path[STATE_PATH_MAX], int index, const char *name);

/* Take the device's lock; -EBUSY: another process has it. The directory
 * /run/farpage is made if need be.
 */
int state_lock (int *fd, int index, struct why *w);

int state_mkdir (int index, struct why *w);
bool state_exists (int index);
/* Remove the directory and all in it. */
int state_remove (int index, struct why *w);

int state_save (const struct state *s, struct why *w);
/* -ENOENT: the device is not one of ours. args are allocated. */
int state_load (struct state *s, int index, struct why *w);
void state_clear (struct state *s);

/* Whether udev leaves such a name as it is. */
bool state_link_ok (const char *name);
/* What farpage.rules reads when the kernel tells of the device. */
int state_save_link (const struct state *s, struct why *w);

/* As it stands in the file: for --json. The caller puts it. */
struct json_object *state_to_json (const struct state *s);

#endif /* FARPAGE_STATE_H */
