/* SPDX-License-Identifier: BSD-3-Clause */
/* setup_int.h - the steps of 'farpage-memserver setup'.  Each step does
 * nothing if its result exists.  With dry_run it only prints its action.
 *
 * Errors:   0 or a negative errno value, and the sentence in error.
 */

#ifndef MEMSERVER_SETUP_INT_H
#define MEMSERVER_SETUP_INT_H

#include "memserver/options.h"
#include "memserver/setup/commands.h"
#include "memserver/setup/setup.h"

#define SERVICE "farpage-memserver"
#define SERVICE_USER "farpage"

struct setup {
  const char *size;   /* SIZE or PERCENT% */
  const char *config; /* path of the configuration file */
  const char *join;   /* address of another server; NULL: not given */
  const char *token,
      *token_file; /* join token of that server; NULL: not given */
  bool dry_run;
  bool serving;                 /* the service may have clients */
  struct options options;       /* settings before setup */
  char dropin[OPTION_PATH_MAX]; /* path of the drop-in that setup writes */
  char key[FP_TLS_PATH_MAX];    /* path of the key file */
  uint64_t bytes;               /* memory to lend */
};

/* Make the key file, or add the master key to it: a random one, or with join
 * that of another server.  Let SERVICE_USER read the file.  -EBUSY: a server
 * that serves has no master key.
 */
int setup_key (const struct setup *s, struct fp_error *error);

/* Return true if size and tls-psk are set already. */
bool setup_is_configured (const struct setup *s);

/* Write size and tls-psk to a drop-in of the configuration file. */
int setup_config (const struct setup *s, struct fp_error *error);

/* Open the server's ports in firewalld or ufw, if one is active. */
int setup_firewall (const struct setup *s, struct fp_error *error);

/* Return true unless systemd says that the service does not run, and reads
 * this configuration file.
 */
bool setup_is_serving (const struct setup *s);

/* Enable and start the service, and wait until it serves.  Without systemd, or
 * with another configuration file, print how to start the server.
 */
int setup_service (const struct setup *s, struct fp_error *error);

#endif /* MEMSERVER_SETUP_INT_H */
