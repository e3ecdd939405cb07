#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# farpage attach and its relatives, on a kernel that has /dev/nbd0: memory
# server, nbdkit and device in one guest.  TEST_TRANSPORTS may name some of
# shm, tcp and rdma.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires mkfs.ext4 fio jq nbdkit
requires_hog
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"

# shellcheck disable=SC2154 # requires_hog sets it
export FARPAGE_HOG=$hog
for transport in ${TEST_TRANSPORTS:-shm}; do
    net=none
    [[ $transport != rdma ]] || net=rxe
    cases=()
    # What does not depend on the transport is tried once.
    [[ $transport == shm ]] || cases=(files kill)
    claim 0 "attach over $transport" \
        "$vm/run" --net $net --memory 3072 --timeout 600 \
        "$build/run" "$vm/guest/attach-cases" "$transport" "${cases[@]}"
    for c in "${cases[@]:-files kill stuck failures interrupted race orphan}"
    do
        for one in $c; do
            claim_output "^ok $one\$" "over $transport: $one"
        done
    done
done
finish
