/* SPDX-License-Identifier: BSD-3-Clause */
/* params_int.h - shared by params.c and params_seal.c.  params_seal.c has the
 * parameters that protect against faulty or malicious donors; params.c has the
 * others.
 */

#ifndef FP_PARAMS_INT_H
#define FP_PARAMS_INT_H

#include "base/error.h"
#include "front/params.h"

int parse_bool (const char *key, const char *value, bool *out,
                struct fp_error *error);
/* Make path absolute, because nbdkit changes to / when it goes into the
 * background.
 */
int make_absolute (char *out, size_t size, const char *key, const char *path,
                   struct fp_error *error);

int set_checksum (struct fp_params *p, const char *key, const char *value,
                  struct fp_error *error);
int set_encrypt (struct fp_params *p, const char *key, const char *value,
                 struct fp_error *error);
int set_integrity (struct fp_params *p, const char *key, const char *value,
                   struct fp_error *error);
/* Refuse combinations that contradict each other.  -EINVAL. */
int complete_seal (const struct fp_params *p, struct fp_error *error);

#endif /* FP_PARAMS_INT_H */
