/* SPDX-License-Identifier: BSD-3-Clause */
/* params_seal.c - checksums, encryption, integrity. */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "front/params_int.h"

int
set_checksum (struct fp_params *p, const char *key, const char *value,
              struct fp_error *error)
{
  bool crc = strcmp (value, "crc32c") == 0;

  if (!crc && strcmp (value, "off") != 0)
    return fp_fail (error, -EINVAL, "%s=%s: must be crc32c or off", key,
                    value);
  p->volume.checksum = crc ? FP_CHECKSUM_CRC32C : FP_CHECKSUM_NONE;
  return 0;
}

int
set_encrypt (struct fp_params *p, const char *key, const char *value,
             struct fp_error *error)
{
  struct fp_volume_params *v = &p->volume;

  v->encrypt = FP_ENCRYPT_NONE;
  if (strcmp (value, "off") == 0)
    return 0;
  if (strcmp (value, "ephemeral") == 0) {
    v->encrypt = FP_ENCRYPT_EPHEMERAL;
    return 0;
  }
  v->encrypt = FP_ENCRYPT_FILE;
  return make_absolute (p->encrypt_file, sizeof p->encrypt_file, key, value,
                        error);
}

int
set_integrity (struct fp_params *p, const char *key, const char *value,
               struct fp_error *error)
{
  return parse_bool (key, value, &p->volume.integrity, error);
}

int
complete_seal (const struct fp_params *p, struct fp_error *error)
{
  const struct fp_volume_params *v = &p->volume;
  bool named = v->name[0] != '\0';

  if (v->encrypt == FP_ENCRYPT_EPHEMERAL && named)
    return fp_fail (error, -EINVAL,
                    "encrypt=ephemeral and volume=%s contradict each other: "
                    "the key is lost when nbdkit ends, but the volume stays: "
                    "give encrypt=FILE",
                    v->name);
  if (v->encrypt == FP_ENCRYPT_EPHEMERAL && v->resume)
    return fp_fail (error, -EINVAL,
                    "encrypt=ephemeral and resume=true contradict each other: "
                    "the key was lost with the last nbdkit, and its data "
                    "cannot be read: give encrypt=FILE to a volume that has "
                    "to outlive its nbdkit");
  if (v->integrity && named)
    return fp_fail (error, -EINVAL,
                    "integrity=on and volume=%s contradict each other: the "
                    "tags of its blocks are lost when nbdkit ends, but the "
                    "volume stays: leave out integrity=on, or put dm-crypt "
                    "with dm-integrity over the device",
                    v->name);
  if (v->integrity && v->encrypt != FP_ENCRYPT_EPHEMERAL)
    return fp_fail (error, -EINVAL,
                    "integrity=on needs encrypt=ephemeral: to detect only "
                    "errors of memory and networks, give "
                    "checksum=crc32c");
  if (v->checksum != FP_CHECKSUM_NONE && v->integrity)
    return fp_fail (error, -EINVAL,
                    "checksum=crc32c and integrity=on: integrity=on "
                    "detects all that checksum=crc32c does: leave out "
                    "checksum=crc32c");
  if (v->checksum != FP_CHECKSUM_NONE && named)
    return fp_fail (error, -EINVAL,
                    "checksum=crc32c and volume=%s contradict each other: the "
                    "checksums are lost when nbdkit ends, but the volume "
                    "stays",
                    v->name);
  return 0;
}
