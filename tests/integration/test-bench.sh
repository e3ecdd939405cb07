#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# farpage bench: the table and the JSON have the requested rows with figures,
# bad options are refused, and nothing is left behind.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

requires jq --version
requires nbdkit --version
[ -z "$SANITIZER_PRELOAD" ] ||
    skip "farpage bench starts nbdkit without the sanitizer's runtime"

# Put its temporary files where the test sees whether they are removed.
export TMPDIR=$tmp/t
mkdir "$TMPDIR"
nothing_left ()
{
    [ -z "$(ls -A "$TMPDIR")" ] || fail "left behind: $(ls -A "$TMPDIR")"
    # The programs that it starts have their sockets there.
    if pgrep -fa -- "$TMPDIR/"; then fail "left running"; fi
}
# A progress bar is shown on a terminal only, and is gone before the table.
if command -v script >/dev/null; then
    timeout 60 script -qec "farpage bench --layers memcpy --seconds 0.8 --rounds 12" "$tmp/tty" \
        >/dev/null </dev/null || fail "on a terminal: $(cat "$tmp/tty")"
    tr '\r' '\n' <"$tmp/tty" | grep -q '\[##*\.*\] round [0-9]* of 12: memcpy' ||
        fail "no bar: $(cat "$tmp/tty")"
    tr '\r' '\n' <"$tmp/tty" | grep -E '^memcpy ' | grep -q . || fail "no table: $(cat "$tmp/tty")"
fi

short=(--seconds 0.02 --rounds 2 --size 64M)

farpage bench "${short[@]}" --layers memcpy,engine-shm,engine-tcp,nbd-memory,nbd-farpage \
    --json \
    >"$tmp/json" 2>"$tmp/err" || fail "$(cat "$tmp/err")"
nothing_left
check ()
{
    jq -e "$1" <"$tmp/json" >/dev/null || fail "not so: $1"
}
check '.rows | length == 28'
check '[.rows[] | select(.layer == "engine-tcp" and .size == 4096) |
    "\(.op) \(.depth)"] == ["read 1", "write 1", "read 32", "write 32"]'
check 'all(.rows[]; .iops > 0 and .mb_per_s > 0 and .p50_us > 0 and
    .p50_us <= .p99_us and .p99_us <= .p999_us and .rounds == 2)'
check 'all(.rows[] | select(.layer == "engine-tcp");
    .donor_cpu_ms_per_gib > 0)'
check '.ratios[0] | .layer == "engine-shm" and .against == "memcpy" and
    .ratio > 0 and .goal == 1.5'

farpage bench "${short[@]}" --layers engine-shm >"$tmp/out" 2>"$tmp/err" ||
    fail "$(cat "$tmp/err")"
[ "$(grep -Ec '^engine-shm +(read|write) +[0-9]+k +[0-9]+ +[1-9]' "$tmp/out")" \
    = 6 ] || fail "the table is $(cat "$tmp/out")"
nothing_left

# refused STATUS WORD ARGUMENT...: check that it fails with this status and
# names the word.
refused ()
{
    local status=0 want=$1 word=$2
    shift 2
    farpage bench "$@" >/dev/null 2>"$tmp/err" || status=$?
    [ $status = "$want" ] || fail "$*: exit $status, not $want"
    grep -q -- "$word" "$tmp/err" || fail "$*: $(cat "$tmp/err")"
    nothing_left
}
refused 2 no-such --layers memcpy,no-such
refused 2 rounds --rounds 0
refused 2 seconds --seconds -1
refused 2 size --size 1
refused 2 server --server host:port:
refused 2 surplus surplus
refused 2 'not a /dev/nbdX' --device /dev/null
refused 2 needs --layers memcpy,device
refused 2 needs --overwrite
refused 2 "no 'device'" --device /dev/nbd4000 --layers memcpy
refused 1 'not attached by farpage' "${short[@]}" --device /dev/nbd4000 \
    --layers device
refused 1 nobody "${short[@]}" --layers engine-shm --server "unix:$tmp/nobody"

# If it is interrupted, it removes its memory server and its files, too.
farpage bench --layers engine-shm --seconds 60 >/dev/null 2>"$tmp/err" &
pid=$!
wait_until 60 grep -q 'round 1' "$tmp/err"
kill -TERM $pid
status=0
wait $pid || status=$?
[ $status = 1 ] || fail "interrupted: exit $status, not 1"
nothing_left
