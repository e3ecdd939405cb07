#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A memory server with --backing is killed or stopped, and started again. Its
# clients go on by themselves. If it is back within the timeout, they see no
# error. Otherwise they see errors until it is back, and then the right data.
# Over tcp it uses a directory. Over shm systemd keeps the memory, whose part
# fdstore.py plays.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
has_tmpfs || skip "/dev/shm is no tmpfs, or too small"
dir=$(mktemp -d /dev/shm/farpage-test.XXXXXX)
cleanup_fn rm -rf "$dir"
seed=${SEED:-$RANDOM}
echo "seed=$seed"
RANDOM=$seed

# serve [ARG...]: start the server as before. Its pid is in $mpid.
serve ()
{
    rm -f "$tmp/m.addr"
    start_memserver m --listen "unix:$tmp/m.usock" --size 64M --slab 1M --reserve 0 \
                    --backing "$backing" "$@"
    mpid=$(cat "$tmp/m.pid")
}
memserver=$(type -P farpage-memserver)
farpage-memserver ()
{
    if [ "$backing" != fdstore: ]; then exec "$memserver" "$@"; fi
    exec python3 "$top_srcdir/tests/integration/fdstore.py" start "$tmp" "$memserver" "$@"
}
restart ()
{
    if [ $((RANDOM % 3)) = 0 ]; then stop "$mpid"; else kill_9 "$mpid"; fi
    serve --listen "$tcp"
}

n=0
# go_on SERVER TRANSPORT NAME: restart the server during random requests.
go_on ()
{
    local server=$1 name=$3 ops times
    n=$((n + 1))
    # shellcheck disable=SC2086 # empty, or one word
    start_nbdkit c$n "$FARPAGE_PLUGIN" "$server" size=24M timeout=30000 $name "$MLOCK" \
                 connections=2
    grep -q "transport $2" "$tmp/c$n.log" || fail "$server: not over $2"
    uri="nbd+unix:///?socket=$tmp/c$n.sock" seed=$seed ops=500 slab=$((1 << 20)) away=1 \
        "$NBDSH" -c - <"$top_srcdir/tests/integration/random-ops.py" >"$tmp/ops.log" 2>&1 &
    ops=$!
    times=0
    while kill -0 $ops 2>/dev/null; do
        sleep "0.$((RANDOM % 5 + 1))"
        restart
        times=$((times + 1))
    done
    wait $ops || fail "$server $name: seed=$seed: $(cat "$tmp/ops.log")"
    echo "$server $name: $times restarts"
    if grep 'requests failed' "$tmp/c$n.log"; then fail "$server $name: there were errors"; fi
    stop "$(cat "$tmp/c$n.pid")"
    if [ "$name" ]; then farpage volumes delete --yes vol "$server"; fi
}

backing=fdstore:
python3 "$top_srcdir/tests/integration/fdstore.py" keep "$tmp" &
cleanup_fn kill -9 $!
wait_until 10 test -S "$tmp/keeper"
serve
tcp=$(head -n1 "$tmp/m.addr")
go_on "unix:$tmp/m.usock" shm ''
go_on "unix:$tmp/m.usock" shm volume=vol
stop "$mpid"
backing=$dir/b
serve
tcp=$(head -n1 "$tmp/m.addr")
go_on "$tcp" tcp ''
go_on "$tcp" tcp volume=vol
go_on "unix:$tmp/m.usock" tcp volume=vol

# The server is away for longer than the timeout.
start_nbdkit long "$FARPAGE_PLUGIN" "$tcp" size=8M timeout=3000 await=2000 "$MLOCK"
export uri="nbd+unix:///?socket=$tmp/long.sock"
"$NBDSH" -c - <<'PY' || fail "written"
import os
h.connect_uri(os.environ["uri"])
h.pwrite(b"x" * 70000, (1 << 20) - 4096)
PY
kill_9 "$mpid"
"$NBDSH" -c - <<'PY' || fail "away"
import os
h.connect_uri(os.environ["uri"])
for f in (lambda: h.pread(4096, 1 << 20), lambda: h.pwrite(b"y" * 512, 1 << 20)):
    try:
        f()
    except nbd.Error as e:
        assert e.errno == "EIO", e
    else:
        raise SystemExit("no error")
PY
serve --listen "$tcp"
"$NBDSH" -c - <<'PY' || fail "back again"
import time
import os
h.connect_uri(os.environ["uri"])
end = time.monotonic() + 60
while True:
    try:
        got = h.pread(70000, (1 << 20) - 4096)
        break
    except nbd.Error:
        assert time.monotonic() < end
        time.sleep(0.05)
# (A write that failed may have been done.)
assert got[:4096] == b"x" * 4096 and got[4608:] == b"x" * 65392, "other data"
assert got[4096:4608] in (b"x" * 512, b"y" * 512)
h.pwrite(b"z" * 100, 3 << 20)
assert h.pread(100, 3 << 20) == b"z" * 100
PY
stop "$(cat "$tmp/long.pid")"
