#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Measure how long a volume with two copies pauses. Either one of its two
# servers is killed, or all of that server's host is frozen. Client and server
# are in two guests, and the client writes 4 KiB at depth 1. Print medians of
# the longest request, and of the writes a second before and after.
#
#   top_builddir=BUILD tests/bench/pause.sh [rdma|tcp [ROUNDS [TIMEOUT...]]]

set -eu
src=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${top_builddir:-.}" && pwd)
transport=${1:-rdma}
rounds=${2:-5}
timeouts=(2000 250)
if [ $# -gt 2 ]; then timeouts=("${@:3}"); fi

out=$(mktemp)
trap 'rm -f "$out"' EXIT
side="'$build/run' env top_srcdir='$src' top_builddir='$build' \
FUNCTIONS='$build/tests/functions.sh' '$src/tests/vm/guest/pause-pair'"
"$src/tests/vm/run-pair" --net rxe --memory 1024 --timeout 1200 \
    "$side donor $transport $rounds" \
    "$side client $transport $rounds ${timeouts[*]}" >"$out" || { cat "$out"; exit 1; }
sed -n "s/^client: \($transport [0-9]* [a-z]* [0-9].*\)/\1/p" "$out" >"$out.rows"
cat "$out.rows"
for t in "${timeouts[@]}"; do
    for what in kill freeze; do
        for column in 4 5 6; do
            awk -v t="$t" -v w=$what -v c=$column '$2 == t && $3 == w { print $c }' "$out.rows" |
                sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
        done | paste -s | {
            read -r ms before after
            echo "$transport, timeout=$t, $what: $ms ms; $before writes/s before, $after after"
        }
    done
done
rm -f "$out.rows"
