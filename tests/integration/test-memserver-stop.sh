#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# On SIGTERM the server says which clients hold slabs, ends their sessions,
# leaves nothing behind and exits with status 0.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

serve 600 1 --pidfile "$tmp/pid"
[ "$(cat "$tmp/pid")" = "$server_pid" ] || fail "pidfile"
hanging "$tcp" one name:volume1 open:1:c:tcp grant:3 fill:1
hanging "$unix" two name:volume2 open:2:c:shm grant:4 fill:1
holding "$unix" four 9
kill -USR1 "$server_pid"
wait_until 10 grep -q 'volume volume1: 3 slabs held by one' "$tmp/m.log"
"$memclient" "$tcp" three wait-end >/dev/null &
waiter=$!
wait_until 10 sh -c "'$memclient' $tcp asks stat | grep -q client=three"

kill "$server_pid"
status=0
wait "$server_pid" || status=$?
[ $status = 0 ] || fail "exit status $status"
# No client reads zeros before it hears that the server is gone.
kept four
wait $waiter || fail "a client was not told"
grep -q 'stopping' "$tmp/m.log" || fail "it does not say that it stops"
grep -q 'volume volume2: 4 slabs held by two' "$tmp/m.log" ||
    fail "it does not say who holds what"
for f in pid m.addr m.sock; do
    [ ! -e "$tmp/$f" ] || fail "$f was left behind"
done

# The socket file of a killed server is no obstacle. That of a running server
# is.
serve 30 1
kill -9 "$server_pid"
wait "$server_pid" || true
[ -S "$tmp/m.sock" ] || fail "no socket file is left, this proves nothing"
rm "$tmp/m.addr"
serve 30 1
status=0
farpage-memserver --size 1M --slab 1M --listen "$unix" 2>"$tmp/second.log" ||
    status=$?
[ $status = 1 ] || fail "a second server on the same socket: exit $status"
grep -q 'in use' "$tmp/second.log" || fail "no reason"
client "$unix" still open:1:ce:shm grant:1 check:0
