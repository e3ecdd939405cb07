/* SPDX-License-Identifier: BSD-3-Clause */
/* privileges.c - see privileges.h. */

#include <config.h>

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/attach/privileges.h"

static const uint64_t kept =
    UINT64_C (1) << CAP_IPC_LOCK | UINT64_C (1) << CAP_SYS_NICE |
    UINT64_C (1) << CAP_SYS_RESOURCE | UINT64_C (1) << CAP_DAC_OVERRIDE;

/* Drop capabilities that this process holds.  An exec as root gives the
 * inheritable ones, whatever the bounding set is.  An exec as another user
 * gives the ambient ones (capabilities(7)).  A container or a unit may have
 * set either.  A capability that is no longer inheritable is not ambient
 * either (cap_capset in security/commoncap.c).
 */
static int
drop_held (void)
{
  struct __user_cap_header_struct h = { .version =
                                            _LINUX_CAPABILITY_VERSION_3 };
  struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3];

  if (syscall (SYS_capget, &h, d) == -1)
    return -errno;
  for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
    const uint32_t k = (uint32_t) (kept >> 32 * i);

    d[i].effective &= k;
    d[i].permitted &= k;
    d[i].inheritable &= k;
  }
  return syscall (SYS_capset, &h, d) == -1 ? -errno : 0;
}

int
privileges_drop (void)
{
  int r = 0, err;

  /* Without CAP_SETPCAP (no root) this is refused.  That does no harm: with
   * no_new_privs an exec gives nothing that was not there before.
   */
  for (unsigned cap = 0; prctl (PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
    if (!(kept >> cap & 1) && prctl (PR_CAPBSET_DROP, cap, 0, 0, 0) == -1 &&
        errno != EPERM && r == 0)
      r = -errno;
  if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 && r == 0)
    r = -errno;
  err = drop_held ();
  return r == 0 ? err : r;
}
