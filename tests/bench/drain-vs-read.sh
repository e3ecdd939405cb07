#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Compare how fast a memory server is drained with a sequential read of the same
# volume over the same transport. Also measure 4 KiB random requests of depth 1
# (3 reads to a write) before and during the drain.
#
#   ./run tests/bench/drain-vs-read.sh [tcp|shm [SIZE-IN-MIB [ROUNDS]]]

set -eu
# shellcheck source=tests/bench/common
. "$(dirname "$0")/common"
transport=${1:-tcp}
mib=${2:-1024}
rounds=${3:-3}

addrs=()
for name in a b; do
    start test -s "$tmp/$name.addr" -- farpage-memserver \
        --size $((mib + 256))M --slab 64M --listen 127.0.0.1:0 \
        --listen "unix:$tmp/$name.usock" --address-file "$tmp/$name.addr"
    if [ "$transport" = shm ]; then addrs+=("unix:$tmp/$name.usock")
    else addrs+=("$(grep -v '^unix:' "$tmp/$name.addr")"); fi
done
uri="nbd+unix:///?socket=$tmp/nbd"
start nbdinfo --size "$uri" -- nbdkit -f -U "$tmp/nbd" "$FARPAGE_PLUGIN" \
    "${addrs[0]}" "${addrs[1]}" size="${mib}M" transport="$transport" \
    connections=2 mlock=false status="$tmp/status"

# fio_job NAME ARG...: run fio, and leave the JSON of the job in $tmp/NAME.
fio_job ()
{
    local name=$1
    shift
    fio --name="$name" --ioengine=nbd --uri="$uri" --size="${mib}M" --thread \
        --output-format=json --output="$tmp/$name.out" "$@" >"$tmp/$name.err" 2>&1 ||
        [ "$name" = during ] || # ended by a signal
        { cat "$tmp/$name.err" >&2; exit 1; }
    sed -n '/^{/,$p' "$tmp/$name.out" >"$tmp/$name"
}
random ()
{
    fio_job "$1" --rw=randrw --rwmixread=75 --bs=4k --iodepth=1 --time_based \
        --runtime="$2" --lat_percentiles=1
}
p99 () { jq '[.jobs[0].read, .jobs[0].write] | map(.lat_ns.percentile["99.000000"] // 0) | max / 1000' "$tmp/$1"; }
p999 () { jq '[.jobs[0].read, .jobs[0].write] | map(.lat_ns.percentile["99.900000"] // 0) | max / 1000' "$tmp/$1"; }
worst () { jq '[.jobs[0].read, .jobs[0].write] | map(.lat_ns.max) | max / 1000' "$tmp/$1"; }

# drain SERVER: drain it, then allow its use again. Retry while the other server
# seems too small. It reports its room only with its heartbeat, after it has
# scrubbed the slabs that it got back.
drain ()
{
    local until=$((SECONDS + 60))
    until farpage drain --json "$tmp/status" "$1" >"$tmp/drain" 2>"$tmp/drain.err"; do
        if [ $SECONDS -ge $until ] || ! grep -q missing "$tmp/drain.err"; then
            cat "$tmp/drain.err" >&2
            exit 1
        fi
        sleep 0.5
    done
    farpage drain --cancel "$tmp/status" "$1" >"$tmp/cancel"
}
# Wait until the other server has room for all of it.
await_room ()
{
    local until=$((SECONDS + 60))
    until farpage status --socket "$tmp/status" --json |
        jq -e "[.servers[] | select(.extents == 0)][0] | .slabs_free >= $((mib / 64))" \
            >"$tmp/room"; do
        if [ $SECONDS -ge $until ]; then exit 1; fi
        sleep 0.2
    done
}

fio_job fill --rw=write --bs=1M --iodepth=4
printf '%-5s %-9s %10s %10s %10s %10s %10s\n' "$transport" '' 'drain MB/s' 'read MB/s' \
    'p99 us' 'p99.9' 'max'
from=0
for ((i = 1; i <= rounds; i++)); do
    # Collect all of it on one server. Then drain that one while nothing else
    # runs.
    drain "${addrs[from]}"
    from=$((1 - from))
    fio_job seq --rw=read --bs=1M --iodepth=4
    read=$(jq '.jobs[0].read.bw_bytes / 1e6' "$tmp/seq")
    await_room
    drain "${addrs[from]}"
    from=$((1 - from))
    printf '%-5s %-9s %10.0f %10.0f\n' "$i" alone \
        "$(jq '.bytes / .ns * 1e3' "$tmp/drain")" "$read"

    random before 5
    await_room
    random during 60 &
    job=$!
    sleep 0.3
    drain "${addrs[from]}"
    pkill -INT -P $job fio || :
    wait $job
    from=$((1 - from))
    printf '%-5s %-9s %10s %10s %10.0f %10.0f %10.0f\n' "$i" before '' '' \
        "$(p99 before)" "$(p999 before)" "$(worst before)"
    printf '%-5s %-9s %10.0f %10s %10.0f %10.0f %10.0f\n' "$i" during \
        "$(jq '.bytes / .ns * 1e3' "$tmp/drain")" '' \
        "$(p99 during)" "$(p999 during)" "$(worst during)"
done
