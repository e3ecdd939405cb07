#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A bad command line of farpage gives exit status 2, one sentence that says what
# is wrong, and a hint. If a command cannot be done, the exit status is 1.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

# expect STATUS TEXT ARG...: run 'farpage ARG...', and check its exit status and
# its errors.
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
expect 2 "no such command: did you mean 'status'?" stauts
expect 2 "no such command: did you mean 'volumes'?" volume

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
expect 2 "--device-timeout" attach --device-timeout=0 server=a size=1G
expect 2 "must not be shorter" attach --device-timeout 30 --dead-timeout 29 \
    server=a size=1G
expect 2 "at least twice as long" attach --device-timeout 3 \
    server=a size=1G timeout=2000
expect 2 "--device-timeout must be longer" attach --device-timeout 10s await=10s server=a size=1G
expect 2 "--wait" attach --wait never server=a size=1G

expect 2 "at least one device" detach
expect 2 "not a /dev/nbdX" detach /dev/null
expect 2 "one device" swapon
expect 2 "one device" swapon /dev/nbd0 /dev/nbd1
expect 2 "not a /dev/nbdX" swapon /dev/null
expect 2 "--priority" swapon -p 32768 /dev/nbd0
expect 2 "one device" swapoff
expect 2 "not a /dev/nbdX" swapoff /dev/null
expect 2 "not both" status --socket "$tmp/s" /dev/nbd0
expect 2 "not a /dev/nbdX" status nothing

expect 2 "--interval" top --interval 0
expect 2 "--interval" top --interval 0.05
expect 2 "--interval" top --interval nan
expect 2 "--interval" top --interval 1s
expect 2 "--count" top --count 0
expect 2 "neither an attached device nor a socket" top nothing
expect 1 "not attached by farpage" top /dev/nbd4000
expect 2 "one device or socket" drain
expect 2 "one device or socket" drain /dev/nbd0
expect 2 "one device or socket" drain /dev/nbd0 a b
expect 2 "neither an attached device nor a socket" drain nothing a
expect 2 "neither an attached device nor a socket" drain /dev/sda a
expect 2 "drain: " drain /dev/nbd0 'a b'
for word in add remove; do
    expect 2 "one device or socket" servers $word
    expect 2 "one device or socket" servers $word /dev/nbd0
    expect 2 "neither an attached device nor a socket" servers $word nothing a
    expect 2 "servers $word: " servers $word /dev/nbd0 a 'a b'
    expect 1 "not attached by farpage" servers $word /dev/nbd4000 a b
done
expect 2 "domain" servers add /dev/nbd0 a,domain=/
expect 2 "domain" servers remove /dev/nbd0 a,domain=x
expect 2 "one device, volume or socket" check
expect 2 "one device, volume or socket" check /dev/nbd0 a
expect 2 "neither an attached device nor a socket" check nothing
expect 2 "--rate" check --rate 0 /dev/nbd0
expect 2 "--rate" drain --rate none /dev/nbd0 a
expect 2 "--rate" drain --rate 0 /dev/nbd0 a
expect 2 "not both" drain --rate 1M --cancel /dev/nbd0 a

expect 2 "no servers given" servers
expect 2 "servers: " servers 'a b'
expect 1 "servers: 127.0.0.1:1: " servers 127.0.0.1:1
expect 1 "servers: unix:$tmp/none: " servers "unix:$tmp/none"
expect 2 "servers: $tmp/none: a path is not an address: for a Unix socket use unix:PATH" servers "$tmp/none"
expect 1 "did you mean 'farpage volumes list'?" volumes lst 127.0.0.1:1
expect 1 "did you mean 'farpage volumes delete'?" volumes rm 127.0.0.1:1
expect 2 "for 'farpage volumes delete'" volumes rm --yes data 127.0.0.1:1
expect 1 "did you mean 'farpage servers add'?" servers ad 127.0.0.1:1
expect 2 "did you mean 'farpage servers add'?" servers ad /dev/nbd0 127.0.0.1:1
expect 1 "did you mean 'farpage servers remove'?" servers del 127.0.0.1:1
expect 2 "did you mean 'farpage servers remove'?" servers rm "$tmp/status" 127.0.0.1:1

# No machine has a device of this number.
expect 1 "not attached by farpage" swapon /dev/nbd4000
expect 1 "not swapped to" swapoff /dev/nbd4000
expect 1 "not attached by farpage" status /dev/nbd4000
expect 1 "not attached by farpage" drain /dev/nbd4000 127.0.0.1
expect 1 "not attached by farpage" check /dev/nbd4000
expect 1 "No such file" check "$tmp/no-such-socket"
expect 1 "No such file" drain "$tmp/no-such-socket" 127.0.0.1
expect 1 "No such file" status --socket "$tmp/no-such-socket"
# A path that is not the status socket of a plugin.
echo data >"$tmp/file"
expect 1 "is not a socket: start the plugin with status=PATH to get one" status --socket "$tmp/file"
nbdkit -f -U "$tmp/nbd" memory 1M >"$tmp/nbdkit.log" 2>&1 &
cleanup_fn stop $!
_wait_answer $! nbdkit nbdinfo --size "nbd+unix:///?socket=$tmp/nbd"
expect 1 "is the NBD socket of nbdkit (-U)" status --socket "$tmp/nbd"
expect 1 "is the NBD socket of nbdkit (-U)" drain "$tmp/nbd" 127.0.0.1
# A name without a slash is a socket if there is one.
cd "$tmp"
expect 1 "is the NBD socket of nbdkit (-U)" drain nbd 127.0.0.1
expect 1 "is the NBD socket of nbdkit (-U)" servers add nbd 127.0.0.1
expect 1 "is the NBD socket of nbdkit (-U)" servers remove nbd 127.0.0.1
cd "$OLDPWD"
# Detaching a device that is not attached succeeds.
farpage detach /dev/nbd4000 || fail "detach of what is not attached"

# A failed write is not success.
status=0
farpage --help >/dev/full 2>"$tmp/err" || status=$?
[ $status = 1 ] || fail "farpage --help >/dev/full: exit $status"
