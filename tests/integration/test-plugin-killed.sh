#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdkit is killed again and again during random writes and zeroes to a volume
# with two copies. Sometimes a server stops a moment before. The next client
# finds each acknowledged byte. Of an unfinished write it finds the old or the
# new byte. Both copies are alike. FARPAGE_TEST_ROUNDS and FARPAGE_TEST_SEED set
# the number of rounds and the seed.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
rounds=${FARPAGE_TEST_ROUNDS:-4}
seed=${FARPAGE_TEST_SEED:-$RANDOM}
echo "FARPAGE_TEST_SEED=$seed FARPAGE_TEST_ROUNDS=$rounds"
RANDOM=$seed

cat >"$tmp/write.py" <<'END'
import os, pickle, random, time
import nbd

SIZE, BLOCK = 32 << 20, 4096
rand = random.Random(os.environ["seed"])
state = os.environ["state"]

# The values that may fill each block.
may = {}
if os.path.exists(state):
    with open(state, "rb") as f:
        may = pickle.load(f)
for at in range(0, SIZE, 1 << 20):
    data = h.pread(1 << 20, at)
    for i in range(0, 1 << 20, BLOCK):
        b, found = (at + i) // BLOCK, set(data[i:i + BLOCK])
        if not found <= may.get(b, {0}):
            print("WRONG: block %d: %s, not %s" % (b, found, may.get(b, {0})), flush=True)
            os._exit(1)
        may[b] = found
with open(state, "wb") as f:
    pickle.dump(may, f)
log = open(state + ".log", "wb", buffering=0)

hot = [rand.randrange(SIZE // BLOCK - 32) for _ in range(40)]
flying = {}
def step():
    while len(flying) < 8:
        n = rand.choice([1, 1, 1, 4, 32])
        b = rand.choice(hot) if rand.random() < 0.5 else rand.randrange(SIZE // BLOCK - 32)
        # Two requests at once for one place may end in either order.
        if any(b < x + y and x < b + n for x, y in flying.values()):
            break
        value = rand.randrange(256) if rand.random() < 0.9 else 0
        log.write(b"sent %d %d %d\n" % (b, n, value))
        if value == 0:
            flags = nbd.CMD_FLAG_NO_HOLE if rand.random() < 0.5 else 0
            cookie = h.aio_zero(n * BLOCK, b * BLOCK, flags=flags)
        else:
            data = nbd.Buffer.from_bytearray(bytearray([value]) * (n * BLOCK))
            cookie = h.aio_pwrite(data, b * BLOCK)
        flying[cookie] = (b, n)
    h.poll(50)
    for cookie in list(flying):
        if h.aio_command_completed(cookie):
            log.write(b"done %d %d\n" % flying.pop(cookie))
    if rand.random() < 0.02:
        time.sleep(rand.random() * 0.15)

while True:
    try:
        step()
    except nbd.Error as e:
        if h.aio_is_dead() or h.aio_is_closed():
            os._exit(0) # nbdkit was killed
        print("WRONG: %s" % e, flush=True)
        os._exit(1)
END

# learn.py finds the values that may fill each block from the log.
cat >"$tmp/learn.py" <<'END'
import pickle, sys

with open(sys.argv[1], "rb") as f:
    may = pickle.load(f)
flying = {}
with open(sys.argv[1] + ".log", "rb") as f:
    for line in f:
        what, b, n = line.split()[0], int(line.split()[1]), int(line.split()[2])
        if what == b"sent":
            flying[b, n] = int(line.split()[3])
        for x in range(b, b + n):
            if what == b"sent":
                may[x] = may.get(x, {0}) | {flying[b, n]}
            else:
                may[x] = {flying[b, n]}
with open(sys.argv[1], "wb") as f:
    pickle.dump(may, f)
END

# Succeed if each extent has all its copies. Extents that nbdkit has not yet
# learned of are not counted, so wait for some.
whole ()
{
    farpage status --socket "$tmp/$1.status" --json |
        jq -e ".volume | .extents_degraded == 0 and
            ($i == 0 or .extents_allocated > 0)" >/dev/null
}

for t in tcp shm; do
    servers=()
    for s in a b; do
        start_memserver $t$s --listen "unix:$tmp/$t$s.usock" --size 96M --slab 4M \
                        --reserve 0 --hugepages off
        servers+=("server=unix:$tmp/$t$s.usock")
    done
    state=$tmp/$t.state
    for ((i = 0; i <= rounds; i++)); do
        again=
        if [ $i -gt 0 ]; then again=takeover=true; fi
        rm -f "$tmp/n.sock" "$tmp/n.status"
        start_nbdkit n "$FARPAGE_PLUGIN" "$MLOCK" timeout=20000 connections=2 volume=v \
                     size=32M copies=2 transport=$t "${servers[@]}" status="$tmp/n.status" \
                     ${again:+"$again"}
        wait_until 60 whole n
        if [ $i -gt 0 ]; then
            farpage check "$tmp/n.status" >"$tmp/check" 2>&1 || fail "$t, round $i: $(cat "$tmp/check")"
            grep -q ' 0 differ' "$tmp/check" || fail "$t, round $i: $(cat "$tmp/check")"
            echo "$t, round $i: $(tail -n 1 "$tmp/check")"
        fi
        rm -f "$state.log"
        seed=$seed-$t-$i state=$state "$NBDSH" -u "nbd+unix:///?socket=$tmp/n.sock" \
            -c - <"$tmp/write.py" >"$tmp/write.out" 2>&1 &
        writer=$!
        # The writer reads the whole volume first.
        until [ -s "$state.log" ]; do
            kill -0 $writer 2>/dev/null || fail "$t, round $i: $(cat "$tmp/write.out")"
            sleep 0.05
        done
        sleep 0.$((RANDOM % 90 + 10))
        stopped=
        if [ $t = tcp ]; then
            case $((RANDOM % 3)) in
            0) stopped=$(cat "$tmp/${t}a.pid") ;;
            1) stopped=$(cat "$tmp/${t}b.pid") ;;
            esac
        fi
        if [ -n "$stopped" ]; then
            kill -STOP "$stopped"
            sleep 0.0$((RANDOM % 9))
        fi
        kill_9 "$(cat "$tmp/n.pid")"
        if [ -n "$stopped" ]; then kill -CONT "$stopped"; fi
        wait $writer || fail "$t, round $i: $(cat "$tmp/write.out")"
        /usr/bin/python3 "$tmp/learn.py" "$state"
    done
done
