#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All memory can be lent, taken back and lent again, over each transport. It is
# clean each time.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

serve 30 4
before=$(server_resources)
for round in 1 2 3; do
    client "$tcp" tcp$round open:1:ce:tcp grant-all expect-slabs:16 check:0 \
        fill:165 check:165 fails:ENOSPC grant:1 release \
        grant-all expect-slabs:16 check:0 fill:90 discard
    client "$unix" unix$round open:1:ce:tcp grant-all expect-slabs:16 check:0 \
        fill:165 bye
    client "$unix" shm$round open:1:ce:shm grant-all expect-slabs:16 check:0 \
        fill:165 release grant-all expect-slabs:16 check:0 fill:90 bye
done
wait_until 30 all_free
wait_until 30 resources_are "$before"

# The key of a released slab opens nothing. Nor does a wrong token, or one that
# was used before. The session and its data connection go on.
client "$tcp" stale open:2:ce:tcp grant:2 fill:1 release stale discard
for t in "$tcp" "$unix"; do
    client "$t" token open:3:ce:tcp grant:1 fill:3 fails:EACCES data:replay check:3 fails:EACCES data:token \
        fails:EACCES data:session fails:EACCES data:lane fails:EACCES data:other fails:EACCES data:old check:3 fill:4 \
        data:good fails:ECONNRESET fill:5 discard
done

# A WRITE on a connection that its client gave up has no effect.
client "$tcp" late open:2:ce:tcp grant:1 fill:0 late discard
client "$tcp" replaced open:2:ce:tcp grant:1 fill:2 replaced discard

# ZERO of small and large ranges, also in the middle of a slab.
for t in "$tcp tcp" "$unix shm"; do
    # shellcheck disable=SC2086
    set -- $t
    client "$1" "zero-$2" "open:4:ce:$2" grant:1 fill:7 zero:4097:1000 \
        check-zeroed:4097:1000:7 fill:7 zero:100:1048000 \
        check-zeroed:100:1048000:7 zero:0:1048576 check-zeroed:0:1048576:7 \
        zero:1:4194303 check-zeroed:1:4194303:0 fails:EINVAL zero:1:4194304 discard
done

# Requests that must fail.
client "$tcp" noshm fails:EOPNOTSUPP open:5:c:shm ping
client "$tcp" resume fails:ENOENT open:5:r:tcp ping
client "$tcp" grant fails:EPROTO grant:1
