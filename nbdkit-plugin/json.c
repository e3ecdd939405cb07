/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c - the status document. */

#include <config.h>

#include "json.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/cleanup.h"

static void
json_freep (struct json_object **p)
{
  json_object_put (*p);
}

/* Each takes value, and is false if there was no memory for it. */
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
    { "lanes", v->lanes },
    { "pieces", v->pieces },
    { "pieces_allocated", v->pieces_allocated },
    { "pieces_lost", v->pieces_lost },
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
    { "locked_bytes", locked_bytes },
  };
  char uuid[FP_UUID_STR_MAX];

  fp_uuid_format (&v->uuid, uuid);
  if (o == NULL || !put_str (o, "uuid", uuid) || !put_str (o, "name", v->name))
    return NULL;
  for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (!put_u64 (o, numbers[i].key, numbers[i].value))
      return NULL;
  if (!put (o, "read_latency_ns", summary (&v->read_ns)) ||
      !put (o, "write_latency_ns", summary (&v->write_ns)))
    return NULL;
  return FP_STEAL (o);
}

static struct json_object *
server (const struct fp_server_status *s)
{
  FP_CLEANUP (json_freep) struct json_object *o = json_object_new_object ();
  const struct {
    const char *key;
    uint64_t value;
  } numbers[] = {
    { "slabs_total", s->slabs_total },
    { "slabs_free", s->slabs_free },
    { "pieces", s->pieces },
    { "reconnects", s->reconnects },
    { "bytes_read", s->bytes_read },
    { "bytes_written", s->bytes_written },
    { "ops", s->ops },
    { "errors", s->errors },
  };

  if (o == NULL || !put_str (o, "addr", s->addr) ||
      !put_str (o, "name", s->name) ||
      !put_str (o, "state", fp_server_state_name (s->state)) ||
      !put_str (o, "transport",
                s->transport ? fp_transport_name (s->transport) : ""))
    return NULL;
  for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (!put_u64 (o, numbers[i].key, numbers[i].value))
      return NULL;
  if (!put_str (o, "why", s->why))
    return NULL;
  return FP_STEAL (o);
}

char *
fp_json_status (const struct fp_volume_status *v,
                const struct fp_server_status *servers, uint64_t locked_bytes,
                bool io_flusher)
{
  FP_CLEANUP (json_freep) struct json_object *doc = json_object_new_object ();
  struct json_object *list;
  const char *text;
  char *out = NULL;

  if (doc == NULL || !put_u64 (doc, "version", 1) ||
      !put_u64 (doc, "pid", (uint64_t) getpid ()) ||
      !put (doc, "io_flusher", json_object_new_boolean (io_flusher)) ||
      !put (doc, "volume", volume (v, locked_bytes)) ||
      !put (doc, "servers", json_object_new_array ()))
    return NULL;
  list = json_object_object_get (doc, "servers");
  for (unsigned i = 0; i < v->nr_servers; i++) {
    struct json_object *o = server (&servers[i]);

    if (o == NULL || json_object_array_add (list, o) < 0) {
      json_object_put (o);
      return NULL;
    }
  }
  text = json_object_to_json_string_ext (
      doc, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
               JSON_C_TO_STRING_NOSLASHESCAPE);
  if (text == NULL || asprintf (&out, "%s\n", text) == -1)
    return NULL;
  return out;
}
