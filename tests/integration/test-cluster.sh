#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# farpage cluster and pool=etcd:PREFIX, with a real etcd: donors announce
# themselves, clients find them, and attached volumes keep working while etcd is down.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

# nbdkit loads json-c with the plugin. There newlocale(3) waits for a lock for ever.
if [[ $SANITIZER_PRELOAD == *tsan* ]]; then
    skip "json-c hangs in an nbdkit with ThreadSanitizer's runtime"
fi
command -v jq >/dev/null || skip "no jq"
requires etcd --version
requires etcdctl version
own_network "$@"
ip address add 10.9.9.9/32 dev lo # a donor on loopback is refused

endpoint=http://127.0.0.1:2379
export ETCDCTL_ENDPOINTS=$endpoint
# start_etcd: start etcd with its data in $tmp/etcd.
start_etcd ()
{
    etcd --data-dir "$tmp/etcd" --log-level error >"$tmp/etcd.log" 2>&1 &
    etcd=$!
    wait_until 60 etcdctl endpoint health
}
end_etcd () { kill_9 "$etcd" 2>/dev/null; }
cleanup_fn end_etcd
start_etcd

# says STATUS TEXT CMD ARG...: check the exit status, and that CMD prints TEXT.
says ()
{
    local wanted=$1 text=$2 status=0
    shift 2
    timeout 60 "$@" </dev/null >"$tmp/out" 2>&1 || status=$?
    [ $status = "$wanted" ] || { cat "$tmp/out"; fail "exit $status, not $wanted: $*"; }
    grep -q -e "$text" "$tmp/out" || { cat "$tmp/out"; fail "no '$text': $*"; }
}

# Servers a, b and c are at these addresses.
a=10.9.9.9:7001 b=10.9.9.9:7002 c=10.9.9.9:7003
start () # NAME ADDR
{
    start_memserver "$1" --size 16M --slab 4M --name "$1" --insecure --listen "$2"
    wait_until 60 all_free "$2"
}
# The servers populate their memory in the background.
all_free () { farpage servers --json "$1" | jq -e '.servers[0].slabs_free == 4'; }

# announce NAME ADDR DOMAIN TTL: announce the donor NAME in the background.
announce ()
{
    farpage cluster announce --domain "$3" --ttl "$4" etcd:prod "$2" >"$tmp/announce-$1.log" 2>&1 &
    echo $! >"$tmp/announce-$1.pid"
    cleanup_fn stop $!
    wait_until 60 named "$1"
}
# named NAME, not_named NAME: check whether the donor NAME is announced.
names () { farpage cluster list --json etcd:prod >"$tmp/names"; }
named () { names && jq -e --arg n "$1" 'any(.donors[]; .name == $n)' "$tmp/names"; }
not_named () { names && jq -e --arg n "$1" 'all(.donors[]; .name != $n)' "$tmp/names"; }

# ---- the command line ----

says 2 'give a command' farpage cluster
says 2 'give the command before its options' farpage cluster --json
says 2 "did you mean 'list'" farpage cluster lst etcd:prod
says 2 'list: give etcd:PREFIX' farpage cluster list
says 2 'list: give etcd:PREFIX' farpage cluster list prod
says 2 "unexpected argument 'x'" farpage cluster list etcd:prod x
says 2 "'list' does not take this option" farpage cluster list --size 1G etcd:prod
says 2 'give the number of donors, from 1 to' farpage cluster choose etcd:prod none
for prefix in "a'b" prod/ /prod a//b -a ''; do
    says 2 'cannot be a prefix' farpage cluster list "etcd:$prefix"
done
says 2 'give one donor' farpage cluster cordon etcd:prod
says 2 'drain: give one donor' farpage cluster drain --cancel etcd:prod
says 2 "drain: unexpected argument 'b'" farpage cluster drain etcd:prod a b
says 0 'Usage: farpage cluster' farpage cluster drain --help
says 2 'announce: give the address' farpage cluster announce etcd:prod
for bad in 0.0.0.0 127.0.0.1 '[::1]' localhost unix:/none; do
    says 2 'other machines cannot connect' farpage cluster announce etcd:prod "$bad"
done
says 2 'not a time from 10s' farpage cluster announce --ttl 1s etcd:prod x
says 0 'no donor is announced below etcd:other' farpage cluster list etcd:other
soon=ETCDCTL_COMMAND_TIMEOUT=100ms # for a command that fails anyway
says 1 'ETCDCTL_ENDPOINTS=http://127.0.0.1:1' env $soon ETCDCTL_ENDPOINTS=http://127.0.0.1:1 farpage cluster list etcd:prod
says 1 'ETCDCTL_ENDPOINTS is not set' env -u ETCDCTL_ENDPOINTS $soon ETCDCTL_CACERT=/none farpage cluster list etcd:prod

# ---- donors come and go ----

start a $a
start b $b
start c $c
# One of the endpoints that an announcer may ask is dead.
export ETCDCTL_ENDPOINTS=http://127.0.0.1:1,$endpoint
announce a $a rack1 1h
export ETCDCTL_ENDPOINTS=$endpoint
announce b $b rack2 1h
announce c $c rack2 1h
says 0 "^$a  *a  *rack1  *4M  *16M  *16M  lends\$" farpage cluster list etcd:prod
says 0 "^$a .*lends\$" env ETCDCTL_WRITE_OUT=table ETCDCTL_API=2 farpage cluster list etcd:prod
says 0 '^rack2  *2  *32M  *32M  *32M$' farpage cluster df etcd:prod
says 0 '^(all)  *3  *48M  *48M  *48M$' farpage cluster df etcd:prod
[ "$(farpage cluster df --json etcd:prod | jq -r '.all.usable')" = $((48 << 20)) ] || fail "df --json"
says 0 '^(all)  *0 ' farpage cluster df etcd:other

# Choose one donor of each domain. rack1 has only one.
farpage cluster choose etcd:prod 2 | sort >"$tmp/chosen"
grep -qx "$a,domain=rack1" "$tmp/chosen" || fail "$(cat "$tmp/chosen")"
grep -q ',domain=rack2$' "$tmp/chosen" || fail "$(cat "$tmp/chosen")"
[ "$(farpage cluster choose etcd:prod 3 2>/dev/null | sort -u | wc -l)" = 3 ] || fail "not three donors"
says 0 'are both in domain rack2: no unused domain' farpage cluster choose etcd:prod 3
says 1 'found only 3 of' farpage cluster choose etcd:prod 4
says 1 'found only 0 of' farpage cluster choose --size 32M etcd:prod 1
# The volume has b, as `choose` printed it, so another domain comes first.
says 0 "^$a,domain=rack1\$" farpage cluster choose --except $b,domain=rack2 etcd:prod 1
says 1 'found only 2 of' farpage cluster choose --except a etcd:prod 3
says 1 "no donor 'nosuch'" farpage cluster choose --except nosuch etcd:prod 1
says 0 "^$a" farpage cluster choose --except b --except donor-that-is-down:7 etcd:prod 1

# No new volume goes to a cordoned donor. It may be down, or have a new UUID.
says 1 "no donor 'x'" farpage cluster cordon etcd:prod x
says 0 'no new volume goes there$' farpage cluster cordon etcd:prod a
says 0 "^$a .*  cordoned\$" farpage cluster list etcd:prod
says 0 '^(all)  *3  *48M  *48M  *32M$' farpage cluster df etcd:prod
says 1 'found only 2 of' farpage cluster choose etcd:prod 3
says 0 'new volumes may go there$' farpage cluster uncordon etcd:prod $a
says 0 ',domain=rack1' farpage cluster choose etcd:prod 3

says 0 'goes there; no donor is announced at' farpage cluster cordon etcd:prod DOWN:7
says 0 '^down:7  *-  .*  cordoned, not announced$' farpage cluster list etcd:prod
[ "$(farpage cluster list --json etcd:prod | jq -r '.cordoned_not_announced | join(" ")')" = down:7 ] ||
    fail "$(farpage cluster list --json etcd:prod)"
says 0 'go there; no donor is announced at' farpage cluster uncordon etcd:prod down:7
[ -z "$(etcdctl get --prefix --keys-only prod/cordon/)" ] || fail "$(etcdctl get --prefix prod/)"

# What a donor writes into its own value is neither another key nor an address on
# this machine.
uuid=00000000-0000-4000-8000-000000000009
etcdctl put prod/donors/$uuid "x
prod/cordon/$a
x" >/dev/null
[ "$(farpage cluster list --json etcd:prod | jq '[.donors[].cordoned] == [false, false, false]')" = true ] ||
    fail "$(farpage cluster list etcd:prod)"

# ---- a volume of that pool, and etcd dies ----

says 0 'no new volume' farpage cluster cordon etcd:prod c
start_nbdkit v "$FARPAGE_PLUGIN" pool=etcd:prod size=8M copies=2 "$MLOCK" status="$tmp/v.status"
uri="nbd+unix:///?socket=$tmp/v.sock"
"$NBDSH" -u "$uri" -c 'h.pwrite(b"1" * 65536, 0)'
[ "$(status v 'len(d["servers"])')" = 2 ] || fail "not two servers"
[ "$(farpage servers --json pool=etcd:prod | jq '.servers | length')" = 3 ] || fail "not all servers are asked"
stop "$(cat "$tmp/announce-c.pid")"
not_named c >/dev/null || fail "an announcer that ends keeps its lease: $(cat "$tmp/names")"
announce c $c rack2 1h
end_etcd
says 1 'etcdctl: ' env $soon farpage cluster list etcd:prod
"$NBDSH" -u "$uri" -c '
assert h.pread(65536, 0) == b"1" * 65536
h.pwrite(b"2" * 65536, 4 << 20)'
wait_until 60 grep -q 'trying again' "$tmp/announce-c.log"
# An etcd that lost its data does not know the lease. The announcer gets another.
rm -r "$tmp/etcd"
start_etcd
wait_until 60 named c
[ "$(grep -c 'is announced in etcd:prod' "$tmp/announce-c.log")" -ge 2 ] || fail "$(cat "$tmp/announce-c.log")"

# ---- drain, and the end of a donor ----

says 0 "^$c stays cordoned" farpage cluster drain --deadline 1min etcd:prod c
# line PATTERN: check that the line of donor c matches.
line () { farpage cluster list etcd:prod | grep "^$c " | grep -q -e "$1"; }
wait_until 60 line ' cordoned draining$'
says 0 "run 'farpage cluster drain --cancel etcd:prod $c'" farpage cluster uncordon etcd:prod c
says 0 'it lends again' farpage cluster drain --cancel etcd:prod c
wait_until 60 line ' lends$'
# It starts again without its memory, and so with another UUID.
uuid () { farpage cluster list --json etcd:prod | jq -r --arg a $c '.donors[] | select(.addr == $a).uuid'; }
before=$(uuid)
[ -n "$before" ] || fail "$(farpage cluster list etcd:prod)"
stop "$(cat "$tmp/c.pid")"
start c2 $c
wait_until 60 named c2
[ "$(uuid)" != "$before" ] || fail "the same UUID"
stop "$(cat "$tmp/announce-c.pid")"
announce c2 $c rack2 10s
stop "$(cat "$tmp/c2.pid")"
wait_until 60 not_named c2 # its lease has run out
