#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdkit is killed. The next one that names the volume within its lease has the
# data. After the lease, or if the volume never existed, it is refused. A volume
# that ended in order is gone, unless it was kept. If the next nbdkit has the
# same client=, it need not wait for the lease to end, and may come after that.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires qemu-io --version
# The lease is longer than nbdkit takes to start, with a sanitizer on a busy
# machine.
start_memserver m --listen "unix:$tmp/m.usock" --size 32M --slab 4M --lease 10
tcp=$(grep -v '^unix:' "$tmp/m.addr")
uuid=01234567-89ab-cdef-0123-456789abcdef

io () { # NAME COMMAND...
    local uri="nbd+unix:///?socket=$tmp/$1.sock" c args=()
    shift
    for c in "$@"; do args+=(-c "$c"); done
    qemu-io -f raw "$uri" "${args[@]}" >"$tmp/io.log" 2>&1 || fail "$uri: qemu-io"
    # qemu-io exits with 0 even if a pattern differs.
    if grep -i -e failed -e error "$tmp/io.log"; then fail "$uri: qemu-io"; fi
}

gone () { ! kill -0 "$1" 2>/dev/null; }

# takes_all SERVER: succeed if a new volume gets all memory. (Not with -U -,
# which leaves a directory in /tmp on failure.)
takes_all ()
{
    rm -f "$tmp/all.sock"
    timeout 60 "${nbdkit_cmd[@]}" -U "$tmp/all.sock" "$FARPAGE_PLUGIN" "$1" size=32M \
            reserve=full "$MLOCK" --run true
}

# refused WHY ARG...: check that nbdkit does not start, and says why before it
# goes to the background. A later error would be lost.
refused ()
{
    local why=$1
    shift
    rm -f "$tmp/refused.sock"
    if timeout 60 "${nbdkit_cmd[@]}" -U "$tmp/refused.sock" "$FARPAGE_PLUGIN" \
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

    # keep=true kept the volume.
    start_nbdkit ${n}3 "$FARPAGE_PLUGIN" "$server" size=16M "$MLOCK" uuid=$uuid \
                 resume=true
    io ${n}3 'read -P 1 0 1M' 'read -P 3 12M 4M'
    stop "$(cat "$tmp/${n}3.pid")"

    # An orderly end discards the volume.
    refused 'no such|not|lease|gone' "$server"

    # SIGUSR1 discards a volume that keep=true would keep.
    start_nbdkit ${n}5 "$FARPAGE_PLUGIN" "$server" size=16M "$MLOCK" uuid=$uuid \
                 keep=true
    io ${n}5 'write -P 1 0 1M'
    pid=$(cat "$tmp/${n}5.pid")
    kill -USR1 "$pid"
    wait_until 20 gone "$pid"
    refused 'no such|not|lease|gone' "$server"

    # When the lease ends, all memory is free again.
    start_nbdkit ${n}4 "$FARPAGE_PLUGIN" "$server" size=16M "$MLOCK" uuid=$uuid \
                 reserve=full
    kill_9 "$(cat "$tmp/${n}4.pid")"
    wait_until 40 takes_all "$server"
    refused 'no such|not|lease|gone' "$server"
done

# Not all servers of a volume are named. Data on the others must not read as
# zeros.
start_memserver n --listen "unix:$tmp/n.usock" --size 32M --slab 4M --lease 20
other=$(grep -v '^unix:' "$tmp/n.addr")
start_nbdkit two1 "$FARPAGE_PLUGIN" "$tcp" server="$other" size=16M "$MLOCK" \
             uuid=$uuid reserve=full stripe=64k
io two1 'write -P 5 0 16M'
kill_9 "$(cat "$tmp/two1.pid")"
refused 'is on 2 servers, and 1 were given' "$other"
# The volume keeps its stripes. Others are refused.
refused 'is striped over 2 extents .*, not over 1' "$other" server="$tcp" stripe-width=1
refused 'has stripes of 64K .*, not of 128K' "$other" server="$tcp" stripe=128k
start_nbdkit two2 "$FARPAGE_PLUGIN" "$other" server="$tcp" size=16M "$MLOCK" \
             uuid=$uuid resume=true
io two2 'read -P 5 0 16M'
stop "$(cat "$tmp/two2.pid")"

# A client died, and its connection was reset. The server cannot know that the
# client is dead.
memclient="$top_builddir/tests/integration/memclient"
[ -x "$memclient" ] || skip "memclient was not built"
client=89abcdef-0123-4567-89ab-cdef01234567
start_memserver l --listen "unix:$tmp/l.usock" --size 16M --slab 4M --lease 3600
long=$(grep -v '^unix:' "$tmp/l.addr")
uuid=05000000-0000-0000-0000-000000000000 # volume 4 of memclient
MEMCLIENT_UUID=$client timeout 60 "$memclient" "$long" died size:16777216 open:4:c:tcp grant:1 \
    label:1 fill:7 reset
refused 'died may not know yet that it has lost it' "$long" await=1000
start_nbdkit long "$FARPAGE_PLUGIN" "$long" size=16M "$MLOCK" uuid=$uuid client=$client resume=true
io long 'read -P 7 0 4M' 'read -P 0 4M 4M'
stop "$(cat "$tmp/long.pid")"

# The lease has ended, and no other client needed the memory.
for s in s t; do
    start_memserver $s --listen "unix:$tmp/$s.usock" --size 32M --slab 4M --lease 5
done
short=$(grep -v '^unix:' "$tmp/s.addr") second=$(grep -v '^unix:' "$tmp/t.addr")
is_orphan () { "$memclient" "unix:$tmp/$1.usock" other fails:ENOENT lookup-id:4; }
for copies in 1 2; do
    servers=("$short" server="$second" "copies=$copies")
    case $copies in
    1) why='no such volume .*its lease has expired' ;;
    2) why='is gone: it was deleted' ;;
    esac
    start_nbdkit before$copies "$FARPAGE_PLUGIN" "${servers[@]}" size=16M "$MLOCK" uuid=$uuid \
                 client=$client
    io before$copies 'write -P 8 0 8M'
    kill_9 "$(cat "$tmp/before$copies.pid")"
    for s in s t; do wait_until 60 is_orphan $s; done
    refused "$why" "${servers[@]}"
    start_nbdkit after$copies "$FARPAGE_PLUGIN" "${servers[@]}" size=16M "$MLOCK" uuid=$uuid \
                 client=$client resume=true
    io after$copies 'read -P 8 0 8M' 'read -P 0 8M 8M'
    stop "$(cat "$tmp/after$copies.pid")"
done
