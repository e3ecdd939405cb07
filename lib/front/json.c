/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c - the answers as text. */

#include <config.h>

#include "front/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "volume/status_json.h"

static void
json_putp (struct json_object **p)
{
  json_object_put (*p);
}

/* Add a member to o.  Takes ownership of value.  Return false if out of
 * memory.
 */
static bool
put (struct json_object *o, const char *key, struct json_object *value)
{
  if (value != NULL && json_object_object_add (o, key, value) == 0)
    return true;
  json_object_put (value);
  return false;
}

/* Return o as text with a newline at its end, or NULL. */
static char *
text_of (struct json_object *o, int flags)
{
  const char *text = json_object_to_json_string_ext (
      o, flags | JSON_C_TO_STRING_NOSLASHESCAPE);
  char *out = NULL;

  if (text == NULL || asprintf (&out, "%s\n", text) == -1)
    return NULL;
  return out;
}

char *
fp_json_result (int r, const char *reason)
{
  FP_CLEANUP (json_putp) struct json_object *o = json_object_new_object ();
  char clean[FP_ERROR_MAX];

  /* The reason may repeat bytes of the request, and JSON must be UTF-8. */
  snprintf (clean, sizeof clean, "%s", reason);
  for (char *c = clean; *c != '\0'; c++)
    if (*c < ' ' || *c > '~')
      *c = '?';
  if (r < 0 && clean[0] == '\0')
    snprintf (clean, sizeof clean, "%s", strerror (-r));
  if (o == NULL || !put (o, "ok", json_object_new_boolean (r >= 0)))
    return NULL;
  if (clean[0] != '\0' &&
      !put (o, r < 0 ? "error" : "note", json_object_new_string (clean)))
    return NULL;
  return text_of (o, JSON_C_TO_STRING_PLAIN);
}

char *
fp_json_status (const struct fp_status_doc *s)
{
  FP_CLEANUP (json_putp)
  struct json_object *o = fp_status_to_json (fp_status_fields, s);

  return o == NULL
             ? NULL
             : text_of (o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED);
}
