#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A pool file names servers and their failure domains. A volume with a name
# keeps the domains.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

command -v jq >/dev/null || skip "no jq"
for s in a b; do
    start_memserver $s --size 16M --slab 4M --reserve 0 --name $s
done
a=$(cat "$tmp/a.addr")
b=$(cat "$tmp/b.addr")

# domains WANTED: check the domains of the volume's servers, with that of a
# first.
domains ()
{
    local found
    found=$(farpage volumes show --json vol "$a" |
        jq -r --arg a "$a" '.servers | sort_by(.addr != $a) | map(.domain) | join(" ")')
    [ "$found" = "$1" ] || fail "domains are '$found', not '$1'"
}
plugin () # NAME ARG...
{
    local name=$1
    shift
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$MLOCK" "$@"
}
end () { stop "$(cat "$tmp/$1.pid")"; }

mkdir "$tmp/pools.d"
cat >"$tmp/pools.d/lab.conf" <<END
; the servers of the laboratory
server = $a,domain=rack1
server = $b,domain=rack2
transport = tcp
timeout = 3000
END
FARPAGE_POOLS_DIR="$tmp/pools.d" plugin by-name pool=lab volume=vol size=16M
domains 'rack1 rack2'
end by-name
plugin by-path pool="$tmp/pools.d/lab.conf" volume=vol
end by-path
# A domain that is not given stays. One that is given replaces the old one.
plugin one server="$a" volume=vol
end one
domains 'rack1 rack2'
plugin other server="$b,domain=rack9" volume=vol
domains 'rack1 rack9'
end other

echo 'size = 16M' >>"$tmp/pools.d/lab.conf"
if timeout 60 "${nbdkit_cmd[@]}" -U "$tmp/refused.sock" "$FARPAGE_PLUGIN" \
    pool="$tmp/pools.d/lab.conf" size=16M --run true 2>"$tmp/err"
then fail "a bad line was taken"; fi
grep -q "error: pool: $tmp/pools.d/lab.conf: line 6: 'size'" "$tmp/err" ||
    { cat "$tmp/err"; fail "the line is not named"; }
