/* SPDX-License-Identifier: BSD-3-Clause */
/* tls_name.c - see tls_name.h. */

#include <config.h>

#include <string.h>

#include "proto/messages.h"
#include "transport/tls/tls_name.h"

bool
fp_tls_name_in (gnutls_x509_crt_t crt, char *out, size_t room)
{
  size_t n = room;
  int r = gnutls_x509_crt_get_dn_by_oid (crt, GNUTLS_OID_X520_COMMON_NAME, 0,
                                         0, out, &n);

  for (unsigned i = 0; r == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE; i++) {
    int type;

    n = room - 1;
    memset (out, 0, room); /* the name may come without a NUL */
    type = gnutls_x509_crt_get_subject_alt_name (crt, i, out, &n, NULL);
    if (type == GNUTLS_E_SHORT_MEMORY_BUFFER)
      continue; /* longer than any valid name, such as a URI */
    if (type < 0)
      return false; /* no more names, or unreadable */
    if (type == GNUTLS_SAN_DNSNAME || type == GNUTLS_SAN_RFC822NAME)
      r = strlen (out) == n ? 0 : GNUTLS_E_ASN1_VALUE_NOT_VALID;
  }
  return r == 0 && fp_name_ok (out);
}
