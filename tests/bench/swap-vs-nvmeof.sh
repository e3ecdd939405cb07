#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Compare swap on the device of 'farpage attach' over RDMA with swap on NVMe-oF
# over RDMA (nvmet-rdma on a brd disk). FRONT=ublk (default nbd) chooses the
# front end. Both use the same RDMA device, with both
# ends on this machine. A program in a cgroup of 512 MiB fills 768 MiB, verifies
# them, and touches pages at random. Rounds are interleaved. Print the median of
# the ratios of the total times. The script loads modules and makes swap, so run
# it in a guest:
#
#   tests/vm/run --net rxe -m 4096 -t 1800 -M "nvmet-rdma nvme-rdma" \
#       BUILD/run tests/bench/swap-vs-nvmeof.sh 10.0.0.1 BUILD/tests/vm/hog \
#       [ROUNDS [LIMIT [TOUCHED [RANDOM]]]]

set -eu
# shellcheck source=tests/bench/nvmeof
. "$(dirname "$0")/nvmeof"
addr=${1:?the address of an RDMA device}
hog=${2:?the program tests/vm/hog of a build tree}
rounds=${3:-5}
limit=${4:-512}
touched=${5:-768}
random=${6:-4000}
front=${FRONT:-nbd}
trap 'swapoff -a || :; nvmeof_end' EXIT

nvmeof_up "$addr" "$touched"
mkswap "$nvme_device" >"$tmp/mkswap" 2>&1 || { cat "$tmp/mkswap" >&2; exit 1; }

start test -s "$tmp/addr" -- farpage-memserver --size $(((touched + 127) / 64 * 64))M --slab 64M --insecure --listen "$addr:0" \
    --address-file "$tmp/addr"
farpage_attach --swap size="${touched}M"

cg=/sys/fs/cgroup/swap-bench
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir $cg
echo "${limit}M" >$cg/memory.max

# swap NAME: run the program, and print its time in seconds.
swap ()
{
    local began now status=0
    began=$(date +%s.%N)
    (echo $BASHPID >$cg/cgroup.procs
     exec "$hog" --seed 1 --random "$random" "$touched") >"$tmp/$1" 2>&1 ||
        status=$?
    now=$(date +%s.%N)
    # Fail unless the program found its contents right.
    if [ $status != 0 ] || ! grep -q 'contents OK' "$tmp/$1"; then
        cat "$tmp/$1" >&2
        exit 1
    fi
    jq -n "$now - $began"
}

printf '%-5s %12s %12s\n' round 'nvme: s' "$front: s"
for ((i = 1; i <= rounds; i++)); do
    swapon "$nvme_device"
    theirs=$(swap nvme)
    swapoff "$nvme_device"
    farpage swapon --single-copy "$device" >"$tmp/swapon"
    ours=$(swap farpage)
    farpage swapoff "$device" >"$tmp/swapoff"
    printf '%-5s %12.1f %12.1f\n' "$i" "$theirs" "$ours"
    jq -n "$ours / $theirs" >>"$tmp/ratios"
    for who in nvme farpage; do
        grep -E '^(fill|verify|random|fault)' "$tmp/$who" | sed "s/^/  $who: /"
    done
done
printf 'time of %s / time of nvme-rdma, swap of %s MiB in %s: %.2f (goal for ublk: at most 1)\n' \
    "$front" "$touched" "$limit" "$(median "$tmp/ratios")"
