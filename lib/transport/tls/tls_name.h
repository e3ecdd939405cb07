/* SPDX-License-Identifier: BSD-3-Clause */
/* tls_name.h - the name in a certificate. */

#ifndef FP_TLS_NAME_H
#define FP_TLS_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include <gnutls/x509.h>

/* Copy the CN of crt to out.  If there is none, copy the first DNS name or
 * mail address that fits into out.  Return false if there is no name that
 * fp_name_ok accepts; out may then hold anything.
 */
bool fp_tls_name_in (gnutls_x509_crt_t crt, char *out, size_t room);

#endif /* FP_TLS_NAME_H */
