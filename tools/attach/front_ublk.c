/* SPDX-License-Identifier: BSD-3-Clause */
/* front_ublk.c - farpage-ublk, and the kernel's ublk driver: see front.h.
 *
 * The device exists from claim on, and has no size until connect.  While no
 * process serves it, the kernel keeps all requests, those in flight too, for
 * the next one (UBLK_F_USER_RECOVERY_REISSUE), until the device is stopped.
 *
 * farpage-ublk stays in the mount namespace of the supervisor.  In a copy of
 * it, file systems of the device would stay mounted after the user has
 * unmounted them.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/uuid.h"
#include "tools/attach/attachment.h"
#include "tools/common/device.h"
#include "tools/common/plugin_status.h"

#define MAX_QUEUES 8u
#define DEPTH 32u
#define MAX_IO (128 * 1024u)
#define LOOK_MAX_MS 6000 /* more time without a look does not count */
#define QUIESCED_MS 5000 /* for the kernel to notice that a process died */
#define LOCK_MS 3000  /* for the farpage that has removed the device to end */
#define STOP_MS 10000 /* more than the timeout, after which requests fail */

static int
open_ublk (struct attachment *a, struct fp_error *error)
{
  return ublk_control_open (&a->ublk, error);
}

/* Return what the kernel keeps with the device: see struct ublk_device. */
static uint64_t
token_of (const struct attachment *a)
{
  struct fp_uuid uuid;
  uint64_t token = 0;

  if (fp_uuid_parse (&uuid, a->st.uuid) == 0)
    memcpy (&token, &uuid, sizeof token);
  return token;
}

/* Set error: a farpage that lives holds the lock of the device, a dead one has
 * left it behind.
 */
static int
busy (int index, struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int lock = -1;
  int r = state_lock (&lock, index, error);

  return r < 0 ? r
               : fp_fail (error, -EBUSY, STATE_LEFT_BEHIND,
                          device_path (index).s, device_path (index).s);
}

/* The kernel refuses to add a device that exists.  So if it adds this one, a
 * state directory of that name is left over.
 */
static int
claim (struct attachment *a, struct fp_error *error)
{
  struct deadline lock = deadline_in (LOCK_MS, NULL);
  struct ublk_device *d = &a->ublk_device;
  struct fp_error later;
  int r = open_ublk (a, error);

  if (r < 0)
    return r;
  *d = (struct ublk_device) {
    .index = a->st.index == -1 ? -1 : device_unit (a->st.index),
    .queues = a->st.connections < MAX_QUEUES ? a->st.connections : MAX_QUEUES,
    .depth = DEPTH,
    .max_io = MAX_IO,
    .token = token_of (a),
  };
  r = ublk_add (&a->ublk, d, error);
  if (r == -EBUSY && state_exists (a->st.index))
    return busy (a->st.index, error);
  if (r < 0)
    return r;
  while ((r = state_lock (&a->lock, device_ublk (d->index), error)) ==
             -EBUSY &&
         deadline_left (&lock, 1) > 0)
    sleep_ms (20);
  if (r == 0) {
    a->st.index = device_ublk (d->index);
    a->st.connections = d->queues;
    r = state_remove (a->st.index, error);
  }
  if (r == 0)
    r = state_mkdir (a->st.index, error);
  if (r < 0) {
    (void) ublk_remove (&a->ublk, d, &later);
    if (a->lock != -1)
      close (a->lock);
    a->lock = -1;
    return r;
  }
  snprintf (a->name, sizeof a->name, "%s", device_name (a->st.index).s);
  return 0;
}

static int
take_over (struct attachment *a, const struct deadline *until,
           struct fp_error *error)
{
  struct deadline d = deadline_in (QUIESCED_MS, until->stop);
  int r;

  if (a->ublk_device.recovery == UBLK_RECOVERY_BEGUN && !a->process.ready)
    return 0; /* the last process did not get that far */
  while ((r = ublk_recover_begin (&a->ublk, &a->ublk_device, error)) ==
             -EBUSY &&
         deadline_left (&d, 1) > 0)
    sleep_ms (10);
  return r;
}

static void
set_params (struct attachment *a, struct front_proc_params *p)
{
  const struct ublk_device *d = &a->ublk_device;
  const unsigned numbers[] = { (unsigned) d->index, d->queues, d->depth,
                               d->max_io };
  /* '@': see front_nbd.c */
  const char *lead[] = { "@farpage-ublk", "--device",    p->numbers[0],
                         "--queues",      p->numbers[1], "--depth",
                         p->numbers[2],   "--max-io",    p->numbers[3] };

  p->program = ublk_program_path ();
  p->name = "farpage-ublk";
  for (unsigned i = 0; i < 4; i++)
    snprintf (p->numbers[i], sizeof p->numbers[i], "%u", numbers[i]);
  memcpy (p->lead, lead, sizeof lead);
  p->nr_lead = sizeof lead / sizeof lead[0];
}

static int
is_ready (struct attachment *a, const struct deadline *until,
          struct fp_error *error)
{
  FP_CLEANUP (fp_free) struct fp_status_doc *doc = NULL;
  struct ublk_device *d = &a->ublk_device;
  char path[STATE_PATH_MAX];
  int r;

  (void) until;
  if (!a->process.ready)
    return -EAGAIN;
  state_path (path, a->st.index, "status.sock");
  r = plugin_status_read (&doc, path, error);
  if (r < 0)
    return fp_fail_in (error, r, "farpage-ublk");
  if (d->size != 0 && d->size != doc->volume.size)
    return fp_fail (
        error, -EIO, "the volume's size changed from %llu to %llu bytes",
        (unsigned long long) d->size, (unsigned long long) doc->volume.size);
  d->size = a->st.size = doc->volume.size;
  d->read_only = doc->volume.read_only;
  return 0;
}

static int
connect_first (struct attachment *a, const struct deadline *d,
               struct fp_error *error)
{
  int r = ublk_set (&a->ublk, &a->ublk_device, error);

  return r < 0 ? r
               : ublk_start (&a->ublk, a->ublk_device.index, a->process.pid, d,
                             error);
}

static int
reconnect (struct attachment *a, unsigned n, const struct deadline *d,
           struct fp_error *error)
{
  (void) n;
  /* The kernel would believe that the process serves. */
  if (front_proc_ended (&a->process))
    return front_proc_why (&a->process, error);
  silence_end (&a->silence);
  return ublk_recover_end (&a->ublk, &a->ublk_device, a->process.pid, d,
                           error);
}

/* See whether farpage-ublk answers on its status socket. */
static bool
answers (struct attachment *a, struct fp_error *error)
{
  FP_CLEANUP (fp_free) struct fp_status_doc *doc = NULL;
  char path[STATE_PATH_MAX];

  state_path (path, a->st.index, "status.sock");
  return plugin_status_read (&doc, path, error) == 0;
}

/* The ublk driver has no timeout.  One look alone is never enough: this
 * process may have been stopped since the last one, together with
 * farpage-ublk.
 */
static bool
is_stuck (struct attachment *a)
{
  int64_t timeout_ms = (int64_t) a->st.timeout * 1000;
  int64_t most_ms = FP_MIN ((int64_t) LOOK_MAX_MS, timeout_ms / 2);
  struct device_requests n;
  struct fp_error error;
  bool waits;

  if (device_requests (a->st.index, &n) < 0)
    return false;
  /* Linux 6.12 counts a flush that waits.  Older kernels may not, and none
   * counts anything while the queue's iostats are off.
   */
  waits = n.waiting > 0 ||
          (n.answered == a->silence.answered && !answers (a, &error));
  if (silence_look (&a->silence, now_ms (), most_ms, n.answered, waits) <
      timeout_ms)
    return false;
  silence_end (&a->silence);
  return true;
}

static struct ublk_device
device_of (const struct attachment *a)
{
  return (struct ublk_device) { .index = device_unit (a->st.index),
                                .token = token_of (a) };
}

static int
disconnect (struct attachment *a, struct fp_error *error)
{
  struct ublk_device d = device_of (a);
  int ms = STOP_MS + (int) a->st.timeout * 1000;

  return a->ublk.fd == -1 ? 0 : ublk_stop (&a->ublk, &d, ms, error);
}

static int
forget (struct attachment *a, struct fp_error *error)
{
  struct ublk_device d = device_of (a);

  return a->ublk.fd == -1 ? 0 : ublk_remove (&a->ublk, &d, error);
}

static void
close_ublk (struct attachment *a)
{
  ublk_control_close (&a->ublk);
}

static int
event_fd (const struct attachment *a)
{
  (void) a;
  return -1;
}

static unsigned
take_events (struct attachment *a)
{
  (void) a;
  return 0;
}

const struct front front_ublk = {
  .program = "farpage-ublk",
  .module = "ublk_drv",
  .waits_for_ever = true,
  .open = open_ublk,
  .claim = claim,
  .take_over = take_over,
  .set_params = set_params,
  .is_ready = is_ready,
  .connect = connect_first,
  .reconnect = reconnect,
  .answers = answers,
  .is_stuck = is_stuck,
  .disconnect = disconnect,
  .forget = forget,
  .close = close_ublk,
  .event_fd = event_fd,
  .take_events = take_events,
};
