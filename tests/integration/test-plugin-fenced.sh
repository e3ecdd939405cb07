#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A server with --backing was killed, and then its client detached. When the
# server is back, it cannot know that this client is gone until the lease ends.
# nbdkit waits for that before it forks, and says so. If the client is back, or
# if the lease is long, nbdkit refuses to start.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
has_tmpfs || skip "/dev/shm is no tmpfs, or too small"
dir=$(mktemp -d /dev/shm/farpage-test.XXXXXX)
cleanup_fn rm -rf "$dir"

# serve NAME [ARG...]: start a server with $lease.
serve ()
{
    local name=$1
    shift
    rm -f "$tmp/$name.addr"
    start_memserver "$name" --size 8M --slab 1M --reserve 0 --lease "$lease" "$@"
}
# crash LEASE: kill server r, and start it again with this lease.
crash ()
{
    kill_9 "$(cat "$tmp/r.pid")"
    lease=$1 serve r --backing "$dir" --listen "$r"
}
# background NAME ARG...: start nbdkit in the background, or return its error.
background ()
{
    local name=$1
    shift
    timeout 120 "${nbdkit_cmd[@]}" -U "$tmp/$name.sock" -P "$tmp/$name.pid" "$FARPAGE_PLUGIN" \
        "$MLOCK" timeout=5000 "$@" >"$tmp/$name.log" 2>&1
}
says () { grep -qE "$2" "$tmp/$1.log" || { cat "$tmp/$1.log"; fail "$1 does not say '$2'"; }; }
nbd () { uri="nbd+unix:///?socket=$tmp/$1.sock" "$NBDSH" -c - || fail "$1"; }

# The lease is longer than nbdkit takes to start on a busy machine.
lease=${LEASE:-10}
serve p
serve r --backing "$dir"
p=$(head -n1 "$tmp/p.addr")
r=$(head -n1 "$tmp/r.addr")

start_nbdkit old "$FARPAGE_PLUGIN" "$MLOCK" "$p" server="$r" volume=v size=4M timeout=5000
nbd old <<'PY'
import os
h.connect_uri(os.environ["uri"])
for i in range(4):
    h.pwrite(b"x" * 4096, i << 20)
PY
kill_9 "$(cat "$tmp/r.pid")"
stop "$(cat "$tmp/old.pid")"
grep -q 'volume v: left by' "$tmp/p.log" || fail "it has not left"
begin=${EPOCHREALTIME/./}
serve r --backing "$dir" --listen "$r"
background new "$p" volume=v || { cat "$tmp/new.log"; fail "it is refused"; }
new=$(pid_in "$tmp/new.pid")
end_new () { if [ "$new" ]; then kill -9 "$new" 2>/dev/null || :; fi; }
cleanup_fn end_new
[ $((${EPOCHREALTIME/./} - begin)) -ge $((lease * 1000000)) ] || fail "it did not wait before the fork"
nbd new <<'PY'
import os
h.connect_uri(os.environ["uri"])
for i in range(4):
    assert h.pread(4096, i << 20) == b"x" * 4096
PY
says new "$r: .*:$(cat "$tmp/old.pid") may still use volume v, .* for [0-9]+ s more at most"
kill "$new"
gone () { ! kill -0 "$new" 2>/dev/null; }
wait_until 20 gone
new=

# The client of this volume is alive, and only this server could know that.
start_nbdkit alive "$FARPAGE_PLUGIN" "$MLOCK" "$r" volume=w size=2M timeout=5000
alive=$(cat "$tmp/alive.pid")
cleanup_fn kill -CONT "$alive"
kill -STOP "$alive"
crash 40
background other "$r" volume=w &
other=$!
wait_until 20 grep -q 'may still use volume w' "$tmp/other.log"
kill -CONT "$alive"
if wait $other; then fail "two have it"; fi
says other "volume w is attached to .*:$alive since"

kill -STOP "$alive"
crash 100
if background long "$r" volume=w; then fail "not refused"; fi
says long "$r: .* until its lease there expires: try again in [0-9]+ s, or use takeover=true"
