/* SPDX-License-Identifier: BSD-3-Clause */
/* revoke.c - preloaded into farpage-memserver by a test.  Once the file that
 * REVOKE_FILE names exists, all memory that the server has registered for
 * peers is deregistered behind its back.  So the clients' keys open nothing.
 * Then the file is removed.
 *
 * The server gets a stand-in for each region, from which it may read the keys.
 * So the region itself can be gone before the server frees it.
 */

#include <config.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#undef ibv_reg_mr_iova

typedef struct ibv_mr *reg_fn (struct ibv_pd *, void *, size_t, uint64_t,
                               unsigned);
typedef int dereg_fn (struct ibv_mr *);

struct stand_in {
  struct ibv_mr mr; /* first: the server has its address */
  struct ibv_mr *real;
  struct stand_in *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stand_in *all;

/* Find a function.  ISO C has no conversion from dlvsym's result to a function
 * pointer.  The version is needed, as older ones are for structures of another
 * layout.
 */
static void
find (const char *name, const char *version, void *out)
{
  *(void **) out = dlvsym (RTLD_NEXT, name, version);
  if (*(void **) out == NULL)
    abort ();
}

static struct ibv_mr *
stand_in (struct ibv_mr *real)
{
  struct stand_in *s;

  if (real == NULL)
    return NULL;
  s = calloc (1, sizeof *s);
  if (s == NULL)
    abort ();
  s->mr = *real;
  s->real = real;
  pthread_mutex_lock (&lock);
  s->next = all;
  all = s;
  pthread_mutex_unlock (&lock);
  return &s->mr;
}

struct ibv_mr *
ibv_reg_mr_iova2 (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                  unsigned access)
{
  reg_fn *real;

  find ("ibv_reg_mr_iova2", "IBVERBS_1.8", &real);
  return stand_in (real (pd, addr, length, iova, access));
}

/* Call the function above, as the library's own one does. */
struct ibv_mr *
ibv_reg_mr_iova (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                 int access)
{
  return ibv_reg_mr_iova2 (pd, addr, length, iova, (unsigned) access);
}

int
ibv_dereg_mr (struct ibv_mr *mr)
{
  struct stand_in **at, *s;
  dereg_fn *real;
  int r = 0;

  find ("ibv_dereg_mr", "IBVERBS_1.1", &real);
  pthread_mutex_lock (&lock);
  for (at = &all; *at != NULL && &(*at)->mr != mr; at = &(*at)->next)
    ;
  s = *at;
  if (s == NULL)
    r = real (mr);
  else if (s->real != NULL)
    r = real (s->real);
  if (s != NULL && r == 0) {
    *at = s->next;
    free (s);
  }
  pthread_mutex_unlock (&lock);
  return r;
}

static void
revoke_all (void)
{
  dereg_fn *real;

  find ("ibv_dereg_mr", "IBVERBS_1.1", &real);
  pthread_mutex_lock (&lock);
  for (struct stand_in *s = all; s != NULL; s = s->next)
    if (s->real != NULL && real (s->real) == 0)
      s->real = NULL;
  pthread_mutex_unlock (&lock);
}

static void *
wait_for_file (void *name)
{
  const struct timespec soon = { .tv_nsec = 20000000 };

  for (;;) {
    nanosleep (&soon, NULL);
    if (access (name, F_OK) == 0) {
      revoke_all ();
      unlink (name);
    }
  }
  return NULL;
}

__attribute__ ((constructor)) static void
start (void)
{
  char *name = getenv ("REVOKE_FILE");
  sigset_t signals, before;
  pthread_t thread;

  if (name == NULL)
    return;
  sigfillset (&signals);
  pthread_sigmask (SIG_BLOCK, &signals, &before);
  if (pthread_create (&thread, NULL, wait_for_file, name) != 0)
    abort ();
  pthread_sigmask (SIG_SETMASK, &before, NULL);
}
