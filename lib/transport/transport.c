/* SPDX-License-Identifier: BSD-3-Clause */
/* transport.c - find a transport. */

#include <config.h>

#include <stdatomic.h>

#include "transport/transport.h"

static const struct fp_transport_ops *transports[] = {
  &fp_transport_rdma,
  &fp_transport_shm,
  &fp_transport_tcp,
  &fp_transport_fake,
};

const struct fp_transport_ops *
fp_transport_get (unsigned transport)
{
  for (size_t i = 0; i < sizeof transports / sizeof transports[0]; i++)
    if (transports[i]->bit == transport)
      return transports[i];
  return NULL;
}

void
fp_transport_replace (const struct fp_transport_ops *by)
{
  for (size_t i = 0; i < sizeof transports / sizeof transports[0]; i++)
    if (transports[i]->bit == by->bit)
      transports[i] = by;
}

unsigned
fp_transports_available (unsigned among)
{
  static atomic_uint found;
  unsigned set = atomic_load (&found) & among;

  for (size_t i = 0; i < sizeof transports / sizeof transports[0]; i++) {
    const char *why;

    if (transports[i]->bit != FP_TRANSPORT_FAKE &&
        (transports[i]->bit & among & ~set) != 0 &&
        transports[i]->available (&why) == 0)
      set |= transports[i]->bit;
  }
  atomic_fetch_or (&found, set);
  return set;
}
