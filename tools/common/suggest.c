/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <stdbool.h>
#include <string.h>

#include "base/checked.h"
#include "tools/common/suggest.h"

#define LONGEST 16
#define FAR (LONGEST + 1)

/* Return the number of letters to change, to add, to leave out, or to swap
 * with the next one.
 */
static unsigned
distance (const char *a, const char *b)
{
  unsigned d[LONGEST + 1][LONGEST + 1];
  size_t na = strlen (a), nb = strlen (b);

  if (na > LONGEST || nb > LONGEST)
    return FAR;
  for (size_t i = 0; i <= na; i++) {
    for (size_t j = 0; j <= nb; j++) {
      if (i == 0 || j == 0) {
        d[i][j] = (unsigned) (i + j);
        continue;
      }
      d[i][j] = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      d[i][j] = FP_MIN (d[i][j], d[i - 1][j] + 1);
      d[i][j] = FP_MIN (d[i][j], d[i][j - 1] + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = FP_MIN (d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[na][nb];
}

/* Words of other programs, each with the word that is used here. */
static const char *const same[][2] = {
  { "rm", "remove" },     { "rm", "delete" }, { "del", "remove" },
  { "del", "delete" },    { "ls", "list" },   { "delete", "remove" },
  { "remove", "delete" }, { "new", "add" },   { "info", "show" },
};

static bool
is_same (const char *word, const char *other)
{
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
    if (strcmp (word, same[i][0]) == 0 && strcmp (other, same[i][1]) == 0)
      return true;
  return false;
}

const char *
suggest (const char *word, const char *const *words, size_t n)
{
  const char *best = NULL;
  unsigned least = FAR;

  for (size_t i = 0; i < n; i++) {
    unsigned d;

    if (is_same (word, words[i]))
      return words[i];
    d = distance (word, words[i]);

    /* At most a third of the letters differ. */
    if (d < least && 3 * d <= strlen (words[i]) + 1) {
      least = d;
      best = words[i];
    }
  }
  return best;
}
