/* SPDX-License-Identifier: BSD-3-Clause */
/* status_json.c - structs as JSON, and back. */

#include <config.h>

#include "volume/status_json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

static void
json_putp (struct json_object **p)
{
  json_object_put (*p);
}

/* ---- to JSON ---- */

static struct json_object *
list_to_json (const struct fp_field *f, const void *of)
{
  FP_CLEANUP (json_putp) struct json_object *list = json_object_new_array ();
  const char *at = (const char *) of + f->offset;
  unsigned n;

  memcpy (&n, (const char *) of + f->count, sizeof n);
  for (unsigned i = 0; list != NULL && i < n; i++, at += f->each) {
    struct json_object *o =
        f->fields != NULL
            ? fp_status_to_json (f->fields, at)
            : json_object_new_uint64 (*(const uint64_t *) (const void *) at);

    if (o == NULL || json_object_array_add (list, o) < 0) {
      json_object_put (o);
      return NULL;
    }
  }
  return FP_STEAL (list);
}

static struct json_object *
field_to_json (const struct fp_field *f, const void *of)
{
  const char *at = (const char *) of + f->offset;
  char uuid[FP_UUID_STR_MAX];
  uint64_t n;

  switch (f->type) {
  case FP_FIELD_NUMBER:
    return json_object_new_uint64 (fp_field_number (f, of));
  case FP_FIELD_BOOL:
    return json_object_new_boolean (fp_field_number (f, of) != 0);
  case FP_FIELD_ENUM:
    n = fp_field_number (f, of);
    return json_object_new_string (
        n < f->nr_names && f->names[n] != NULL ? f->names[n] : "");
  case FP_FIELD_TEXT:
    return json_object_new_string (at);
  case FP_FIELD_UUID:
    fp_uuid_format ((const struct fp_uuid *) (const void *) at, uuid);
    return json_object_new_string (uuid);
  case FP_FIELD_TABLE:
    return fp_status_to_json (f->fields, at);
  case FP_FIELD_LIST:
    return list_to_json (f, of);
  case FP_FIELD_END:
  default:
    return NULL;
  }
}

struct json_object *
fp_status_to_json (const struct fp_field *fields, const void *of)
{
  FP_CLEANUP (json_putp) struct json_object *o = json_object_new_object ();

  for (const struct fp_field *f = fields; o != NULL && f->type != FP_FIELD_END;
       f++) {
    struct json_object *value = NULL;
    bool null = f->optional && fp_field_number (f->fields, (const char *) of +
                                                               f->offset) == 0;

    if (f->key == NULL)
      continue;
    if (!null)
      value = field_to_json (f, of);
    if ((!null && value == NULL) ||
        json_object_object_add (o, f->key, value) < 0) {
      json_object_put (value);
      return NULL;
    }
  }
  return FP_STEAL (o);
}

/* ---- from JSON ---- */

static void
set_text (char *out, size_t size, struct json_object *value)
{
  const char *s = json_object_get_string (value);

  snprintf (out, size, "%s", s != NULL ? s : "");
  for (; *out != '\0'; out++)
    if ((unsigned char) *out < ' ' || *out == '\x7f')
      *out = '?';
}

static void
set_number (const struct fp_field *f, void *of, uint64_t n)
{
  char *at = (char *) of + f->offset;
  unsigned narrow = (unsigned) n;

  if (f->type == FP_FIELD_BOOL)
    *(bool *) at = n != 0;
  else if (f->size == sizeof n)
    memcpy (at, &n, sizeof n);
  else
    memcpy (at, &narrow, sizeof narrow);
}

static int
set_name (const struct fp_field *f, void *of, struct json_object *value,
          struct fp_error *error)
{
  const char *name = json_object_get_string (value);

  if (name == NULL || name[0] == '\0')
    return 0;
  for (unsigned i = 0; i < f->nr_names; i++)
    if (f->names[i] != NULL && strcmp (f->names[i], name) == 0) {
      set_number (f, of, i);
      return 0;
    }
  return fp_fail (error, -EPROTO, "unknown %s '%.32s'", f->key, name);
}

static int
set_uuid (const struct fp_field *f, char *at, struct json_object *value,
          struct fp_error *error)
{
  const char *s = json_object_get_string (value);

  if (s == NULL || fp_uuid_parse ((struct fp_uuid *) (void *) at, s) < 0)
    return fp_fail (error, -EPROTO, "%s is not a UUID", f->key);
  return 0;
}

static int
set_list (const struct fp_field *f, void *of, struct json_object *value,
          struct fp_error *error)
{
  char *at = (char *) of + f->offset;
  size_t n = 0;
  unsigned count;
  int r = 0;

  if (json_object_is_type (value, json_type_array))
    n = json_object_array_length (value);
  if (n > f->size / f->each)
    n = f->size / f->each;
  for (size_t i = 0; r == 0 && i < n; i++, at += f->each) {
    struct json_object *o = json_object_array_get_idx (value, i);

    if (f->fields != NULL)
      r = fp_status_from_json (f->fields, at, o, error);
    else
      *(uint64_t *) (void *) at = json_object_get_uint64 (o);
  }
  count = (unsigned) n;
  memcpy ((char *) of + f->count, &count, sizeof count);
  return r;
}

int
fp_status_from_json (const struct fp_field *fields, void *of,
                     struct json_object *o, struct fp_error *error)
{
  int r = 0;

  for (const struct fp_field *f = fields; r == 0 && f->type != FP_FIELD_END;
       f++) {
    char *at = (char *) of + f->offset;
    struct json_object *value = NULL;

    if (f->key == NULL || !json_object_object_get_ex (o, f->key, &value))
      continue;
    switch (f->type) {
    case FP_FIELD_NUMBER:
      set_number (f, of, json_object_get_uint64 (value));
      break;
    case FP_FIELD_BOOL:
      set_number (f, of, json_object_get_boolean (value) != 0);
      break;
    case FP_FIELD_ENUM:
      r = set_name (f, of, value, error);
      break;
    case FP_FIELD_TEXT:
      set_text (at, f->size, value);
      break;
    case FP_FIELD_UUID:
      r = set_uuid (f, at, value, error);
      break;
    case FP_FIELD_TABLE:
      r = fp_status_from_json (f->fields, at, value, error);
      break;
    case FP_FIELD_LIST:
      r = set_list (f, of, value, error);
      break;
    case FP_FIELD_END:
    default:
      break;
    }
  }
  return r;
}
