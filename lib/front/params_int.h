/* SPDX-License-Identifier: BSD-3-Clause */
/* params_int.h - shared by params.c and params_seal.c.  params_seal.c has the
 * parameters that protect against faulty or malicious donors; params.c has the
 * others.
 */

#ifndef FP_PARAMS_INT_H
#define FP_PARAMS_INT_H

#include "front/params.h"

/* Format why and return -EINVAL. */
int refuse (char why[FP_WHY_MAX], const char *fmt, ...)
    __attribute__ ((__format__ (__printf__, 2, 3)));
int parse_bool (const char *key, const char *value, bool *out, char *why);
/* Make path absolute, because nbdkit changes to / when it goes into the
 * background.
 */
int make_absolute (char *out, size_t size, const char *key, const char *path,
                   char *why);

int set_checksum (struct fp_params *p, const char *key, const char *value,
                  char *why);
int set_encrypt (struct fp_params *p, const char *key, const char *value,
                 char *why);
int set_integrity (struct fp_params *p, const char *key, const char *value,
                   char *why);
/* Refuse combinations that contradict each other.  -EINVAL. */
int complete_seal (const struct fp_params *p, char why[FP_WHY_MAX]);

#endif /* FP_PARAMS_INT_H */
