#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Swap with two copies while one of its two donors dies with its host. A guest
# lends memory, and so does a server in the client's own guest. A program there,
# in a cgroup that is too small for it, swaps to both. The donor's guest is
# killed. Every byte is right, and the client's kernel log has no hung task. The
# device is soft-RoCE. TEST_TRANSPORTS="rdma tcp" adds tcp.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires jq nbdkit mkswap
requires_hog
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"

# shellcheck disable=SC2154 # requires_hog sets it
export FARPAGE_HOG=$hog
for transport in ${TEST_TRANSPORTS:-rdma}; do
    env="FARPAGE_SWAP_KILL=yes FARPAGE_SWAP_TRANSPORT=$transport FARPAGE_SWAP_LIMIT=64 \
FARPAGE_SWAP_TOUCHED=128 FARPAGE_SWAP_RANDOM=300"
    claim 0 "swap outlives a donor's host over $transport" \
        "$vm/run-pair" --net rxe --memory 1536 --timeout 1700 \
        "exec env $env $build/run $vm/guest/swap-pair donor" \
        "exec env $env $build/run $vm/guest/swap-pair client"
    claim_output '^client: the donor was killed with ' "it was killed in the middle"
    claim_output '^client: .* contents OK$' "contents are right over $transport"
    claim_output "^client: transport $transport\$" "the transport was $transport"
    claim_output '^client: nothing is lent any more$' "the memory went back"
    grep -E '^client: (the donor|fill|verify|random|fault|swap took)' "${tmp:?}/output"
done
finish
