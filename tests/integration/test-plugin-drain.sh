#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A memory server is drained while its volume is written and verified, and is
# then stopped. No request fails and no byte is wrong. A drain that is not
# possible is refused before anything moves. A running one can be cancelled.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
slab=4M

# field DRAINED-SERVER PYTHON: print an expression. doc is the status document,
# s the server in it.
field ()
{
    farpage status --socket "$tmp/status" --json | /usr/bin/python3 -c '
import json, sys
doc = json.load(sys.stdin)
s = [s for s in doc["servers"] if s["addr"] == sys.argv[1]][0]
print(eval(sys.argv[2]))' "$1" "$2"
}
is () { [ "$(field "$1" "$2")" = "$3" ]; }

# refused TEXT ARG...: check that 'farpage drain' fails and says TEXT.
refused ()
{
    local text=$1 status=0
    shift
    timeout 60 farpage drain "$tmp/status" "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
    [ $status = 1 ] || fail "drain $*: exit status $status, not 1"
    grep -qF -- "$text" "$tmp/err" || fail "drain $*: no '$text' in: $(cat "$tmp/err")"
}

# addr_of NAME TRANSPORT: print the server's address for this transport.
addr_of ()
{
    if [ "$2" = shm ]; then echo "unix:$tmp/$1.usock"
    else grep -v '^unix:' "$tmp/$1.addr"; fi
}

drain_all ()
{
    local transport=$1 name a b c ops
    for name in a b c; do
        rm -f "$tmp/$name.addr"
        start_memserver $name --listen "unix:$tmp/$name.usock" --size 128M --slab $slab \
            --name $name
    done
    a=$(addr_of a "$transport") b=$(addr_of b "$transport") c=$(addr_of c "$transport")
    start_nbdkit "n$transport" "$FARPAGE_PLUGIN" "$a" "$b" "$c" size=64M "$MLOCK" \
        transport="$transport" status="$tmp/status"

    # Write to each extent, then make random requests until the drains are over.
    "$NBDSH" -c - <<PYTHON
import nbd
h = nbd.NBD()
h.connect_uri("nbd+unix:///?socket=$tmp/n$transport.sock")
for i in range(16):
    h.pwrite(bytes([i + 1]) * 65536, i << 22)
    # Zeros that keep their memory: the server itself zeroes a range this large.
    h.zero(1 << 20, i << 22, nbd.CMD_FLAG_NO_HOLE)
PYTHON
    ops=$tmp/ops.log
    (
        seed=$RANDOM
        while [ ! -e "$tmp/enough" ]; do
            seed=$((seed + 1))
            uri="nbd+unix:///?socket=$tmp/n$transport.sock" slab=$((4 << 20)) ops=300 seed=$seed \
                "$NBDSH" -c - <"$top_srcdir/tests/integration/random-ops.py" || exit 1
        done
    ) >"$ops" 2>&1 &
    ops_pid=$!
    cleanup_fn kill $ops_pid

    refused "is not a server of this volume" 127.0.0.1:1
    refused "not being drained" --cancel "$a"
    timeout 120 farpage drain "$tmp/status" "$a" >"$tmp/out" 2>"$tmp/err" ||
        fail "drain $a: $(cat "$tmp/err")"
    grep -q 'drained: .* extents moved' "$tmp/out" || fail "says: $(cat "$tmp/out")"
    [ "$(tail -n1 "$tmp/out")" = "  farpage servers remove $tmp/status $a" ] ||
        fail "does not say what makes it last: $(cat "$tmp/out")"
    is "$a" 's["drain"]["state"]' drained || fail "status: $(field "$a" 's["drain"]')"
    is "$a" 's["extents"]' 0 || fail "extents are left"
    farpage status --socket "$tmp/status" | grep -q 'drained: 0 of' ||
        fail "farpage status does not say that it is drained"
    stop "$(cat "$tmp/a.pid")"
    timeout 120 farpage drain --json "$tmp/status" "$b" >"$tmp/out" 2>"$tmp/err" ||
        fail "drain $b: $(cat "$tmp/err")"
    grep -q '"state": *"drained"' "$tmp/out" || fail "says: $(cat "$tmp/out")"
    stop "$(cat "$tmp/b.pid")"
    refused "the last server" "$c"
    : >"$tmp/enough"
    wait $ops_pid || { cat "$ops"; fail "requests while draining"; }
    [ "$(grep -c seed= "$ops")" -ge 1 ] || fail "no requests were made"
    rm "$tmp/enough"

    # The last server holds the right data, with the other two gone.
    uri="nbd+unix:///?socket=$tmp/n$transport.sock" slab=$((4 << 20)) ops=200 seed=$RANDOM \
        "$NBDSH" -c - <"$top_srcdir/tests/integration/random-ops.py" >>"$ops" 2>&1 ||
        { cat "$ops"; fail "requests afterwards"; }
    is "$c" 'doc["volume"]["errors"]' 0 || fail "there were errors"
    stop "$(cat "$tmp/n$transport.pid")"
    stop "$(cat "$tmp/c.pid")"
}

# The random requests end with a trim of the whole volume. Each transport has
# its own nbdkit and servers.
drain_all tcp
drain_all shm

# ---- no room, cancel, a rate ----

start_memserver d --listen "unix:$tmp/d.usock" --size 32M --slab $slab
start_memserver e --listen "unix:$tmp/e.usock" --size 16M --slab $slab
d=unix:$tmp/d.usock e=unix:$tmp/e.usock
start_nbdkit n2 "$FARPAGE_PLUGIN" "$d" "$e" size=40M "$MLOCK" status="$tmp/status"
uri="nbd+unix:///?socket=$tmp/n2.sock" "$NBDSH" -c - <<'EOF2'
import os
h.connect_uri(os.environ["uri"])
for i in range(10):
    h.pwrite(bytes([i + 1]) * (4 << 20), i << 22)
EOF2
before=$(field "$d" 's["extents"]')
refused "are missing" "$d"
is "$d" 's["extents"]' "$before" || fail "something was moved"
is "$d" 's["drain"]' None || fail "it is drained all the same"
uri="nbd+unix:///?socket=$tmp/n2.sock" "$NBDSH" -c - <<'EOF2'
import os
h.connect_uri(os.environ["uri"])
h.trim(24 << 20, 16 << 20)
EOF2
if [ "$(field "$d" 's["extents"]')" -gt 0 ]; then
    # The other server tells of its free slabs with the next heartbeat. So
    # retry.
    drain_pid=
    begun ()
    {
        if [ -z "$drain_pid" ] || ! kill -0 "$drain_pid"; then
            timeout 60 farpage drain --rate 256K "$tmp/status" "$d" \
                >"$tmp/out" 2>"$tmp/err" &
            drain_pid=$!
        fi
        is "$d" 's["drain"] and s["drain"]["state"]' draining
    }
    wait_until 30 begun
    farpage status --socket "$tmp/status" | grep -q 'draining: ' ||
        fail "farpage status does not say that it is being drained"
    kill -INT "$drain_pid"
    status=0
    wait "$drain_pid" || status=$?
    [ $status = 1 ] || fail "drain that was interrupted: exit status $status"
    grep -q 'cancelled' "$tmp/err" || fail "says: $(cat "$tmp/err")"
    is "$d" 's["drain"]' None || fail "it is drained all the same"
fi
uri="nbd+unix:///?socket=$tmp/n2.sock" "$NBDSH" -c - <<'EOF2'
import os
h.connect_uri(os.environ["uri"])
for i in range(10):
    want = bytes([i + 1]) if i < 4 else b"\0"
    assert h.pread(4 << 20, i << 22) == want * (4 << 20), i
EOF2

# Malformed requests, from several clients at once.
status=$tmp/status addr=$d /usr/bin/python3 - <<'EOF2'
import json
import os
import socket


def ask(line):
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ["status"])
    s.settimeout(60)
    s.sendall(line)
    return json.loads(s.makefile().read())


for line in (b"frobnicate\n", b"drain\n", b"drain a b c\n", b"status x\n",
             b"drain-cancel %s 1\n" % os.environ["addr"].encode(),
             b"drain %s x\n" % os.environ["addr"].encode(), b"x" * 5000,
             b"\xff\xfe \n", b"drain \0\n"):
    a = ask(line)
    assert a["ok"] is False and a["error"], (line, a)
assert ask(b"status\n")["version"] == 2
assert ask(b"\n")["version"] == 2
EOF2

# ---- a volume with a name: the next client finds the moved extents ----

named=()
for name in f g h; do
    start_memserver $name --listen "unix:$tmp/$name.usock" --size 64M --slab $slab
    named+=("unix:$tmp/$name.usock")
done
start_nbdkit n3 "$FARPAGE_PLUGIN" "${named[@]}" size=24M volume=disk "$MLOCK" \
    status="$tmp/status3"
uri="nbd+unix:///?socket=$tmp/n3.sock" "$NBDSH" -c - <<'EOF2'
import os
h.connect_uri(os.environ["uri"])
for i in range(6):
    h.pwrite(bytes([i + 1]) * (4 << 20), i << 22)
EOF2
for name in "${named[@]:0:2}"; do
    timeout 60 farpage drain "$tmp/status3" "$name" >"$tmp/out" 2>"$tmp/err" ||
        fail "drain $name: $(cat "$tmp/err")"
done
uri="nbd+unix:///?socket=$tmp/n3.sock" "$NBDSH" -c - <<'EOF2'
import os
h.connect_uri(os.environ["uri"])
for i in range(6):
    h.pwrite(bytes([i + 101]) * (2 << 20), i << 22)
EOF2
kill_9 "$(cat "$tmp/n3.pid")"
start_nbdkit n4 "$FARPAGE_PLUGIN" "${named[@]}" size=24M volume=disk "$MLOCK" \
    status="$tmp/status4"
uri="nbd+unix:///?socket=$tmp/n4.sock" "$NBDSH" -c - <<'EOF2'
import os
h.connect_uri(os.environ["uri"])
for i in range(6):
    assert h.pread(2 << 20, i << 22) == bytes([i + 101]) * (2 << 20), i
    assert h.pread(2 << 20, (i << 22) + (2 << 20)) == bytes([i + 1]) * (2 << 20), i
EOF2

# ---- a dead server that still has extents ----

h=${named[2]}
kill_9 "$(cat "$tmp/h.pid")"
gone ()
{
    farpage status --socket "$tmp/status4" --json | /usr/bin/python3 -c '
import json, sys
servers = {s["addr"]: s["state"] for s in json.load(sys.stdin)["servers"]}
sys.exit(servers[sys.argv[1]] == "up")' "$h"
}
wait_until 30 gone
what="attach it with remove=$h degraded=true"
if timeout 60 farpage servers remove "$tmp/status4" "$h" 2>"$tmp/err"; then fail "it was removed"; fi
grep -qF "$what" "$tmp/err" || fail "servers remove says: $(cat "$tmp/err")"
timeout 60 farpage drain "$tmp/status4" "$h" >"$tmp/out" 2>"$tmp/drain.err" &
drain_pid=$!
wait_until 30 grep -qF "$what" "$tmp/drain.err"
grep -qF 'Ctrl-C cancels it' "$tmp/drain.err" || fail "drain says: $(cat "$tmp/drain.err")"
kill -INT "$drain_pid"
status=0
wait "$drain_pid" || status=$?
[ $status = 1 ] || fail "drain of a dead server: exit status $status"
