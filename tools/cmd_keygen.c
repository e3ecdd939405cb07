/* SPDX-License-Identifier: BSD-3-Clause */
/* cmd_keygen.c - farpage keygen: make a pre-shared key. */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/common/commands.h"
#include "transport/tls/psk_file.h"
#include "transport/tls/psk_write.h"

#define DEFAULT_FILE "farpage.psk"
#define ENCRYPT_FILE "farpage.key"
#define DEFAULT_USER "farpage"

static const char help[] =
    "Usage: farpage keygen [OPTION]... [FILE]\n"
    "\n"
    "Make a key for TLS: 32 random bytes, as USER:KEY in FILE "
    "(default\n" DEFAULT_FILE
    "). Only its owner can read FILE. Give the same file to\n"
    "the memory servers (--tls-psk FILE) and to the clients (tls-psk=FILE).\n"
    "A file that exists is not overwritten. With --user, a user is added to\n"
    "it.\n"
    "\n"
    "      --user NAME   user that the key is for (default " DEFAULT_USER ")\n"
    "      --encrypt     make a key for encrypt=FILE, not for TLS\n"
    "      --help, --version\n"
    "\n"
    "A key of --encrypt (default FILE: " ENCRYPT_FILE ") is for clients\n"
    "alone: they encrypt volumes with it. If the key is lost, so are the\n"
    "volumes.\n";

static const struct option long_options[] = {
  COMMON_OPTIONS,
  { "user", required_argument, NULL, 'u' },
  { "encrypt", no_argument, NULL, 'e' },
  { NULL, 0, NULL, 0 },
};

int
cmd_keygen (int argc, char *argv[])
{
  const char *path = NULL, *user = NULL;
  struct fp_error error;
  bool encrypt = false;
  int c, status, r;

  while ((c = getopt_long (argc, argv, "", long_options, NULL)) != -1) {
    if (common_option (c, "keygen", help, &status))
      return status;
    if (c == 'e')
      encrypt = true;
    else
      user = optarg;
  }
  if (optind < argc)
    path = argv[optind++];
  if (optind < argc)
    return say_usage ("keygen", "give one FILE, not '%s' too", argv[optind]);
  if (user && !fp_psk_user_ok (user))
    return say_usage ("keygen",
                      "--user %s: a name is 1 to %d printable ASCII "
                      "characters, without blanks, ':', '/', '\"' and '\\', "
                      "and does not begin with '#' or 'join.'",
                      user, FP_NAME_MAX);
  if (user && strcmp (user, FP_PSK_VOLUMES) == 0)
    return say_usage ("keygen",
                      "--user %s: this name marks keys for volumes: "
                      "--encrypt makes one",
                      user);
  if (user && encrypt)
    return say_usage ("keygen",
                      "--user is for TLS keys, and --encrypt for keys of "
                      "volumes: use one of them");
  if (!path)
    path = encrypt ? ENCRYPT_FILE : DEFAULT_FILE;
  r = fp_psk_new (path,
                  encrypt ? FP_PSK_VOLUMES
                  : user  ? user
                          : DEFAULT_USER,
                  user != NULL, &error);
  if (r == -EEXIST && user == NULL)
    return say_error ("keygen: %s: give another FILE, or add a user to a file "
                      "of TLS keys with --user NAME",
                      error.text);
  if (r < 0)
    return say_error ("keygen: %s", error.text);
  return EXIT_SUCCESS;
}
