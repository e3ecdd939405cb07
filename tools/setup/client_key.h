/* SPDX-License-Identifier: BSD-3-Clause */
/* client_key.h - this machine's key for memory servers.  'farpage join',
 * 'farpage swapon DONOR...' and 'farpage mount' fetch it from one of them with
 * a join token, and store it.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  one thread.
 * Memory:   the key is in locked memory.
 */

#ifndef FARPAGE_CLIENT_KEY_H
#define FARPAGE_CLIENT_KEY_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"
#include "proto/messages.h"

#define CLIENT_KEY SYSCONFDIR "/farpage/client.key"

/* Source of the key. */
struct client_key_args {
  const char *path;       /* key file */
  const char *token;      /* join token; NULL: none */
  const char *token_file; /* file with a join token; NULL: none */
};

struct client_key {
  struct fp_join_reply is;
  bool fetched; /* true: not yet saved */
};

/* Fetch the key with the join token, from the first of the n servers that
 * gives it.  If the key file has the key of the token's user already, or if
 * there is no join token, read it from there.  If there is no key file either,
 * set *out to NULL and return 0.  -EEXIST: the key file has another user.
 */
int client_key_get (struct client_key **out, const struct client_key_args *a,
                    char *const servers[], int n, struct fp_error *error);

/* Make a path absolute: services do not run in this directory. */
int client_key_path (char out[PATH_MAX], const char *path,
                     struct fp_error *error);

/* Use the key for all later connections of this process. */
int client_key_use (const struct client_key *k, struct fp_error *error);

/* Save the key, if it was fetched, to a new file with mode 0600. */
int client_key_save (struct client_key *k, const char *path,
                     struct fp_error *error);

/* Wipe and free the key.  k may be NULL. */
void client_key_free (struct client_key *k);

#endif /* FARPAGE_CLIENT_KEY_H */
