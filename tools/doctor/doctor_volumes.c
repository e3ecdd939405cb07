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
#include "conf/duration.h"
#include "tools/attach/front.h"
#include "tools/common/device.h"
#include "tools/doctor/doctor.h"

#define PLUGIN_TIMEOUT_MS 2000 /* unless a parameter says otherwise */

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
look_at_server (struct doctor *d, int index, const struct fp_status_doc *doc,
                const struct fp_server_status *s)
{
  if (s->state != FP_SERVER_UP)
    doctor_say (d, DOCTOR_PROBLEM,
                "see 'farpage status' and the log of that server",
                "%s: server %.100s is %s: %.150s", device_path (index).s,
                s->addr, fp_server_state_name (s->state), s->why);
  else if (plugin_server_is_stale (doc, s))
    doctor_say (d, DOCTOR_WARNING, "wait until it is up to date; look again",
                "%s: server %.100s is stale: it missed changes",
                device_path (index).s, s->addr);
  if (s->reclaim.draining)
    doctor_say (d, DOCTOR_WARNING,
                s->reclaim.why[0] != '\0'
                    ? "add a server to the volume: 'farpage servers add'"
                    : "wait until it has nothing left",
                "%s: server %.100s is being drained, and lends nothing",
                device_path (index).s, s->addr);
  else if (s->reclaim.wanted > 0)
    doctor_say (d, DOCTOR_WARNING,
                "add a server to the volume: 'farpage servers add'",
                "%s: the host of server %.100s is short of memory",
                device_path (index).s, s->addr);
}

static const char *
program_of (const struct doctor_volume *v)
{
  return front_of (v->st.index)->program;
}

static void
look_at_volume (struct doctor *d, const struct doctor_volume *v)
{
  const struct fp_status_doc *doc = v->plugin;
  int index = v->st.index;
  unsigned before = d->nr;

  if (!v->supervised)
    doctor_say (d, DOCTOR_PROBLEM,
                "stop using it, run 'farpage detach', and attach it again",
                "%s: its supervisor is dead: %s would not be restarted",
                device_path (index).s, program_of (v));
  if (!doc) {
    doctor_say (d, DOCTOR_PROBLEM, "see 'farpage status' and the log",
                "%s: no status from its plugin: %.300s", device_path (index).s,
                v->plugin_error.text);
    return;
  }
  if (doc->volume.fenced)
    doctor_say (d, DOCTOR_PROBLEM, "unmount and detach it",
                "%s: fenced: another client has taken the volume "
                "over: %.100s",
                device_path (index).s, doc->volume.fenced_by);
  else if (doc->volume.extents_lost > 0)
    doctor_say (d, DOCTOR_PROBLEM,
                "their data is gone with the server that had it: restore it",
                "%s: %" PRIu64 " extents are lost", device_path (index).s,
                doc->volume.extents_lost);
  if (doc->volume.extents_degraded > 0)
    doctor_say (d, DOCTOR_WARNING,
                "they are copied again once a server has room: 'farpage "
                "servers add'",
                "%s: %" PRIu64 " extents have fewer copies than they "
                "should",
                device_path (index).s, doc->volume.extents_degraded);
  if (doc->volume.frozen)
    doctor_say (d, DOCTOR_PROBLEM,
                "bring its servers back, then detach it and attach it again",
                "%s is frozen: too many of its servers were missing",
                device_path (index).s);
  for (unsigned i = 0; i < doc->nr_servers; i++)
    look_at_server (d, index, doc, &doc->servers[i]);
  if (d->nr == before)
    doctor_say (d, DOCTOR_OK, "", "%s", device_path (index).s);
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
      doctor_say (d, DOCTOR_UNKNOWN, "see 'farpage status'", "%s: %.300s",
                  device_path (v->st.index).s, v->state_error.text);
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
  uint64_t us = PLUGIN_TIMEOUT_MS * FP_MS;
  unsigned i;

  if (v->plugin && v->plugin->volume.timeout_ms > 0)
    return v->plugin->volume.timeout_ms;
  for (i = 0; i < v->st.nr_args; i++)
    if (strncmp (v->st.args[i], key, sizeof key - 1) == 0)
      (void) fp_parse_duration (v->st.args[i] + sizeof key - 1, FP_MS, &us);
  return us / FP_MS;
}

static void
look_at_timeouts (struct doctor *d, const struct doctor_volume *v)
{
  const struct state *st = &v->st;
  uint64_t plugin = plugin_timeout (v), kernel = 0, nbd;
  unsigned await = v->plugin ? v->plugin->volume.await_ms : 0;
  unsigned before = d->nr;
  int index = st->index;
  const char *waiter = device_is_ublk (index) ? "supervisor" : "kernel";

  /* With NBD the timeout that the kernel has counts, not the one that it was
   * given.  With ublk the supervisor has it.
   */
  if (device_is_ublk (index) ||
      doctor_read_number (d, &kernel, "/sys/block/%s/queue/io_timeout",
                          device_name (index).s) < 0)
    kernel = 0;
  nbd = kernel > 0 ? kernel : (uint64_t) st->timeout * 1000;
  if (kernel > 0 && kernel != (uint64_t) st->timeout * 1000)
    doctor_say (d, DOCTOR_WARNING, "detach it, and attach it again",
                "%s: the kernel's timeout is %" PRIu64
                " ms; 'farpage attach' set %u s",
                device_path (index).s, kernel, st->timeout);
  if (plugin * 2 > nbd)
    doctor_say (
        d, DOCTOR_PROBLEM,
        "attach it with a longer --device-timeout, or a shorter timeout= of "
        "the plugin",
        "%s: the plugin gives up on a server after %" PRIu64
        " ms, and the %s on the plugin after %" PRIu64
        " ms, which must be at least twice as long",
        device_path (index).s, plugin, waiter, nbd);
  if (await >= nbd)
    doctor_say (
        d, DOCTOR_PROBLEM,
        "attach it with a longer --device-timeout, or a shorter await= of "
        "the plugin",
        "%s: the plugin holds a request for up to %u ms, and "
        "the %s sends it again after %" PRIu64 " ms",
        device_path (index).s, await, waiter, nbd);
  if ((uint64_t) st->dead_timeout * 1000 < nbd)
    doctor_say (d, DOCTOR_PROBLEM, "attach it with a longer --dead-timeout",
                "%s: requests fail after %u s without %s, which "
                "is less than the %" PRIu64 " ms after which a request is "
                "sent again",
                device_path (index).s, st->dead_timeout, program_of (v), nbd);
  if (d->nr == before)
    doctor_say (d, DOCTOR_OK, "",
                "%s: plugin %" PRIu64 " ms, %s %" PRIu64
                " ms, without %s %u s",
                device_path (index).s, plugin, waiter, nbd, program_of (v),
                st->dead_timeout);
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
  const struct fp_volume_status *volume = &v->plugin->volume;
  char missing_str[FP_SIZE_STR_MAX], free_str[FP_SIZE_STR_MAX];
  uint64_t left = 0, missing = 0;

  for (unsigned i = 0; i < v->plugin->nr_servers; i++)
    left += v->plugin->servers[i].slabs_free;
  if (volume->extents > volume->extents_allocated)
    missing = (volume->extents - volume->extents_allocated) * volume->copies;
  if (missing <= left)
    return;
  fp_format_size (missing * volume->slab_size, missing_str);
  fp_format_size (left * volume->slab_size, free_str);
  doctor_say (d, DOCTOR_PROBLEM,
              "add a server ('farpage servers add'), or attach it with "
              "--swap, which reserves all its memory at the start",
              "%s: %s of it has no memory yet, and its servers have "
              "%s free: swapping fails when that is used up",
              device_path (v->st.index).s, missing_str, free_str);
}

static void
look_at_swap (struct doctor *d, const struct doctor_volume *v)
{
  const struct fp_status_doc *doc = v->plugin;
  uint64_t size, used, others;
  unsigned before = d->nr;
  int index = v->st.index;

  if (doctor_swap_area (d, index, &size, &used, &others) < 0)
    return;
  if (!v->st.swap)
    doctor_say (d, DOCTOR_WARNING,
                "swapoff, detach, and attach it with --swap",
                "%s was not attached for swap: it allocates memory "
                "when memory is short",
                device_path (index).s);
  if (!doc) {
    doctor_say (d, DOCTOR_UNKNOWN, "see 'farpage status'",
                "%s: no status from its plugin", device_path (index).s);
    return;
  }
  if (doc->volume.copies < 2)
    doctor_say (d, DOCTOR_WARNING,
                "attach a new volume with copies=2 and at least two servers",
                "%s has one copy: if a server dies, programs that "
                "are swapped out to it die",
                device_path (index).s);
  if (!doc->io_flusher)
    doctor_say (d, DOCTOR_WARNING,
                "give 'farpage attach' CAP_SYS_RESOURCE (in a container: "
                "--cap-add)",
                "%s: %s may wait for memory that only it can "
                "free (no PR_SET_IO_FLUSHER)",
                device_path (index).s, program_of (v));
  if (!doc->realtime)
    doctor_say (d, DOCTOR_WARNING,
                "give 'farpage attach' CAP_SYS_NICE, run 'farpage swapoff', "
                "then 'farpage swapon'",
                "%s: %s has no real-time priority, and cannot use "
                "the kernel's reserve: it may stall when memory is very short",
                device_path (index).s, program_of (v));
  if (doc->locked_bytes == 0)
    doctor_say (d, DOCTOR_PROBLEM,
                "swapoff, detach, and attach it without mlock=false",
                "%s: its %s is not locked into memory, and can be "
                "swapped out to itself",
                device_path (index).s, program_of (v));
  look_at_cover (d, v);
  if (d->nr == before)
    doctor_say (d, DOCTOR_OK, "", "%s: with %u copies", device_path (index).s,
                doc->volume.copies);
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
                  "%s: %s is swapped out, and there is room for %s: "
                  "swapoff would be refused",
                  device_path (index).s, used_str, room_str);
    else
      doctor_say (d, DOCTOR_OK, "",
                  "%s: %s is swapped out, and there is room for %s",
                  device_path (index).s, used_str, room_str);
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
                "%s: when memory is short the kernel may kill its "
                "%s (oom_score_adj %s)",
                device_path (index).s, what, line);
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
                "%s: its %s is part of a login (%.60s): a shutdown "
                "kills it while the device is in use",
                device_path (index).s, what, unit);
  else if (*unit && strncmp (unit, "farpage", 7) != 0)
    doctor_say (d, DOCTOR_WARNING,
                "attach it from a service of its own, ordered before its swap "
                "and its mounts",
                "%s: its %s is part of %.60s, and is stopped with it",
                device_path (index).s, what, unit);
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
    look_at_process (d, v, v->st.nbdkit, program_of (v), systemd);
  }
  if (d->nr == before)
    doctor_say (d, DOCTOR_OK, "", "%s",
                systemd ? "nothing kills them too early"
                        : "there is no systemd here");
}
