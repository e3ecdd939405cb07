#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# farpage volumes: list volumes of servers, show where one is, and delete it.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"
command -v jq >/dev/null || skip "no jq"

# volumes STATUS TEXT ARG...: check its exit status and its output on either
# stream.
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
volumes 0 '^vol: 1T, last used by maker until 2.*; 3M of it on 127' "$tcp" "$unix"
volumes 0 '^other (ephemeral): .* attached to user since 2' list "$tcp"
filter='[.volumes[] | [.name, .allocated, .attached, (.servers | length)]] | sort'
wanted='[["other",2097152,true,1],["vol",3145728,false,1]]'
is "$tcp" "$unix"
# A volume with a name that is detached has no lease.
farpage servers "$tcp" >"$tmp/out"
grep -q ' to maker, volume vol, .*; not attached$' "$tmp/out" ||
    { cat "$tmp/out"; fail "vol is not 'not attached'"; }
# The list of members that memclient sets names two servers, and one does not
# exist.
volumes 0 'does not answer' show vol "$tcp"
filter='[.name, .members_version, ([.servers[].state] | sort | unique)]'
wanted='["vol",1,["does not answer","in step"]]'
is show vol "$tcp"

volumes 1 'volume nope not found on these servers' show nope "$tcp"
volumes 1 'other: attached to user since 2' delete --yes other "$tcp"
volumes 1 'not a terminal: use --yes' delete --partial vol "$tcp"
volumes 1 'does not answer: .*--partial deletes' delete --yes vol "$tcp"
volumes 0 '^vol: ' show "$(farpage volumes show --json vol "$tcp" | jq -r .uuid)" "$tcp"
volumes 0 '' delete --yes --partial vol "$tcp"
volumes 1 'volume vol not found' delete --yes vol "$tcp"
kill -9 "$hanging_pid"

# A server with an old list names another server. That one names a third, which
# comes first in its list. All three are asked.
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

# A pool file names the servers. The output says how much each of them has.
printf 'server = %s,domain=r1\nserver = %s\ntimeout = 500\n' \
    "$(cat "$tmp/a.addr")" "$(cat "$tmp/b.addr")" >"$tmp/pool.conf"
volumes 0 "^moved: .*; 0B of it on .*:.*, 0B of it on " pool="$tmp/pool.conf"
volumes 0 '^moved: .* 0B allocated' show moved pool="$tmp/pool.conf"
farpage servers pool="$tmp/pool.conf" >"$tmp/out" || fail "servers pool="
[ "$(grep -c ' in slabs of ' "$tmp/out")" = 2 ] || { cat "$tmp/out"; fail "not two servers"; }
echo 'server 127.0.0.1' >>"$tmp/pool.conf"
volumes 1 'pool.conf: line 4: not KEY = VALUE' pool="$tmp/pool.conf"
volumes 1 'pool: .*/none.conf: No such file' pool=none

volumes 2 'no servers given'
volumes 2 'no servers given' list
volumes 2 'no volume given' show
volumes 2 'no servers given' show vol
volumes 2 'not a volume name' delete a/b "$tcp"
volumes 2 "are for 'farpage volumes delete'" --yes "$tcp"
volumes 2 'no --json' delete --json vol "$tcp"
# A server that does not answer is reported, and the others are shown.
client "$tcp" maker name:last open:3:c:tcp grant:1 label:1 bye
volumes 1 'connection refused' 127.0.0.1:1 "$tcp"
grep -q '^last: ' "$tmp/out" || fail "the other server is not shown"
# A server that was named and does not answer may have a part of the volume.
# That is reported, too.
volumes 1 '127.0.0.1:1: connection refused.*; it may still hold a part' delete --yes last "$tcp" 127.0.0.1:1
volumes 1 'volume last not found' show last "$tcp"
