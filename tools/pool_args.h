/* SPDX-License-Identifier: BSD-3-Clause */
/* pool_args.h - servers on a command line, as 'farpage attach' takes them. */

#ifndef FARPAGE_POOL_ARGS_H
#define FARPAGE_POOL_ARGS_H

/* Replace ADDR, server=ADDR[,domain=NAME] and pool=NAME in *argv by the
 * addresses they name.  These live as long as the program.  Use TLS parameters
 * (tls-psk=FILE, ...), there or in a pool, from now on.  Return EXIT_SUCCESS,
 * or print an error and return its exit status.
 */
int pool_args (const char *command, int *n, char ***argv);

#endif /* FARPAGE_POOL_ARGS_H */
