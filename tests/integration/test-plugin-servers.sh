#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Servers are down, or something else answers there. nbdkit does not start, and
# says in one line which server and why, within seconds.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

start_memserver m --listen "unix:$tmp/m.usock" --size 32M --slab 4M
good=$(grep -v '^unix:' "$tmp/m.addr")

# refuse ADDR REGEX: check that ADDR is refused, alone and beside a good server.
refuse ()
{
    local addr=$1 regex=$2 servers f status
    for servers in "$addr" "$good $addr"; do
        status=0
        SECONDS=0
        # shellcheck disable=SC2046,SC2001 # one word for each server
        timeout 60 "${nbdkit_cmd[@]}" -U "$tmp/n.sock" -P "$tmp/n.pid" \
            "$FARPAGE_PLUGIN" $(echo "$servers" | sed 's/[^ ]*/server=&/g') \
            size=16M timeout=500 "$MLOCK" 2>"$tmp/err" || status=$?
        [ $status = 1 ] || fail "$addr: exit status $status, not 1"
        if [ "${FARPAGE_BENCH:-}" = yes ] && [ $SECONDS -gt 8 ]; then fail "$addr: took $SECONDS s"; fi
        [ "$(grep -c 'error:' "$tmp/err")" = 1 ] ||
            { cat "$tmp/err"; fail "$addr: not one error line"; }
        grep -qF "$addr" "$tmp/err" || { cat "$tmp/err"; fail "does not name $addr"; }
        grep -qiE "error: .*($regex)" "$tmp/err" ||
            { cat "$tmp/err"; fail "$addr: does not say $regex"; }
        for f in n.sock n.pid; do
            [ ! -e "$tmp/$f" ] || fail "$addr: left $f behind"
        done
    done
}

fake ()
{
    python3 "$top_srcdir/tests/integration/fake-server.py" "$1" "$tmp/$1.addr" \
        >"$tmp/$1.log" 2>&1 &
    cleanup_fn kill $!
    wait_until 10 test -s "$tmp/$1.addr"
    refuse "$(cat "$tmp/$1.addr")" "$2"
}

fake ssh 'not a farpage memory server.*"SSH-2.0.*like an SSH server'
fake http 'not a farpage memory server.*"HTTP/1.1 400.*like an HTTP server'
fake nbd 'not a farpage memory server.*like an NBD server, such as nbdkit'
fake tls 'not a farpage memory server.*is TLS'
fake hangup 'hung up .*is it a farpage-memserver'
fake silent 'did not answer HELLO within 3.0 s: is it a farpage-memserver'
fake half 'time|answer'
fake version 'this server speaks version 9; this client speaks version'
fake older 'speaks version [0-9]+; this client speaks version'
fake long 'more than the protocol allows'
fake zero 'protocol|does not speak|malformed'

# No program listens there.
refuse 127.0.0.1:1 'refused'
refuse "no-such-host.invalid:7471" 'host|name|resol'

# A stopped server: the kernel accepts, and no answer comes.
start_memserver stopped --size 32M --slab 4M
kill -STOP "$(cat "$tmp/stopped.pid")"
cleanup_fn kill -CONT "$(cat "$tmp/stopped.pid")"
refuse "$(cat "$tmp/stopped.addr")" 'time|answer'

# One server by two addresses.
start_memserver twice --listen "unix:$tmp/twice.usock" --size 32M --slab 4M
if timeout 60 "${nbdkit_cmd[@]}" -U "$tmp/n.sock" "$FARPAGE_PLUGIN" "$MLOCK" size=16M \
    "$(grep -v '^unix:' "$tmp/twice.addr")" server="unix:$tmp/twice.usock" 2>"$tmp/err"
then fail "one server twice was taken"; fi
grep -q 'error: .* are the same server: name it once' "$tmp/err" ||
    { cat "$tmp/err"; fail "does not say that it is the same server"; }
