/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_mount.c - farpage mount: mount memory of servers as a file system. */

#include <config.h>

#include <getopt.h>
#include <stdlib.h>

#include "tools/common/commands.h"
#include "tools/setup/borrow.h"

static const char help[] =
    "Usage: farpage mount [OPTION]... NAME DONOR... DIRECTORY\n"
    "\n"
    "Mount volume NAME of the memory servers DONOR on DIRECTORY, now and at\n"
    "each boot. If they do not have it, create it, and make a file system on\n"
    "it. 'farpage umount NAME' undoes that, but keeps the volume. Its "
    "contents\n"
    "are in RAM: they are lost if all servers with a copy reboot at the same\n"
    "time.\n"
    "\n" PLAN_KEY_HELP
    "      --size SIZE        size of a new volume (default: half of what "
    "fits)\n"
    "      --type TYPE        file system of a new volume (default: ext4)\n"
    "      --single-copy      make a new volume with one copy\n"
    "      --once             mount only until the next boot\n"
    "      --dry-run          ask the servers, and print what to write\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "token", required_argument, NULL, PLAN_TOKEN },
  { "token-file", required_argument, NULL, PLAN_TOKEN_FILE },
  { "key", required_argument, NULL, PLAN_KEY },
  { "size", required_argument, NULL, PLAN_SIZE },
  { "type", required_argument, NULL, 't' },
  { "single-copy", no_argument, NULL, 's' },
  { "once", no_argument, NULL, PLAN_ONCE },
  { "dry-run", no_argument, NULL, PLAN_DRY_RUN },
  { NULL, 0, NULL, 0 },
};

int
cmd_mount (int argc, char *argv[])
{
  struct borrow_mount b = {
    .plan = { .command = "mount", .undo = "umount", .key.path = CLIENT_KEY },
    .type = "ext4",
  };
  int c, nr, status;

  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "mount", help, &status))
      return status;
    status = plan_option (&b.plan, c, optarg);
    if (status > 0)
      return status;
    b.plan.single_copy = b.plan.single_copy || c == 's';
    if (c == 't')
      b.type = optarg;
  }
  nr = argc - optind;
  if (nr < 3)
    return say_usage ("mount", "give a name, memory servers and a directory");
  b.plan.name = argv[optind];
  b.plan.servers = argv + optind + 1;
  b.plan.nr_servers = nr - 2;
  b.directory = argv[argc - 1];
  if (b.directory[0] != '/')
    return say_usage ("mount",
                      "%s: the last argument must be a directory, "
                      "with a '/' at its beginning",
                      b.directory);
  return borrow_mount (&b);
}
