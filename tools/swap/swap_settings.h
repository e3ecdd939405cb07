/* SPDX-License-Identifier: BSD-3-Clause */
/* swap_settings.h - what the kernel is told while this host swaps to other
 * machines' memory, and that it gets its own values back afterwards.
 *
 * What was found is kept in a file, so that it outlives the command that
 * changed it:
 *
 *   /run/farpage/swap-settings    lines NAME BEFORE SET
 *
 * Values are only raised, and a value that somebody else has changed since is
 * left alone.  The host has one set of them, however many devices it swaps to:
 * the first one raises, and the last one puts back.
 *
 * Errors:   0 or a negative errno value, and a sentence in w.
 * Threads:  one; several processes may call it at once.
 */

#ifndef FARPAGE_SWAP_SETTINGS_H
#define FARPAGE_SWAP_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/common/why.h"

#define SWAP_SETTINGS_MAX 8

/* What one call did to a value. */
struct swap_change {
  char name[64]; /* as sysctl calls it: vm.min_free_kbytes */
  uint64_t from, to;
};

struct swap_changes {
  struct swap_change of[SWAP_SETTINGS_MAX];
  size_t nr;
};

/* Raises what is too low; done says what.  root is before /proc and /run: ""
 * but in tests.  On an error what was raised stays so, and is in done and in
 * the file.
 */
int swap_settings_raise (struct swap_changes *done, const char *root,
                         struct why *w);

/* Whether a device of ours is swapped to: then they are needed. */
bool swap_settings_needed (void);

/* Puts back what swap_settings_raise found. */
int swap_settings_restore (struct swap_changes *done, const char *root,
                           struct why *w);

#endif /* FARPAGE_SWAP_SETTINGS_H */
