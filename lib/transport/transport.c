/* SPDX-License-Identifier: BSD-3-Clause */
/* transport.c - find a transport. */

#include <config.h>

#include "transport/fake.h"
#include "transport/transport.h"
#ifdef HAVE_RDMA
#include "transport/verbs_client.h"
#endif

static const struct fp_transport_ops *const transports[] = {
#ifdef HAVE_RDMA
  &fp_transport_rdma,
#endif
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

unsigned
fp_transports_available (void)
{
  unsigned set = 0;

  for (size_t i = 0; i < sizeof transports / sizeof transports[0]; i++) {
    const char *why;

    if (transports[i]->bit != FP_TRANSPORT_FAKE &&
        transports[i]->available (&why) == 0)
      set |= transports[i]->bit;
  }
  return set;
}
