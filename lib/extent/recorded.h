/* SPDX-License-Identifier: BSD-3-Clause */
/* recorded.h - what the donors have recorded of a volume's extents, as its
 * metadata log has found and changed it.  Peers judge by it the labels that
 * their donors list (peer_learn.h).
 *
 *            the map          labels           first list
 *            is read          are judged       is complete
 *    UNKNOWN -------> KNOWN ----------> JUDGED ----------> COMPLETE
 *
 * A volume that is not recorded stays NONE: nothing is ever in doubt.
 * Read-only and frozen volumes stay JUDGED.
 *
 * Errors:   only -ENOMEM.
 * Threads:  any.  Only the metadata log changes the stage, by one each time.
 * Memory:   only fp_recorded_new allocates.
 */

#ifndef FP_RECORDED_H
#define FP_RECORDED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum fp_recorded_stage {
  FP_RECORDED_NONE, /* the volume has no metadata log */
  FP_RECORDED_UNKNOWN,
  FP_RECORDED_KNOWN,    /* the map has what the donors recorded */
  FP_RECORDED_JUDGED,   /* start-up has decided which labels count */
  FP_RECORDED_COMPLETE, /* this client's first list is complete */
};

struct fp_recorded {
  _Atomic unsigned stage; /* enum fp_recorded_stage */
  _Atomic bool frozen;    /* set at start-up only: meta_log.h */
  /* The volume, and the size of map with the lost bits and without. */
  uint64_t extents, words, words_of_copies;
  uint32_t copies;
  _Atomic uint64_t *map;
  _Atomic uint64_t version; /* version of the last complete list, or 0 */
  /* Set of donors that were away at start-up, and have not listed yet what
   * they hold.
   */
  _Atomic uint64_t unheard;
  /* Set of donors that were not believed when the labels were judged.  Under
   * fp_extents.lock.
   */
  uint64_t stale;
};

/* Go from NONE to UNKNOWN, with a map for so many extents. */
int fp_recorded_new (struct fp_recorded *d, uint64_t extents, uint32_t copies);
void fp_recorded_free (struct fp_recorded *d);
/* Go to the next stage, which is `to`.  To JUDGED: under fp_extents.lock. */
void fp_recorded_advance (struct fp_recorded *d, enum fp_recorded_stage to);

static inline bool
fp_recorded_has (const struct fp_recorded *d, uint64_t k)
{
  return atomic_load (&d->map[k / 64]) >> (k % 64) & 1;
}

void fp_recorded_set (struct fp_recorded *d, uint64_t k, bool exists);

/* Return true if it is recorded that the extent of entry k is lost for good.
 * Then no label of it counts.
 */
bool fp_recorded_is_lost (const struct fp_recorded *d, uint64_t k);
/* Record that for extent i.  Return false if that was recorded before, or if
 * the map has no lost bits.
 */
bool fp_recorded_lose (struct fp_recorded *d, uint64_t i);

/* Return true if entry k is recorded, or that is not known (stages NONE and
 * UNKNOWN), or the volume is frozen.  Then a label of it that is heard of late
 * may be more than a leftover.
 */
bool fp_recorded_may_exist (const struct fp_recorded *d, uint64_t k);

/* Return true if leftovers at the donors may be released.  Not before the
 * first list is complete: until then the next client may follow an older list,
 * by which they exist.  Not if the volume is frozen.
 */
bool fp_recorded_may_release (const struct fp_recorded *d);

/* Return true if start-up has decided which labels count.  Under
 * fp_extents.lock.
 */
bool fp_recorded_is_judged (const struct fp_recorded *d);

/* Note that this donor has listed all that it holds, for the first time. */
void fp_recorded_heard (struct fp_recorded *d, unsigned server);

/* Return true if a label of entry k at this donor, which comes late, is in
 * doubt because other donors were not heard yet.  open: the label is open.
 *
 * If the volume is frozen, also if the map does not have k.  The extent may
 * have been trimmed, or made and never written.  Then no map tells the next
 * client that it exists, and a write to it would be lost.
 *
 * Under fp_extents.lock.
 */
bool fp_recorded_doubts (const struct fp_recorded *d, unsigned server,
                         uint64_t k, bool open);

#endif /* FP_RECORDED_H */
