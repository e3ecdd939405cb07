/* SPDX-License-Identifier: BSD-3-Clause */
/* scenario.h - faults at given times, from a file of scenarios:
 *
 *   # a comment
 *   [NAME] what is played
 *   --donors 3 --copies 2         One line of options of simulate.
 *   1 6 donor killed 0            Begin and end in s, a fault, a donor.
 *   2.5 - client killed           A fault without an end and a donor.
 *
 * Times count from the first attach.  Begin and length are up to 40 ms longer,
 * by the seed, so that each seed hits other moments.  A fault that cannot
 * begin, because its donor or the client is not there, begins as soon as it
 * can.  After 60 s the run fails.
 *
 * Threads:  the first one.
 */

#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include <stdbool.h>

/* Read a scenario, FILE:NAME.  Append its options to argv, and return the new
 * argc, at most max.  Exit with status 2 if something is wrong.
 */
int scenario_read (const char *source, int argc, char *argv[], int max);

/* Check that all donors are below nr.  Exit with status 2 if one is not. */
void scenario_check (unsigned nr);

/* Do faults_pass, and begin what is due.  Return true while a fault has still
 * to begin or to end.
 */
bool scenario_step (void);

/* Return how many faults began. */
unsigned scenario_faults (void);

#endif /* SIM_SCENARIO_H */
