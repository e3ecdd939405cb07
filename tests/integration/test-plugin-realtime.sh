#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# If nbdkit has real-time priority, so has each thread that I/O may wait for,
# even for a server that is added later. The status thread does not have it. A
# thread that looks for memory at that priority keeps others from freeing some.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ -z "$SANITIZER_PRELOAD" ] || skip "a sanitizer has too much memory to lock"
requires python3 --version
requires chrt -f 10 true

start_memserver a --listen "unix:$tmp/a.usock" --size 32M --slab 4M
start_memserver b --listen "unix:$tmp/b.usock" --size 32M --slab 4M
start_memserver c --listen "unix:$tmp/c.usock" --size 32M --slab 4M

# threads PID: print NAME POLICY of each thread.
threads ()
{
    local task
    for task in "/proc/$1/task/"*; do
        echo "$(cat "$task/comm") $(chrt -p "${task##*/}" | "$SED" -n 's/.*policy: //p')"
    done | sort -u
}

# has NAME POLICY: check that there is a thread NAME, and that it has this
# policy.
has ()
{
    [ "$("$SED" -n "s/^$1 //p" "$tmp/threads")" = "$2" ] ||
        { cat "$tmp/threads"; fail "$1 is not $2"; }
}

look ()
{
    threads "$(cat "$tmp/n.pid")" >"$tmp/threads"
    has fp-status SCHED_BATCH
    for name in "$@"; do has "$name" SCHED_FIFO; done
    if grep -v '^fp-status ' "$tmp/threads" | grep -v ' SCHED_FIFO$'; then
        fail "no real-time priority"
    fi
}

nbdkit_cmd=(chrt -f 10 "${nbdkit_cmd[@]}")
start_nbdkit n "$FARPAGE_PLUGIN" "$MLOCK" transport=shm size=16M copies=2 swap=true \
    "unix:$tmp/a.usock" server="unix:$tmp/b.usock" \
    status="$tmp/status"
look fp-peer0 fp-peer1 fp-allocator fp-migrate
farpage status --socket "$tmp/status" --json | grep -q '"realtime": *true' || fail "status says no"
timeout 60 farpage servers add "$tmp/status" "unix:$tmp/c.usock" >"$tmp/out" || fail "servers add"
look fp-peer0 fp-peer1 fp-peer2 fp-allocator fp-migrate
stop "$(cat "$tmp/n.pid")"

# Without real-time priority no thread has it.
nbdkit_cmd=("${nbdkit_cmd[@]:3}")
start_nbdkit o "$FARPAGE_PLUGIN" "$MLOCK" size=16M "unix:$tmp/a.usock" status="$tmp/status2"
threads "$(cat "$tmp/o.pid")" >"$tmp/threads"
has fp-peer0 SCHED_OTHER
has fp-status SCHED_BATCH
farpage status --socket "$tmp/status2" --json | grep -q '"realtime": *false' || fail "status says yes"
