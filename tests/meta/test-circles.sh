#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# No objects use each other in a circle. An object is all files of a folder
# whose names begin with the same word, such as lane.c and lane_wait.c. Files of
# one object may use each other.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

folders='lib memserver nbdkit-plugin tools'
# shellcheck disable=SC2086 # several words
(cd "$top_srcdir" && find $folders -name '*.c') >"$tmp/sources"
# A line is FILE: SYMBOL KIND VALUE SIZE.
# shellcheck disable=SC2086 # several words
(cd "$top_builddir" && find $folders -name '*.o' -exec nm -A --format=posix {} +) >"$tmp/nm" ||
    fail "nm"

# Print USER USED for each two objects. A symbol is one of the same program, or
# of lib/.
# shellcheck disable=SC2016 # awk's
awk 'NR == FNR { is_source[$0] = 1; next }
     $3 !~ /^[TDBRCU]$/ { next }
     $1 != last {
         last = $1
         dir = name = $1
         sub("/[^/]*$", "", dir)
         sub("/[.]libs$", "", dir)
         sub(".*/", "", name)
         sub(".*-", "", name)
         sub("[.]o:$", "", name)
         source = dir "/" name ".c"
         object = dir "/" name
         # The migration thread (migrate.h) runs them all.
         if (object ~ "^lib/heal/(drain|reclaim|resync)$")
             object = "lib/heal/migrate"
         sub("_[^/]*$", "", object)
         program = dir
         sub("/.*", "", program)
     }
     !(source in is_source) { next } # left over: its source was removed
     $3 != "U" { of[program, $2] = object }
     $3 == "U" { n++; user[n] = object; needs[n] = $2; in_program[n] = program }
     END { for (i = 1; i <= n; i++) {
               used = of[in_program[i], needs[i]]
               if (used == "")
                   used = of["lib", needs[i]]
               if (used != "" && used != user[i])
                   print user[i], used
           } }' "$tmp/sources" "$tmp/nm" >"$tmp/uses" || fail "awk"
n=$(sort -u "$tmp/uses" | wc -l)
[ "$n" -gt 400 ] || fail "found only $n uses below $top_builddir"

# tsort(1) fails if there is a circle, and names its members.
if ! tsort "$tmp/uses" >/dev/null 2>"$tmp/circles"; then
    cat "$tmp/circles"
    fail "these objects use each other in a circle"
fi
