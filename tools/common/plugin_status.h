/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_status.h - ask a plugin on its status socket for its status, or to do
 * something.  The plugin answers each connection with one JSON document and
 * closes it.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Memory:   the caller drops the reference to *out.
 */

#ifndef FARPAGE_PLUGIN_STATUS_H
#define FARPAGE_PLUGIN_STATUS_H

#include <stdio.h>

#include <json-c/json.h>

#include "base/error.h"

int plugin_status_read (struct json_object **out, const char *socket_path,
                        struct fp_error *error);

/* Send a request, with its newline (nbdkit-farpage-plugin(1), STATUS), and
 * wait until it is done, which may take a while.  On failure, error says
 * why.  After success, its text is a note, or "".
 */
int plugin_request (const char *socket_path, const char *line,
                    struct fp_error *error);

/* Print the status for people, each line indented. */
void plugin_status_print (FILE *fp, struct json_object *status);

#endif /* FARPAGE_PLUGIN_STATUS_H */
