#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdkit is killed while it writes to a volume with two copies, and one server
# has only a part of those writes. The next client resyncs the ranges that were
# being written, which are a small part of the volume. Then both copies are
# alike, and right.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
mib=$((1 << 20))

for s in a b; do
    start_memserver $s --listen "unix:$tmp/$s.usock" --size 128M --slab 4M --reserve 0 \
                    --hugepages off
done

plugin () # NAME [ARG...]
{
    local name=$1
    shift
    # With this timeout, a stopped server is not given up before nbdkit is
    # killed.
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$MLOCK" timeout=60000 connections=2 volume=v \
                 transport=tcp server="unix:$tmp/a.usock" server="unix:$tmp/b.usock" \
                 status="$tmp/$name.status" "$@"
}
field () # NAME EXPRESSION: print it; v is the volume
{
    farpage status --socket "$tmp/$1.status" --json | /usr/bin/python3 -c '
import json, sys
v = json.load(sys.stdin)["volume"]
print(eval(sys.argv[1]))' "$2"
}
is () { [ "$(field "$1" "$2")" = True ]; }

plugin first size=64M copies=2
is first 'not v["unclean"] and v["resync_of_bytes"] == 0' || fail "$(field first v)"
"$NBDSH" -u "nbd+unix:///?socket=$tmp/first.sock" -c '
for i in range(64):
    h.pwrite(bytes([i + 1]) * (1 << 20), i << 20)'
# The dirty log marks what was written, which may have taken long. After a while
# without writes it marks nothing.
wait_until 60 is first 'v["bytes_marked"] > 0'
wait_until 60 is first 'v["bytes_marked"] == 0'

# Write in two places, and get the replies. Then stop one server, so that later
# writes reach only the other one.
cat >"$tmp/write.py" <<'END'
import os, time, nbd
mark = os.environ["mark"]
for i in range(8, 12):
    h.pwrite(b"\x80" * (1 << 20), i << 20)
h.pwrite(b"\x80" * 4096, 40 << 20)
open(mark + ".said", "w").close()
while not os.path.exists(mark + ".stopped"):
    time.sleep(0.01)
more = [nbd.Buffer.from_bytearray(bytearray(b"\x81" * (1 << 20))) for _ in range(4)]
for n, i in enumerate(range(8, 12)):
    h.aio_pwrite(more[n], i << 20)
small = nbd.Buffer.from_bytearray(bytearray(b"\x81" * 4096))
h.aio_pwrite(small, 40 << 20)
open(mark + ".sent", "w").close()
while True:
    h.poll(100)
END
mark=$tmp/w "$NBDSH" -u "nbd+unix:///?socket=$tmp/first.sock" -c - <"$tmp/write.py" \
    >"$tmp/write.log" 2>&1 &
writer=$!
wait_until 20 test -e "$tmp/w.said"
kill -STOP "$(cat "$tmp/b.pid")"
touch "$tmp/w.stopped"
wait_until 20 test -e "$tmp/w.sent"
sleep 0.5
kill_9 "$(cat "$tmp/first.pid")"
kill -CONT "$(cat "$tmp/b.pid")"
wait $writer || :

plugin second
wait_until 60 is second 'v["extents_degraded"] == 0'
field second '{k: x for k, x in v.items() if "resync" in k or k == "unclean"}'
farpage check "$tmp/second.status" >"$tmp/check" 2>&1 || fail "$(cat "$tmp/check")"
cat "$tmp/check"
grep -q ' 0 differ' "$tmp/check" || fail "$(cat "$tmp/check")"
"$NBDSH" -u "nbd+unix:///?socket=$tmp/second.sock" -c '
for i in range(64):
    got = h.pread(1 << 20, i << 20)
    if 8 <= i < 12:
        assert set(got) <= {0x80, 0x81}, (i, set(got))
    elif i == 40:
        assert set(got[:4096]) <= {0x80, 0x81} and set(got[4096:]) == {i + 1}, (i, set(got))
    else:
        assert set(got) == {i + 1}, (i, set(got))'

is second 'v["unclean"] and v["resync_of_bytes"] == 64 << 20' || fail "$(field second v)"
# 4 MiB and 4 KiB were being written, and a region is 64 KiB.
is second "4 * $mib <= v['resync_bytes'] <= 6 * $mib" || fail "$(field second v)"
farpage status --socket "$tmp/second.status" |
    grep -q 'attached .*after an unclean detach: copies could differ in .* of 64M' ||
    fail "$(farpage status --socket "$tmp/second.status")"
wait_until 20 grep -q 'did not detach cleanly: copies may differ in .* of 64M' "$tmp/second.log"
farpage exporter --once --socket "$tmp/second.status" |
    grep -q '^farpage_volume_resync_bytes{.*} [1-9]' || fail "no farpage_volume_resync_bytes"
stop "$(cat "$tmp/second.pid")"

# After a clean detach there is nothing to resync.
plugin third
is third 'not v["unclean"] and v["resync_of_bytes"] == 0' || fail "$(field third v)"
stop "$(cat "$tmp/third.pid")"
