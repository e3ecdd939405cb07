/* SPDX-License-Identifier: BSD-3-Clause */
/* memclient_volumes.c - memclient's words about volumes with a name. */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memclient.h"

void
volume_by_id (struct fp_uuid *out, unsigned id)
{
  memset (out, 0, sizeof *out);
  out->bytes[0] = (uint8_t) (id + 1);
}

static void
print_entry (const struct fp_volume_entry *e)
{
  printf ("id=%d name=%s size=%llu slab=%llu copies=%u "
          "stripe=%ux%llu slabs=%llu ephemeral=%d attached=%d client=%s",
          e->uuid.bytes[0] - 1, e->name, (unsigned long long) e->size,
          (unsigned long long) e->slab_size, e->copies, e->stripe.width,
          (unsigned long long) e->stripe.size, (unsigned long long) e->slabs,
          e->ephemeral, e->attached, e->client);
}

static int
lookup (const struct fp_lookup *q)
{
  static struct fp_lookup_reply p;
  int r = fp_ctl_lookup (ctl, q, &p, deadline ());

  if (r < 0)
    return r;
  print_entry (&p.volume);
  printf (" epoch=%llu version=%llu members=%u\n",
          (unsigned long long) p.epoch, (unsigned long long) p.members.version,
          p.members.count);
  return p.volume.created == 0 || p.volume.since == 0 ? -EBADMSG : 0;
}

/* Set members: the first is this server, and the last one is not current. */
static int
set_members (const char *args)
{
  static struct fp_members q;
  unsigned long long version;

  memset (&q, 0, sizeof q);
  if (sscanf (args, "%llu:%u", &version, &q.count) != 2 ||
      q.count > FP_MAX_MEMBERS)
    return -EINVAL;
  q.version = version;
  for (uint32_t i = 0; i < q.count; i++) {
    q.members[i].server = server.server;
    q.members[i].server.bytes[15] ^= (uint8_t) i;
    fp_addr_format (&addr, q.members[i].addr);
    q.members[i].current = i == 0 || i + 1 < q.count;
  }
  return fp_ctl_members (ctl, &q, deadline ());
}

/* Set the members that are named, all of them current. */
static int
set_roster (const char *args)
{
  static struct fp_members q;
  unsigned long long version;
  char *list, *m, *save;
  int r = 0;

  if (sscanf (args, "%llu:", &version) != 1)
    return -EINVAL;
  q = (struct fp_members) { .version = version };
  list = strdup (strchr (args, ':') + 1);
  if (list == NULL)
    return -ENOMEM;
  for (m = strtok_r (list, ",", &save); r == 0 && m != NULL;
       m = strtok_r (NULL, ",", &save)) {
    struct fp_member *to = &q.members[q.count++];
    char *at = strchr (m, '@');

    if (at == NULL || q.count > FP_MAX_MEMBERS)
      r = -EINVAL;
    else {
      *at = '\0';
      snprintf (to->addr, sizeof to->addr, "%s", at + 1);
      to->current = true;
      r = fp_uuid_parse (&to->server, m);
    }
  }
  free (list);
  return r < 0 ? r : fp_ctl_members (ctl, &q, deadline ());
}

static int
map (const char *args)
{
  struct fp_map_change q = { .count = 0 };
  unsigned long long from, to;
  unsigned exist;

  if (sscanf (args, "%u:%llu-%llu", &exist, &from, &to) != 3 || from > to ||
      to - from >= FP_MAX_GRANTS)
    return -EINVAL;
  q.exist = exist != 0;
  while (from <= to)
    q.extents[q.count++] = from++;
  return fp_ctl_map (ctl, &q, deadline ());
}

/* Read as many words of the map as possible, from an extent on.  Check that
 * the first is `word`, and that the others are 0.
 */
static int
expect_map (const char *args)
{
  static struct fp_map_words p;
  struct fp_map_read q = { .count = FP_MAP_WORDS };
  unsigned long long start, word;
  int r;

  if (sscanf (args, "%llu:%llx", &start, &word) != 2)
    return -EINVAL;
  q.start = start;
  r = fp_ctl_map_read (ctl, &q, &p, deadline ());
  if (r < 0)
    return r;
  for (uint32_t i = 0; i < p.count; i++) {
    if (p.words[i] == (i == 0 ? word : 0))
      continue;
    fprintf (stderr, "memclient: word %u of the map is %llx\n", i,
             (unsigned long long) p.words[i]);
    return -EBADMSG;
  }
  return 0;
}

static int
map_write (const char *args)
{
  static struct fp_map_words q;
  unsigned long long start, word;

  if (sscanf (args, "%llu:%llx", &start, &word) != 2)
    return -EINVAL;
  memset (&q, 0, sizeof q);
  q.start = start;
  q.count = 1;
  q.words[0] = word;
  return fp_ctl_map_write (ctl, &q, deadline ());
}

static int
delete_volume (unsigned id)
{
  struct fp_delete q;

  volume_by_id (&q.volume, id);
  return fp_ctl_delete (ctl, &q, deadline ());
}

static int
volumes (void)
{
  static struct fp_volumes p;
  struct fp_volumes_req q = { .start = 0 };

  do {
    int r = fp_ctl_volumes (ctl, &q, &p, deadline ());

    if (r < 0)
      return r;
    for (uint32_t i = 0; i < p.count; i++) {
      print_entry (&p.volumes[i]);
      putchar ('\n');
    }
    q.start += p.count;
  } while (p.count > 0);
  printf ("volumes=%u of %u\n", q.start, p.total);
  return 0;
}

int
volume_word (const char *word, size_t len, const char *args, bool *known)
{
  struct fp_lookup by = { .name = "" };

#define IS(w) (len == strlen (w) && strncmp (word, w, len) == 0)
  *known = true;
  if (IS ("volumes"))
    return volumes ();
  *known = args != NULL;
  if (!args)
    return 0;
  if (IS ("lookup")) {
    snprintf (by.name, sizeof by.name, "%s", args);
    return lookup (&by);
  }
  if (IS ("lookup-id")) {
    volume_by_id (&by.volume, (unsigned) strtoul (args, NULL, 0));
    return lookup (&by);
  }
  if (IS ("members"))
    return set_members (args);
  if (IS ("roster"))
    return set_roster (args);
  if (IS ("map"))
    return map (args);
  if (IS ("expect-map"))
    return expect_map (args);
  if (IS ("map-write"))
    return map_write (args);
  if (IS ("delete"))
    return delete_volume ((unsigned) strtoul (args, NULL, 0));
#undef IS
  *known = false;
  return 0;
}
