/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.h - the steps that 'farpage swapon DONOR...' and 'farpage mount' share:
 * check the options, get the key, choose size and copies, write the volume
 * file.  Nothing is changed before plan_save.
 *
 * Threads:  one thread.
 * Errors:   0, or a negative errno value and the sentence in error.
 */

#ifndef FARPAGE_PLAN_H
#define FARPAGE_PLAN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "tools/common/state.h"
#include "tools/common/volume_file.h"
#include "tools/setup/choice.h"
#include "tools/setup/client_key.h"

struct plan_args {
  const char *command; /* for messages */
  const char *undo;    /* command that undoes it */
  const char *name;    /* name of the volume file; NULL: a free swapN */
  char *const *servers;
  int nr_servers;
  uint64_t size; /* bytes; 0: choose one */
  bool single_copy, once, dry_run;
  struct client_key_args key;
};

/* Results of getopt_long for the options of both commands. */
enum {
  PLAN_TOKEN = 1000,
  PLAN_TOKEN_FILE,
  PLAN_KEY,
  PLAN_SIZE,
  PLAN_ONCE,
  PLAN_DRY_RUN,
};

/* Lines of --help for the first three. */
#define PLAN_KEY_HELP                                                         \
  "      --token TOKEN      join token, if this machine has no key yet;\n"    \
  "                         'farpage-memserver token' on a server prints "    \
  "it\n"                                                                      \
  "      --token-file FILE  read the join token from FILE; - is standard\n"   \
  "                         input\n"                                          \
  "      --key FILE         file of this machine's key (default\n"            \
  "                         " CLIENT_KEY ")\n"

/* Handle option c.  Return -1 if it is not one of these, else an exit status.
 * Print the reason if the value is wrong.
 */
int plan_option (struct plan_args *a, int c, const char *value);

struct plan {
  const struct plan_args *args;
  struct client_key *key; /* NULL: there is none, and none is needed */
  struct choice choice;
  char name[STATE_LINK_MAX];
  char path[VOLUME_FILE_PATH_MAX]; /* path of the volume file */
  char key_path[PATH_MAX];
  char *text; /* contents of the volume file */
  size_t length;
};

/* Check that the command can run here and that the name is free, and get the
 * key.  Call plan_end afterwards, even after an error.
 */
int plan_begin (struct plan *p, const struct plan_args *a,
                struct fp_error *error);
void plan_end (struct plan *p);

/* Ask all servers for their free memory, and choose size and copies from that
 * (choice_make).  most: upper limit of a size that is chosen, in bytes.
 */
int plan_choose (struct plan *p, uint64_t most, struct fp_error *error);

/* Print the answers of the servers, and the choice.  kind: "swap", or
 * the type of file system.
 */
void plan_print_choice (const struct plan *p, const char *kind);

/* Begin the text of the volume file: who wrote it, the command that undoes
 * that, and the servers.  plan_text_end appends the key, and closes f.
 */
int plan_text (FILE **f, struct plan *p, struct fp_error *error);
int plan_text_end (FILE *f, struct plan *p, struct fp_error *error);

/* Save the key if it was fetched, write the text to the new volume file, and
 * check that it can be read.
 */
int plan_save (struct plan *p, struct fp_error *error);

/* Write text to the file at path: after a crash it has all of it, or what it
 * had before.  -EEXIST: there is a file, and replace is false.
 */
int plan_write (const char *path, const char *text, bool replace,
                struct fp_error *error);

/* Write the name of the unit KIND@NAME.service to unit. */
#define PLAN_UNIT_MAX (STATE_LINK_MAX + 32)
void plan_unit (char unit[PLAN_UNIT_MAX], const char *kind, const char *name);

/* Find the first line of the file at path that begins with text, and get the
 * rest of it.  Return false if there is none.
 */
bool plan_line (char *rest, size_t size, const char *path, const char *text);

/* Find the volume file of this name, and check that 'farpage COMMAND' wrote
 * it.  -ENOENT: there is none.  -EPERM: another program or a user wrote it.
 */
int plan_find (char path[VOLUME_FILE_PATH_MAX], const char *name,
               const char *command, struct fp_error *error);

/* Stop and disable farpage-check@NAME.timer and farpage@NAME.service.  -EBUSY:
 * the device is still attached.  undo is the command to repeat then.
 */
int plan_detach (const char *name, const char *undo, struct fp_error *error);

/* Remove the volume file, and say so. */
int plan_remove (const char *path, const char *name, struct fp_error *error);

#endif /* FARPAGE_PLAN_H */
