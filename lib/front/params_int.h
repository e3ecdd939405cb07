/* SPDX-License-Identifier: BSD-3-Clause */
/* params_int.h - what the files of the parameters share: params.c has all of
 * them but those that are about what the servers are not believed in, which
 * are in params_seal.c.
 */

#ifndef FP_PARAMS_INT_H
#define FP_PARAMS_INT_H

#include "front/params.h"

/* why, and -EINVAL. */
int refuse (char why[FP_WHY_MAX], const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 2, 3)));
int parse_bool (const char *key, const char *value, bool *out, char *why);
/* nbdkit changes to / when it goes into the background. */
int make_absolute (char *out, size_t size, const char *key, const char *path,
                   char *why);

int set_checksum (struct fp_params *p, const char *key, const char *value,
                  char *why);
int set_encrypt (struct fp_params *p, const char *key, const char *value,
                 char *why);
int set_integrity (struct fp_params *p, const char *key, const char *value,
                   char *why);
/* What contradicts. */
int complete_seal (const struct fp_params *p, char why[FP_WHY_MAX]);

#endif /* FP_PARAMS_INT_H */
