/* SPDX-License-Identifier: BSD-3-Clause */
/* tls-files.h - keys and certificates for the tests of TLS, created in a
 * directory of the test:
 *
 *   - psk           alice and bob
 *   - psk-alice     alice alone
 *   - psk-other     alice, with another key
 *   - psk-volumes   a key of volumes, not valid for TLS
 *   - psk-all       the master key
 *   - good/         an authority, a server (localhost, 127.0.0.1), a client
 *   - other/        as good/, of another authority
 *   - expired/      as good/, but server and client ended yesterday
 *   - bare/         the authority of good/ alone
 *   - san/          as good/, but the server is elsewhere.example, and the
 *     client has no CN but is carol
 *   - mail/         as san/, but the client is dave@example.com
 *   - uri/          as san/, but the client is erin, after a URI that is
 *     longer than any name
 *   - purposes/     as good/, and each certificate names its purpose
 *   - swapped/      as purposes/, with the purposes swapped
 */

#ifndef TLS_FILES_H
#define TLS_FILES_H

#include "transport/tls/tls.h"

extern char tls_dir[];

int tls_files_setup (void **state);
int tls_files_teardown (void **state);

/* what: "psk..." or a directory, see above. */
struct fp_tls *tls_of (bool server, const char *what, const char *user,
                       bool verify_peer);

#endif /* TLS_FILES_H */
