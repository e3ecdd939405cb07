#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The memory server on a machine with huge pages, two NUMA nodes, a limit on
# locked memory, and an RDMA device.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires setpriv rdma
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/tests/integration/memclient ]] ||
    skip "no build tree at $build: set top_builddir, and make check"

cases=(huge auto huge_held backing numa memlock access tokens)
claim 0 "memory server: pages, nodes, limits" \
    "$vm/run" --net rxe --memory 1536 --timeout 1200 \
    --qemu "-object memory-backend-ram,size=1G,id=m0" \
    --qemu "-object memory-backend-ram,size=512M,id=m1" \
    --qemu "-numa node,memdev=m0,cpus=0-1 -numa node,memdev=m1" \
    "$build/run" env top_srcdir="$(cd "$vm/../.." && pwd)" \
    top_builddir="$build" FUNCTIONS="$build/tests/functions.sh" \
    "$vm/guest/memserver-cases" "${cases[@]}"
for c in "${cases[@]}"; do
    claim_output "^ok $c\$" "$c"
done
finish
