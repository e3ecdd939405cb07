#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Measure what a second copy costs, by 4 KiB random reads and writes of depth 1.
# They go to volumes with a name, of 1 and of 2 copies, on the same two memory
# servers. The engine alone does them (copies-lat.c), then fio's nbd engine
# through nbdkit. The engine is also measured on a volume of 2 copies after one
# server was killed. Rounds are interleaved. Print medians of the rounds' median
# latencies, and of their ratios.
#
#   make -C tests bench/copies-lat
#   ./run tests/bench/copies-cost.sh [ROUNDS [SECONDS [TRANSPORT...]]]
#
# The default transports are tcp and shm. For rdma, set ADDRESS to the address
# of an RDMA device.

set -eu
# shellcheck source=tests/bench/common
. "$(dirname "$0")/common"
rounds=${1:-5}
seconds=${2:-2}
transports=(tcp shm)
if [ $# -gt 2 ]; then transports=("${@:3}"); fi
address=${ADDRESS:-127.0.0.1}
lat=${top_builddir:-.}/tests/bench/copies-lat
[ -x "$lat" ] || { echo "$lat is not built" >&2; exit 1; }
mib=128

for name in a b; do
    start test -s "$tmp/$name.addr" -- farpage-memserver \
        --size $((mib * 4 * ${#transports[@]}))M --slab 16M --reserve 0 --insecure --listen "$address:0" \
        --listen "unix:$tmp/$name.usock" --address-file "$tmp/$name.addr"
done

# servers TRANSPORT: print the addresses of both servers.
servers ()
{
    local name
    for name in a b; do
        if [ "$1" = shm ]; then echo "unix:$tmp/$name.usock"
        else grep -v '^unix:' "$tmp/$name.addr"; fi
    done
}

# fio_on VOLUME ARG...: run fio, and print the JSON of the job.
fio_on ()
{
    local volume=$1
    shift
    fio --name=x --ioengine=nbd --uri="nbd+unix:///?socket=$tmp/$volume" \
        --size="${mib}M" --thread --output-format=json --output="$tmp/json" "$@" \
        >"$tmp/fio" 2>&1 || { cat "$tmp/fio" >&2; exit 1; }
    sed -n '/^{/,$p' "$tmp/json"
}

# run VOLUME RW: print the median and the 99th percentile of the latency, in us.
run ()
{
    fio_on "$1" --rw="$2" --bs=4k --iodepth=1 --time_based --runtime="$seconds" \
        --ramp_time=0.5 --lat_percentiles=1 |
        jq -r '.jobs[0] | [.read, .write][] | select(.total_ios > 0) | .lat_ns |
            "\(.percentile["50.000000"] / 1000) \(.percentile["99.000000"] / 1000)"'
}

# said TEXT ONE TWO RATIO: print one result.
said () { printf '%s, depth 1: %.2f us, 2 copies %.2f us: %.2f\n' "$@"; }

# victim TRANSPORT: start a server that copies-lat may kill. Print its address
# and its pid.
victim ()
{
    start test -s "$tmp/$1.c.addr" -- farpage-memserver \
        --size 256M --slab 16M --reserve 0 --insecure --listen "$address:0" \
        --listen "unix:$tmp/$1.c.usock" --address-file "$tmp/$1.c.addr" \
        --pidfile "$tmp/$1.c.pid"
    if [ "$1" = shm ]; then echo "unix:$tmp/$1.c.usock"
    else grep -v '^unix:' "$tmp/$1.c.addr"; fi
    cat "$tmp/$1.c.pid"
}

for transport in "${transports[@]}"; do
    mapfile -t addrs < <(servers "$transport")
    victim "$transport" >"$tmp/victim"
    mapfile -t victim <"$tmp/victim"
    "$lat" "$transport" $((rounds * seconds)) "${addrs[@]}" "${victim[@]}" >"$tmp/lat"
    while read -r rw one two ratio degraded; do
        said "engine over $transport, 4 KiB $rw" "$one" "$two" "$ratio"
        echo "engine over $transport, 4 KiB $rw, depth 1: 2 copies, one of them gone: $degraded us"
    done <"$tmp/lat"
    for copies in 1 2; do
        volume=$transport$copies
        start nbdinfo --size "nbd+unix:///?socket=$tmp/$volume" -- \
            nbdkit -f -t 1 -U "$tmp/$volume" "$FARPAGE_PLUGIN" \
            server="${addrs[0]}" server="${addrs[1]}" volume="$volume" \
            copies=$copies size=${mib}M transport="$transport" \
            connections=1 mlock=false
        # Write all of it: reads of extents that were never written need no
        # copy.
        fio_on "$volume" --rw=write --bs=1M --iodepth=4 >"$tmp/fill"
    done
done

printf '%-6s %-5s %-10s %10s %10s %8s %10s %10s\n' round '' '' '1 copy us' \
    '2 copies' ratio 'p99, 1' 'p99, 2'
for ((i = 1; i <= rounds; i++)); do
    for transport in "${transports[@]}"; do
        for rw in randread randwrite; do
            # Alternate which one goes first.
            order=(1 2)
            if ((i % 2 == 0)); then order=(2 1); fi
            for copies in "${order[@]}"; do
                run "$transport$copies" $rw >"$tmp/copies$copies"
            done
            read -r one one99 <"$tmp/copies1"
            read -r two two99 <"$tmp/copies2"
            ratio=$(jq -n "$two / $one")
            echo "$one" >>"$tmp/$transport.$rw.1"
            echo "$two" >>"$tmp/$transport.$rw.2"
            echo "$ratio" >>"$tmp/$transport.$rw"
            printf '%-6s %-5s %-10s %10.1f %10.1f %8.2f %10.0f %10.0f\n' "$i" \
                "$transport" $rw "$one" "$two" "$ratio" "$one99" "$two99"
        done
    done
done
for transport in "${transports[@]}"; do
    for rw in randread randwrite; do
        said "nbd over $transport, 4 KiB $rw" "$(median "$tmp/$transport.$rw.1")" \
            "$(median "$tmp/$transport.$rw.2")" "$(median "$tmp/$transport.$rw")"
    done
done
