/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz-config.c - parse the file of farpage-memserver --config. */

#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "fuzz.h"
#include "memserver/options.h"
#include "memserver/pool/slab.h"

const char fuzz_name[] = "fuzz-config";
const unsigned fuzz_runs = 20000;

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static struct options o;
  char program[] = "farpage-memserver", option[] = "--config", file[64];
  char *argv[] = { program, option, file, NULL };
  int r;

  strcpy (file, fuzz_file (data, size));
  fuzz_quiet (true);
  optind = 0; /* getopt starts over */
  r = options_parse (&o, 3, argv);
  fuzz_quiet (false);
  FUZZ_CHECK (r == 0 || r == -EINVAL);
  if (r < 0)
    return 0;
  FUZZ_CHECK (o.size > 0 && o.slab >= MIN_SLAB && o.size % o.slab == 0);
  FUZZ_CHECK (o.size / o.slab <= SLAB_MAX);
  FUZZ_CHECK (o.nr_listen <= MAX_LISTEN);
  FUZZ_CHECK (o.lease_s >= 1 && o.lease_s <= MAX_LEASE_S);
  FUZZ_CHECK (fp_name_ok (o.name));
  return 0;
}

size_t
fuzz_seed (unsigned nr, uint8_t *out)
{
  static const char *const files[] = {
    ("size = 1G\nslab = 64M\nname = donor\nlisten = 127.0.0.1:7471\n"
     "listen = unix:/run/m.sock\nreserve = 1G\nhugepages = auto\nnuma = 0\n"
     "lease = 30\nlog-level = debug\npidfile = /run/m.pid\n"
     "address-file = /run/m.addr\n"),
    "size=1M\nslab=64K\nbacking=/dev/shm/farpage\nhugepages=off\n"
    "insecure=true\ntls=off\n",
    "size=1M\nbacking=fdstore:\n[section]\nslab=1M\n",
    "size = 8E\nslab = 64K\n",
    "config = other\n",
    "size = 1G ; one\n  2G\n",
  };

  if (nr >= sizeof files / sizeof files[0])
    return 0;
  memcpy (out, files[nr], strlen (files[nr]));
  return strlen (files[nr]);
}
