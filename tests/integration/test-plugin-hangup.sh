#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients that hang up with replies outstanding do not end nbdkit.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
start_memserver m --listen "unix:$tmp/m.usock" --size 64M --slab 4M
start_nbdkit n "$FARPAGE_PLUGIN" "unix:$tmp/m.usock" size=32M "$MLOCK"
pid=$(cat "$tmp/n.pid")

uri="nbd+unix:///?socket=$tmp/n.sock" "$NBDSH" -c - <<'EOF'
import os
import nbd
uri = os.environ["uri"]
with_data = nbd.NBD()
with_data.connect_uri(uri)
with_data.pwrite(b"\xab" * (4 << 20), 0)
for i in range(10):
    c = nbd.NBD()
    c.connect_uri(uri)
    # Ask for more than the socket holds, so that nbdkit is in the middle of a
    # reply.
    for j in range(64):
        if i % 2:
            c.aio_pread(nbd.Buffer(1 << 20), j % 8 * (1 << 20))
        else:
            c.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(1 << 16)),
                         (8 << 20) + j * (1 << 16))
    c.poll(100)
    assert c.aio_in_flight() > 0
    del c
    assert with_data.pread(512, 1000) == b"\xab" * 512
EOF
kill -0 "$pid" || fail "nbdkit is gone"
stop "$pid"
# nbdkit says NBD_OPT_ABORT if a client hangs up early.
if grep -v NBD_OPT_ABORT "$tmp/n.log" | grep -i -e assert -e abort; then fail "see above"; fi
