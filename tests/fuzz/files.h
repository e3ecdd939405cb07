/* SPDX-License-Identifier: BSD-3-Clause */
/* files.h - a store (memserver/pool/store.h) whose files are memory of this
 * process: nothing is really opened, mapped or removed.  An access beyond the
 * last page of a file, a SIGBUS in a real one, is an error of
 * AddressSanitizer.
 */

#ifndef FUZZ_FILES_H
#define FUZZ_FILES_H

#include <stdbool.h>
#include <stdint.h>

#define FILES_MAX 32u
#define FILES_PAGE 4096u
#define FILES_ROOM (80u << 10) /* maximum bytes of a file */

/* Return true if the linker has wrapped all calls that this needs. */
bool files_work (void);

/* Forget all files.  None may be open. */
void files_clear (void);

/* Create a file with these bytes.  bytes NULL: the contents do not matter.  A
 * page of zeros is a hole.
 */
void files_put (const char *name, const uint8_t *bytes, uint64_t size);

/* Return the bytes of a file, or NULL if it does not exist. */
const uint8_t *files_get (const char *name, uint64_t *size);

#endif /* FUZZ_FILES_H */
