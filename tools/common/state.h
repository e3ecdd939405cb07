/* SPDX-License-Identifier: BSD-3-Clause */
/* state.h - the devices that this machine has attached. Each has a directory
 * under /run/farpage, with the sockets of its process and a file of its facts.
 *
 *   /run/farpage/nbd0.lock         held by the supervisor while it lives
 *   /run/farpage/nbd0/state.json   written by the supervisor, atomically
 *   /run/farpage/nbd0/nbd.sock, status.sock
 *   /run/farpage/nbd0/udev         for farpage.rules: the name of the link
 *
 * A lock file is never removed: a process that opened it before the removal
 * would hold a lock that no other process sees.
 *
 * Errors:   0 or a negative errno value.  Functions with a parameter error
 *           also set the sentence.
 */

#ifndef FARPAGE_STATE_H
#define FARPAGE_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <json-c/json.h>

#include "base/error.h"

#define STATE_DIR "/run/farpage"
#define STATE_PATH_MAX 64
#define STATE_LINK_MAX 68

struct state {
  int index; /* the device: see device.h */
  pid_t supervisor, nbdkit;
  char uuid[40];   /* this client, as its servers know it */
  char volume[40]; /* UUID of the volume; "": not known yet */
  uint64_t size;   /* bytes */
  unsigned connections;
  unsigned timeout, dead_timeout; /* seconds */
  bool swap;                      /* attached for swap */
  char link[STATE_LINK_MAX];      /* /dev/farpage/LINK; "": none */
  int64_t since;                  /* seconds since 1970 */
  unsigned restarts;              /* restarts of nbdkit */
  unsigned reconnects;            /* single NBD connections replaced */
  char event[256];                /* the last thing that happened */
  unsigned nr_args;
  char **args; /* the plugin's parameters, KEY=VALUE */
};

/* Format /run/farpage/nbdX/NAME; NAME "" is the directory itself. */
void state_path (char path[STATE_PATH_MAX], int index, const char *name);

/* Take the device's lock, and make /run/farpage if needed. -EBUSY: another
 * process has the lock.
 */
int state_lock (int *fd, int index, struct fp_error *error);

int state_mkdir (int index, struct fp_error *error);
bool state_exists (int index);
/* Format of the error for a device that has a directory, but whose lock is
 * free.  Arguments: its path, twice.
 */
#define STATE_LEFT_BEHIND                                                     \
  "%s was left behind by a farpage that died: run 'farpage detach %s'"
/* Return the next greater index of a device that has a directory, or -1. Begin
 * with -1.
 */
int state_next (int index);
/* Get the index of the device that is attached, or was left behind, under this
 * name; -1: none is.  It reads the files for udev, which also a supervisor of
 * an earlier version has written.
 */
int state_find_link (const char *link, int *index, struct fp_error *error);
/* Remove the directory and the files in it. */
int state_remove (int index, struct fp_error *error);

int state_save (const struct state *s, struct fp_error *error);
/* Read state.json. Allocates args; state_clear frees them. -ENOENT: farpage
 * did not attach the device.
 */
int state_load (struct state *s, int index, struct fp_error *error);
void state_clear (struct state *s);

/* Return true if udev leaves this name unchanged. */
bool state_link_ok (const char *name);
/* Write the file that farpage.rules reads when the kernel announces the
 * device.
 */
int state_save_link (const struct state *s, struct fp_error *error);
/* Get the name of the link from that file; "": it has none.  state_load does
 * not set it.
 */
int state_load_link (char link[STATE_LINK_MAX], int index,
                     struct fp_error *error);

/* Return the contents of the file, for --json. The caller drops the reference.
 */
struct json_object *state_to_json (const struct state *s);

#endif /* FARPAGE_STATE_H */
