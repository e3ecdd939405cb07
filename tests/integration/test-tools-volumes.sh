#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# farpage volumes: what servers keep, where one volume is, and its end.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"
command -v jq >/dev/null || skip "no jq"

# volumes STATUS TEXT ARG...: what it says, to whichever stream.
volumes ()
{
    local wanted=$1 text=$2 status=0
    shift 2
    farpage volumes "$@" </dev/null >"$tmp/out" 2>&1 || status=$?
    [ $status = "$wanted" ] || fail "volumes $*: exit $status: $(cat "$tmp/out")"
    [ -z "$text" ] || grep -q -e "$text" "$tmp/out" || fail "volumes $*: no '$text' in: $(cat "$tmp/out")"
}
is () { [ "$(farpage volumes "$@" --json | jq -c "$filter")" = "$wanted" ] ||
    fail "$filter is not $wanted: $(farpage volumes "$@" --json)"; }

serve 600 1
volumes 0 '^no volumes$' "$tcp"
client "$tcp" maker name:vol open:1:c:tcp grant:3 label:1 members:1:2 map:1:0-2 bye
hanging "$unix" user name:other open:2:ce:shm grant:2 label:1

# One server by two addresses is one server.
volumes 0 '^vol: 1T, left by maker at 2.*; 3M of it on 127' "$tcp" "$unix"
volumes 0 '^other (ephemeral): .* attached to user since 2' list "$tcp"
filter='[.volumes[] | [.name, .allocated, .attached, (.servers | length)]] | sort'
wanted='[["other",2097152,true,1],["vol",3145728,false,1]]'
is "$tcp" "$unix"
# A volume with a name has no lease that it would wait for.
farpage servers "$tcp" >"$tmp/out"
grep -q ' to maker, volume vol, .*; not attached$' "$tmp/out" ||
    { cat "$tmp/out"; fail "vol is not 'not attached'"; }
# The list of members that memclient makes names two servers that are not there.
volumes 0 'does not answer' show vol "$tcp"
filter='[.name, .members_version, ([.servers[].state] | sort | unique)]'
wanted='["vol",1,["does not answer","in step"]]'
is show vol "$tcp"

volumes 1 'no volume nope on these servers' show nope "$tcp"
volumes 1 'other: attached to user since 2' delete --yes other "$tcp"
volumes 1 'nobody can be asked: --yes' delete --partial vol "$tcp"
volumes 1 'does not answer: .*with --partial' delete --yes vol "$tcp"
volumes 0 '^vol: ' show "$(farpage volumes show --json vol "$tcp" | jq -r .uuid)" "$tcp"
volumes 0 '' delete --yes --partial vol "$tcp"
volumes 1 'no volume vol' delete --yes vol "$tcp"
kill -9 "$hanging_pid"

# A server that is behind names another one, which names a third that comes
# first in its list: all of them are asked.
declare -A member
for s in a b c; do
    start_memserver $s --size 4M --slab 1M --reserve 0 --name $s
    member[$s]="$(farpage servers --json "$(cat "$tmp/$s.addr")" |
        jq -r .servers[0].uuid)@$(cat "$tmp/$s.addr")"
done
client "$(cat "$tmp/a.addr")" maker name:moved open:4:c:tcp \
    "roster:1:${member[a]},${member[b]}" bye
for s in b c; do
    client "$(cat "$tmp/$s.addr")" maker name:moved open:4:c:tcp \
        "roster:2:${member[c]},${member[b]},${member[a]}" bye
done
filter='[.members_version, (.servers | length), ([.servers[].state] | unique)]'
wanted='[2,3,["in step"]]'
is show moved "$(cat "$tmp/a.addr")"

# A pool names them; of each it is said what it has.
printf 'server = %s,domain=r1\nserver = %s\ntimeout = 500\n' \
    "$(cat "$tmp/a.addr")" "$(cat "$tmp/b.addr")" >"$tmp/pool.conf"
volumes 0 "^moved: .*; 0B of it on .*:.*, 0B of it on " pool="$tmp/pool.conf"
volumes 0 '^moved: .* 0B allocated' show moved pool="$tmp/pool.conf"
farpage servers pool="$tmp/pool.conf" >"$tmp/out" || fail "servers pool="
[ "$(grep -c ' in slabs of ' "$tmp/out")" = 2 ] || { cat "$tmp/out"; fail "not two servers"; }
echo 'server 127.0.0.1' >>"$tmp/pool.conf"
volumes 1 'pool.conf: line 4: not NAME = VALUE' pool="$tmp/pool.conf"
volumes 1 'pool: .*/none.conf: No such file' pool=none

volumes 2 'which servers'
volumes 2 'which servers' list
volumes 2 'which volume' show
volumes 2 'which servers' show vol
volumes 2 'no name of a volume' delete a/b "$tcp"
volumes 2 "are for 'farpage volumes delete'" --yes "$tcp"
volumes 2 'no --json' delete --json vol "$tcp"
# A server that does not answer is said, and the others are shown.
client "$tcp" maker name:last open:3:c:tcp grant:1 label:1 bye
volumes 1 'connection refused' 127.0.0.1:1 "$tcp"
grep -q '^last: ' "$tmp/out" || fail "the other server is not shown"
# One that was named, and nobody knows whether it has anything of it, is said, too.
volumes 1 '127.0.0.1:1: connection refused.*; nobody knows whether it has' delete --yes last "$tcp" 127.0.0.1:1
volumes 1 'no volume last' show last "$tcp"
