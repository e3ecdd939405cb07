/* SPDX-License-Identifier: BSD-3-Clause */
/* rooted_check.c - sizes, and the root file before anything is started. */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/secret.h"
#include "volume/rooted_int.h"
#include "volume/seal_key.h"

#define BESIDE (FP_RECORD * FP_RECORDS) /* bytes of a block */

uint64_t
fp_rooted_whole (uint64_t size)
{
  uint64_t blocks = fp_div_round_up (size, FP_BLOCK);

  return (blocks + fp_div_round_up (blocks, FP_BLOCK / BESIDE)) * FP_BLOCK;
}

uint64_t
fp_rooted_size (uint64_t whole)
{
  uint64_t all = whole / FP_BLOCK;
  uint64_t size =
      (all - fp_div_round_up (all, FP_BLOCK / BESIDE + 1)) * FP_BLOCK;

  return whole % FP_BLOCK == 0 && size > 0 && fp_rooted_whole (size) == whole
             ? size
             : 0;
}

int
fp_rooted_before (struct fp_volume_params *p, char why[FP_WHY_MAX])
{
  if (!fp_volume_is_rooted (p) || p->size == 0 || p->device_size != 0)
    return 0;
  if (p->size % FP_BLOCK != 0 || p->size > UINT64_MAX / 2) {
    snprintf (why, FP_WHY_MAX,
              "size: with integrity=on a volume with a name has a multiple of "
              "%u bytes",
              FP_BLOCK);
    return -EINVAL;
  }
  p->device_size = p->size;
  p->size = fp_rooted_whole (p->size);
  return 0;
}

int
fp_rooted_after (struct fp_volume_params *p, char why[FP_WHY_MAX])
{
  if (!fp_volume_is_rooted (p))
    return 0;
  p->device_size = fp_rooted_size (p->size);
  if (p->device_size == 0) {
    snprintf (why, FP_WHY_MAX,
              "volume %s has %" PRIu64 " bytes on its servers, and none that "
              "was made with integrity=on has: attach it without",
              p->name, p->size);
    return -EINVAL;
  }
  return 0;
}

int
rooted_mac (struct fp_mac **out, const struct fp_volume_params *p)
{
  void *key = NULL;
  int r = fp_secret_new (&key, FP_CIPHER_KEY_MAX);

  if (r < 0)
    return r;
  r = fp_seal_key_derive (p->key, &p->uuid, FP_SEAL_RECORDS, key);
  if (r == 0)
    r = fp_mac_new (out, key);
  fp_secret_free (key, FP_CIPHER_KEY_MAX);
  return r;
}

int
rooted_is_of (const struct fp_root *root, const struct fp_volume_params *p,
              char why[FP_WHY_MAX])
{
  char is[FP_UUID_STR_MAX], has[FP_UUID_STR_MAX];

  if (!fp_uuid_eq (&root->uuid, &p->uuid)) {
    fp_uuid_format (&root->uuid, is);
    fp_uuid_format (&p->uuid, has);
    snprintf (
        why, FP_WHY_MAX,
        "root=%s: is of volume %s, and volume %s is %s: name another file",
        p->root, is, p->name, has);
    return -EEXIST;
  }
  if (root->size == p->device_size)
    return 0;
  snprintf (why, FP_WHY_MAX,
            "root=%s: is of a volume of %" PRIu64 " bytes, and the servers "
            "say that volume %s has %" PRIu64,
            p->root, root->size, p->name, p->device_size);
  return -EEXIST;
}

/* Versions begin anew with a new file, and the key is of the UUID: servers
 * that say one that had a file would have nonces used twice.
 */
static int
refuse_said (const struct fp_volume_params *p, char why[FP_WHY_MAX])
{
  snprintf (why, FP_WHY_MAX,
            "volume %s: its servers know it, and root=%s is not there.  Its "
            "UUID is to be drawn here: name the file, or delete the volume "
            "(farpage volumes)",
            p->name, p->root);
  return -EKEYREJECTED;
}

static int
check_file (const struct fp_volume_params *p, struct fp_mac *mac,
            char why[FP_WHY_MAX])
{
  bool made = p->members.version == 0; /* it is to be */
  struct fp_root root;
  int r;

  if (p->reroot && !made)
    return fp_root_may_write (p->root, why);
  r = fp_root_read (p->root, mac, &root, why);
  if (r == 0)
    r = rooted_is_of (&root, p, why);
  if (r == -ENOENT && made && p->uuid_said)
    return refuse_said (p, why);
  if (r == -ENOENT && made)
    r = 0;
  else if (r == -ENOENT)
    snprintf (why, FP_WHY_MAX,
              "root=%s: is not there, and volume %s is.  It is on the host "
              "that attached it last; if it is lost, reroot=true believes "
              "what the servers have",
              p->root, p->name);
  else if (r < 0 && made)
    snprintf (why, FP_WHY_MAX,
              "root=%s: exists, and volume %s, which it would be of, is to be "
              "made: if the volume that it was of is gone, remove it; or name "
              "another file",
              p->root, p->name);
  return r < 0 ? r : fp_root_may_write (p->root, why);
}

int
fp_rooted_check (const struct fp_volume_params *p, char why[FP_WHY_MAX])
{
  struct fp_mac *mac = NULL;
  int r;

  if (!fp_volume_is_rooted (p))
    return 0;
  if (p->copies > 1) {
    snprintf (why, FP_WHY_MAX,
              "integrity=on with volume=%s is for copies=1 yet", p->name);
    return -EOPNOTSUPP;
  }
  r = rooted_mac (&mac, p);
  if (r < 0) {
    snprintf (why, FP_WHY_MAX, "integrity: %s", strerror (-r));
    return r;
  }
  r = check_file (p, mac, why);
  fp_mac_free (mac);
  return r;
}
