/* SPDX-License-Identifier: BSD-3-Clause */
/* choose.c - see choose.h. */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/random.h"
#include "place/placement.h"
#include "pool/choose.h"

/* The state of a choice, with an element for each donor. */
struct choice {
  const struct fp_registry *r;
  const struct fp_choose_rules *rules;
  uint64_t *usable; /* bytes; 0: cannot be chosen */
  uint64_t *left;   /* usable, or 0 unless its domain has the fewest */
  unsigned *has;    /* number of the volume's donors in the same domain */
};

static bool
has (const struct choice *c, const struct fp_donor *d)
{
  return c->rules->has != NULL && c->rules->has (c->rules->arg, d);
}

/* Count donor k in its domain.  A donor without a domain counts as a domain of
 * its own.
 */
static void
count (struct choice *c, size_t k)
{
  const char *domain = c->r->donors[k].domain;

  for (size_t i = 0; *domain != '\0' && i < c->r->nr; i++)
    c->has[i] += strcmp (c->r->donors[i].domain, domain) == 0;
}

/* Look at each donor.  Return the slab size of those that the volume has, or
 * else 0.
 */
static uint64_t
look (struct choice *c)
{
  uint64_t slab = 0;

  for (size_t i = 0; i < c->r->nr; i++) {
    const struct fp_donor *d = &c->r->donors[i];

    if (has (c, d)) {
      count (c, i);
      slab = d->slab;
    }
    else if (fp_donor_lends (d) && d->free >= c->rules->room)
      c->usable[i] = d->free;
  }
  return slab;
}

/* Return the best slab size for a volume that has no donor yet.  One volume
 * cannot use donors with different slabs.
 */
static uint64_t
best_slab (const struct choice *c)
{
  struct {
    uint64_t sum;
    unsigned donors; /* up to n */
  } of[64] = { { 0 } };
  unsigned best = 0;

  for (size_t i = 0; i < c->r->nr; i++) {
    unsigned k = fp_log2 (c->r->donors[i].slab);

    of[k].sum += c->usable[i];
    of[k].donors += c->usable[i] > 0 && of[k].donors < c->rules->n;
  }
  for (unsigned k = 1; k < 64; k++)
    if (of[k].donors > of[best].donors ||
        (of[k].donors == of[best].donors && of[k].sum > of[best].sum))
      best = k;
  return UINT64_C (1) << best;
}

static uint64_t
draw (const struct choice *c)
{
  uint64_t random = 0;

  if (c->rules->draw != NULL)
    return c->rules->draw (c->rules->arg);
  (void) fp_random (&random, sizeof random); /* else the first donors */
  return random;
}

static int
choose (struct choice *c, size_t *out)
{
  uint64_t slab = look (c);
  unsigned n;

  if (slab == 0)
    slab = best_slab (c);
  for (size_t i = 0; i < c->r->nr; i++)
    if (c->r->donors[i].slab != slab)
      c->usable[i] = 0;
  for (n = 0; n < c->rules->n; n++) {
    int k;

    memcpy (c->left, c->usable, c->r->nr * sizeof *c->left);
    fp_placement_spread (c->left, c->has, (unsigned) c->r->nr);
    k = fp_placement_choose (c->left, (unsigned) c->r->nr, draw (c));
    if (k < 0)
      break;
    out[n] = (size_t) k;
    c->usable[k] = 0;
    count (c, (size_t) k);
  }
  return (int) n;
}

int
fp_choose_donors (const struct fp_registry *r,
                  const struct fp_choose_rules *rules, size_t *out)
{
  FP_CLEANUP (fp_free) uint64_t *usable = calloc (r->nr + 1, sizeof *usable);
  FP_CLEANUP (fp_free) uint64_t *left = calloc (r->nr + 1, sizeof *left);
  FP_CLEANUP (fp_free) unsigned *counts = calloc (r->nr + 1, sizeof *counts);
  struct choice c = {
    .r = r, .rules = rules, .usable = usable, .left = left, .has = counts
  };

  if (usable == NULL || left == NULL || counts == NULL)
    return -ENOMEM;
  return choose (&c, out);
}
