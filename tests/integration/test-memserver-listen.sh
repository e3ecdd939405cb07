#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# --listen: an address that cannot be used gives one clear error and exit status
# 1, and changes nothing. All other addresses work.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

serve 20 1
port=${tcp##*:}
common=(--size 1M --slab 1M --reserve 0 --log-level error --insecure)

# refused TEXT ADDR...: check that the server does not start, and says TEXT.
refused ()
{
    local text=$1 status=0 a args=()
    shift
    for a; do args+=(--listen "$a"); done
    timeout 60 farpage-memserver "${common[@]}" "${args[@]}" 2>"$tmp/err" || status=$?
    [ $status = 1 ] || fail "$*: exit status $status"
    [ "$(wc -l <"$tmp/err")" = 1 ] || { cat "$tmp/err"; fail "$*: not one line"; }
    grep -qE "^farpage-memserver: listen: $text\$" "$tmp/err" ||
        { cat "$tmp/err"; fail "$*: does not say '$text'"; }
}

# works NAME ADDR...: start a server, and check that it answers on all its
# addresses.
works ()
{
    local name=$1 a args=()
    shift
    for a; do args+=(--listen "$a"); done
    farpage-memserver "${common[@]}" "${args[@]}" --address-file "$tmp/$name.addr" \
        2>"$tmp/$name.log" &
    works_pid=$!
    cleanup_fn stop $!
    wait_until 20 test -s "$tmp/$name.addr"
    while read -r a; do
        timeout 60 "$memclient" "$a" "$name" stat >"$tmp/out" 2>&1 ||
            { cat "$tmp/out"; fail "$name: $a does not answer"; }
    done <"$tmp/$name.addr"
}

mkdir "$tmp/dir"
echo precious >"$tmp/file"
long=$tmp/$(printf 'x%.0s' {1..100})

refused ".*:$port: Address already in use.*sport = :$port.*--listen.*" "127.0.0.1:$port"
refused ".*:$port: Address already in use: .*" "unix:$tmp/never" "127.0.0.1:$port"
refused '192\.0\.2\.1:1: Cannot assign requested address' 192.0.2.1:1
refused 'no\.such\.host\.invalid:1: .*' no.such.host.invalid:1
refused "unix:$tmp/m.sock: Address already in use: a program answers.*" "unix:$tmp/m.sock"
refused "unix:$tmp/file: Address already in use: .* not a socket.*" "unix:$tmp/file"
refused "unix:$tmp/dir: Address already in use: .*" "unix:$tmp/dir"
refused "unix:$tmp/none/sock: No such file or directory" "unix:$tmp/none/sock"
[ "$(cat "$tmp/file")" = precious ] || fail "a file was overwritten"
[ -d "$tmp/dir" ] || fail "a directory was removed"
[ ! -e "$tmp/never" ] || fail "a socket file was left behind"
status=0
farpage-memserver "${common[@]}" --listen "unix:$long" 2>"$tmp/err" || status=$?
[ $status = 2 ] || { cat "$tmp/err"; fail "a path too long: exit status $status"; }

# The server that had the socket still has it.
client "$unix" still open:1:ce:shm grant:1 check:0 discard

works several 127.0.0.1:0 127.0.0.1:0 "unix:$tmp/a" "unix:$tmp/b"
[ "$(wc -l <"$tmp/several.addr")" = 4 ] || fail "not four addresses"
for f in a b; do
    [ -S "$tmp/$f" ] || fail "no socket file"
done

# One name for an IPv4 and an IPv6 address does not count as given twice.
works localhost localhost:0

# The socket file of a killed server is replaced. A link to nowhere is not
# followed.
kill -9 "$works_pid"
wait "$works_pid" || :
works killed "unix:$tmp/k"
kill -9 "$works_pid"
wait "$works_pid" || :
[ -S "$tmp/k" ] || fail "no socket file is left, this proves nothing"
rm "$tmp/killed.addr"
works killed "unix:$tmp/k"
ln -s "$tmp/nowhere" "$tmp/link"
refused "unix:$tmp/link: Address already in use: .*" "unix:$tmp/link"
