/* SPDX-License-Identifier: BSD-3-Clause */
/* volume_file.h - /etc/farpage/volumes.d/NAME.conf: the settings of a volume
 * for farpage@NAME.service and farpage-swap@NAME.service.  See
 * farpage-volume.conf(5).
 *
 * Errors:   0 or a negative errno value.
 * Threads:  no shared state.
 */

#ifndef FARPAGE_VOLUME_FILE_H
#define FARPAGE_VOLUME_FILE_H

#include <stdbool.h>

#include "base/error.h"

#define VOLUME_FILE_WORDS 128
#define VOLUME_FILE_PATH_MAX 512

struct volume_file {
  /* Words for 'farpage attach': its options, then parameters. */
  char *words[VOLUME_FILE_WORDS];
  unsigned nr_options, nr_words;
  bool discard, single_copy; /* options of 'farpage swapon' */
  long priority;             /* -1: none is given */
};

/* Get the path for the volume file of NAME, whether it exists or not.  It is
 * in $FARPAGE_VOLUMES_DIR if that is set.  Otherwise it is in
 * /run/farpage/volumes.d if once is true, else in /etc/farpage/volumes.d.
 */
int volume_file_path (char path[VOLUME_FILE_PATH_MAX], const char *name,
                      bool once, struct fp_error *error);

/* Get the path of the existing volume file of NAME.  /etc comes before /run.
 * -ENOENT: there is none; path is the one in /etc.
 */
int volume_file_find (char path[VOLUME_FILE_PATH_MAX], const char *name,
                      struct fp_error *error);

/* Read the file of NAME, and its drop-ins.  Call volume_file_clear afterwards,
 * even after an error.
 */
int volume_file_read (struct volume_file *f, const char *name,
                      struct fp_error *error);
void volume_file_clear (struct volume_file *f);

/* Return the exit status for an error of volume_file_read: 2 unless the error
 * may pass, so that systemd does not start the service again.
 */
int volume_file_status (int err);

#endif /* FARPAGE_VOLUME_FILE_H */
