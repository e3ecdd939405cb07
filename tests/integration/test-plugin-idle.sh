#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Idle programs use no processor time: nbdkit and the memory servers, at the
# start, after requests, and while a server is dead.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires qemu-io --version
[ "${FARPAGE_BENCH:-}" = yes ] || skip "how much of a processor it takes depends on the machine: set FARPAGE_BENCH=yes"
hz=$(getconf CLK_TCK)

ticks () { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"; }

# idle WHAT PID...: check that each process rests in one second of three. If it
# uses a tenth of a processor or more, it loops.
idle ()
{
    local what=$1 pid try before used
    shift
    for pid; do
        for try in 1 2 3; do
            before=$(ticks "$pid")
            sleep 1
            used=$(($(ticks "$pid") - before))
            if [ $used -lt $((hz / 10)) ]; then break; fi
        done
        if [ $used -ge $((hz / 10)) ]; then
            fail "$what: $(cat "/proc/$pid/comm") takes $used of $hz ticks ($try times)"
        fi
    done
}

for copies in 1 2; do
    start_memserver "a$copies" --listen "unix:$tmp/a$copies.usock" --size 64M --slab 4M --reserve 0
    a=$(cat "$tmp/a$copies.pid")
    start_memserver "b$copies" --listen "unix:$tmp/b$copies.usock" --size 64M --slab 4M --reserve 0
    b=$(cat "$tmp/b$copies.pid")
    for transport in tcp shm; do
        case $transport in
        tcp) servers=("$(grep -v '^unix:' "$tmp/a$copies.addr")"
                      server="$(grep -v '^unix:' "$tmp/b$copies.addr")") ;;
        *) servers=("unix:$tmp/a$copies.usock" server="unix:$tmp/b$copies.usock") ;;
        esac
        start_nbdkit "$transport$copies" "$FARPAGE_PLUGIN" "${servers[@]}" size=16M copies=$copies \
            transport=$transport "$MLOCK"
        n=$(cat "$tmp/$transport$copies.pid")
        uri="nbd+unix:///?socket=$tmp/$transport$copies.sock"
        idle "$transport, $copies copies, at the start" "$n"
        qemu-io -f raw -c 'write -P 1 0 16M' -c 'discard 4M 4M' -c 'read -P 1 0 4M' "$uri" >"$tmp/io"
        idle "$transport, $copies copies, after requests" "$n" "$a" "$b"
        if [ $transport = shm ]; then
            kill -KILL "$b"
            idle "$transport, $copies copies, a server is dead" "$n" "$a"
        fi
    done
done
