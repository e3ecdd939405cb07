#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Extents with two copies, over tcp and shm. During random requests one server
# at a time is frozen, or is killed or stopped and comes back empty. There is no
# error and no wrong byte, and all copies are rebuilt.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
seed=${SEED:-$RANDOM}
echo "seed=$seed"
RANDOM=$seed

serve () # NAME
{
    rm -f "$tmp/$1.addr"
    start_memserver "$1" --listen "unix:$tmp/$1.usock" --size 64M --slab 1M --reserve 0
}
pid_of () { cat "$tmp/$1.pid"; }

plugin () # NAME [ARG...]
{
    local name=$1
    shift
    rm -f "$tmp/$name.sock"
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$MLOCK" timeout=20000 connections=2 \
                 server="unix:$tmp/a.usock" server="unix:$tmp/b.usock" \
                 server="unix:$tmp/c.usock" status="$tmp/$name.status" "$@"
}
whole () # NAME: succeed if each extent has all its copies
{
    [ "$(status "$1" '(d["volume"]["extents_degraded"], sum(x["state"] == "up" for x in d["servers"]))')" = "(0, 3)" ]
}

# Do some harm to SERVER, then wait until it is back and CLIENT is whole.
hurt () # SERVER CLIENT
{
    case $((RANDOM % 4)) in
    0|1) echo "kill $1"; kill_9 "$(pid_of "$1")"; sleep "0.$((RANDOM % 9))"; serve "$1" ;;
    2) echo "stop $1"; stop "$(pid_of "$1")"; serve "$1" ;;
    3) echo "freeze $1"; kill -STOP "$(pid_of "$1")"; sleep "0.$((RANDOM % 9))"
       kill -CONT "$(pid_of "$1")" ;;
    esac
    wait_until 60 whole "$2"
}

for s in a b c; do serve $s; done
for transport in tcp shm; do
    n=v-$transport
    plugin "$n" volume="$n" size=20M copies=2 rebuild-delay=0 transport=$transport
    uri="nbd+unix:///?socket=$tmp/$n.sock" seed=$seed ops=${OPS:-1500} slab=$((1 << 20)) away=1 \
        "$NBDSH" -c - <"$top_srcdir/tests/integration/random-ops.py" >"$tmp/ops.log" 2>&1 &
    ops=$!
    times=0
    while kill -0 $ops 2>/dev/null; do
        s=(a b c)
        hurt "${s[RANDOM % 3]}" "$n"
        times=$((times + 1))
    done
    wait $ops || fail "$transport: seed=$seed: $(cat "$tmp/ops.log")"
    echo "$transport: $times times"
    stop "$(pid_of "$n")"
done
