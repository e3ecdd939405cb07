/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_status.h - ask a plugin how it is doing, or to do something, on its
 * status socket: it answers each connection with one JSON document and closes
 * it.
 *
 * Errors:   0 or a negative errno value, and a sentence in w.
 * Memory:   the caller puts *out.
 */

#ifndef FARPAGE_PLUGIN_STATUS_H
#define FARPAGE_PLUGIN_STATUS_H

#include <stdio.h>

#include <json-c/json.h>

#include "tools/common/why.h"

int plugin_status_read (struct json_object **out, const char *socket_path,
                        struct why *w);

/* A request, with its newline (nbdkit-farpage-plugin(1), STATUS), that is
 * answered by whether it is done, some after a while; w says why not, or what
 * is to be said all the same, or "".
 */
int plugin_request (const char *socket_path, const char *line, struct why *w);

/* As a person reads it, each line indented. */
void plugin_status_print (FILE *fp, struct json_object *status);

#endif /* FARPAGE_PLUGIN_STATUS_H */
