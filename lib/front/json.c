/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c - the status document. */

#include <config.h>

#include "front/json.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"

static void
json_freep (struct json_object **p)
{
  json_object_put (*p);
}

/* Add a member to o.  Takes ownership of value.  Return false if out of
 * memory.
 */
static bool
put (struct json_object *o, const char *key, struct json_object *value)
{
  if (value == NULL)
    return false;
  if (json_object_object_add (o, key, value) < 0) {
    json_object_put (value);
    return false;
  }
  return true;
}

static bool
put_u64 (struct json_object *o, const char *key, uint64_t value)
{
  return put (o, key, json_object_new_uint64 (value));
}

static bool
put_str (struct json_object *o, const char *key, const char *value)
{
  return put (o, key, json_object_new_string (value));
}

static struct json_object *
summary (const struct fp_hist_summary *h)
{
  FP_CLEANUP (json_freep) struct json_object *o = json_object_new_object ();

  if (o == NULL || !put_u64 (o, "count", h->count) ||
      !put_u64 (o, "mean", h->mean) || !put_u64 (o, "p50", h->p50) ||
      !put_u64 (o, "p99", h->p99) || !put_u64 (o, "p999", h->p999) ||
      !put_u64 (o, "max", h->max))
    return NULL;
  return FP_STEAL (o);
}

/* Return NULL and set *ok if the volume is not sealed; without *ok: out of
 * memory.
 */
static struct json_object *
seal (const struct fp_seal_status *s, bool *ok)
{
  static const char *const encrypts[] = {
    [FP_ENCRYPT_NONE] = "off",
    [FP_ENCRYPT_EPHEMERAL] = "ephemeral",
    [FP_ENCRYPT_FILE] = "file",
  };
  FP_CLEANUP (json_freep) struct json_object *o = NULL;
  const struct {
    const char *key;
    uint64_t value;
  } numbers[] = {
    { "wrong", s->wrong },           { "repaired", s->repaired },
    { "unreadable", s->unreadable }, { "unchecked_bytes", s->unchecked },
    { "memory", s->memory },
  };

  *ok = !s->on;
  if (*ok)
    return NULL;
  o = json_object_new_object ();
  if (o == NULL ||
      !put_str (o, "checksum",
                s->checksum == FP_CHECKSUM_CRC32C ? "crc32c" : "off") ||
      !put_str (o, "encrypt", encrypts[s->encrypt]) ||
      !put (o, "integrity", json_object_new_boolean (s->integrity)))
    return NULL;
  for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (!put_u64 (o, numbers[i].key, numbers[i].value))
      return NULL;
  *ok = true;
  return FP_STEAL (o);
}

static struct json_object *
hedges (const struct fp_hedge_status *h)
{
  FP_CLEANUP (json_freep) struct json_object *o = json_object_new_object ();

  if (o == NULL || !put (o, "on", json_object_new_boolean (h->on)) ||
      !put_u64 (o, "sent", h->sent) || !put_u64 (o, "won", h->won) ||
      !put_u64 (o, "lost", h->lost) || !put_u64 (o, "refused", h->refused))
    return NULL;
  return FP_STEAL (o);
}

static struct json_object *
volume (const struct fp_volume_status *v, uint64_t locked_bytes)
{
  FP_CLEANUP (json_freep) struct json_object *o = json_object_new_object ();
  const struct {
    const char *key;
    uint64_t value;
  } numbers[] = {
    { "size", v->size },
    { "slab_size", v->slab_size },
    { "copies", v->copies },
    { "stripe_size", v->stripe.size },
    { "stripe_width", v->stripe.width },
    { "lanes", v->lanes },
    { "timeout_ms", v->timeout_ms },
    { "await_ms", v->await_ms },
    { "pieces", v->extents },
    { "pieces_allocated", v->extents_allocated },
    { "pieces_lost", v->extents_lost },
    { "pieces_degraded", v->extents_degraded },
    { "bytes_to_rebuild", v->bytes_to_resync },
    { "bytes_marked", v->bytes_marked },
    { "resync_bytes", v->resync_bytes },
    { "resync_of_bytes", v->resync_of },
    { "reads", v->reads },
    { "writes", v->writes },
    { "zeros", v->zeros },
    { "trims", v->trims },
    { "flushes", v->flushes },
    { "errors", v->errors },
    { "bytes_read", v->bytes_read },
    { "bytes_written", v->bytes_written },
    { "inflight", v->inflight },
    { "poll_hits", v->poll_hits },
    { "sleeps", v->sleeps },
    { "members_version", v->members_version },
    { "locked_bytes", locked_bytes },
  };
  char uuid[FP_UUID_STR_MAX];
  struct json_object *sealed;
  bool ok;

  fp_uuid_format (&v->uuid, uuid);
  if (o == NULL || !put_str (o, "uuid", uuid) || !put_str (o, "name", v->name))
    return NULL;
  for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (!put_u64 (o, numbers[i].key, numbers[i].value))
      return NULL;
  if (!put (o, "taken", json_object_new_boolean (v->fenced)) ||
      !put_str (o, "taken_by", v->fenced_by) ||
      !put (o, "frozen", json_object_new_boolean (v->frozen)) ||
      !put (o, "read_only", json_object_new_boolean (v->read_only)) ||
      !put (o, "unclean", json_object_new_boolean (v->unclean)))
    return NULL;
  sealed = seal (&v->seal, &ok);
  if (!ok || json_object_object_add (o, "sealed", sealed) < 0) {
    json_object_put (sealed);
    return NULL;
  }
  if (!put (o, "hedges", hedges (&v->hedges)) ||
      !put (o, "read_latency_ns", summary (&v->read_ns)) ||
      !put (o, "write_latency_ns", summary (&v->write_ns)))
    return NULL;
  return FP_STEAL (o);
}

static const char *
drain_name (enum fp_drain_state s)
{
  return s == FP_DRAIN_MOVING ? "draining" : "drained";
}

/* Return NULL and set *ok if the server is not drained; without *ok: out of
 * memory.
 */
static struct json_object *
drain (const struct fp_drain_status *d, bool *ok)
{
  FP_CLEANUP (json_freep) struct json_object *o = NULL;

  *ok = d->state == FP_DRAIN_NONE;
  if (*ok)
    return NULL;
  o = json_object_new_object ();
  if (o == NULL ||
      !put (o, "state", json_object_new_string (drain_name (d->state))) ||
      !put_u64 (o, "pieces", d->extents) || !put_u64 (o, "left", d->left) ||
      !put_u64 (o, "bytes", d->bytes) || !put_u64 (o, "ns", d->since_ns) ||
      !put_u64 (o, "left_ns", d->left_ns) || !put_str (o, "why", d->why))
    return NULL;
  *ok = true;
  return FP_STEAL (o);
}

static struct json_object *
server (const struct fp_server_status *s)
{
  FP_CLEANUP (json_freep) struct json_object *o = json_object_new_object ();
  struct json_object *d;
  bool ok;
  const struct {
    const char *key;
    uint64_t value;
  } numbers[] = {
    { "slabs_total", s->slabs_total },
    { "slabs_free", s->slabs_free },
    { "pieces", s->extents },
    { "reconnects", s->reconnects },
    { "bytes_read", s->bytes_read },
    { "bytes_written", s->bytes_written },
    { "ops", s->ops },
    { "errors", s->errors },
    { "slabs_wanted", s->reclaim.wanted },
    { "pieces_given", s->reclaim.reclaimed },
  };

  if (o == NULL || !put_str (o, "addr", s->addr) ||
      !put_str (o, "name", s->name) ||
      !put_str (o, "state", fp_server_state_name (s->state)) ||
      !put_str (o, "transport",
                s->transport ? fp_transport_name (s->transport) : "") ||
      !put_str (o, "control", s->control ? s->control : ""))
    return NULL;
  for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (!put_u64 (o, numbers[i].key, numbers[i].value))
      return NULL;
  if (!put (o, "current", json_object_new_boolean (s->current)) ||
      !put (o, "joining", json_object_new_boolean (s->joining)) ||
      !put_str (o, "why", s->why) ||
      !put_str (o, "wanted_why", s->reclaim.why))
    return NULL;
  d = drain (&s->drain, &ok);
  if (!ok || json_object_object_add (o, "drain", d) < 0) {
    json_object_put (d);
    return NULL;
  }
  return FP_STEAL (o);
}

static const char *
check_name (enum fp_check_state s)
{
  switch (s) {
  case FP_CHECK_RUNNING:
    return "running";
  case FP_CHECK_DONE:
    return "done";
  case FP_CHECK_CANCELLED:
    return "cancelled";
  case FP_CHECK_FAILED:
    return "failed";
  case FP_CHECK_NONE:
  default:
    return "none";
  }
}

static struct json_object *
check (const struct fp_check_status *c)
{
  FP_CLEANUP (json_freep) struct json_object *o = json_object_new_object ();
  struct json_object *list;
  const struct {
    const char *key;
    uint64_t value;
  } numbers[] = {
    { "number", c->number },
    { "block_size", c->block_size },
    { "blocks", c->blocks },
    { "blocks_compared", c->compared },
    { "blocks_differ", c->differ },
    { "blocks_repaired", c->repaired },
    { "blocks_skipped", c->skipped },
    { "pieces_degraded", c->degraded },
    { "ns", c->since_ns },
    { "left_ns", c->left_ns },
  };

  if (o == NULL || !put_str (o, "state", check_name (c->state)) ||
      !put (o, "repair", json_object_new_boolean (c->repair)) ||
      !put_str (o, "why", c->why) ||
      !put (o, "offsets", json_object_new_array ()))
    return NULL;
  for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (!put_u64 (o, numbers[i].key, numbers[i].value))
      return NULL;
  list = json_object_object_get (o, "offsets");
  for (unsigned i = 0; i < c->nr_offsets; i++) {
    struct json_object *offset = json_object_new_uint64 (c->offsets[i]);

    if (offset == NULL || json_object_array_add (list, offset) < 0) {
      json_object_put (offset);
      return NULL;
    }
  }
  return FP_STEAL (o);
}

char *
fp_json_result (int r, const char *reason)
{
  FP_CLEANUP (json_freep) struct json_object *o = json_object_new_object ();
  char clean[FP_ERROR_MAX];
  const char *text;
  char *out = NULL;

  /* The reason may repeat bytes of the request, and JSON must be UTF-8. */
  snprintf (clean, sizeof clean, "%s", reason);
  for (char *c = clean; *c != '\0'; c++)
    if (*c < ' ' || *c > '~')
      *c = '?';
  if (o == NULL || !put (o, "ok", json_object_new_boolean (r >= 0)) ||
      (r >= 0 && clean[0] != '\0' && !put_str (o, "note", clean)) ||
      (r < 0 &&
       !put_str (o, "error", clean[0] != '\0' ? clean : strerror (-r))))
    return NULL;
  text = json_object_to_json_string_ext (
      o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
  if (text == NULL || asprintf (&out, "%s\n", text) == -1)
    return NULL;
  return out;
}

static bool
put_change (struct json_object *list, const struct fp_change *c)
{
  FP_CLEANUP (json_freep) struct json_object *o = json_object_new_object ();

  if (o == NULL || !put_str (o, "what", c->what) ||
      !put_str (o, "addr", c->addr) || !put_u64 (o, "ns", c->ns) ||
      json_object_array_add (list, o) < 0)
    return false;
  o = NULL;
  return true;
}

/* Return true if the threads that I/O waits for have real-time priority.  They
 * run as the first thread does; base/thread.h says which do not.
 */
static bool
realtime (void)
{
  int policy = sched_getscheduler (getpid ());

  return policy == SCHED_FIFO || policy == SCHED_RR;
}

char *
fp_json_status (const struct fp_volume_status *v,
                const struct fp_server_status *servers,
                const struct fp_change *changes, unsigned nr_changes,
                uint64_t locked_bytes, bool io_flusher)
{
  FP_CLEANUP (json_freep) struct json_object *doc = json_object_new_object ();
  struct json_object *list;
  const char *text;
  char *out = NULL;

  if (doc == NULL || !put_u64 (doc, "version", 1) ||
      !put_u64 (doc, "pid", (uint64_t) getpid ()) ||
      !put (doc, "io_flusher", json_object_new_boolean (io_flusher)) ||
      !put (doc, "realtime", json_object_new_boolean (realtime ())) ||
      !put (doc, "volume", volume (v, locked_bytes)) ||
      !put (doc, "servers", json_object_new_array ()))
    return NULL;
  list = json_object_object_get (doc, "servers");
  for (unsigned i = 0; i < v->nr_servers; i++) {
    struct json_object *o;

    if (servers[i].gone)
      continue;
    o = server (&servers[i]);
    if (o == NULL || json_object_array_add (list, o) < 0) {
      json_object_put (o);
      return NULL;
    }
  }
  if (!put (doc, "check", check (&v->check)) ||
      !put (doc, "changes", json_object_new_array ()))
    return NULL;
  list = json_object_object_get (doc, "changes");
  for (unsigned i = 0; i < nr_changes; i++)
    if (!put_change (list, &changes[i]))
      return NULL;
  text = json_object_to_json_string_ext (
      doc, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
               JSON_C_TO_STRING_NOSLASHESCAPE);
  if (text == NULL || asprintf (&out, "%s\n", text) == -1)
    return NULL;
  return out;
}
