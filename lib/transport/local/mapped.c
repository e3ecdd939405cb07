/* SPDX-License-Identifier: BSD-3-Clause */
/* mapped.c - see mapped.h. */

#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "transport/local/mapped.h"

/* In a library that is loaded later, a thread's first use of other thread
 * local storage allocates (glibc, dl-tls.c).
 */
#ifdef __GLIBC__
#define STATIC_TLS __attribute__ ((tls_model ("initial-exec")))
#else
#define STATIC_TLS
#endif

/* Where this thread's copy resumes if memory is missing; NULL: no copy runs.
 */
static _Thread_local sigjmp_buf *volatile missing STATIC_TLS;

static struct sigaction before;

static void
pass_on (int sig, siginfo_t *info, void *context)
{
  bool repeated;

  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction (sig, info, context);
    return;
  }
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler (sig);
    return;
  }
  /* If an access raised the signal, returning repeats the access, which ends
   * the process.  Any other SIGBUS must be raised again for that.
   */
  repeated = info->si_code > 0 && info->si_code != BUS_MCEERR_AO;
  if (before.sa_handler == SIG_IGN && !repeated)
    return;
  (void) signal (sig, SIG_DFL);
  if (!repeated)
    (void) raise (sig);
}

static void
on_sigbus (int sig, siginfo_t *info, void *context)
{
  if (missing != NULL &&
      (info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR)) {
    /* The kernel blocks SIGBUS in a handler, a sanitizer all signals. */
    (void) pthread_sigmask (SIG_SETMASK, &((ucontext_t *) context)->uc_sigmask,
                            NULL);
    siglongjmp (*missing, 1);
  }
  pass_on (sig, info, context);
}

static void
handle_sigbus (void)
{
  struct sigaction action = { .sa_sigaction = on_sigbus,
                              .sa_flags = SA_SIGINFO };

  sigemptyset (&action.sa_mask);
  if (sigaction (SIGBUS, &action, &before) == -1)
    abort (); /* only a bad argument can fail */
}

void
fp_mapped_guard (void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  (void) pthread_once (&once, handle_sigbus);
}

int
fp_mapped_copy (void *to, const void *from, size_t length)
{
  sigjmp_buf here;

  if (sigsetjmp (here, 0) != 0) {
    missing = NULL;
    return -EFAULT;
  }
  missing = &here;
  atomic_signal_fence (memory_order_seq_cst);
  memcpy (to, from, length);
  atomic_signal_fence (memory_order_seq_cst);
  missing = NULL;
  return 0;
}
