/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - the farpage command: find the subcommand and run it. */

#include <config.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/commands.h"
#include "tools/common/suggest.h"

static const struct command {
  const char *name;
  int (*run) (int argc, char *argv[]);
  const char *help;
} commands[] = {
  { "join", cmd_join, "fetch this machine's key from a memory server" },
  { "leave", cmd_leave, "remove the key that join fetched" },
  { "attach", cmd_attach, "attach other machines' memory as a block device" },
  { "detach", cmd_detach, "detach a device, and return its memory" },
  { "swapon", cmd_swapon, "swap to memory servers, or to an attached device" },
  { "swapoff", cmd_swapoff, "stop swapping to a device" },
  { "mount", cmd_mount, "mount a file system that memory servers hold" },
  { "umount", cmd_umount, "undo mount, but keep the volume" },
  { "status", cmd_status, "show what is attached, and its state" },
  { "top", cmd_top, "show rates and latencies, live" },
  { "exporter", cmd_exporter,
    "serve the metrics of all devices to Prometheus" },
  { "servers", cmd_servers, "show, add or remove memory servers" },
  { "cluster", cmd_cluster,
    "show, choose or drain the donors announced in etcd" },
  { "volumes", cmd_volumes, "list, show or delete volumes on memory servers" },
  { "drain", cmd_drain, "move the extents of a server to the others" },
  { "check", cmd_check, "compare the copies of a volume, and repair them" },
  { "keygen", cmd_keygen, "make a key for the memory servers and clients" },
  { "bench", cmd_bench, "measure each layer, from memcpy to the device" },
  { "doctor", cmd_doctor, "look for problems here, and say what to do" },
};
#define NR_COMMANDS (sizeof commands / sizeof commands[0])

static void
usage (FILE *fp)
{
  size_t i;

  fprintf (fp, "Usage: farpage COMMAND [ARGUMENT]...\n\nCommands:\n");
  for (i = 0; i < NR_COMMANDS; i++)
    fprintf (fp, "  %-10s %s\n", commands[i].name, commands[i].help);
  fprintf (fp, "\nFor each command, see 'farpage COMMAND --help' and"
               " farpage-COMMAND(1).\n"
               "  --help     show this text\n"
               "  --version  show the version\n");
}

/* Run a command.  getopt prints argv[0] with its messages, so make that
 * "farpage: attach".
 */
static int
run (const struct command *c, int argc, char *argv[])
{
  char name[32];

  snprintf (name, sizeof name, "farpage: %s", c->name);
  argv[0] = name;
  return c->run (argc, argv);
}

static int
no_such_command (const char *arg)
{
  const char *names[NR_COMMANDS], *meant;

  for (size_t i = 0; i < NR_COMMANDS; i++)
    names[i] = commands[i].name;
  meant = suggest (arg, names, NR_COMMANDS);
  fprintf (stderr, "farpage: %s: no such %s%s%s%s\n", arg,
           arg[0] == '-' ? "option" : "command",
           meant ? ": did you mean '" : "", meant ? meant : "",
           meant ? "'?" : "");
  fprintf (stderr, "Try 'farpage --help'.\n");
  return EXIT_USAGE;
}

static int
dispatch (int argc, char *argv[])
{
  const char *arg = argc > 1 ? argv[1] : NULL;
  size_t i;

  if (!arg) {
    usage (stderr);
    return EXIT_USAGE;
  }
  if (!strcmp (arg, "--help") || !strcmp (arg, "-h")) {
    usage (stdout);
    return EXIT_SUCCESS;
  }
  if (!strcmp (arg, "--version") || !strcmp (arg, "-V")) {
    say_version ();
    return EXIT_SUCCESS;
  }
  for (i = 0; i < NR_COMMANDS; i++)
    if (!strcmp (arg, commands[i].name))
      return run (&commands[i], argc - 1, argv + 1);
  return no_such_command (arg);
}

int
main (int argc, char *argv[])
{
  int status;

  /* If the reader of stdout goes away, let the write fail. */
  signal (SIGPIPE, SIG_IGN);
  status = dispatch (argc, argv);
  if ((fflush (stdout) != 0 || ferror (stdout)) && status == EXIT_SUCCESS)
    status = say_error ("standard output: %s", strerror (errno));
  return status;
}
