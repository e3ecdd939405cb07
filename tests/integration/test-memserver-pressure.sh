#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A host short of memory gets memory back from the server. Free slabs go at
# once, lent slabs when clients let go of them. Nothing is taken by force. The
# test has a mount namespace of its own, where it writes /proc/meminfo.

# shellcheck source=tests/integration/own-meminfo.sh
. "$top_srcdir/tests/integration/own-meminfo.sh"
# shellcheck source=tests/integration/memserver.sh
. "$top_srcdir/tests/integration/memserver.sh"

stat_says () { server_stat | grep -q "$1"; }
# until_stat TEXT: wait until STAT says TEXT.
until_stat ()
{
    wait_until 30 stat_says "$1"
}
# Print how many KiB of the server's slabs are in RAM.
present () { awk '/^RssShmem:/ { print $2 }' "/proc/$server_pid/status"; }
log_has () { grep -q "$1" "$tmp/m.log" || fail "the log does not say: $1"; }

# The margin, an eighth of the reserve, is 8 MiB.
reserve=64M
serve 60 1
waiting "$unix" small open:2:c:shm grant:2 label:1 fill:22 hold wait-wanted:2 check:22 discard
waiting "$tcp" large open:1:c:tcp grant:4 label:1 fill:11 hold wait-wanted:2 check:11 release
stat_says 'free=10 lent=6 .* pressed=0 wanted=0 returned=0' || fail "$(server_stat)"
[ "$(present)" -ge $((16 * 1024)) ] || fail "not populated"

# Free slabs go back. That is not enough, so lent slabs are asked for, and stay.
available 62
until_stat 'free=0 lent=6 scrubbing=0 unpopulated=10 pressed=1 wanted=2 returned=10'
[ "$(present)" -le $((7 * 1024)) ] || fail "$(present) KiB are there"
client "$tcp" refused open:3:c:tcp fails:ENOSPC grant:1
grep -q 'spare no memory' "$tmp/refused.out" || fail "$(cat "$tmp/refused.out")"
log_has 'this host is short of memory: 62 MiB available, and 64 MiB are reserved'
log_has 'asked to move 2 slabs'
farpage servers "$tcp" | grep -q 'PRESSED.* wants 2 slabs back' || fail "servers"
farpage servers --json "$tcp" >"$tmp/json"
for fact in '"pressed":true' '"slabs_wanted":2' '"slabs_returned":10'; do
    grep -q "$fact" "$tmp/json" || fail "no $fact: $(cat "$tmp/json")"
done

# One client moved its extents away. Its slabs go back to the host without
# scrubbing. The other client has nowhere to move, and keeps its slabs.
go_on large
until_stat 'free=0 lent=2 scrubbing=0 unpopulated=14 pressed=1 wanted=2 returned=14'
[ "$(present)" -le $((3 * 1024)) ] || fail "$(present) KiB are there"
go_on small
available 70
until_stat 'lent=0 .* pressed=1 wanted=0 returned=16'

# With the margin available, too, the server lends again, and all slabs are
# clean.
available 72
until_stat 'pressed=0'
log_has 'this host has memory again'
stat_says 'free=0 ' || fail "populated beyond the margin: $(server_stat)"
client "$tcp" refused open:4:c:tcp fails:ENOSPC grant:1
available 4096
wait_until 30 all_free
client "$tcp" again open:5:ce:tcp grant:16 check:0 bye

if [ $psi = yes ]; then
    available 100
    wait_until 30 all_free
    total=0
    waits ()
    {
        stalled $((total += 400000))
        stat_says 'pressed=1'
    }
    wait_until 30 waits
    log_has 'tasks wait for memory'
fi

# Volumes that a client left go before other clients are asked.
stop "$server_pid"
available 4096
stalled 0
orphan_time=600 serve 1 1
client "$tcp" gone open:1:c:tcp grant:4 label:1 fill:11 reset
wait_until 30 "$memclient" "$tcp" other fails:ENOENT lookup-id:1
stat_says 'free=12 lent=4 ' || fail "$(server_stat)"
available 62
until_stat 'free=0 lent=0 scrubbing=0 unpopulated=16 pressed=1 wanted=0 returned=16'
log_has 'gone did not come back, and its memory is needed: 4 slabs freed'
! grep -q 'asked to move' "$tmp/m.log" || fail "clients were asked"
