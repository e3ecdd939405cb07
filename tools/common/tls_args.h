/* SPDX-License-Identifier: BSD-3-Clause */
/* tls_args.h - how this process connects to memory servers.  The settings come
 * from a command line (tls=..., tls-psk=FILE, ...), from a pool, or from the
 * parameters of an attached device.  One set of them holds for the whole
 * process.
 */

#ifndef FARPAGE_TLS_ARGS_H
#define FARPAGE_TLS_ARGS_H

#include "base/error.h"
#include "tools/common/state.h"

/* Return true if arg is tls...=VALUE. */
bool tls_args_is (const char *arg);

/* Set one parameter.  If the value is bad, set error and return -EINVAL.
 * -ENOENT: key is no TLS parameter.
 */
int tls_args_set (const char *key, const char *value, struct fp_error *error);

/* Set all TLS parameters in argv and remove them; *n arguments stay.  Return
 * EXIT_SUCCESS, or print an error and return its exit status.
 */
int tls_args_take (const char *command, int *n, char *argv[]);

/* Set the TLS parameters of the plugin of a device.  Those of the first device
 * that has some hold.  If another device has none, servers without TLS are
 * accepted, too.  -errno: its state, or its pool, cannot be read, or its
 * parameters are wrong.
 */
int tls_args_of_device (int index, struct fp_error *error);

/* Use these settings from now on.  Call once, before the first connection. */
int tls_args_use (const char *command);

#endif /* FARPAGE_TLS_ARGS_H */
