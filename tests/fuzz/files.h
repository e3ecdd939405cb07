/* SPDX-License-Identifier: BSD-3-Clause */
/* files.h - a store (memserver/store/store.h) whose files are memory of this
 * process: nothing is opened, mapped or removed in earnest.  A touch behind
 * the last page of a file, which would be a SIGBUS, is one of memory that is
 * not there for AddressSanitizer.
 */

#ifndef FUZZ_FILES_H
#define FUZZ_FILES_H

#include <stdbool.h>
#include <stdint.h>

#define FILES_MAX 32u
#define FILES_PAGE 4096u
#define FILES_ROOM (80u << 10) /* bytes of a file */

/* All that it takes is wrapped, and it was told so by the linker. */
bool files_work (void);

/* There is none any more; no program has one open. */
void files_clear (void);

/* A file with these bytes; bytes NULL: zeros that nobody looks at.  A page of
 * zeros is a hole.
 */
void files_put (const char *name, const uint8_t *bytes, uint64_t size);

/* NULL: it is not there. */
const uint8_t *files_get (const char *name, uint64_t *size);

#endif /* FUZZ_FILES_H */
