#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A memory server gives way to a hog on its own host, and lends again
# afterwards. The kernel tells it when tasks wait for memory.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
requires mkswap swapon
requires_hog
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/tests/integration/memclient ]] ||
    skip "no build tree at $build: set top_builddir, and make check"

# shellcheck disable=SC2154 # requires_hog sets it
export FARPAGE_HOG=$hog
cases=(hog stalls)
for c in "${cases[@]}"; do
    claim 0 "giving memory back: $c" "$vm/run" --memory 1024 --timeout 800 -M zram \
        "$build/run" env top_srcdir="$(cd "$vm/../.." && pwd)" \
        top_builddir="$build" FUNCTIONS="$build/tests/functions.sh" \
        "$vm/guest/reclaim-cases" "$c"
    claim_output "^ok $c\$" "$c"
done
finish
