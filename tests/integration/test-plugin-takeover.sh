#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A client that takes a volume over is told which client does not let go, and
# how long that may last. The client that lost the volume is told which one has
# it now.

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

# Only a volume that exists can be taken over.
if timeout 60 "${nbdkit_cmd[@]}" -U "$tmp/none.sock" "$FARPAGE_PLUGIN" "$MLOCK" "$tcp" \
    volume=v size=4M takeover=true --run true 2>"$tmp/err"
then fail "a volume was made with takeover=true"; fi
grep -q "volume v not found: is $tcp one of its servers? To create it, omit takeover=" "$tmp/err" ||
    { cat "$tmp/err"; fail "it is not said that nobody knows it"; }
plugin old reserve=full
grep -q 'volume v: created: 4M on 1 server' "$tmp/old.log" || fail "it is not said that it is made"
old=$(cat "$tmp/old.pid")
cleanup_fn kill -CONT "$old"
kill -STOP "$old"
plugin new takeover=true
new=$(cat "$tmp/new.pid")
grep -q 'volume v: attached: 4M on 1 server' "$tmp/new.log" ||
    fail "it is not said that it is attached"
grep -q "volume v: taking it over from .*:$old, attached since 2.*, 10 s at most" "$tmp/new.log" ||
    fail "it is not said from whom, and how long"
grep -q 'the previous client of volume v may not know yet of the takeover' "$tmp/new.log" ||
    fail "it is not said what is waited for"
kill -CONT "$old"

is_fenced () { [ "$(farpage status --socket "$tmp/old.status" --json | jq .volume.fenced)" = true ]; }
wait_until 20 is_fenced
farpage status --socket "$tmp/old.status" >"$tmp/status"
grep -q "FENCED: another client has taken it over: .* since (last: .*:$new)" "$tmp/status" ||
    { cat "$tmp/status"; fail "the status does not say by whom"; }
if grep -q 'EXTENTS LOST' "$tmp/status"; then cat "$tmp/status"; fail "nothing is lost"; fi
wait_until 10 grep -q "another client has taken the volume v over: .*(last: .*:$new)" "$tmp/old.log"
