/* SPDX-License-Identifier: BSD-3-Clause */
/* scenario.c - see scenario.h. */

#include <config.h>

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sim/client.h"
#include "sim/faults.h"
#include "sim/scenario.h"
#include "sim/simulate.h"
#include "sim/threads.h"

#define MAX_EVENTS 64u
#define JITTER_MS 40u
#define LATE_MS 60000u
#define LINE_SIZE 256u

static struct event {
  unsigned begin_ms, ms;
  int kind;
  unsigned donor;
  bool began;
} events[MAX_EVENTS];
static unsigned nr_events, nr_began;
static uint64_t attached_ns; /* 0: no client has attached yet */
static char options[LINE_SIZE];

static void __attribute__ ((format (printf, 1, 2), noreturn))
fail (const char *fmt, ...)
{
  va_list ap;

  fprintf (stderr, "simulate: --scenario: ");
  va_start (ap, fmt);
  vfprintf (stderr, fmt, ap);
  va_end (ap);
  fprintf (stderr, "\n");
  exit (2);
}

/* Read "BEGIN END FAULT [DONOR]". */
static void
read_event (const char *line)
{
  struct event *e = &events[nr_events];
  char name[64], end[32], *number;
  double begin_s, end_s;
  bool of_donor;

  if (nr_events == MAX_EVENTS)
    fail ("too many faults");
  if (sscanf (line, "%lf %31s %63[^\n]", &begin_s, end, name) != 3)
    fail ("'%s': expected BEGIN END FAULT [DONOR]", line);
  number = strrchr (name, ' ');
  if (number != NULL && number[1] >= '0' && number[1] <= '9') {
    e->donor = (unsigned) atoi (number + 1);
    *number = '\0';
  }
  else
    number = NULL;
  e->kind = faults_find (name, &of_donor);
  if (e->kind < 0)
    fail ("unknown fault '%s'", name);
  if (of_donor != (number != NULL))
    fail (of_donor ? "'%s': a donor's number is missing"
                   : "'%s': this fault takes no donor",
          line);
  end_s = strcmp (end, "-") == 0 ? begin_s : atof (end);
  if (begin_s < 0 || end_s < begin_s)
    fail ("'%s': ends before it begins", line);
  e->begin_ms = (unsigned) (begin_s * 1000);
  e->ms = (unsigned) ((end_s - begin_s) * 1000);
  nr_events++;
}

static int
add_options (int argc, char *argv[], int max)
{
  char *rest = NULL;

  for (char *word = strtok_r (options, " \n", &rest); word != NULL;
       word = strtok_r (NULL, " \n", &rest)) {
    if (argc == max)
      fail ("too many options");
    argv[argc++] = word;
  }
  return argc;
}

int
scenario_read (const char *source, int argc, char *argv[], int max)
{
  const char *name = strrchr (source, ':');
  char line[LINE_SIZE], path[LINE_SIZE], title[LINE_SIZE];
  bool found = false, here = false;
  FILE *f;

  if (name == NULL || (size_t) (name - source) >= sizeof path)
    fail ("'%s': expected FILE:NAME", source);
  snprintf (path, sizeof path, "%.*s", (int) (name - source), source);
  snprintf (title, sizeof title, "[%.200s]", name + 1);
  f = fopen (path, "re");
  if (f == NULL)
    fail ("%s: %m", path);
  while (fgets (line, sizeof line, f) != NULL) {
    line[strcspn (line, "\n")] = '\0';
    if (line[0] == '[') {
      here = strncmp (line, title, strlen (title)) == 0;
      found |= here;
    }
    else if (!here || line[0] == '#' || line[0] == '\0')
      continue;
    else if (line[0] == '-' && options[0] != '\0')
      fail ("%s: more than one line of options", title);
    else if (line[0] == '-')
      snprintf (options, sizeof options, "%s", line);
    else
      read_event (line);
  }
  fclose (f);
  if (!found)
    fail ("%s has no scenario %s", path, name + 1);
  if (nr_events == 0)
    fail ("scenario %s has no faults", name + 1);
  return add_options (argc, argv, max);
}

static void
add_jitter (struct event *e)
{
  e->begin_ms += sim_dice (JITTER_MS);
  e->ms += sim_dice (JITTER_MS);
}

void
scenario_check (unsigned nr)
{
  for (unsigned i = 0; i < nr_events; i++)
    if (events[i].donor >= nr)
      fail ("there is no donor %u", events[i].donor);
}

bool
scenario_step (void)
{
  uint64_t now = sim_now_ns ();
  unsigned waits = 0;

  faults_pass ();
  if (attached_ns == 0) {
    if (client_volume (0) == NULL && client_volume (1) == NULL)
      return true;
    attached_ns = now;
    for (unsigned i = 0; i < nr_events; i++)
      add_jitter (&events[i]);
  }
  for (unsigned i = 0; i < nr_events; i++) {
    struct event *e = &events[i];

    if (e->began)
      continue;
    waits++;
    if (now < attached_ns + e->begin_ms * FP_NS_PER_MS)
      continue;
    e->began = faults_begin (e->kind, e->donor, e->ms);
    nr_began += e->began;
    if (!e->began &&
        now > attached_ns + (e->begin_ms + LATE_MS) * FP_NS_PER_MS)
      simulation_failed ("'%s' of the scenario cannot begin",
                         faults_name (e->kind));
  }
  return waits > 0 || faults_active () > 0;
}

unsigned
scenario_faults (void)
{
  return nr_began;
}
