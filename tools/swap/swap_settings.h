/* SPDX-License-Identifier: BSD-3-Clause */
/* swap_settings.h - raise settings of the kernel while this host swaps to
 * other machines' memory, and put them back afterwards.
 *
 * The old values are kept in a file, so that they outlive the command that
 * changed them:
 *
 *   /run/farpage/swap-settings    lines NAME BEFORE SET
 *
 * Values are only raised.  A value that another program has changed since is
 * left alone.  The host has one set of values for all its devices: the first
 * swapon raises them, and the last swapoff puts them back.
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

/* The ways on which pages leave this host, of all devices that are swapped to.
 */
struct swap_paths {
  unsigned nbd_connections, ublk_queues;
};

/* Raise values that are too low, and add the changes to done.  root is put
 * before /proc and /run; it is "" except in tests.  On an error, values that
 * were raised stay so, and are in done and in the file.
 */
int swap_settings_raise (struct swap_changes *done,
                         const struct swap_paths *paths, const char *root,
                         struct fp_error *error);

/* Return true if a device of ours is swapped to. */
bool swap_settings_needed (void);

/* Put back the values that swap_settings_raise found. */
int swap_settings_restore (struct swap_changes *done, const char *root,
                           struct fp_error *error);

#endif /* FARPAGE_SWAP_SETTINGS_H */
