#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# No object calls one that calls it. An object is the files of a folder whose
# names begin with the same word: lane.c, lane_wait.c. A circle among those is
# allowed.

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

# Print each symbol that an object file defines or needs, with its object.
n=0
while IFS= read -r o; do
    dir=${o#"$top_builddir"/}
    dir=${dir%/*}
    dir=${dir%/.libs}
    name=${o##*/}
    name=${name##*-}
    name=${name%.o}
    [ -e "$top_srcdir/$dir/$name.c" ] || continue # the source is gone
    n=$((n + 1))
    nm --format=posix "$o" | sed -nE "s,^([^ ]*) ([TDBRCU]) .*,$(object "$dir" "$name") \2 \1,p"
done < <(find "$top_builddir"/{lib,memserver,nbdkit-plugin,tools} -name '*.o') >"$tmp/symbols"
[ $n -gt 100 ] || fail "found only $n object files below $top_builddir"

# tsort(1) prints what is in a circle.
if ! awk '$2 != "U" { of[$3] = $1 }
          { object[NR] = $1; kind[NR] = $2; symbol[NR] = $3 }
          END { for (i = 1; i <= NR; i++)
                    if (kind[i] == "U" && symbol[i] in of && of[symbol[i]] != object[i])
                        print object[i], of[symbol[i]] }' "$tmp/symbols" | sort -u |
     tsort >/dev/null 2>"$tmp/circles"
then
    cat "$tmp/circles"
    fail "these objects call each other"
fi
