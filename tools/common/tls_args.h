/* SPDX-License-Identifier: BSD-3-Clause */
/* tls_args.h - how this process connects to memory servers: what a command
 * line says of TLS (tls=..., tls-psk=FILE, ...), or a pool, or what an
 * attached device was told.  There is one answer for the process.
 */

#ifndef FARPAGE_TLS_ARGS_H
#define FARPAGE_TLS_ARGS_H

#include "tools/common/state.h"
#include "volume/volume.h"

/* tls...=VALUE */
bool tls_args_is (const char *arg);

/* 0; -EINVAL, and why; -ENOENT: key is not of TLS. */
int tls_args_set (const char *key, const char *value, char why[FP_WHY_MAX]);

/* Set all of argv that is so, and leave the others there, *n of them.  Returns
 * EXIT_SUCCESS; else it has said why not.
 */
int tls_args_take (const char *command, int *n, char *argv[]);

/* Set what the plugin of the device was told.  The first device that was told
 * something counts; if another one was told nothing, servers may be without.
 * -errno: its state, or its pool, cannot be read, or its parameters are wrong.
 */
int tls_args_of_device (int index, char why[FP_WHY_MAX]);

/* This process is that client from now on, until its end.  Once, and before
 * the first connection.
 */
int tls_args_use (const char *command);

#endif /* FARPAGE_TLS_ARGS_H */
