#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A server is drained, by command and when it is told to stop. Its clients move
# all they have there to two other servers, while they are written and verified.
# Then it is started again, empty, and they use it without a command.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"

# server NAME [OPTION]...: start it.
server ()
{
    local name=$1
    shift
    start_memserver "$name" --size 24M --slab 1M --hugepages off --lease 12 --drain 1h "$@" \
        --listen "unix:$tmp/$name.usock"
}
# is PYTHON COMMAND [ARG]...: succeed if this holds of the JSON that the command
# prints, which is d.
is ()
{
    local test=$1
    shift
    "$@" | /usr/bin/python3 -c '
import json, sys
d = json.load(sys.stdin)
sys.exit(not eval(sys.argv[1]))' "$test"
}
# volume NAME PYTHON: the same of a volume's status.
volume () { is "$2" farpage status --socket "$tmp/$1.status" --json; }
gone () { ! kill -0 "$1" 2>/dev/null; }

for s in a b c; do server $s; done
a=unix:$tmp/a.usock b=unix:$tmp/b.usock c=unix:$tmp/c.usock
start_nbdkit one "$FARPAGE_PLUGIN" "$a" "$b" "$c" size=6M stripe-width=1 transport=tcp \
    status="$tmp/one.status" "$MLOCK"
start_nbdkit two "$FARPAGE_PLUGIN" "$a" "$b" "$c" size=6M copies=2 stripe-width=1 transport=tcp \
    status="$tmp/two.status" "$MLOCK"
start_nbdkit alone "$FARPAGE_PLUGIN" "$a" size=2M transport=tcp status="$tmp/alone.status" "$MLOCK"
"$NBDSH" -u "nbd+unix:///?socket=$tmp/alone.sock" -c 'h.pwrite(b"x" * (2 << 20), 0)'

# Send random requests to both volumes until the file "enough" exists.
"$NBDSH" -c - >"$tmp/io.log" 2>&1 <<PYTHON &
import nbd, os, random
hs = []
for name in "one", "two":
    h = nbd.NBD()
    h.connect_uri("nbd+unix:///?socket=$tmp/%s.sock" % name)
    data = bytearray(os.urandom(h.get_size()))
    h.pwrite(data, 0)
    hs.append((h, data))
open("$tmp/written", "w").close()
while not os.path.exists("$tmp/enough"):
    for h, data in hs:
        n = random.randrange(1, 200000)
        at = random.randrange(len(data) - n)
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

# A volume that has only this server keeps its slabs, and the command says so.
status=0
farpage servers drain "$a" >"$tmp/out" 2>&1 || status=$?
[ $status = 1 ] || fail "exit $status: $(cat "$tmp/out")"
grep -q '2 slabs have no room on other servers' "$tmp/out" || fail "$(cat "$tmp/out")"
for v in one two; do
    volume $v "d['servers'][0]['extents'] == 0 and d['servers'][0]['server_draining']" || fail "$v"
done
volume alone "d['servers'][0]['extents'] == 2" || fail "the volume lost its only slabs"
farpage status --socket "$tmp/alone.status" | grep -q 'it is being drained: wants 2 slabs back, which' ||
    fail "$(farpage status --socket "$tmp/alone.status")"
farpage servers "$a" >"$tmp/out"
grep -q 'DRAINING: .*, 2 without room on other servers, 0 of' "$tmp/out" || fail "$(cat "$tmp/out")"
start_nbdkit new "$FARPAGE_PLUGIN" "$a" "$b" size=4M stripe-width=1 transport=tcp \
    status="$tmp/new.status" "$MLOCK"
"$NBDSH" -u "nbd+unix:///?socket=$tmp/new.sock" -c 'h.pwrite(b"x" * (4 << 20), 0)'
volume new "[s['extents'] for s in d['servers']] == [0, 4]" || fail "a drained server lent memory"

# It lends again after --cancel.
farpage servers drain --cancel "$a" | grep -q 'it lends again' || fail "cancel"
is "not d['servers'][0]['draining']" farpage servers --json "$a" || fail "still draining"
wait_until 30 volume alone "not d['servers'][0]['server_draining'] and d['servers'][0]['slabs_wanted'] == 0"

# Without that volume nothing stays.
stop "$(cat "$tmp/alone.pid")"
farpage servers drain --json "$a" >"$tmp/out" || fail "drain: $(cat "$tmp/out")"
is "d['draining'] and d['slabs_left'] == 0 and d['slabs_not_attached'] == 0" cat "$tmp/out" ||
    fail "$(cat "$tmp/out")"

# Told to stop, b waits until the clients have moved all to a and c, and ends.
pid=$(cat "$tmp/b.pid")
farpage servers drain --cancel "$a"
wait_until 30 volume one "not d['servers'][0]['server_draining']"
kill "$pid"
wait_until 120 gone "$pid"
for text in 'told to stop: clients are asked to move [1-9][0-9]* slabs' 'drained in' stopping; do
    grep -q "$text" "$tmp/b.log" || { cat "$tmp/b.log"; fail "the log does not say: $text"; }
done
for v in one two; do
    wait_until 30 volume $v "d['servers'][1]['state'] != 'up'"
    volume $v "d['servers'][1]['extents'] == 0" || fail "$v: b had some"
done
volume two "d['volume']['extents_degraded'] == 0" || fail "a copy is missing"

# Started again, empty, it is used again.
server b
for v in one two new; do wait_until 60 volume $v "d['servers'][1]['state'] == 'up'"; done
farpage servers drain "$a" >"$tmp/out" 2>&1 || fail "$(cat "$tmp/out")"
for v in one two; do volume $v "d['servers'][0]['extents'] == 0" || fail "$v: a"; done
volume two "d['servers'][1]['extents'] == 6" || fail "b is not used again"

# A second signal ends the drain. So does the server, if its clients have no room
# elsewhere.
touch "$tmp/enough"
wait $io || { cat "$tmp/io.log"; fail "a request failed, or data is wrong"; }
pid=$(cat "$tmp/c.pid")
kill -STOP "$(cat "$tmp/one.pid")"
kill "$pid"
wait_until 30 grep -q 'told to stop' "$tmp/c.log"
kill "$pid"
wait_until 30 gone "$pid"
! grep -qE 'drained in|not drained' "$tmp/c.log" || fail "it waited"
kill -CONT "$(cat "$tmp/one.pid")"
stop "$(cat "$tmp/one.pid")"
pid=$(cat "$tmp/b.pid")
kill "$pid"
wait_until 120 gone "$pid"
grep -q 'not drained: .*, [1-9][0-9]* have no room' "$tmp/b.log" || { cat "$tmp/b.log"; fail "b was drained"; }

# With --backing SIGINT means that the next server takes up what there is.
has_tmpfs || exit 0
dir=$(mktemp -d /dev/shm/farpage-test.XXXXXX)
cleanup_fn rm -rf "$dir"
server d --backing "$dir"
start_nbdkit kept "$FARPAGE_PLUGIN" "unix:$tmp/d.usock" size=2M transport=tcp "$MLOCK"
"$NBDSH" -u "nbd+unix:///?socket=$tmp/kept.sock" -c 'h.pwrite(b"x" * (2 << 20), 0)'
pid=$(cat "$tmp/d.pid")
kill -INT "$pid"
wait_until 30 gone "$pid"
! grep -q 'told to stop' "$tmp/d.log" || { cat "$tmp/d.log"; fail "it drained before a restart"; }
