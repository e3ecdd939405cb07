/* SPDX-License-Identifier: BSD-3-Clause */
/* conf.h - configuration files, which all have one dialect:
 *
 *   KEY = VALUE   a setting; blanks around KEY and VALUE are ignored
 *   [SECTION]     settings below it belong to that section
 *   # comment     or ; comment
 *
 * libinih parses the lines.  Two of its rules apply here, too.  A colon may
 * stand for the first equals sign.  A comment may follow a value after a blank
 * and a semicolon.  A line that begins with a blank is like any other, and
 * does not continue the line before.  A setting has at most 198 characters.
 *
 * fp_conf_read then reads the drop-ins PATH.d/NAME.conf, in the order of their
 * names.  `set` must let a setting replace the same one of an earlier file. If
 * a setting may be repeated, its first value in a drop-in replaces all values
 * of earlier files.
 *
 * Errors:   0 or a negative errno value; the text names file and line.
 * Threads:  any.
 * Memory:   none stays allocated.
 */

#ifndef FP_CONF_H
#define FP_CONF_H

#include <stdio.h>

#include "base/error.h"

struct fp_conf_line {
  const char *section; /* "": none */
  const char *key, *value;
  unsigned file; /* 0: the file itself; 1, 2, ...: its drop-ins */
};

/* Handle a setting.  Return 0, or a negative errno value and the reason: the
 * caller adds file and line.  The strings are valid only during the call.
 */
typedef int fp_conf_set (void *arg, const struct fp_conf_line *line,
                         struct fp_error *error);

/* Read one file.  path is for messages. */
int fp_conf_read_stream (FILE *fp, const char *path, fp_conf_set *set,
                         void *arg, struct fp_error *error);

/* Read a file and its drop-ins.  -EPERM: other users can write to PATH.d. */
int fp_conf_read (const char *path, fp_conf_set *set, void *arg,
                  struct fp_error *error);

#endif /* FP_CONF_H */
