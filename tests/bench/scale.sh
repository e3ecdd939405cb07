#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Measure the time from the start of nbdkit until the first write and read are
# answered (goal: under 2 s). One volume has 64 GiB on 64 servers, and one with
# a name has 16384 extents. Also measure the time from GRANT to its reply, by a
# server whose memory is populated (goal: under 5 ms). This needs 5 GiB of
# memory, or a little more than 16384 of the largest SLAB.
#
#   ./run tests/bench/scale.sh [ROUNDS [SLAB...]]

set -eu
rounds=${1:-5}
shift || :
slabs=("$@")
[ ${#slabs[@]} -gt 0 ] || slabs=(64K 256K)
export top_builddir=${FARPAGE_PLUGIN%/nbdkit-plugin/*}
top_srcdir=$(cd "$(dirname "$0")/../.." && pwd)
export top_srcdir
# shellcheck source=tests/functions.sh.in
. "$top_builddir/tests/functions.sh"
# shellcheck source=tests/bench/scale
. "$top_srcdir/tests/bench/scale"

servers 64 2 4M
for ((r = 1; r <= rounds; r++)); do
    for t in shm tcp; do
        mapfile -t params < <(parameters $t 64)
        attach "64 servers, 64G, $t" OFFSETS="$(at 32 $((2 << 30)))" -- "${params[@]}" size=64G
    done
done
end_servers 64

for slab in "${slabs[@]}"; do
    for n in 1 8; do
        servers $n $((16640 / n)) "$slab"
        for t in tcp shm; do
            mapfile -t params < <(parameters $t $n)
            what="16384 extents of $slab on $n servers, $t"
            attach "$what, made" OFFSETS=0 -- "${params[@]}" volume=v \
                size=$((16384 * $(numfmt --from=iec "$slab"))) reserve=full
            for ((r = 1; r <= rounds; r++)); do
                attach "$what" READS=1 OFFSETS=0 -- "${params[@]}" volume=v
            done
            farpage volumes delete --yes v "${params[0]#server=}"
        done
        end_servers $n
    done
done

for slab in 1M 4M; do
    for t in tcp shm; do
        for ((r = 1; r <= rounds; r++)); do
            servers 1 300 $slab
            mapfile -t params < <(parameters $t 1)
            echo "of $slab, $t: $("$top_builddir/tests/integration/memclient" \
                "${params[0]#server=}" timer open:1:ce:$t time-grants:250 discard |
                grep '^grants=')"
            end_servers 1
        done
    done
done
