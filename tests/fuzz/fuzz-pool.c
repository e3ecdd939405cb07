/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-pool.c - parse the file of a pool, as the plugin does for pool=PATH. */

#include <config.h>

#include <string.h>

#include "base/error.h"
#include "front/params.h"
#include "fuzz.h"

const char fuzz_name[] = "fuzz-pool";
const unsigned fuzz_runs = 20000;

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static struct fp_params p;
  struct fp_error error = { .text = "" };

  fp_params_init (&p);
  if (fp_params_set (&p, "pool", fuzz_file (data, size), &error) < 0) {
    FUZZ_CHECK (error.text[0] != '\0' &&
                memchr (error.text, '\0', sizeof error.text) != NULL);
    return 0;
  }
  FUZZ_CHECK (p.volume.nr_servers > 0);
  FUZZ_CHECK (p.volume.nr_servers <= FP_MAX_SERVERS);
  if (fp_params_set (&p, "size", "1G", &error) == 0 &&
      fp_params_complete (&p, &error) < 0)
    FUZZ_CHECK (error.text[0] != '\0');
  return 0;
}

size_t
fuzz_seed (unsigned nr, uint8_t *out)
{
  static const char *const files[] = {
    ("server = donor-1\nserver=donor-2:1,domain=r1\nslab = 64M\n"
     "transport = tcp\ntimeout = 500\n"),
    "# nothing\n\n; nor here\nserver: [::1]:7471\n",
    "\xef\xbb\xbfserver = unix:/run/a ; why not\n continued\n",
    "[pool]\nserver = a\n",
    "slab = 3\ntimeout\n",
  };

  if (nr >= sizeof files / sizeof files[0])
    return 0;
  memcpy (out, files[nr], strlen (files[nr]));
  return strlen (files[nr]);
}
