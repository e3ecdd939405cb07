/* SPDX-License-Identifier: BSD-3-Clause */
/* choice.c - see choice.h. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/addr.h"
#include "base/checked.h"
#include "base/size.h"
#include "tools/common/ask_server.h"
#include "tools/setup/choice.h"

int
choice_ask (struct choice *c, const char *name, struct fp_error *error)
{
  struct choice_server *s = &c->servers[c->nr];
  struct fp_hello_reply hello;
  struct fp_error reason;
  struct fp_ctl *ctl;
  struct fp_addr addr;
  int r;

  if (c->nr == FP_MAX_MEMBERS)
    return fp_fail (error, -E2BIG, "give at most %d memory servers",
                    FP_MAX_MEMBERS);
  r = ask_parse (&addr, name, error);
  if (r < 0)
    return r;
  r = ask_begin (&ctl, &addr, &hello, &reason);
  if (r < 0)
    return fp_fail (error, r, "%s: %s", name, reason.text);
  ask_end (ctl);
  for (unsigned i = 0; i < c->nr; i++)
    if (fp_uuid_eq (&c->servers[i].uuid, &hello.server))
      return fp_fail (error, -EEXIST, "%s and %s are the same memory server",
                      c->servers[i].name, name);
  *s = (struct choice_server) {
    .name = name,
    .uuid = hello.server,
    .slab = hello.slab_size,
    .total = hello.slabs_total * hello.slab_size,
    .free = hello.slabs_free * hello.slab_size,
  };
  c->nr++;
  return 0;
}

/* Return the size of the largest volume with two copies on different servers.
 * A server with more than all others together cannot use the excess.
 */
static uint64_t
room_for_two (uint64_t sum, uint64_t largest)
{
  return FP_MIN (sum / 2, sum - largest);
}

int
choice_make (struct choice *c, bool single_copy, uint64_t wanted,
             uint64_t most, struct fp_error *error)
{
  char size[FP_SIZE_STR_MAX], room[FP_SIZE_STR_MAX];
  uint64_t sum = 0, largest = 0, slab = 1;

  for (unsigned i = 0; i < c->nr; i++) {
    sum += c->servers[i].free;
    largest = FP_MAX (largest, c->servers[i].free);
    slab = FP_MAX (slab, c->servers[i].slab);
  }
  if (c->nr < 2 && !single_copy)
    return fp_fail (error, -EINVAL,
                    "one memory server can hold only one copy of each page, "
                    "which is lost with that server: give two servers, or "
                    "accept that with --single-copy");
  c->copies = single_copy ? 1 : 2;
  c->room = single_copy ? sum : room_for_two (sum, largest);
  c->room = c->room / slab * slab;
  c->size = wanted != 0 ? wanted : FP_MIN (c->room / 2, most) / slab * slab;
  if (c->size == 0 && c->room > 0)
    c->size = slab; /* at least one */
  fp_format_size (c->size, size);
  fp_format_size (c->room, room);
  if (c->room == 0)
    return fp_fail (error, -ENOSPC,
                    "the memory servers have no room for a slab with %s: "
                    "free memory there, or give more servers",
                    single_copy ? "one copy" : "two copies");
  if (c->size > c->room)
    return fp_fail (error, -ENOSPC,
                    "--size %s does not fit: the memory servers have room for "
                    "%s with %s of each page: give a smaller size, or more "
                    "servers",
                    size, room, single_copy ? "one copy" : "two copies");
  return 0;
}
