/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_status.h - ask a plugin on its status socket for its status, or to do
 * something.  The plugin answers each connection with one JSON document, or
 * with a page of metrics, and closes it.
 *
 * Errors:   0, or a negative errno value and the sentence in error.  -EPROTO:
 *           the answer is no status document, or has another version.
 * Memory:   the caller frees *out, and drops the reference to a JSON object.
 */

#ifndef FARPAGE_PLUGIN_STATUS_H
#define FARPAGE_PLUGIN_STATUS_H

#include <stdio.h>

#include <json-c/json.h>

#include "base/error.h"
#include "volume/status_fields.h"

int plugin_status_read (struct fp_status_doc **out, const char *socket_path,
                        struct fp_error *error);

/* Get the document, of any version. */
int plugin_status_ask (struct json_object **out, const char *socket_path,
                       struct fp_error *error);
/* Read its fields. */
int plugin_status_parse (struct fp_status_doc **out, struct json_object *doc,
                         struct fp_error *error);

/* Send a request, a line that ends with a newline (nbdkit-farpage-plugin(1),
 * STATUS), and wait for the answer, for minutes if need be.  After success,
 * the text of error is a note, or "".  A drain or a check has then begun; any
 * other request is done.
 */
int plugin_request (const char *socket_path, const char *line,
                    struct fp_error *error);

/* Connect, and send a request.  The caller reads the answer from *fd, which
 * does not block, and closes it.
 */
int plugin_ask (int *fd, const char *socket_path, const char *line,
                struct fp_error *error);

/* Print the status for people, each line indented. */
void plugin_status_print (FILE *fp, const struct fp_status_doc *doc);

/* Return true if the server has missed changes of the volume's metadata. Those
 * that are joining, or of a volume without a metadata log, have not.
 */
bool plugin_server_is_stale (const struct fp_status_doc *doc,
                             const struct fp_server_status *s);

#endif /* FARPAGE_PLUGIN_STATUS_H */
