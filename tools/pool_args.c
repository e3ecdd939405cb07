/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "pool/pool.h"
#include "tools/common/commands.h"
#include "tools/common/tls_args.h"
#include "tools/pool_args.h"

struct list {
  int n;
  char **args;
};

static int
add (struct list *l, const char *addr)
{
  char **args = realloc (l->args, ((size_t) l->n + 1) * sizeof *args);
  char *copy = strdup (addr), *domain;

  if (args)
    l->args = args;
  if (!args || !copy) {
    free (copy);
    return -ENOMEM;
  }
  domain = strstr (copy, ",domain=");
  if (domain)
    *domain = '\0';
  args[l->n++] = copy;
  return 0;
}

/* Take servers and TLS settings from a line of a pool; ignore the rest, which
 * is for attaching.  The command line's TLS settings are read later, so that
 * they win wherever they stand, as with nbdkit.
 */
static int
on_line (void *arg, const char *key, const char *value, struct fp_error *error)
{
  int r = tls_args_set (key, value, error);

  if (r != -ENOENT)
    return r;
  if (strcmp (key, "server") != 0 || add (arg, value) == 0)
    return 0;
  return fp_fail (error, -ENOMEM, "out of memory");
}

static const char *
value_of (const char *arg, const char *key)
{
  size_t n = strlen (key);

  return strncmp (arg, key, n) == 0 ? arg + n : NULL;
}

int
pool_args (const char *command, int *n, char ***argv)
{
  struct fp_error error;
  static struct list l; /* the addresses, until the program ends */
  int status;

  for (int i = 0; i < *n; i++) {
    const char *pool = value_of ((*argv)[i], "pool=");
    const char *server = value_of ((*argv)[i], "server=");

    if (pool && fp_pool_read (pool, FP_POOL_LOOK, on_line, &l, &error) < 0)
      return say_error ("%s: %s", command, error.text);
    if (pool)
      continue;
    if (!server && tls_args_is ((*argv)[i]))
      continue;
    if (add (&l, server ? server : (*argv)[i]) < 0)
      return say_error ("%s: out of memory", command);
  }
  status = tls_args_take (command, n, *argv);
  if (status != EXIT_SUCCESS)
    return status;
  *n = l.n;
  *argv = l.args;
  return tls_args_use (command);
}
