/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - farpage-ublk, the process that answers one ublk device.  farpage
 * attach makes the device and starts this process, again and again if it dies.
 * Only farpage attach needs the right to change the device.
 *
 *   farpage-ublk --device N --queues N --depth N --max-io BYTES KEY=VALUE...
 *
 * The parameters are those of nbdkit-farpage-plugin(1).  "ready" on standard
 * output says that all queues wait for requests.
 *
 * SIGUSR1, once the device was stopped: give the memory back, and end.  Other
 * signals: end at once.  The kernel keeps all requests for the next process.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "front/start.h"
#include "tools/ublk/queue.h"

/* Per lane.  Requests use the lane's buffers; marks of the dirty log and reads
 * that are hedged need slots.
 */
#define SLOTS 16u

struct options {
  unsigned device, queues, depth, max_io;
};

static int
usage (void)
{
  fprintf (stderr, "farpage-ublk: bad arguments: only 'farpage attach' starts "
                   "this program: see farpage-attach(8)\n");
  return 2;
}

/* Read the options.  Return false if one is missing or wrong. */
static bool
read_options (struct options *o, int argc, char *argv[])
{
  static const struct option table[] = {
    { "device", required_argument, NULL, 'd' },
    { "queues", required_argument, NULL, 'q' },
    { "depth", required_argument, NULL, 'n' },
    { "max-io", required_argument, NULL, 'm' },
    { 0 },
  };
  unsigned seen = 0;
  int c;

  while ((c = getopt_long (argc, argv, "", table, NULL)) != -1) {
    unsigned value =
        optarg == NULL ? 0 : (unsigned) strtoul (optarg, NULL, 10);

    switch (c) {
    case 'd':
      o->device = value;
      seen |= 1;
      break;
    case 'q':
      o->queues = value;
      seen |= 2;
      break;
    case 'n':
      o->depth = value;
      seen |= 4;
      break;
    case 'm':
      o->max_io = value;
      seen |= 8;
      break;
    default:
      return false;
    }
  }
  return seen == 15;
}

/* args stay as they are, as farpage finds this process by one of them: see
 * front_proc_marker.
 */
static int
read_params (struct fp_front *f, const struct options *o, char *args[],
             struct fp_error *error)
{
  struct fp_volume_params *v = &f->params.volume;
  int r = 0;

  for (; r == 0 && *args != NULL; args++) {
    const char *value = strchr (*args, '=');
    FP_CLEANUP (fp_free) char *key = NULL;

    if (value == NULL)
      return fp_fail (error, -EINVAL, "%s: not PARAMETER=VALUE", *args);
    key = strndup (*args, (size_t) (value - *args));
    if (key == NULL)
      return fp_fail (error, -ENOMEM, "out of memory");
    r = fp_params_set (&f->params, key, value + 1, error);
  }
  if (r == 0)
    r = fp_front_complete (f, error);
  if (r < 0)
    return r;
  v->lanes = o->queues;
  v->sends_once = true;
  v->slots = v->hedge ? FP_MAX (SLOTS, o->depth) : SLOTS;
  v->buffers = o->depth;
  v->buffer_size = o->max_io;
  return 0;
}

static int
start_queues (struct ublk_queue **queues, const struct options *o,
              const struct fp_front *f, struct fp_error *error)
{
  const struct fp_volume_params *v = &f->params.volume;
  struct ublk_queue_params p = {
    .depth = o->depth,
    .max_io = o->max_io,
    .volume = f->volume,
    .sealed = v->encrypt != FP_ENCRYPT_NONE ||
              v->checksum != FP_CHECKSUM_NONE || v->integrity,
    .poll_us = v->poll_us,
  };
  char path[32];
  int r;

  snprintf (path, sizeof path, "/dev/ublkc%u", o->device);
  p.device = open (path, O_RDWR | O_CLOEXEC);
  if (p.device == -1)
    return fp_fail (error, -errno, "%s: %s", path, strerror (errno));
  for (p.index = 0; p.index < o->queues; p.index++) {
    r = ublk_queue_new (&queues[p.index], &p);
    if (r < 0)
      return fp_fail (error, r, "%s: queue %u: %s", path, p.index,
                      strerror (-r));
  }
  r = ublk_queues_start (queues, o->queues);
  return r < 0 ? fp_fail (error, r, "%s: %s", path, strerror (-r)) : 0;
}

int
main (int argc, char *argv[])
{
  static struct ublk_queue *queues[FP_MAX_LANES];
  static struct fp_front front;
  struct fp_error error = { .text = "" };
  struct options o = { 0 };
  sigset_t signals;
  int r, sig;

  fp_log_set_sink (fp_log_to_stderr, (void *) (uintptr_t) "farpage-ublk");
  if (!read_options (&o, argc, argv) || o.queues < 1 ||
      o.queues > FP_MAX_LANES)
    return usage ();
  fp_front_init (&front);
  r = read_params (&front, &o, argv + optind, &error);
  if (r == 0)
    r = fp_front_prepare (&front, &error);
  /* Until here a signal ends the process, which has no memory on loan yet. All
   * threads inherit the mask.
   */
  sigemptyset (&signals);
  sigaddset (&signals, SIGUSR1);
  sigaddset (&signals, SIGTERM);
  sigaddset (&signals, SIGINT);
  sigaddset (&signals, SIGHUP);
  sigaddset (&signals, SIGQUIT);
  sigprocmask (SIG_BLOCK, &signals, NULL);

  if (r == 0) {
    r = fp_front_start (&front, &error);
    /* A resumed volume holds data: keep it, as the next attempt may succeed.
     */
    if (r < 0)
      fp_front_stop (&front,
                     !front.params.keep && !front.params.volume.resume);
  }
  if (r == 0)
    r = start_queues (queues, &o, &front, &error);
  if (r < 0) {
    fp_log (FP_LOG_ERROR, "error: %s", error.text);
    /* Threads of queues run: they end with the process. */
    _exit (EXIT_FAILURE);
  }
  printf ("ready\n");
  fflush (stdout);
  do
    sigwait (&signals, &sig);
  while (sig == 0);
  if (sig != SIGUSR1)
    _exit (EXIT_FAILURE);
  for (unsigned i = 0; i < o.queues; i++)
    ublk_queue_free (queues[i]);
  fp_front_stop (&front, true);
  return EXIT_SUCCESS;
}
