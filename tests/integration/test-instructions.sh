#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A request of 4 KiB costs no more instructions in the engine than
# tests/bench/instructions.budget allows.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires valgrind --version
[ -z "$SANITIZER_PRELOAD" ] || skip "a sanitizer's instructions count, too"
for program in engine-rate engine-rate-sim; do
    [ -x "$top_builddir/tests/bench/$program" ] || skip "bench/$program is not built"
done
status=0
"$top_srcdir/tests/bench/instructions" --check >"$tmp/out" 2>&1 || status=$?
cat "$tmp/out"
[ $status != 77 ] || skip "another compiler or other options than those of the budget"
[ $status = 0 ] || fail "exit $status"
status=0
"$top_srcdir/tests/bench/instructions" --nonsense >"$tmp/out" 2>&1 || status=$?
[ $status = 2 ] || fail "bad usage: exit $status"
