/* SPDX-License-Identifier: BSD-3-Clause */
/* donors.c - see donors.h. */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/log.h"
#include "memserver/pool/mailbox.h"
#include "memserver/server.h"
#include "memserver/server_stop.h"
#include "memserver/session/drain.h"
#include "sim/donors.h"
#include "sim/net.h"
#include "sim/nic.h"
#include "sim/system.h"
#include "sim/threads.h"

#define PLENTY (SYSTEM_MEMORY / 2)

/* Things to do on the loop's thread. */
enum order { STOP, RESTART, DRAIN, UNDRAIN };

/* One process. */
struct process {
  struct note note;
  enum order order;
  unsigned donor, host;
  struct options options;
  struct server server;
  bool running;
};

static struct donor {
  unsigned slabs;
  char dir[16];
  int64_t date_s;
  struct process *process; /* NULL: down */
} donors[DONORS_MAX];
static unsigned nr_donors, nr_started;
static char home[256];

static void
must (bool ok, const char *what)
{
  if (ok)
    return;
  fprintf (stderr, "donors: %s: %s\n", what, strerror (errno));
  abort ();
}

/* ---- the process ---- */

static void *
run (void *arg)
{
  struct process *p = arg;
  struct fp_error error;
  int r;

  r = server_start (&p->server, &p->options, &error);
  if (r < 0) {
    fprintf (stderr, "donors: donor %u does not start: %s: %s\n", p->donor,
             strerror (-r), error.text);
    abort ();
  }
  p->running = true;
  (void) server_run (&p->server);
  p->running = false;
  server_end (&p->server);
  /* As if the process had ended: its name and its memory are free. */
  net_kill (p->host, true);
  nic_kill (p->host, true);
  if (donors[p->donor].process == p)
    donors[p->donor].process = NULL;
  fp_log (FP_LOG_INFO, "the process has ended");
  return NULL;
}

static void
obey (struct note *note)
{
  struct process *p =
      (struct process *) ((char *) note - offsetof (struct process, note));

  switch (p->order) {
  case STOP:
    stop_request (p->server.stop, STOP_FOR_GOOD);
    break;
  case RESTART:
    stop_request (p->server.stop, STOP_FOR_RESTART);
    break;
  case DRAIN:
    if (p->server.sessions.drain == DRAIN_NOT)
      drain_move (&p->server.sessions, DRAIN_ASKED);
    break;
  case UNDRAIN:
    if (p->server.sessions.drain == DRAIN_ASKED)
      drain_move (&p->server.sessions, DRAIN_NOT);
    break;
  }
}

static void
give_order (unsigned i, enum order order)
{
  struct process *p = donors[i].process;

  if (p == NULL || !p->running)
    return;
  if (!p->note.waiting) {
    p->order = order;
    mailbox_post (p->server.mailbox, &p->note);
  }
  /* In the same moment the last one counts, but a server that was told to stop
   * does so.
   */
  else if (p->order != STOP && p->order != RESTART)
    p->order = order;
}

/* ---- files ---- */

/* Remove what is in a directory: the lock alone, or everything. */
static void
empty (const char *dir, bool lock_only)
{
  DIR *d = opendir (dir);
  struct dirent *e;

  if (d == NULL)
    return;
  while ((e = readdir (d)) != NULL)
    if (e->d_name[0] != '.' && (!lock_only || strcmp (e->d_name, "lock") == 0))
      must (unlinkat (dirfd (d), e->d_name, 0) == 0, "unlink");
  closedir (d);
}

/* ---- all of them ---- */

void
donor_start (unsigned i, bool with_memory)
{
  struct donor *d = &donors[i];
  struct process *p = calloc (1, sizeof *p);
  pthread_t thread;

  must (p != NULL && d->process == NULL, "start");
  /* A process that was killed still has the file open here. */
  empty (d->dir, with_memory);
  p->note.run = obey;
  p->donor = i;
  p->host = sim_host_new ();
  p->options = (struct options) {
    .size = d->slabs * DONORS_SLAB,
    .slab = DONORS_SLAB,
    .reserve_given = true,
    .reserve = SYSTEM_MEMORY / 16,
    .nr_listen = 1,
    .listen = { donor_addr (i) },
    .insecure = true,
    .hugepages = HUGEPAGES_OFF,
    .numa = -1,
    .lease_s = DONORS_LEASE_S,
    .orphan_s = 3600,
    .drain_s = 20,
    .log_level = FP_LOG_INFO,
  };
  snprintf (p->options.name, sizeof p->options.name, "donor%u", i);
  snprintf (p->options.backing, sizeof p->options.backing, "%s", d->dir);
  system_memory (p->host, PLENTY);
  system_date (p->host, d->date_s);
  net_join (p->host, i + 1);
  d->process = p;
  nr_started++;
  /* A thread begins on the host of the one that creates it. */
  sim_host_enter (p->host);
  must (pthread_create (&thread, NULL, run, p) == 0 &&
            pthread_detach (thread) == 0,
        "thread");
  sim_host_enter (0);
}

void
donor_kill (unsigned i, bool power)
{
  struct process *p = donors[i].process;

  if (p == NULL)
    return;
  donors[i].process = NULL;
  sim_host_kill (p->host);
  net_kill (p->host, power);
  nic_kill (p->host, power);
}

void
donor_stop (unsigned i, bool for_good)
{
  give_order (i, for_good ? STOP : RESTART);
}

void
donor_drain (unsigned i, bool drain)
{
  give_order (i, drain ? DRAIN : UNDRAIN);
}

void
donor_press (unsigned i, bool pressed)
{
  if (donors[i].process != NULL)
    system_memory (donors[i].process->host,
                   pressed ? SYSTEM_MEMORY / 32 : PLENTY);
}

void
donor_date (unsigned i, int64_t seconds)
{
  donors[i].date_s = seconds;
  if (donors[i].process != NULL)
    system_date (donors[i].process->host, seconds);
}

bool
donor_is_up (unsigned i)
{
  return donors[i].process != NULL;
}

unsigned
donor_host (unsigned i)
{
  return donors[i].process != NULL ? donors[i].process->host : 0;
}

bool
donors_have (const struct fp_uuid *uuid)
{
  for (unsigned i = 0; i < nr_donors; i++) {
    const struct process *p = donors[i].process;

    if (p != NULL && p->running && fp_uuid_eq (&p->server.sessions.uuid, uuid))
      return true;
  }
  return false;
}

unsigned
donor_machine (unsigned i)
{
  return i + 1;
}

struct fp_addr
donor_addr (unsigned i)
{
  struct fp_addr a = { .port = FP_DEFAULT_PORT };

  snprintf (a.host, sizeof a.host, "10.0.0.%u", i + 1);
  return a;
}

unsigned
donors_started (void)
{
  return nr_started;
}

unsigned
donors_nr (void)
{
  return nr_donors;
}

void
donors_start (unsigned nr, unsigned slabs)
{
  /* The names in the trace are the same in each run. */
  const char *shm = getenv ("FARPAGE_SIM_DIR");

  snprintf (home, sizeof home, "%s/farpage-sim.XXXXXX",
            shm != NULL ? shm : "/dev/shm");
  must (mkdtemp (home) != NULL && chdir (home) == 0, home);
  nr_donors = nr;
  for (unsigned i = 0; i < nr; i++) {
    struct donor *d = &donors[i];

    d->slabs = slabs;
    snprintf (d->dir, sizeof d->dir, "donor%u", i);
    must (mkdir (d->dir, 0700) == 0, d->dir);
    donor_start (i, true);
  }
}

void
donors_end (void)
{
  for (unsigned i = 0; i < nr_donors; i++) {
    donor_kill (i, true);
    empty (donors[i].dir, false);
    must (rmdir (donors[i].dir) == 0, donors[i].dir);
  }
  must (rmdir (home) == 0, home);
}
