/* SPDX-License-Identifier: BSD-3-Clause */
/* ask_server.h - a tool's short session with one memory server: HELLO, some
 * questions, BYE.
 *
 * Errors:   0, or a negative errno value and the sentence in error.  Print it
 *           after the server's address.
 */

#ifndef FARPAGE_ASK_SERVER_H
#define FARPAGE_ASK_SERVER_H

#include "base/error.h"
#include "transport/control/ctl_channel.h"

#define ASK_MS 5000 /* per question */

/* Parse the ADDR of ADDR[,domain=NAME], and ignore the domain.  -EINVAL: ADDR
 * is not valid.
 */
int ask_parse (struct fp_addr *addr, const char *text, struct fp_error *error);

int ask_begin (struct fp_ctl **out, const struct fp_addr *addr,
               struct fp_hello_reply *hello, struct fp_error *error);

/* If r, the result of a question, is negative, set error to its reason. Return
 * r.
 */
int ask_why (const struct fp_ctl *c, int r, struct fp_error *error);

void ask_end (struct fp_ctl *c);

/* A memory server's answers about itself. */
struct ask_answer {
  struct fp_hello_reply hello;
  struct fp_stat_reply stat;
  struct fp_drain_reply drain;
};

/* Fill in a with the server's answers, in a session of its own. */
int ask_all (const struct fp_addr *addr, struct ask_answer *a,
             struct fp_error *error);

#endif /* FARPAGE_ASK_SERVER_H */
