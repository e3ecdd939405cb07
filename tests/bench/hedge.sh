#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Measure what hedge=p99 gains in 4 KiB random reads of a volume with two
# copies, over tcp. One of its two servers answers 20 ms late, either not at
# all, or all the time, or for two seconds in the middle. A proxy before each
# server causes the delay, and does nothing else.
#
#   ./run tests/bench/hedge.sh [DEPTH [SECONDS [ROUNDS [POLL-US]]]]

set -eu
# shellcheck source=tests/bench/common
. "$(dirname "$0")/common"
depth=${1:-1}
seconds=${2:-10}
rounds=${3:-3}
poll=${4:-100}
proxy=${top_builddir:-.}/tests/bench/slow-proxy

addrs=()
for name in a b; do
    start test -s "$tmp/$name.addr" -- farpage-memserver --size 512M --slab 64M \
        --listen 127.0.0.1:0 --address-file "$tmp/$name.addr"
    start test -s "$tmp/$name.slow" -- "$proxy" "$(head -n 1 "$tmp/$name.addr")" 20 \
        "$tmp/$name.slow"
    addrs+=("server=$(cat "$tmp/$name.slow")")
done
slow=${pids[1]} # the proxy before server a
for hedge in off p99; do
    start nbdinfo --size "nbd+unix:///?socket=$tmp/$hedge" -- \
        nbdkit -f -U "$tmp/$hedge" "$FARPAGE_PLUGIN" "${addrs[@]}" size=128M copies=2 \
        transport=tcp connections=1 mlock=false hedge=$hedge poll="$poll" \
        status="$tmp/$hedge.status"
done

fio_job () # HEDGE NAME ARG...
{
    local hedge=$1 name=$2
    shift 2
    fio --name="$name" --ioengine=nbd --uri="nbd+unix:///?socket=$tmp/$hedge" --size=128M \
        --thread --output-format=json --output="$tmp/$name.out" "$@" >"$tmp/$name.err" 2>&1 ||
        { cat "$tmp/$name.err" >&2; exit 1; }
    sed -n '/^{/,$p' "$tmp/$name.out" >"$tmp/$name"
}
reads () # HEDGE
{
    fio_job "$1" reads --rw=randread --bs=4k --iodepth="$depth" --time_based \
        --runtime="$seconds" --lat_percentiles=1 --percentile_list=50:99:99.9
}
hedges ()
{
    farpage status --json --socket "$tmp/p99.status" |
        jq -r '.volume.hedges | "\(.sent) \(.won) \(.lost) \(.refused)"'
}

for hedge in off p99; do
    fio_job $hedge fill --rw=write --bs=1M --iodepth=4
    reads $hedge # shows the plugin which latency is usual
done
printf '%-5s %-9s %-5s %9s %9s %9s %9s %9s  %s\n' round 'a is' hedge 'reads/s' 'p50 us' p99 \
    p99.9 max 'sent won lost refused'
for ((i = 1; i <= rounds; i++)); do
    for how in well slow 'slow 2 s'; do
        for hedge in off p99; do
            case $how in
            slow) kill -USR1 "$slow" ;;
            slow*) (sleep "$((seconds / 2 - 1))"; kill -USR1 "$slow"
                    sleep 2; kill -USR2 "$slow") & ;;
            esac
            read -r s0 w0 l0 r0 <<<"$(hedges)"
            reads $hedge
            read -r s1 w1 l1 r1 <<<"$(hedges)"
            kill -USR2 "$slow"
            jq -r --arg r "$i" --arg how "$how" --arg h $hedge \
                --arg n "$((s1 - s0)) $((w1 - w0)) $((l1 - l0)) $((r1 - r0))" \
                '.jobs[0].read | [$r, $how, $h, .iops, (.lat_ns.percentile |
                 ."50.000000", ."99.000000", ."99.900000") / 1000, .lat_ns.max / 1000, $n] | @tsv' \
                "$tmp/reads" | awk -F'\t' '{ printf "%-5s %-9s %-5s %9.0f %9.0f %9.0f %9.0f %9.0f  %s\n",
                                             $1, $2, $3, $4, $5, $6, $7, $8, $9 }'
            fio_job $hedge rest --rw=randread --bs=4k --iodepth="$depth" --time_based --runtime=1
        done
    done
done
