#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A memory server in one guest, the plugin in another, and RDMA between them.
# Then the donor's host dies.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires fio nbdkit nbdsh rdma
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run && -r $build/tests/functions.sh ]] ||
    skip "no build tree at $build: set top_builddir"

side="'$build/run' env top_srcdir='$(cd "$vm/../.." && pwd)' \
top_builddir='$build' FUNCTIONS='$build/tests/functions.sh' \
'$vm/guest/rdma-pair-cases'"
claim 0 "a volume over rdma between two guests" \
    "$vm/run-pair" --net rxe --memory 1024 --timeout 1000 \
    "$side donor" "$side client"
claim_output '^client: ok verify$' "fio verifies what it wrote"
claim_output '^client: ok killed$' "a dead donor is EIO"
grep -E '^client: (the last answer|later requests|zeros ended)' "${tmp:?}/output"
finish
