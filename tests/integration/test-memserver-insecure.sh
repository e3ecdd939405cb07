#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Without TLS, a server needs --insecure to listen on addresses that other
# machines can reach. Log, STAT and metrics then say that it is insecure.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

size=(--size 8M --slab 1M --reserve 0)

# refused TEXT ARG...: check for exit status 2, and for one line that has TEXT
# and names --insecure.
refused ()
{
    local status=0 text=$1
    shift
    timeout 60 farpage-memserver "${size[@]}" "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
    [ $status = 2 ] || { cat "$tmp/err"; fail "exit status $status: $*"; }
    [ "$(wc -l <"$tmp/err")" = 1 ] || { cat "$tmp/err"; fail "not one line: $*"; }
    grep -q -e "$text" "$tmp/err" || { cat "$tmp/err"; fail "no '$text': $*"; }
    grep -q -e '--insecure' "$tmp/err" || { cat "$tmp/err"; fail "does not say what to do: $*"; }
}

for address in 0.0.0.0:0 '[::]:0' 10.99.99.99 '[::ffff:10.99.99.99]:7471' '[2001:db8::1]:7471'; do
    refused "listen: .*${address//[][]/.}.*no TLS.*farpage-memserver keygen FILE.*--tls-psk FILE" --listen "$address"
done
refused 'listen: 10.99.99.99' --listen "unix:$tmp/sock" --listen 127.0.0.1:0 --listen 10.99.99.99
refused 'no TLS' --tls off --tls-psk "$tmp/key" --listen 0.0.0.0:0
[ ! -e "$tmp/sock" ] || fail "a socket was left behind"

# says NAME ADDR TRUE-OR-FALSE: check that log, STAT and metrics of the server
# say whether it is insecure.
says ()
{
    local lines=0 where
    if [ "$3" = true ]; then lines=1; fi
    [ "$(grep -c 'INSECURE: without TLS' "$tmp/$1.log" || :)" = $lines ] ||
        { cat "$tmp/$1.log"; fail "$1: not $lines lines in the log"; }
    [ "$(farpage servers "$2" "${@:4}" | grep -c '^  INSECURE: ' || :)" = $lines ] || fail "$1: farpage servers"
    farpage servers --json "$2" "${@:4}" >"$tmp/json"
    grep -q "\"insecure\": *$3" "$tmp/json" || { cat "$tmp/json"; fail "$1: --json"; }
    where=$(sed -n 's/.*metrics are at //p' "$tmp/$1.log")
    python3 "$top_srcdir/tests/integration/metrics.py" get "$where" >"$tmp/page"
    grep -q "^farpage_memserver_insecure $lines\$" "$tmp/page" || fail "$1: metrics"
}

metrics () { echo --metrics "unix:$tmp/$1.metrics"; }

# shellcheck disable=SC2046 # words
{
    start_memserver near "${size[@]}" --listen "unix:$tmp/near.sock" $(metrics near)
    says near "$(head -n 1 "$tmp/near.addr")" false
    start_memserver far "${size[@]}" --insecure --listen "unix:$tmp/far.sock" --listen 0.0.0.0:0 $(metrics far)
    says far "$(head -n 1 "$tmp/far.addr")" true
    # --insecure alone does not make it insecure: no other machine can reach it.
    start_memserver may "${size[@]}" --insecure $(metrics may)
    says may "$(cat "$tmp/may.addr")" false
}
printf '%s\n' 'insecure = true' 'listen = 0.0.0.0:0' "metrics = unix:$tmp/file.metrics" >"$tmp/conf"
start_memserver file "${size[@]}" --config "$tmp/conf" --listen 0.0.0.0:0
says file "$(head -n 1 "$tmp/file.addr")" true
echo 'insecure = false' >"$tmp/conf"
refused 'no TLS' --config "$tmp/conf" --listen 0.0.0.0:0

# Check what 'farpage status' says of a control connection.
control () # NAME ADDR WHAT
{
    start_nbdkit "$1" "$FARPAGE_PLUGIN" "$2" size=4M "$MLOCK" "status=$tmp/$1.status"
    farpage status --socket "$tmp/$1.status" >"$tmp/$1.said"
    grep -q ", control $3" "$tmp/$1.said" || { cat "$tmp/$1.said"; fail "$2 is not $3"; }
    stop "$(cat "$tmp/$1.pid")"
}
if command -v nbdkit >/dev/null; then
    port=$(sed -n 's/^0\.0\.0\.0://p' "$tmp/far.addr")
    control n1 "unix:$tmp/far.sock" local
    control n2 "127.0.0.1:$port" local
    mine=$(ip -4 -o addr show scope global up 2>/dev/null | sed -n '1s/.* inet \([0-9.]*\).*/\1/p')
    if [ -n "$mine" ]; then control n3 "$mine:$port" insecure; fi
fi

# A server that requires a key may listen on all addresses.
farpage keygen "$tmp/key"
refused '--tls on also accepts clients without TLS.*--tls require' --tls on --tls-psk "$tmp/key" --listen 0.0.0.0:0
# shellcheck disable=SC2046 # words
start_memserver tls "${size[@]}" --listen 0.0.0.0:0 --tls-psk "$tmp/key" $(metrics tls)
says tls "$(head -n 1 "$tmp/tls.addr")" false "tls-psk=$tmp/key"

# Check the default addresses in a network namespace, as another program may use
# their port outside.
if ! unshare -rn ip link set lo up 2>/dev/null; then
    echo "no network namespace for this user: the default addresses were not looked at"
    exit 0
fi
# default NAME ARG...: start a server without --listen in a network namespace of
# its own.
default ()
{
    local name=$1
    shift
    unshare -rn bash -c 'ip link set lo up && exec "$@"' default \
        farpage-memserver "${size[@]}" --address-file "$tmp/$name.addr" "$@" 2>"$tmp/$name.log" &
    cleanup_fn stop $!
    wait_until 30 test -s "$tmp/$name.addr"
}
v6=
if [ -e /proc/net/if_inet6 ]; then v6=y; fi
default d
printf '%s\n' 127.0.0.1:7471 ${v6:+'[::1]:7471'} | cmp - "$tmp/d.addr" || fail "$(cat "$tmp/d.addr")"
grep -q 'only this machine is served: .*--tls-psk.*--insecure' "$tmp/d.log" || fail "it is not said"
default e --insecure
grep -qxE '(\[::\]|0\.0\.0\.0):7471' "$tmp/e.addr" || fail "$(cat "$tmp/e.addr")"
grep -q INSECURE "$tmp/e.log" || fail "it is not said"
if [ -e "$tmp/key" ]; then
    default f --tls-psk "$tmp/key"
    grep -qxE '(\[::\]|0\.0\.0\.0):7471' "$tmp/f.addr" || fail "$(cat "$tmp/f.addr")"
    if grep -qE 'INSECURE|only this machine' "$tmp/f.log"; then fail "with a key"; fi
fi
