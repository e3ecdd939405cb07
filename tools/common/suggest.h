/* SPDX-License-Identifier: BSD-3-Clause */
/* suggest.h - what may have been meant. */

#ifndef FARPAGE_SUGGEST_H
#define FARPAGE_SUGGEST_H

#include <stddef.h>

/* The one of n words that is most like this one, or NULL if none is. */
const char *suggest (const char *word, const char *const *words, size_t n);

#endif /* FARPAGE_SUGGEST_H */
