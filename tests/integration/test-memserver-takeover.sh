#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# OPEN with TAKEOVER: the former client loses the volume before the next one
# gets it. Its later writes have no effect, and it cannot attach again.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

old=11111111-2222-3333-4444-555555555555
new=66666666-2222-3333-4444-555555555555
taken () { grep -c "volume vol: taken over by .* from $1\$" "$tmp/m.log"; }
copies () { grep -c 'copied, as' "$tmp/m.log" || true; }
# as UUID ADDR NAME WORD...: run a client with this UUID.
as () { MEMCLIENT_UUID=$1 client "${@:2}"; }
# unharmed ADDR TRANSPORT: check that a takeover with wrong arguments is
# refused. That must happen before the present client loses anything.
unharmed ()
{
    client "$1" wrong name:vol size:1048576 fails:EINVAL "open:1:rt:$2"
    client "$1" wrong name:other fails:EINVAL "open:1:rt:$2"
    client "$1" wrong name:vol fails:EEXIST "open:1:ct:$2"
}

# The lease is so long that a client loses its volume only by a takeover.
serve 60 1

# polite UUID ADDR NAME WORD...: start a client that lets go when its session
# ends.
polite ()
{
    local uuid=$1 addr=$2
    name=$3
    shift 3
    MEMCLIENT_UUID=$uuid "$memclient" "$addr" "$name" "$@" </dev/null \
        >"$tmp/$name.out" 2>"$tmp/$name.err" &
    polite=$!
    cleanup_fn kill -9 $polite
    wait_until 30 grep -q hanging "$tmp/$name.out"
}
polite_ended () { wait $polite || fail "$name: $(cat "$tmp/$name.err")"; }

# Over tcp the session ends, and its keys with it.
polite $old "$tcp" old name:vol open:1:c:tcp grant:3 label:1 fill:9 hold wait-end stale
client "$tcp" nobody name:vol fails:EBUSY open:1:r:tcp
unharmed "$tcp" tcp
client "$tcp" asks lookup:vol
grep -q 'attached=1 client=old' "$tmp/asks.out" || fail "somebody took it"
# A client that takes over and then just leaves has still locked out the old
# one.
as $new "$tcp" new name:vol open:1:rt:tcp
[ "$(taken old)" = 1 ] || fail "it is not said who took it over"
polite_ended
grep -q 'old: session ends: its volume was taken over' "$tmp/m.log" || fail "no end"
wait_until 10 sh -c "'$memclient' $tcp asks lookup:vol | grep -q attached=0"
as $old "$tcp" back name:vol fails:EPERM open:1:r:tcp fails:EPERM open:1:rt:tcp
grep -q 'another client has attached it since (last: new)' "$tmp/back.out" || fail "the new client is not named"
# If the client that took over attaches again, that is no takeover.
as $new "$tcp" new name:vol open:1:rt:tcp list:64 expect-slabs:3 check:9 bye
as $new "$tcp" new name:vol open:1:r:tcp bye
[ "$(grep -c 'taken over by' "$tmp/m.log")" = 1 ] || fail "taken over from whom"

# Take over from a client that is writing, several times.
for i in 1 2 3 4 5; do
    polite "$(cat /proc/sys/kernel/random/uuid)" "$tcp" "storm$i" name:vol open:1:r:tcp \
        list:64 storm:7
    client "$tcp" "taker$i" name:vol open:1:rt:tcp list:64 expect-slabs:3 fill:$i \
        check:$i ping check:$i bye
    polite_ended
    client "$tcp" "checker$i" name:vol open:1:r:tcp list:64 check:$i bye
done

# Over shm, a client that hears the end of its session lets go. Then the
# takeover needs no wait and no copy.
client "$tcp" ends name:vol open:1:r:tcp discard
before=$(copies)
polite $old "$unix" polite name:vol open:1:c:shm grant:2 label:2 fill:8 hold wait-end
unharmed "$unix" shm
client "$unix" next name:vol open:1:rt:shm list:64 expect-slabs:2 check:8 bye
polite_ended
[ "$(copies)" = "$before" ] || fail "copied without need"

# A stopped client may wake up and trust its lease, so no other client gets the
# volume before the lease ends. Its keys are worthless at once. Its stores go to
# memory of its own.
stop "$server_pid"
serve 12 1
kinds=("$unix shm shm $old" "$unix shm tcp $new" "$tcp tcp tcp ${old//1/3}")
start=$SECONDS
for i in 0 1 2; do
    read -r addr transport _ uuid <<<"${kinds[i]}"
    words=(kept:9 scribble:7)
    [ "$transport" = shm ] || words=(stale)
    export MEMCLIENT_UUID=$uuid
    waiting "$addr" "asleep$i" "name:vol$i" "open:$i:c:$transport" grant:2 label:1 fill:9 \
        hold "${words[@]}"
    unset MEMCLIENT_UUID
done
for i in 0 1 2; do
    read -r addr _ transport _ <<<"${kinds[i]}"
    client "$addr" "early$i" "name:vol$i" fails:EBUSY "open:$i:rt:$transport" &
    early[i]=$!
done
for i in 0 1 2; do
    wait "${early[i]}" || fail "early$i"
    grep -q "asleep$i may not know yet" "$tmp/early$i.out" || fail "no reason"
done
go_on asleep2
for i in 2 1 0; do # each holds the fifos of the earlier ones open
    read -r addr _ transport uuid <<<"${kinds[i]}"
    wait_until 20 "$memclient" "$addr" "late$i" "name:vol$i" "open:$i:rt:$transport" list:64 \
        expect-slabs:2 check:9 fill:5 bye
    [ "$(grep -c "volume vol$i: taken over by .* from asleep$i\$" "$tmp/m.log")" = 1 ] ||
        fail "it is not said who took it over"
    MEMCLIENT_UUID=$uuid client "$addr" back "name:vol$i" fails:EPERM "open:$i:r:$transport"
    if [ $i != 2 ]; then
        [ $((SECONDS - start)) -ge 11 ] || fail "nobody waited for the lease"
        go_on "asleep$i"
    fi
    client "$addr" check "name:vol$i" "open:$i:r:$transport" list:64 check:5 discard
done
grep -q 'copied, as a client may' "$tmp/m.log" || fail "nothing was copied"
wait_until 30 all_free
