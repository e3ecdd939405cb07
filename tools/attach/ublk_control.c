/* SPDX-License-Identifier: BSD-3-Clause */
/* ublk_control.c - see ublk_control.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/checked.h"
#include "tools/attach/ublk_control.h"
#include "tools/common/ublk_uapi.h"

#define SECTOR 512u
#define BLOCK_SHIFT 12 /* blocks of 4 KiB, as nbd.ko has them */
#define ANY_QUEUE UINT16_MAX
#define COMMAND_MS 10000
#define REMOVE_MS 3000
/* A bio has less than 4 GiB. */
#define ZERO_MAX_SECTORS (UINT32_MAX >> BLOCK_SHIFT << (BLOCK_SHIFT - 9))

/* Kernels on which adding a device crashes the machine.  To try is to crash,
 * so go by the release.
 */
static const struct {
  const char *release; /* begins with this, and no digit follows */
  const char *defect;
} defects[] = {
  { "6.18.4", "adding a ublk device crashes it: use 6.18.6 or later" },
  { "6.18.5", "adding a ublk device crashes it: use 6.18.6 or later" },
  { "6.17.0-1015-azure", "adding a ublk device crashes it" },
  { "6.17.0-1018-azure", "adding a ublk device crashes it" },
  { "6.17.0-1017-aws", "adding a ublk device crashes it" },
};

const char *
ublk_kernel_defect (const char *release)
{
  for (size_t i = 0; i < sizeof defects / sizeof defects[0]; i++) {
    size_t n = strlen (defects[i].release);

    if (strncmp (release, defects[i].release, n) == 0 &&
        (release[n] < '0' || release[n] > '9'))
      return defects[i].defect;
  }
  return NULL;
}

bool
ublk_kernel_is_tried (const char *release)
{
  int major, minor;

  return sscanf (release, "%d.%d", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 12)) &&
         ublk_kernel_defect (release) == NULL;
}

static int
submit (struct ublk_control *c, unsigned op, int index, uint64_t data,
        void *buf, uint16_t length)
{
  struct io_uring_sqe *sqe = io_uring_get_sqe (&c->ring);
  struct ublksrv_ctrl_cmd *cmd;
  int r;

  if (sqe == NULL)
    return -EBUSY;
  memset (sqe, 0, 2 * sizeof *sqe); /* IORING_SETUP_SQE128 */
  sqe->opcode = IORING_OP_URING_CMD;
  sqe->fd = c->fd;
  sqe->cmd_op = op;
  sqe->user_data = ++c->commands;
  cmd = (struct ublksrv_ctrl_cmd *) sqe->cmd;
  cmd->dev_id = (uint32_t) index;
  cmd->queue_id = ANY_QUEUE;
  cmd->addr = (uintptr_t) buf;
  cmd->len = length;
  cmd->data[0] = data;
  r = io_uring_submit (&c->ring);
  return r < 0 ? r : 0;
}

/* Wait for the result of the last command.  The result of an earlier one,
 * which timed out, may come first.
 */
static int
result (struct ublk_control *c, const struct deadline *d)
{
  for (;;) {
    int left = deadline_left (d, 200), r;
    struct __kernel_timespec ts = { .tv_nsec = left * 1000000ll };
    struct io_uring_cqe *cqe;
    uint64_t which;

    if (left == 0)
      return d->stop && *d->stop ? -EINTR : -ETIMEDOUT;
    r = io_uring_wait_cqe_timeout (&c->ring, &cqe, &ts);
    if (r == -ETIME || r == -EINTR)
      continue;
    if (r < 0)
      return r;
    which = cqe->user_data;
    r = cqe->res;
    io_uring_cqe_seen (&c->ring, cqe);
    if (which == c->commands)
      return r;
  }
}

/* Send a command, and wait for its result.  buf: in c->buf, because the kernel
 * may still use it after a timeout.
 */
static int
command_in (struct ublk_control *c, int ms, unsigned op, int index, void *buf,
            size_t length)
{
  struct deadline d = deadline_in (ms, NULL);
  int r = submit (c, op, index, 0, buf, (uint16_t) length);

  return r < 0 ? r : result (c, &d);
}

static int
command (struct ublk_control *c, unsigned op, int index, void *buf,
         size_t length)
{
  return command_in (c, COMMAND_MS, op, index, buf, length);
}

int
ublk_control_open (struct ublk_control *c, struct fp_error *error)
{
  struct utsname name;
  const char *defect;
  int r;

  c->fd = -1;
  if (uname (&name) == -1)
    return fp_fail (error, -errno, "uname: %s", strerror (errno));
  defect = ublk_kernel_defect (name.release);
  if (defect != NULL)
    return fp_fail (error, -ENODEV, "Linux %s: %s", name.release, defect);
  c->fd = open ("/dev/ublk-control", O_RDWR | O_CLOEXEC);
  if (c->fd == -1) {
    r = -errno;
    if (r == -ENOENT)
      return fp_fail (error, -ENODEV,
                      "/dev/ublk-control does not exist: run 'modprobe "
                      "ublk_drv' (Linux 6.5 or later)");
    return fp_fail (error, r, "/dev/ublk-control: %s", strerror (-r));
  }
  r = io_uring_queue_init (4, &c->ring, IORING_SETUP_SQE128);
  if (r < 0) {
    close (c->fd);
    c->fd = -1;
    return fp_fail (error, r,
                    "io_uring: %s: see sysctl kernel.io_uring_disabled",
                    strerror (-r));
  }
  c->buf.features = 0;
  r = command (c, UBLK_U_CMD_GET_FEATURES, -1, &c->buf.features,
               sizeof c->buf.features);
  if (r < 0 && r != -EOPNOTSUPP && r != -EINVAL) {
    ublk_control_close (c);
    return fp_fail (error, r, "/dev/ublk-control: cannot ask it: %s",
                    strerror (-r));
  }
  if (r < 0 || (c->buf.features & UBLK_F_CMD_IOCTL_ENCODE) == 0) {
    ublk_control_close (c);
    return fp_fail (
        error, -ENODEV,
        "Linux %s: its ublk_drv is too old: use Linux 6.5 or later",
        name.release);
  }
  return 0;
}

void
ublk_control_close (struct ublk_control *c)
{
  if (c->fd == -1)
    return;
  io_uring_queue_exit (&c->ring);
  close (c->fd);
  c->fd = -1;
}

static int
failed (struct fp_error *error, int r, const char *what, int index)
{
  return fp_fail (error, r, "cannot %s /dev/ublkb%d: %s", what, index,
                  strerror (-r));
}

int
ublk_add (struct ublk_control *c, struct ublk_device *d,
          struct fp_error *error)
{
  struct ublksrv_ctrl_dev_info *info = &c->buf.info;
  int r;

  *info = (struct ublksrv_ctrl_dev_info) {
    .nr_hw_queues = (uint16_t) d->queues,
    .queue_depth = (uint16_t) d->depth,
    .max_io_buf_bytes = d->max_io,
    .dev_id = (uint32_t) d->index,
    .ublksrv_pid = -1,
    .flags = UBLK_F_CMD_IOCTL_ENCODE | UBLK_F_USER_RECOVERY |
             UBLK_F_USER_RECOVERY_REISSUE,
    .ublksrv_flags = d->token,
  };
  r = command (c, UBLK_U_CMD_ADD_DEV, d->index, info, sizeof *info);
  if (r == -EEXIST)
    return fp_fail (error, -EBUSY, "/dev/ublkb%d is used by another program",
                    d->index);
  if (r < 0)
    return d->index < 0 ? fp_fail (error, r, "cannot add a ublk device: %s",
                                   strerror (-r))
                        : failed (error, r, "add", d->index);
  d->index = (int) info->dev_id;
  d->queues = info->nr_hw_queues; /* at most one for each processor */
  return 0;
}

int
ublk_set (struct ublk_control *c, const struct ublk_device *d,
          struct fp_error *error)
{
  int r;

  c->buf.params = (struct ublk_params) {
    .len = sizeof c->buf.params,
    .types = UBLK_PARAM_TYPE_BASIC | UBLK_PARAM_TYPE_DISCARD,
    .basic = {
        .attrs = UBLK_ATTR_VOLATILE_CACHE |
                 (d->read_only ? UBLK_ATTR_READ_ONLY : 0),
        .logical_bs_shift = d->size % (1u << BLOCK_SHIFT) == 0 ? BLOCK_SHIFT : 9,
        .physical_bs_shift = BLOCK_SHIFT,
        .io_opt_shift = BLOCK_SHIFT,
        .io_min_shift = BLOCK_SHIFT,
        .max_sectors = d->max_io / SECTOR,
        .dev_sectors = d->size / SECTOR,
    },
    /* Swap gives back clusters of 2 MiB, and all of a device at once. */
    .discard = {
        .discard_granularity = 1u << BLOCK_SHIFT,
        .max_discard_sectors = ZERO_MAX_SECTORS,
        .max_write_zeroes_sectors = ZERO_MAX_SECTORS,
        .max_discard_segments = 1,
    },
  };
  r = command (c, UBLK_U_CMD_SET_PARAMS, d->index, &c->buf.params,
               sizeof c->buf.params);
  return r < 0 ? failed (error, r, "set up", d->index) : 0;
}

int
ublk_start (struct ublk_control *c, int index, pid_t server,
            const struct deadline *d, struct fp_error *error)
{
  int r = submit (c, UBLK_U_CMD_START_DEV, index, (uint64_t) server, NULL, 0);

  if (r == 0)
    r = result (c, d);
  return r < 0 ? failed (error, r, "start", index) : 0;
}

/* Return 1 if the device is d; 0 if there is none, or that of another program.
 */
static int
is_ours (struct ublk_control *c, const struct ublk_device *d,
         struct fp_error *error)
{
  const struct ublksrv_ctrl_dev_info *info = &c->buf.info;
  int r = command (c, UBLK_U_CMD_GET_DEV_INFO, d->index, &c->buf.info,
                   sizeof c->buf.info);

  if (r == -ENODEV)
    return 0;
  if (r < 0)
    return failed (error, r, "look at", d->index);
  return d->token != 0 ? info->ublksrv_flags == d->token
                       : info->state == UBLK_S_DEV_DEAD;
}

int
ublk_stop (struct ublk_control *c, const struct ublk_device *d, int ms,
           struct fp_error *error)
{
  int r = is_ours (c, d, error);

  if (r <= 0)
    return r;
  r = command_in (c, ms, UBLK_U_CMD_STOP_DEV, d->index, NULL, 0);
  return r < 0 && r != -ENODEV ? failed (error, r, "stop", d->index) : 0;
}

int
ublk_remove (struct ublk_control *c, const struct ublk_device *d,
             struct fp_error *error)
{
  int r = is_ours (c, d, error);

  if (r <= 0)
    return r;
  r = command_in (c, REMOVE_MS, UBLK_U_CMD_DEL_DEV, d->index, NULL, 0);
  /* The kernel waits until the last user has closed the device, and goes on
   * to remove it then if the wait is given up.
   */
  if (r == -ENODEV || r == -ETIMEDOUT)
    return 0;
  return r < 0 ? failed (error, r, "remove", d->index) : 0;
}

int
ublk_recover_begin (struct ublk_control *c, struct ublk_device *d,
                    struct fp_error *error)
{
  bool again = d->recovery != UBLK_SERVED;
  int r;

  if (!again)
    d->recovery = UBLK_RECOVERY_ASKED;
  r = command (c, UBLK_U_CMD_START_USER_RECOVERY, d->index, NULL, 0);
  /* Recovery was begun already, perhaps by a command that timed out here. */
  if (r == -EINVAL && again)
    r = 0;
  if (r < 0)
    return failed (error, r, "recover", d->index);
  d->recovery = UBLK_RECOVERY_BEGUN;
  return 0;
}

int
ublk_recover_end (struct ublk_control *c, struct ublk_device *d, pid_t server,
                  const struct deadline *until, struct fp_error *error)
{
  int r = submit (c, UBLK_U_CMD_END_USER_RECOVERY, d->index, (uint64_t) server,
                  NULL, 0);

  if (r == 0)
    r = result (c, until);
  if (r < 0)
    return failed (error, r, "recover", d->index);
  d->recovery = UBLK_SERVED;
  return 0;
}
