#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# farpage check finds a byte that was changed behind the server's back, says
# where, and repairs it. It finds no false difference, even while fio writes. It
# works over shm and tcp, and says what it cannot do.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"

# expect STATUS TEXT ARG...: run 'farpage check ARG...', and check its exit
# status and output.
expect ()
{
    local wanted=$1 text=$2 status=0
    shift 2
    timeout 300 farpage check "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
    [ $status = "$wanted" ] ||
        fail "check $*: exit $status, not $wanted: $(cat "$tmp/out" "$tmp/err")"
    grep -qE -- "$text" "$tmp/out" "$tmp/err" ||
        fail "check $*: no '$text' in: $(cat "$tmp/out" "$tmp/err")"
}

# field EXPRESSION: print its value. d is the status document, c its check.
field ()
{
    farpage status --socket "$tmp/status" --json | /usr/bin/python3 -c '
import json, sys
d = json.load(sys.stdin)
c = d["check"]
print(eval(sys.argv[1]))' "$1"
}

is () { [ "$(field "$1")" = "$2" ]; }

# corrupt NAME BYTES: flip a bit where BYTES first occur in the memory that NAME
# lends. Its slabs are memfds.
corrupt ()
{
    /usr/bin/python3 - "$(cat "$tmp/$1.pid")" "$2" <<'END'
import mmap, os, sys
where, wanted = "/proc/%s/fd" % sys.argv[1], sys.argv[2].encode()
for fd in os.listdir(where):
    path = os.path.join(where, fd)
    try:
        if "memfd:" not in os.readlink(path):
            continue
        with open(path, "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
            at = m.find(wanted)
            if at >= 0:
                m[at] ^= 1
                sys.exit(0)
    except (OSError, ValueError):
        continue
sys.exit("not found")
END
}

requires test -r /proc/self/fd
for name in a b; do
    start_memserver $name --listen "unix:$tmp/$name.usock" --size 64M --slab 1M --reserve 0
done

for transport in shm tcp; do
    n=v$transport
    start_nbdkit $n "$FARPAGE_PLUGIN" "$MLOCK" connections=2 volume=$n size=20M copies=2 \
        server="unix:$tmp/a.usock" server="unix:$tmp/b.usock" transport=$transport \
        status="$tmp/status"
    uri="nbd+unix:///?socket=$tmp/$n.sock"
    expect 0 '^0 blocks compared, 0 differ$' "$tmp/status"

    # Write 5 MiB, and a known text in them.
    "$NBDSH" -u "$uri" -c '
h.pwrite(bytes(range(1, 251)) * 20972, 0)
h.pwrite(b"here it is, of '$transport'", 3210000)'
    expect 0 '^81 blocks compared, 0 differ$' "$tmp/status"
    grep -q . "$tmp/err" && fail "$(cat "$tmp/err")"
    for name in a b; do
        corrupt $name "here it is, of $transport"
        expect 3 '^81 blocks compared, 1 differ \(first at 3210000\)$' "$tmp/status"
        expect 0 '^81 blocks compared, 1 differ \(first at 3210000\), 1 repaired$' \
            --repair "$tmp/status"
        expect 0 '^81 blocks compared, 0 differ$' "$tmp/status"
        "$NBDSH" -u "$uri" -c 'h.pwrite(b"here it is, of '$transport'", 3210000)'
    done
    corrupt a "here it is, of $transport"
    expect 3 '"blocks_differ": ?1,' --json "$tmp/status"
    /usr/bin/python3 - "$tmp/out" <<'END'
import json, sys
c = json.load(open(sys.argv[1]))["check"]
assert c["state"] == "done" and c["offsets"] == [3210000], c
END
    farpage status --socket "$tmp/status" | grep -q \
        '^  check          done: 81 of 81 blocks compared, 1 differ (first at 3210000), 0 repaired$' ||
        fail "$(farpage status --socket "$tmp/status")"
    page=$(farpage exporter --once --socket "$tmp/status")
    grep -q "^farpage_volume_check_differing_blocks_total{.*} 5\$" <<<"$page" ||
        fail "$page"
    grep -q "^farpage_volume_check_repaired_blocks_total{.*} 2\$" <<<"$page" ||
        fail "$page"
    wait_until 20 grep -q "check: 81 blocks compared, 1 differ" "$tmp/$n.log"
    expect 0 '1 repaired' --repair "$tmp/status"

    # Check while another client writes.
    if fio --enghelp=nbd >/dev/null 2>&1; then
        fio --name=w --ioengine=nbd --uri="$uri" --rw=randwrite --bsrange=4k-64k --size=16M \
            --iodepth=16 --time_based --runtime=600 --output="$tmp/fio.log" &
        load=$!
    else
        timeout 600 "$NBDSH" -u "$uri" -c '
import random
while True:
    n = 4096 * random.randint(1, 16)
    h.pwrite(bytes([random.randint(0, 255)]) * n, 4096 * random.randint(0, 4000))' &
        load=$!
    fi
    cleanup_fn kill -9 $load
    times=0
    while ((times < 3)); do
        before=$(field 'd["volume"]["writes"]')
        expect 0 '^[0-9]+ blocks compared, 0 differ$' "$tmp/status"
        kill -0 $load || fail "the load has ended"
        after=$(field 'd["volume"]["writes"]')
        times=$((times + (after > before)))
    done
    kill $load || fail "the load has ended"
    wait $load || :

    # A second check at the same time is refused. A signal cancels the first
    # one.
    farpage check --rate 64K "$tmp/status" >"$tmp/first.out" 2>"$tmp/first.err" &
    first=$!
    wait_until 20 is 'c["state"]' running
    expect 1 'is already running' "$tmp/status"
    kill -TERM $first
    status=0
    wait $first || status=$?
    [ $status = 1 ] || fail "cancelled: exit $status"
    grep -q 'cancelled' "$tmp/first.err" || fail "$(cat "$tmp/first.err")"
    [ "$(field 'c["state"]')" = cancelled ] || fail "$(field c)"

    # nbdkit ends without waiting for the end of a check.
    farpage check --rate 64K "$tmp/status" >"$tmp/first.out" 2>"$tmp/first.err" &
    first=$!
    wait_until 20 is 'c["state"]' running
    stop "$(cat "$tmp/$n.pid")"
    status=0
    wait $first || status=$?
    [ $status = 1 ] || fail "its nbdkit was stopped: exit $status"
done

# This check takes minutes. If a server dies during it, the check ends and says
# how much it skipped.
start_nbdkit d "$FARPAGE_PLUGIN" "$MLOCK" volume=vtcp \
    server="unix:$tmp/a.usock" server="unix:$tmp/b.usock" status="$tmp/status"
farpage check --rate 64K "$tmp/status" >"$tmp/first.out" 2>"$tmp/first.err" &
first=$!
wait_until 20 is 'c["blocks_compared"] > 0' True
kill_9 "$(cat "$tmp/b.pid")"
status=0
wait $first || status=$?
[ $status = 1 ] || fail "a server died: exit $status: $(cat "$tmp/first.out" "$tmp/first.err")"
grep -q 'not all could be compared' "$tmp/first.err" || fail "$(cat "$tmp/first.err")"
stop "$(cat "$tmp/d.pid")"

# With one copy there is nothing to compare.
start_nbdkit one "$FARPAGE_PLUGIN" "$MLOCK" server="unix:$tmp/a.usock" size=4M \
    status="$tmp/status"
expect 1 'one copy of each extent' "$tmp/status"
