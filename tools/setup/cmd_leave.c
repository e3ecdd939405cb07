/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_leave.c - farpage leave: remove the key that 'farpage join' stored. */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/commands.h"
#include "tools/common/device.h"
#include "tools/common/state.h"
#include "tools/common/volume_file.h"
#include "tools/setup/client_key.h"

static const char help[] =
    "Usage: farpage leave [--key FILE]\n"
    "\n"
    "Remove the key that 'farpage join', 'swapon DONOR...' or 'mount' "
    "stored.\n"
    "If a device or a volume file uses the key, this is refused. The memory\n"
    "servers still accept the key: farpage-memserver(8) says how to revoke "
    "it.\n"
    "\n"
    "      --key FILE  the file with the key (default\n"
    "                  " CLIENT_KEY ")\n"
    "      --help, --version\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "key", required_argument, NULL, 'k' },
  { NULL, 0, NULL, 0 },
};

/* Return true if tls-psk=FILE among the words names this file, perhaps by
 * another path.
 */
static bool
uses (char *const words[], unsigned n, const struct stat *key)
{
  static const char parameter[] = "tls-psk=";
  const size_t length = sizeof parameter - 1;
  struct stat st;

  for (unsigned i = 0; i < n; i++)
    if (strncmp (words[i], parameter, length) == 0 &&
        stat (words[i] + length, &st) == 0 && st.st_dev == key->st_dev &&
        st.st_ino == key->st_ino)
      return true;
  return false;
}

/* Refuse if an attached device uses the key. */
static int
check_devices (const struct stat *key)
{
  struct fp_error error;
  struct state s;
  bool used;

  for (int i = state_next (-1); i >= 0; i = state_next (i)) {
    if (state_load (&s, i, &error) < 0)
      return say_error ("leave: %s", error.text);
    used = uses (s.args, s.nr_args, key);
    state_clear (&s);
    if (used)
      return say_error ("leave: %s uses this key: run 'farpage swapoff' if it "
                        "is swapped to, then 'farpage detach'",
                        device_path (i).s);
  }
  return EXIT_SUCCESS;
}

/* Refuse if the volume file of this directory entry uses the key. */
static int
check_file (const char *entry, const struct stat *key)
{
  static const char suffix[] = ".conf";
  const size_t n = strlen (entry), m = sizeof suffix - 1;
  char name[STATE_LINK_MAX] = "";
  struct volume_file f;
  struct fp_error error;
  bool used;
  int r;

  if (n <= m || n - m >= sizeof name || strcmp (entry + n - m, suffix) != 0)
    return EXIT_SUCCESS;
  memcpy (name, entry, n - m);
  r = volume_file_read (&f, name, &error);
  used = uses (f.words, f.nr_words, key);
  volume_file_clear (&f);
  if (r < 0)
    return say_error ("leave: cannot tell whether %s uses this key: %s", name,
                      error.text);
  return used ? say_error (
                    "leave: %s uses this key: run 'farpage swapoff %s' or "
                    "'farpage umount %s', or remove tls-psk from that "
                    "volume file",
                    name, name, name)
              : EXIT_SUCCESS;
}

static int
check_files (const struct stat *key)
{
  char dir[VOLUME_FILE_PATH_MAX];
  struct fp_error error;
  const struct dirent *entry;
  int status = EXIT_SUCCESS;
  DIR *d;

  for (unsigned once = 0; once < 2 && status == EXIT_SUCCESS; once++) {
    if (volume_file_path (dir, "x", once, &error) < 0)
      return say_error ("leave: %s", error.text);
    *strrchr (dir, '/') = '\0';
    d = opendir (dir);
    if (d == NULL && errno != ENOENT)
      return say_error ("leave: %s: %s", dir, strerror (errno));
    while (d != NULL && status == EXIT_SUCCESS &&
           (entry = readdir (d)) != NULL)
      status = check_file (entry->d_name, key);
    if (d != NULL)
      closedir (d);
  }
  return status;
}

/* Check that the file has the key of one user: 'farpage leave' removes no
 * other file.
 */
static int
check_key (const char *path, struct stat *st)
{
  const struct client_key_args a = { .path = path };
  struct client_key *key;
  struct fp_error error;

  if (stat (path, st) < 0)
    return say_error ("leave: %s: %s", path, strerror (errno));
  if (client_key_get (&key, &a, NULL, 0, &error) < 0)
    return say_error ("leave: %s", error.text);
  client_key_free (key);
  return EXIT_SUCCESS;
}

int
cmd_leave (int argc, char *argv[])
{
  const char *path = CLIENT_KEY;
  int c, status;
  struct stat st;

  while ((c = getopt_long (argc, argv, "hV", long_options, NULL)) != -1) {
    if (common_option (c, "leave", help, &status))
      return status;
    path = optarg;
  }
  if (optind < argc)
    return say_usage ("leave", "unexpected argument '%s'", argv[optind]);
  status = check_key (path, &st);
  if (status == EXIT_SUCCESS)
    status = check_devices (&st);
  if (status == EXIT_SUCCESS)
    status = check_files (&st);
  if (status != EXIT_SUCCESS)
    return status;
  if (unlink (path) < 0)
    return say_error ("leave: %s: %s", path, strerror (errno));
  printf ("removed %s\n", path);
  return EXIT_SUCCESS;
}
