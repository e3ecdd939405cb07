/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor_volumes.c - attached devices: are they healthy, do their deadlines
 * nest, and will they survive pressure and shutdown?
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "tools/doctor/doctor.h"

#define PLUGIN_TIMEOUT_MS 2000 /* unless a parameter says otherwise */

static bool
yes (struct json_object *o, const char *name)
{
  return json_object_get_boolean (doctor_get (o, name));
}

static struct json_object *
volume_of (const struct doctor_volume *v)
{
  return doctor_get (v->plugin, "volume");
}

/* Return true if the state of at least one device is known.  Otherwise report
 * why there is nothing to check.
 */
static bool
any (struct doctor *d)
{
  unsigned i, known = 0;

  for (i = 0; i < d->nr_volumes; i++)
    known += d->volumes[i].state_error.text[0] == '\0';
  if (d->nr_volumes == 0)
    doctor_say (d, DOCTOR_OK, "", "nothing is attached");
  else if (known == 0)
    doctor_say (d, DOCTOR_UNKNOWN, "run this as root",
                "cannot read what is attached");
  return known > 0;
}

/* ---- health ---- */

static void
look_at_server (struct doctor *d, int index, struct json_object *s, bool named)
{
  const char *state = doctor_str (s, "state");

  if (strcmp (state, "up") != 0)
    doctor_say (d, DOCTOR_PROBLEM,
                "see 'farpage status' and the log of that server",
                "/dev/nbd%d: server %.100s is %s: %.150s", index,
                doctor_str (s, "addr"), state, doctor_str (s, "why"));
  else if (named && !yes (s, "current") && !yes (s, "joining"))
    doctor_say (d, DOCTOR_WARNING, "wait until it is up to date; look again",
                "/dev/nbd%d: server %.100s is stale: it missed changes", index,
                doctor_str (s, "addr"));
  if (doctor_num (s, "slabs_wanted") > 0)
    doctor_say (d, DOCTOR_WARNING,
                "add a server to the volume: 'farpage servers add'",
                "/dev/nbd%d: the host of server %.100s is short of memory",
                index, doctor_str (s, "addr"));
}

static void
look_at_volume (struct doctor *d, const struct doctor_volume *v)
{
  struct json_object *volume = volume_of (v);
  struct json_object *servers = doctor_get (v->plugin, "servers");
  int index = v->st.index;
  unsigned before = d->nr;
  size_t i;

  if (!v->supervised)
    doctor_say (d, DOCTOR_PROBLEM,
                "stop using it, run 'farpage detach', and attach it again",
                "/dev/nbd%d: its supervisor is dead: nbdkit would not be "
                "restarted",
                index);
  if (!v->plugin) {
    doctor_say (d, DOCTOR_PROBLEM, "see 'farpage status' and the log",
                "/dev/nbd%d: its plugin does not answer: %.200s", index,
                v->plugin_error.text);
    return;
  }
  if (yes (volume, "taken"))
    doctor_say (d, DOCTOR_PROBLEM, "unmount and detach it",
                "/dev/nbd%d: fenced: another client has taken the volume "
                "over: %.100s",
                index, doctor_str (volume, "taken_by"));
  else if (doctor_num (volume, "pieces_lost") > 0)
    doctor_say (d, DOCTOR_PROBLEM,
                "their data is gone with the server that had it: restore it",
                "/dev/nbd%d: %" PRIu64 " extents are lost", index,
                doctor_num (volume, "pieces_lost"));
  if (doctor_num (volume, "pieces_degraded") > 0)
    doctor_say (d, DOCTOR_WARNING,
                "they are copied again once a server has room: 'farpage "
                "servers add'",
                "/dev/nbd%d: %" PRIu64 " extents have fewer copies than they "
                "should",
                index, doctor_num (volume, "pieces_degraded"));
  if (yes (volume, "frozen"))
    doctor_say (d, DOCTOR_PROBLEM,
                "bring its servers back, then detach it and attach it again",
                "/dev/nbd%d is frozen: too many of its servers were missing",
                index);
  for (i = 0; servers && json_object_is_type (servers, json_type_array) &&
              i < json_object_array_length (servers);
       i++)
    look_at_server (d, index, json_object_array_get_idx (servers, i),
                    doctor_num (volume, "members_version") > 0);
  if (d->nr == before)
    doctor_say (d, DOCTOR_OK, "", "/dev/nbd%d", index);
}

void
doctor_volumes (struct doctor *d)
{
  unsigned i;

  if (!any (d))
    return;
  for (i = 0; i < d->nr_volumes; i++) {
    const struct doctor_volume *v = &d->volumes[i];

    if (*v->state_error.text)
      doctor_say (d, DOCTOR_UNKNOWN, "see 'farpage status'",
                  "/dev/nbd%d: %.300s", v->st.index, v->state_error.text);
    else
      look_at_volume (d, v);
  }
}

/* ---- deadlines ---- */

/* Return the plugin's timeout in ms.  If the plugin does not answer, return
 * the one that it was given.
 */
static uint64_t
plugin_timeout (const struct doctor_volume *v)
{
  static const char key[] = "timeout=";
  uint64_t ms = doctor_num (volume_of (v), "timeout_ms");
  unsigned i;

  if (ms > 0)
    return ms;
  ms = PLUGIN_TIMEOUT_MS;
  for (i = 0; i < v->st.nr_args; i++)
    if (strncmp (v->st.args[i], key, sizeof key - 1) == 0)
      ms = strtoull (v->st.args[i] + sizeof key - 1, NULL, 10);
  return ms;
}

static void
look_at_timeouts (struct doctor *d, const struct doctor_volume *v)
{
  const struct state *st = &v->st;
  uint64_t plugin = plugin_timeout (v), kernel = 0, nbd;
  unsigned before = d->nr;
  int index = st->index;

  /* The timeout that the kernel has counts, not the one that it was given. */
  if (doctor_read_number (d, &kernel, "/sys/block/nbd%d/queue/io_timeout",
                          index) < 0)
    kernel = 0;
  nbd = kernel > 0 ? kernel : (uint64_t) st->timeout * 1000;
  if (kernel > 0 && kernel != (uint64_t) st->timeout * 1000)
    doctor_say (d, DOCTOR_WARNING, "detach it, and attach it again",
                "/dev/nbd%d: the kernel's timeout is %" PRIu64
                " ms; 'farpage attach' set %u s",
                index, kernel, st->timeout);
  if (plugin * 2 > nbd)
    doctor_say (d, DOCTOR_PROBLEM,
                "attach it with a longer --timeout, or a shorter timeout= of "
                "the plugin",
                "/dev/nbd%d: the plugin gives up on a server after %" PRIu64
                " ms, and the kernel on the plugin after %" PRIu64
                " ms, which must be at least twice as long",
                index, plugin, nbd);
  if (doctor_num (volume_of (v), "await_ms") >= nbd)
    doctor_say (d, DOCTOR_PROBLEM,
                "attach it with a longer --timeout, or a shorter await= of "
                "the plugin",
                "/dev/nbd%d: the plugin holds a request for up to %" PRIu64
                " ms, and the kernel sends it again after %" PRIu64 " ms",
                index, doctor_num (volume_of (v), "await_ms"), nbd);
  if ((uint64_t) st->dead_timeout * 1000 < nbd)
    doctor_say (d, DOCTOR_PROBLEM, "attach it with a longer --dead-timeout",
                "/dev/nbd%d: requests fail after %u s without nbdkit, which "
                "is less than the %" PRIu64 " ms after which a request is "
                "sent again",
                index, st->dead_timeout, nbd);
  if (d->nr == before)
    doctor_say (d, DOCTOR_OK, "",
                "/dev/nbd%d: plugin %" PRIu64 " ms, kernel %" PRIu64
                " ms, without nbdkit %u s",
                index, plugin, nbd, st->dead_timeout);
}

void
doctor_timeouts (struct doctor *d)
{
  unsigned i;

  if (!any (d))
    return;
  for (i = 0; i < d->nr_volumes; i++)
    if (!*d->volumes[i].state_error.text)
      look_at_timeouts (d, &d->volumes[i]);
}

/* ---- swap ---- */

/* Report if the kernel was promised more than the servers have. */
static void
look_at_cover (struct doctor *d, const struct doctor_volume *v)
{
  struct json_object *volume = volume_of (v);
  struct json_object *servers = doctor_get (v->plugin, "servers");
  char missing_str[FP_SIZE_STR_MAX], free_str[FP_SIZE_STR_MAX];
  uint64_t slab = doctor_num (volume, "slab_size"), left = 0, missing;
  size_t i;

  for (i = 0; servers && json_object_is_type (servers, json_type_array) &&
              i < json_object_array_length (servers);
       i++)
    left += doctor_num (json_object_array_get_idx (servers, i), "slabs_free");
  missing = doctor_num (volume, "pieces");
  missing -= doctor_num (volume, "pieces_allocated") < missing
                 ? doctor_num (volume, "pieces_allocated")
                 : missing;
  missing *= doctor_num (volume, "copies") ? doctor_num (volume, "copies") : 1;
  if (missing <= left)
    return;
  fp_format_size (missing * slab, missing_str);
  fp_format_size (left * slab, free_str);
  doctor_say (d, DOCTOR_PROBLEM,
              "add a server ('farpage servers add'), or attach it with "
              "--swap, which reserves all its memory at the start",
              "/dev/nbd%d: %s of it has no memory yet, and its servers have "
              "%s free: swapping fails when that is used up",
              v->st.index, missing_str, free_str);
}

static void
look_at_swap (struct doctor *d, const struct doctor_volume *v)
{
  struct json_object *volume = volume_of (v);
  uint64_t size, used, others;
  unsigned before = d->nr;
  int index = v->st.index;

  if (doctor_swap_area (d, index, &size, &used, &others) < 0)
    return;
  if (!v->st.swap)
    doctor_say (d, DOCTOR_WARNING,
                "swapoff, detach, and attach it with --swap",
                "/dev/nbd%d was not attached for swap: it allocates memory "
                "when memory is short",
                index);
  if (volume && doctor_num (volume, "copies") < 2)
    doctor_say (d, DOCTOR_WARNING,
                "attach a new volume with copies=2 and at least two servers",
                "/dev/nbd%d has one copy: if a server dies, programs that "
                "are swapped out to it die",
                index);
  if (v->plugin && !yes (v->plugin, "io_flusher"))
    doctor_say (d, DOCTOR_WARNING,
                "give nbdkit CAP_SYS_RESOURCE (in a container: --cap-add)",
                "/dev/nbd%d: nbdkit may wait for memory that only it can "
                "free (no PR_SET_IO_FLUSHER)",
                index);
  if (v->plugin && !yes (v->plugin, "realtime"))
    doctor_say (d, DOCTOR_WARNING,
                "give nbdkit CAP_SYS_NICE, run 'farpage swapoff', then "
                "'farpage swapon'",
                "/dev/nbd%d: nbdkit has no real-time priority, and cannot use "
                "the kernel's reserve: it may stall when memory is very short",
                index);
  if (volume && doctor_num (volume, "locked_bytes") == 0)
    doctor_say (d, DOCTOR_PROBLEM,
                "swapoff, detach, and attach it without mlock=false",
                "/dev/nbd%d: its nbdkit is not locked into memory, and can be "
                "swapped out to itself",
                index);
  if (volume)
    look_at_cover (d, v);
  if (d->nr == before)
    doctor_say (d, DOCTOR_OK, "", "/dev/nbd%d: with %" PRIu64 " copies", index,
                doctor_num (volume, "copies"));
}

void
doctor_swap (struct doctor *d)
{
  unsigned i, before = d->nr;

  if (!any (d))
    return;
  for (i = 0; i < d->nr_volumes; i++)
    if (!*d->volumes[i].state_error.text)
      look_at_swap (d, &d->volumes[i]);
  if (d->nr == before)
    doctor_say (d, DOCTOR_OK, "", "no attached device is swapped to");
}

void
doctor_swap_room (struct doctor *d)
{
  char line[64], used_str[FP_SIZE_STR_MAX], room_str[FP_SIZE_STR_MAX];
  uint64_t size, used, others, available = 0;
  unsigned i, before = d->nr;

  if (!any (d))
    return;
  if (doctor_read_key (d, line, sizeof line, "/proc/meminfo",
                       "MemAvailable") == 0)
    available = strtoull (line, NULL, 10) * 1024;
  for (i = 0; i < d->nr_volumes; i++) {
    int index = d->volumes[i].st.index;

    if (doctor_swap_area (d, index, &size, &used, &others) < 0)
      continue;
    fp_format_size (used, used_str);
    fp_format_size (available + others, room_str);
    if (used > available + others)
      doctor_say (d, DOCTOR_WARNING,
                  "before a swapoff, end some programs, or add other swap",
                  "/dev/nbd%d: %s is swapped out, and there is room for %s: "
                  "swapoff would be refused",
                  index, used_str, room_str);
    else
      doctor_say (d, DOCTOR_OK, "",
                  "/dev/nbd%d: %s is swapped out, and there is room for %s",
                  index, used_str, room_str);
  }
  if (d->nr == before)
    doctor_say (d, DOCTOR_OK, "", "no attached device is swapped to");
}

/* ---- kill order ---- */

/* Get the cgroup path of a process.  Its last part is the systemd unit. */
static void
unit_of (const struct doctor *d, pid_t pid, char *path, size_t size)
{
  char file[64];

  snprintf (file, sizeof file, "/proc/%ld/cgroup", (long) pid);
  if (doctor_read_key (d, path, size, file, "0") < 0)
    path[0] = '\0';
}

static void
look_at_process (struct doctor *d, const struct doctor_volume *v, pid_t pid,
                 const char *what, bool systemd)
{
  char path[256], *unit, line[32];
  int index = v->st.index;

  if (doctor_read (d, line, sizeof line, "/proc/%ld/oom_score_adj",
                   (long) pid) == 0 &&
      atoi (line) > -900)
    doctor_say (d, DOCTOR_PROBLEM,
                "attach it as root, not in a container that may not lower "
                "oom_score_adj",
                "/dev/nbd%d: when memory is short the kernel may kill its "
                "%s (oom_score_adj %s)",
                index, what, line);
  if (!systemd)
    return;
  unit_of (d, pid, path, sizeof path);
  unit = strrchr (path, '/');
  unit = unit ? unit + 1 : path;
  if (strncmp (path, "/user.slice/", 12) == 0)
    doctor_say (d, DOCTOR_PROBLEM,
                "attach it from a systemd service that is ordered before "
                "its swap and its mounts; or swapoff and unmount before each "
                "shutdown",
                "/dev/nbd%d: its %s is part of a login (%.60s): a shutdown "
                "kills it while the device is in use",
                index, what, unit);
  else if (*unit && strncmp (unit, "farpage", 7) != 0)
    doctor_say (d, DOCTOR_WARNING,
                "attach it from a service of its own, ordered before its swap "
                "and its mounts",
                "/dev/nbd%d: its %s is part of %.60s, and is stopped with it",
                index, what, unit);
}

void
doctor_kill_order (struct doctor *d)
{
  bool systemd = doctor_exists (d, "/run/systemd/system");
  unsigned i, before = d->nr;

  if (!any (d))
    return;
  for (i = 0; i < d->nr_volumes; i++) {
    const struct doctor_volume *v = &d->volumes[i];

    if (*v->state_error.text)
      continue;
    look_at_process (d, v, v->st.supervisor, "supervisor", systemd);
    look_at_process (d, v, v->st.nbdkit, "nbdkit", systemd);
  }
  if (d->nr == before)
    doctor_say (d, DOCTOR_OK, "", "%s",
                systemd ? "nothing kills them too early"
                        : "there is no systemd here");
}
