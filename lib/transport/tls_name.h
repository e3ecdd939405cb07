/* SPDX-License-Identifier: BSD-3-Clause */
/* tls_name.h - who a certificate is of. */

#ifndef FP_TLS_NAME_H
#define FP_TLS_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include <gnutls/x509.h>

/* The CN; of who has none, the first name of a host or of a mailbox that
 * is not too long for out.  False:
 * none that could be shown (fp_name_ok), and out may hold anything.
 */
bool fp_tls_name_in (gnutls_x509_crt_t crt, char *out, size_t room);

#endif /* FP_TLS_NAME_H */
