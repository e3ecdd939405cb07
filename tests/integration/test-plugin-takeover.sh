#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Who takes a volume over from a client that does not let go of it is told from whom,
# and how long it may last; and who has lost it, who has it now.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

command -v jq >/dev/null || skip "no jq"
# The lease is longer than nbdkit takes to start on a busy machine.
start_memserver m --size 16M --slab 1M --reserve 0 --lease 10
tcp=$(cat "$tmp/m.addr")
plugin () # NAME ARG...
{
    local name=$1
    shift
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$MLOCK" "$tcp" volume=v size=4M timeout=5000 \
                 status="$tmp/$name.status" "$@"
}

# What there is to be taken over exists.
if timeout 60 "${nbdkit_cmd[@]}" -U "$tmp/none.sock" "$FARPAGE_PLUGIN" "$MLOCK" "$tcp" \
    volume=v size=4M takeover=true --run true 2>"$tmp/err"
then fail "a volume was made with takeover=true"; fi
grep -q "nobody knows volume v: is $tcp one of its servers? Without takeover= it is made" "$tmp/err" ||
    { cat "$tmp/err"; fail "it is not said that nobody knows it"; }
plugin old reserve=full
grep -q 'volume v: made: 4M of memory of 1 server' "$tmp/old.log" || fail "it is not said that it is made"
old=$(cat "$tmp/old.pid")
cleanup_fn kill -CONT "$old"
kill -STOP "$old"
plugin new takeover=true
new=$(cat "$tmp/new.pid")
grep -q 'volume v: attached: 4M of memory of 1 server' "$tmp/new.log" ||
    fail "it is not said that it is attached"
grep -q "volume v: taking it over from .*:$old, which has it since 2.*, 10 s at most" "$tmp/new.log" ||
    fail "it is not said from whom, and how long"
grep -q 'who has had volume v may not know yet that it was taken over' "$tmp/new.log" ||
    fail "it is not said what is waited for"
kill -CONT "$old"

is_taken () { [ "$(farpage status --socket "$tmp/old.status" --json | jq .volume.taken)" = true ]; }
wait_until 20 is_taken
farpage status --socket "$tmp/old.status" >"$tmp/status"
grep -q "TAKEN OVER by another client: .* since, .*:$new last" "$tmp/status" ||
    { cat "$tmp/status"; fail "the status does not say by whom"; }
if grep -q 'PIECES LOST' "$tmp/status"; then cat "$tmp/status"; fail "nothing is lost"; fi
wait_until 10 grep -q "another client has taken the volume v over: .*:$new last" "$tmp/old.log"
