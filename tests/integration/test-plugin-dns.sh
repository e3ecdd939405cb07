#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# pool=dns:DOMAIN: the servers of a pool come from SRV records. Runs in a network
# and a mount namespace of its own, with dnsmasq as name server.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

PATH=$PATH:/usr/sbin
requires dnsmasq --version
own_network "$@"
echo 'nameserver 127.0.0.1' >"$tmp/resolv.conf"
mount --bind "$tmp/resolv.conf" /etc/resolv.conf

for s in a b; do
    start_memserver $s --size 16M --slab 4M --name $s
done
# port NAME: print the port of a server.
port () { sed 's/.*://' "$tmp/$1.addr"; }
# With --no-daemon it does not change its user, which is not allowed here.
dnsmasq --no-daemon --no-hosts --no-resolv --log-facility=- \
    --listen-address=127.0.0.1 --bind-interfaces --address=/donor.test/127.0.0.1 \
    --srv-host="_farpage._tcp.prod.test,a.donor.test,$(port a)" \
    --srv-host="_farpage._tcp.prod.test,b.donor.test,$(port b)" \
    --srv-host=_farpage._tcp.none.test,. --local=/test/ >"$tmp/dnsmasq.log" 2>&1 &
cleanup_fn stop $!
wait_until 60 grep -q started "$tmp/dnsmasq.log"

# refused TEXT POOL: check that the plugin refuses the pool with TEXT.
refused ()
{
    local pool
    read -ra pool <<<"pool=$2"
    if timeout 60 "${nbdkit_cmd[@]}" -U "$tmp/refused.sock" "$FARPAGE_PLUGIN" "${pool[@]}" size=8M \
        --run true 2>"$tmp/err"
    then fail "$2 was taken"; fi
    grep -q -e "$1" "$tmp/err" || { cat "$tmp/err"; fail "no '$1' for $2"; }
}
start_nbdkit v "$FARPAGE_PLUGIN" pool=dns:prod.test size=8M copies=2 "$MLOCK" status="$tmp/v.status"
[ "$(status v 'len(d["servers"])')" = 2 ] || fail "not two servers"
"$NBDSH" -u "nbd+unix:///?socket=$tmp/v.sock" -c '
h.pwrite(b"1" * 65536, 0)
assert h.pread(65536, 0) == b"1" * 65536'
[ "$(farpage servers --json pool=dns:prod.test | jq '.servers | length')" = 2 ] || fail "farpage servers"
refused 'pool=dns:other.test: DNS has no SRV record _farpage._tcp.other.test' dns:other.test
refused 'pool=dns:none.test: names no server' dns:none.test
refused 'volume=v: an existing volume cannot use pool=dns:' 'dns:prod.test volume=v'
refused 'resume=true: an existing volume cannot' \
    'dns:prod.test resume=true uuid=00000000-0000-4000-8000-000000000001'
