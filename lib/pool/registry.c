/* SPDX-License-Identifier: BSD-3-Clause */
/* registry.c - see registry.h. */

#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <netinet/in.h>

#include <arpa/nameser.h>
#include <resolv.h>

#include "base/cleanup.h"
#include "pool/etcdctl.h"
#include "pool/registry.h"

#define PREFIX_MAX 128
/* No machine has so much.  The sum of 16,000 donors then fits into 64 bits. */
#define MEMORY_MAX (UINT64_C (1) << 50)

static bool
is_prefix (const char *s)
{
  size_t n = strlen (s);

  for (size_t i = 0; i < n; i++)
    if (!isalnum ((unsigned char) s[i]) && strchr ("._-/", s[i]) == NULL)
      return false;
  return n > 0 && n <= PREFIX_MAX && s[0] != '-' && s[0] != '/' &&
         s[n - 1] != '/' && strstr (s, "//") == NULL;
}

int
fp_registry_prefix (const char *prefix, struct fp_error *error)
{
  if (is_prefix (prefix))
    return 0;
  return fp_fail (error, -EINVAL,
                  "'%.40s' cannot be a prefix: use at most %d letters, digits "
                  "and ._-/, without '-' or '/' at the start, '/' at the end, "
                  "or '//'",
                  prefix, PREFIX_MAX);
}

/* Return true for names of this machine, and for other ways to write an IPv4
 * address that getaddrinfo(3) understands, such as 127.1 and 0x7f000001.
 */
static bool
is_odd_name (const char *host)
{
  static const char *const ends[] = { "localhost", "loopback", "." };
  const char *last = strrchr (host, '.');
  size_t n = strlen (host);

  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    size_t m = strlen (ends[i]);

    if (n >= m && strcasecmp (host + n - m, ends[i]) == 0)
      return true;
  }
  last = last != NULL ? last + 1 : host;
  return strspn (last, "0123456789") == strlen (last) ||
         strncasecmp (last, "0x", 2) == 0;
}

/* Return true if clients on other machines may be able to use addr. */
static bool
is_usable (const struct fp_addr *addr)
{
  struct fp_sockaddrs all;

  if (addr->is_unix || addr->port == 0 || fp_addr_is_wildcard (addr))
    return false;
  if (!fp_addr_is_number (addr))
    return !is_odd_name (addr->host);
  /* No name server is asked about a number. */
  return fp_addr_resolve (addr, &all, NULL) == 0 &&
         !fp_sockaddr_is_local ((struct sockaddr *) &all.list[0].addr);
}

bool
fp_donor_domain_ok (const char *s)
{
  size_t n = strlen (s);

  for (size_t i = 0; i < n; i++)
    if (!isalnum ((unsigned char) s[i]) && strchr ("._:-", s[i]) == NULL)
      return false;
  return n > 0 && n <= FP_NAME_MAX;
}

int
fp_donor_addr (fp_donor_addr_t out, const char *text, struct fp_error *error)
{
  struct fp_addr addr;
  const char *why;

  if (fp_addr_parse (&addr, text, &why) < 0)
    return fp_fail (error, -EINVAL, "%s: %s", text, why);
  if (!is_usable (&addr))
    return fp_fail (error, -EINVAL, "%s: other machines cannot connect to it",
                    text);
  for (char *s = addr.host; *s != '\0'; s++)
    *s = (char) tolower ((unsigned char) *s);
  fp_addr_format (&addr, out);
  return 0;
}

bool
fp_donor_lends (const struct fp_donor *d)
{
  return !d->pressed && !d->draining && !d->cordoned &&
         (d->protocol == FP_VERSION || d->protocol == FP_VERSION + 1);
}

/* ---- JSON ---- */

static bool
take_string (char *out, size_t size, struct json_object *o, const char *key)
{
  struct json_object *v;
  const char *s;

  if (!json_object_object_get_ex (o, key, &v) ||
      !json_object_is_type (v, json_type_string))
    return false;
  s = json_object_get_string (v);
  if (strlen (s) >= size || (*s != '\0' && !fp_name_ok (s)))
    return false;
  snprintf (out, size, "%s", s);
  return true;
}

static bool
take_number (uint64_t *out, struct json_object *o, const char *key)
{
  struct json_object *v;
  int64_t n;

  if (!json_object_object_get_ex (o, key, &v) ||
      !json_object_is_type (v, json_type_int))
    return false;
  n = json_object_get_int64 (v);
  *out = (uint64_t) n;
  return n >= 0 && *out <= MEMORY_MAX;
}

static bool
take_flag (struct json_object *o, const char *key)
{
  struct json_object *v;

  return json_object_object_get_ex (o, key, &v) && json_object_get_boolean (v);
}

static bool
take_uuid (struct fp_uuid *out, struct json_object *o, const char *key)
{
  char text[FP_UUID_STR_MAX];

  return take_string (text, sizeof text, o, key) &&
         fp_uuid_parse (out, text) == 0;
}

/* An address has characters that a name may not have. */
static bool
take_addr (fp_donor_addr_t out, struct json_object *o)
{
  struct json_object *v;
  struct fp_error error;

  return json_object_object_get_ex (o, "addr", &v) &&
         json_object_is_type (v, json_type_string) &&
         fp_donor_addr (out, json_object_get_string (v), &error) == 0;
}

int
fp_donor_from_json (struct fp_donor *d, struct json_object *o)
{
  *d = (struct fp_donor) { .pressed = take_flag (o, "pressed"),
                           .draining = take_flag (o, "draining") };
  if (!take_uuid (&d->uuid, o, "uuid") || !take_addr (d->addr, o) ||
      !take_string (d->name, sizeof d->name, o, "name") ||
      !take_string (d->domain, sizeof d->domain, o, "domain") ||
      (d->domain[0] != '\0' && !fp_donor_domain_ok (d->domain)) ||
      !take_number (&d->protocol, o, "protocol") ||
      !take_number (&d->slab, o, "slab") ||
      !take_number (&d->total, o, "total") ||
      !take_number (&d->free, o, "free") || d->slab == 0 ||
      (d->slab & (d->slab - 1)) != 0)
    return -EINVAL;
  return 0;
}

struct json_object *
fp_donor_to_json (const struct fp_donor *d)
{
  struct json_object *o = json_object_new_object ();
  char uuid[FP_UUID_STR_MAX];

  fp_uuid_format (&d->uuid, uuid);
  json_object_object_add (o, "uuid", json_object_new_string (uuid));
  json_object_object_add (o, "addr", json_object_new_string (d->addr));
  json_object_object_add (o, "name", json_object_new_string (d->name));
  json_object_object_add (o, "domain", json_object_new_string (d->domain));
  json_object_object_add (o, "protocol", json_object_new_uint64 (d->protocol));
  json_object_object_add (o, "slab", json_object_new_uint64 (d->slab));
  json_object_object_add (o, "total", json_object_new_uint64 (d->total));
  json_object_object_add (o, "free", json_object_new_uint64 (d->free));
  json_object_object_add (o, "pressed", json_object_new_boolean (d->pressed));
  json_object_object_add (o, "draining",
                          json_object_new_boolean (d->draining));
  return o;
}

/* ---- etcd ---- */

/* Decode a field of etcdctl's JSON into out, as a string.  -EINVAL: it is not
 * one.
 */
static int
decode (char **out, struct json_object *kv, const char *field)
{
  FP_CLEANUP (fp_free) char *text = NULL;
  struct json_object *v;
  size_t room;
  int n;

  *out = NULL;
  if (!json_object_object_get_ex (kv, field, &v) ||
      !json_object_is_type (v, json_type_string))
    return -EINVAL;
  room = (size_t) json_object_get_string_len (v) + 1; /* more than needed */
  text = malloc (room);
  if (text == NULL)
    return -ENOMEM;
  n = b64_pton (json_object_get_string (v), (unsigned char *) text, room - 1);
  if (n < 0 || memchr (text, '\0', (size_t) n) != NULL)
    return -EINVAL;
  text[n] = '\0';
  *out = FP_STEAL (text);
  return 0;
}

/* Return the part of key after PREFIX/folder/, or NULL. */
static const char *
key_in (const char *key, const char *prefix, const char *folder)
{
  size_t n = strlen (prefix), m = strlen (folder);

  return strncmp (key, prefix, n) == 0 && strncmp (key + n, folder, m) == 0
             ? key + n + m
             : NULL;
}

/* Take a donor.  It counts only under its own UUID, so that each has one
 * entry.
 */
static void
take_donor (struct fp_registry *r, const char *uuid, struct json_object *kv)
{
  FP_CLEANUP (fp_free) char *value = NULL;
  struct fp_donor *d = &r->donors[r->nr];
  struct json_object *o, *revision = NULL;
  struct fp_uuid own;

  if (fp_uuid_parse (&own, uuid) < 0 || decode (&value, kv, "value") < 0)
    return;
  o = json_tokener_parse (value);
  if (o != NULL && fp_donor_from_json (d, o) == 0 &&
      fp_uuid_eq (&d->uuid, &own)) {
    json_object_object_get_ex (kv, "mod_revision", &revision);
    d->revision = json_object_get_int64 (revision);
    r->nr++;
  }
  json_object_put (o);
}

/* Take a key and its value.  Those that are not known are ignored, so that a
 * later version can store more.
 */
static void
take (struct fp_registry *r, struct json_object *kv, const char *prefix)
{
  FP_CLEANUP (fp_free) char *key = NULL;
  const char *uuid, *addr;
  struct fp_error error;

  if (decode (&key, kv, "key") < 0)
    return;
  uuid = key_in (key, prefix, "/donors/");
  addr = key_in (key, prefix, "/cordon/");
  if (uuid != NULL)
    take_donor (r, uuid, kv);
  else if (addr != NULL &&
           fp_donor_addr (r->cordons[r->nr_cordons], addr, &error) == 0)
    r->nr_cordons++;
}

static int
by_addr (const void *a, const void *b)
{
  const struct fp_donor *x = a, *y = b;

  return strcmp (x->addr, y->addr);
}

/* Order by address; of one address, the donor that was written last is first.
 */
static int
by_age (const void *a, const void *b)
{
  const struct fp_donor *x = a, *y = b;
  int r = by_addr (a, b);

  return r != 0 ? r
                : (y->revision > x->revision) - (y->revision < x->revision);
}

static int
by_domain (const void *a, const void *b)
{
  const struct fp_donor *x = a, *y = b;
  int r = strcmp (x->domain, y->domain);

  return r != 0 ? r : by_addr (a, b);
}

/* Mark cordoned donors, drop duplicate addresses, and sort. */
static void
tidy (struct fp_registry *r)
{
  size_t kept = 0;

  if (r->nr == 0)
    return;
  qsort (r->donors, r->nr, sizeof *r->donors, by_age);
  for (size_t i = 0; i < r->nr; i++)
    if (kept == 0 || by_addr (&r->donors[i], &r->donors[kept - 1]) != 0)
      r->donors[kept++] = r->donors[i];
  r->nr = kept;
  qsort (r->donors, r->nr, sizeof *r->donors, by_domain);
  for (size_t i = 0; i < r->nr; i++)
    for (size_t k = 0; k < r->nr_cordons; k++)
      r->donors[i].cordoned |= strcmp (r->donors[i].addr, r->cordons[k]) == 0;
}

static int
take_all (struct fp_registry *r, struct json_object *answer,
          const char *prefix, struct fp_error *error)
{
  struct json_object *kvs = NULL;
  size_t n = 0;

  /* Without any key there is no such field. */
  if (json_object_object_get_ex (answer, "kvs", &kvs) &&
      json_object_is_type (kvs, json_type_array))
    n = json_object_array_length (kvs);
  r->donors = calloc (n + 1, sizeof *r->donors);
  r->cordons = calloc (n + 1, sizeof *r->cordons);
  if (r->donors == NULL || r->cordons == NULL)
    return fp_fail (error, -ENOMEM, "out of memory");
  for (size_t i = 0; i < n; i++)
    take (r, json_object_array_get_idx (kvs, i), prefix);
  tidy (r);
  return 0;
}

int
fp_registry_read (struct fp_registry *r, const char *prefix,
                  enum fp_registry_read how, struct fp_error *error)
{
  char below[PREFIX_MAX + 2];
  const char *newest[] = { "get", "--prefix", below, NULL };
  const char *old[] = { "get", "--consistency=s", "--prefix", below, NULL };
  struct json_object *answer;
  int status;

  *r = (struct fp_registry) { .nr = 0 };
  if (fp_registry_prefix (prefix, error) < 0)
    return -EINVAL;
  snprintf (below, sizeof below, "%s/", prefix);
  status = fp_etcdctl (&answer, newest, error);
  if (status < 0 && status != -ENOENT && how == FP_REGISTRY_OLD_TOO)
    status = fp_etcdctl (&answer, old, error);
  if (status == 0) {
    status = take_all (r, answer, prefix, error);
    json_object_put (answer);
  }
  return status;
}

void
fp_registry_free (struct fp_registry *r)
{
  free (r->donors);
  free (r->cordons);
  *r = (struct fp_registry) { .nr = 0 };
}
