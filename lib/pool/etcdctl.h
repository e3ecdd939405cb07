/* SPDX-License-Identifier: BSD-3-Clause */
/* etcdctl.h - run etcdctl(1), 3.4 or later, which talks to etcd.  Its settings
 * come from the environment, such as ETCDCTL_ENDPOINTS, ETCDCTL_CACERT,
 * ETCDCTL_CERT, ETCDCTL_KEY and ETCDCTL_USER.
 *
 * Errors:   0, or a negative errno value and the sentence in error.
 * Threads:  any.  A call waits at most 11 s: after 10 s etcdctl gets SIGTERM,
 *           and a second later SIGKILL.
 */

#ifndef FP_ETCDCTL_H
#define FP_ETCDCTL_H

#include <json-c/json.h>

#include "base/error.h"

/* Most words of one command. */
#define FP_ETCDCTL_WORDS 8

/* Run etcdctl with these words, the last one NULL.  If out is not NULL, *out
 * gets the JSON document that it prints; free it with json_object_put.
 * -ENOENT: there is no etcdctl.  -ETIMEDOUT.  -E2BIG: it prints more than 64
 * MiB.  -EPROTO: it prints something else.  -EIO: it failed.
 */
int fp_etcdctl (struct json_object **out, const char *const *words,
                struct fp_error *error);

#endif /* FP_ETCDCTL_H */
