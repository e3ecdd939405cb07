#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The rdma transport over soft-RoCE and over soft-iWARP, with the same test
# program and the same code.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"

build=${top_builddir:-$(cd "$vm/../.." && pwd)}
program=$build/tests/unit/test-verbs
[[ -x $program ]] || skip "no $program: configure with rdma, make check"
requires rdma
requires_guest
devices=rxe
if "$vm/build-modules" siw >"$tmp/build" 2>&1; then
    devices='rxe siw'
else
    echo "no siw: $(tail -n 1 "$tmp/build")"
fi

# siw limits locked memory even for root.
# shellcheck disable=SC2016
in_guest='ulimit -l unlimited; exec "$@"'
for device in $devices; do
    # No host on v0's network has the dead address.
    if "$vm/run" --net "$device" --timeout 800 sh -c "$in_guest" sh \
        env top_builddir="$build" FARPAGE_TEST_RDMA_DEAD=10.0.0.77 \
        "$program"; then
        pass "the rdma transport over $device"
    else
        fail "the rdma transport over $device"
    fi
done
finish
