#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Memory server, volume and plugin over RDMA in one guest, over soft-RoCE and
# over soft-iWARP. TEST_DEVICES may name one of rxe and siw.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires fio nbdkit nbdcopy nbdsh qemu-io rdma
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/tests/integration/memclient ]] ||
    skip "no build tree at $build: set top_builddir, and make check"

cases=(chosen copy random resume replaced clients_killed server_killed restarted
       takeover)
for device in ${TEST_DEVICES:-rxe siw}; do
    if [[ $device == siw ]] && ! "$vm/build-modules" siw >/dev/null 2>&1; then
        echo "SKIP: over siw: the module cannot be built"
        continue
    fi
    in_guest=("$build/run" env top_srcdir="$(cd "$vm/../.." && pwd)"
        top_builddir="$build" FUNCTIONS="$build/tests/functions.sh"
        "$vm/guest/rdma-volume-cases" "${device}0")
    claim 0 "memory server and plugin over $device" \
        "$vm/run" --net "$device" --memory 2048 --timeout 850 "${in_guest[@]}" "${cases[@]}"
    for c in "${cases[@]}" 'nothing left'; do
        claim_output "^ok $c( |\$)" "over $device: $c"
    done
    grep -E '^(the first error|later requests)' "${tmp:?}/output"
    [[ $device == rxe ]] || continue
    claim 0 "the device is taken away" "$vm/run" --net rxe --memory 2048 "${in_guest[@]}" device
    claim_output "^ok device\$" "over another one, with its address"
done
finish
