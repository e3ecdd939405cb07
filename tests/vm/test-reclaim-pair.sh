#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A hog in the donor's guest gets its memory, and nothing is killed. The client
# in the other guest moves its extents away from the donor, and goes on.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires fio nbdkit jq rdma
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run && -r $build/tests/functions.sh ]] ||
    skip "no build tree at $build: set top_builddir"

side="'$build/run' env top_srcdir='$(cd "$vm/../.." && pwd)' \
top_builddir='$build' FUNCTIONS='$build/tests/functions.sh' \
'$vm/guest/reclaim-pair-cases'"
claim 0 "a donor with a hog, and its client" \
    "$vm/run-pair" --net rxe --memory 1024 --timeout 1200 \
    "$side donor" "$side client"
claim_output '^donor: ok donor$' "the donor's host has its memory"
claim_output '^client: ok client: ' "every byte is right"
grep -E '^client: ok|^donor: available' "${tmp:?}/output"
finish
