/* SPDX-License-Identifier: BSD-3-Clause */

#include <config.h>

#include "front/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "front/params.h"

static const struct {
  const char *word;
  enum fp_request_kind kind;
} words[] = {
  { "status", FP_REQUEST_STATUS }, { "metrics", FP_REQUEST_METRICS },
  { "drain", FP_REQUEST_DRAIN },   { "drain-cancel", FP_REQUEST_DRAIN_CANCEL },
  { "add", FP_REQUEST_ADD },       { "remove", FP_REQUEST_REMOVE },
  { "check", FP_REQUEST_CHECK },   { "check-cancel", FP_REQUEST_CHECK_CANCEL },
};
#define NR_WORDS (sizeof words / sizeof words[0])

const char *
fp_request_name (enum fp_request_kind kind)
{
  for (size_t i = 0; i < NR_WORDS; i++)
    if (words[i].kind == kind)
      return words[i].word;
  return "";
}

bool
fp_request_has_server (enum fp_request_kind kind)
{
  return kind == FP_REQUEST_DRAIN || kind == FP_REQUEST_DRAIN_CANCEL ||
         kind == FP_REQUEST_ADD || kind == FP_REQUEST_REMOVE;
}

static int
parse_rate (struct fp_request *q, const char *rate, struct fp_error *error)
{
  const char *reason = "";

  if (rate == NULL || fp_parse_size (rate, &q->rate, &reason) == 0)
    return 0;
  return fp_fail (error, -EINVAL, "rate %s: %s", rate, reason);
}

/* Parse the arguments of a check: "repair", a rate, both or none. */
static int
parse_check (struct fp_request *q, const char *a, const char *b,
             struct fp_error *error)
{
  q->repair = a != NULL && strcmp (a, "repair") == 0;
  if (!q->repair && b != NULL)
    return fp_fail (error, -EINVAL, "check: too many arguments");
  return parse_rate (q, q->repair ? b : a, error);
}

static int
parse_arguments (struct fp_request *q, char *addr, char *rate,
                 struct fp_error *error)
{
  const char *reason = "missing";
  int r;

  if (q->kind == FP_REQUEST_CHECK)
    return parse_check (q, addr, rate, error);
  if (q->kind == FP_REQUEST_ADD && addr != NULL)
    return fp_params_server (&q->addr, q->domain, "server", addr, error);
  r = addr == NULL ? -EINVAL : fp_addr_parse (&q->addr, addr, &reason);
  if (r < 0)
    return fp_fail (error, -EINVAL, "server %s: %s", addr == NULL ? "" : addr,
                    reason);
  return parse_rate (q, rate, error);
}

/* Return true if the request takes no arguments. */
static bool
is_bare (enum fp_request_kind kind)
{
  return kind == FP_REQUEST_STATUS || kind == FP_REQUEST_METRICS ||
         kind == FP_REQUEST_CHECK_CANCEL;
}

int
fp_request_parse (struct fp_request *q, const char *line,
                  struct fp_error *error)
{
  char copy[FP_REQUEST_MAX], *save, *word, *addr, *rate, *more;

  memset (q, 0, sizeof *q);
  if (strlen (line) >= sizeof copy)
    return fp_fail (error, -EINVAL, "the request is too long");
  memcpy (copy, line, strlen (line) + 1);
  word = strtok_r (copy, " \r", &save);
  addr = word == NULL ? NULL : strtok_r (NULL, " \r", &save);
  rate = addr == NULL ? NULL : strtok_r (NULL, " \r", &save);
  more = rate == NULL ? NULL : strtok_r (NULL, " \r", &save);
  for (size_t i = 0; word != NULL && i < NR_WORDS; i++) {
    if (strcmp (word, words[i].word) != 0)
      continue;
    q->kind = words[i].kind;
    if (more != NULL || (is_bare (q->kind) && addr != NULL) ||
        (q->kind != FP_REQUEST_DRAIN && q->kind != FP_REQUEST_CHECK &&
         rate != NULL))
      return fp_fail (error, -EINVAL, "%s: too many arguments", word);
    return is_bare (q->kind) ? 0 : parse_arguments (q, addr, rate, error);
  }
  return fp_fail (error, -EINVAL, "no such request: %s",
                  word == NULL ? "" : word);
}

/* Find the index of the server q->addr in the volume. */
static int
find_server (const struct fp_request *q, struct fp_volume *v, unsigned *out,
             struct fp_error *error)
{
  char wanted[FP_ADDR_MAX + 1];
  struct fp_volume_status vs;

  fp_volume_status (v, &vs);
  for (unsigned i = 0; i < vs.nr_servers; i++) {
    struct fp_server_status s;
    struct fp_addr a;

    fp_volume_server_status (v, i, &s);
    if (!s.gone && fp_addr_parse (&a, s.addr, NULL) == 0 &&
        fp_addr_eq (&a, &q->addr)) {
      *out = i;
      return 0;
    }
  }
  fp_addr_format (&q->addr, wanted);
  return fp_fail (error, -ENOENT, "%s is not a server of this volume", wanted);
}

int
fp_request_run (const struct fp_request *q, struct fp_volume *v,
                struct fp_error *error)
{
  unsigned server;
  int r;

  if (q->kind == FP_REQUEST_CHECK)
    return fp_volume_check (v, q->repair, q->rate, error);
  if (q->kind == FP_REQUEST_CHECK_CANCEL)
    return fp_volume_check_cancel (v, error);
  if (q->kind == FP_REQUEST_ADD) {
    struct fp_server_name name = { .addr = q->addr };

    memcpy (name.domain, q->domain, sizeof name.domain);
    return fp_volume_add_server (v, &name, error);
  }
  r = find_server (q, v, &server, error);
  if (r < 0)
    return r;
  if (q->kind == FP_REQUEST_REMOVE)
    return fp_volume_remove_server (v, server, error);
  if (q->kind == FP_REQUEST_DRAIN)
    return fp_volume_drain (v, server, q->rate, error);
  return fp_volume_drain_cancel (v, server, error);
}
