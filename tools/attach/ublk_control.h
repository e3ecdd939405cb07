/* SPDX-License-Identifier: BSD-3-Clause */
/* ublk_control.h - make, start, recover and remove ublk devices, over
 * /dev/ublk-control.  Source: Documentation/block/ublk.rst and
 * include/uapi/linux/ublk_cmd.h of Linux 6.12.
 *
 *   add -> set -> (queues fetch) -> start         a new device
 *   recover_begin -> (queues fetch) -> recover_end
 *                                                 after its server died
 *   stop -> (queues end) -> remove
 *
 * Each call waits for the kernel, for 10 s at most (remove: 3 s) or until its
 * deadline.  A server is the process that answers the device.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  one.
 */

#ifndef FARPAGE_UBLK_CONTROL_H
#define FARPAGE_UBLK_CONTROL_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "tools/common/deadline.h"
#include "tools/common/ublk_uapi.h"

struct ublk_control {
  int fd; /* -1: closed */
  struct io_uring ring;
  uint64_t commands; /* so far */
  union {
    uint64_t features;
    struct ublksrv_ctrl_dev_info info;
    struct ublk_params params;
  } buf; /* what a command reads or writes */
};

/* begin: served or asked -> asked -> begun.  begun stays begun.  end: ->
 * served
 */
enum ublk_recovery {
  UBLK_SERVED = 0,
  UBLK_RECOVERY_ASKED, /* the kernel may have begun, and not said so in time */
  UBLK_RECOVERY_BEGUN
};

struct ublk_device {
  int index; /* N in /dev/ublkbN; -1: any free one, set by add */
  unsigned queues, depth;
  uint32_t max_io; /* bytes of one request */
  uint64_t size;   /* bytes */
  bool read_only;
  /* Kept by the kernel: tells the device from another program's with the same
   * index.  0: not known, so only a device that was never started counts as
   * this one.
   */
  uint64_t token;
  enum ublk_recovery recovery;
};

/* Refuse kernels whose driver crashes: see the table in ublk_control.c.
 * -ENODEV: there is no driver.
 */
int ublk_control_open (struct ublk_control *c, struct fp_error *error);
void ublk_control_close (struct ublk_control *c);

/* -EBUSY: there is a device with this index. */
int ublk_add (struct ublk_control *c, struct ublk_device *d,
              struct fp_error *error);
/* Set the size and the limits, before start. */
int ublk_set (struct ublk_control *c, const struct ublk_device *d,
              struct fp_error *error);
/* Make the disk.  Wait until server has fetched all tags. */
int ublk_start (struct ublk_control *c, int index, pid_t server,
                const struct deadline *d, struct fp_error *error);
/* Take the disk away.  Wait up to ms for the requests that its server has, and
 * let all others fail.  The server gets its tags back.
 * remove: after the server has closed the device.  Users that still have it
 * open keep its index until they close it.  Both return 0 also if there is no
 * device, and leave that of another program alone.
 */
int ublk_stop (struct ublk_control *c, const struct ublk_device *d, int ms,
               struct fp_error *error);
int ublk_remove (struct ublk_control *c, const struct ublk_device *d,
                 struct fp_error *error);

/* Take over a device whose server died.  -EBUSY: it lives, or the kernel has
 * not noticed yet.
 *
 * Once recovery is begun, call it only if a server has fetched all tags since.
 * The kernel crashes if the last one has fetched those of some queues only.
 */
int ublk_recover_begin (struct ublk_control *c, struct ublk_device *d,
                        struct fp_error *error);
int ublk_recover_end (struct ublk_control *c, struct ublk_device *d,
                      pid_t server, const struct deadline *until,
                      struct fp_error *error);

/* Return NULL, or why the driver of this kernel release must not be used. */
const char *ublk_kernel_defect (const char *release);

/* Return true for Linux 6.12 and later without a defect: 'auto' uses ublk
 * there.  docs/SWAP.md has what was tried.
 */
bool ublk_kernel_is_tried (const char *release);

#endif /* FARPAGE_UBLK_CONTROL_H */
