#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Measure how long a volume with two copies lacks redundancy after one of its
# two servers was killed. The server is started again with empty memory. Print
# the time from the kill until the client noticed, until the server is back with
# its memory, and until all copies are back.
#
#   ./run tests/bench/redundancy.sh [tcp|shm|rdma [MIB [ROUNDS]]]
#
# For rdma, set ADDRESS to the address of an RDMA device.

set -eu
# shellcheck source=tests/bench/common
. "$(dirname "$0")/common"
transport=${1:-tcp}
mib=${2:-1024}
rounds=${3:-5}
address=${ADDRESS:-127.0.0.1}
mlock=false
if [ "$(id -u)" = 0 ]; then mlock=true; fi
declare -A pid=() addr=()

populated () { farpage servers --json "$1" | jq -e '.servers[0].slabs_unpopulated == 0'; }
# serve NAME: start that server, on the same address each time.
serve ()
{
    local name=$1 listen
    listen=$address:0
    if [ "$transport" = shm ]; then listen=unix:$tmp/$name.usock; fi
    rm -f "$tmp/$name.addr"
    start test -s "$tmp/$name.addr" -- farpage-memserver --size $((mib + 64))M --slab 16M \
        --reserve 0 --insecure --listen "${addr[$name]:-$listen}" --address-file "$tmp/$name.addr"
    pid[$name]=$!
    addr[$name]=$(grep "^${listen%:0}" "$tmp/$name.addr")
    until populated "${addr[$name]}" >/dev/null 2>&1; do sleep 0.2; done
}
status () { farpage status --socket "$tmp/status" --json | jq -e "$1" >/dev/null; }

for name in a b; do serve $name; done
start nbdinfo --size "nbd+unix:///?socket=$tmp/nbd" -- \
    nbdkit -f -U "$tmp/nbd" "$FARPAGE_PLUGIN" "${addr[a]}" "${addr[b]}" size="${mib}M" copies=2 \
    rebuild-delay=0 transport="$transport" status="$tmp/status" mlock=$mlock
fio --name=fill --ioengine=nbd --uri="nbd+unix:///?socket=$tmp/nbd" --rw=write --bs=1M \
    --iodepth=4 --size="${mib}M" --thread >"$tmp/fio" 2>&1 || { cat "$tmp/fio"; exit 1; }
status '.volume.extents_degraded == 0'

gone=b
for ((i = 1; i <= rounds; i++)); do
    # A server that comes back empty is as good as a new one.
    began=${EPOCHREALTIME/./}
    kill -9 "${pid[$gone]}"
    wait "${pid[$gone]}" 2>/dev/null || :
    until status '.volume.extents_degraded > 0'; do sleep 0.05; done
    noticed=${EPOCHREALTIME/./}
    serve $gone
    served=${EPOCHREALTIME/./}
    until status '.volume.extents_degraded == 0 and all(.servers[]; .state == "up")'; do
        sleep 0.1
    done
    end=${EPOCHREALTIME/./}
    echo "round $i, $transport, $mib MiB: noticed after $(((noticed - began) / 1000)) ms, server back" \
        "with its memory after $(((served - began) / 1000)), all copies after $(((end - began) / 1000))"
    echo $((end - began)) >>"$tmp/took"
    if [ $gone = b ]; then gone=a; else gone=b; fi
done
awk -v mib="$mib" -v us="$(median "$tmp/took")" -v t="$transport" \
    'BEGIN { printf "%s: %d MiB whole again %.1f s after the kill\n", t, mib, us / 1e6 }'
