/* SPDX-License-Identifier: BSD-3-Clause */
/* commands.h - functions that the commands setup, token and keygen
 * share. */

#ifndef MEMSERVER_COMMANDS_H
#define MEMSERVER_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "memserver/say.h"
#include "transport/tls/join_token.h"

#define EXIT_USAGE 2
#define TOKEN_TTL_S 3600u

/* Print the sentence, and return EXIT_FAILURE. */
#define command_failed(...) (say (__VA_ARGS__), EXIT_FAILURE)

/* Print a sentence about a bad command line, and how to get help.  Return
 * EXIT_USAGE.
 */
#define command_usage(command, ...)                                           \
  (say (command ": " __VA_ARGS__), command_hint (command), EXIT_USAGE)
void command_hint (const char *command);

/* Handle a result of getopt_long that the command itself does not know:
 * --help,
 * --version, or an error.  Return true if the command must exit with *status.
 */
bool command_common (int c, const char *command, const char *help,
                     int *status);
#define COMMON_OPTIONS                                                        \
  { "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' }

/* Run the program argv[0], and wait for it.  If loud is false, discard its
 * output.  Return its exit status, -ENOENT if it is not installed, or another
 * -errno.
 */
int command_run (const char *const argv[], bool loud);

/* Make a join token for user from the master key in the key file psk.  It
 * expires ttl_s seconds from now.  -EEXIST: the user has a line of its own.
 */
int command_make_token (struct fp_join_token *out, const char *psk,
                        const char *user, unsigned ttl_s,
                        struct fp_error *error);

/* Choose a name for a new client: "client-" and 8 random hexadecimal digits.
 */
int command_new_user (char out[FP_NAME_MAX + 1]);

#endif /* MEMSERVER_COMMANDS_H */
