#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# docs/SECURITY.md: each row of the table of what is protected names a test.
# Each test that it names exists and is run.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

page=$top_srcdir/docs/SECURITY.md
tests=$top_srcdir/tests
bad=0 n=0
complain () { echo "SECURITY.md: $*"; bad=1; }

while IFS= read -r row; do
    n=$((n + 1))
    [[ $row =~ \`(unit|integration|fuzz|vm|meta)/[^\`]+\`\ \|$ ]] || complain "no test shows this: $row"
done < <(awk '/^## / { on = /^## Protected/ } on && /^\| /' "$page" | tail -n +2)
[ $n -ge 10 ] || fail "found no table"

tr '`' '\n' <"$page" | grep -xE '(unit|integration|fuzz|vm|meta)/[a-z0-9_:-]+' |
    sort -u >"$tmp/names"
while IFS=: read -r name function; do
    n=$((n + 1))
    file=
    for f in "$tests/$name.c" "$tests/$name.sh"; do
        if [ -f "$f" ]; then file=$f; fi
    done
    if [ -z "$file" ]; then
        complain "there is no $name"
    elif ! grep -qE "[[:space:]]$name(\.sh)?([[:space:]]|\$)" "$tests/Makefile.am"; then
        complain "$name is not run by anything"
    elif [ -n "$function" ] && ! grep -qE "[(]${function}[,)]" "$file"; then
        complain "$name has no $function that is run"
    fi
done <"$tmp/names"
[ $n -ge 30 ] || fail "found no tests"
[ $bad = 0 ] || fail "see above"
