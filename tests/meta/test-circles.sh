#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# No objects use each other in a circle. An object is all files of a folder
# whose names begin with the same word, such as lane.c and lane_wait.c. Files of
# one object may use each other.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

# object DIR NAME: print the object to which the file DIR/NAME.c belongs.
object ()
{
    case $1/$2 in
    # The migration thread (migrate.h) runs them all.
    lib/heal/drain|lib/heal/reclaim|lib/heal/resync) echo lib/heal/migrate ;;
    *) echo "$1/${2%%_*}" ;;
    esac
}

# Print OBJECT KIND SYMBOL for each symbol that a .o file defines or needs.
while IFS= read -r o; do
    dir=${o#"$top_builddir"/}
    dir=${dir%/*}
    dir=${dir%/.libs}
    name=${o##*/}
    name=${name##*-}
    name=${name%.o}
    [ -e "$top_srcdir/$dir/$name.c" ] || continue # left over: its source was removed
    nm --format=posix "$o" >"$tmp/nm" || fail "nm $o"
    sed -nE "s,^([^ ]*) ([TDBRCU]) .*,$(object "$dir" "$name") \2 \1,p" "$tmp/nm"
done < <(find "$top_builddir"/{lib,memserver,nbdkit-plugin,tools} -name '*.o') >"$tmp/symbols"

# Print USER USED for each two objects. A symbol is one of the same program, or
# of lib/.
awk '{ program = $1; sub("/.*", "", program) }
     $2 != "U" { of[program, $3] = $1 }
     $2 == "U" { n++; user[n] = $1; needs[n] = $3; in_program[n] = program }
     END { for (i = 1; i <= n; i++) {
               used = of[in_program[i], needs[i]]
               if (used == "")
                   used = of["lib", needs[i]]
               if (used != "" && used != user[i])
                   print user[i], used
           } }' "$tmp/symbols" >"$tmp/uses" || fail "awk"
n=$(sort -u "$tmp/uses" | wc -l)
[ "$n" -gt 400 ] || fail "found only $n uses below $top_builddir"

# tsort(1) fails if there is a circle, and names its members.
if ! tsort "$tmp/uses" >/dev/null 2>"$tmp/circles"; then
    cat "$tmp/circles"
    fail "these objects use each other in a circle"
fi
