/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-control.c - parse a line from the plugin's status socket. */

#include <config.h>

#include <string.h>

#include "base/error.h"
#include "front/control.h"
#include "fuzz.h"

const char fuzz_name[] = "fuzz-control";
const unsigned fuzz_runs = 50000;

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  char line[FP_REQUEST_MAX + 1];
  struct fp_error error = { .text = "" };
  struct fp_request q;
  int r;

  /* The status thread reads no more than this. */
  if (size > FP_REQUEST_MAX)
    size = FP_REQUEST_MAX;
  memcpy (line, data, size);
  line[size] = '\0';
  r = fp_request_parse (&q, line, &error);
  FUZZ_CHECK (memchr (error.text, '\0', sizeof error.text) != NULL);
  if (r < 0)
    FUZZ_CHECK (error.text[0] != '\0');
  else {
    FUZZ_CHECK (memchr (q.domain, '\0', sizeof q.domain) != NULL);
    FUZZ_CHECK (memchr (q.addr.host, '\0', sizeof q.addr.host) != NULL);
  }
  return 0;
}

size_t
fuzz_seed (unsigned nr, uint8_t *out)
{
  static const char *const lines[] = {
    "status",
    "drain 192.0.2.1:7471",
    "drain [2001:db8::1]:7471 100M",
    "drain-cancel unix:/run/farpage.sock",
    "add donor:1,domain=rack-1",
    "remove donor",
    "drain fe80::1%eth0 1",
    "check repair 100M",
    "check-cancel",
  };

  if (nr >= sizeof lines / sizeof lines[0])
    return 0;
  memcpy (out, lines[nr], strlen (lines[nr]));
  return strlen (lines[nr]);
}
