/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "pool_args.h"
#include "transport/tls.h"
#include "volume/pool_file.h"

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

/* Of the words of a command, and of a pool. */
static struct fp_tls_params tls_params;

/* The rest of a pool is for who attaches.  What the command line says of TLS
 * counts, wherever it stands, as with nbdkit: so that is read last.
 */
static int
on_line (void *arg, const char *key, const char *value, char why[FP_WHY_MAX])
{
  int r = fp_tls_params_set (&tls_params, key, value, why);

  if (r != -ENOENT)
    return r;
  if (strcmp (key, "server") != 0 || add (arg, value) == 0)
    return 0;
  snprintf (why, FP_WHY_MAX, "out of memory");
  return -ENOMEM;
}

static const char *
value_of (const char *arg, const char *key)
{
  size_t n = strlen (key);

  return strncmp (arg, key, n) == 0 ? arg + n : NULL;
}

/* KEY=VALUE of TLS: 0; -ENOENT: it is something else. */
static int
tls_word (const char *arg, char why[FP_WHY_MAX])
{
  const char *equals = strchr (arg, '=');
  char key[24] = "";

  if (equals && (size_t) (equals - arg) < sizeof key)
    memcpy (key, arg, (size_t) (equals - arg));
  return fp_tls_params_set (&tls_params, key, equals ? equals + 1 : "", why);
}

/* This process is that client, until its end. */
static int
use_tls (const char *command)
{
  char why[FP_TLS_WHY_MAX];
  struct fp_tls *t;

  if (fp_tls_params_complete (&tls_params, false, why) < 0)
    return say_usage (command, "%s", why);
  if (fp_tls_new (&t, &tls_params, false, why) < 0)
    return say_error ("%s: %s", command, why);
  fp_tls_set_client (t);
  return EXIT_SUCCESS;
}

int
pool_args (const char *command, int *n, char ***argv)
{
  char path[FP_POOL_PATH_MAX], why[FP_WHY_MAX];
  static struct list l; /* the words of the command, until its end */

  for (int i = 0; i < *n; i++) {
    const char *pool = value_of ((*argv)[i], "pool=");
    const char *server = value_of ((*argv)[i], "server=");

    if (pool && fp_pool_path (path, pool, why) < 0)
      return say_usage (command, "%s: %s", (*argv)[i], why);
    if (pool && fp_pool_read (path, on_line, &l, why) < 0)
      return say_error ("%s: %s", command, why);
    if (pool)
      continue;
    if (!server && strncmp ((*argv)[i], "tls", 3) == 0 &&
        strchr ((*argv)[i], '='))
      continue;
    if (add (&l, server ? server : (*argv)[i]) < 0)
      return say_error ("%s: out of memory", command);
  }
  for (int i = 0; i < *n; i++) {
    int r;

    if (strncmp ((*argv)[i], "tls", 3) != 0 || !strchr ((*argv)[i], '='))
      continue;
    r = tls_word ((*argv)[i], why);
    if (r < 0)
      return say_usage (command, "%s",
                        r == -ENOENT ? "no such parameter of TLS" : why);
  }
  *n = l.n;
  *argv = l.args;
  return use_tls (command);
}
