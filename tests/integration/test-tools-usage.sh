#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A bad command line of farpage: exit status 2, one sentence that says what is
# wrong, and a hint. What cannot be done: exit status 1.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

# expect STATUS TEXT ARG...: what 'farpage ARG...' does.
expect ()
{
    local wanted=$1 text=$2 status=0
    shift 2
    farpage "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
    [ $status = "$wanted" ] ||
        fail "farpage $*: exit $status, not $wanted: $(cat "$tmp/err")"
    grep -qF -- "$text" "$tmp/err" ||
        fail "farpage $*: no '$text' in: $(cat "$tmp/err")"
    grep -q '^farpage: ' "$tmp/err" || [ "$wanted" = 2 ] ||
        fail "farpage $*: not 'farpage: ...': $(cat "$tmp/err")"
    [ ! -s "$tmp/out" ] || fail "farpage $*: wrote to standard output"
}

expect 2 "Usage: farpage"
expect 2 "no such command" frobnicate
expect 2 "farpage --help" frobnicate
expect 2 "no such option" --frobnicate

commands=$(farpage --help | "$SED" -n 's/^  \([a-z]\{3,\}\) .*/\1/p')
[ -n "$commands" ] || fail "--help lists no command"
for c in $commands; do
    farpage "$c" --help | grep -q "^Usage: farpage $c " || fail "$c --help"
    farpage "$c" --version | grep -q "^farpage [0-9]" || fail "$c --version"
    expect 2 "frobnicate" "$c" --frobnicate
done

expect 2 "server=ADDR is missing" attach
expect 2 "server=ADDR is missing" attach size=1G
expect 2 "size=SIZE is missing" attach server=127.0.0.1
expect 2 "not PARAMETER=VALUE" attach server=127.0.0.1 size=1G 7
expect 2 "sets this parameter itself" attach server=a size=1G uuid=1
expect 2 "sets this parameter itself" attach server=a size=1G status=/x
expect 2 "sets this parameter itself" attach server=a size=1G resume=true
expect 2 "use --swap" attach server=a size=1G swap=true
expect 2 "use --connections" attach server=a size=1G connections=1
expect 2 "not a /dev/nbdX" attach -d /dev/sda server=a size=1G
expect 2 "not a /dev/nbdX" attach -d /dev/nbd server=a size=1G
expect 2 "not a /dev/nbdX" attach -d /dev/nbd0p1 server=a size=1G
for n in 0 -1 65 x 1x '' 99999999999999999999; do
    expect 2 "--connections" attach "--connections=$n" server=a size=1G
done
expect 2 "--timeout" attach --timeout=0 server=a size=1G
expect 2 "must not be shorter" attach --timeout 30 --dead-timeout 29 \
    server=a size=1G
expect 2 "at least twice as long" attach --timeout 3 \
    server=a size=1G timeout=2000
expect 2 "--wait" attach --wait never server=a size=1G

expect 2 "which device" detach
expect 2 "not a /dev/nbdX" detach /dev/null
expect 2 "one device" swapon
expect 2 "one device" swapon /dev/nbd0 /dev/nbd1
expect 2 "not a /dev/nbdX" swapon /dev/null
expect 2 "--priority" swapon -p 32768 /dev/nbd0
expect 2 "one device" swapoff
expect 2 "not a /dev/nbdX" swapoff /dev/null
expect 2 "not both" status --socket "$tmp/s" /dev/nbd0
expect 2 "not a /dev/nbdX" status nothing

expect 2 "which servers" servers
expect 2 "servers: " servers 'a b'
expect 1 "servers: 127.0.0.1:1: " servers 127.0.0.1:1
expect 1 "servers: unix:$tmp/none: " servers "unix:$tmp/none"

# A number that no machine has.
expect 1 "not attached by farpage" swapon /dev/nbd4000
expect 1 "not swapped to" swapoff /dev/nbd4000
expect 1 "not attached by farpage" status /dev/nbd4000
expect 1 "No such file" status --socket "$tmp/no-such-socket"
# What is not attached needs no detaching.
farpage detach /dev/nbd4000 || fail "detach of what is not attached"

# A failed write is not success.
status=0
farpage --help >/dev/full 2>"$tmp/err" || status=$?
[ $status = 1 ] || fail "farpage --help >/dev/full: exit $status"
