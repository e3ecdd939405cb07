/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_swapoff.c - farpage swapoff: bring back what was swapped out, if there
 * is room for it.
 */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/size.h"
#include "tools/common/commands.h"
#include "tools/common/deadline.h"
#include "tools/common/device.h"
#include "tools/common/progress.h"
#include "tools/common/service.h"
#include "tools/common/state.h"
#include "tools/common/sysfs.h"
#include "tools/setup/borrow.h"
#include "tools/swap/swap_settings.h"

static const char help[] =
    "Usage: farpage swapoff [OPTION]... DEVICE|NAME\n"
    "\n"
    "Stop swapping to a device, and wait until all its pages are back.\n"
    "Refused if they would not fit into memory and other swap. If it is\n"
    "interrupted, the device stays in use. After the last device, the\n"
    "kernel's settings that 'farpage swapon' changed are restored.\n"
    "With a NAME that 'farpage swapon DONOR...' printed, also detach the\n"
    "device, disable the services, and remove the volume file. The key "
    "stays.\n"
    "\n"
    "      --force    do it even if it may not fit (the OOM killer may run)\n"
    "      --config NAME\n"
    "                 stop swapping to the device that is attached as NAME;\n"
    "                 at shutdown, retry for 2 minutes\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "force", no_argument, NULL, 'f' },
  { "config", required_argument, NULL, 'c' },
  { NULL, 0, NULL, 0 },
};

/* Return the memory to keep for the rest of the system, because MemAvailable
 * is an estimate.
 */
static uint64_t
reserve (uint64_t available)
{
  return available / 20;
}

static int
check_room (int index, bool force, const struct swap_area *area,
            uint64_t others)
{
  char used[FP_SIZE_STR_MAX], room[FP_SIZE_STR_MAX];
  uint64_t available;

  if (force)
    return EXIT_SUCCESS;
  if (meminfo ("MemAvailable", &available) < 0)
    return say_error ("swapoff: cannot read /proc/meminfo");
  available -= reserve (available);
  if (area->used <= available + others)
    return EXIT_SUCCESS;
  fp_format_size (area->used, used);
  fp_format_size (available + others, room);
  return say_error ("swapoff: %s is swapped out to %s, and memory and"
                    " other swap have room for %s: end some programs first"
                    " (or try with --force)",
                    used, device_path (index).s, room);
}

static void
show_progress (struct progress_bar *bar, int index, uint64_t at_start)
{
  char left[FP_SIZE_STR_MAX], all[FP_SIZE_STR_MAX];
  struct swap_area area;

  if (device_swap (index, &area, NULL) < 0 || !area.active)
    return;
  fp_format_size (area.used, left);
  fp_format_size (at_start, all);
  progress_show (bar, area.used < at_start ? at_start - area.used : 0,
                 at_start, "%s of %s left", left, all);
}

/* Call swapoff(2) in a child, because it returns only when all is done. */
static int
swap_off (int index, uint64_t used)
{
  struct progress_bar bar = progress_begin ("swapoff");
  int status;
  struct device_name device = device_path (index);
  pid_t pid, done;

  fflush (NULL);
  pid = fork ();
  if (pid == -1)
    return say_error ("swapoff: fork: %s", strerror (errno));
  if (pid == 0) {
    /* Ctrl-C ends swapoff(2) with EINTR only if it is caught or fatal. */
    signal (SIGINT, SIG_DFL);
    _exit (swapoff (device.s) == 0 ? 0 : errno & 0x7f);
  }
  while ((done = waitpid (pid, &status, WNOHANG)) == 0) {
    sleep_ms (50);
    show_progress (&bar, index, used);
  }
  progress_end (&bar);
  if (done == -1)
    return say_error ("swapoff: waitpid: %s", strerror (errno));
  if (!WIFEXITED (status))
    return say_error ("swapoff: interrupted: %s is still swapped to",
                      device.s);
  if (WEXITSTATUS (status) != 0)
    return say_error ("swapoff: %s: %s: it is still swapped to", device.s,
                      strerror (WEXITSTATUS (status)));
  return EXIT_SUCCESS;
}

void
restore_swap_settings (const char *command)
{
  struct swap_changes done;
  struct fp_error error;

  if (swap_settings_needed ())
    return;
  if (swap_settings_restore (&done, "", &error) < 0)
    fprintf (stderr, "farpage: %s: %s\n", command, error.text);
  for (size_t i = 0; i < done.nr; i++)
    printf ("%s: restored to %" PRIu64 "\n", done.of[i].name, done.of[i].to);
}

struct request {
  int index;
  bool force;
  bool may_be_off; /* succeed if the device is not swapped to */
};

static int
stop_swapping (void *arg, bool stopping)
{
  const struct request *q = arg;
  struct swap_area area;
  uint64_t others;
  int index = q->index, status;

  (void) stopping;
  if (device_swap (index, &area, &others) < 0)
    return say_error ("swapoff: cannot read /proc/swaps");
  if (!area.active && q->may_be_off)
    return EXIT_SUCCESS;
  if (!area.active)
    return say_error ("swapoff: %s is not swapped to", device_path (index).s);
  status = check_room (index, q->force, &area, others);
  if (status != EXIT_SUCCESS)
    return status;
  status = swap_off (index, area.used);
  if (status == EXIT_SUCCESS) {
    printf ("%s: no longer swapped to\n", device_path (index).s);
    restore_swap_settings ("swapoff");
  }
  return status;
}

/* Undo 'farpage swapon DONOR...'. */
static int
undo (struct request *q, const char *name)
{
  struct fp_error error;
  int status = borrow_swap_check ("swapoff", name);

  if (status != EXIT_SUCCESS)
    return status;
  if (state_find_link (name, &q->index, &error) < 0)
    return say_error ("swapoff: %s", error.text);
  q->may_be_off = true;
  status = q->index < 0 ? EXIT_SUCCESS : stop_swapping (q, false);
  return status == EXIT_SUCCESS ? borrow_swap_undo ("swapoff", name) : status;
}

int
cmd_swapoff (int argc, char *argv[])
{
  struct request q = { .force = false };
  const char *config = NULL;
  struct fp_error error;
  int c, status;

  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "swapoff", help, &status))
      return status;
    q.force = q.force || c == 'f';
    if (c == 'c')
      config = optarg;
  }
  if (optind != argc - (config == NULL))
    return say_usage ("swapoff", "give one device or name, or --config NAME");
  if (config == NULL && !device_is_meant (argv[optind]))
    return undo (&q, argv[optind]);
  if (config != NULL) {
    if (!state_link_ok (config))
      return say_usage ("swapoff", "--config: '%s' cannot be a name", config);
    if (state_find_link (config, &q.index, &error) < 0)
      return say_error ("swapoff: %s", error.text);
    q.may_be_off = true;
    return q.index < 0 ? EXIT_SUCCESS : service_take_down (stop_swapping, &q);
  }
  q.index = device_index (argv[optind]);
  if (q.index < 0)
    return say_usage ("swapoff", "%s: not a /dev/nbdX or /dev/ublkbX",
                      argv[optind]);
  return stop_swapping (&q, false);
}
