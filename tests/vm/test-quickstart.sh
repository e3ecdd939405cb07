#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/quickstart on a machine that has an RDMA device and /dev/nbd0, which is
# a guest here. --keep leaves a device that can be used, and says how to end it.
# Ctrl-C and SIGTERM in the middle leave nothing. Nothing is built.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires fio jq mkfs.ext4 nbdkit setsid
top=$(cd "$vm/../.." && pwd)
build=${top_builddir:-$top}
[[ -x $build/run && -x $build/tests/vm/hog ]] ||
    skip "no build tree at $build: set top_builddir, and make check"

# quickstart asks for 2 GiB of free memory.
cases=(keep interrupted terminated)
claim 0 "quickstart on this machine's own RDMA device" \
    "$vm/run" --net rxe --memory 3072 --timeout 1500 \
    "$vm/guest/quickstart-cases" "$top" "$build" "${cases[@]}"
for c in "${cases[@]}"; do
    claim_output "^ok $c " "$c"
done
grep '^ok' "${tmp:?}/output"
finish
