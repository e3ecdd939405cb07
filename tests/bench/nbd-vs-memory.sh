#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Compare nbdkit with our plugin over shm with nbdkit's own memory plugin. Both
# serve a Unix socket with one thread. fio's nbd engine does 4 KiB random reads
# and writes at one depth. Rounds are interleaved. Print medians of the rounds'
# ratios.
#
#   ./run tests/bench/nbd-vs-memory.sh [DEPTH [ROUNDS [SECONDS]]]

set -eu
# shellcheck source=tests/bench/common
. "$(dirname "$0")/common"
depth=${1:-16}
rounds=${2:-5}
seconds=${3:-3}
size=256M

start test -s "$tmp/addr" -- farpage-memserver --size 512M --slab 64M \
    --listen "unix:$tmp/donor" --address-file "$tmp/addr"
start nbdinfo --size "nbd+unix:///?socket=$tmp/farpage" -- \
    nbdkit -f -t 1 -U "$tmp/farpage" "$FARPAGE_PLUGIN" \
    server="unix:$tmp/donor" size=$size transport=shm connections=1 mlock=false
start nbdinfo --size "nbd+unix:///?socket=$tmp/memory" -- \
    nbdkit -f -t 1 -U "$tmp/memory" memory $size

# run NAME RW SECONDS: print the IOPS.
run ()
{
    fio --name=x --ioengine=nbd --uri="nbd+unix:///?socket=$tmp/$1" --rw="$2" \
        --bs=4k --iodepth="$depth" --size=$size --time_based --runtime="$3" \
        --ramp_time=0.5 --thread --output-format=json --output="$tmp/json" \
        >"$tmp/fio" 2>&1 || { cat "$tmp/fio" >&2; exit 1; }
    sed -n '/^{/,$p' "$tmp/json" | jq '.jobs[0] | .read.iops + .write.iops'
}

# Write all of both: holes are read without touching memory.
for i in farpage memory; do
    fio --name=fill --ioengine=nbd --uri="nbd+unix:///?socket=$tmp/$i" \
        --rw=write --bs=1M --iodepth=4 --size=$size --thread \
        >"$tmp/fio" 2>&1 || { cat "$tmp/fio" >&2; exit 1; }
done

printf '%-6s %-10s %12s %12s %8s\n' round '' memory farpage ratio
for ((i = 1; i <= rounds; i++)); do
    for rw in randread randwrite; do
        # Alternate which one goes first.
        if ((i % 2)); then
            memory=$(run memory $rw "$seconds")
            farpage=$(run farpage $rw "$seconds")
        else
            farpage=$(run farpage $rw "$seconds")
            memory=$(run memory $rw "$seconds")
        fi
        ratio=$(jq -n "$farpage / $memory")
        echo "$ratio" >>"$tmp/$rw"
        printf '%-6s %-10s %12.0f %12.0f %8.2f\n' "$i" $rw "$memory" \
            "$farpage" "$ratio"
    done
done
for rw in randread randwrite; do
    printf 'farpage / memory, 4 KiB %s, depth %s: %.2f (goal: at least 0.95)\n' \
        $rw "$depth" "$(median "$tmp/$rw")"
done
