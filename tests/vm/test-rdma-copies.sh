#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Volumes with two copies over RDMA in one guest. Under requests, servers die or
# stop, their keys are revoked, nbdkit is killed, and 'farpage check' runs. The
# device is soft-RoCE. TEST_DEVICES="rxe siw" adds soft-iWARP.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires jq nbdkit nbdsh qemu-io rdma
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -e $build/tests/revoke.so ]] ||
    skip "no build tree at $build: set top_builddir, and make check"

read -r -a cases <<<"${TEST_CASES:-killed stopped revoked client_killed check}"
for device in ${TEST_DEVICES:-rxe}; do
    if [[ $device == siw ]] && ! "$vm/build-modules" siw >/dev/null 2>&1; then
        echo "SKIP: over siw: the module cannot be built"
        continue
    fi
    claim 0 "copies over $device" \
        "$vm/run" --net "$device" --memory 2048 --timeout 1700 \
        "$build/run" env top_srcdir="$(cd "$vm/../.." && pwd)" \
        top_builddir="$build" FUNCTIONS="$build/tests/functions.sh" \
        "$vm/guest/rdma-copies-cases" "${device}0" "${cases[@]}"
    for c in "${cases[@]}" 'nothing left'; do
        claim_output "^ok $c( |\$)" "over $device: $c"
    done
    grep -E ' was killed: |^ok ' "${tmp:?}/output"
done
finish
