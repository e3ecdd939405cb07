#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Each file names its licence once, in its first three lines.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/meta/files.sh
. "$top_srcdir/tests/meta/files.sh"

tag='SPDX-License'-Identifier # split, so as not to count itself
bad=0
n=0
while IFS= read -r f; do
    case $f in
    *.[ch]|*.sh|*.in|*.am|*.ac|*.mk|*.syms|*.py|*.fio) ;;
    *) head -c 2 "$f" | grep -q '^#!' || continue ;;
    esac
    n=$((n + 1))
    if ! head -n 3 "$f" | grep -q "$tag: BSD-3-Clause"; then
        echo "$f: no $tag: BSD-3-Clause in its first 3 lines"
        bad=1
    elif [ "$(grep -c "$tag:" "$f")" != 1 ]; then
        echo "$f: more than one $tag line"
        bad=1
    fi
done < <(source_files)
[ $n -gt 0 ] || fail "found no files"
[ $bad = 0 ] || fail "see above"
