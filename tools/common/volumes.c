/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/common/ask_server.h"
#include "tools/common/volumes.h"
#include "transport/tls/tls.h"

/* More than any server has.  A faulty server might list volumes for ever. */
#define MAX_VOLUMES 65536u

static uint64_t
soon (void)
{
  return fp_deadline_in_ms (ASK_MS);
}

/* ---- lost extents ---- */

/* Ask the server how many slabs of the volume it has now.  If it does not
 * answer, return the earlier number.
 */
static uint64_t
slabs_now (const struct volume_view *v, const struct volume_place *p)
{
  static struct fp_lookup_reply reply;
  const struct fp_lookup q = { .volume = v->entry.uuid };
  struct fp_hello_reply hello;
  uint64_t slabs = p->slabs;
  struct fp_addr addr;
  const char *reason;
  struct fp_ctl *c;
  struct fp_error error;

  if (fp_addr_parse (&addr, p->addr, &reason) < 0 ||
      ask_begin (&c, &addr, &hello, &error) < 0)
    return slabs;
  if (fp_uuid_eq (&hello.server, &p->server) &&
      fp_ctl_lookup (c, &q, &reply, soon ()) == 0)
    slabs = reply.volume.slabs;
  ask_end (c);
  return slabs;
}

static bool
counts (const struct volume_place *p)
{
  return p->has_it && !p->left;
}

/* Count the extents that no server has.  members: number of servers that must
 * answer.  An extent that moves to another server between two questions looks
 * missing.  So ask all servers again, in reverse order.
 */
static void
count_missing (struct volume_view *v, unsigned members)
{
  unsigned answered = 0;
  uint64_t found = 0;

  v->is_counted = members > 0;
  for (unsigned i = 0; i < v->nr_places; i++) {
    const struct volume_place *p = &v->places[i];

    answered += p->answers && !p->left;
    if (!counts (p))
      continue;
    found += p->slabs;
    if ((p->current || !p->member) && p->extents > v->extents)
      v->extents = p->extents;
  }
  v->all_answered = answered >= members;
  v->missing = v->extents > found ? v->extents - found : 0;
  if (v->missing == 0 || !v->entry.attached)
    return;
  found = 0;
  for (unsigned i = v->nr_places; i-- > 0;)
    if (counts (&v->places[i]))
      found += slabs_now (v, &v->places[i]);
  if (found + v->missing > v->extents)
    v->missing = v->extents > found ? v->extents - found : 0;
}

/* ---- all volumes ---- */

static struct volume_view *
view_of (struct volume_list *l, const struct fp_volume_entry *e)
{
  struct volume_view *views;

  for (unsigned i = 0; i < l->nr; i++)
    if (fp_uuid_eq (&l->views[i].entry.uuid, &e->uuid))
      return &l->views[i];
  views = realloc (l->views, (l->nr + 1) * sizeof *views);
  if (!views)
    return NULL;
  l->views = views;
  views[l->nr] = (struct volume_view) { .entry = *e };
  return &views[l->nr++];
}

static int
add_entry (struct volume_list *l, const struct fp_volume_entry *e,
           const struct fp_uuid *server, const char *addr)
{
  struct volume_view *v = view_of (l, e);
  struct volume_place *p;

  if (!v)
    return -ENOMEM;
  for (unsigned i = 0; i < v->nr_places; i++)
    if (fp_uuid_eq (&v->places[i].server, server))
      return 0; /* this server, by another address */
  if (v->nr_places > FP_MAX_MEMBERS)
    return 0;
  p = &v->places[v->nr_places++];
  p->server = *server;
  snprintf (p->addr, sizeof p->addr, "%s", addr);
  p->answers = p->has_it = true;
  p->attached = e->attached;
  p->slabs = e->slabs;
  p->extents = e->extents;
  v->slabs += e->slabs;
  if (e->members > v->entry.members)
    v->entry.members = e->members;
  return 0;
}

static int
list_one (struct volume_list *l, const struct fp_addr *addr, const char *text,
          struct fp_error *error)
{
  static struct fp_volumes page;
  struct fp_volumes_req q = { .start = 0 };
  struct fp_hello_reply hello;
  struct fp_ctl *c;
  int r = ask_begin (&c, addr, &hello, error);

  if (r < 0)
    return r;
  do {
    r = ask_why (c, fp_ctl_volumes (c, &q, &page, soon ()), error);
    for (uint32_t i = 0; r == 0 && i < page.count; i++)
      r = add_entry (l, &page.volumes[i], &hello.server, text);
    q.start += page.count;
  } while (r == 0 && page.count > 0 && q.start < page.total &&
           q.start < MAX_VOLUMES);
  if (r == -ENOMEM)
    fp_fail (error, r, "out of memory");
  ask_end (c);
  return r;
}

int
volumes_list (struct volume_list *out, const struct fp_addr *addrs, unsigned n,
              void (*failed) (const char *addr, const struct fp_error *error))
{
  int result = 0;

  *out = (struct volume_list) { .nr = 0 };
  for (unsigned i = 0; i < n; i++) {
    char text[FP_ADDR_MAX + 1];
    struct fp_error error;
    int r;

    fp_addr_format (&addrs[i], text);
    r = list_one (out, &addrs[i], text, &error);
    if (r < 0) {
      failed (text, &error);
      result = r;
    }
  }
  for (unsigned i = 0; i < out->nr; i++)
    count_missing (&out->views[i], out->views[i].entry.members);
  return result;
}

void
volumes_free (struct volume_list *l)
{
  free (l->views);
  *l = (struct volume_list) { .nr = 0 };
}

/* ---- one volume ---- */

static struct volume_place *
place_of (struct volume_view *v, const struct fp_uuid *server)
{
  for (unsigned i = 0; i < v->nr_places; i++)
    if (fp_uuid_eq (&v->places[i].server, server))
      return &v->places[i];
  if (v->nr_places > FP_MAX_MEMBERS)
    return NULL;
  v->places[v->nr_places] = (struct volume_place) { .server = *server };
  return &v->places[v->nr_places++];
}

/* Ask the server at addr about the volume.  If its list of members is newer,
 * it replaces *members.
 */
static int
look (struct volume_view *v, const struct fp_addr *addr, bool named,
      const struct fp_lookup *q, struct fp_members *members,
      struct fp_error *error)
{
  static struct fp_lookup_reply reply;
  char text[FP_ADDR_MAX + 1];
  struct fp_hello_reply hello;
  struct volume_place *p;
  struct fp_ctl *c;
  int r = ask_begin (&c, addr, &hello, error);

  if (r < 0)
    return r;
  fp_addr_format (addr, text);
  r = ask_why (c, fp_ctl_lookup (c, q, &reply, soon ()), error);
  ask_end (c);
  if (r < 0 && r != -ENOENT)
    return r;
  if (r == 0 && v->nr_places > 0 && !fp_uuid_is_nil (&v->entry.uuid) &&
      !fp_uuid_eq (&v->entry.uuid, &reply.volume.uuid)) {
    char a[FP_UUID_STR_MAX], b[FP_UUID_STR_MAX];

    fp_uuid_format (&v->entry.uuid, a);
    fp_uuid_format (&reply.volume.uuid, b);
    return fp_fail (error, -ENOTUNIQ,
                    "two volumes have this name, %s and %s: use the UUID", a,
                    b);
  }
  p = place_of (v, &hello.server);
  if (!p)
    return fp_fail (error, -EPROTO, "too many servers");
  p->named |= named;
  if (p->answers)
    return 0; /* by another address */
  snprintf (p->addr, sizeof p->addr, "%s", text);
  p->answers = true;
  p->has_it = r == 0;
  if (r < 0)
    return 0;
  if (fp_uuid_is_nil (&v->entry.uuid))
    v->entry = reply.volume;
  if (reply.volume.attached) {
    v->entry.attached = true;
    v->entry.since = reply.volume.since;
    memcpy (v->entry.client, reply.volume.client, sizeof v->entry.client);
  }
  p->attached = reply.volume.attached;
  p->slabs = reply.volume.slabs;
  p->extents = reply.volume.extents;
  v->slabs += p->slabs;
  if (reply.epoch > v->epoch)
    v->epoch = reply.epoch;
  if (reply.members.version > members->version)
    *members = reply.members;
  return 0;
}

/* Ask a member, unless it was asked before.  Note if it does not answer. */
static int
look_at_member (struct volume_view *v, const struct fp_member *m,
                const struct fp_lookup *q, struct fp_members *members,
                struct fp_error *error)
{
  struct volume_place *p = place_of (v, &m->server);
  struct fp_addr addr;
  const char *reason;
  int r;

  if (!p)
    return fp_fail (error, -EPROTO, "too many servers");
  if (p->answers)
    return 0;
  snprintf (p->addr, sizeof p->addr, "%s", m->addr);
  if (fp_addr_parse (&addr, m->addr, &reason) < 0)
    r = fp_fail (error, -EINVAL, "%s", reason);
  else if (!fp_tls_may_ask (&addr))
    r = fp_fail (error, -EACCES,
                 "not asked: with tls=require a Unix socket is trusted only "
                 "if you name it");
  else
    r = look (v, &addr, false, q, members, error);
  if (r == -ENOTUNIQ)
    return r;
  p = place_of (v, &m->server);
  if (!p->answers && r < 0)
    p->error = *error;
  else if (!p->answers)
    fp_fail (&p->error, 0, "another server answers at this address");
  return 0;
}

int
volumes_find (struct volume_view *v, const char *name,
              const struct fp_addr *addrs, unsigned n,
              void (*silent) (const char *addr, const struct fp_error *error),
              struct fp_error *error)
{
  static struct fp_members members;
  struct fp_lookup q = { .name = "" };
  bool known = false, answered = false;
  int r = 0, failed = 0;

  *v = (struct volume_view) { .nr_places = 0 };
  members = (struct fp_members) { .version = 0 };
  if (fp_uuid_parse (&q.volume, name) < 0) {
    q.volume = (struct fp_uuid) { { 0 } };
    snprintf (q.name, sizeof q.name, "%s", name);
  }
  for (unsigned i = 0; i < n; i++) {
    char text[FP_ADDR_MAX + 1];

    r = look (v, &addrs[i], true, &q, &members, error);
    if (r == -ENOTUNIQ)
      return r;
    answered |= r == 0;
    if (r < 0) {
      fp_addr_format (&addrs[i], text);
      if (silent && n > 1)
        silent (text, error);
      failed = fp_fail_in (error, r, "%s", text);
    }
  }
  known = !fp_uuid_is_nil (&v->entry.uuid);
  if (!known)
    return failed < 0 && !answered
               ? failed
               : fp_fail (error, -ENOENT,
                          "volume %s not found on these servers", name);
  q = (struct fp_lookup) { .volume = v->entry.uuid };
  for (uint32_t i = 0; i < members.count; i++) {
    const struct fp_member member = members.members[i];
    uint64_t version = members.version;

    r = look_at_member (v, &member, &q, &members, error);
    if (r < 0)
      return r;
    /* The member has a newer list, with other members: start over. */
    if (members.version != version)
      i = UINT32_MAX;
  }
  v->version = members.version;
  for (uint32_t i = 0; i < members.count; i++) {
    struct volume_place *p = place_of (v, &members.members[i].server);

    if (!p)
      continue;
    p->member = true;
    p->current = members.members[i].current;
    memcpy (p->domain, members.members[i].domain, sizeof p->domain);
  }
  for (unsigned i = 0; i < v->nr_places; i++) {
    struct volume_place *p = &v->places[i];

    p->left = p->has_it && !p->member && members.version > 0;
  }
  count_missing (v, members.count);
  return 0;
}

int
volumes_delete (const struct volume_view *v, const struct volume_place *p,
                struct fp_error *error)
{
  const struct fp_delete q = { .volume = v->entry.uuid };
  struct fp_hello_reply hello;
  struct fp_addr addr;
  const char *reason;
  struct fp_ctl *c;
  int r;

  if (fp_addr_parse (&addr, p->addr, &reason) < 0)
    return fp_fail (error, -EINVAL, "%s", reason);
  r = ask_begin (&c, &addr, &hello, error);
  if (r < 0)
    return r;
  if (!fp_uuid_eq (&hello.server, &p->server))
    r = fp_fail (error, -ESTALE, "another server answers at this address now");
  else
    r = ask_why (c, fp_ctl_delete (c, &q, soon ()), error);
  ask_end (c);
  return r;
}
