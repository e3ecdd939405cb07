/* SPDX-License-Identifier: BSD-3-Clause */
/* tls-files.h - keys and certificates for the tests of TLS, made anew in a
 * directory of the test:
 *
 *   psk           alice and bob
 *   psk-alice     alice alone
 *   psk-other     alice, with another key
 *   psk-volumes   a key of volumes, which is none for TLS
 *   good/         one authority's: server (localhost, 127.0.0.1), client
 *   other/        another authority's, otherwise the same
 *   expired/      the first authority's; server and client ended yesterday
 *   bare/         the first authority alone
 *   san/, mail/   the first authority's: server of elsewhere.example; the
 * client has no CN, but is carol, and dave@example.com
 *   uri/          likewise, but it is erin, after a URI longer than any name
 *   purposes/     like good/; each says what it is for
 *   swapped/      likewise, with the purposes swapped
 */

#ifndef TLS_FILES_H
#define TLS_FILES_H

#include "transport/tls.h"

extern char tls_dir[];

int tls_files_setup (void **state);
int tls_files_teardown (void **state);

/* With "psk..." or a directory, from above. */
struct fp_tls *tls_of (bool server, const char *what, const char *user,
                       bool verify_peer);

#endif /* TLS_FILES_H */
