/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl_int.h - what ctl_channel.c, the socket, and ctl_calls.c, the messages,
 * know of each other, and ctl_tls.c, what comes before them.  A call is begin;
 * encode; exchange; decode; finish.
 */

#ifndef FP_CTL_INT_H
#define FP_CTL_INT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/messages.h"
#include "transport/ctl_channel.h"
#include "transport/tls.h"

#define FP_CTL_WHY_MAX 400

struct fp_ctl {
  int fd;
  struct fp_tls_session *tls; /* NULL: in clear */
  bool is_unix;
  bool is_local; /* what is said does not leave this machine */
  bool broken;
  bool passes_fds; /* the volume was opened for shm */
  uint32_t sequence;

  /* Of the exchange that is running. */
  const char *asking; /* name of the request */
  uint64_t started_ns, deadline_ns;
  struct fp_header header; /* of the reply */
  int fds[FP_MAX_GRANTS];  /* received and not yet handed out */
  unsigned nr_fds;

  char why[FP_CTL_WHY_MAX];
  uint8_t buf[FP_HEADER_SIZE + FP_BODY_MAX];
};

/* Say why, and that there is no going on.  Returns err. */
__attribute__ ((__format__ (__printf__, 3, 4))) int fp_ctl_broken (
    struct fp_ctl *c, int err, const char *fmt, ...);

/* The deadline of what is being done has passed: say so.  -ETIMEDOUT. */
int fp_ctl_timed_out (struct fp_ctl *c);
int fp_ctl_wait (int fd, short events, uint64_t deadline_ns);

/* TLS on the socket, to whoever is at host, if this process is to use it
 * there. 1: there is nobody who speaks it; connect again, and do without.
 */
int fp_ctl_start_tls (struct fp_ctl *c, const char *host);
void fp_ctl_end_tls (struct fp_ctl *c);

void fp_ctl_begin (struct fp_ctl *c, struct fp_writer *w);

/* Send what was encoded since begin and receive the reply.  0: it is OK,
 * and r reads its body.
 */
int fp_ctl_exchange (struct fp_ctl *c, unsigned type, struct fp_writer *w,
                     struct fp_reader *r, uint64_t deadline_ns);

/* The body was decoded with dec; the reply came with as many fds as it
 * should.  Hands them out.
 */
int fp_ctl_finish (struct fp_ctl *c, int dec, unsigned want_fds, int *fds);

#endif /* FP_CTL_INT_H */
