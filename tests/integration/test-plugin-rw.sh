#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Reads return what was written. Random requests are compared with a copy of the
# volume, over shm and tcp, on one server and on two. The last extent is not
# whole.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
start_memserver m1 --listen "unix:$tmp/m1.usock" --size 48M --slab 4M
start_memserver m2 --listen "unix:$tmp/m2.usock" --size 48M --slab 4M
slab=$((4 << 20))
ops=${OPS:-400}
export uri seed ops slab

# random_ops NAME ARG...: make random requests to a new volume.
random_ops ()
{
    local name=$1
    shift
    seed=${SEED:-$RANDOM}
    # Under a sanitizer everything is slow, and time is not measured here.
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$@" "$MLOCK" connections=2 \
                 ${SANITIZER_PRELOAD:+timeout=20000}
    uri="nbd+unix:///?socket=$tmp/$name.sock"
    "$NBDSH" -c - <"$top_srcdir/tests/integration/random-ops.py" >"$tmp/out" ||
        { cat "$tmp/out"; fail "$name: run again with SEED=$seed"; }
    stop "$(cat "$tmp/$name.pid")"
}

tcp1=$(grep -v '^unix:' "$tmp/m1.addr")
tcp2=$(grep -v '^unix:' "$tmp/m2.addr")
random_ops shm1 "unix:$tmp/m1.usock" size=26M
random_ops shm2 "server=unix:$tmp/m1.usock" "server=unix:$tmp/m2.usock" \
           transport=shm size=64000512
random_ops tcp1 "$tcp1" transport=tcp size=26M
random_ops tcp2 "$tcp1" "server=$tcp2" size=64000512 reserve=full
random_ops both "$tcp1" "server=unix:$tmp/m2.usock" size=40M poll=0
grep -q "transport shm" "$tmp/shm1.log" || fail "shm was not taken, or not said"
grep -q "transport tcp" "$tmp/tcp1.log" || fail "tcp was not taken, or not said"
