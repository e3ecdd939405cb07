# SPDX-License-Identifier: BSD-3-Clause
# Run by nbdsh: start nbdkit, and print how long it takes until the first write
# and the first read are answered. Then use 4 connections, and print nbdkit's
# locked memory, threads and descriptors.
#
# Environment:
#   NBDKIT    nbdkit's command line without the socket, a JSON array
#   SOCKET    path of the Unix socket
#   OFFSETS   where to write, in bytes; the time is that of the first one
#   OUTPUT    file for nbdkit's output
#   READS     if set: the first byte that each of OFFSETS has already

import json
import os
import signal
import subprocess
import sys
import time

import nbd

sock = os.environ["SOCKET"]
offsets = [int(i) for i in os.environ["OFFSETS"].split()]
reads = os.environ.get("READS")
argv = json.loads(os.environ["NBDKIT"])
at = argv.index("nbdkit") + 1
argv[at:at] = ["-f", "-U", sock]


def connect(until):
    while True:
        h = nbd.NBD()
        try:
            h.connect_unix(sock)
            return h
        except nbd.Error:
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                with open(os.environ["OUTPUT"]) as f:
                    sys.exit("nbdkit did not answer: " + f.read())
            time.sleep(0.001)


with open(os.environ["OUTPUT"], "w") as out:
    start = time.monotonic()
    process = subprocess.Popen(argv, stdout=out, stderr=out)
first = connect(start + 60)
if reads:
    assert first.pread(4096, offsets[0])[0] == int(reads)
first.pwrite(b"\1" * 4096, offsets[0])
assert first.pread(4096, offsets[0]) == b"\1" * 4096
ms = (time.monotonic() - start) * 1000

conns = [first] + [connect(start + 60) for i in range(3)]
for i, offset in enumerate(offsets):
    h = conns[i % 4]
    if reads and i > 0:
        assert h.pread(4096, offset)[0] == int(reads), offset
    h.pwrite(b"\1" * 4096, offset)
    assert h.pread(4096, offset) == b"\1" * 4096, offset
proc = "/proc/%d/" % process.pid
with open(proc + "status") as f:
    locked = [line.split()[1] for line in f if line.startswith("VmLck")][0]
print("ms=%.0f locked_kb=%s threads=%d descriptors=%d" %
      (ms, locked, len(os.listdir(proc + "task")), len(os.listdir(proc + "fd"))))
sys.stdout.flush()
for h in conns:
    h.shutdown()
process.send_signal(signal.SIGTERM)
try:
    process.wait(60)
except subprocess.TimeoutExpired:
    process.kill()
    sys.exit("nbdkit did not end")
if process.returncode != 0:
    with open(os.environ["OUTPUT"]) as f:
        sys.exit("nbdkit: exit status %d: %s" % (process.returncode, f.read()))
