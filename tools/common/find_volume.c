/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "tools/common/commands.h"
#include "tools/common/device.h"
#include "tools/common/find_volume.h"

/* Return true if path is a socket; its name may have no slash. */
static bool
is_socket (const char *path)
{
  struct stat st;

  return stat (path, &st) == 0 && S_ISSOCK (st.st_mode);
}

/* Return the device whose volume has this name, or -1. */
static int
named_index (const char *name)
{
  static const char key[] = "volume=";
  struct state st;
  struct fp_error error;

  for (int i = state_next (-1); i >= 0; i = state_next (i)) {
    bool found = false;

    if (state_load (&st, i, &error) < 0)
      continue;
    for (unsigned k = 0; k < st.nr_args; k++)
      found = found || (strncmp (st.args[k], key, sizeof key - 1) == 0 &&
                        strcmp (st.args[k] + sizeof key - 1, name) == 0);
    state_clear (&st);
    if (found)
      return i;
  }
  return -1;
}

bool
find_volume (const char *command, const char *arg, char path[STATE_PATH_MAX],
             const char **out, int *status)
{
  int index = device_index (arg);

  *out = arg;
  if (index < 0 && ((strchr (arg, '/') && strncmp (arg, "/dev/", 5) != 0) ||
                    is_socket (arg)))
    return true;
  if (index < 0)
    index = named_index (arg);
  if (index < 0) {
    *status = say_usage (command,
                         "%s: neither an attached device nor a socket, nor "
                         "the name of a volume that is attached here",
                         arg);
    return false;
  }
  if (!state_exists (index)) {
    *status = say_error ("%s: %s is not attached by farpage", command, arg);
    return false;
  }
  state_path (path, index, "status.sock");
  *out = path;
  return true;
}
