/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "base/memlock.h"
#include "filter/seal_cipher.h"
#include "filter/seal_key.h"

/* random bytes of a UUID; the rest tells which key the volume has */
#define CHANCE 10
#define MARK (sizeof ((struct fp_uuid *) 0)->bytes - CHANCE)

struct fp_seal_key {
  size_t size;
  uint8_t bytes[FP_SEAL_KEY_MAX];
};

int
fp_seal_key_new (struct fp_seal_key **out, const uint8_t *bytes, size_t size)
{
  struct fp_seal_key *key;
  void *p;
  int r = size > FP_SEAL_KEY_MAX ? -EINVAL : fp_secret_new (&p, sizeof *key);

  if (r < 0)
    return r;
  key = p;
  key->size = size;
  memcpy (key->bytes, bytes, size);
  *out = key;
  return 0;
}

int
fp_seal_key_lock (struct fp_seal_key *key)
{
  return key == NULL ? 0 : fp_secret_lock (key, sizeof *key);
}

void
fp_seal_key_free (struct fp_seal_key *key)
{
  fp_secret_free (key, sizeof *key);
}

int
fp_seal_key_derive (const struct fp_seal_key *key, const struct fp_uuid *uuid,
                    uint8_t *out)
{
  return fp_derive_key (out, FP_CIPHER_KEY_MAX, key->bytes, key->size,
                        uuid->bytes, sizeof uuid->bytes,
                        "farpage: blocks of a volume, AES-256-XTS");
}

/* ---- the UUID ---- */

static bool
is_marked (const struct fp_uuid *uuid)
{
  return uuid->bytes[6] >> 4 == 8;
}

static int
mark_of (const struct fp_seal_key *key, const struct fp_uuid *uuid,
         uint8_t mark[MARK])
{
  return fp_derive_key (mark, MARK, key->bytes, key->size, uuid->bytes, CHANCE,
                        "farpage: which key a volume has");
}

static int
draw (const struct fp_seal_key *key, struct fp_uuid *uuid)
{
  int r = fp_uuid_generate (uuid);

  uuid->bytes[6] = (uuid->bytes[6] & 0x0f) | 0x80;
  return r < 0 ? r : mark_of (key, uuid, uuid->bytes + CHANCE);
}

int
fp_seal_key_check (struct fp_volume_params *p, struct fp_error *error)
{
  bool encrypts = p->encrypt == FP_ENCRYPT_FILE;
  uint8_t mark[MARK];
  int r = 0;

  if (p->name[0] == '\0')
    return 0;
  /* No server knows the volume, so it is new: draw its UUID. */
  if (encrypts && fp_uuid_is_nil (&p->uuid)) {
    r = draw (p->key, &p->uuid);
    if (r < 0)
      fp_fail (error, r, "encrypt: %s", strerror (-r));
    return r;
  }
  if (fp_uuid_is_nil (&p->uuid))
    return 0;
  if (is_marked (&p->uuid) && !encrypts)
    return fp_fail (
        error, -EKEYREJECTED,
        "volume %s is encrypted: give encrypt=FILE, with the key that "
        "it was created with",
        p->name);
  if (!is_marked (&p->uuid) && encrypts)
    return fp_fail (
        error, -EKEYREJECTED,
        "volume %s is not encrypted: attach it without encrypt=FILE", p->name);
  if (!encrypts)
    return 0;
  r = mark_of (p->key, &p->uuid, mark);
  if (r < 0)
    return fp_fail (error, r, "encrypt: %s", strerror (-r));
  if (memcmp (mark, p->uuid.bytes + CHANCE, MARK) != 0)
    return fp_fail (
        error, -EKEYREJECTED,
        "volume %s was created with another key than that of "
        "encrypt=FILE, or by a version that has root=FILE: use that key, "
        "or that version",
        p->name);
  return 0;
}
