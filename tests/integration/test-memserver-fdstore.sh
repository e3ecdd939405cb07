#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# --backing fdstore: systemd keeps the memory of a memory server that restarts.
# The server then has its slabs and volumes, also over shm. Memory that a former
# client may still have mapped is given to no other client as it is.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

server=$(type -P farpage-memserver)
refuses () # ARG...
{
    if timeout 60 "$server" --listen "unix:$tmp/none" --backing fdstore: "$@" 2>"$tmp/err"
    then fail "it started: $*"; fi
}
refuses --size 16M --slab 1M
grep -q 'NOTIFY_SOCKET is not set' "$tmp/err" || fail "no service manager: $(cat "$tmp/err")"
refuses --size 4097M --slab 1M --reserve 0 --hugepages off
grep -q '4097 slabs are too many, 4096 is the limit' "$tmp/err" || grep -q 'does not fit' "$tmp/err" ||
    fail "too many slabs: $(cat "$tmp/err")"

store () { python3 "$top_srcdir/tests/integration/fdstore.py" "$1" "$tmp" "${@:2}"; }
python3 "$top_srcdir/tests/integration/fdstore.py" keep "$tmp" 2>"$tmp/store.log" &
cleanup_fn kill -9 $!
wait_until 10 test -S "$tmp/keeper"

# start_memserver runs this function in the background, in place of the program.
farpage-memserver ()
{
    exec python3 "$top_srcdir/tests/integration/fdstore.py" start "$tmp" "$server" "$@"
}
# again: start the server as before, with $lease.
again ()
{
    rm -f "$tmp/m.addr"
    start_memserver m --listen "unix:$tmp/m.sock" --size 16M --slab 1M --reserve 0 \
        --hugepages off --backing fdstore: --lease "${lease:-30}" --orphan-time 0
    tcp=$(head -n1 "$tmp/m.addr")
    unix=unix:$tmp/m.sock
    server_pid=$(cat "$tmp/m.pid")
}
settled () { server_stat | grep -q "^total=16 free=$1 lent=$((16 - $1)) "; }
# kept_are NUMBER: succeed if so many descriptors are kept.
kept_are () { [ "$(store names | wc -l)" = "$1" ]; }
refused () # TEXT
{
    local names
    names=$(store names)
    status=0
    timeout 60 python3 "$top_srcdir/tests/integration/fdstore.py" start "$tmp" "$server" \
        --size 16M --slab 1M --listen "unix:$tmp/none" --reserve 0 --backing fdstore: \
        2>"$tmp/err" || status=$?
    [ $status = 1 ] || fail "$1: exit status $status"
    grep -q -e "$1" "$tmp/err" || fail "not '$1': $(cat "$tmp/err")"
    [ "$names" = "$(store names)" ] || fail "refused, and yet changed: $1"
}
old=01234567-89ab-cdef-0123-456789abcdef
new=11234567-89ab-cdef-0123-456789abcdef
as () { MEMCLIENT_UUID=$1 client "${@:2}"; }

again
wait_until 30 settled 16
kept_are 17 || fail "kept: $(store names)"
client "$unix" maker name:vol open:1:c:shm grant:3 label:7 fill:11 grant:2 members:3:2 \
    map:1:0-2 bye
client "$tcp" other name:other open:2:c:tcp grant:3 label:7 fill:12 bye
kill_9 "$server_pid"

# ---- what a restart finds, and what is refused ----

again
grep -q 'volume vol: found again, with 3 slabs' "$tmp/m.log" || fail "vol was not found again"
client "$unix" back name:vol open:1:r:shm list:64 expect-slabs:3 check:11 expect-map:0:7 bye
client "$tcp" back name:other open:2:r:tcp list:64 expect-slabs:3 check:12 \
    release grant:1 label:8 fill:13 bye
wait_until 30 settled 12
kill_9 "$server_pid"
again
client "$unix" back name:other open:2:r:shm list:64 expect-slabs:1 check:13 bye
client "$tcp" back name:vol open:1:r:tcp list:64 expect-slabs:3 check:11 bye
stop "$server_pid"
again
for id in 1 2; do client "$tcp" deletes delete:$id; done
client "$tcp" clean open:7:ce:tcp grant-all check:0 discard
wait_until 30 settled 16
kept_are 17 || fail "kept: $(store names)"
client "$unix" last name:last open:3:c:shm grant:1 label:1 fill:14 bye
kill_9 "$server_pid"
for name in $(store names | grep slab-); do store drop "$name"; done
refused 'slab-.* it is in use, but cannot be opened'
store drop state
refused 'and no state'
for name in $(store names); do store drop "$name"; done
# If systemd has no room, it drops what was stored last: the volumes.
again
client "$unix" last name:last open:3:c:shm grant:3 label:1 fill:14 bye
kill_9 "$server_pid"
volume=$(store names | grep volume-)
store drop "$volume"
refused "$volume: it is missing, but slab [0-9]* holds an extent of it; nothing was changed"
for name in $(store names); do store drop "$name"; done

# ---- clients that may still have memory mapped ----

# A client that was stopped during the restarts may store into its mapped memory
# at any later time. That must not reach another client's data. If the same
# client attaches again, its data is there.
lease=10 # longer than refused clients take on a busy machine
again
wait_until 30 settled 16
export MEMCLIENT_UUID=$old
client "$tcp" maker name:vol open:1:c:tcp grant:3 label:1 fill:9 bye
waiting "$unix" asleep name:vol open:1:r:shm list:64 expect-slabs:3 hold scribble:7
waiting "$unix" asleep2 name:vol2 open:2:c:shm grant:3 label:1 fill:9 hold scribble:7
unset MEMCLIENT_UUID
for i in 1 2; do
    kill_9 "$server_pid"
    again
done
as $old "$unix" same name:vol2 open:2:r:shm list:64 expect-slabs:3 check:9 discard
for transport in shm tcp; do
    client "$unix" early name:vol fails:EBUSY "open:1:rt:$transport"
    grep -q 'asleep may not know yet' "$tmp/early.out" || fail "no reason"
done
let_in ()
{
    MEMCLIENT_UUID=$new timeout 60 "$memclient" "$unix" new name:vol open:1:rt:shm list:64 \
        expect-slabs:3 check:9 fill:5 >"$tmp/new.out" 2>&1
}
wait_until 30 let_in
[ "$(grep -c 'copied, as a client may' "$tmp/m.log")" = 3 ] || fail "they were not copied"
kill_9 "$server_pid"
again
go_on asleep2 # which holds the fifo of the first one open
go_on asleep
as $new "$unix" new name:vol open:1:r:shm list:64 expect-slabs:3 check:5 bye
kill_9 "$server_pid"
again
as $old "$unix" asleep name:vol fails:EPERM open:1:r:shm
as $new "$tcp" new name:vol open:1:r:tcp list:64 expect-slabs:3 check:5 discard
wait_until 30 settled 16
kept_are 17 || fail "kept: $(store names)"

# ---- killed at any time ----

lease=30
stop "$server_pid"
again
rounds=${ROUNDS:-8}
seed=${SEED:-$RANDOM}
echo "seed=$seed rounds=$rounds"
RANDOM=$seed
export MEMCLIENT_UUID=$old
client "$unix" base name:base open:0:c:shm grant:2 label:1 fill:99 map:1:0-1 bye
for ((i = 1; i <= rounds; i++)); do
    "$memclient" "$unix" first name:first open:1:c:shm grant:3 label:5 fill:21 \
        map:1:0-2 bye >"$tmp/first.out" 2>&1 &
    first=$!
    "$memclient" "$unix" dirty open:3:c:shm grant:2 fill:66 label:1 release grant:2 fill:67 \
        hang >"$tmp/dirty.out" 2>&1 &
    dirty=$!
    sleep "0.0$((RANDOM % 60 + 10))"
    kill_9 "$server_pid"
    first_done=yes
    wait $first || first_done=no
    kill -9 $dirty 2>/dev/null || :
    wait $dirty 2>/dev/null || :
    again
    client "$unix" base name:base open:0:r:shm list:64 expect-slabs:2 check:99 expect-map:0:3 bye
    if [ $first_done = yes ]; then
        client "$unix" check name:first open:1:r:shm list:64 expect-slabs:3 check:21 \
            expect-map:0:7 bye
    fi
    "$memclient" "$tcp" deletes delete:1 >"$tmp/deletes.out" 2>&1 ||
        grep -q 'No such' "$tmp/deletes.out" || fail "$(cat "$tmp/deletes.out")"
    if "$memclient" "$unix" dirty open:3:r:shm discard >"$tmp/dirty.out" 2>&1; then :; fi
    wait_until 30 settled 14
    client "$tcp" clean open:4:ce:tcp grant:14 check:0 bye
    wait_until 30 settled 14
done
kept_are 18 || fail "kept: $(store names)"
stop "$server_pid"
if [ -s "$tmp/store.log" ]; then fail "$(cat "$tmp/store.log")"; fi
