/* SPDX-License-Identifier: BSD-3-Clause */
/* commands.h - the commands of farpage: one table, one function each.
 *
 * A command gets its own argv (argv[0] is its name) and parses it with
 * getopt_long. It returns EXIT_SUCCESS, EXIT_FAILURE, or EXIT_USAGE for a bad
 * command line. On failure it has printed the reason to standard error.
 */

#ifndef FARPAGE_COMMANDS_H
#define FARPAGE_COMMANDS_H

#include <stdbool.h>
#include <stdio.h>

#define EXIT_USAGE 2

int cmd_attach (int argc, char *argv[]);
int cmd_detach (int argc, char *argv[]);
int cmd_swapon (int argc, char *argv[]);
int cmd_swapoff (int argc, char *argv[]);
int cmd_join (int argc, char *argv[]);
int cmd_leave (int argc, char *argv[]);
int cmd_mount (int argc, char *argv[]);
int cmd_umount (int argc, char *argv[]);
int cmd_check (int argc, char *argv[]);
int cmd_cluster (int argc, char *argv[]);
int cmd_status (int argc, char *argv[]);
int cmd_drain (int argc, char *argv[]);
int cmd_servers (int argc, char *argv[]);
int cmd_volumes (int argc, char *argv[]);
int cmd_bench (int argc, char *argv[]);
int cmd_keygen (int argc, char *argv[]);
int cmd_doctor (int argc, char *argv[]);
int cmd_top (int argc, char *argv[]);
int cmd_exporter (int argc, char *argv[]);

/* Print "farpage: " and the sentence to standard error. say_error returns
 * EXIT_FAILURE. say_usage also prints the command's name and how to get help,
 * and returns EXIT_USAGE.
 */
int say_error (const char *fmt, ...) __attribute__ ((format (printf, 1, 2)));
int say_usage (const char *command, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));
void say_version (void);

/* Handle a result of getopt_long that the command itself does not know:
 * --help, --version, or an error. Return true if the command must exit with
 * *status.
 */
bool common_option (int c, const char *command, const char *help, int *status);
#define COMMON_OPTIONS                                                        \
  { "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' }

/* Put back the kernel settings that 'farpage swapon' changed, if no device of
 * ours is swapped to. Print what was put back and what could not be.
 * cmd_swapoff.c.
 */
void restore_swap_settings (const char *command);

/* Parse a whole number in [min, max]. Return false if s is no such number. */
bool parse_number (const char *s, long min, long max, long *out);

/* Parse a time (conf/duration.h) in whole seconds. A number alone is in
 * seconds. Return false if s is no such time.
 */
bool parse_seconds (const char *s, long min, long max, long *out);

#endif /* FARPAGE_COMMANDS_H */
