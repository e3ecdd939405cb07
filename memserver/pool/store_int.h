/* SPDX-License-Identifier: BSD-3-Clause */
/* store_int.h - the inside of a store: store.c, and a file for each kind. */

#ifndef MEMSERVER_STORE_INT_H
#define MEMSERVER_STORE_INT_H

#include <pthread.h>
#include <sys/types.h>

#include "base/error.h"
#include "memserver/pool/store.h"

struct store_file {
  struct store_file *next;
  char name[STORE_NAME_MAX];
  int fd;
};

struct store {
  const char *where;
  uint64_t page;
  bool fds;

  int dir, lock; /* store_dir.c; -1: none */

  pthread_mutex_t mutex; /* store_fds.c: guards the fields below */
  struct store_file *files;
  size_t names; /* total length of the files' names, with NULs */
};

/* The functions of store.h, for each kind of store. */
int store_dir_open (struct store *s, struct fp_error *error);
int store_dir_get (struct store *s, const char *name);
int store_dir_make (struct store *s, const char *name);
void store_dir_unmake (struct store *s, const char *name);
int store_dir_keep (struct store *s, const char *name);
int store_dir_remove (struct store *s, const char *name);
int store_dir_each (struct store *s, store_each_fn *each, void *ctx,
                    struct fp_error *error);
int store_dir_room (const struct store *s, uint64_t *room);
uint64_t store_dir_page_at (const char *dir);
uint64_t store_dir_holds (const char *dir, const char *prefix);

int store_fds_open (struct store *s, struct fp_error *error);
void store_fds_close (struct store *s);
int store_fds_get (struct store *s, const char *name);
int store_fds_make (struct store *s, const char *name);
int store_fds_keep (struct store *s, const char *name, int fd);
int store_fds_remove (struct store *s, const char *name);
int store_fds_each (struct store *s, store_each_fn *each, void *ctx,
                    struct fp_error *error);
uint64_t store_fds_holds (const char *prefix);

#endif /* MEMSERVER_STORE_INT_H */
