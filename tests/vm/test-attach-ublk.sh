#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# farpage attach --front ublk, by the cases of test-attach.sh. The kernel is
# 6.12: Debian's 6.1 has no ublk driver.

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
for transport in ${TEST_TRANSPORTS:-shm tcp rdma}; do
    net=none
    [[ $transport != rdma ]] || net=rxe
    case $transport in
    shm) cases=(config files stripe kill again large encrypted named servers term stuck failures interrupted race orphan swap foreign lost) ;;
    tcp) cases=(files cut) ;;
    *) cases=(again) ;;
    esac
    claim 0 "attach over $transport" \
        "$vm/run" --net $net --memory 3072 --timeout 1000 --env ATTACH_FRONT \
        "$build/run" "$vm/guest/attach-cases" "$transport" "${cases[@]}"
    for c in "${cases[@]}"; do
        claim_output "^ok $c\$" "over $transport: $c"
    done
done
finish
