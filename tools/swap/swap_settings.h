/* SPDX-License-Identifier: BSD-3-Clause */
/* swap_settings.h - change settings of the kernel while this host swaps to
 * other machines' memory, and put them back afterwards.
 *
 * The old values are kept in a file, so that they outlive the command that
 * changed them:
 *
 *   /run/farpage/swap-settings    lines NAME BEFORE SET
 *
 * A value that is good enough is left alone, and so is one that another
 * program has changed since.  The host has one set of values for all its
 * devices: the first swapon sets them, and the last swapoff puts them back.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  one; several processes may call it at once.
 */

#ifndef FARPAGE_SWAP_SETTINGS_H
#define FARPAGE_SWAP_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SWAP_SETTINGS_MAX 8

/* A change that one call made. */
struct swap_change {
  char name[64]; /* sysctl name: vm.min_free_kbytes */
  uint64_t from, to;
};

struct swap_changes {
  struct swap_change of[SWAP_SETTINGS_MAX];
  size_t nr;
};

/* Set values that are not good enough.  root is put before /proc and /run; it
 * is "" except in tests.  On an error, values that were set stay so, and are
 * in done and in the file.
 */
int swap_settings_set (struct swap_changes *done, const char *root,
                       struct fp_error *error);

/* Return true if a device of ours is swapped to. */
bool swap_settings_needed (void);

/* Put back the values that swap_settings_set found. */
int swap_settings_restore (struct swap_changes *done, const char *root,
                           struct fp_error *error);

#endif /* FARPAGE_SWAP_SETTINGS_H */
