#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Random requests and events against a model (integration/test-plugin-model.sh),
# over RDMA in one guest. TEST_DEVICES may name one of rxe and siw. STEPS and
# SEED are passed to that test.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires nbdkit nbdsh rdma
src=$(cd "$vm/../.." && pwd)
build=${top_builddir:-$src}
[[ -e $build/nbdkit-plugin/nbdkit-farpage-plugin.so ]] ||
    skip "no build tree at $build: set top_builddir"

for device in ${TEST_DEVICES:-rxe}; do
    claim 0 "requests and events against a model over $device" \
        "$vm/run" --net "$device" --memory 2048 --timeout 1500 "$build/run" env \
        top_srcdir="$src" top_builddir="$build" FUNCTIONS="$build/tests/functions.sh" \
        MODEL=rdma MODEL_HOST=10.0.0.1 MODEL_TIMEOUT=20000 \
        STEPS="${STEPS:-80}" ${SEED:+SEED="$SEED"} \
        "$src/tests/integration/test-plugin-model.sh"
    claim_output "^rdma, servers that stay: .* done: " "over $device: servers that stay"
    claim_output "^rdma, servers started again(, 2 copies)?: .* done: " "over $device: servers started again"
    grep '^rdma, ' "${tmp:?}/output"
done
finish
