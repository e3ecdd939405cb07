#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Each file names its licence once, in its first three lines.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/meta/files.sh
. "$top_srcdir/tests/meta/files.sh"

tag='SPDX-License'-Identifier # split, so as not to count itself
source_files >"$tmp/list"
# shellcheck disable=SC2016 # $0 is awk's
xargs -d '\n' awk -v tag="$tag" '
function judge ()
{
    if (!wanted)
        return
    n++
    if (!first)
        print file ": no " tag ": BSD-3-Clause in its first 3 lines"
    else if (all != 1)
        print file ": more than one " tag " line"
}
FNR == 1 {
    judge()
    file = FILENAME
    first = all = 0
    wanted = file ~ /\.([ch]|sh|in|am|ac|mk|syms|py|fio)$/ || /^#!/
}
wanted && index($0, tag ":") { all++; first = first || (FNR <= 3 && index($0, tag ": BSD-3-Clause")) }
END { judge(); print "files: " n }' <"$tmp/list" >"$tmp/said" || fail "awk"
grep -q '^files: [1-9]' "$tmp/said" || fail "found no files"
! grep -v '^files: ' "$tmp/said" || fail "see above"
