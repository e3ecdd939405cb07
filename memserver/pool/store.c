/* SPDX-License-Identifier: BSD-3-Clause */
/* store.c - memory that outlives this process: choose the kind of store. */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "memserver/pool/store_int.h"

bool
store_will_seal (const char *where)
{
  return strcmp (where, STORE_FDS) == 0;
}

int
store_open (struct store **out, const char *where, struct fp_error *error)
{
  struct store *s = calloc (1, sizeof *s);
  int r;

  if (!s)
    return -ENOMEM;
  s->where = where;
  s->fds = store_will_seal (where);
  s->dir = s->lock = -1;
  r = -pthread_mutex_init (&s->mutex, NULL);
  if (r < 0) {
    free (s);
    return r;
  }
  r = s->fds ? store_fds_open (s, error) : store_dir_open (s, error);
  if (r < 0) {
    store_close (s);
    return r;
  }
  *out = s;
  return 0;
}

void
store_close (struct store *s)
{
  if (!s)
    return;
  store_fds_close (s);
  if (s->lock >= 0)
    close (s->lock);
  if (s->dir >= 0)
    close (s->dir);
  pthread_mutex_destroy (&s->mutex);
  free (s);
}

const char *
store_where (const struct store *s)
{
  return s->where;
}

uint64_t
store_page (const struct store *s)
{
  return s->page;
}

bool
store_is_sealed (const struct store *s)
{
  return s->fds;
}

int
store_room (const struct store *s, uint64_t *room)
{
  *room = UINT64_MAX;
  return s->fds ? 0 : store_dir_room (s, room);
}

uint64_t
store_page_at (const char *where)
{
  return store_will_seal (where) ? (uint64_t) sysconf (_SC_PAGESIZE)
                                 : store_dir_page_at (where);
}

uint64_t
store_holds (const char *where, const char *prefix)
{
  return store_will_seal (where) ? store_fds_holds (prefix)
                                 : store_dir_holds (where, prefix);
}

int
store_get (struct store *s, const char *name)
{
  return s->fds ? store_fds_get (s, name) : store_dir_get (s, name);
}

int
store_make (struct store *s, const char *name)
{
  return s->fds ? store_fds_make (s, name) : store_dir_make (s, name);
}

void
store_unmake (struct store *s, const char *name)
{
  if (!s->fds)
    store_dir_unmake (s, name);
}

int
store_keep (struct store *s, const char *name, int fd)
{
  return s->fds ? store_fds_keep (s, name, fd) : store_dir_keep (s, name);
}

int
store_remove (struct store *s, const char *name)
{
  return s->fds ? store_fds_remove (s, name) : store_dir_remove (s, name);
}

int
store_each (struct store *s, store_each_fn *each, void *ctx,
            struct fp_error *error)
{
  return s->fds ? store_fds_each (s, each, ctx, error)
                : store_dir_each (s, each, ctx, error);
}
