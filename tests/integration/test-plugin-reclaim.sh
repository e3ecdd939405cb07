#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A server whose host is short of memory asks for slabs. The volume moves some
# to another server, while it is written and verified. A volume without another
# server says so, and keeps them. How many are asked for depends here on how soon
# the loop below answers; unit/test-pressure and unit/test-reclaim count them.

# shellcheck source=tests/integration/own-meminfo.sh
. "$top_srcdir/tests/integration/own-meminfo.sh"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"

# field STATUS PYTHON: print an expression. s is the first server in that status
# document.
field ()
{
    farpage status --socket "$tmp/$1.status" --json | /usr/bin/python3 -c '
import json, sys
s = json.load(sys.stdin)["servers"][0]
print(eval(sys.argv[1]))' "$2"
}
# a_is PYTHON: succeed if this holds. s is what server a itself reports.
a_is ()
{
    farpage servers --json "$a" | /usr/bin/python3 -c '
import json, sys
s = json.load(sys.stdin)["servers"][0]
sys.exit(not eval(sys.argv[1]))' "$1"
}
is () { [ "$(field "$1" "$2")" = True ]; }

# Both servers see the same host, but only a reserves memory of it. Server a is
# larger, so that at first it gets nearly all extents.
start_memserver a --listen "unix:$tmp/a.usock" --size 64M --slab 1M --name a --reserve 64M \
    --hugepages off --lease 12
start_memserver b --listen "unix:$tmp/b.usock" --size 12M --slab 1M --name b --reserve 0 \
    --hugepages off --lease 12
a=$(grep -v ^unix: "$tmp/a.addr")
b=$(grep -v ^unix: "$tmp/b.addr")
start_nbdkit two "$FARPAGE_PLUGIN" "$a" "$b" size=8M stripe-width=1 transport=tcp \
    status="$tmp/two.status" "$MLOCK"
start_nbdkit alone "$FARPAGE_PLUGIN" "unix:$tmp/a.usock" size=4M transport=shm \
    status="$tmp/alone.status" "$MLOCK"

# Send random requests to both volumes until the file "enough" exists.
"$NBDSH" -c - >"$tmp/io.log" 2>&1 <<PYTHON &
import nbd, os, random
hs = []
for name, size in ("two", 8 << 20), ("alone", 4 << 20):
    h = nbd.NBD()
    h.connect_uri("nbd+unix:///?socket=$tmp/%s.sock" % name)
    data = bytearray(os.urandom(size))
    h.pwrite(data, 0)
    hs.append((h, data))
open("$tmp/written", "w").close()
while not os.path.exists("$tmp/enough"):
    for h, data in hs:
        # The first half stays cold.
        n = random.randrange(1, 200000)
        at = random.randrange(len(data) // 2, len(data) - n)
        if random.random() < 0.5:
            data[at:at + n] = os.urandom(n)
            h.pwrite(data[at:at + n], at)
        else:
            assert h.pread(n, at) == data[at:at + n], at
for h, data in hs:
    assert h.pread(len(data), 0) == data
PYTHON
io=$!
cleanup_fn kill -9 $io
wait_until 30 test -e "$tmp/written"
before=$(field two 's["extents"]')
[ "$before" -ge 6 ] || fail "$before extents are where all should be"

# The host lacks the memory that the server has. When the server has given back
# all free slabs, at least 4 MiB are still missing.
resident () { awk '/^RssShmem:/ { print int(($2 + 1023) / 1024) }' "/proc/$(cat "$tmp/a.pid")/status"; }
lent=$(farpage servers --json "$a" | /usr/bin/python3 -c '
import json, sys
print(json.load(sys.stdin)["servers"][0]["slabs_lent"])')
while :; do
    available $((60 + lent - $(resident)))
    sleep 0.02
done &
host=$!
cleanup_fn kill -9 $host
wait_until 30 is two 's["extents_reclaimed"] >= 1'
wait_until 60 a_is 'not s["pressed"] or s["slabs_wanted"] == 0 and s["slabs_lent"] <= '$((lent - 4))
wait_until 30 is two 's["slabs_wanted"] == 0'
kill_9 $host
wait_until 10 is two "s['extents'] == $before - s['extents_reclaimed']"

# Slabs are never taken by force.
wait_until 30 is alone 's["slabs_wanted"] == 0'
available 58
says_so ()
{
    farpage status --socket "$tmp/alone.status" | grep -q \
        'wants [1-9][0-9]* slabs back, which cannot be moved: the other servers have no room'
}
wait_until 30 says_so
is alone 's["extents"] == 4' || fail "extents are gone"
wait_until 30 grep -q 'slabs back, which cannot be moved' "$tmp/alone.log"
available 4096
wait_until 30 is alone 's["slabs_wanted"] == 0'
touch "$tmp/enough"
wait $io || { cat "$tmp/io.log"; fail "a request failed, or data is wrong"; }
