#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# farpage top: a volume in use over tcp, a plugin and a memory server that do
# not answer, and the screen.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
start_memserver m --size 64M --slab 4M
addr=$(head -n1 "$tmp/m.addr")
status=$tmp/status
start_nbdkit n "$FARPAGE_PLUGIN" "$addr" size=32M transport=tcp "$MLOCK" status="$status"

# shows NAME [COUNT]: run it for COUNT (2) looks, and check that no line has
# more than 80 columns.
shows ()
{
    timeout 60 farpage top --batch --interval 0.2 --count "${2:-2}" "$status" \
        >"$tmp/$1" 2>"$tmp/err" || fail "$1: $(cat "$tmp/err")"
    if grep -qE '^.{81,}$' "$tmp/$1"; then fail "$1: more than 80 columns: $(cat "$tmp/$1")"; fi
    if grep -q $'\033' "$tmp/$1"; then fail "$1: not plain text"; fi
}
# line NAME PATTERN: print the last line that matches, without its first word.
line () { grep -E "$2" "$tmp/$1" | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2-; }

# idle: succeed if it shows a volume without requests.
idle ()
{
    shows idle
    [[ $(line idle /status) == "0 0 0 -/- -/- 0 0B/32M ok" ]] &&
        [[ $(line idle '^127.0.0.1:') =~ ^tcp\ 0\ 0\ 0\ [0-9]+M\ [0-9]+[BM]\ ok ]]
}
wait_until 30 idle
[ "$(grep -c '^farpage top ' "$tmp/idle")" = 2 ] || fail "not two looks: $(cat "$tmp/idle")"

# Read and write until told to stop.
uri="nbd+unix:///?socket=$tmp/n.sock" stop=$tmp/stop \
    timeout 120 "$NBDSH" -c - >"$tmp/io.log" 2>&1 <<'END' &
import os
h.connect_uri(os.environ["uri"])
n = 0
while not os.path.exists(os.environ["stop"]):
    h.pwrite(b"x" * 65536, n % 256 * 65536)
    h.pread(65536, n % 256 * 65536)
    n += 1
END
io=$!
cleanup_fn kill $io

# moves: succeed if it shows requests, bytes and latencies of the volume and of
# its server.
moves ()
{
    shows busy 1
    [[ $(line busy /status) =~ ^[1-9][0-9.k]*\ [1-9][0-9.]*\ [1-9][0-9.]*\ [1-9][0-9.m]*/[1-9] ]] &&
        [[ $(line busy '^127.0.0.1:') =~ ^tcp\ [1-9][0-9.k]*\ [1-9][0-9.]*\ [1-9] ]]
}
wait_until 30 moves
touch "$tmp/stop"
wait $io || fail "I/O: $(cat "$tmp/io.log")"

# The screen.
requires python3 -c 'import os; os.waitstatus_to_exitcode'
timeout 120 python3 "$top_srcdir/tests/integration/top-screen.py" "$status"
status2=0
farpage top "$status" >"$tmp/out" 2>"$tmp/err" </dev/null || status2=$?
[ $status2 = 1 ] || fail "without a terminal: exit $status2"
grep -q -- 'use --batch' "$tmp/err" || fail "without a terminal: $(cat "$tmp/err")"

# top does not wait for a memory server that is stopped, as the plugin answers.
kill -STOP "$(cat "$tmp/m.pid")"
cleanup_fn kill -CONT "$(cat "$tmp/m.pid")"
no_server () { shows stopped 1 && [[ $(line stopped '^127.0.0.1:') == *" no answer" ]]; }
wait_until 30 no_server
kill -CONT "$(cat "$tmp/m.pid")"

# Nor does top wait for a plugin that is stopped.
kill -STOP "$(cat "$tmp/n.pid")"
cleanup_fn kill -CONT "$(cat "$tmp/n.pid")"
shows silent 1
[[ $(line silent /status) == "no answer" ]] || fail "$(cat "$tmp/silent")"
kill -CONT "$(cat "$tmp/n.pid")"

# A plugin that has ended is noticed at once.
stop "$(cat "$tmp/n.pid")"
shows gone
[[ $(line gone /status) == "no answer" ]] || fail "$(cat "$tmp/gone")"

# The reader of a pipe may go away.
timeout 60 farpage top --batch --interval 0.1 "$status" 2>"$tmp/err" | head -n 1 >"$tmp/out"
grep -q '^farpage top ' "$tmp/out" || fail "into a pipe: $(cat "$tmp/out")"
