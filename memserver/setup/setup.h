/* SPDX-License-Identifier: BSD-3-Clause */
/* setup.h - the commands 'farpage-memserver setup' and 'farpage-memserver
 * token'.  Each gets its own argv, and returns 0, 1 after a failure, or 2
 * after a bad command line.  It prints the reason before it returns 1 or 2.
 */

#ifndef MEMSERVER_SETUP_H
#define MEMSERVER_SETUP_H

/* Make this machine a memory server: key, settings, firewall, service. */
int setup_main (int argc, char *argv[]);

/* Print a join token. */
int token_main (int argc, char *argv[]);

#endif /* MEMSERVER_SETUP_H */
