/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_detach.c - farpage detach: have the supervisor take the device down. If
 * the supervisor is dead, do it here.
 */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "tools/attach/attachment.h"
#include "tools/common/commands.h"
#include "tools/common/device.h"
#include "tools/common/program.h"
#include "tools/common/service.h"

#define UMOUNT_MS 60000

static const char help[] =
    "Usage: farpage detach [OPTION]... DEVICE...\n"
    "\n"
    "Detach a device that 'farpage attach' made. If its supervisor has died,\n"
    "clean up in its place. Refused while the device is mounted or swapped\n"
    "to. The memory of a volume without a name goes back to its servers.\n"
    "\n"
    "      --wait TIME  give up after TIME (60s)\n"
    "      --config NAME\n"
    "                   detach the device that is attached as NAME, if there\n"
    "                   is one; at shutdown, first stop swapping to it and\n"
    "                   unmount it, and retry for 2 minutes\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "wait", required_argument, NULL, 'w' },
  { "config", required_argument, NULL, 'c' },
  { NULL, 0, NULL, 0 },
};

/* Return true if nothing will ever answer the requests of a device whose
 * supervisor is dead.  A kernel with ublk keeps them until the device is
 * stopped, so that its users could not even unmount it.
 */
static bool
is_lost (const struct state *st)
{
  char marker[FRONT_PROC_MARKER_MAX];

  return st->supervisor > 0 && front_of (st->index)->waits_for_ever &&
         !front_proc_lives (st->nbdkit, front_proc_marker (marker, st->index));
}

/* Take down a device whose supervisor is dead: no process holds its lock. */
static int
clean_up (struct attachment *a, const struct state *st, bool check,
          struct fp_error *error)
{
  int r;

  a->st = *st;
  a->front = front_of (st->index);
  state_path (a->socket, st->index, "nbd.sock");
  /* Without the module there is no device to disconnect. */
  if (device_exists (st->index)) {
    r = a->front->open (a, error);
    if (r < 0)
      return r;
  }
  r = attachment_undo (a, check, error);
  a->front->close (a);
  if (a->lock != -1)
    close (a->lock);
  return r;
}

/* Tell the supervisor to detach, and wait until it ends. It keeps the lock
 * until then.
 */
static int
ask_supervisor (const struct state *st, const struct deadline *d,
                struct fp_error *error)
{
  FP_CLEANUP (fp_closep) int pidfd = -1;
  struct pollfd pfd;
  int left;

  pidfd = st->supervisor > 0 ? pidfd_open (st->supervisor, 0) : -1;
  if (pidfd == -1)
    return fp_fail (error, -EBUSY,
                    "%s is being attached or detached by"
                    " another farpage process: try again",
                    device_path (st->index).s);
  if (pidfd_send_signal (pidfd, SIGTERM, NULL, 0) == -1 && errno != ESRCH)
    return fp_fail (error, -errno, "its supervisor (pid %ld): %s",
                    (long) st->supervisor, strerror (errno));
  pfd = (struct pollfd) { .fd = pidfd, .events = POLLIN };
  while ((left = deadline_left (d, 500)) > 0) {
    if (poll (&pfd, 1, left) > 0)
      return 0;
    if (state_exists (st->index) && device_in_use (st->index, error))
      return -EBUSY;
  }
  return fp_fail (error, -ETIMEDOUT,
                  "its supervisor (pid %ld) has not detached it in time",
                  (long) st->supervisor);
}

static int
detach (int index, long seconds, struct fp_error *error)
{
  struct attachment a = ATTACHMENT_INIT;
  struct deadline d = deadline_in (seconds * 1000, NULL);
  struct state st;
  bool check;
  int r;

  if (!state_exists (index))
    return device_connected (index)
               ? fp_fail (error, -ENOENT, "%s is not attached by farpage%s",
                          device_path (index).s,
                          device_is_ublk (index) ? ""
                                                 : ": try 'nbd-client -d'")
               : fp_fail (error, 0, "not attached");
  r = state_load (&st, index, error);
  if (r < 0 && r != -ENOENT)
    return r;
  check = true;
  r = state_lock (&a.lock, index, error);
  if (r == 0 && is_lost (&st))
    check = false;
  else if (device_in_use (index, error)) {
    if (r == 0)
      close (a.lock);
    state_clear (&st);
    return -EBUSY;
  }
  if (r == -EBUSY) {
    r = ask_supervisor (&st, &d, error);
    if (r == 0 && !state_exists (index)) {
      state_clear (&st);
      return 0;
    }
    /* The supervisor's lock ended with it. Do here what it could not do. */
    if (r == 0)
      r = state_lock (&a.lock, index, error);
  }
  if (r == 0)
    r = clean_up (&a, &st, check, error);
  state_clear (&st);
  return r;
}

struct request {
  int index;
  long seconds;
};

static int
take_down (void *arg)
{
  const struct request *q = arg;
  struct fp_error error;

  return detach (q->index, q->seconds, &error) < 0
             ? say_error ("detach: %s", error.text)
             : EXIT_SUCCESS;
}

/* Stop swapping to the device, and unmount it.  umount fails if it is not
 * mounted.  device_in_use does not know each mount, such as those of btrfs, so
 * try it in any case.
 */
static int
release (int index)
{
  struct device_name device = device_path (index);
  char umount[] = "umount", all[] = "-A", below[] = "-R", said[512];
  char *const argv[] = { umount, all, below, device.s, NULL };
  char swapoff[] = "swapoff";
  char *words[] = { swapoff, device.s, NULL };
  struct fp_error ignored;
  struct swap_area area;
  int r;

  optind = 0; /* getopt starts again */
  if (device_swap (index, &area, NULL) == 0 && area.active &&
      cmd_swapoff (2, words) != EXIT_SUCCESS)
    return EXIT_FAILURE;
  r = run_program_within (said, sizeof said, argv, UMOUNT_MS);
  if (r != 0 && device_in_use (index, &ignored))
    say_error ("detach: umount: %s", r < 0 ? strerror (-r) : said);
  return EXIT_SUCCESS;
}

/* Detach for the service.  At shutdown, first undo swap and mounts that were
 * set up by hand, because no unit does.  umount of a lost device would hang.
 */
static int
take_down_service (void *arg, bool stopping)
{
  const struct request *q = arg;
  struct fp_error ignored;
  struct state st;
  bool lost;

  if (stopping && state_load (&st, q->index, &ignored) == 0) {
    lost = is_lost (&st);
    state_clear (&st);
    if (!lost && release (q->index) != EXIT_SUCCESS)
      return EXIT_FAILURE;
  }
  return take_down (arg);
}

/* Detach the device with this name, if there is one. */
static int
detach_named (struct request *q, const char *name)
{
  struct fp_error error;

  if (!state_link_ok (name))
    return say_usage ("detach", "--config: '%s' cannot be a name", name);
  if (state_find_link (name, &q->index, &error) < 0)
    return say_error ("detach: %s", error.text);
  return q->index < 0 ? EXIT_SUCCESS
                      : service_take_down (take_down_service, q);
}

int
cmd_detach (int argc, char *argv[])
{
  struct request q = { .seconds = 60 };
  const char *config = NULL;
  int c, i, status = EXIT_SUCCESS;

  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "detach", help, &status))
      return status;
    if (c == 'c')
      config = optarg;
    if (c == 'w' && !parse_seconds (optarg, 1, 86400, &q.seconds))
      return say_usage ("detach",
                        "--wait: '%s': must be from 1s to 1d, in whole "
                        "seconds",
                        optarg);
  }
  if (config != NULL && optind < argc)
    return say_usage ("detach", "give devices, or --config NAME");
  if (config != NULL)
    return detach_named (&q, config);
  if (optind == argc)
    return say_usage ("detach", "give at least one device");
  for (i = optind; i < argc; i++)
    if (device_index (argv[i]) < 0)
      return say_usage ("detach", "%s: not a /dev/nbdX or /dev/ublkbX",
                        argv[i]);
  for (i = optind; i < argc; i++) {
    q.index = device_index (argv[i]);
    if (take_down (&q) != EXIT_SUCCESS)
      status = EXIT_FAILURE;
  }
  return status;
}
