#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The main job. One guest lends memory, and another swaps to it over RDMA. A
# program there touches one and a half times the memory that its cgroup may
# have, and finds every byte as it left it. Neither kernel's log has a hung
# task. TEST_DEVICES may name one of rxe and siw.
#
# The sizes are small, to be quick under emulation. There siw takes four times
# as long as rxe, because it uses a TCP connection that sends an MTU at a time.
# The figures in docs/BENCHMARKS.md have these sizes:
#
#   FARPAGE_SWAP_LIMIT=512 FARPAGE_SWAP_TOUCHED=768 FARPAGE_SWAP_RANDOM=4000

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires jq nbdkit mkswap
requires_hog
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/run ]] || skip "no build tree at $build: set top_builddir"

# shellcheck disable=SC2154 # requires_hog sets it
export FARPAGE_HOG=$hog
for device in ${TEST_DEVICES:-rxe siw}; do
    case $device in
    siw) sizes=(24 32 100) ;;
    *) sizes=(64 96 300) ;;
    esac
    sizes=(FARPAGE_SWAP_LIMIT="${FARPAGE_SWAP_LIMIT:-${sizes[0]}}"
        FARPAGE_SWAP_TOUCHED="${FARPAGE_SWAP_TOUCHED:-${sizes[1]}}"
        FARPAGE_SWAP_RANDOM="${FARPAGE_SWAP_RANDOM:-${sizes[2]}}")
    if [[ $device == siw ]] && ! "$vm/build-modules" siw >/dev/null 2>&1; then
        echo "SKIP: over siw: the module cannot be built"
        continue
    fi
    claim 0 "swap to another guest's memory over $device" \
        "$vm/run-pair" --net "$device" --memory 1536 --timeout 850 \
        "exec env ${sizes[*]} $build/run $vm/guest/swap-pair donor" \
        "exec env ${sizes[*]} $build/run $vm/guest/swap-pair client"
    claim_output '^client: .* contents OK$' "contents are right over $device"
    claim_output '^client: transport rdma$' "the transport was rdma"
    claim_output '^client: nothing is lent any more$' "the memory went back"
    grep -E '^client: (fill|verify|random|fault|swap took)' "$tmp/output"
done
finish
