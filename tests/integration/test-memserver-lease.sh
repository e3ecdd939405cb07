#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# If a client dies, its labelled slabs are kept for the lease, and nothing else
# is. A volume has one client at a time.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

# The lease is longer than a client takes to fill all memory on a busy machine.
serve 4 1
before=$(server_resources)

# Kill a client that holds all slabs, ten times. Each time all slabs can be lent
# again.
for i in 0 1 2 3 4 5 6 7 8 9; do
    addr=$tcp transport=tcp
    [ $((i % 2)) = 0 ] || { addr=$unix; transport=shm; }
    hanging "$addr" "killed$i" "open:$i:c:$transport" grant-all \
        expect-slabs:16 check:0 fill:77 label:1
    kill -9 "$hanging_pid"
    wait_until 30 all_free
done
wait_until 30 resources_are "$before"

# A client that was only asleep finds its data when it wakes up, not zeros.
holding "$unix" sleeper 9
wait_until 30 all_free
kept sleeper

# A second client is refused, and told which client has the volume.
stop "$server_pid"
serve 20 1
hanging "$tcp" first open:1:c:tcp grant:5 fill:33 label:3 grant:2
client "$tcp" second fails:EBUSY open:1:r:tcp
grep -q 'held by first since 2' "$tmp/second.out" ||
    fail "BUSY does not say by whom"

# After a kill the volume can be attached again. Five slabs are labelled, and
# have their data. The other two went back.
kill -9 "$hanging_pid"
wait_until 10 "$memclient" "$tcp" third open:1:r:tcp list:2 expect-slabs:5 \
    check:33 bye
client "$tcp" fourth fails:EEXIST open:1:c:tcp open:1:cr:tcp list:64 \
    expect-slabs:5 check:33 discard
wait_until 30 all_free
client "$tcp" fifth fails:ENOENT open:1:r:tcp ping

# If a connection is reset, its client may not know yet. It may still answer
# reads of data that it never wrote. So no other client gets the volume until
# the first one must know.
MEMCLIENT_UUID=8e8c0b8f-71f9-4c1b-9d2f-6b7d4c0a5e11
export MEMCLIENT_UUID
client "$tcp" cut open:1:c:tcp grant:1 fill:5 label:1 reset
(unset MEMCLIENT_UUID; client "$tcp" other fails:EBUSY open:1:r:tcp)
grep -q 'cut may not know yet that it has lost it' "$tmp/other.out" || { cat "$tmp/other.out"; fail "not fenced"; }
client "$tcp" cut open:1:r:tcp list:2 expect-slabs:1 check:5 discard
unset MEMCLIENT_UUID
wait_until 30 all_free

# LIST in pages, also over shm and in a later session.
client "$unix" sixth open:2:c:shm grant:16 fill:44 label:1 bye
client "$unix" seventh open:2:r:shm list:3 expect-slabs:16 check:44 label:2 bye
client "$tcp" eighth open:2:r:tcp list:5 expect-slabs:16 check:44 discard
wait_until 30 all_free

# An ephemeral volume is gone at BYE.
client "$tcp" ninth open:3:ce:tcp grant:2 fill:1 label:1 bye
client "$tcp" tenth fails:ENOENT open:3:r:tcp ping
wait_until 30 all_free
