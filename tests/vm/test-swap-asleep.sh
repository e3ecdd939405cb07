#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The client's host sleeps for two minutes while it swaps to another guest, with
# one copy of each page. The donor's lease is 30 s, so the donor ends the
# session meanwhile. Every byte is right afterwards. TEST_TRANSPORTS="tcp rdma"
# adds rdma.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires jq nbdkit mkswap
requires_hog
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"

# shellcheck disable=SC2154 # requires_hog sets it
export FARPAGE_HOG=$hog
for transport in ${TEST_TRANSPORTS:-tcp}; do
    env="FARPAGE_SWAP_ASLEEP=120 FARPAGE_SWAP_TRANSPORT=$transport FARPAGE_SWAP_LIMIT=64 \
FARPAGE_SWAP_TOUCHED=128 FARPAGE_SWAP_RANDOM=300"
    net=none
    [[ $transport != rdma ]] || net=rxe
    claim 0 "swap outlives two minutes of sleep over $transport" \
        "$vm/run-pair" --net $net --memory 1536 --timeout 1200 \
        "exec env $env $build/run $vm/guest/swap-pair donor" \
        "exec env $env $build/run $vm/guest/swap-pair client"
    claim_output '^client: the client slept with ' "its lease ended meanwhile"
    claim_output '^client: .* contents OK$' "contents are right over $transport"
    claim_output '^client: nothing is lent any more$' "the memory went back"
    grep -E '^client: (the client|fill|verify|random|fault|swap took)' "${tmp:?}/output"
done
finish
