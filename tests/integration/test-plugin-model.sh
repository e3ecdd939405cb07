#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A volume with a name on three servers keeps all acknowledged data, whatever
# happens to its clients, its extents, and servers with --backing. Random steps
# are compared with a model (model.py). The same holds for a volume without a
# name that has copies. Its clients are killed, and the next one comes before
# the lease ends.
#
#   MODEL="tcp shm"      Transports. The servers are at MODEL_HOST.
#   SEED=N STEPS=N       Of each run. MODEL_TIMEOUT=MS is the volume's timeout.
#   MODEL_COPIES="1 2"   Copies of each extent. By default runs alternate.
#   MODEL_SECONDS=3600   Repeat for so long, each round with the next seed.
#
# MODEL_SECONDS=3600 make check TESTS=integration/test-plugin-model.sh
# shows its progress in tests/integration/test-plugin-model.log.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
slab=$((1 << 20))
size=$((9 * slab + 4608))
host=${MODEL_HOST:-127.0.0.1}
steps=${STEPS:-800}
every=${EVERY:-16}
seconds=${MODEL_SECONDS:-0}
timeout=${MODEL_TIMEOUT:-}
# Under a sanitizer everything is slow, and time is not measured here.
if [ -n "$SANITIZER_PRELOAD" ]; then
    steps=$((steps / 5))
    timeout=20000
fi
nbdkit=$(printf '%q ' "${nbdkit_cmd[@]}")
dir=$tmp

# Give each server a host of its own, which can become short of memory.
hosts=
own_host=(unshare -m)
[ "$(id -u)" = 0 ] || own_host=(unshare -rm setpriv --bounding-set=-ipc_lock)
# shellcheck disable=SC2016 # sh expands it
own_host+=(sh -c 'mount --bind "$0" /proc/meminfo && exec "$@"')
if "${own_host[@]}" /proc/meminfo true 2>/dev/null; then
    for i in 1 2 3; do
        "$SED" 's/^\(MemAvailable:\).*/\1      4194304 kB/' /proc/meminfo >"$tmp/host$i"
        hosts="$hosts $tmp/host$i"
    done
else
    echo "no mount namespace for this user: no server asks for its memory back"
fi
# server N ARG...: replace this shell with server N.
server ()
{
    local i=$1
    shift
    set -- farpage-memserver --insecure --size 16M --slab 1M --lease "${lease:-3}" --hugepages off "$@"
    if [ "$hosts" ]; then exec "${own_host[@]}" "$tmp/host$i" "$@" --reserve 64M; fi
    exec "$@" --reserve 0
}

# address NAME TRANSPORT: print the address of a server.
address ()
{
    if [ "$2" = shm ]; then echo "unix:$tmp/$1.usock"
    else grep -v '^unix:' "$tmp/$1.addr"; fi
}
servers_up ()
{
    local i
    for i in 1 2 3; do [ -s "$tmp/$1$i.addr" ] || return 1; done
}

# ---- servers that stay ----

for i in 1 2 3; do
    (server $i --listen "$host:0" --listen "unix:$tmp/m$i.usock" \
        --address-file "$tmp/m$i.addr") >"$tmp/m$i.log" 2>&1 &
    cleanup_fn stop $!
    # For a volume that is gone when the lease is over.
    (lease=60 && server $i --listen "$host:0" --listen "unix:$tmp/e$i.usock" \
        --address-file "$tmp/e$i.addr") >"$tmp/e$i.log" 2>&1 &
    cleanup_fn stop $!
done
wait_until 30 servers_up m
wait_until 30 servers_up e

# ---- servers that are started again whenever they end ----

# again I: start server I whenever it ends. Its port is one that the kernel
# gives to no client.
again ()
{
    local i=$1 listen
    while [ ! -e "$tmp/stop" ]; do
        listen=$host:$((16000 + 4000 * i + RANDOM % 4000))
        if [ -e "$tmp/b$i.fixed" ]; then listen=$(cat "$tmp/b$i.fixed"); fi
        (server "$i" --listen "$listen" --listen "unix:$tmp/b$i.usock" --backing "$backing/$i" \
            --pidfile "$tmp/b$i.pid" --address-file "$tmp/b$i.addr") >>"$tmp/b$i.log" 2>&1 ||
            sleep 0.05
        rm -f "$tmp/b$i.pid"
    done
}
stop_again ()
{
    local i end=$((SECONDS + 20))
    touch "$tmp/stop"
    while [ "$(jobs -rp | grep -cxE "$again_pids")" != 0 ]; do
        for i in 1 2 3; do
            if [ -s "$tmp/b$i.pid" ]; then kill "$(cat "$tmp/b$i.pid")" 2>/dev/null || :; fi
        done
        if [ $SECONDS -gt $end ]; then echo "FAIL: servers do not stop" >&2; break; fi
        sleep 0.1
    done
    rm -rf "$backing"
}
b_pids=
if has_tmpfs; then
    backing=$(mktemp -d /dev/shm/farpage-test.XXXXXX)
    again_pids='none'
    for i in 1 2 3; do
        again $i &
        again_pids="$again_pids|$!"
        b_pids="$b_pids $tmp/b$i.pid"
    done
    cleanup_fn stop_again
    wait_until 30 servers_up b
    for i in 1 2 3; do address b$i any >"$tmp/b$i.fixed"; done
fi

# ---- runs ----

export copies uuid weak pids servers slab size steps every events hosts nbdkit dir seed params
# none_at ADDR: succeed if no volume is left on this server.
none_at ()
{
    farpage volumes --json "$1" | python3 -c '
import json, sys
sys.exit(json.load(sys.stdin)["volumes"] != [])'
}
# model TRANSPORT m|e|b COPIES: run the model. With m, the servers stay. With e
# they stay, and the volume has no name. With b the servers are started again.
model ()
{
    local name="$1, servers that stay"
    copies=${3:-1} weak='' uuid=''
    servers="$(address "${2}1" "$1") $(address "${2}2" "$1") $(address "${2}3" "$1")"
    seed=$((${SEED:-$RANDOM} + round))
    pids=
    params="$MLOCK transport=$1${timeout:+ timeout=$timeout}"
    events='stop kill refused takeover migrate migrate migrate drain drained cancel'
    if [ "$2" = e ]; then
        name="$1, no name"
        uuid=0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0
        events='kill kill migrate migrate migrate drain drained cancel'
    fi
    if [ "$hosts" ]; then events="$events pressure give_back"; fi
    if [ "$2" = b ]; then
        name="$1, servers started again"
        pids=$b_pids
        # A server with --backing may not offer this transport, so name none.
        params="$MLOCK timeout=20000"
        events="$events restart restart restart"
    fi
    # Use the default stripes, and others.
    case $1$2 in
    tcpm) params="$params stripe-width=1" ;;
    shmm) params="$params stripe=16k" ;;
    shmb) params="$params stripe-width=2" ;;
    esac
    if [ "${3:-1}" != 1 ]; then
        name="$name, $3 copies"
        params="$params copies=$3 rebuild-delay=0"
        # With three servers, use either drains or shortage of memory.
        case $((RANDOM % 2)) in
        0) weak=no events=${events/pressure give_back/} ;;
        1) events=${events/migrate migrate migrate drain drained cancel/} ;;
        esac
    fi
    "$NBDSH" -c - <"$top_srcdir/tests/integration/model.py" >"$tmp/out" 2>&1 ||
        { cat "$tmp/out"; fail "$name: run again with SEED=$seed STEPS=$steps"; }
    echo "$name: $SECONDS s, $(paste -s -d ' ' "$tmp/out")"
    if [ "$2" = e ]; then
        for i in 1 2 3; do wait_until 20 none_at "unix:$tmp/e$i.usock"; done
    else
        farpage volumes delete --yes model "${servers%% *}" >/dev/null
    fi
}

# Alternate between one and two copies, so that each kind of run gets both.
turns=(1 2 2 1 2 1 1 2)
run=0
round=0
while :; do
    for transport in ${MODEL:-tcp shm}; do
        for kind in m b; do
            if [ $kind = b ] && [ -z "$b_pids" ]; then continue; fi
            for copies in ${MODEL_COPIES:-$((turns[run % 8]))}; do
                model "$transport" $kind "$copies"
            done
            run=$((run + 1))
        done
        # A volume without a name, as for swap.
        case ${MODEL_COPIES:-2} in
        *2*) model "$transport" e 2 ;;
        esac
    done
    round=$((round + 1))
    [ $SECONDS -lt "$seconds" ] || break
done
