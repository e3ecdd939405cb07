/* SPDX-License-Identifier: BSD-3-Clause */
/* tokens.c - see tokens.h. */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "memserver/session/tokens.h"

static void
drop (struct tokens *t, unsigned i)
{
  t->at[i] = t->at[--t->nr];
  explicit_bzero (&t->at[t->nr], sizeof t->at[t->nr]);
}

/* Return the index of the lane's token, or t->nr if it has none.  Drop expired
 * tokens.
 */
static unsigned
find (struct tokens *t, uint32_t lane, uint64_t now_ns)
{
  unsigned i = 0;

  while (i < t->nr)
    if (now_ns >= t->at[i].until_ns)
      drop (t, i);
    else if (t->at[i].lane == lane)
      return i;
    else
      i++;
  return i;
}

static bool
token_eq (const uint8_t *a, const uint8_t *b)
{
  uint8_t diff = 0;

  for (unsigned i = 0; i < FP_TOKEN_SIZE; i++)
    diff |= (uint8_t) (a[i] ^ b[i]);
  return diff == 0;
}

int
tokens_make (struct tokens *t, uint32_t lane, uint64_t now_ns,
             uint8_t out[FP_TOKEN_SIZE])
{
  unsigned i = find (t, lane, now_ns);
  int r;

  if (i == MAX_DATA)
    return -EBUSY;
  r = fp_random (out, FP_TOKEN_SIZE);
  if (r < 0)
    return r;
  memcpy (t->at[i].token, out, FP_TOKEN_SIZE);
  t->at[i].lane = lane;
  t->at[i].until_ns = now_ns + TOKENS_MS * FP_NS_PER_MS;
  t->nr += i == t->nr;
  return 0;
}

bool
tokens_take (struct tokens *t, uint32_t lane, uint64_t now_ns,
             const uint8_t token[FP_TOKEN_SIZE])
{
  unsigned i = find (t, lane, now_ns);

  if (i == t->nr || !token_eq (t->at[i].token, token))
    return false;
  drop (t, i);
  return true;
}
