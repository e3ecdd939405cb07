#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Memory servers of this release work with clients of the last one, and the other
# way round. A server can also change from one release to the other and back under
# load. FARPAGE_RELEASE is the directory in which tests/build-release installed the
# last release.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
has_tmpfs || skip "/dev/shm is no tmpfs, or too small"
[ -n "${FARPAGE_RELEASE:-}" ] || skip "FARPAGE_RELEASE is not set: see tests/build-release"
seed=${SEED:-$RANDOM}
echo "seed=$seed"
dir=$(mktemp -d /dev/shm/farpage-test.XXXXXX)
cleanup_fn rm -rf "$dir"

declare -A memserver=([old]=$FARPAGE_RELEASE/bin/farpage-memserver [new]=$(type -P farpage-memserver))
declare -A farpage=([old]=$FARPAGE_RELEASE/bin/farpage [new]=$(type -P farpage))
declare -A plugin=([old]=$FARPAGE_RELEASE/lib/nbdkit/plugins/nbdkit-farpage-plugin.so [new]=$FARPAGE_PLUGIN)
declare -A other=([old]=new [new]=old)

# start_memserver calls this function instead of the program. The caller's $release
# selects the release.
farpage-memserver ()
{
    case " $* " in
    *' fdstore: '*) exec python3 "$top_srcdir/tests/integration/fdstore.py" start "$tmp" "${memserver[$release]}" "$@" ;;
    esac
    exec "${memserver[$release]}" "$@"
}
# server RELEASE NAME [OPTION]...: start a memory server. NAME is new, or that of a
# server that has ended.
server ()
{
    local release=$1 name=$2
    shift 2
    rm -f "$tmp/$name.addr"
    start_memserver "$name" --size 32M --slab 1M --hugepages off \
        --listen "unix:$tmp/$name.usock" "$@"
}
# attach RELEASE NAME [PARAMETER]...: attach a volume with the plugin of that release.
# Only this release's is built with a sanitizer.
attach ()
{
    local release=$1 name=$2
    local nbdkit_cmd=("${nbdkit_cmd[@]}")
    shift 2
    if [ "$release" = old ]; then nbdkit_cmd=(nbdkit); fi
    start_nbdkit "$name" "${plugin[$release]}" timeout=30000 status="$tmp/$name.status" "$MLOCK" "$@"
}
detach () { stop "$(cat "$tmp/$1.pid")"; }
# shell NAME PYTHON: run the Python code in nbdsh. h is connected to the volume NAME.
shell () { "$NBDSH" -u "nbd+unix:///?socket=$tmp/$1.sock" -c "$2" || fail "$1: $2"; }
# says STATUS TEXT COMMAND...: check that COMMAND ends with STATUS, and that a line of
# its output matches TEXT.
says ()
{
    local wanted=$1 text=$2 status=0
    shift 2
    "$@" >"$tmp/out" 2>&1 || status=$?
    [ $status = "$wanted" ] || fail "$*: exit status $status: $(cat "$tmp/out")"
    grep -q -e "$text" "$tmp/out" || fail "$*: no '$text': $(cat "$tmp/out")"
}
whole () { [ "$(status "$1" "d['volume']['extents_degraded']")" = 0 ]; }
up () { [ "$(status "$1" "d['servers'][$2]['state']")" = up ]; }
away () { [ "$(status "$1" "d['servers'][$2]['state'] != 'up'")" = True ]; }
extents () { status "$1" "[s.get('extents') for s in d['servers']]"; }
copies_are () { [ "$(extents "$1")" = "$2" ]; }

[ "$("${memserver[old]}" --version)" != "$("${memserver[new]}" --version)" ] ||
    fail "both releases say that they are $("${memserver[new]}" --version)"

# ---- a server that goes from one release to the other and back, under load ----

python3 "$top_srcdir/tests/integration/fdstore.py" keep "$tmp" &
cleanup_fn kill -9 $!
wait_until 10 test -S "$tmp/keeper"

# switch_under_load CLIENT TRANSPORT ADDRESS OPTION...: make random requests with the
# plugin of release CLIENT. Each time the volume has been written, kill the server m,
# and start it as the other release.
n=0
switch_under_load ()
{
    local client=$1 transport=$2 at=$3 ops release=old name times
    shift 3
    n=$((n + 1))
    name=$client$n
    server $release m "$@"
    attach "$client" "$name" "$at" size=24M connections=2 volume=vol
    grep -q "transport $transport" "$tmp/$name.log" || fail "$client: not over $transport"
    uri="nbd+unix:///?socket=$tmp/$name.sock" seed=$seed ops=1000000 slab=$((1 << 20)) away=1 \
        enough="$tmp/enough.$name" "$NBDSH" -c - <"$top_srcdir/tests/integration/random-ops.py" \
        >"$tmp/ops.log" 2>&1 &
    ops=$!
    cleanup_fn kill -9 $ops
    for ((times = 0; times < 6; times++)); do
        wait_until 60 written_since "$name"
        kill_9 "$(cat "$tmp/m.pid")"
        release=${other[$release]}
        server "$release" m "$@"
    done
    touch "$tmp/enough.$name"
    wait $ops || fail "$client over $transport: seed=$seed: $(cat "$tmp/ops.log")"
    if grep 'requests failed' "$tmp/$name.log"; then fail "$client over $transport: there were errors"; fi
    detach "$name"
    "${farpage[$client]}" volumes delete --yes vol "$at"
    stop "$(cat "$tmp/m.pid")"
}
# written_since NAME: succeed if the volume was written since this function last
# succeeded for it.
declare -A written
written_since ()
{
    local now
    now=$(status "$1" "d['volume']['writes']") || return 1
    [ "$now" != "${written[$1]:-0}" ] || return 1
    written[$1]=$now
}
for client in old new; do
    switch_under_load $client shm "unix:$tmp/m.usock" --backing fdstore: --lease 30
    switch_under_load $client tcp "unix:$tmp/m.usock" --backing "$dir/$client" --lease 30
done

# ---- a volume with two copies, on a server of each release ----

server old a
server new b
a=unix:$tmp/a.usock b=unix:$tmp/b.usock
# Each client reads data that the other release wrote. Then one server dies, and starts
# again empty, as the other release.
attach old first "$a" "$b" size=8M copies=2 volume=pair transport=tcp
shell first 'h.pwrite(b"1" * (4 << 20), 0)'
detach first
attach new second "$a" "$b" size=8M copies=2 volume=pair transport=tcp
shell second 'assert h.pread(4 << 20, 0) == b"1" * (4 << 20); h.pwrite(b"2" * (4 << 20), 2 << 20)'
kill_9 "$(cat "$tmp/a.pid")"
shell second 'h.pwrite(b"3" * 4096, 1 << 20)'
wait_until 60 away second 0
server new a
wait_until 60 up second 0
wait_until 60 copies_are second '[6, 6]'
wait_until 60 whole second
detach second
attach old third "$a" "$b" size=8M copies=2 volume=pair transport=tcp
kill_9 "$(cat "$tmp/b.pid")"
shell third 'd = h.pread(8 << 20, 0)
assert d == b"1" * (1 << 20) + b"3" * 4096 + b"1" * ((1 << 20) - 4096) + b"2" * (4 << 20) + bytes(2 << 20)'
wait_until 60 away third 1
server old b
wait_until 60 up third 1
wait_until 60 copies_are third '[6, 6]'
wait_until 60 whole third
detach third

# ---- commands ----

says 1 'this server is older than 0.2: upgrade it' "${farpage[new]}" servers drain "$b"
for client in old new; do
    for at in "$a" "$b"; do
        says 0 '^pair: 8M' "${farpage[$client]}" volumes "$at"
        says 0 ': 32M in slabs of 1M' "${farpage[$client]}" servers "$at"
    done
    says 0 'pair' "${farpage[$client]}" volumes show pair "$a" "$b"
done

# Drain a server of this release that has extents of both clients. First it is the
# only one.
server new c
c=unix:$tmp/c.usock
for client in old new; do
    attach $client filled-$client "$c" size=4M stripe-width=1 transport=tcp volume=vol-$client
    shell filled-$client 'h.pwrite(b"x" * (4 << 20), 0)'
    detach filled-$client
    attach $client drained-$client "$c" "$a" size=4M stripe-width=1 transport=tcp volume=vol-$client add=true
    copies_are drained-$client '[4, 0]' || fail "$client: $(extents drained-$client)"
done
"${farpage[new]}" servers drain "$c" >"$tmp/out" 2>&1 || fail "drain: $(cat "$tmp/out")"
for client in old new; do
    copies_are drained-$client '[0, 4]' || fail "$client: $(extents drained-$client)"
    shell drained-$client 'assert h.pread(4 << 20, 0) == b"x" * (4 << 20)'
    detach drained-$client
done
"${farpage[new]}" volumes delete --yes pair "$a" "$b" || fail "delete"
