#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A client's session broke, and the server has not noticed. The same client is
# let in again at once, and its former session ends before that. No other client
# is let in. If another client has written the volume meanwhile, the former
# client is refused.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

serve 600 1
me=01234567-89ab-cdef-0123-000000000001

# Over shm the server cannot stop stores of a former session. Its client must.
for how in "$tcp tcp" "$unix tcp" "$unix shm"; do
    read -r addr transport <<<"$how"
    last=(wait-end)
    [ "$transport" = shm ] || last=(fails:ECONNRESET fill:7)
    rm -f "$tmp/fifo" "$tmp/former.out"
    mkfifo "$tmp/fifo"
    MEMCLIENT_UUID=$me "$memclient" "$addr" former "open:1:c:$transport" grant:3 \
        fill:9 label:1 grant:1 hold "${last[@]}" <"$tmp/fifo" >"$tmp/former.out" 2>&1 &
    former=$!
    cleanup_fn kill -9 $former
    exec 7>"$tmp/fifo"
    wait_until 30 grep -q hanging "$tmp/former.out"

    client "$addr" stranger fails:EBUSY "open:1:r:$transport"
    MEMCLIENT_UUID=$me client "$addr" again "open:1:r:$transport" list:64 \
        expect-slabs:3 check:9 fill:5 bye
    exec 7>&-
    wait $former || fail "the former session: $(cat "$tmp/former.out")"
    client "$addr" last "open:1:r:$transport" list:64 expect-slabs:3 check:5 discard
    wait_until 30 all_free
done

# A client that comes back must not take another client's data for its own.
MEMCLIENT_UUID=$me client "$tcp" first open:2:c:tcp grant:2 label:1 fill:9 bye
client "$tcp" looks open:2:r:tcp bye
MEMCLIENT_UUID=$me client "$tcp" back open:2:r:tcp list:64 expect-slabs:2 check:9 bye
client "$tcp" second open:2:r:tcp list:64 grant:1 label:2 fill:5 bye
MEMCLIENT_UUID=$me client "$tcp" late fails:EPERM open:2:r:tcp
client "$tcp" third open:2:r:tcp list:64 expect-slabs:3 check:5 discard
