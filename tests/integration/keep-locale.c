/* SPDX-License-Identifier: BSD-3-Clause */
/* keep-locale.c - preloaded into nbdkit together with a sanitizer's runtime,
 * so that nbdkit can exit.
 *
 * Without it, nbdkit hangs if libasan or libtsan is preloaded.  So does any
 * program that is linked to libp11-kit, as nbdkit is through gnutls.  glibc's
 * lock of the locales then has a reader too few before main() begins.  After
 * the first strerror(), the destructor of libp11-kit waits in freelocale() for
 * ever.  Memory that is not freed at exit does no harm.
 */

#include <config.h>

#include <locale.h>

void
freelocale (locale_t locale)
{
  (void) locale;
}
