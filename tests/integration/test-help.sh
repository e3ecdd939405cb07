#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every program says what it is, and exits 2 when the command line is wrong.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

for prog in farpage farpage-memserver; do
    "$prog" --help | grep -q "^Usage: $prog " || fail "$prog --help"
    "$prog" --version | grep -q "^$prog [0-9]" || fail "$prog --version"
    status=0
    "$prog" --no-such-option 2>"$tmp/err" || status=$?
    [ $status = 2 ] || fail "$prog --no-such-option: exit $status, not 2"
    grep -q no-such-option "$tmp/err" || fail "$prog does not name the option"
done

# With nothing asked of it, it must not say that nothing is missing.
status=0
"$top_srcdir/tests/install-packages" >"$tmp/out" 2>"$tmp/err" || status=$?
[ $status = 2 ] || fail "install-packages without an argument: exit $status"
grep -q '^Usage: install-packages ' "$tmp/err" || fail "install-packages: no usage"
[ ! -s "$tmp/out" ] || fail "install-packages says: $(cat "$tmp/out")"
