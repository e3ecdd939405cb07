#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The main job of test-main-job.sh, with /dev/ublkb0 instead of /dev/nbd0. The
# kernel is 6.12: Debian's 6.1 has no ublk driver.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
export FARPAGE_VM_KERNEL=${FARPAGE_VM_KERNEL:-6.12} ATTACH_FRONT=ublk
[[ $FARPAGE_VM_KERNEL != 6.1 ]] ||
    skip "Debian's Linux 6.1 has no ublk driver"
requires_guest
requires mkfs.ext4 fio jq
requires_hog
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"

# shellcheck disable=SC2154 # requires_hog sets it
export FARPAGE_HOG=$hog
export FARPAGE_VM_THREADS=${FARPAGE_VM_THREADS:-single}
claim 0 "the main job over rdma and ublk" \
    "$vm/run" --net rxe --memory 2048 --timeout 540 --env ATTACH_FRONT \
    "$build/run" "$vm/guest/attach-cases" rdma config main
claim_output '^ok config$' "a volume file"
claim_output '^ok main$' "nothing was lost"
finish
