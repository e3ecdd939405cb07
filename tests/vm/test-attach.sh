#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# farpage attach and related commands, on a kernel that has /dev/nbd0. Memory
# server, nbdkit and device are in one guest. Cases that do not depend on the
# transport run over shm. TEST_TRANSPORTS may name some of shm, tcp and rdma.
# Then more cases run over those.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires mkfs.ext4 fio jq nbdkit
requires_hog
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"

# shellcheck disable=SC2154 # requires_hog sets it
export FARPAGE_HOG=$hog
for transport in ${TEST_TRANSPORTS:-shm tcp rdma}; do
    net=none
    [[ $transport != rdma ]] || net=rxe
    case $transport${TEST_TRANSPORTS:+ named} in
    shm*)
        cases=(config workers files stripe kill again large encrypted named servers term stuck failures interrupted race orphan swap lost)
        limit=1000 ;;
    *named) cases=(files kill named servers swap) limit=600 ;;
    tcp*) cases=(files cut) limit=600 ;;
    *) cases=(files) limit=350 ;;
    esac
    claim 0 "attach over $transport" \
        "$vm/run" --net $net --memory 3072 --timeout "$limit" \
        "$build/run" "$vm/guest/attach-cases" "$transport" "${cases[@]}"
    for c in "${cases[@]}"; do
        claim_output "^ok $c\$" "over $transport: $c"
    done
done
finish
