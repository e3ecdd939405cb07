/* SPDX-License-Identifier: BSD-3-Clause */
/* suggest.h - guess the word that the user meant. */

#ifndef FARPAGE_SUGGEST_H
#define FARPAGE_SUGGEST_H

#include <stddef.h>

/* Return the one of n words that is most like word, or NULL if none is. */
const char *suggest (const char *word, const char *const *words, size_t n);

#endif /* FARPAGE_SUGGEST_H */
