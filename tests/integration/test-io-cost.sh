#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Reads and writes of a volume allocate nothing, and make no system call over
# shm (promise 4). That also holds with two copies, whose writes are marked in
# the dirty log.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

io_cost=$top_builddir/tests/bench/io-cost
for s in a b; do
    start_memserver $s --size 256M --slab 32M --hugepages off --listen "unix:$tmp/$s.sock"
done
tcp=$(head -n 1 "$tmp/a.addr")
two=$tcp,$(head -n 1 "$tmp/b.addr")

for i in "shm unix:$tmp/a.sock" "tcp $tcp" "shm unix:$tmp/a.sock,unix:$tmp/b.sock" "tcp $two"; do
    read -r transport addr <<<"$i"
    status=0
    "$io_cost" "$addr" "$transport" || status=$?
    [ $status != 77 ] || skip "not with this compiler's options"
    [ $status = 0 ] || fail "over $transport: exit $status"
    # That also holds with encryption or checksums.
    for how in crc32c xts gcm; do
        status=0
        "$io_cost" "$addr" "$transport" $how >"$tmp/out" 2>&1 || status=$?
        [ $status = 0 ] || { cat "$tmp/out"; fail "$how over $transport: exit $status"; }
    done
    # Show that the program sees allocations and system calls.
    status=0
    "$io_cost" "$addr" "$transport" waste >"$tmp/out" || status=$?
    [ $status = 1 ] || fail "what was wasted over $transport was not seen"
    cat "$tmp/out"
    grep -q ' 2 allocations' "$tmp/out" || fail "malloc and free over $transport"
    if [ "$transport" = shm ]; then
        # malloc may make a system call, too
        grep -Eq ' [1-9][0-9]* system calls|not counted' "$tmp/out" || fail getppid
    fi
done
