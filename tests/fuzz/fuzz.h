/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz.h - what the fuzzers share.  Each fuzz-NAME.c is one target: bytes that
 * somebody hostile sends, or that were spoiled, go in, and nothing may crash,
 * leak, hang, or be believed that is not so (FUZZ_CHECK).
 *
 * With configure --enable-fuzzing (clang) it is linked with libFuzzer.  Else
 * fuzz.c has the main (): it runs the seeds, the inputs in corpus/NAME that
 * found something once, and some thousands of mutations of both that are the
 * same each time.  README.md says how to run either.
 */

#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUZZ_MAX 65536 /* bytes of an input */

/* Of the target: */
extern const char fuzz_name[];
extern const unsigned fuzz_runs; /* mutations in make check */
int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);
/* Seed number nr, of at most FUZZ_MAX bytes; 0: there are no more. */
size_t fuzz_seed (unsigned nr, uint8_t *out);

/* Not assert: this is never compiled out. */
#define FUZZ_CHECK(what)                                                      \
  do {                                                                        \
    if (!(what))                                                              \
      fuzz_failed (__FILE__, __LINE__, #what);                                \
  } while (0)
void fuzz_failed (const char *file, int line, const char *what)
    __attribute__ ((__noreturn__));

/* An input is read like this; what is not there is 0. */
struct fuzz_input {
  const uint8_t *data;
  size_t left;
};
uint64_t fuzz_take (struct fuzz_input *in, unsigned bytes); /* big-endian */
/* At most n bytes: as many as there are. */
const uint8_t *fuzz_take_bytes (struct fuzz_input *in, size_t *n);

/* A file with these bytes; its name stays valid until the next call. */
const char *fuzz_file (const uint8_t *data, size_t size);

/* Who touches these n bytes behind something fails: at once with
 * AddressSanitizer, else in fuzz_unfence if it changed the first FUZZ_FENCE,
 * which have to be there.
 */
#define FUZZ_FENCE 64
void fuzz_fence (uint8_t *at, size_t n);
void fuzz_unfence (uint8_t *at, size_t n);

/* What a program says on stderr for people is nothing here. */
void fuzz_quiet (bool quiet);

/* So many descriptors are open (those below 256). */
unsigned fuzz_open_fds (void);

#endif /* FUZZ_H */
