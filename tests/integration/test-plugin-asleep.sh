#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdkit sleeps for longer than the lease, and its volume has no name. If no
# server needed the memory, all data is there. Otherwise a copy is lost. With
# two copies it is rebuilt. With one copy, lost data reads as an error, never as
# zeros.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires qemu-io --version
requires python3 --version
memclient="$top_builddir/tests/integration/memclient"
[ -x "$memclient" ] || skip "memclient was not built"

serve () # NAME
{
    start_memserver "$1" --listen "unix:$tmp/$1.usock" --size 16M --slab 1M --reserve 0 --lease 5 \
        --metrics "unix:$tmp/$1.metrics"
}
plugin () # NAME [ARG...]
{
    local name=$1
    shift
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$MLOCK" size=8M await=60000 rebuild-delay=0 \
        uuid=05000000-0000-0000-0000-000000000000 status="$tmp/$name.status" "$@"
}
io () # NAME COMMAND...
{
    local uri="nbd+unix:///?socket=$tmp/$1.sock" c args=()
    shift
    for c in "$@"; do args+=(-c "$c"); done
    qemu-io -f raw "$uri" "${args[@]}" >"$tmp/io.log" 2>&1 || { cat "$tmp/io.log"; return 1; }
    # qemu-io exits with 0 even if a pattern differs.
    ! grep -i -e failed -e error "$tmp/io.log"
}
orphan_slabs () # REGEX
{
    python3 "$top_srcdir/tests/integration/metrics.py" value "unix:$tmp/m.metrics" \
        farpage_memserver_orphan_slabs | grep -x "${1:-.*}"
}
# Succeed if the lease of the volume is over: another client does not find it.
is_orphan () # SERVER
{
    "$memclient" "unix:$tmp/$1.usock" other fails:ENOENT lookup-id:4
}
# Stop nbdkit NAME until its volume is an orphan on each SERVER.
sleeps () # NAME SERVER...
{
    local name=$1 s
    shift
    cleanup_fn kill -CONT "$(cat "$tmp/$name.pid")"
    kill -STOP "$(cat "$tmp/$name.pid")"
    for s; do wait_until 60 is_orphan "$s"; done
}
wakes () { kill -CONT "$(cat "$tmp/$1.pid")"; }
# Let another client use all memory of SERVER for a while.
needed () # SERVER
{
    timeout 60 "$memclient" "unix:$tmp/$1.usock" other open:2:ce:tcp grant-all expect-slabs:16 \
        check:0 fill:9 discard >"$tmp/other.out" 2>&1 || { cat "$tmp/other.out"; fail "other"; }
}
whole () # NAME
{
    python3 - "$tmp/$1.status" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.shutdown(socket.SHUT_WR)
d = json.loads(b"".join(iter(lambda: s.recv(65536), b"")))
sys.exit(d["volume"]["extents_degraded"] or any(x["state"] != "up" for x in d["servers"]))
END
}

serve m
serve o
addr=$(grep -v '^unix:' "$tmp/m.addr")

# ---- one copy ----
for server in "unix:$tmp/m.usock" "$addr"; do
    case $server in unix:*) n=shm ;; *) n=tcp ;; esac
    plugin $n "$server"
    io $n 'write -P 1 0 1M' 'write -P 2 4190000 9000' flush || fail "$n: write"
    sleeps $n m
    # Slabs that are mapped over shm cannot be lent to another client.
    case $n in
    shm) orphan_slabs 0 || fail "shm: $(orphan_slabs)" ;;
    tcp) orphan_slabs '[3-9]' || fail "tcp: $(orphan_slabs)" ;;
    esac
    wakes $n
    io $n 'read -P 1 0 1M' 'read -P 2 4190000 9000' 'read -P 0 6M 1M' 'write -P 3 1M 1M' ||
        fail "$n: it has not found what it had"
    [ $n = tcp ] || stop "$(cat "$tmp/$n.pid")"
done
! grep -q 'did not come back' "$tmp/m.log" || fail "an orphan was forgotten that nobody needed"

sleeps tcp m
needed m
grep -q 'did not come back, and its memory is needed: [4-9] slabs freed' "$tmp/m.log" ||
    { cat "$tmp/m.log"; fail "the log does not say why it was forgotten"; }
wakes tcp
! io tcp 'read -P 1 0 1M' >"$tmp/out" || fail "what is gone was read"
grep -q 'Input/output error' "$tmp/io.log" || { cat "$tmp/io.log"; fail "no error"; }
stop "$(cat "$tmp/tcp.pid")"

# ---- two copies ----
plugin two "$addr" "$(grep -v '^unix:' "$tmp/o.addr")" copies=2
io two 'write -P 1 0 1M' 'write -P 2 4190000 9000' flush || fail "two: write"
sleeps two m o
needed m
wakes two
io two 'read -P 1 0 1M' 'read -P 2 4190000 9000' || fail "two: the second copy"
wait_until 60 whole two
kill_9 "$(cat "$tmp/o.pid")"
io two 'read -P 1 0 1M' 'read -P 2 4190000 9000' || fail "two: the first copy"
stop "$(cat "$tmp/two.pid")"
