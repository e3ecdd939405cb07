/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - farpage-memserver lends this machine's memory. */

#include <config.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const struct option options[] = {
  { "help", no_argument, NULL, 'h' },
  { "version", no_argument, NULL, 'V' },
  { NULL, 0, NULL, 0 },
};

static int
usage (FILE *fp, int status)
{
  fprintf (fp, "Usage: farpage-memserver [--help] [--version]\n");
  return status;
}

int
main (int argc, char *argv[])
{
  int c;

  while ((c = getopt_long (argc, argv, "hV", options, NULL)) != -1) {
    switch (c) {
    case 'h':
      return usage (stdout, EXIT_SUCCESS);
    case 'V':
      printf ("farpage-memserver %s\n", PACKAGE_VERSION);
      return EXIT_SUCCESS;
    default:
      return usage (stderr, 2);
    }
  }
  return usage (stderr, 2);
}
