/* SPDX-License-Identifier: BSD-3-Clause */
/* json_out.h - facts as JSON: members of an object, and printing it. */

#ifndef FARPAGE_JSON_OUT_H
#define FARPAGE_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

static inline void
json_add_str (struct json_object *o, const char *name, const char *value)
{
  json_object_object_add (o, name, json_object_new_string (value));
}

static inline void
json_add_num (struct json_object *o, const char *name, uint64_t value)
{
  json_object_object_add (o, name, json_object_new_uint64 (value));
}

static inline void
json_add_bool (struct json_object *o, const char *name, bool value)
{
  json_object_object_add (o, name, json_object_new_boolean (value));
}

/* Print o, and drop the reference to it. */
static inline void
json_print (struct json_object *o)
{
  printf ("%s\n",
          json_object_to_json_string_ext (
              o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
  json_object_put (o);
}

#endif /* FARPAGE_JSON_OUT_H */
