/* SPDX-License-Identifier: BSD-3-Clause */
/* use_card.c - put the simulated card in the place of shm, in the program or
 * plugin that is linked with this file.
 */

#include <config.h>

#include <stdio.h>

#include "sim/card.h"

static void __attribute__ ((constructor)) use_card (void)
{
  fp_transport_replace (&sim_card);
  fprintf (stderr, "transport=shm is a simulated card: it moves no data\n");
}
