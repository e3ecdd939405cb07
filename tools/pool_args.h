/* SPDX-License-Identifier: BSD-3-Clause */
/* pool_args.h - servers on a command line, as 'farpage attach' takes them. */

#ifndef FARPAGE_POOL_ARGS_H
#define FARPAGE_POOL_ARGS_H

/* What is said of TLS (tls-psk=FILE, ...), there or in a pool, is how this
 * process connects from now on.
 *
 * Of ADDR, server=ADDR[,domain=NAME] and pool=NAME, the addresses: *argv and
 * *n are replaced by them, and live as long as the program.  Returns
 * EXIT_SUCCESS; else it has said why not.
 */
int pool_args (const char *command, int *n, char ***argv);

#endif /* FARPAGE_POOL_ARGS_H */
