#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Compare the device of 'farpage attach' over RDMA with NVMe-oF over RDMA
# (nvmet-rdma on a brd disk). FRONT=ublk (default nbd) chooses the front end. Both use the same RDMA device, with both ends on
# this machine. fio reads and writes at random, 4 KiB at depth 1 and 32, and 128
# KiB at depth 8. Rounds are interleaved. Print medians of the rounds' ratios.
# The script loads modules and writes to devices, so run it in a guest:
#
#   tests/vm/run --net rxe -m 3072 -t 900 -M "nvmet-rdma nvme-rdma" \
#       BUILD/run tests/bench/device-vs-nvmeof.sh 10.0.0.1 [ROUNDS [SECONDS]]

set -eu
# shellcheck source=tests/bench/nvmeof
. "$(dirname "$0")/nvmeof"
addr=${1:?the address of an RDMA device}
rounds=${2:-5}
seconds=${3:-4}
front=${FRONT:-nbd}
mib=256

nvmeof_up "$addr" $mib

start test -s "$tmp/addr" -- farpage-memserver --size ${mib}M --slab 64M --insecure --listen "$addr:0" \
    --address-file "$tmp/addr"
farpage_attach size=${mib}M

# run DEVICE RW BS DEPTH SECONDS: print IOPS, mean and p99 latency in us.
run ()
{
    fio --name=x --filename="$1" --ioengine=libaio --direct=1 --rw="$2" \
        --bs="$3" --iodepth="$4" --time_based --runtime="$5" --ramp_time=0.5 \
        --lat_percentiles=1 --output-format=json --output="$tmp/json" \
        >"$tmp/fio" 2>&1 || { cat "$tmp/fio" "$tmp/log" >&2; exit 1; }
    sed -n '/^{/,$p' "$tmp/json" | jq -r '.jobs[0] | if .read.total_ios > 0
        then .read else .write end | "\(.iops) \(.lat_ns.mean / 1000)
        \(.lat_ns.percentile["99.000000"] / 1000)" | gsub("\n *"; " ")'
}

# Write all of both: holes are read without the network.
for i in "$device" "$nvme_device"; do
    fio --name=fill --filename="$i" --ioengine=libaio --direct=1 --rw=write \
        --bs=1M --iodepth=4 >"$tmp/fio" 2>&1 || { cat "$tmp/fio" >&2; exit 1; }
done

printf '%-5s %-9s %-4s %-5s %31s   %31s\n' round '' '' depth \
    'nvme: IOPS / us / p99 us' "$front: IOPS / us / p99 us"
for ((i = 1; i <= rounds; i++)); do
    for row in randread:4k:1 randwrite:4k:1 randread:4k:32 randwrite:4k:32 \
        randread:128k:8 randwrite:128k:8; do
        IFS=: read -r rw bs depth <<<"$row"
        read -r iops lat p99 < <(run "$nvme_device" "$rw" "$bs" "$depth" "$seconds")
        read -r our_iops our_lat our_p99 < \
            <(run "$device" "$rw" "$bs" "$depth" "$seconds")
        printf '%-5s %-9s %-4s %-5s %10.0f %10.0f %10.0f   %10.0f %10.0f %10.0f\n' \
            "$i" "$rw" "$bs" "$depth" "$iops" "$lat" "$p99" \
            "$our_iops" "$our_lat" "$our_p99"
        if [ "$depth" = 1 ]; then
            jq -n "$our_lat / $lat" >>"$tmp/$row"
        else
            jq -n "$our_iops / $iops" >>"$tmp/$row"
        fi
    done
done
for row in randread:4k:1 randwrite:4k:1; do
    printf '%s / nvme-rdma, %s: %.2f of the latency (goal for ublk: at most 1)\n' \
        "$front" "$row" "$(median "$tmp/$row")"
done
for row in randread:4k:32 randwrite:4k:32 randread:128k:8 randwrite:128k:8; do
    printf '%s / nvme-rdma, %s: %.2f of the rate (goal for ublk: at least 1)\n' \
        "$front" "$row" "$(median "$tmp/$row")"
done
