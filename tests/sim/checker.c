/* SPDX-License-Identifier: BSD-3-Clause */
/* checker.c - see checker.h. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "sim/checker.h"
#include "sim/threads.h"

/* Order of events: begins and ends of requests. */
static uint64_t order;

/* A value that a block may have. */
struct value {
  uint64_t number;
  uint64_t ended;   /* order of the end of its write; 0: under way */
  uint64_t removed; /* reads that begin later may not return it; 0: valid */
  unsigned host;    /* that wrote it */
  bool acknowledged;
};

static struct block {
  struct value *values;
  unsigned nr, room;
} * blocks;
static uint64_t nr_blocks, last_number;
static struct checked *under_way;

static void
must (bool ok)
{
  if (ok)
    return;
  fprintf (stderr, "checker: out of memory\n");
  abort ();
}

static void
add (struct block *b, struct value v)
{
  if (b->nr == b->room) {
    b->room = b->room == 0 ? 4 : 2 * b->room;
    b->values = realloc (b->values, b->room * sizeof *b->values);
    must (b->values != NULL);
  }
  b->values[b->nr++] = v;
}

void
checker_new (uint64_t nr)
{
  for (uint64_t i = 0; i < nr_blocks; i++)
    free (blocks[i].values);
  free (blocks);
  blocks = calloc (nr, sizeof *blocks);
  must (blocks != NULL);
  nr_blocks = nr;
  under_way = NULL;
  order++;
  for (uint64_t i = 0; i < nr; i++)
    add (&blocks[i],
         (struct value) { .number = 0, .ended = order, .acknowledged = true });
}

/* ---- begin ---- */

static void
begin (struct checked *c, uint64_t first, uint64_t nr)
{
  c->first = first;
  c->nr = nr;
  c->began = ++order;
  c->host = sim_host ();
  c->next = under_way;
  c->at = &under_way;
  if (c->next != NULL)
    c->next->at = &c->next;
  under_way = c;
}

void
checker_begin_read (struct checked *c, uint64_t first, uint64_t nr)
{
  *c = (struct checked) { .is_read = true };
  begin (c, first, nr);
}

static void
begin_change (struct checked *c, uint64_t first, uint64_t nr)
{
  begin (c, first, nr);
  for (uint64_t i = first; i < first + nr; i++)
    add (&blocks[i], (struct value) { .number = c->number, .host = c->host });
}

void
checker_begin_write (struct checked *c, uint64_t first, uint64_t nr, void *buf)
{
  uint64_t *words = buf;

  *c = (struct checked) { .number = ++last_number };
  for (uint64_t i = 0; i < nr; i++)
    for (unsigned w = 0; w < CHECKER_BLOCK / sizeof *words; w += 2) {
      *words++ = first + i + 1;
      *words++ = c->number;
    }
  begin_change (c, first, nr);
}

void
checker_begin_zero (struct checked *c, uint64_t first, uint64_t nr)
{
  *c = (struct checked) { .is_zero = true };
  begin_change (c, first, nr);
}

/* ---- end ---- */

static void
forget (struct checked *c)
{
  *c->at = c->next;
  if (c->next != NULL)
    c->next->at = c->at;
}

/* Remove values that no read may return any more. */
static void
prune (struct block *b)
{
  uint64_t oldest = order + 1;
  unsigned kept = 0;

  for (const struct checked *c = under_way; c != NULL; c = c->next)
    oldest = FP_MIN (oldest, c->began);
  for (unsigned i = 0; i < b->nr; i++)
    if (b->values[i].removed == 0 || b->values[i].removed > oldest)
      b->values[kept++] = b->values[i];
  b->nr = kept;
}

/* Note that the write c has ended.  If it was acknowledged, it has replaced
 * all that had ended when it began.
 */
static void
end_change (const struct checked *c, bool acknowledged)
{
  for (uint64_t i = c->first; i < c->first + c->nr; i++) {
    struct block *b = &blocks[i];
    bool found = false;

    for (unsigned n = 0; n < b->nr; n++) {
      struct value *v = &b->values[n];

      /* Two zeros at once cannot be told apart, and need not be. */
      if (!found && v->ended == 0 && v->number == c->number &&
          v->host == c->host) {
        v->ended = order;
        v->acknowledged = acknowledged;
        found = true;
      }
      else if (acknowledged && v->removed == 0 && v->ended != 0 &&
               v->ended < c->began)
        v->removed = order;
    }
    prune (b);
  }
}

static const char *
wrong (const struct checked *c, uint64_t i, const char *what, uint64_t a,
       uint64_t b)
{
  static char text[1024];
  int n = snprintf (text, sizeof text,
                    "block %llu: a read has %s (%llu, %llu); it may have",
                    (unsigned long long) i, what, (unsigned long long) a,
                    (unsigned long long) b);

  for (unsigned k = 0; k < blocks[i].nr && n < (int) sizeof text; k++) {
    const struct value *v = &blocks[i].values[k];

    if (v->removed == 0 || v->removed > c->began)
      n += snprintf (text + n, sizeof text - (size_t) n, " %llu%s",
                     (unsigned long long) v->number,
                     v->ended == 0 ? " (under way)" : "");
  }
  return text;
}

/* Return true if no read may return u after this one has returned v. */
static bool
replaces (const struct value *v, const struct value *u,
          const struct checked *c)
{
  /* The next client finds one of the values that former ones have left. */
  if (v->host < c->host && u->host < c->host)
    return true;
  /* v is later than all that had been acknowledged when the read began. */
  return v->acknowledged && u->acknowledged && u->ended < c->began;
}

/* Return how many writes of zeros a read may find. */
static unsigned
nr_zeros (const struct block *b, const struct checked *c)
{
  unsigned nr = 0;

  for (unsigned n = 0; n < b->nr; n++)
    nr += b->values[n].number == 0 &&
          (b->values[n].removed == 0 || b->values[n].removed > c->began);
  return nr;
}

/* Remove the values that no read may return after v. */
static void
settle (struct block *b, const struct value *v, const struct checked *c)
{
  if (v->number == 0 && nr_zeros (b, c) > 1)
    return; /* they cannot be told apart */
  for (unsigned n = 0; n < b->nr; n++) {
    struct value *u = &b->values[n];

    if (u != v && u->removed == 0 && replaces (v, u, c))
      u->removed = order;
  }
}

static const char *
check_block (const struct checked *c, uint64_t i, const uint64_t *words)
{
  struct block *b = &blocks[i];
  uint64_t number = words[1];

  for (unsigned w = 2; w < CHECKER_BLOCK / sizeof *words; w++)
    if (words[w] != words[w % 2])
      return wrong (c, i, "parts of two blocks", words[w % 2], words[w]);
  if (words[0] != (number == 0 ? 0 : i + 1))
    return wrong (c, i, "another block", words[0], number);
  for (unsigned n = 0; n < b->nr; n++)
    if (b->values[n].number == number &&
        (b->values[n].removed == 0 || b->values[n].removed > c->began)) {
      settle (b, &b->values[n], c);
      return NULL;
    }
  return wrong (c, i, "a wrong write", words[0], number);
}

const char *
checker_end (struct checked *c, const void *buf, int status)
{
  const uint64_t *words = buf;
  const char *why = NULL;

  order++;
  if (!c->is_read)
    end_change (c, status == 0);
  else if (status == 0)
    for (uint64_t i = 0; i < c->nr && why == NULL; i++)
      why = check_block (c, c->first + i,
                         words + i * (CHECKER_BLOCK / sizeof *words));
  forget (c);
  return why;
}

void
checker_attached (unsigned host)
{
  order++;
  for (uint64_t i = 0; i < nr_blocks; i++)
    for (unsigned n = 0; n < blocks[i].nr; n++) {
      struct value *v = &blocks[i].values[n];

      if (v->ended == 0 && v->host < host)
        v->ended = order;
    }
}

unsigned
checker_abandon (unsigned host)
{
  struct checked *next;
  unsigned nr = 0;

  order++;
  for (struct checked *c = under_way; c != NULL; c = next) {
    next = c->next;
    if (c->host != host)
      continue;
    if (!c->is_read)
      end_change (c, false);
    forget (c);
    nr++;
  }
  return nr;
}
