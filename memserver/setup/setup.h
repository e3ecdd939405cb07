/* SPDX-License-Identifier: BSD-3-Clause */
/* setup.h - the commands of farpage-memserver: setup, token and keygen.  Each
 * takes its own argv.  Each returns 0, or prints the reason and returns 1
 * after a failure or 2 after a bad command line.
 */

#ifndef MEMSERVER_SETUP_H
#define MEMSERVER_SETUP_H

/* Make this machine a memory server: key, settings, firewall, service. */
int setup_main (int argc, char *argv[]);

/* Print a join token. */
int token_main (int argc, char *argv[]);

/* Make a key file, or add a user to it. */
int keygen_main (int argc, char *argv[]);

#endif /* MEMSERVER_SETUP_H */
