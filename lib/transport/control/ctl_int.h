/* SPDX-License-Identifier: BSD-3-Clause */
/* ctl_int.h - internals shared by ctl_channel.c (socket), ctl_calls.c
 * (messages) and ctl_tls.c (TLS handshake).  A call is begin; encode;
 * exchange; decode; finish.
 */

#ifndef FP_CTL_INT_H
#define FP_CTL_INT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/messages.h"
#include "transport/control/ctl_channel.h"
#include "transport/tls/tls.h"

#define FP_CTL_WHY_MAX 400

struct fp_ctl {
  int fd;
  struct fp_tls_session *tls; /* NULL: no encryption */
  bool is_unix;
  bool is_local; /* the data does not leave this machine */
  bool broken;
  bool passes_fds; /* the volume was opened for shm */
  uint32_t sequence;

  /* State of the running exchange. */
  const char *asking; /* request's name */
  uint64_t started_ns, deadline_ns;
  struct fp_header header; /* the reply's */
  int fds[FP_MAX_GRANTS];  /* received and not yet handed out */
  unsigned nr_fds;

  char why[FP_CTL_WHY_MAX];
  uint8_t buf[FP_HEADER_SIZE + FP_BODY_MAX];
};

/* Record the reason and mark the channel as broken.  Return err. */
__attribute__ ((__format__ (__printf__, 3, 4))) int fp_ctl_broken (
    struct fp_ctl *c, int err, const char *fmt, ...);

/* Report that the running step missed its deadline.  Return -ETIMEDOUT. */
int fp_ctl_timed_out (struct fp_ctl *c);
int fp_ctl_wait (int fd, short events, uint64_t deadline_ns);

/* Start TLS with the server at host, if this process uses TLS there.  Return 1
 * if the server does not speak TLS and need not: then connect again and use no
 * TLS.
 */
int fp_ctl_start_tls (struct fp_ctl *c, const char *host);
void fp_ctl_end_tls (struct fp_ctl *c);

void fp_ctl_begin (struct fp_ctl *c, struct fp_writer *w);

/* Send the request encoded since begin, and receive the reply.  Return 0 if
 * its status is OK; r then reads its body.
 */
int fp_ctl_exchange (struct fp_ctl *c, unsigned type, struct fp_writer *w,
                     struct fp_reader *r, uint64_t deadline_ns);

/* Fail if decoding did (dec < 0), or if the reply did not carry want_fds
 * descriptors.  Else move the descriptors to fds.
 */
int fp_ctl_finish (struct fp_ctl *c, int dec, unsigned want_fds, int *fds);

#endif /* FP_CTL_INT_H */
