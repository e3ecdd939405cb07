/* SPDX-License-Identifier: BSD-3-Clause */
/* borrow.h - borrow memory and swap to it, with one command: 'farpage swapon
 * DONOR...'.  borrow_swap chooses size and copies, writes a volume file, and
 * enables the swap service.  borrow_undo undoes that.
 *
 * Threads:  one thread.
 * Errors:   exit statuses.  The functions print the reason.
 */

#ifndef FARPAGE_BORROW_H
#define FARPAGE_BORROW_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/setup/client_key.h"

struct borrow {
  const char *command; /* name of the command, for messages */
  const char *name;    /* name of the volume file; NULL: a free swapN */
  char *const *servers;
  int nr_servers;
  uint64_t size; /* bytes; 0: choose one */
  bool single_copy, discard, once, dry_run;
  long priority;
  struct client_key_args key;
};

/* Borrow memory from b's servers, and swap to it. */
int borrow_swap (const struct borrow *b);

/* Check that borrow_swap wrote the volume file of this name.  Return
 * EXIT_SUCCESS, or print an error and return its exit status.
 */
int borrow_check (const char *command, const char *name);

/* Stop and disable the units of a volume file that borrow_swap wrote, whose
 * device is not in use any more.  Then remove the file.
 */
int borrow_undo (const char *command, const char *name);

#endif /* FARPAGE_BORROW_H */
