#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A volume without a name and with two copies, as for swap, over tcp and shm. A
# server is killed while fio verifies, and its copies are rebuilt elsewhere.
# Then a server and nbdkit are killed, and the next nbdkit has the data. When
# the volume or its lease ends, no server keeps any of it.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires fio --version
requires qemu-io --version
fio --enghelp 2>/dev/null | grep -qw nbd || skip "this fio has no engine nbd"
uuid=89abcdef-0123-4567-89ab-cdef01234567
lease=10

# Under a sanitizer everything is slow, and time is not measured here.
writes=96M
if [ -n "$SANITIZER_PRELOAD" ]; then writes=32M; fi

serve () # NAME
{
    rm -f "$tmp/$1.addr"
    start_memserver "$1" --listen "unix:$tmp/$1.usock" --size 64M --slab 1M --reserve 0 \
                    --lease $lease --orphan-time 0
}
pid_of () { cat "$tmp/$1.pid"; }

plugin () # NAME [ARG...]
{
    local name=$1
    shift
    rm -f "$tmp/$name.sock"
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$MLOCK" timeout=20000 connections=2 size=20M \
                 copies=2 rebuild-delay=0 transport="$transport" uuid=$uuid \
                 status="$tmp/$name.status" "${named[@]}" "$@"
}
# Succeed if each extent has all its copies, on so many servers.
whole () # NAME SERVERS
{
    [ "$(status "$1" '(d["volume"]["extents_degraded"], sum(x["state"] == "up" for x in d["servers"]))')" = "(0, $2)" ]
}
wrote () # NAME BYTES
{
    [ "$(status "$1" 'd["volume"]["bytes_written"]')" -ge "$2" ]
}

io () { # NAME COMMAND...
    local uri="nbd+unix:///?socket=$tmp/$1.sock" c args=()
    shift
    for c in "$@"; do args+=(-c "$c"); done
    qemu-io -f raw "$uri" "${args[@]}" >"$tmp/io.log" 2>&1 || fail "$uri: qemu-io"
    # qemu-io exits with 0 even if a pattern differs.
    if grep -i -e failed -e error "$tmp/io.log"; then fail "$uri: qemu-io"; fi
}

refused () # WHY
{
    rm -f "$tmp/refused.sock"
    if timeout 60 "${nbdkit_cmd[@]}" -U "$tmp/refused.sock" "$FARPAGE_PLUGIN" "$MLOCK" size=20M \
        copies=2 transport="$transport" uuid=$uuid resume=true "${named[@]}" 2>"$tmp/refused.log"
    then fail "a volume that is gone was taken up"; fi
    grep -qE "error: .*($1)" "$tmp/refused.log" ||
        { cat "$tmp/refused.log"; fail "refused without: $1"; }
}

# Succeed if the server keeps no volume.
is_free () # SERVER
{
    farpage volumes --json "unix:$tmp/$1.usock" | python3 -c '
import json, sys
sys.exit(json.load(sys.stdin)["volumes"] != [])'
}

for s in a b c; do serve $s; done
for transport in tcp shm; do
    servers=(a b c) named=()
    for s in "${servers[@]}"; do named+=("server=unix:$tmp/$s.usock"); done

    # ---- a server dies under fio ----
    n=e-$transport
    plugin "$n"
    fio --name=verify --ioengine=nbd --uri="nbd+unix:///?socket=$tmp/$n.sock" --rw=randwrite \
        --bs=4k --iodepth=8 --size=20M --io_size=$writes --verify=crc32c --verify_fatal=1 \
        --verify_backlog=512 --verify_backlog_batch=64 >"$tmp/fio.log" 2>&1 &
    fio=$!
    wait_until 60 wrote "$n" 8000000
    kill_9 "$(pid_of a)"
    wait $fio || { cat "$tmp/fio.log"; fail "$transport: fio"; }
    wait_until 60 whole "$n" 2
    serve a
    wait_until 60 whole "$n" 3

    # ---- a server dies, then nbdkit ----
    io "$n" 'write -P 1 0 1M' 'write -P 2 1040000 9000' 'write -z 8M 1M' flush
    kill_9 "$(pid_of b)"
    io "$n" 'write -P 3 12M 4M'
    wait_until 60 whole "$n" 2
    kill_9 "$(pid_of "$n")"
    plugin "$n-2" resume=true
    io "$n-2" 'read -P 1 0 1040000' 'read -P 2 1040000 9000' 'read -P 0 8M 1M' 'read -P 3 12M 4M' \
       'write -P 4 16M 1M'
    # The server comes back empty, and is filled again.
    serve b
    wait_until 60 whole "$n-2" 3
    kill_9 "$(pid_of c)"
    io "$n-2" 'read -P 1 0 1040000' 'read -P 3 12M 4M' 'read -P 4 16M 1M'
    serve c
    wait_until 60 whole "$n-2" 3

    # ---- an orderly end ----
    stop "$(pid_of "$n-2")"
    for s in "${servers[@]}"; do wait_until 20 is_free "$s"; done
    refused 'is gone'

    # ---- the lease ends ----
    plugin "$n-3" reserve=full
    kill_9 "$(pid_of "$n-3")"
    for s in "${servers[@]}"; do wait_until 40 is_free "$s"; done
    refused 'is gone'

    # ---- one of two servers dies with nbdkit: the other one may be stale ----
    named=("${named[@]:0:2}")
    plugin "$n-4"
    io "$n-4" 'write -P 5 0 4M'
    kill -STOP "$(pid_of a)"
    kill_9 "$(pid_of "$n-4")"
    kill_9 "$(pid_of a)"
    refused 'may be old'
    serve a
    for s in a b; do wait_until 40 is_free "$s"; done
done
