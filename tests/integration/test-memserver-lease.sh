#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A client that dies keeps what it labelled for the lease, and nothing else; a
# volume has one client.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

# The lease is longer than a client takes to fill all memory on a busy machine.
serve 4 1
before=$(server_resources)

# Killed with everything in its hands, ten times: all of it can be lent.
for i in 0 1 2 3 4 5 6 7 8 9; do
    addr=$tcp transport=tcp
    [ $((i % 2)) = 0 ] || { addr=$unix; transport=shm; }
    hanging "$addr" "killed$i" "open:$i:c:$transport" grant-all \
        expect-slabs:16 check:0 fill:77 label:1
    kill -9 "$hanging_pid"
    wait_until 30 all_free
done
wait_until 30 resources_are "$before"

# One that is only asleep wakes up to what it had, not to zeros.
holding "$unix" sleeper 9
wait_until 30 all_free
kept sleeper

# A second client is refused, and told who has it.
stop "$server_pid"
serve 20 1
hanging "$tcp" first open:1:c:tcp grant:5 fill:33 label:3 grant:2
client "$tcp" second fails:EBUSY open:1:r:tcp
grep -q 'held by first since 2' "$tmp/second.out" ||
    fail "BUSY does not say by whom"

# Killed, it comes back: five slabs are labelled, and hold what they held; two
# were not and went back.
kill -9 "$hanging_pid"
wait_until 10 "$memclient" "$tcp" third open:1:r:tcp list:2 expect-slabs:5 \
    check:33 bye
client "$tcp" fourth fails:EEXIST open:1:c:tcp open:1:cr:tcp list:64 \
    expect-slabs:5 check:33 discard
wait_until 30 all_free
client "$tcp" fifth fails:ENOENT open:1:r:tcp ping

# A connection that was reset, by whomever: its client may not have heard of
# that, and answer by itself what it never wrote. Nobody else has the volume
# until it must have heard.
MEMCLIENT_UUID=8e8c0b8f-71f9-4c1b-9d2f-6b7d4c0a5e11
export MEMCLIENT_UUID
client "$tcp" cut open:1:c:tcp grant:1 fill:5 label:1 reset
(unset MEMCLIENT_UUID; client "$tcp" other fails:EBUSY open:1:r:tcp)
grep -q 'cut may not know yet that it has lost it' "$tmp/other.out" || { cat "$tmp/other.out"; fail "not fenced"; }
client "$tcp" cut open:1:r:tcp list:2 expect-slabs:1 check:5 discard
unset MEMCLIENT_UUID
wait_until 30 all_free

# LIST in pages, over shm, in the next session as well.
client "$unix" sixth open:2:c:shm grant:16 fill:44 label:1 bye
client "$unix" seventh open:2:r:shm list:3 expect-slabs:16 check:44 label:2 bye
client "$tcp" eighth open:2:r:tcp list:5 expect-slabs:16 check:44 discard
wait_until 30 all_free

# An ephemeral volume is gone at BYE.
client "$tcp" ninth open:3:ce:tcp grant:2 fill:1 label:1 bye
client "$tcp" tenth fails:ENOENT open:3:r:tcp ping
wait_until 30 all_free
