#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdkit is killed: the next one that names the volume within its lease has the
# data. After the lease, or for a volume that never was, it is refused; and a
# volume that ended as it should is gone, unless it was kept.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires qemu-io --version
# Longer than an nbdkit takes to start, with a sanitizer on a busy machine.
start_memserver m --listen "unix:$tmp/m.usock" --size 32M --slab 4M --lease 10
tcp=$(grep -v '^unix:' "$tmp/m.addr")
uuid=01234567-89ab-cdef-0123-456789abcdef

io () { # NAME COMMAND...
    local uri="nbd+unix:///?socket=$tmp/$1.sock" c args=()
    shift
    for c in "$@"; do args+=(-c "$c"); done
    qemu-io -f raw "$uri" "${args[@]}" >"$tmp/io.log" 2>&1 || fail "$uri: qemu-io"
    # It exits 0 after a pattern that differs.
    if grep -i -e failed -e error "$tmp/io.log"; then fail "$uri: qemu-io"; fi
}

# refused WHY ARG...: nbdkit does not start, and says why: before it goes to the
# background, where nobody would hear it.
refused ()
{
    local why=$1
    shift
    rm -f "$tmp/refused.sock"
    if timeout 20 "${nbdkit_cmd[@]}" -U "$tmp/refused.sock" "$FARPAGE_PLUGIN" \
        size=16M "$MLOCK" uuid=$uuid resume=true "$@" 2>"$tmp/refused.log"
    then fail "a volume that is gone was taken up"; fi
    grep -qiE "error: .*($why)" "$tmp/refused.log" || fail "refused without: $why"
}

for server in "unix:$tmp/m.usock" "$tcp"; do
    case $server in unix:*) n=shm ;; *) n=tcp ;; esac

    refused 'no such|not|lease|gone' "$server"
    start_nbdkit ${n}1 "$FARPAGE_PLUGIN" "$server" size=16M "$MLOCK" uuid=$uuid
    io ${n}1 'write -P 1 0 1M' 'write -P 2 4190000 9000' 'write -z 8M 1M' flush
    kill_9 "$(cat "$tmp/${n}1.pid")"

    start_nbdkit ${n}2 "$FARPAGE_PLUGIN" "$server" size=16M "$MLOCK" uuid=$uuid \
                 resume=true keep=true
    io ${n}2 'read -P 1 0 1M' 'read -P 2 4190000 9000' 'read -P 0 8M 8M' \
       'write -P 3 12M 4M'
    stop "$(cat "$tmp/${n}2.pid")"

    # Kept by request.
    start_nbdkit ${n}3 "$FARPAGE_PLUGIN" "$server" size=16M "$MLOCK" uuid=$uuid \
                 resume=true
    io ${n}3 'read -P 1 0 1M' 'read -P 3 12M 4M'
    stop "$(cat "$tmp/${n}3.pid")"

    # Ended as it should: discarded.
    refused 'no such|not|lease|gone' "$server"

    # The lease ends: all is free again.
    start_nbdkit ${n}4 "$FARPAGE_PLUGIN" "$server" size=16M "$MLOCK" uuid=$uuid \
                 reserve=full
    kill_9 "$(cat "$tmp/${n}4.pid")"
    wait_until 40 timeout 20 "${nbdkit_cmd[@]}" -U - "$FARPAGE_PLUGIN" "$server" \
               size=32M reserve=full "$MLOCK" --run true
    refused 'no such|not|lease|gone' "$server"
done
