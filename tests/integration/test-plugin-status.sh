#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The status socket: a JSON document with the names that others rely on, for any
# number of clients, even rude ones. Also its socket file, --dump-plugin, and
# -D.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
start_memserver m --listen "unix:$tmp/m.usock" --size 32M --slab 4M --name donor
status=$tmp/s.status

# A socket that a killed plugin left is replaced. One that answers is not.
start_nbdkit killed "$FARPAGE_PLUGIN" "unix:$tmp/m.usock" size=8M "$MLOCK" \
             status="$status"
kill_9 "$(cat "$tmp/killed.pid")"
[ -S "$status" ] || fail "no socket to replace"
start_nbdkit n -D farpage.io=1 "$FARPAGE_PLUGIN" "unix:$tmp/m.usock" size=18M \
             "$MLOCK" connections=3 status="$status"
if "${nbdkit_cmd[@]}" -U "$tmp/second.sock" "$FARPAGE_PLUGIN" "unix:$tmp/m.usock" \
    size=4M "$MLOCK" status="$status" --run true 2>"$tmp/err"
then fail "took a status socket that answers"; fi
grep -q 'error: .*another process answers' "$tmp/err" || fail "does not say so"
[ "$(stat -c %a "$status")" = 600 ] || fail "mode $(stat -c %a "$status")"

status=$status pid=$(cat "$tmp/n.pid") uri="nbd+unix:///?socket=$tmp/n.sock" \
    "$NBDSH" -c - <<'EOF'
import json
import os
import socket
import time
import nbd


def ask():
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ["status"])
    s.settimeout(60)
    return s


def get():
    return json.loads(ask().makefile().read())


latency = {"count", "mean", "p50", "p99", "p999", "max"}
h.connect_uri(os.environ["uri"])
a = get()
assert a["version"] == 2 and a["pid"] == int(os.environ["pid"])
assert {"io_flusher", "realtime", "locked_bytes", "servers", "changes",
        "check"} <= set(a), a
v = a["volume"]
assert {"uuid", "name", "size", "slab_size", "copies", "lanes", "extents",
        "extents_allocated", "extents_lost", "extents_degraded",
        "bytes_to_resync", "bytes_marked", "resync_bytes",
        "resync_of_bytes", "unclean", "reads", "writes", "zeros", "trims",
        "flushes", "errors", "bytes_read", "bytes_written", "inflight",
        "poll_hits", "sleeps", "read_latency_ns",
        "write_latency_ns", "hedges"} <= set(v), v
assert v["stripe_width"] == 1 and v["stripe_size"] == 128 << 10, v
assert latency <= set(v["read_latency_ns"])
assert latency <= set(v["write_latency_ns"])
assert (v["size"], v["slab_size"], v["copies"], v["lanes"], v["extents"]) == (
    18 << 20, 4 << 20, 1, 3, 5), v
assert v["extents_allocated"] == 0 and v["extents_lost"] == 0
assert len(a["servers"]) == 1
s = a["servers"][0]
assert {"addr", "name", "state", "transport", "slabs_total", "slabs_free",
        "extents", "reconnects", "bytes_read", "bytes_written", "ops", "errors",
        "why"} <= set(s), s
assert s["addr"].startswith("unix:") and s["name"] == "donor", s
assert (s["state"], s["transport"], s["why"]) == ("up", "shm", ""), s
assert s["slabs_total"] == 8, s

h.pwrite(b"a" * 10000, (4 << 20) - 5000)
h.pwrite(b"a" * 2000, 5 << 20)  # to an extent that has its memory now
h.pread(3000, 0)
h.pread(3000, 10 << 20)
h.pread(3000, 4 << 20)
h.flush()
h.trim(4096, 0)
h.trim(4096, 8192)
h.zero(4096, 1 << 20, nbd.CMD_FLAG_NO_HOLE)
b = get()["volume"]
assert b["extents_allocated"] == 2, b
for name, n in (("writes", 2), ("reads", 3), ("flushes", 1), ("trims", 2),
                ("zeros", 1), ("bytes_written", 12000), ("bytes_read", 9000),
                ("errors", 0)):
    assert b[name] - v[name] == n, (name, b[name], v[name])
for kind in "read", "write":
    lat = b[kind + "_latency_ns"]
    # Over shm a request is a memory copy. One in eight of those is timed.
    assert 0 < lat["count"] <= b[kind + "s"], (kind, lat, b)
    assert 0 < lat["p50"] <= lat["p99"] <= lat["p999"], (kind, lat)
    assert 0 < lat["mean"] <= lat["max"], (kind, lat)

# The next heartbeat reply tells how many slabs the server still has.
end = time.monotonic() + 60
while True:
    s = get()["servers"][0]
    if s["slabs_free"] <= s["slabs_total"] - 2:
        break
    assert time.monotonic() < end, s
    time.sleep(0.05)
assert s["extents"] == 2, s

# Clients that hang up or do not read, and many at once.
for i in range(100):
    ask().close()
idle = [ask() for i in range(10)]
assert get()["pid"] == a["pid"]
for c in idle:
    assert json.loads(c.makefile().read())["version"] == 2
assert h.pread(1, (4 << 20)) == b"a"
EOF
grep -q "write 10000 at 4189304" "$tmp/n.log" || fail "-D farpage.io=1 shows nothing"
stop "$(cat "$tmp/n.pid")"
[ ! -e "$status" ] || fail "the socket was left behind"

# The man page names every field.
n=0
while read -r key; do
    grep -q "C<$key>" "$top_srcdir/nbdkit-plugin/nbdkit-farpage-plugin.pod" || fail "the man page lacks $key"
    n=$((n + 1))
done < <("$SED" -nE 's/.*(FIELD|TABLE|LIST) \(([A-Z]+, )?"([a-z0-9_]+)".*/\3/p' \
    "$top_srcdir/lib/volume/status_fields.c")
[ $n -ge 90 ] || fail "found $n fields"

# The document of another version is not guessed at. --json prints it.
python3 - "$status" <<'EOF' &
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1] + ".new")
s.listen()
os.rename(sys.argv[1] + ".new", sys.argv[1])
for i in range(4):
    c = s.accept()[0]
    assert c.recv(100) == b"status\n"
    c.sendall(b'{"version": 1, "volume": {"taken": false}}\n')
    c.close()
EOF
fake=$!
cleanup_fn kill $fake
wait_until 20 test -S "$status"
if farpage status --socket "$status" >"$tmp/out" 2>"$tmp/err"; then fail "understood version 1"; fi
grep -q "status has version 1" "$tmp/err" || { cat "$tmp/err"; fail "does not say so"; }
for cmd in "check --repair $status" "drain $status unix:$tmp/m.usock"; do
    # shellcheck disable=SC2086
    if farpage $cmd 2>"$tmp/err"; then fail "started what it cannot watch"; fi
    grep -q "status has version 1" "$tmp/err" || { cat "$tmp/err"; fail "$cmd"; }
done
[ "$(farpage status --socket "$status" --json | tr -d ' \n')" = '{"version":1,"volume":{"taken":false}}' ] ||
    fail "--json does not print it"
wait $fake

"${nbdkit_cmd[@]}" "$FARPAGE_PLUGIN" --dump-plugin >"$tmp/dump"
for line in name=farpage 'farpage_transports=(rdma,)?shm,tcp' farpage_protocol=2 \
    farpage_max_copies=4 farpage_max_servers=64 farpage_max_connections=64 \
    farpage_max_io=33554432 magic_config_key=server errno_is_preserved=1; do
    grep -qxE "$line" "$tmp/dump" || { cat "$tmp/dump"; fail "no $line"; }
done
