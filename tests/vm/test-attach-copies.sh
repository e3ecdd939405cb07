#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Swap with two copies outlives a donor, and nbdkit. This is the case "copies"
# of guest/attach-cases, in a guest of its own for each of TEST_TRANSPORTS.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
[[ ${TEST_ATTACH_COPIES:-no} = yes ]] || skip "takes minutes: set TEST_ATTACH_COPIES=yes"
requires_guest
requires jq nbdkit
requires_hog
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"

# shellcheck disable=SC2154 # requires_hog sets it
export FARPAGE_HOG=$hog
for transport in ${TEST_TRANSPORTS:-shm}; do
    net=none
    [[ $transport != rdma ]] || net=rxe
    claim 0 "swap with two copies over $transport" \
        "$vm/run" --net $net --memory 3072 --timeout 1600 \
        "$build/run" "$vm/guest/attach-cases" "$transport" copies
    claim_output '^ok copies$' "over $transport: copies"
done
finish
