#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A volume with a name outlives its client. Its labelled slabs and its metadata
# on the servers stay until it is deleted.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

# says NAME TEXT: check that client NAME printed TEXT.
says () { grep -q -e "$2" "$tmp/$1.out" || fail "$1 does not say '$2': $(cat "$tmp/$1.out")"; }
# left ID: succeed if no client has this volume.
left () { "$memclient" "$unix" asks "lookup-id:$1" | grep -q attached=0; }

# Only the laboratory waits for a lease to end. There a client that does not run
# for ten seconds loses its session.
lease=600
if [ "${FARPAGE_LAB:-}" = yes ]; then lease=10; fi
serve $lease 1

# A client detached or was killed. Its volume stays for longer than the lease.
client "$tcp" maker name:vol open:1:c:tcp grant:3 label:1 fill:11 grant:2 \
    members:1:1 map:1:0-2 bye
hanging "$unix" dies name:other open:2:c:shm grant:2 label:1 fill:22 map:1:0-1
client "$tcp" asks lookup:other
says asks 'id=2 name=other .*slabs=2 ephemeral=0 attached=1 client=dies epoch=1 version=0'
kill -9 "$hanging_pid"
wait_until 10 left 2
# A volume without a name is gone by then.
gone () { ! "$memclient" "$unix" asks lookup-id:3 >"$tmp/gone.log" 2>&1; }
if [ $lease = 10 ]; then
    client "$tcp" nameless open:3:c:tcp grant:1 label:1
    wait_until 20 gone
fi
client "$tcp" asks lookup:vol lookup-id:2 fails:ENOENT lookup:nobody stat
says asks 'id=1 name=vol size=1099511627776 slab=1048576 copies=1 stripe=1x65536 slabs=3 .*attached=0 client=maker epoch=1 version=1 members=1'
says asks 'id=2 name=other .*slabs=2 .*attached=0 client=dies'
says asks 'session client=maker volume=vol slabs=3 attached=0'

# After a lease that ends in silence, the volume can be attached again.
if [ $lease = 10 ]; then client "$tcp" silent name:vol open:1:r:tcp wait-end; fi
client "$tcp" again name:vol open:1:r:tcp list:64 expect-slabs:3 check:11 \
    expect-map:0:7 bye
wait_until 20 "$memclient" "$unix" again2 name:other open:2:r:shm list:64 expect-slabs:2 check:22 \
    expect-map:0:3

# The list of members, and the map. A change is all or nothing.
client "$tcp" lists name:vol open:1:r:tcp members:7:64 members:7:64 \
    fails:EINVAL members:7:63 fails:EINVAL members:6:64 members:8:2 lookup:vol bye
says lists 'version=8 members=2'
client "$tcp" maps name:vol open:1:r:tcp map:1:100-127 expect-map:64:fffffff000000000 \
    fails:EINVAL map:1:1048575-1048576 expect-map:1048512:0 \
    map:1:1048575-1048575 expect-map:1048512:8000000000000000 map:0:100-127 \
    expect-map:64:0 map-write:64:f0 expect-map:64:f0 \
    fails:EINVAL map-write:1048576:1 expect-map:1048576:0 bye
client "$tcp" nameless open:4:ce:tcp fails:EINVAL members:1:1 \
    fails:EINVAL map:1:0-0 fails:EINVAL expect-map:0:0 bye

# A name has one volume, and a volume one name. Its size cannot change.
client "$tcp" second name:vol fails:EEXIST open:5:c:tcp fails:EEXIST open:5:cr:tcp
says second 'volume vol: this name has the UUID 02000000-'
client "$tcp" wrong name:other fails:EINVAL open:1:r:tcp name: fails:EINVAL open:1:r:tcp \
    name:vol fails:EINVAL open:1:re:tcp size:1048576 fails:EINVAL open:1:r:tcp
says wrong 'this volume has 1099511627776 bytes, not 1048576'
# Nor can its stripes.
client "$tcp" striped name:vol stripe:3x65536 fails:EINVAL open:1:r:tcp \
    stripe:1x131072 fails:EINVAL open:1:r:tcp stripe:1x65536 open:1:r:tcp bye
says striped 'this volume is striped over 1 extents by 65536 bytes, not over 3 by 65536'
says striped 'not over 1 by 131072'
client "$tcp" large name:large size:1099511627777 fails:EINVAL open:5:c:tcp
says large 'at most 1048576 extents'
long=$(printf 'n%.0s' {1..64})
client "$tcp" long "name:$long" open:6:c:tcp "lookup:$long" discard
for bad in 'a b' 'a/b' 'a"b' 'a\b' "$(printf 'a\1')"; do
    client "$tcp" bad "name:$bad" fails:EPROTO open:6:c:tcp
done

# A volume has one client at a time. A second client is told which one.
hanging "$tcp" first name:vol open:1:r:tcp
client "$tcp" refused name:vol fails:EBUSY open:1:r:tcp
says refused 'volume vol: held by first since 2'
kill -9 "$hanging_pid"
wait_until 10 left 1

# A client hung up without BYE. No other client gets the volume for some
# seconds.
free_again () { "$memclient" "$tcp" tries name:vol open:1:r:tcp bye >/dev/null 2>&1; }
wait_until 20 free_again

# DELETE refuses an attached volume, and says which client has it. Slabs of a
# deleted volume can be lent again, as zeros.
hanging "$unix" user name:vol open:1:r:shm
client "$tcp" deletes fails:EBUSY delete:1 delete:2 fails:ENOENT delete:2 \
    fails:ENOENT delete:9 fails:ENOENT lookup:other
says deletes 'volume vol: held by user since 2'
grep -q 'volume other: deleted by deletes: 2 slabs freed' "$tmp/m.log" || fail "no log of it"
kill -9 "$hanging_pid"
wait_until 10 left 1
client "$tcp" deletes2 delete:1 name:vol fails:ENOENT open:1:r:tcp
wait_until 30 all_free
client "$tcp" after open:7:ce:tcp grant:16 check:0 bye
# The client that created the volume discards it.
client "$tcp" maker name:vol open:1:c:tcp grant:3 label:1 fill:3 discard
wait_until 30 all_free

# Create more volumes than one message lists.
for ((i = 0; i < 60; i++)); do
    client "$tcp" many "name:many$i" "open:$i:c:tcp" bye
done
client "$tcp" lists volumes
says lists 'volumes=60 of 60'
says lists 'id=0 name=many0 .* attached=0 client=many'
says lists 'id=59 name=many59 '

# When the server stops, it says which data is lost.
client "$tcp" keeps name:kept open:77:c:tcp grant:2 label:1 bye
kill "$server_pid"
wait "$server_pid" || fail "exit status $?"
grep -q 'volume kept: this server forgets it, .* 2 slabs is lost' "$tmp/m.log" || fail "no warning"
