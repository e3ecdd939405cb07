/* SPDX-License-Identifier: BSD-3-Clause */
/* cleanup.h - release things when they go out of scope.
 *
 * FP_CLEANUP (fn) calls fn (&var) at the end of var's scope, on every path out
 * of it.  FP_STEAL (var) empties var and yields its old value.  The success
 * path uses it to hand the object to the caller:
 *
 *   FP_CLEANUP (region_freep) struct region *r = calloc (1, sizeof *r);
 *   ...
 *   *out = FP_STEAL (r);
 *   return 0;
 *
 * Nothing here allocates.  If a mutex cannot be locked or unlocked, that is a
 * bug, and the process aborts.
 */

#ifndef FP_CLEANUP_H
#define FP_CLEANUP_H

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FP_CLEANUP(fn) __attribute__ ((__unused__, __cleanup__ (fn)))

#define FP_STEAL(var)                                                         \
  ({                                                                          \
    __auto_type _stolen = (var);                                              \
    (var) = NULL;                                                             \
    _stolen;                                                                  \
  })

static inline pthread_mutex_t *
fp_lock (pthread_mutex_t *lock)
{
  if (pthread_mutex_lock (lock) != 0)
    abort ();
  return lock;
}

static inline void
fp_unlockp (pthread_mutex_t **lock)
{
  if (pthread_mutex_unlock (*lock) != 0)
    abort ();
}

/* Hold a mutex until the end of the current scope.  Several mutexes of one
 * scope are released in reverse order.
 */
#define FP_LOCK_SCOPE(mutex)                                                  \
  FP_CLEANUP (fp_unlockp)                                                     \
  pthread_mutex_t *FP_UNIQUE_NAME (_scope_lock) = fp_lock (mutex)

/* Build a name that no other use of the macro in this scope has. */
#define FP_UNIQUE_NAME(name) FP_PASTE (name, __COUNTER__)
#define FP_PASTE(a, b) FP_PASTE_ (a, b)
#define FP_PASTE_(a, b) a##b

/* Free memory from malloc, at the end of the scope of FP_CLEANUP (fp_free). */
static inline void
fp_free (void *p)
{
  free (*(void **) p);
}

/* Close *fd, unless it is -1, at the end of the scope of FP_CLEANUP
 * (fp_closep).  Keep errno, so that the caller can still return it.
 */
static inline void
fp_closep (int *fd)
{
  int saved = errno;

  if (*fd >= 0)
    close (*fd);
  errno = saved;
}

/* Close *fp, unless it is NULL, at the end of the scope of FP_CLEANUP
 * (fp_fclosep).  Only for streams that are read: an error of fclose is lost.
 */
static inline void
fp_fclosep (FILE **fp)
{
  if (*fp != NULL)
    fclose (*fp);
}

#endif /* FP_CLEANUP_H */
