/* SPDX-License-Identifier: BSD-3-Clause */
/* tls_params.c - TLS parameters, from the command line of a server, the plugin
 * or a tool, or from a pool file.  Also holds the TLS identity that this
 * process has as a client.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "transport/tls/tls.h"

static struct fp_tls *the_client;

static int
set_mode (struct fp_tls_params *p, const char *value, struct fp_error *error)
{
  static const char *const words[] = {
    [FP_TLS_OFF] = "off", [FP_TLS_ON] = "on", [FP_TLS_REQUIRE] = "require"
  };

  for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strcmp (value, words[i]) == 0) {
      p->mode = (enum fp_tls_mode) i;
      p->mode_given = true;
      return 0;
    }
  return fp_fail (error, -EINVAL, "tls: '%s' is not one of off, on, require",
                  value);
}

static int
set_path (char out[FP_TLS_PATH_MAX], const char *key, const char *value,
          struct fp_error *error)
{
  if (value[0] == '\0')
    return fp_fail (error, -EINVAL, "%s: the name is missing", key);
  if (strlen (value) >= FP_TLS_PATH_MAX)
    return fp_fail (error, -EINVAL, "%s: the name is too long", key);
  strcpy (out, value);
  return 0;
}

int
fp_tls_params_set (struct fp_tls_params *p, const char *key, const char *value,
                   struct fp_error *error)
{
  if (strcmp (key, "tls") == 0)
    return set_mode (p, value, error);
  if (strcmp (key, "tls-psk") == 0)
    return set_path (p->psk, key, value, error);
  if (strcmp (key, "tls-certificates") == 0)
    return set_path (p->certificates, key, value, error);
  if (strcmp (key, "tls-username") == 0) {
    if (!fp_name_ok (value))
      return fp_fail (error, -EINVAL,
                      "tls-username: a name is 1 to %d printable ASCII "
                      "characters, without blanks, '/', '\"' and '\\'",
                      FP_NAME_MAX);
    snprintf (p->username, sizeof p->username, "%s", value);
    return 0;
  }
  return -ENOENT;
}

int
fp_tls_params_complete (struct fp_tls_params *p, bool server,
                        struct fp_error *error)
{
  bool psk = p->psk[0] != '\0', certificates = p->certificates[0] != '\0';

  if (psk && certificates)
    return fp_fail (error, -EINVAL,
                    "tls-psk and tls-certificates: give only one");
  if (p->username[0] != '\0' && !psk)
    return fp_fail (error, -EINVAL, "tls-username needs tls-psk");
  if (p->verify_peer && !certificates)
    return fp_fail (error, -EINVAL, "tls-verify-peer needs tls-certificates");
  if (!p->mode_given)
    p->mode = psk || certificates ? FP_TLS_REQUIRE : FP_TLS_OFF;
  if (p->mode != FP_TLS_OFF && !psk && !certificates)
    return fp_fail (error, -EINVAL,
                    "tls needs tls-psk or tls-certificates: make a key with "
                    "'farpage keygen', and copy it to %s",
                    server ? "the clients" : "the servers");
  return 0;
}

void
fp_tls_set_client (struct fp_tls *t)
{
  the_client = t;
}

struct fp_tls *
fp_tls_client (void)
{
  return the_client;
}

bool
fp_tls_may_ask (const struct fp_addr *addr)
{
  return !addr->is_unix || fp_tls_mode (the_client) != FP_TLS_REQUIRE;
}
