#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Compare the engine over RDMA with perftest on the same device, with both ends
# on this machine. Measure 4 KiB READ, with latency at depth 1 and rate at depth
# 32. Rounds are interleaved. The last lines are medians of the rounds' ratios.
#
#   ./run tests/bench/rdma-vs-perftest.sh ADDRESS [ROUNDS]
#
# ADDRESS is an address of this machine on an RDMA device. If there is none, use
# a guest:
#
#   tests/vm/run --net rxe -t 600 BUILD/run tests/bench/rdma-vs-perftest.sh 10.0.0.1

set -eu
# shellcheck source=tests/bench/common
. "$(dirname "$0")/common"
addr=${1:?the address of an RDMA device}
rounds=${2:-5}

# perftest PROGRAM ARGUMENT...: run a server and a client of PROGRAM. Print the
# line of figures.
listening () { rdma resource show cm_id | grep -q "lport $1 .*state LISTEN\|state LISTEN.*:$1 "; }
port=18515
perftest ()
{
    port=$((port + 1))
    "$@" -R -F -s 4096 -p $port >"$tmp/server" 2>&1 &
    local server=$!
    wait_for listening $port
    timeout 60 "$@" -R -F -s 4096 -p $port "$addr" >"$tmp/client" 2>&1 || {
        cat "$tmp/client" >&2
        exit 1
    }
    wait $server
    grep -E '^ *4096 ' "$tmp/client"
}

start test -s "$tmp/addr" -- farpage-memserver --size 128M --slab 64M --insecure --listen "$addr:0" \
    --address-file "$tmp/addr"

row ()
{
    jq ".rows[] | select(.op == \"read\" and .size == 4096 and .depth == $1)
        | $2" <"$tmp/json"
}

printf '%-6s %28s %28s %26s\n' round 'depth 1: us, mean (median)' \
    '' 'depth 32: 1000 a second'
printf '%-6s %14s %13s %14s %13s %12s %13s\n' '' ib_read_lat '' engine '' \
    ib_read_bw engine
for ((i = 1; i <= rounds; i++)); do
    read -r _ _ _ _ lat_p50 lat _ < <(perftest ib_read_lat -n 5000)
    read -r _ _ _ _ rate _ < <(perftest ib_read_bw -t 32 -n 20000)
    farpage bench --server "$(head -n 1 "$tmp/addr")" --layers engine-rdma \
        --size 64M --rounds 1 --seconds 2 --json >"$tmp/json" 2>"$tmp/err" || {
        cat "$tmp/err" "$tmp/log" >&2
        exit 1
    }
    mean=$(row 1 .mean_us)
    p50=$(row 1 .p50_us)
    iops=$(row 32 .iops)
    awk -v i="$i" -v lat="$lat" -v lat50="$lat_p50" -v mean="$mean" \
        -v p50="$p50" -v rate="$rate" -v iops="$iops" -v dir="$tmp" 'BEGIN {
        printf "%-6s %14.1f %13s %14.1f %13s %12.2f %13.2f\n", i, lat,
            "(" lat50 ")", mean, "(" p50 ")", rate * 1000, iops / 1000
        print mean / lat >> (dir "/lat")
        print p50 / lat50 >> (dir "/lat50")
        print iops / (rate * 1e6) >> (dir "/rate")
    }'
done
printf 'engine / ib_read_lat -s 4096, mean: %.2f (goal: at most 1.15)\n' \
    "$(median "$tmp/lat")"
printf 'engine / ib_read_lat -s 4096, median: %.2f\n' "$(median "$tmp/lat50")"
printf 'engine / ib_read_bw -s 4096 -t 32, rate: %.2f (goal: at least 0.9)\n' \
    "$(median "$tmp/rate")"
