#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The main job, small enough for each run of the gate. Memory is lent over RDMA
# on soft-RoCE, and attached as /dev/nbd0 with two copies. The device holds a
# file system, and then swap with verified contents. A memory server is killed
# under each of them.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires mkfs.ext4 fio jq nbdkit
requires_hog
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"

# shellcheck disable=SC2154 # requires_hog sets it
export FARPAGE_HOG=$hog
export FARPAGE_VM_THREADS=${FARPAGE_VM_THREADS:-single}
claim 0 "the main job over rdma" \
    "$vm/run" --net rxe --memory 2048 --timeout 540 \
    "$build/run" "$vm/guest/attach-cases" rdma config main
claim_output '^ok config$' "a volume file"
claim_output '^ok main$' "nothing was lost"
finish
