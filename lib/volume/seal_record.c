/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <endian.h>
#include <string.h>

#include "volume/seal_record.h"

#define CODE 8u /* bytes */
#define CODE_AT (FP_RECORD - CODE)

static int
code_of (struct fp_mac *mac, uint64_t block, const uint8_t *record,
         uint8_t code[FP_HASH])
{
  uint8_t in[8 + CODE_AT];
  uint64_t number = htole64 (block);

  memcpy (in, &number, sizeof number);
  memcpy (in + sizeof number, record, CODE_AT);
  return fp_mac (mac, in, sizeof in, code);
}

int
fp_record_encode (struct fp_mac *mac, uint64_t block,
                  const struct fp_record *r, uint8_t out[FP_RECORD])
{
  uint64_t version = htole64 (r->version | (r->zeros ? FP_RECORD_ZEROS : 0));
  uint8_t code[FP_HASH];
  int err;

  memcpy (out, &version, sizeof version);
  memcpy (out + sizeof version, r->tag, sizeof r->tag);
  err = code_of (mac, block, out, code);
  memcpy (out + CODE_AT, code, CODE);
  return err;
}

struct fp_record
fp_record_decode (const uint8_t in[FP_RECORD])
{
  struct fp_record r;
  uint64_t version;

  memcpy (&version, in, sizeof version);
  version = le64toh (version);
  r.zeros = version & FP_RECORD_ZEROS;
  r.version = version & ~FP_RECORD_ZEROS;
  memcpy (r.tag, in + sizeof version, sizeof r.tag);
  return r;
}

bool
fp_record_is_genuine (struct fp_mac *mac, uint64_t block,
                      const uint8_t in[FP_RECORD])
{
  static const uint8_t none[FP_RECORD];
  uint8_t code[FP_HASH];

  if (memcmp (in, none, FP_RECORD) == 0)
    return true;
  return code_of (mac, block, in, code) == 0 &&
         fp_same_secret (code, in + CODE_AT, CODE);
}
