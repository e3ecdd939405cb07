#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Measure the engine, and nbdkit with our plugin, over a simulated card
# (sim/card.h): what the software makes of a card that takes no processor time.
# Rounds are interleaved. Print medians, and the share of the card's own rate.
#
#   make -C tests bench/engine-rate-sim farpage-sim.so
#   ./run tests/bench/sim-card.sh [ROUNDS [SECONDS]]

set -eu
set -o pipefail
# shellcheck source=tests/bench/common
. "$(dirname "$0")/common"
rounds=${1:-5}
seconds=${2:-2}
tests=${top_builddir:-.}/tests
engine=$tests/bench/engine-rate-sim
plugin=$(cd "$tests" && pwd)/farpage-sim.so
for i in "$engine" "$plugin"; do
    [ -e "$i" ] || { echo "$i is not built: see the top of this script" >&2; exit 1; }
done

start test -s "$tmp/addr" -- farpage-memserver --size 256M --slab 16M \
    --listen "unix:$tmp/donor" --address-file "$tmp/addr"
populated () { farpage servers --json "unix:$tmp/donor" | jq -e '.servers[0].slabs_unpopulated == 0'; }
wait_for populated
start nbdinfo --size "nbd+unix:///?socket=$tmp/nbd" -- nbdkit -f -U "$tmp/nbd" "$plugin" \
    server="unix:$tmp/donor" size=64M transport=shm connections=1 mlock=false

# of_card SIZE DEPTH: print the rate of the card alone, for requests that fit one
# slot. The link or DEPTH limits it, never the 16 READs.
of_card ()
{
    awk -v size="$1" -v depth="$2" 'BEGIN { wire = size / 12e3
        a = depth / (3 + wire); b = 1 / wire; print 1e6 * (a < b ? a : b) }'
}

# engine OP SIZE DEPTH THREADS: print the rate.
engine ()
{
    local count
    count=$(awk "BEGIN { printf \"%.0f\", $(of_card "$2" "$3") * $seconds / $4 }")
    "$engine" shm "unix:$tmp/donor" "$1" "$2" "$3" "$count" "$4" 2>"$tmp/log" |
        awk '{ print $1 }' || { cat "$tmp/log" >&2; return 1; }
}

# nbd OP SIZE DEPTH: the same by fio's nbd engine.
nbd ()
{
    fio --name=x --ioengine=nbd --uri="nbd+unix:///?socket=$tmp/nbd" --rw="rand$1" --bs="$2" \
        --iodepth="$3" --size=64M --time_based --runtime="$seconds" --output-format=json \
        --output="$tmp/fio" || { cat "$tmp/fio" >&2; exit 1; }
    jq '.jobs[0] | .read.iops + .write.iops' "$tmp/fio"
}

fio --name=x --ioengine=nbd --uri="nbd+unix:///?socket=$tmp/nbd" --rw=write --bs=1M \
    --size=64M --output="$tmp/fio" # reads of holes cost less
jobs=("read 4096 1" "write 4096 1" "read 4096 32" "write 4096 32" "read 131072 8" "write 131072 8")
for ((r = 1; r <= rounds; r++)); do
    for job in "${jobs[@]}"; do
        # shellcheck disable=SC2086 # words
        engine $job 1 >>"$tmp/engine $job"
        # shellcheck disable=SC2086
        nbd $job >>"$tmp/nbd $job"
    done
    engine read 4096 32 2 >>"$tmp/engine read 4096 32, 2 threads"
done

show ()
{
    local rate
    rate=$(median "$tmp/$1")
    awk -v what="$1" -v depth="$3" -v rate="$rate" -v card="$(of_card "$2" "$3")" 'BEGIN {
        printf "%-35s %8.0f/s %8.2f us  %.2f of the card\n", what, rate, 1e6 * depth / rate,
            rate / card }'
}
for way in engine nbd; do
    for job in "${jobs[@]}"; do
        read -r _ size depth <<<"$job"
        show "$way $job" "$size" "$depth"
    done
done
show "engine read 4096 32, 2 threads" 4096 64
