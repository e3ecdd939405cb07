/* SPDX-License-Identifier: BSD-3-Clause */
/* status_fields.c - the tables of status fields. */

#include <config.h>

#include "volume/status_fields.h"

#include <string.h>

#define NAMES(A) .names = A, .nr_names = sizeof A / sizeof A[0]
#define METRIC(NAME, HELP) .metric = NAME, .help = HELP
#define LABEL(NAME, VALUE) .label = NAME, .value = VALUE
#define FIELD(TYPE, KEY, MEMBER)                                              \
  .type = FP_FIELD_##TYPE, .key = KEY, .offset = offsetof (OF, MEMBER),       \
  .size = sizeof ((OF *) 0)->MEMBER
#define TABLE(KEY, MEMBER, FIELDS) FIELD (TABLE, KEY, MEMBER), .fields = FIELDS
#define LIST(KEY, MEMBER, COUNT, FIELDS)                                      \
  FIELD (LIST, KEY, MEMBER), .fields = FIELDS,                                \
                             .each = sizeof ((OF *) 0)->MEMBER[0],            \
                             .count = offsetof (OF, COUNT)
#define END                                                                   \
  {                                                                           \
    .type = FP_FIELD_END                                                      \
  }

/* ---- the volume ---- */

#define OF struct fp_hist_summary
static const struct fp_field latency_fields[] = {
  { FIELD (NUMBER, "count", count) },
  { FIELD (NUMBER, "mean", mean) },
  { FIELD (NUMBER, "p50", p50) },
  { FIELD (NUMBER, "p99", p99) },
  { FIELD (NUMBER, "p999", p999) },
  { FIELD (NUMBER, "max", max) },
  END,
};
#undef OF

static const char *const checksum_names[] = {
  [FP_CHECKSUM_NONE] = "off",
  [FP_CHECKSUM_CRC32C] = "crc32c",
};
static const char *const encrypt_names[] = {
  [FP_ENCRYPT_NONE] = "off",
  [FP_ENCRYPT_EPHEMERAL] = "ephemeral",
  [FP_ENCRYPT_FILE] = "file",
};
#define OF struct fp_seal_status
static const struct fp_field seal_fields[] = {
  { FIELD (BOOL, "on", on) },
  { FIELD (ENUM, "checksum", checksum), NAMES (checksum_names) },
  { FIELD (ENUM, "encrypt", encrypt), NAMES (encrypt_names) },
  { FIELD (BOOL, "integrity", integrity) },
  { FIELD (NUMBER, "wrong", wrong),
    METRIC ("farpage_volume_wrong_blocks_total",
            "Blocks from a server that failed verification.") },
  { FIELD (NUMBER, "repaired", repaired),
    METRIC ("farpage_volume_repaired_blocks_total",
            "Blocks that failed verification, repaired from another copy.") },
  { FIELD (NUMBER, "unreadable", unreadable),
    METRIC ("farpage_volume_unreadable_blocks_total",
            "Reads of blocks without a valid copy: I/O errors.") },
  { FIELD (NUMBER, "unchecked_bytes", unchecked),
    METRIC ("farpage_volume_unchecked_bytes",
            "Bytes that an earlier client wrote, which are not verified.") },
  { FIELD (NUMBER, "memory", memory) },
  END,
};
#undef OF

#define OF struct fp_hedge_status
static const struct fp_field hedge_fields[] = {
  { FIELD (BOOL, "on", on) },
  { FIELD (NUMBER, "sent", sent),
    METRIC ("farpage_volume_hedges_total",
            "Reads that were also sent to another copy (hedge=p99).") },
  { FIELD (NUMBER, "won", won),
    METRIC ("farpage_volume_hedges_won_total",
            "Hedged reads that the other copy answered first.") },
  { FIELD (NUMBER, "lost", lost),
    METRIC ("farpage_volume_hedges_lost_total",
            "Hedged reads that the other copy did not answer first.") },
  { FIELD (NUMBER, "refused", refused),
    METRIC ("farpage_volume_hedges_refused_total",
            "Reads that were not hedged, as too many others were.") },
  END,
};
#undef OF

#define OF struct fp_volume_status
#define REQUESTS                                                              \
  METRIC ("farpage_volume_requests_total", "Requests that succeeded.")
#define BYTES                                                                 \
  METRIC ("farpage_volume_bytes_total", "Bytes that were read and written.")
#define WAITS                                                                 \
  METRIC ("farpage_volume_waits_total",                                       \
          "Waits for servers, by how they ended.")
static const struct fp_field volume_fields[] = {
  { FIELD (UUID, "uuid", uuid) },
  { FIELD (TEXT, "name", name) },
  { FIELD (NUMBER, "size", size),
    METRIC ("farpage_volume_size_bytes", "The size of the volume.") },
  { FIELD (NUMBER, "slab_size", slab_size),
    METRIC ("farpage_volume_slab_size_bytes",
            "The size of an extent of the volume.") },
  { FIELD (NUMBER, "copies", copies) },
  { FIELD (NUMBER, "stripe_size", stripe.size) },
  { FIELD (NUMBER, "stripe_width", stripe.width) },
  { FIELD (NUMBER, "lanes", lanes) },
  { FIELD (NUMBER, "timeout_ms", timeout_ms) },
  { FIELD (NUMBER, "await_ms", await_ms) },
  { FIELD (NUMBER, "extents", extents) },
  { FIELD (NUMBER, "extents_allocated", extents_allocated) },
  { FIELD (NUMBER, "extents_lost", extents_lost),
    METRIC ("farpage_volume_lost_extents",
            "Extents that are lost: reads and writes of them fail.") },
  { FIELD (NUMBER, "extents_degraded", extents_degraded),
    METRIC ("farpage_volume_degraded_extents",
            "Extents with fewer copies than they should have.") },
  { FIELD (NUMBER, "bytes_to_resync", bytes_to_resync),
    METRIC ("farpage_volume_degraded_bytes",
            "Bytes to copy until no extent is degraded.") },
  { FIELD (NUMBER, "bytes_marked", bytes_marked),
    METRIC ("farpage_volume_marked_bytes",
            "Bytes in which copies may differ if this client dies now.") },
  { FIELD (BOOL, "unclean", unclean) },
  { FIELD (NUMBER, "resync_bytes", resync_bytes),
    METRIC ("farpage_volume_resync_bytes",
            "Bytes to resync when it was attached, as its last client had "
            "died.") },
  { FIELD (NUMBER, "resync_of_bytes", resync_of) },
  { FIELD (NUMBER, "reads", reads), REQUESTS, LABEL ("op", "read") },
  { FIELD (NUMBER, "writes", writes), REQUESTS, LABEL ("op", "write") },
  { FIELD (NUMBER, "zeros", zeros), REQUESTS, LABEL ("op", "zero") },
  { FIELD (NUMBER, "trims", trims), REQUESTS, LABEL ("op", "trim") },
  { FIELD (NUMBER, "flushes", flushes), REQUESTS, LABEL ("op", "flush") },
  { FIELD (NUMBER, "errors", errors),
    METRIC ("farpage_volume_errors_total", "Requests that failed.") },
  { FIELD (NUMBER, "bytes_read", bytes_read), BYTES, LABEL ("op", "read") },
  { FIELD (NUMBER, "bytes_written", bytes_written), BYTES,
    LABEL ("op", "write") },
  { FIELD (NUMBER, "inflight", inflight),
    METRIC ("farpage_volume_inflight_requests",
            "Requests that are not answered yet.") },
  { FIELD (NUMBER, "poll_hits", poll_hits), WAITS,
    LABEL ("ended", "polling") },
  { FIELD (NUMBER, "sleeps", sleeps), WAITS, LABEL ("ended", "asleep") },
  { FIELD (NUMBER, "members_version", members_version),
    METRIC ("farpage_volume_members_version",
            "Version of the volume's list of servers.") },
  { FIELD (BOOL, "fenced", fenced),
    METRIC ("farpage_volume_fenced",
            "1: another client has taken it over; all requests fail.") },
  { FIELD (TEXT, "fenced_by", fenced_by) },
  { FIELD (BOOL, "frozen", frozen),
    METRIC ("farpage_volume_frozen",
            "1: too many servers were down at attach; no memory is "
            "allocated.") },
  { FIELD (BOOL, "read_only", read_only) },
  { TABLE ("sealed", seal, seal_fields), .optional = true },
  { TABLE ("hedges", hedges, hedge_fields) },
  { TABLE ("read_latency_ns", read_ns, latency_fields) },
  { TABLE ("write_latency_ns", write_ns, latency_fields) },
  END,
};
#undef OF

/* ---- the servers ---- */

static const char *const drain_names[] = {
  [FP_DRAIN_NONE] = "none",
  [FP_DRAIN_MOVING] = "draining",
  [FP_DRAIN_DONE] = "drained",
};
#define OF struct fp_drain_status
static const struct fp_field drain_fields[] = {
  { FIELD (ENUM, "state", state), NAMES (drain_names),
    METRIC ("farpage_server_drain_state",
            "1 for the state of the server's drain."),
    .label = "state" },
  { FIELD (NUMBER, "extents", extents) },
  { FIELD (NUMBER, "left", left),
    METRIC ("farpage_server_drain_left_extents",
            "Extents that the drain has not moved yet.") },
  { FIELD (NUMBER, "bytes", bytes),
    METRIC ("farpage_server_drain_copied_bytes",
            "Bytes that the drain has copied.") },
  { FIELD (NUMBER, "ns", since_ns) },
  { FIELD (NUMBER, "left_ns", left_ns) },
  { FIELD (TEXT, "why", why) },
  END,
};
#undef OF

static const char *const server_state_names[] = {
  [FP_SERVER_DOWN] = "down", [FP_SERVER_CONNECTING] = "connecting",
  [FP_SERVER_UP] = "up",     [FP_SERVER_CLOSING] = "closing",
  [FP_SERVER_LOST] = "lost",
};
static const char *const transport_names[] = {
  [FP_TRANSPORT_RDMA] = "rdma",
  [FP_TRANSPORT_SHM] = "shm",
  [FP_TRANSPORT_TCP] = "tcp",
};
#define OF struct fp_server_status
#define TRANSFERRED                                                           \
  METRIC ("farpage_server_bytes_total",                                       \
          "Bytes that were read from and written to the server.")
static const struct fp_field server_fields[] = {
  { FIELD (TEXT, "addr", addr) },
  { FIELD (TEXT, "name", name) },
  { FIELD (ENUM, "state", state), NAMES (server_state_names),
    METRIC ("farpage_server_state", "1 for the state of the server."),
    .label = "state" },
  { FIELD (ENUM, "transport", transport), NAMES (transport_names),
    METRIC ("farpage_server_transport", "1 for the transport to the server."),
    .label = "transport" },
  { FIELD (TEXT, "control", control) },
  { FIELD (NUMBER, "slabs_total", slabs_total),
    METRIC ("farpage_server_slabs", "Slabs of the server, free or in use.") },
  { FIELD (NUMBER, "slabs_free", slabs_free),
    METRIC ("farpage_server_free_slabs",
            "Free slabs of the server, as it last reported.") },
  { FIELD (NUMBER, "extents", extents),
    METRIC ("farpage_server_extents",
            "Extents of this volume on the server.") },
  { FIELD (NUMBER, "reconnects", reconnects),
    METRIC ("farpage_server_reconnects_total",
            "Reconnections to the server.") },
  { FIELD (NUMBER, "bytes_read", bytes_read), TRANSFERRED,
    LABEL ("op", "read") },
  { FIELD (NUMBER, "bytes_written", bytes_written), TRANSFERRED,
    LABEL ("op", "write") },
  { FIELD (NUMBER, "ops", ops), METRIC ("farpage_server_transfers_total",
                                        "Transfers from and to the server.") },
  { FIELD (NUMBER, "errors", errors),
    METRIC ("farpage_server_errors_total", "Transfers that failed.") },
  { FIELD (NUMBER, "slabs_wanted", reclaim.wanted),
    METRIC ("farpage_server_slabs_asked_back",
            "Slabs that the server wants back.") },
  { FIELD (NUMBER, "extents_reclaimed", reclaim.reclaimed),
    METRIC ("farpage_server_extents_reclaimed_total",
            "Extents that moved away, as the server wanted slabs back.") },
  { FIELD (TEXT, "wanted_why", reclaim.why) },
  { FIELD (BOOL, "server_draining", reclaim.draining) },
  { FIELD (BOOL, "current", current),
    METRIC ("farpage_server_current",
            "1: the server has missed no change of the volume's metadata.") },
  { FIELD (BOOL, "joining", joining),
    METRIC ("farpage_server_joining",
            "1: the server was added, and is not a full member yet.") },
  { FIELD (TEXT, "why", why) },
  { TABLE ("drain", drain, drain_fields), .optional = true },
  END,
};
#undef OF

/* ---- the check ---- */

static const char *const check_names[] = {
  [FP_CHECK_NONE] = "none",     [FP_CHECK_RUNNING] = "running",
  [FP_CHECK_DONE] = "done",     [FP_CHECK_CANCELLED] = "cancelled",
  [FP_CHECK_FAILED] = "failed",
};
#define OF struct fp_check_status
const struct fp_field fp_check_fields[] = {
  { FIELD (ENUM, "state", state), NAMES (check_names) },
  { FIELD (TEXT, "why", why) },
  { FIELD (NUMBER, "number", number) },
  { FIELD (BOOL, "repair", repair) },
  { FIELD (NUMBER, "block_size", block_size) },
  { FIELD (NUMBER, "blocks", blocks) },
  { FIELD (NUMBER, "blocks_compared", compared) },
  { FIELD (NUMBER, "blocks_differ", differ) },
  { FIELD (NUMBER, "blocks_repaired", repaired) },
  { FIELD (NUMBER, "blocks_skipped", skipped) },
  { FIELD (NUMBER, "extents_degraded", degraded) },
  { FIELD (NUMBER, "ns", since_ns) },
  { FIELD (NUMBER, "left_ns", left_ns) },
  { LIST ("offsets", offsets, nr_offsets, NULL) },
  { FIELD (NUMBER, NULL, all_compared),
    METRIC ("farpage_volume_check_compared_blocks_total",
            "Blocks whose copies were all compared (farpage check).") },
  { FIELD (NUMBER, NULL, all_differ),
    METRIC ("farpage_volume_check_differing_blocks_total",
            "Compared blocks whose copies differed.") },
  { FIELD (NUMBER, NULL, all_repaired),
    METRIC ("farpage_volume_check_repaired_blocks_total",
            "Blocks whose copies differed, and were repaired.") },
  END,
};
#undef OF

/* ---- the document ---- */

#define OF struct fp_change
static const struct fp_field change_fields[] = {
  { FIELD (TEXT, "what", what) },
  { FIELD (TEXT, "addr", addr) },
  { FIELD (NUMBER, "ns", ns) },
  END,
};
#undef OF

#define OF struct fp_status_doc
const struct fp_field fp_status_fields[] = {
  { FIELD (NUMBER, "version", version) },
  { FIELD (NUMBER, "pid", pid) },
  { FIELD (BOOL, "io_flusher", io_flusher),
    METRIC ("farpage_plugin_io_flusher",
            "1: the kernel knows that the process must not wait for block "
            "I/O.") },
  { FIELD (BOOL, "realtime", realtime) },
  { FIELD (NUMBER, "locked_bytes", locked_bytes),
    METRIC ("farpage_plugin_locked_bytes",
            "Memory of the process that cannot be swapped out.") },
  { TABLE ("volume", volume, volume_fields) },
  { TABLE ("check", volume.check, fp_check_fields) },
  { LIST ("servers", servers, nr_servers, server_fields) },
  { LIST ("changes", changes, nr_changes, change_fields) },
  END,
};
#undef OF

uint64_t
fp_field_number (const struct fp_field *f, const void *of)
{
  const char *at = (const char *) of + f->offset;
  uint64_t wide;
  unsigned narrow;

  if (f->type == FP_FIELD_BOOL)
    return *(const bool *) at;
  if (f->size == sizeof wide) {
    memcpy (&wide, at, sizeof wide);
    return wide;
  }
  memcpy (&narrow, at, sizeof narrow);
  return narrow;
}

const char *
fp_server_state_name (enum fp_server_state s)
{
  return server_state_names[s];
}

const char *
fp_drain_state_name (enum fp_drain_state s)
{
  return drain_names[s];
}

const char *
fp_check_state_name (enum fp_check_state s)
{
  return check_names[s];
}
