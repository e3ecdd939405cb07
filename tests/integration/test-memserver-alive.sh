#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# systemd gets READY=1 once the server answers. With WatchdogSec= it gets
# WATCHDOG=1 again and again while the event loop runs.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

cat >"$tmp/listen.py" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
s.settimeout(60)
while True:
    print(s.recv(4096).decode().strip(), flush=True)
END
python3 "$tmp/listen.py" "$tmp/notify" >"$tmp/heard" 2>"$tmp/listen.log" &
cleanup_fn kill -9 $!
wait_until 10 test -S "$tmp/notify"

heard () { [ "$(grep -cx "$1" "$tmp/heard")" -ge "$2" ]; }

export NOTIFY_SOCKET="$tmp/notify"
start_memserver one --listen "unix:$tmp/one.sock" --size 1M --slab 64K --reserve 0
wait_until 10 heard READY=1 1
stop "$(cat "$tmp/one.pid")"
if grep -v '^READY=1$' "$tmp/heard"; then fail "more than READY=1, and nobody watches"; fi

export WATCHDOG_USEC=100000
start_memserver two --listen "unix:$tmp/two.sock" --size 1M --slab 64K --reserve 0
wait_until 10 heard WATCHDOG=1 3
[ "$(grep -cx READY=1 "$tmp/heard")" = 2 ] || fail "READY=1 is said once: $(cat "$tmp/heard")"
stop "$(cat "$tmp/two.pid")"
