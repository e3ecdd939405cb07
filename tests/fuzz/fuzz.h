/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz.h - shared by all fuzzers.  Each fuzz-NAME.c is one target: it takes
 * hostile or damaged input.  It must not crash, leak or hang, nor accept what
 * is wrong (FUZZ_CHECK).
 *
 * With configure --enable-fuzzing (clang) it is linked with libFuzzer.  Else
 * fuzz.c has main ().  That runs the seeds, the inputs in corpus/NAME that
 * once found something, and some thousands of mutations of both.  The
 * mutations are the same each time.  README.md says how to run either.
 */

#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUZZ_MAX 65536 /* maximum bytes of an input */

/* Defined by the target: */
extern const char fuzz_name[];
extern const unsigned fuzz_runs; /* mutations in make check */
int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);
/* Write seed number nr, of at most FUZZ_MAX bytes.  Return its size, or 0 if
 * there are no more.
 */
size_t fuzz_seed (unsigned nr, uint8_t *out);

/* Like assert, but never compiled out. */
#define FUZZ_CHECK(what)                                                      \
  do {                                                                        \
    if (!(what))                                                              \
      fuzz_failed (__FILE__, __LINE__, #what);                                \
  } while (0)
void fuzz_failed (const char *file, int line, const char *what)
    __attribute__ ((__noreturn__));

/* An input that is being read.  Missing bytes are 0. */
struct fuzz_input {
  const uint8_t *data;
  size_t left;
};
uint64_t fuzz_take (struct fuzz_input *in, unsigned bytes); /* big-endian */
/* Take up to *n bytes, and set *n to their number. */
const uint8_t *fuzz_take_bytes (struct fuzz_input *in, size_t *n);

/* Write these bytes to a file.  Return its name, valid until the next call. */
const char *fuzz_file (const uint8_t *data, size_t size);

/* Make an access to these n bytes behind a buffer fail.  AddressSanitizer
 * fails at once.  Else fuzz_unfence fails if the first FUZZ_FENCE bytes, which
 * must exist, were changed.
 */
#define FUZZ_FENCE 64
void fuzz_fence (uint8_t *at, size_t n);
void fuzz_unfence (uint8_t *at, size_t n);

/* Drop what a program prints on stderr, or stop doing so. */
void fuzz_quiet (bool quiet);

/* Return the number of open descriptors below 256. */
unsigned fuzz_open_fds (void);

#endif /* FUZZ_H */
