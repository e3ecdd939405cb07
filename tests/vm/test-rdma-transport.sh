#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The rdma transport over soft-RoCE and over soft-iWARP: the same test
# program, the same code.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${top_builddir:-$(cd "$here/../.." && pwd)}
program=$build/tests/unit/test-verbs

if [[ ! -x $program ]]; then
    echo "SKIP: no $program: configure with rdma, then make check"
    exit 77
fi

for device in rxe siw; do
    echo "-- $device"
    # On v0's network nobody has this address.
    "$here/run" --net "$device" env top_builddir="$build" \
        FARPAGE_TEST_RDMA_DEAD=10.0.0.77 "$program"
done
