/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/common/commands.h"
#include "pool/pool.h"
#include "tools/common/tls_args.h"
#include "transport/tls/tls.h"

static struct fp_tls_params params;
static bool any_device; /* some device has a key or certificates */
static bool any_without;

bool
tls_args_is (const char *arg)
{
  return strncmp (arg, "tls", 3) == 0 && strchr (arg, '=') != NULL;
}

int
tls_args_set (const char *key, const char *value, struct fp_error *error)
{
  return fp_tls_params_set (&params, key, value, error);
}

/* Set the parameter in arg, KEY=VALUE. */
static int
set_word (struct fp_tls_params *p, const char *arg, struct fp_error *error)
{
  const char *equals = strchr (arg, '=');
  char key[24] = "";

  if ((size_t) (equals - arg) < sizeof key)
    memcpy (key, arg, (size_t) (equals - arg));
  return fp_tls_params_set (p, key, equals + 1, error);
}

int
tls_args_take (const char *command, int *n, char *argv[])
{
  struct fp_error error;
  int left = 0, r;

  for (int i = 0; i < *n; i++) {
    if (!tls_args_is (argv[i])) {
      argv[left++] = argv[i];
      continue;
    }
    r = set_word (&params, argv[i], &error);
    if (r < 0)
      return say_usage (command, "%s",
                        r == -ENOENT ? "unknown TLS parameter" : error.text);
  }
  *n = left;
  return EXIT_SUCCESS;
}

/* Ignore the lines of a pool that are not about TLS. */
static int
on_line (void *arg, const char *key, const char *value, struct fp_error *error)
{
  int r = fp_tls_params_set (arg, key, value, error);

  return r == -ENOENT ? 0 : r;
}

static int
read_args (const struct state *s, struct fp_tls_params *p,
           struct fp_error *error)
{
  int r = 0;

  /* Read the pool first, so that the command line overrides it. */
  for (unsigned i = 0; r == 0 && i < s->nr_args; i++)
    if (strncmp (s->args[i], "pool=", 5) == 0 &&
        fp_pool_is_file (s->args[i] + 5)) /* else it has servers only */
      r = fp_pool_read (s->args[i] + 5, FP_POOL_LOOK, on_line, p, error);
  for (unsigned i = 0; r == 0 && i < s->nr_args; i++)
    if (tls_args_is (s->args[i]))
      r = set_word (p, s->args[i], error);
  return r;
}

int
tls_args_of_device (int index, struct fp_error *error)
{
  static const struct fp_tls_params nothing;
  struct fp_tls_params told = nothing;
  struct state s = { 0 };
  int r = state_load (&s, index, error);

  if (r < 0)
    return r;
  r = read_args (&s, &told, error);
  state_clear (&s);
  if (r < 0)
    return r;
  if (told.psk[0] == '\0' && told.certificates[0] == '\0')
    any_without = true;
  else if (!any_device) {
    any_device = true;
    params = told;
  }
  if (any_device && any_without) {
    params.mode_given = true;
    params.mode = FP_TLS_ON;
  }
  return 0;
}

int
tls_args_use (const char *command)
{
  struct fp_tls *t, *old = fp_tls_client ();
  struct fp_error error;

  if (fp_tls_params_complete (&params, false, &error) < 0)
    return say_usage (command, "%s", error.text);
  if (fp_tls_new (&t, &params, false, &error) < 0)
    return say_error ("%s: %s", command, error.text);
  fp_tls_set_client (t);
  fp_tls_free (old);
  return EXIT_SUCCESS;
}
