#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A memory server is killed. Reads and writes of its extents fail with EIO
# within the timeout, and never return zeros. Requests for extents that were
# never written fail, too, as another client may have written them by then.
# nbdkit lives on, and stops as it should.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
for t in shm tcp; do
    start_memserver m$t --listen "unix:$tmp/m$t.usock" --size 64M --slab 4M
    if [ $t = shm ]; then server=unix:$tmp/m$t.usock
    else server=$(grep -v '^unix:' "$tmp/m$t.addr"); fi
    start_nbdkit $t "$FARPAGE_PLUGIN" "$server" size=32M transport=$t \
                 timeout=5000 await=2000 status="$tmp/$t.status" "$MLOCK"
    mpid=$(cat "$tmp/m$t.pid") uri="nbd+unix:///?socket=$tmp/$t.sock" \
        status="$tmp/$t.status" "$NBDSH" -c - <<'EOF' || fail "$t: see above"
import json
import os
import signal
import socket
import time
import nbd

h.connect_uri(os.environ["uri"])
h.pwrite(b"x" * 8192, (4 << 20) - 4096)
assert h.pread(8192, (4 << 20) - 4096) == b"x" * 8192
os.kill(int(os.environ["mpid"]), signal.SIGKILL)


def errno_of(f):
    start = time.monotonic()
    try:
        f()
    except nbd.Error as e:
        took = time.monotonic() - start
        assert took < (8 if os.environ.get("FARPAGE_BENCH") == "yes" else 68), "took %.1f s" % took
        return e.errno
    return None


# Until the loss is noticed, shared memory may still be there. Then a read
# returns the last acknowledged data, or an error, but nothing else.
deadline = time.monotonic() + 60
while True:
    got = []
    e = errno_of(lambda: got.append(h.pread(4096, 4 << 20)))
    if e is not None:
        break
    assert got[0] == b"x" * 4096, "read something else"
    assert time.monotonic() < deadline, "the loss was not noticed"
    time.sleep(0.05)
assert e == "EIO", e
assert errno_of(lambda: h.pread(1, (4 << 20) - 1)) == "EIO"
assert errno_of(lambda: h.pwrite(b"y" * 512, 4 << 20)) == "EIO"
c = nbd.NBD()
c.connect_uri(os.environ["uri"])
assert errno_of(lambda: c.pread(100, 5 << 20)) == "EIO"
assert errno_of(lambda: c.pread(4096, 20 << 20)) == "EIO"

s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["status"])
s.shutdown(socket.SHUT_WR)
doc = json.loads(s.makefile().read())
assert doc["volume"]["errors"] >= 3, doc
assert doc["servers"][0]["state"] != "up", doc
assert doc["servers"][0]["why"] != "", doc
EOF
    kill -0 "$(cat "$tmp/$t.pid")" || fail "$t: nbdkit is gone"
    wait_until 5 grep -q 'requests failed' "$tmp/$t.log"
    stop "$(cat "$tmp/$t.pid")"
    [ ! -e "$tmp/$t.status" ] || fail "the status socket was left behind"
done
