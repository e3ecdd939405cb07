/* SPDX-License-Identifier: BSD-3-Clause */
/* borrow.h - borrow memory of servers with one command, as swap or as a file
 * system.  Both write a volume file, and enable the services that use it at
 * each boot.  Both can be undone.
 *
 * Threads:  one thread.
 * Errors:   exit statuses.  The functions print the reason.
 */

#ifndef FARPAGE_BORROW_H
#define FARPAGE_BORROW_H

#include <stdbool.h>

#include "tools/setup/plan.h"

struct borrow_swap {
  struct plan_args plan;
  bool discard;
  long priority;
};

struct borrow_mount {
  struct plan_args plan;
  const char *directory;
  const char *type; /* file system of a new volume */
};

/* Borrow memory, and swap to it. */
int borrow_swap (const struct borrow_swap *b);

/* Check that borrow_swap wrote the volume file of this name. */
int borrow_swap_check (const char *command, const char *name);

/* Stop and disable the units of that volume file, and remove it.  Call this
 * after swapoff(2).
 */
int borrow_swap_undo (const char *command, const char *name);

/* Make a volume with a file system, or find the volume that has this name.
 * Mount it on the directory.  An existing volume is never formatted.
 */
int borrow_mount (const struct borrow_mount *b);

/* Unmount a volume that borrow_mount mounted, and undo the rest of that, but
 * keep the volume.  what: the name, or the directory.
 */
int borrow_umount (const char *command, const char *what);

#endif /* FARPAGE_BORROW_H */
