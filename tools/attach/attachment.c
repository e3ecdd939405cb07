/* SPDX-License-Identifier: BSD-3-Clause */
/* attachment.c - one attached device: the steps that make it, and the one that
 * undoes them.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/fs.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "tools/attach/attachment.h"
#include "tools/common/device.h"
#include "tools/common/plugin_status.h"
#include "tools/common/sysfs.h"

#define STOP_MS 10000
#define GONE_MS 10000
#define UDEV_MS 2000
#define PATIENCE_MS 1000 /* then tell the user what it waits for */

const struct front *
front_of (int index)
{
  return device_is_ublk (index) ? &front_ublk : &front_nbd;
}

int
attachment_claim (struct attachment *a, struct fp_error *error)
{
  return a->front->claim (a, error);
}

/* Wait until the process serves. */
static int
first_answer (struct attachment *a, const struct deadline *d,
              struct fp_error *error)
{
  int64_t quiet_until = now_ms () + PATIENCE_MS;
  struct pollfd pfd;
  int r, left;

  for (;;) {
    r = a->front->is_ready (a, d, error);
    front_proc_hear (&a->process);
    if (r != -EAGAIN)
      break;
    if (a->aloud && !a->process.aloud && now_ms () >= quiet_until)
      front_proc_speak_up (&a->process, a->aloud);
    if (front_proc_ended (&a->process))
      return front_proc_why (&a->process, error);
    left = deadline_left (d, 20);
    if (left == 0)
      return d->stop && *d->stop
                 ? fp_fail (error, -EINTR, "interrupted")
                 : fp_fail (error, -ETIMEDOUT, "%s did not answer in time",
                            a->front->program);
    pfd = (struct pollfd) { .fd = a->process.pidfd, .events = POLLIN };
    poll (&pfd, 1, left);
  }
  a->process.aloud = NULL;
  return r;
}

/* Learn the UUID of a volume with a name, for the next process. If that fails,
 * the name alone identifies the volume.
 */
static void
learn_volume (struct attachment *a, const char *status_socket)
{
  FP_CLEANUP (fp_free) struct fp_status_doc *doc = NULL;
  struct fp_error error;

  if (!a->st.volume[0] &&
      plugin_status_read (&doc, status_socket, &error) == 0)
    fp_uuid_format (&doc->volume.uuid, a->st.volume);
}

int
attachment_serve (struct attachment *a, bool resume, const struct deadline *d,
                  struct fp_error *error)
{
  char status_socket[STATE_PATH_MAX], members[STATE_PATH_MAX];
  struct front_proc_params params = {
    .status_socket = status_socket,
    .members = members,
    .client = a->st.uuid,
    .volume = a->st.volume,
    .resume = resume,
    .swap = a->st.swap,
    .realtime = a->st.swap,
    .nr_args = a->st.nr_args,
    .args = a->st.args,
  };
  struct swap_area area;
  struct fp_error later;
  int r;

  if (device_swap (a->st.index, &area, NULL) == 0 && area.active)
    params.realtime = true;
  state_path (status_socket, a->st.index, "status.sock");
  state_path (members, a->st.index, "members");
  a->front->set_params (a, &params);
  if (resume && a->front->take_over != NULL) {
    r = a->front->take_over (a, d, error);
    if (r < 0)
      return r;
  }
  r = front_proc_start (&a->process, &params, error);
  if (r < 0)
    return r;
  a->st.nbdkit = a->process.pid;
  /* If this process dies, detach needs the new one's pid. */
  if (resume)
    (void) attachment_save (a, &later);
  r = first_answer (a, d, error);
  if (r == 0)
    learn_volume (a, status_socket);
  if (r < 0 && resume)
    front_proc_kill (&a->process, STOP_MS);
  else if (r < 0) {
    (void) a->front->disconnect (a, &later);
    front_proc_stop (&a->process, STOP_MS);
  }
  return r;
}

static bool
process_lives (struct attachment *a)
{
  char marker[FRONT_PROC_MARKER_MAX];

  if (a->process.pid != 0)
    return !front_proc_ended (&a->process);
  return front_proc_lives (a->st.nbdkit,
                           front_proc_marker (marker, a->st.index));
}

/* Wait for a child that uses the device.  I/O cannot be interrupted, so the
 * disconnect that follows ends a child that was given up.
 *
 * d:  may be NULL.
 *
 * -ETIMEDOUT: d has passed.  -EPIPE: nothing answers the device.  Another
 * negative value: the child's exit status.
 */
static int
wait_child (struct attachment *a, pid_t pid, const struct deadline *d)
{
  FP_CLEANUP (fp_closep) int pidfd = pidfd_open (pid, 0);
  struct pollfd pfd = { .fd = pidfd, .events = POLLIN };
  int status, r = 0;

  while (waitpid (pid, &status, WNOHANG) != pid) {
    if (d != NULL && deadline_left (d, 1) == 0)
      r = -ETIMEDOUT;
    else if (!process_lives (a) ||
             (a->front->is_stuck != NULL && a->front->is_stuck (a)))
      r = -EPIPE;
    if (r < 0) {
      kill (pid, SIGKILL);
      return r;
    }
    poll (&pfd, 1, 200);
  }
  return WIFEXITED (status) ? -WEXITSTATUS (status) : -EIO;
}

/* Return the bytes of one stripe on all its servers together; 0 if the plugin
 * does not say.
 */
static uint64_t
stripe_group (const struct attachment *a)
{
  FP_CLEANUP (fp_free) struct fp_status_doc *doc = NULL;
  char path[STATE_PATH_MAX];
  struct fp_error error;

  state_path (path, a->st.index, "status.sock");
  if (plugin_status_read (&doc, path, &error) < 0)
    return 0;
  return (uint64_t) doc->volume.stripe.width * doc->volume.stripe.size;
}

/* Set the queue up, and test that the device answers a read.  A change of the
 * queue waits for requests, too.
 */
static int
try_out (struct attachment *a, const struct deadline *d,
         struct fp_error *error)
{
  struct device_name dev = device_path (a->st.index);
  unsigned read_ahead_kb = device_read_ahead_kb (stripe_group (a));
  void *buf;
  pid_t pid;
  int fd, r;

  pid = fork ();
  if (pid == -1)
    return fp_fail (error, -errno, "fork: %s", strerror (errno));
  if (pid == 0) {
    device_tune (a->st.index, read_ahead_kb);
    fd = open (dev.s, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd == -1 || posix_memalign (&buf, 4096, 4096) != 0)
      _exit (EIO);
    _exit (pread (fd, buf, 4096, 0) == 4096 ? 0 : EIO);
  }
  r = wait_child (a, pid, d);
  if (r == -ETIMEDOUT)
    return fp_fail (error, r, "%s did not answer a read in time", dev.s);
  return r < 0 ? fp_fail (error, r, "%s cannot be read", dev.s) : 0;
}

int
attachment_connect (struct attachment *a, const struct deadline *d,
                    struct fp_error *error)
{
  int r = state_save_link (&a->st, error);

  if (r == 0)
    r = a->front->connect (a, d, error);
  if (r < 0)
    return r;
  return try_out (a, d, error);
}

int
attachment_reconnect (struct attachment *a, unsigned n,
                      const struct deadline *d, struct fp_error *error)
{
  return a->front->reconnect (a, n, d, error);
}

int
attachment_save (struct attachment *a, struct fp_error *error)
{
  if (a->st.since == 0)
    a->st.since = time (NULL);
  return state_save (&a->st, error);
}

/* Open the device exclusively. That fails while it is mounted or swapped to,
 * and prevents both while it is open.
 */
static int
open_exclusive (int *fd, int index, struct fp_error *error)
{
  struct device_name dev = device_path (index);

  if (device_in_use (index, error))
    return -EBUSY;
  *fd = open (dev.s, O_RDWR | O_EXCL | O_CLOEXEC);
  if (*fd == -1 && errno == EBUSY)
    return fp_fail (error, -EBUSY, "%s is in use", dev.s);
  return 0;
}

/* Take the lock that udev takes before it reads the device, so that it does
 * not while fd is open: https://systemd.io/BLOCK_DEVICE_LOCKING/.  Without the
 * lock such reads may fail at the disconnect.  They do no harm, but the kernel
 * logs I/O errors, so do not wait for long.
 */
static void
keep_udev_out (int fd)
{
  struct deadline d = deadline_in (UDEV_MS, NULL);

  while (flock (fd, LOCK_EX | LOCK_NB) == -1 && deadline_left (&d, 1) > 0)
    sleep_ms (20);
}

static int
wait_gone (int index, struct fp_error *error)
{
  struct deadline d = deadline_in (GONE_MS, NULL);

  while (device_connected (index)) {
    if (deadline_left (&d, 1) == 0)
      return fp_fail (error, -ETIMEDOUT,
                      "%s is still connected %d s after the"
                      " disconnect: a program has it open",
                      device_path (index).s, GONE_MS / 1000);
    sleep_ms (20);
  }
  return 0;
}

/* Flush as long as the process answers. Otherwise a flush would wait for a
 * process that may never start.
 */
static void
flush (struct attachment *a, int fd)
{
  struct fp_error error;
  pid_t pid;
  int r;

  if (!a->front->answers (a, &error)) {
    fp_log (FP_LOG_WARN, "not flushed before detaching: %s", error.text);
    return;
  }
  pid = fork ();
  if (pid == 0)
    _exit (fsync (fd) == -1 || ioctl (fd, BLKFLSBUF, 0) == -1 ? errno : 0);
  r = pid == -1 ? -errno : wait_child (a, pid, NULL);
  if (r < 0)
    fp_log (FP_LOG_WARN, "flush before detaching: %s", strerror (-r));
}

static int
disconnect (struct attachment *a, bool check, struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int fd = -1;
  int r;

  if (check && device_connected (a->st.index)) {
    r = open_exclusive (&fd, a->st.index, error);
    if (r < 0)
      return r;
    if (fd != -1) {
      keep_udev_out (fd);
      flush (a, fd);
    }
  }
  r = a->front->disconnect (a, error);
  if (fd != -1) {
    close (fd); /* the size becomes 0 at the last close */
    fd = -1;
  }
  return r < 0 || !a->front->lingers ? r : wait_gone (a->st.index, error);
}

int
attachment_undo (struct attachment *a, bool check, struct fp_error *error)
{
  char marker[FRONT_PROC_MARKER_MAX];
  struct fp_error later;
  int r, r2;

  if (a->lock == -1)
    return 0;
  r = disconnect (a, check, error);
  if (r == -EBUSY)
    return r;
  if (a->process.pid)
    front_proc_stop (&a->process, STOP_MS);
  else
    front_proc_stop_other (a->st.nbdkit,
                           front_proc_marker (marker, a->st.index), STOP_MS);
  if (a->front->forget != NULL) {
    r2 = a->front->forget (a, r < 0 ? &later : error);
    if (r == 0)
      r = r2;
  }
  r2 = state_remove (a->st.index, r < 0 ? &later : error);
  /* The kernel sends no event when an NBD device goes, so without this its
   * link would stay.
   */
  if (device_exists (a->st.index))
    (void) sysfs_write ("change", "/sys/block/%s/uevent",
                        device_name (a->st.index).s);
  close (a->lock);
  a->lock = -1;
  return r < 0 ? r : r2;
}
