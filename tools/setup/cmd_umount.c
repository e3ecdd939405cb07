/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_umount.c - farpage umount: undo 'farpage mount'. */

#include <config.h>

#include <getopt.h>
#include <stdlib.h>

#include "tools/common/commands.h"
#include "tools/setup/borrow.h"

static const char help[] =
    "Usage: farpage umount NAME|DIRECTORY\n"
    "\n"
    "Undo 'farpage mount': unmount the file system, detach its device, "
    "disable\n"
    "the services, and remove the volume file and the mount unit. The memory\n"
    "servers keep the volume, and this machine keeps its key.\n"
    "\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { NULL, 0, NULL, 0 },
};

int
cmd_umount (int argc, char *argv[])
{
  int c, status;

  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1)
    if (common_option (c, "umount", help, &status))
      return status;
  if (optind != argc - 1)
    return say_usage ("umount", "give one name or directory");
  return borrow_umount ("umount", argv[optind]);
}
