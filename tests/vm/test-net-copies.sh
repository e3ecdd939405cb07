#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A volume with two copies, one of them in another guest. Under requests, the
# link goes down and up, and packets are dropped, delayed, reordered and cut one
# way. The transport is rdma over soft-RoCE. TEST_TRANSPORTS="rdma tcp" adds
# tcp.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires jq nbdkit nbdsh rdma tc
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run && -r $build/tests/functions.sh ]] ||
    skip "no build tree at $build: set top_builddir"

side="'$build/run' env top_srcdir='$(cd "$vm/../.." && pwd)' \
top_builddir='$build' FUNCTIONS='$build/tests/functions.sh' \
'$vm/guest/net-copies-cases'"
read -r -a transports <<<"${TEST_TRANSPORTS:-rdma}"
claim 0 "two copies, and faults of the network" \
    "$vm/run-pair" --net rxe --memory 1024 --timeout 1700 \
    "$side donor" "$side client ${transports[*]}"
for t in "${transports[@]}"; do
    for c in down_there dropped delayed reordered cut_out cut_in 'nothing left'; do
        claim_output "^client: ok $t $c( |\$)" "over $t: $c"
    done
done
grep -E '^client: .* (longest|ok) ' "${tmp:?}/output"
finish
