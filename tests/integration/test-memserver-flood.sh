#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients that say nothing, send a byte a second, never read, or send half a
# frame are dropped in time. Meanwhile other clients are served.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

memrude="$top_builddir/tests/integration/memrude"
serve 2 1
before=$(server_resources)

# A byte a second does not extend the time for HELLO. This takes a while, so it
# runs in the background. (Not over TCP, where the flood would end it.)
"$memrude" "$unix" slow 2>"$tmp/slow.err" &
slow=$!
cleanup_fn kill -9 $slow

# Open more connections than the server accepts. Later clients are served, from
# the same host and over the other socket.
mkfifo "$tmp/fifo"
"$memrude" "$tcp" flood 400 <"$tmp/fifo" >"$tmp/flood.out" 2>"$tmp/flood.err" &
flood=$!
cleanup_fn kill -9 $flood
exec {fd}>"$tmp/fifo"
wait_until 30 grep -q flooded "$tmp/flood.out"
client "$tcp" guest open:2:ce:tcp grant:1 check:0 fill:9 check:9 discard
client "$unix" local open:3:ce:shm grant:1 check:0 discard
# The limit is MAX_FRESH_ORIGIN, which is 64. Allow a few more for descriptors of
# the server.
fds=$(find "/proc/$server_pid/fd" -mindepth 1 | wc -l)
[ "$fds" -le $((${before% *} + 64 + 8)) ] || fail "a flood has $fds descriptors"
exec {fd}>&-
wait "$flood" || fail "$(cat "$tmp/flood.err")"

# A client sends requests without end, and does not read the replies.
"$memrude" "$tcp" deaf || fail "a deaf client was not dropped"
"$memrude" "$unix" deaf || fail "a deaf client was not dropped"

# The slab is free again, though the rest of the frame never came.
"$memrude" "$tcp" half || fail "a data connection with half a frame was not ended"
wait_until 30 all_free

wait "$slow" || fail "a byte a second: $(cat "$tmp/slow.err")"
wait_until 30 resources_are "$before"
kill -0 "$server_pid" || fail "the server is gone"
