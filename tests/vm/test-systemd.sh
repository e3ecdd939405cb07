#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The memory server as a service of systemd that keeps its memory. It is
# restarted, killed, hung, started with wrong settings, and stopped.

# shellcheck source=lib/test.sh
. "$(dirname "$0")/lib/test.sh"
requires_guest
[[ -x /lib/systemd/systemd ]] || skip "systemd is not installed"
build=${top_builddir:-$(cd "$vm/../.." && pwd)}
[[ -x $build/tests/integration/memclient ]] ||
    skip "no build tree at $build: set top_builddir, and make check"

claim 0 "memory server under systemd" "$vm/run" --memory 1024 --timeout 1000 \
    "$vm/guest/systemd-cases" "$build"
for c in restart killed hung wrong deleted stopped; do
    claim_output "^ok $c\$" "$c"
done
finish
