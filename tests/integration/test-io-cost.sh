#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Reads and writes of a volume allocate nothing, and over shm make no system
# call: promise 4.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

io_cost=$top_builddir/tests/bench/io-cost
start_memserver a --size 256M --slab 32M --hugepages off \
    --listen "unix:$tmp/a.sock"
tcp=$(head -n 1 "$tmp/a.addr")

for i in "shm unix:$tmp/a.sock" "tcp $tcp"; do
    read -r transport addr <<<"$i"
    status=0
    "$io_cost" "$addr" "$transport" || status=$?
    [ $status != 77 ] || skip "not with this compiler's options"
    [ $status = 0 ] || fail "over $transport: exit $status"
    # It would see them.
    status=0
    "$io_cost" "$addr" "$transport" waste >"$tmp/out" || status=$?
    [ $status = 1 ] || fail "what was wasted over $transport was not seen"
    cat "$tmp/out"
    grep -q ' 2 allocations' "$tmp/out" || fail "malloc and free over $transport"
    if [ "$transport" = shm ]; then
        # malloc may need one of its own
        grep -Eq ' [1-9][0-9]* system calls|not counted' "$tmp/out" || fail getppid
    fi
done
