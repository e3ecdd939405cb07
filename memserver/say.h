/* SPDX-License-Identifier: BSD-3-Clause */
/* say.h - errors for the person who started this program. */

#ifndef MEMSERVER_SAY_H
#define MEMSERVER_SAY_H

/* Print "farpage-memserver: ", the sentence and a newline to standard error.
 */
void say (const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 1, 2)));

#endif /* MEMSERVER_SAY_H */
