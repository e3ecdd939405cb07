/* SPDX-License-Identifier: BSD-3-Clause */
/* status_json.h - structs of the status document as JSON, and back, by their
 * tables of fields (status_fields.h).
 *
 * Threads:  any.
 * Memory:   the JSON objects.
 */

#ifndef FP_STATUS_JSON_H
#define FP_STATUS_JSON_H

#include <json-c/json.h>

#include "base/error.h"
#include "volume/status_fields.h"

/* Return a struct with these fields as an object, or NULL if out of memory.
 * The caller drops the reference.
 */
struct json_object *fp_status_to_json (const struct fp_field *fields,
                                       const void *from);

/* Set the fields of a struct that is all zero.  Fields that the object does
 * not have stay 0.  Lists and texts that are too long are cut.  ASCII control
 * characters become '?', because the text goes to terminals.  Return -EPROTO,
 * with the reason in error, if an ENUM has an unknown name or a UUID is wrong.
 */
int fp_status_from_json (const struct fp_field *fields, void *to,
                         struct json_object *o, struct fp_error *error);

#endif /* FP_STATUS_JSON_H */
