#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# No request costs more instructions than tests/bench/path-length.budget allows.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires fio jq nbdkit
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"
budget=$vm/../bench/path-length.budget
series=${FARPAGE_VM_KERNEL:-6.1}
case $series in
6.1) rows='nbd-shm nbd-tcp nbd-rdma' ;;
6.12) rows='nbd-shm ublk-shm ublk-tcp ublk-rdma' ;;
*) skip "no budget for kernel $series" ;;
esac

claim 0 "a request costs what its budget allows" \
    "$vm/../bench/path-length" --check --rows "$rows" "$build"
cat "$tmp/output"

# A smaller budget is exceeded.
cp -r "$vm/../bench" "$tmp/bench"
ln -s "$vm" "$tmp/vm"
sed "s/^\($series nbd-shm randread:4k:1\) .*/\1 1/" "$budget" >"$tmp/bench/path-length.budget"
claim 1 "a row over its budget fails" "$tmp/bench/path-length" --check --rows nbd-shm "$build"
claim_output "nbd-shm randread:4k:1: .* the budget is 1.0" "and is named"
finish
