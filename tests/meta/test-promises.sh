#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# In docs/SECURITY.md each row of the table of what is protected names a test,
# and in docs/TESTING.md each promise does. Each test that is named exists and
# is run.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

docs=$top_srcdir/docs
tests=$top_srcdir/tests
bad=0 n=0
complain () { echo "$*"; bad=1; }

# rows PAGE HEADING: print the rows of the table below the heading.
rows () { awk -v heading="## $2" '/^## / { on = $0 == heading } on && /^\| /' "$docs/$1" | tail -n +2; }

while IFS= read -r row; do
    n=$((n + 1))
    [[ $row =~ \`(unit|integration|fuzz|vm|meta)/[^\`]+\`[^\|]*\|$ ]] || complain "no test shows this: $row"
done < <(rows SECURITY.md Protected; rows TESTING.md 'What is promised')
[ $n -ge 40 ] || fail "found only $n rows"

tr '`' '\n' <"$docs/SECURITY.md" | grep -xE '(unit|integration|fuzz|vm|meta)/[a-z0-9_:-]+' >"$tmp/all"
rows TESTING.md 'What is promised' | tr '`' '\n' | grep -xE '(unit|integration|fuzz|vm|meta)/[a-z0-9_:-]+' >>"$tmp/all"
sort -u "$tmp/all" >"$tmp/names"
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
[ $n -ge 100 ] || fail "found only $n rows and tests"
[ $bad = 0 ] || fail "see above"
