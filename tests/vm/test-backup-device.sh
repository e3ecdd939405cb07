#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# backup=PATH where PATH is a block device: what is not to be overwritten is
# refused, a volume outlives its only server, and a disk with errors is left.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires jq nbdkit nbdsh mkfs.ext4
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"

cases=(refused lives errors)
claim 0 "a backup on a block device" "$vm/run" --timeout 1200 -M null_blk \
    "$build/run" env top_srcdir="$(cd "$vm/../.." && pwd)" \
    top_builddir="$build" FUNCTIONS="$build/tests/functions.sh" \
    "$vm/guest/backup-device-cases" "${cases[@]}"
for c in "${cases[@]}"; do
    claim_output "^ok $c\$" "$c"
done
finish
