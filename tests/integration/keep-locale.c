/* SPDX-License-Identifier: BSD-3-Clause */
/* keep-locale.c - preloaded into nbdkit together with a sanitizer's runtime,
 * so that it can end.
 *
 * With libasan or libtsan preloaded into a program that is linked to
 * libp11-kit, as nbdkit is by way of gnutls, glibc's lock of the locales has
 * a reader too few before main() begins; after the first strerror() the
 * destructor of libp11-kit waits in freelocale() for ever.  It needs neither
 * our plugin nor nbdkit: a main() that calls strerror(), linked to libp11-kit,
 * hangs too.  What is not freed at exit does no harm.
 */

#include <config.h>

#include <locale.h>

void
freelocale (locale_t locale)
{
  (void) locale;
}
