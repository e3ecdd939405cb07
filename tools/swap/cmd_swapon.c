/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_swapon.c - farpage swapon: make an attached device a swap area, or
 * borrow memory and swap to it.
 */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/swap.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/size.h"
#include "tools/attach/front.h"
#include "tools/common/commands.h"
#include "tools/common/device.h"
#include "tools/common/plugin_status.h"
#include "tools/common/program.h"
#include "tools/common/service.h"
#include "tools/common/state.h"
#include "tools/common/volume_file.h"
#include "tools/setup/borrow.h"
#include "tools/swap/swap_settings.h"

#ifndef SWAP_FLAG_DISCARD_PAGES
#define SWAP_FLAG_DISCARD_PAGES 0x40000
#endif

static const char help[] =
    "Usage: farpage swapon [OPTION]... DONOR...\n"
    "       farpage swapon [OPTION]... DEVICE\n"
    "\n"
    "Swap to the memory of the servers DONOR..., now and at each boot. "
    "Choose\n"
    "a size by their free memory, write a volume file, and start its "
    "services.\n"
    "'farpage swapoff NAME' undoes that.\n"
    "\n" PLAN_KEY_HELP
    "      --size SIZE        size of the swap (default: half of the room, "
    "but\n"
    "                         at most the memory of this machine)\n"
    "      --name NAME        name of the volume file (default: swap0, ...)\n"
    "      --once             swap only until the next boot\n"
    "      --dry-run          ask the servers, and print the volume file\n"
    "\n"
    "With a DEVICE that 'farpage attach' made, write a swap signature to it,\n"
    "and swap to it. Data on the device is lost. A file system is "
    "overwritten\n"
    "only with --force.\n"
    "\n"
    "If a memory server dies, pages that only it had are lost, and programs\n"
    "that are swapped out to it die. So the volume must have more than one\n"
    "copy, unless you give --single-copy.\n"
    "The kernel is told to keep a larger reserve of memory. 'farpage\n"
    "swapoff' restores that setting, and so does this command if it fails.\n"
    "\n"
    "  -p, --priority N     0 to 32767; the highest is used first (default:\n"
    "                       10 with DONOR, the kernel's choice with DEVICE)\n"
    "      --discard        give memory back when pages are freed\n"
    "      --single-copy    accept a volume with one copy\n"
    "      --keep-settings  leave the kernel's settings as they are\n"
    "      --force          overwrite what is on the device\n"
    "      --config NAME    swap to the device that is attached as NAME, "
    "with\n"
    "                       the options in volumes.d/NAME.conf\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "priority", required_argument, NULL, 'p' },
  { "discard", no_argument, NULL, 'D' },
  { "single-copy", no_argument, NULL, 's' },
  { "keep-settings", no_argument, NULL, 'k' },
  { "force", no_argument, NULL, 'f' },
  { "config", required_argument, NULL, 'c' },
  { "token", required_argument, NULL, PLAN_TOKEN },
  { "token-file", required_argument, NULL, PLAN_TOKEN_FILE },
  { "key", required_argument, NULL, PLAN_KEY },
  { "size", required_argument, NULL, PLAN_SIZE },
  { "name", required_argument, NULL, 'n' },
  { "once", no_argument, NULL, PLAN_ONCE },
  { "dry-run", no_argument, NULL, PLAN_DRY_RUN },
  { NULL, 0, NULL, 0 },
};

/* Refuse a volume with one copy.  The death of one server must not be the
 * death of this host.
 */
static int
check_copies (int index, int refused)
{
  FP_CLEANUP (fp_free) struct fp_status_doc *doc = NULL;
  char path[STATE_PATH_MAX];
  struct fp_error error;

  state_path (path, index, "status.sock");
  if (plugin_status_read (&doc, path, &error) < 0)
    return say_error ("swapon: cannot find out how many copies %s"
                      " has (--single-copy accepts that): %s",
                      device_path (index).s, error.text);
  if (doc->volume.copies > 1)
    return EXIT_SUCCESS;
  say_error ("swapon: %s has one copy of each page: if a"
             " memory server dies, programs that are swapped out to it"
             " die, and perhaps this host: attach a new volume with"
             " copies=2 and two servers, or accept that with"
             " --single-copy",
             device_path (index).s);
  return refused;
}

static int
check_content (char *device, bool force, int refused)
{
  char type[64];

  if (force)
    return EXIT_SUCCESS;
  if (probe_signature (type, sizeof type, device) < 0)
    return say_error ("swapon: cannot find out what is on %s", device);
  if (!*type || strcmp (type, "swap") == 0)
    return EXIT_SUCCESS;
  say_error ("swapon: %s holds data (%s): --force overwrites it", device,
             type);
  return refused;
}

static int
make_swap (char *device)
{
  char *argv[] = { "mkswap", "--force", "--label", "farpage", device, NULL };
  char line[128];

  if (run_program (line, sizeof line, argv) != 0)
    return say_error ("swapon: mkswap %s failed", device);
  return EXIT_SUCCESS;
}

static void
print_settings (const struct swap_changes *done)
{
  for (size_t i = 0; i < done->nr; i++)
    printf ("%s: %" PRIu64 ", was %" PRIu64 "\n", done->of[i].name,
            done->of[i].to, done->of[i].from);
}

struct options {
  long priority; /* -1: the kernel's choice */
  bool discard, single_copy, keep_settings, force;
  /* Exit status for a volume that may not be swapped to.  With --config it is
   * 2, so that systemd does not try again.
   */
  int refused;
};

static int
swap_on (struct state *st, const struct options *o)
{
  struct device_name path = device_path (st->index);
  char *device = path.s;
  char size[FP_SIZE_STR_MAX], marker[FRONT_PROC_MARKER_MAX];
  struct swap_changes done = { .nr = 0 };
  int flags = 0, status;
  struct swap_area area;
  struct fp_error error;

  if (device_in_use (st->index, &error))
    return say_error ("swapon: %s", error.text);
  if (!device_connected (st->index))
    return say_error ("swapon: %s is not connected: see 'farpage status'",
                      device);
  status = check_content (device, o->force, o->refused);
  if (status == EXIT_SUCCESS && !o->single_copy)
    status = check_copies (st->index, o->refused);
  if (status == EXIT_SUCCESS)
    status = make_swap (device);
  if (status != EXIT_SUCCESS)
    return status;

  /* Do this before the first page goes there, or the first shortage stalls. */
  front_proc_marker (marker, st->index);
  if (front_proc_set_swap (st->nbdkit, marker, true) < 0)
    fprintf (stderr,
             "farpage: swapon: %s got no real-time priority:"
             " it may stall when memory is very short\n",
             front_of (st->index)->program);
  /* Without them swap works, but not as well under pressure. */
  if (!o->keep_settings && swap_settings_set (&done, "", &error) < 0)
    fprintf (stderr, "farpage: swapon: %s\n", error.text);

  if (o->priority >= 0)
    flags |= SWAP_FLAG_PREFER | (int) ((o->priority << SWAP_FLAG_PRIO_SHIFT) &
                                       SWAP_FLAG_PRIO_MASK);
  if (o->discard)
    flags |= SWAP_FLAG_DISCARD | SWAP_FLAG_DISCARD_PAGES;
  if (swapon (device, flags) == -1) {
    status = say_error ("swapon: %s: %s", device, strerror (errno));
    print_settings (&done);
    restore_swap_settings ("swapon");
    if (!st->swap)
      (void) front_proc_set_swap (st->nbdkit, marker, false); /* undo */
    return status;
  }
  print_settings (&done);
  if (device_swap (st->index, &area, NULL) < 0 || !area.active)
    return say_error ("swapon: %s is not in /proc/swaps", device);
  fp_format_size (area.size, size);
  printf ("%s: swapping to %s of it, priority %ld%s\n", device, size,
          area.priority, o->discard ? ", freed pages are discarded" : "");
  return EXIT_SUCCESS;
}

/* Take the device and the options from a volume file.  Return -1 to go on, or
 * an exit status.
 */
static int
use_config (struct options *o, int *index, const char *name)
{
  char unit[STATE_LINK_MAX + 32];
  struct volume_file f;
  struct fp_error error;
  struct swap_area area;
  int r = volume_file_read (&f, name, &error);

  volume_file_clear (&f);
  if (r == 0)
    r = state_find_link (name, index, &error);
  if (r < 0) {
    say_error ("swapon: %s", error.text);
    return volume_file_status (r);
  }
  o->refused = EXIT_USAGE;
  o->discard = o->discard || f.discard;
  o->single_copy = o->single_copy || f.single_copy;
  o->priority = o->priority < 0 ? f.priority : o->priority;
  if (*index < 0) {
    say_error ("swapon: %s is not attached: run 'farpage attach --config %s' "
               "first",
               name, name);
    snprintf (unit, sizeof unit, "farpage@%s.service", name);
    return service_is_misconfigured (unit) ? EXIT_USAGE : EXIT_FAILURE;
  }
  return device_swap (*index, &area, NULL) == 0 && area.active ? EXIT_SUCCESS
                                                               : -1;
}

/* Swap to the device that is attached as config, or if that is NULL, to
 * device.
 */
static int
use_device (struct options *o, const char *config, const char *device)
{
  struct fp_error error;
  struct state st;
  int index, status = config == NULL ? -1 : use_config (o, &index, config);

  if (status != -1)
    return status;
  if (config == NULL)
    index = device_index (device);
  if (index < 0)
    return say_usage ("swapon", "%s: not a /dev/nbdX or /dev/ublkbX", device);
  if (state_load (&st, index, &error) < 0)
    return say_error ("swapon: %s", error.text);
  status = swap_on (&st, o);
  state_clear (&st);
  return status;
}

/* Borrow memory from servers and swap to it. */
static int
use_servers (const struct options *o, struct borrow_swap *b)
{
  if (o->keep_settings || o->force)
    return say_usage ("swapon", "--%s is only for a DEVICE",
                      o->force ? "force" : "keep-settings");
  b->plan.single_copy = o->single_copy;
  b->discard = o->discard;
  b->priority = o->priority < 0 ? 10 : o->priority;
  return borrow_swap (b);
}

int
cmd_swapon (int argc, char *argv[])
{
  struct options o = { .priority = -1, .refused = EXIT_FAILURE };
  struct borrow_swap b = {
    .plan = { .command = "swapon", .undo = "swapoff", .key.path = CLIENT_KEY },
  };
  const char *config = NULL;
  bool for_servers = false;
  int c, status = EXIT_SUCCESS, nr;

  while ((c = getopt_long (argc, argv, "p:hV", long_options, NULL)) != -1) {
    if (common_option (c, "swapon", help, &status))
      return status;
    if (c == 'p' && !parse_number (optarg, 0, 32767, &o.priority))
      return say_usage ("swapon", "--priority: '%s' is not 0 to 32767",
                        optarg);
    o.discard = o.discard || c == 'D';
    o.single_copy = o.single_copy || c == 's';
    o.keep_settings = o.keep_settings || c == 'k';
    o.force = o.force || c == 'f';
    if (c == 'c')
      config = optarg;
    if (c == 'n')
      b.plan.name = optarg;
    status = plan_option (&b.plan, c, optarg);
    if (status > 0)
      return status;
    for_servers = for_servers || c == 'n' || status == 0;
  }
  nr = argc - optind;
  for (int i = 0; nr > 1 && i < nr; i++)
    if (device_is_meant (argv[optind + i]))
      return say_usage ("swapon",
                        "give either one device or only memory servers");
  if (nr > 0 && config == NULL &&
      (nr > 1 || !device_is_meant (argv[optind]))) {
    b.plan.servers = argv + optind;
    b.plan.nr_servers = nr;
    return use_servers (&o, &b);
  }
  if (nr != (config == NULL))
    return say_usage ("swapon", "give memory servers, one device, or --config "
                                "NAME");
  if (for_servers)
    return say_usage ("swapon",
                      "--token, --token-file, --key, --size, --name, "
                      "--once and --dry-run are only for memory "
                      "servers");
  return use_device (&o, config, argv[optind]);
}
