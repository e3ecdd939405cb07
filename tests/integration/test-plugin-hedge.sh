#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# hedge=p99 over tcp: while one of two servers is slow, reads take as long as on
# the other one, and hedges are counted. Data is right, and a late answer has no
# effect. That also holds while servers are slow or frozen during random
# requests.

# shellcheck source=tests/functions.sh.in
. "$FUNCTIONS"

[ "$NBDSH" != no ] || skip "no nbdsh (Debian: python3-libnbd)"
proxy=$top_builddir/tests/bench/slow-proxy
seed=${SEED:-$RANDOM}
echo "seed=$seed"
RANDOM=$seed
late=500 # ms, longer than usual on any host

pid_of () { cat "$tmp/$1.pid"; }
for s in a b; do
    start_memserver $s --size 64M --slab 1M --reserve 0
    "$proxy" "$(head -n 1 "$tmp/$s.addr")" $late "$tmp/$s.slow" >"$tmp/$s-proxy.log" 2>&1 &
    echo $! >"$tmp/$s-proxy.pid"
    cleanup_fn stop $!
    wait_until 10 test -s "$tmp/$s.slow"
done
plugin () # NAME [ARG...]
{
    local name=$1
    shift
    start_nbdkit "$name" "$FARPAGE_PLUGIN" "$MLOCK" transport=tcp connections=1 timeout=20000 \
        server="$(cat "$tmp/a.slow")" server="$(cat "$tmp/b.slow")" \
        status="$tmp/$name.status" "$@"
}
slow () { kill -USR1 "$(pid_of "$1-proxy")"; }
quick () { kill -USR2 "$(pid_of "$1-proxy")"; }
hedges () # NAME KEY
{
    farpage status --json --socket "$tmp/$1.status" >"$tmp/doc"
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["volume"]["hedges"][sys.argv[2]])' \
        "$tmp/doc" "$2"
}

plugin off copies=2 size=8M
plugin one copies=1 size=8M hedge=p99
plugin on copies=2 size=8M hedge=p99
[ "$(hedges off on) $(hedges one on) $(hedges on on)" = "False False True" ] ||
    fail "who hedges: $(cat "$tmp/doc")"
if farpage status --socket "$tmp/off.status" | grep -q hedges; then fail "off: shown all the same"; fi

# reads.py makes n reads of random blocks, and prints their total time in ms.
cat >"$tmp/reads.py" <<'END'
import os, random, time
rnd = random.Random(int(os.environ["seed"]))
h.connect_uri(os.environ["uri"])
n = int(os.environ["n"])
if "fill" in os.environ:
    for i in range(2048):
        h.pwrite(bytes([i % 251]) * 4096, i * 4096)
start = time.monotonic()
for _ in range(n):
    i = rnd.randrange(2048)
    assert h.pread(4096, i * 4096) == bytes([i % 251]) * 4096, i
print(int((time.monotonic() - start) * 1000))
END
reads () # NAME N [fill=1]
{
    env uri="nbd+unix:///?socket=$tmp/$1.sock" n="$2" seed="$seed" "${@:3}" \
        "$NBDSH" -c - <"$tmp/reads.py"
}
reads off 1 fill=1 >"$tmp/out"
reads on 2000 fill=1 >"$tmp/out" # so that the usual latency is known
echo "usual: 2000 reads in $(cat "$tmp/out") ms"

for s in a b; do
    slow "$s"
    before=$(hedges on sent)
    off=$(reads off 20)
    on=$(reads on 100)
    quick "$s"
    sent=$(($(hedges on sent) - before))
    echo "$s is slow: 20 reads in $off ms; with hedge=p99 100 in $on ms, $sent of them hedged"
    # Without hedging, about half of the reads wait for the whole delay. With
    # it, a few wait for a part of it.
    [ "$off" -ge $((3 * late)) ] || fail "the proxy of $s does nothing"
    if [ "${FARPAGE_BENCH:-}" = yes ]; then
        [ "$on" -lt $((20 * late)) ] || fail "they wait all the same"
        # Once the server is found to be slow, it is not asked.
        if [ $sent -lt 1 ] || [ $sent -gt 30 ]; then fail "$sent hedges"; fi
    fi
    reads on 1500 >"$tmp/out" # so that the server is trusted again
done
[ "$(hedges off sent) $(hedges one sent)" = "0 0" ] || fail "who does not hedge does"
[ "${FARPAGE_BENCH:-}" != yes ] || [ "$(hedges on won)" -gt 0 ] || fail "none was won"
farpage status --socket "$tmp/on.status" | grep -q 'hedges .* sent to another copy' ||
    fail "not shown"

# The volume ends before late answers arrive.
slow a
slow b
reads on 5 >"$tmp/out"
stop "$(pid_of on)"
quick a
quick b

# Servers are slow or frozen during random requests.
plugin mixed copies=2 size=12M hedge=p99 rebuild-delay=0
uri="nbd+unix:///?socket=$tmp/mixed.sock" seed=$seed ops=${OPS:-250} slab=$((1 << 20)) away=1 \
    "$NBDSH" -c - <"$top_srcdir/tests/integration/random-ops.py" >"$tmp/ops.log" 2>&1 &
ops=$!
times=0
while kill -0 $ops 2>/dev/null; do
    servers=(a b)
    s=${servers[RANDOM % 2]}
    if [ $((RANDOM % 3)) = 0 ]; then
        kill -STOP "$(pid_of "$s")"
        sleep "0.$((RANDOM % 4))"
        kill -CONT "$(pid_of "$s")"
    else
        slow "$s"
        sleep "0.$((RANDOM % 9))"
        quick "$s"
    fi
    sleep "0.$((RANDOM % 5))"
    times=$((times + 1))
done
wait $ops || fail "seed=$seed: $(cat "$tmp/ops.log")"
echo "slow or frozen $times times: $(hedges mixed sent) hedges, $(hedges mixed won) won"
