# SPDX-License-Identifier: BSD-3-Clause
"""The mutants: small deliberate defects.  The simulation must find each one.

Each has a name, a description of the defect, options of the simulation that
expose it quickly, a file, a text that occurs once in it, and its replacement.
Paths are relative to the top of the source tree.
"""

MUTANTS = [
    ("broken-write-acknowledged",
     "A write whose connection broke counts as done",
     "--mode durable --copies 1",
     "lib/engine/lane_progress.c",
     '''      if (counts)
        retry_or_drop (lane, f);
''',
     '''      if (counts && f->op.kind == FP_OP_READ)
        retry_or_drop (lane, f);
'''),
    ("failure-of-one-copy-ignored",
     "A write is acknowledged although the connection to one of its copies broke",
     "--mode durable --copies 2",
     "lib/engine/lane_progress.c",
     '''      if (counts)
        retry_or_drop (lane, f);
''',
     '''      if (counts && head == NULL)
        retry_or_drop (lane, f);
'''),
    ("read-fails-with-its-copy",
     "A read whose connection broke fails, and is not sent to another copy",
     "--mode gentle --copies 2 --pause 200",
     "lib/engine/lane_progress.c",
     '''  io->broke = true;
  if (io->breaks < MANY_BREAKS ||''',
     '''  io->broke = true;
  if (io->kind == FP_IO_READ && fp_copies_several (lane->e->extents))
    io->status = -EIO;
  else if (io->breaks < MANY_BREAKS ||'''),
    ("failed-mark-still-awaited",
     "A write waits forever for a mark of the dirty log that failed",
     "--mode gentle --copies 2",
     "lib/engine/lane_progress.c",
     '''  if (f->tail == FP_TAIL_SET && io->tail == FP_TAIL_NONE && --io->saying == 0)
''',
     '''  if (f->tail == FP_TAIL_SET && io->tail == FP_TAIL_NONE && status == 0 &&
      --io->saying == 0)
'''),
    ("write-during-move-lost",
     "A write that lands while its extent moves is not copied again",
     "--mode durable --copies 1",
     "lib/engine/lane_progress.c",
     '''  else if (f->op.kind == FP_OP_WRITE && io->target == NULL)
    fp_extent_wrote''',
     '''  else if (f->op.kind == FP_OP_WRITE && io->target == NULL && status < 0)
    fp_extent_wrote'''),
    ("failed-write-keeps-its-lock",
     "The range of a write that failed in its first copy stays locked",
     "--mode gentle --copies 2",
     "lib/engine/lane_copies.c",
     '''  let_go (lane, head->held_at, head->held);
''',
     '''  if (head->op.status == 0)
    let_go (lane, head->held_at, head->held);
'''),
    ("stale-copy-read",
     "A read goes to any copy that has memory, in sync or not",
     "--mode durable --copies 2",
     "lib/engine/lane_copies.c",
     '''  uint8_t set = in_sync & (uint8_t) ~fp_copies_bad (t, i, in_sync);
  enum issue why = PARK;
  int c;

  if (io->only != 0)
    set &= io->only;
  while ((c = least_busy (lane, i, set)) >= 0) {
    struct fp_extent *p = fp_copies_get (t, i, (unsigned) c);

    set &= (uint8_t) ~(1u << c);
    if (fp_extent_enter (t, p) != FP_EXTENT_READY)
      continue;
    /* The copy may have been dropped before it was entered. */
    if (!fp_copy_counts (t, fp_copies_entry (t, i, (unsigned) c))) {
      fp_extent_leave (t, p);
      continue;
    }
''',
     '''  uint8_t set =
      fp_copies_all (t) & (uint8_t) ~fp_copies_bad (t, i, in_sync);
  enum issue why = PARK;
  int c;

  if (io->only != 0)
    set &= io->only;
  while ((c = least_busy (lane, i, set)) >= 0) {
    struct fp_extent *p = fp_copies_get (t, i, (unsigned) c);

    set &= (uint8_t) ~(1u << c);
    if (fp_extent_enter (t, p) != FP_EXTENT_READY)
      continue;
'''),
    ("parked-transfer-stays-inside",
     "A transfer that finds no connection never leaves its extent",
     "--copies 1 --pause 1000",
     "lib/engine/lane_issue.c",
     '''    io->issued += (uint32_t) left;
  fp_extent_leave (t, p);
  return why;
''',
     '''    io->issued += (uint32_t) left;
  if (why != PARK)
    fp_extent_leave (t, p);
  return why;
'''),
    ("copy-from-before-a-trim-counts",
     "A copy whose server was away during a trim counts as given after it",
     "--mode durable --donors 2 --copies 2",
     "lib/engine/zero_copies.c",
     '''      if (extent (s, c)->fresh)
''',
     '''      if (extent (s, c)->fresh && (s->set >> c & 1))
'''),
    ("marked-range-not-copied",
     "After a crash the ranges in the dirty log are not made equal",
     "--mode durable --donors 2 --copies 2 --threads 6",
     "lib/engine/marks.c",
     '''    fp_copies_missed (t, i, in, part, others);
    all += part;
''',
     '''    all += part;
'''),
    ("lock-covers-first-block",
     "Overlapping writes that begin in different blocks are not ordered",
     "--mode durable --copies 2 --threads 8",
     "lib/engine/lock.c",
     '''  return fp_range_lock_try (e->range_lock, block_at (i, in),
                            block_at (i, in + length - 1) + 1);
}

void
fp_engine_unlock (struct fp_engine *e, uint64_t i, uint64_t in,
                  uint64_t length)
{
  if (fp_range_lock_untry (e->range_lock, block_at (i, in),
                           block_at (i, in + length - 1) + 1))
''',
     '''  return fp_range_lock_try (e->range_lock, block_at (i, in),
                            block_at (i, in) + (length > 0));
}

void
fp_engine_unlock (struct fp_engine *e, uint64_t i, uint64_t in,
                  uint64_t length)
{
  if (fp_range_lock_untry (e->range_lock, block_at (i, in),
                           block_at (i, in) + (length > 0)))
'''),
    ("missed-only-in-first-chunk",
     "Only the first chunk of a range is marked as missed by a stale copy",
     "--mode durable --donors 2 --copies 2",
     "lib/extent/copies.c",
     '''      fp_extent_mark (t, t->dirty + fp_copies_entry (t, i, c) * t->words, in,
                      length);
''',
     '''      fp_extent_mark (t, t->dirty + fp_copies_entry (t, i, c) * t->words, in,
                      length > 0);
'''),
    ("new-memory-filled-in-part",
     "A copy that got new memory is in sync when its first chunk is filled",
     "--mode gentle --copies 2",
     "lib/extent/copies.c",
     '''    atomic_fetch_or (&dirty[w], atomic_load (&written[w]));
''',
     '''    atomic_fetch_or (&dirty[w], atomic_load (&written[w]) & 1);
'''),
    ("frozen-volume-believes-labels",
     "A frozen volume believes the label of an extent that its map does not show",
     "--degraded --copies 1 --mode durable",
     "lib/extent/recorded.c",
     '''  if (atomic_load (&d->frozen) && !fp_recorded_has (d, k))
    return true;
''',
     '''  if (false && atomic_load (&d->frozen) && !fp_recorded_has (d, k))
    return true;
'''),
    ("drop-not-recorded",
     "Writes go on without a dead copy, and no server records that it is stale",
     "--mode durable --donors 2 --copies 2",
     "lib/heal/restore.c",
     '''    if (a_ready_copy (e, i, in_sync & (uint8_t) ~bit (c)) >= 0)
      fp_meta_log_drop (e->meta_log, k);
''',
     '''    if (a_ready_copy (e, i, in_sync & (uint8_t) ~bit (c)) >= 0) {
      fp_mirror_dropped (e, k);
      fp_notifier_raise (&t->changes);
    }
'''),
    ("last-copy-dropped",
     "A dead copy is dropped although no other in-sync copy is READY",
     "--mode durable --donors 5 --copies 2",
     "lib/heal/restore.c",
     '''    if (a_ready_copy (e, i, in_sync & (uint8_t) ~bit (c)) >= 0)
''',
     '''    if ((in_sync & (uint8_t) ~bit (c)) != 0)
'''),
    ("rebuild-put-off-forever",
     "Each look at the copies puts off the next try to find memory for them",
     "--mode gentle --donors 3 --copies 3",
     "lib/heal/restore.c",
     '''    bool refill = fp_deadline_passed (r->refill_ns);

    waits = look_at_copies (r);
    if (refill)
      r->refill_ns = fp_deadline_in_ms (REFILL_MS);
''',
     '''    waits = look_at_copies (r);
    r->refill_ns = fp_deadline_in_ms (REFILL_MS);
'''),
    ("resync-does-not-begin-again",
     "The search for stale copies does not go back to the first extent",
     "--mode gentle",
     "lib/heal/resync.c",
     '''  for (uint64_t n = 0; n < t->nr && least > 1; n++) {
    uint64_t i = (m->resync_at + n) % t->nr;
''',
     '''  for (uint64_t n = m->resync_at; n < t->nr && least > 1; n++) {
    uint64_t i = n;
'''),
    ("failed-resync-forgotten",
     "After a failed resync the chunks that it took are not dirty any more",
     "--mode durable --donors 2 --copies 2",
     "lib/heal/resync.c",
     '''    atomic_fetch_or (&m->dirty[w], m->taken[w]);
''',
     '''    atomic_fetch_or (&m->dirty[w], m->todo[w]);
'''),
    ("dirty-bit-cleared-after-copy",
     "A dirty bit is cleared after its chunk was copied, not before",
     "--mode durable --donors 2 --copies 2 --threads 6",
     "lib/heal/migrate_copy.c",
     '''    m->todo[w] = atomic_exchange (&m->dirty[w], 0);
    m->taken[w] |= m->todo[w];
    any |= m->todo[w];
  }
  return any != 0;
}

static void
put_back (struct fp_migrate *m)
{
  for (unsigned w = 0; w < m->e->extents->words; w++)
    atomic_fetch_or (&m->dirty[w], m->todo[w]);
}
''',
     '''    m->todo[w] = atomic_load (&m->dirty[w]);
    m->taken[w] |= m->todo[w];
    any |= m->todo[w];
  }
  return any != 0;
}

static void
put_back (struct fp_migrate *m)
{
  for (unsigned w = 0; w < m->e->extents->words; w++)
    atomic_fetch_and (&m->dirty[w], ~(m->taken[w] & ~m->todo[w]));
}
'''),
    ("last-block-not-copied",
     "A move or a resync leaves out the last block of an extent",
     "--mode durable --copies 1",
     "lib/heal/migrate_copy.c",
     '''  uint64_t end = fp_extent_length (t, fp_extent_of (t, i));
''',
     '''  uint64_t end = fp_extent_length (t, fp_extent_of (t, i)) - 512;
'''),
    ("copies-at-one-server",
     "Two copies of a new extent may get memory at the same server",
     "--mode gentle --copies 2",
     "lib/place/allocator.c",
     '''    if (s >= 0)
      set |= UINT64_C (1) << s;
''',
     '''    if (s >= 0 && fp_extent_state (&t->p[other]) == FP_EXTENT_READY)
      set |= UINT64_C (1) << s;
'''),
    ("rebuilt-copy-clears-written",
     "When a copy gets new memory, its extent counts as never written",
     "--mode gentle --copies 2",
     "lib/peer/peer_place.c",
     '''  if (p->fresh)
    fp_extent_clear_written''',
     '''  if (p->fresh || t->copies > 1)
    fp_extent_clear_written'''),
    ("attach-forgets-what-was-written",
     "An extent that a server lists at attach counts as never written",
     "--copies 1",
     "lib/peer/peer_learn.c",
     '''    displace (peer, p, old);
  }
  fp_extent_set_all_written (peer->peers->extents,
                             fp_extent_of (peer->peers->extents, g->extent));
  atomic_fetch_add''',
     '''    displace (peer, p, old);
  }
  atomic_fetch_add'''),
    ("keys-of-the-last-session",
     "After a reconnect an extent is used with the key of the previous session",
     "--mode durable --copies 1",
     "lib/peer/peer_learn.c",
     '''    peer_publish (peer, p, copy, FP_EXTENT_OFFLINE);
    return 0;
  }
''',
     '''    p->seen = peer->attempt;
    if (!fp_extent_move (peer->peers->extents, p, FP_EXTENT_OFFLINE,
                         FP_EXTENT_READY))
      abort ();
    return 0;
  }
'''),
    ("missing-copy-stays-offline",
     "A copy that its server does not list any more stays OFFLINE",
     "--mode gentle --donors 3 --copies 3",
     "lib/peer/peer_forget.c",
     '''    if (s == FP_EXTENT_OFFLINE) {
      peer_forget''',
     '''    if (s == FP_EXTENT_OFFLINE && !fp_copies_several (t)) {
      peer_forget'''),
    ("peer-gives-up",
     "A server that could not be reached for a while is never tried again",
     "--mode gentle --copies 2",
     "lib/peer/peer.c",
     '''    if (peer->after == FP_SERVER_LOST) {
''',
     '''    if (peer->after == FP_SERVER_LOST || failures > 8) {
'''),
    ("fence-not-heeded",
     "A client that a server shut out after a takeover keeps reconnecting",
     "",
     "lib/peer/peer_up.c",
     '''  if (peer->stage >= STAGE_OPENED && r == -EPERM &&
      !is_only_barred''',
     '''  if (peer->stage == STAGE_OPENED && r == -EPERM &&
      !is_only_barred'''),
    ("absent-member-counts-as-told",
     "A change counts as recorded although a current member is away",
     "--mode durable --donors 2 --copies 2",
     "lib/meta/meta_log.c",
     '''    if (fp_copies_several (log->extents))
      meta_log_leave_out_dead (log);
    meta_log_note_restarted (log, &answered);
    meta_log_note_changes (log);
    if (log->list_due)
      meta_log_mend_list (log);
    left = log->members & ~answered;
''',
     '''    meta_log_note_restarted (log, &answered);
    meta_log_note_changes (log);
    if (log->list_due)
      meta_log_mend_list (log);
    left = log->members & ~answered & log->up;
'''),
    ("trim-not-recorded",
     "Trimmed memory is released, and the map still says that the extent exists",
     "--mode durable",
     "lib/meta/meta_log.c",
     '''  p = &log->extents->p[i];
  FP_LOCK_SCOPE (&log->lock);
  atomic_store (&p->record, RECORD_GONE);
  push (log, (uint32_t) i);
''',
     '''  p = &log->extents->p[i];
  FP_LOCK_SCOPE (&log->lock);
'''),
    ("new-extent-not-recorded",
     "A new extent is written although no server has recorded that it exists",
     "--copies 1",
     "lib/meta/meta_log.c",
     '''  FP_LOCK_SCOPE (&log->lock);
  atomic_store (&log->extents->p[i].record, RECORD_EXISTS);
  push (log, (uint32_t) i);
''',
     '''  fp_peer_settle (log->peers->at[atomic_load (&log->extents->p[i].server)],
                  i);
'''),
    ("members-left-out-are-believed",
     "At attach all members are believed, even those that missed changes",
     "--mode durable --donors 2 --copies 2",
     "lib/meta/meta_log_start.c",
     '''    if (!list->members[at].current)
      continue;
    current++;
    away += p->away >> i & 1;
    if (!(f->believed >> at & 1))
      continue;
''',
     '''    current++;
    away += p->away >> i & 1;
'''),
    ("stale-copy-kept-at-attach",
     "A copy that the map calls stale counts as in sync after an attach",
     "--mode durable --donors 2 --copies 2",
     "lib/meta/meta_log_start.c",
     '''    bool exists = fp_recorded_has (log->recorded, i);
''',
     '''    bool exists = false;

    for (uint64_t k = fp_extent_of (log->extents, i); k < log->extents->all;
         k += log->extents->nr)
      exists |= fp_recorded_has (log->recorded, k);
'''),
    ("member-taken-in-without-map",
     "A member that comes back is current again without being given the map",
     "--mode durable --donors 2 --copies 2 --threads 1",
     "lib/meta/meta_log_list.c",
     '''    done = meta_log_ask (log, now, RECORD_OP_MAP_WRITE, NULL,
                         fp_deadline_in_ms (2 * meta_log_patience_ms (log)),
                         NULL);
''',
     '''    done = now;
'''),
    ("half-is-a-quorum",
     "Half of the current members are enough to attach",
     "--mode gentle --donors 4 --copies 2",
     "lib/meta/membership.h",
     '''  unsigned least = current / 2 + 1;
''',
     '''  unsigned least = (current + 1) / 2;
'''),
    ("former-client-admitted",
     "A client whose volume was taken over may open it again",
     "",
     "memserver/session/ctl_session.c",
     '''  *out = rec;
  if (record_is_former (rec, &s->client))
''',
     '''  *out = rec;
  if (false && record_is_former (rec, &s->client))
'''),
    ("one-key-stays-open",
     "When a session ends, the key of one slab is not closed",
     "--mode durable --copies 1",
     "memserver/session/session.c",
     '''  while (s->to_close > 0) {
''',
     '''  while (s->to_close > 1) {
'''),
    ("label-not-saved",
     "A label that a client sets is not saved for the next server process",
     "--mode durable --copies 1",
     "memserver/store/record.c",
     '''  s->label = *l;
  record_keep_slab (r, s);
''',
     '''  s->label = *l;
  if (r->holder == NULL)
    record_keep_slab (r, s);
'''),
    ("copy-number-forgotten",
     "A server that was restarted treats every copy as copy 0",
     "--mode durable --copies 2",
     "memserver/store/records_take_up.c",
     '''  s->label.copy = l.copy;
''',
     '''  s->label.copy = 0;
'''),
    ("released-slab-leaked",
     "A slab that a client releases is never lent again",
     "--mode gentle --donors 3 --copies 3",
     "memserver/store/record.c",
     '''  if (s->state != SLAB_LOST)
    pool_return (r->records->pool, s);
''',
     '''  if (s->state != SLAB_LOST && r->holder == NULL)
    pool_return (r->records->pool, s);
'''),
    ("map-change-in-part",
     "A server records only the first extent of a change of the map",
     "--mode durable --donors 2 --copies 2",
     "memserver/store/record_volume.c",
     '''  for (uint32_t i = 0; i < q->count; i++) {
    uint64_t w = q->extents[i] / 64;
''',
     '''  for (uint32_t i = 0; i < FP_MIN (q->count, 1u); i++) {
    uint64_t w = q->extents[i] / 64;
'''),
    ("map-merged-with-older-one",
     "A server that is given the map keeps bits of the one that it had",
     "--mode durable --donors 2 --copies 2 --threads 1",
     "memserver/store/record_volume.c",
     '''    set_word (r, first + i, q->words[i]);
''',
     '''    set_word (r, first + i, r->map[first + i] | q->words[i]);
'''),
    ("lost-extent-not-recorded",
     "A client never records that an extent is lost for good",
     "--scenario tests/sim/scenarios:lost-for-good --pause 40",
     "lib/meta/meta_log_copies.c",
     '''      any |= is_lost (log, i, up) && fp_recorded_lose (log->recorded, i);
''',
     '''      any |= is_lost (log, i, up) && i == UINT64_MAX && fp_recorded_lose (log->recorded, i);
'''),
    ("memory-half-scrubbed",
     "Only half of the memory that comes back is zeroed before it is lent again",
     "",
     "memserver/pool/pool_work.c",
     '''    s->status = backing_zero (&s->backing, s->scrubbed, step);
''',
     '''    s->status = backing_zero (&s->backing, s->scrubbed, step / 2);
'''),
]
